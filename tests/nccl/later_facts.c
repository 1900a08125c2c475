/* SPDX-License-Identifier: BSD-3-Clause */
/* What NCCL 2.29 to 2.30.7 added to the binary interface, compiled as facts.c is, against our header and NVIDIA's of
 * 2.30.7 (-DSTAT_PREFIX=tuttiStatMem or ncclStatGpuMem). */
#include "facts.h"

SIZE(ncclConfig_t, 96);
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
