/* SPDX-License-Identifier: BSD-3-Clause */
/* The part of nccl.h that gpu_client uses: types and names as NCCL documents them, found by dlsym. */
#ifndef GPU_NCCL_H
#define GPU_NCCL_H

#include <stddef.h>
#include <stdint.h>

typedef struct ncclComm *ncclComm_t;
typedef struct {
  char internal[128];
} ncclUniqueId;

enum { ncclSuccess = 0, ncclInvalidArgument = 4, ncclInvalidUsage = 5, ncclRemoteError = 6, ncclInProgress = 7 };
enum { ncclShrinkAbort = 1 };
enum { ncclInt8, ncclUint8, ncclInt32, ncclUint32, ncclInt64, ncclUint64, ncclFloat16, ncclFloat32, ncclFloat64,
       ncclBfloat16, ncclFloat8e4m3, ncclFloat8e5m2, ncclNumTypes };
enum { ncclSum, ncclProd, ncclMax, ncclMin, ncclAvg };
enum { ncclScalarDevice, ncclScalarHostImmediate };

/* F(result, name, parameters) */
#define NCCL_FUNCTIONS(F)                                                                                            \
  F(ncclGetUniqueId, (ncclUniqueId * id))                                                                            \
  F(ncclCommInitRank, (ncclComm_t * comm, int nranks, ncclUniqueId id, int rank))                                    \
  F(ncclCommInitAll, (ncclComm_t * comms, int ndev, const int *devices))                                             \
  F(ncclCommSplit, (ncclComm_t comm, int color, int key, ncclComm_t * made, void *config))                           \
  F(ncclCommShrink, (ncclComm_t comm, int *exclude, int n, ncclComm_t * made, void *config, int flags))               \
  F(ncclCommFinalize, (ncclComm_t comm))                                                                             \
  F(ncclCommDestroy, (ncclComm_t comm))                                                                              \
  F(ncclCommAbort, (ncclComm_t comm))                                                                                \
  F(ncclCommGetAsyncError, (ncclComm_t comm, int *error))                                                            \
  F(ncclGroupStart, (void))                                                                                          \
  F(ncclGroupEnd, (void))                                                                                            \
  F(ncclAllReduce, (const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, void *stream))       \
  F(ncclReduce, (const void *in, void *out, size_t count, int type, int op, int root, ncclComm_t comm, void *stream)) \
  F(ncclBroadcast, (const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, void *stream))     \
  F(ncclBcast, (void *buffer, size_t count, int type, int root, ncclComm_t comm, void *stream))                      \
  F(ncclAllGather, (const void *in, void *out, size_t count, int type, ncclComm_t comm, void *stream))               \
  F(ncclReduceScatter, (const void *in, void *out, size_t count, int type, int op, ncclComm_t comm, void *stream))   \
  F(ncclAlltoAll, (const void *in, void *out, size_t count, int type, ncclComm_t comm, void *stream))                \
  F(ncclGather, (const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, void *stream))        \
  F(ncclScatter, (const void *in, void *out, size_t count, int type, int root, ncclComm_t comm, void *stream))       \
  F(ncclSend, (const void *in, size_t count, int type, int peer, ncclComm_t comm, void *stream))                     \
  F(ncclRecv, (void *out, size_t count, int type, int peer, ncclComm_t comm, void *stream))                          \
  F(ncclRedOpCreatePreMulSum, (int *op, void *scalar, int type, int residence, ncclComm_t comm))                     \
  F(ncclRedOpDestroy, (int op, ncclComm_t comm))

#define NCCL_DECLARE(name, parameters) int name parameters;
NCCL_FUNCTIONS(NCCL_DECLARE)
#undef NCCL_DECLARE

/* More than 25 fields with what is to come: each is a function. */
struct nccl {
#define NCCL_FIELD(name, parameters) int(*name) parameters;
  NCCL_FUNCTIONS(NCCL_FIELD)
#undef NCCL_FIELD
};

#endif
