/* SPDX-License-Identifier: BSD-3-Clause */
/* The binary interface of NCCL 2.28.9 as its programs see it, and the names that NCCL added up to 2.30.7: sizes,
 * offsets, values and prototypes.
 *
 * Tutti's handles, results, types and operations have NCCL's values, so they are the same types here. This file was
 * written from the documented interface; tests/nccl/facts.c compares it with NVIDIA's headers where they are there. */
#ifndef TT_NCCL_ABI_H
#define TT_NCCL_ABI_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tutti.h"

#define NCCL_VERSION_CODE 22809

typedef tuttiComm_t ncclComm_t;
typedef tuttiUniqueId ncclUniqueId;
typedef tuttiResult_t ncclResult_t;
typedef tuttiDataType_t ncclDataType_t;
typedef tuttiRedOp_t ncclRedOp_t;
typedef tuttiScalarResidence_t ncclScalarResidence_t;
typedef tuttiCommMemStat_t ncclCommMemStat_t; /* ncclStatGpuMemX is tuttiStatMemX */
typedef struct ncclWindow_vidmem *ncclWindow_t;
typedef struct CUstream_st *cudaStream_t;

#define NCCL_CONFIG_UNDEF_INT INT_MIN
#define NCCL_CONFIG_MAGIC 0xcafebeefu
#define NCCL_WIN_COLL_SYMMETRIC 0x01
#define NCCL_WIN_STRICT_ORDERING 0x02
#define NCCL_TIMEOUT 8 /* ncclTimeout: a result that is never returned here; programs of 2.28 do not know it */

/* NCCL extends this struct only at its end; `size` says how much of it the program knows, `version` which fields. */
typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int blocking;
  int cgaClusterSize;
  int minCTAs;
  int maxCTAs;
  const char *netName;
  int splitShare;
  int trafficClass;
  const char *commName;
  int collnetEnable;
  int CTAPolicy;
  int shrinkShare;
  int nvlsCTAs;
  int nChannelsPerNetPeer;
  int nvlinkCentricSched;
  int graphUsageMode;
  int numRmaCtx;
  int maxP2pPeers;
  int graphStreamOrdering;
} ncclConfig_t;

typedef struct {
  size_t size;
  unsigned int magic;
  unsigned int version;
  float estimatedTime;
} ncclSimInfo_t;

typedef struct {
  int nRanks, rank, stride;
} ncclTeam_t;

typedef struct {
  int opCnt, peer, sigIdx, ctx;
} ncclWaitSignalDesc_t;

typedef struct ncclParamHandle *ncclParamHandle_t;

/* NCCL extends this struct only at its end, too. */
typedef struct ncclCommProperties {
  size_t size;
  unsigned int magic;
  unsigned int version;
  int rank, nRanks, cudaDev, nvmlDev;
  bool deviceApiSupport, multimemSupport;
  int ginType;
  int nLsaTeams;
  bool hostRmaSupport;
  int railedGinType;
} ncclCommProperties_t;

typedef struct ncclMultimemHandle {
  void *mcBasePtr;
} ncclMultimemHandle_t;

/* Structures of the device interface, which are opaque here. */
struct ncclDevComm;
struct ncclDevCommRequirements;
struct ncclDevResourceRequirements;
struct ncclLsaBarrierHandle;
struct ncclGinBarrierHandle;
struct ncclLLA2AHandle;
struct ncclGinOutboxHandle;
struct ncclGinInboxA2AHandle;

#pragma GCC visibility push(default)

ncclResult_t pncclMemAlloc(void **ptr, size_t size);
ncclResult_t pncclMemFree(void *ptr);
ncclResult_t pncclGetVersion(int *version);
ncclResult_t pncclGetUniqueId(ncclUniqueId *id);
ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config);
ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank);
ncclResult_t pncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist);
ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids,
                                       ncclConfig_t *config);
