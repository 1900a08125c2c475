/* SPDX-License-Identifier: BSD-3-Clause */
/* The binary interface of NCCL 2.28.9 (-DOF_2_28), and what 2.29 to 2.30.7 added (-DOF_2_30). Each is compiled against
 * NVIDIA's header of that version (-DNCCL_HEADER='<nccl.h>' -DNAME_PREFIX=nccl -DFUNCTION_PREFIX=nccl
 * -DSTAT_PREFIX=ncclStatGpuMem), and both against ours ('"nccl/abi.h"', tutti, pnccl, tuttiStatMem): a difference does
 * not compile. */
#include NCCL_HEADER

#include <stddef.h>

#define PASTE(prefix, name) prefix##name
#define PASTED(prefix, name) PASTE(prefix, name)
#define VALUE(name, number) _Static_assert(PASTED(NAME_PREFIX, name) == (number), #name)
#define SIZE(type, bytes) _Static_assert(sizeof(type) == (bytes), #type)
#define PLACE(type, field, bytes) \
  _Static_assert(offsetof(type, field) == (bytes) && sizeof(((type *)0)->field) == 4, #field)
#define POINTER_PLACE(type, field, bytes) _Static_assert(offsetof(type, field) == (bytes), #field)
#define TYPE(result, name, ...) \
  _Static_assert(__builtin_types_compatible_p(__typeof__(PASTED(FUNCTION_PREFIX, name)), result(__VA_ARGS__)), #name)
#define CALL(name, ...) TYPE(ncclResult_t, name, __VA_ARGS__)

#ifdef OF_2_30
SIZE(ncclConfig_t, 96);
#else
SIZE(ncclConfig_t, 80);
#endif

#ifdef OF_2_28
SIZE(ncclUniqueId, 128);
_Static_assert(_Alignof(ncclUniqueId) == 1, "an id lies anywhere");
SIZE(ncclComm_t, 8);
SIZE(ncclWindow_t, 8);
SIZE(cudaStream_t, 8);
SIZE(ncclResult_t, 4);
SIZE(ncclDataType_t, 4);
SIZE(ncclRedOp_t, 4);
SIZE(ncclScalarResidence_t, 4);
_Static_assert(NCCL_VERSION_CODE == 22809, "version");
_Static_assert(NCCL_CONFIG_UNDEF_INT == -2147483647 - 1, "undefined");
_Static_assert(NCCL_WIN_COLL_SYMMETRIC == 1, "window flag");

POINTER_PLACE(ncclConfig_t, size, 0);
PLACE(ncclConfig_t, magic, 8);
PLACE(ncclConfig_t, version, 12);
PLACE(ncclConfig_t, blocking, 16);
PLACE(ncclConfig_t, cgaClusterSize, 20);
PLACE(ncclConfig_t, minCTAs, 24);
PLACE(ncclConfig_t, maxCTAs, 28);
POINTER_PLACE(ncclConfig_t, netName, 32);
PLACE(ncclConfig_t, splitShare, 40);
PLACE(ncclConfig_t, trafficClass, 44);
POINTER_PLACE(ncclConfig_t, commName, 48);
PLACE(ncclConfig_t, collnetEnable, 56);
PLACE(ncclConfig_t, CTAPolicy, 60);
PLACE(ncclConfig_t, shrinkShare, 64);
PLACE(ncclConfig_t, nvlsCTAs, 68);
PLACE(ncclConfig_t, nChannelsPerNetPeer, 72);
PLACE(ncclConfig_t, nvlinkCentricSched, 76);

SIZE(ncclSimInfo_t, 24);
POINTER_PLACE(ncclSimInfo_t, size, 0);
PLACE(ncclSimInfo_t, magic, 8);
PLACE(ncclSimInfo_t, version, 12);
PLACE(ncclSimInfo_t, estimatedTime, 16);

VALUE(Success, 0);
VALUE(UnhandledCudaError, 1);
VALUE(SystemError, 2);
VALUE(InternalError, 3);
VALUE(InvalidArgument, 4);
VALUE(InvalidUsage, 5);
VALUE(RemoteError, 6);
VALUE(InProgress, 7);
VALUE(NumResults, 8);

VALUE(Int8, 0);
VALUE(Char, 0);
VALUE(Uint8, 1);
VALUE(Int32, 2);
VALUE(Int, 2);
VALUE(Uint32, 3);
VALUE(Int64, 4);
VALUE(Uint64, 5);
VALUE(Float16, 6);
VALUE(Half, 6);
VALUE(Float32, 7);
VALUE(Float, 7);
VALUE(Float64, 8);
VALUE(Double, 8);
VALUE(Bfloat16, 9);
VALUE(Float8e4m3, 10);
VALUE(Float8e5m2, 11);
#ifdef NCCL_MAJOR
VALUE(NumTypes, 12);
#endif

VALUE(Sum, 0);
VALUE(Prod, 1);
VALUE(Max, 2);
VALUE(Min, 3);
VALUE(Avg, 4);
#ifdef NCCL_MAJOR
VALUE(NumOps, 5);
#endif
VALUE(MaxRedOp, 0x7fffffff);
VALUE(ScalarDevice, 0);
VALUE(ScalarHostImmediate, 1);

CALL(MemAlloc, void **, size_t);
CALL(MemFree, void *);
CALL(GetVersion, int *);
CALL(GetUniqueId, ncclUniqueId *);
CALL(CommInitRankConfig, ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
CALL(CommInitRank, ncclComm_t *, int, ncclUniqueId, int);
CALL(CommInitAll, ncclComm_t *, int, const int *);
CALL(CommInitRankScalable, ncclComm_t *, int, int, int, ncclUniqueId *, ncclConfig_t *);
CALL(CommFinalize, ncclComm_t);
CALL(CommDestroy, ncclComm_t);
CALL(CommAbort, ncclComm_t);
CALL(CommRevoke, ncclComm_t, int);
CALL(CommSplit, ncclComm_t, int, int, ncclComm_t *, ncclConfig_t *);
CALL(CommShrink, ncclComm_t, int *, int, ncclComm_t *, ncclConfig_t *, int);
TYPE(const char *, GetErrorString, ncclResult_t);
TYPE(const char *, GetLastError, ncclComm_t);
CALL(CommGetAsyncError, ncclComm_t, ncclResult_t *);
CALL(CommCount, const ncclComm_t, int *);
CALL(CommCuDevice, const ncclComm_t, int *);
CALL(CommUserRank, const ncclComm_t, int *);
CALL(CommRegister, const ncclComm_t, void *, size_t, void **);
CALL(CommDeregister, const ncclComm_t, void *);
CALL(CommWindowRegister, ncclComm_t, void *, size_t, ncclWindow_t *, int);
CALL(CommWindowDeregister, ncclComm_t, ncclWindow_t);
CALL(RedOpCreatePreMulSum, ncclRedOp_t *, void *, ncclDataType_t, ncclScalarResidence_t, ncclComm_t);
CALL(RedOpDestroy, ncclRedOp_t, ncclComm_t);
CALL(Reduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int, ncclComm_t, cudaStream_t);
CALL(Bcast, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(Broadcast, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(AllReduce, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
CALL(ReduceScatter, const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, ncclComm_t, cudaStream_t);
CALL(AllGather, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
CALL(AlltoAll, const void *, void *, size_t, ncclDataType_t, ncclComm_t, cudaStream_t);
CALL(Gather, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(Scatter, const void *, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(Send, const void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(Recv, void *, size_t, ncclDataType_t, int, ncclComm_t, cudaStream_t);
CALL(GroupStart, void);
CALL(GroupEnd, void);
CALL(GroupSimulateEnd, ncclSimInfo_t *);
#endif

#ifdef OF_2_30
PLACE(ncclConfig_t, graphUsageMode, 80);
PLACE(ncclConfig_t, numRmaCtx, 84);
PLACE(ncclConfig_t, maxP2pPeers, 88);
PLACE(ncclConfig_t, graphStreamOrdering, 92);

SIZE(ncclWaitSignalDesc_t, 16);
PLACE(ncclWaitSignalDesc_t, opCnt, 0);
PLACE(ncclWaitSignalDesc_t, peer, 4);
PLACE(ncclWaitSignalDesc_t, sigIdx, 8);
PLACE(ncclWaitSignalDesc_t, ctx, 12);

SIZE(ncclParamHandle_t, 8);
SIZE(ncclCommMemStat_t, 4);
#define STAT(name, number) _Static_assert(PASTED(STAT_PREFIX, name) == (number), #name)
STAT(Suspend, 0);
STAT(Suspended, 1);
STAT(Persist, 2);
STAT(Total, 3);
_Static_assert(NCCL_WIN_STRICT_ORDERING == 2, "window flag");

CALL(CommGetUniqueId, ncclComm_t, ncclUniqueId *);
CALL(CommGrow, ncclComm_t, int, const ncclUniqueId *, int, ncclComm_t *, ncclConfig_t *);
CALL(CommSuspend, ncclComm_t, int);
CALL(CommResume, ncclComm_t);
CALL(CommMemStats, ncclComm_t, ncclCommMemStat_t, uint64_t *);
CALL(WinGetUserPtr, ncclComm_t, ncclWindow_t, void **);
CALL(PutSignal, const void *, size_t, ncclDataType_t, int, ncclWindow_t, size_t, int, int, unsigned, ncclComm_t,
     cudaStream_t);
CALL(Signal, int, int, int, unsigned, ncclComm_t, cudaStream_t);
CALL(WaitSignal, int, ncclWaitSignalDesc_t *, ncclComm_t, cudaStream_t);
CALL(ParamBind, ncclParamHandle_t *, const char *);
CALL(ParamGetI8, ncclParamHandle_t, int8_t *);
CALL(ParamGetI16, ncclParamHandle_t, int16_t *);
CALL(ParamGetI32, ncclParamHandle_t, int32_t *);
CALL(ParamGetI64, ncclParamHandle_t, int64_t *);
CALL(ParamGetU8, ncclParamHandle_t, uint8_t *);
CALL(ParamGetU16, ncclParamHandle_t, uint16_t *);
CALL(ParamGetU32, ncclParamHandle_t, uint32_t *);
CALL(ParamGetU64, ncclParamHandle_t, uint64_t *);
CALL(ParamGetStr, ncclParamHandle_t, const char **);
CALL(ParamGet, ncclParamHandle_t, void *, int, int *);
CALL(ParamGetParameter, const char *, const char **, int *);
CALL(ParamGetAllParameterKeys, const char ***, int *);
TYPE(void, ParamDumpAll, void);
#endif
