/* SPDX-License-Identifier: BSD-3-Clause */
/* The same for the host's side of the device interface: against NVIDIA's header as C++, for it is nothing else
 * (-DNCCL_HEADER='<nccl_device.h>' -DFUNCTION_PREFIX=nccl), and against ours as C ('"nccl/abi.h"', pnccl). */
#include <stddef.h>

#include NCCL_HEADER

#ifdef __cplusplus
#define _Static_assert static_assert
#else
typedef struct ncclDevCommRequirements ncclDevCommRequirements;
typedef struct ncclDevComm ncclDevComm;
typedef struct ncclLsaBarrierHandle ncclLsaBarrierHandle;
typedef struct ncclGinBarrierHandle ncclGinBarrierHandle;
typedef struct ncclLLA2AHandle ncclLLA2AHandle;
typedef struct ncclDevResourceRequirements ncclDevResourceRequirements;
#endif

#define PASTE(prefix, name) prefix##name
#define PASTED(prefix, name) PASTE(prefix, name)
#define CALL(result, name, ...) \
  extern result (*const check##name)(__VA_ARGS__); \
  result (*const check##name)(__VA_ARGS__) = PASTED(FUNCTION_PREFIX, name)

_Static_assert(sizeof(ncclTeam_t) == 12, "ncclTeam_t");
_Static_assert(offsetof(ncclTeam_t, nRanks) == 0, "nRanks");
_Static_assert(offsetof(ncclTeam_t, rank) == 4, "rank");
_Static_assert(offsetof(ncclTeam_t, stride) == 8, "stride");

CALL(ncclResult_t, DevCommCreate, ncclComm_t, const ncclDevCommRequirements *, ncclDevComm *);
CALL(ncclResult_t, DevCommDestroy, ncclComm_t, const ncclDevComm *);
CALL(ncclTeam_t, TeamWorld, ncclComm_t);
CALL(ncclTeam_t, TeamLsa, ncclComm_t);
CALL(ncclTeam_t, TeamRail, ncclComm_t);
CALL(int, TeamRankToWorld, ncclComm_t, ncclTeam_t, int);
CALL(int, TeamRankToLsa, ncclComm_t, ncclTeam_t, int);
CALL(ncclResult_t, LsaBarrierCreateRequirement, ncclTeam_t, int, ncclLsaBarrierHandle *,
     ncclDevResourceRequirements *);
CALL(ncclResult_t, GinBarrierCreateRequirement, ncclComm_t, ncclTeam_t, int, ncclGinBarrierHandle *,
     ncclDevResourceRequirements *);
CALL(int, LLA2ACalcSlots, int, int);
CALL(ncclResult_t, LLA2ACreateRequirement, int, int, ncclLLA2AHandle *, ncclDevResourceRequirements *);

#ifdef LATER /* than 2.28: ours, and NVIDIA's of 2.30.7 */
#define PLACE(field, bytes) _Static_assert(offsetof(ncclCommProperties_t, field) == (bytes), #field)
_Static_assert(sizeof(ncclCommProperties_t) == 56, "ncclCommProperties_t");
PLACE(size, 0);
PLACE(magic, 8);
PLACE(version, 12);
PLACE(rank, 16);
PLACE(nRanks, 20);
PLACE(cudaDev, 24);
PLACE(nvmlDev, 28);
PLACE(deviceApiSupport, 32);
PLACE(multimemSupport, 33);
PLACE(ginType, 36);
PLACE(nLsaTeams, 40);
PLACE(hostRmaSupport, 44);
PLACE(railedGinType, 48);
_Static_assert(sizeof(ncclMultimemHandle_t) == 8, "ncclMultimemHandle_t");

CALL(ncclResult_t, CommQueryProperties, ncclComm_t, ncclCommProperties_t *);
CALL(ncclResult_t, GetLsaDevicePointer, ncclWindow_t, size_t, int, void **);
CALL(ncclResult_t, GetPeerDevicePointer, ncclWindow_t, size_t, int, void **);
CALL(ncclResult_t, GetLsaMultimemDevicePointer, ncclWindow_t, size_t, void **);
CALL(ncclResult_t, GetMultimemDevicePointer, ncclWindow_t, size_t, ncclMultimemHandle_t, void **);
#endif