ncclResult_t pncclCommFinalize(ncclComm_t comm);
ncclResult_t pncclCommDestroy(ncclComm_t comm);
ncclResult_t pncclCommAbort(ncclComm_t comm);
ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags);
ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config);
ncclResult_t pncclCommShrink(ncclComm_t comm, int *exclude, int nexclude, ncclComm_t *newcomm, ncclConfig_t *config,
                             int flags);
ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id);
ncclResult_t pncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                           ncclConfig_t *config);
ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags);
ncclResult_t pncclCommResume(ncclComm_t comm);
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value);
const char *pncclGetErrorString(ncclResult_t result);
const char *pncclGetLastError(ncclComm_t comm);
void pncclResetDebugInit(void);
void ncclResetDebugInitInternal(void);
ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
ncclResult_t pncclCommCount(const ncclComm_t comm, int *count);
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device);
ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank);
ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle);
ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle);
ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *window, int flags);
ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window);
ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr);
ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm);
ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm);

ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, ncclRedOp_t op,
                         int root, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t type, int root, ncclComm_t comm,
                        cudaStream_t stream);
ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream);
ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, int root,
                          ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);
ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream);

ncclResult_t pncclPutSignal(const void *localbuff, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                            size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                            cudaStream_t stream);
ncclResult_t pncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream);
ncclResult_t pncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, ncclComm_t comm, cudaStream_t stream);

ncclResult_t pncclGroupStart(void);
ncclResult_t pncclGroupEnd(void);
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info);

ncclResult_t pncclParamBind(ncclParamHandle_t *handle, const char *key);
ncclResult_t pncclParamGetI8(ncclParamHandle_t handle, int8_t *value);
ncclResult_t pncclParamGetI16(ncclParamHandle_t handle, int16_t *value);
ncclResult_t pncclParamGetI32(ncclParamHandle_t handle, int32_t *value);
ncclResult_t pncclParamGetI64(ncclParamHandle_t handle, int64_t *value);
ncclResult_t pncclParamGetU8(ncclParamHandle_t handle, uint8_t *value);
ncclResult_t pncclParamGetU16(ncclParamHandle_t handle, uint16_t *value);
ncclResult_t pncclParamGetU32(ncclParamHandle_t handle, uint32_t *value);
ncclResult_t pncclParamGetU64(ncclParamHandle_t handle, uint64_t *value);
ncclResult_t pncclParamGetStr(ncclParamHandle_t handle, const char **value);
ncclResult_t pncclParamGet(ncclParamHandle_t handle, void *value, int room, int *len);
ncclResult_t pncclParamGetParameter(const char *key, const char **value, int *len);
ncclResult_t pncclParamGetAllParameterKeys(const char ***table, int *count);
void pncclParamDumpAll(void);

ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties);
ncclResult_t pncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *wanted,
                                struct ncclDevComm *devcomm);
ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *devcomm);
ncclTeam_t pncclTeamWorld(ncclComm_t comm);
ncclTeam_t pncclTeamLsa(ncclComm_t comm);
ncclTeam_t pncclTeamRail(ncclComm_t comm);
int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank);
int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank);
ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nbarriers, struct ncclLsaBarrierHandle *handle,
                                              struct ncclDevResourceRequirements *needed);
ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nbarriers,
                                              struct ncclGinBarrierHandle *handle,
                                              struct ncclDevResourceRequirements *needed);
int pncclLLA2ACalcSlots(int max_elements, int max_element_size);
ncclResult_t pncclLLA2ACreateRequirement(int nblocks, int nslots, struct ncclLLA2AHandle *handle,
                                         struct ncclDevResourceRequirements *needed);
ncclResult_t pncclGinOutboxCreateRequirement(int nblocks, int size_log2, struct ncclGinOutboxHandle *handle,
                                             struct ncclDevResourceRequirements *needed);
ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nblocks, int size_log2,
                                               struct ncclGinInboxA2AHandle *handle,
                                               struct ncclDevResourceRequirements *needed);
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **ptr);
ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **ptr);
ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **ptr);
ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                           void **ptr);

#pragma GCC visibility pop

/* Every pncclX has the weak name ncclX, so that a profiler may take its place and call pncclX. */
#define NCCL_WEAK_NAME(name) \
  extern __typeof__(p##name) name __attribute__((weak, alias("p" #name), visibility("default")))

#endif
