/* SPDX-License-Identifier: BSD-3-Clause */
/* The host's side of the device interface, in which kernels of the program move the data themselves.
 *
 * Kernels read NCCL's own structures, which only NCCL can make, so every function that makes one is refused. Teams are
 * arithmetic and work: no rank can load and store in another's memory, so the team of the ranks that can (lsa) is the
 * rank alone, and the team across these teams (rail) is all ranks. */
#include <string.h>

#include "nccl/shim.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of functions that only refuse */

static ncclResult_t refuse(const char *function)
{
  return tt_nccl_refuse(tuttiInvalidUsage, "%s: communication from within CUDA kernels is not supported; "
                                           "call the operations from the host", function);
}

/* A program that asks before it uses kernels learns that nothing supports them. */
ncclResult_t pncclCommQueryProperties(ncclComm_t comm, ncclCommProperties_t *properties)
{
  ncclCommProperties_t told = {0};
  const size_t head = offsetof(ncclCommProperties_t, rank);
  if (!properties) return tt_nccl_refuse(tuttiInvalidArgument, "props is NULL: pass a valid pointer");
  if (properties->magic != NCCL_CONFIG_MAGIC || properties->size < head)
    return tt_nccl_refuse(tuttiInvalidArgument, "props was not initialised: begin with ncclCommProperties_t props = "
                                                "NCCL_COMM_PROPERTIES_INITIALIZER");
  tuttiResult_t result = tuttiCommCount(comm, &told.nRanks);
  if (result == tuttiSuccess) result = tuttiCommUserRank(comm, &told.rank);
  if (result == tuttiSuccess) result = pncclCommCuDevice(comm, &told.cudaDev);
  if (result != tuttiSuccess) return tt_nccl_remember(result);
  told.nvmlDev = told.cudaDev;
  told.nLsaTeams = told.nRanks; /* pncclTeamLsa */
  size_t known = properties->size < sizeof told ? properties->size : sizeof told;
  memset((char *)properties + head, 0, properties->size - head);
  memcpy((char *)properties + head, (char *)&told + head, known - head);
  return tuttiSuccess;
}
NCCL_WEAK_NAME(ncclCommQueryProperties);

ncclResult_t pncclDevCommCreate(ncclComm_t comm, const struct ncclDevCommRequirements *wanted,
                                struct ncclDevComm *devcomm)
{
  return refuse("ncclDevCommCreate");
}
NCCL_WEAK_NAME(ncclDevCommCreate);

ncclResult_t pncclDevCommDestroy(ncclComm_t comm, const struct ncclDevComm *devcomm)
{
  return refuse("ncclDevCommDestroy");
}
NCCL_WEAK_NAME(ncclDevCommDestroy);

ncclResult_t pncclLsaBarrierCreateRequirement(ncclTeam_t team, int nbarriers, struct ncclLsaBarrierHandle *handle,
                                              struct ncclDevResourceRequirements *needed)
{
  return refuse("ncclLsaBarrierCreateRequirement");
}
NCCL_WEAK_NAME(ncclLsaBarrierCreateRequirement);

ncclResult_t pncclGinBarrierCreateRequirement(ncclComm_t comm, ncclTeam_t team, int nbarriers,
                                              struct ncclGinBarrierHandle *handle,
                                              struct ncclDevResourceRequirements *needed)
{
  return refuse("ncclGinBarrierCreateRequirement");
}
NCCL_WEAK_NAME(ncclGinBarrierCreateRequirement);

ncclResult_t pncclLLA2ACreateRequirement(int nblocks, int nslots, struct ncclLLA2AHandle *handle,
                                         struct ncclDevResourceRequirements *needed)
{
  return refuse("ncclLLA2ACreateRequirement");
}
NCCL_WEAK_NAME(ncclLLA2ACreateRequirement);

ncclResult_t pncclGinOutboxCreateRequirement(int nblocks, int size_log2, struct ncclGinOutboxHandle *handle,
                                             struct ncclDevResourceRequirements *needed)
{
  return refuse("ncclGinOutboxCreateRequirement");
}
NCCL_WEAK_NAME(ncclGinOutboxCreateRequirement);

ncclResult_t pncclGinInboxA2ACreateRequirement(ncclTeam_t peers, int nblocks, int size_log2,
                                               struct ncclGinInboxA2AHandle *handle,
                                               struct ncclDevResourceRequirements *needed)
{
  return refuse("ncclGinInboxA2ACreateRequirement");
}
NCCL_WEAK_NAME(ncclGinInboxA2ACreateRequirement);

/* These pointers are for kernels that load from another rank's memory. */
ncclResult_t pncclGetLsaDevicePointer(ncclWindow_t window, size_t offset, int rank, void **ptr)
{
  return refuse("ncclGetLsaDevicePointer");
}
NCCL_WEAK_NAME(ncclGetLsaDevicePointer);

ncclResult_t pncclGetPeerDevicePointer(ncclWindow_t window, size_t offset, int peer, void **ptr)
{
  return refuse("ncclGetPeerDevicePointer");
}
NCCL_WEAK_NAME(ncclGetPeerDevicePointer);

ncclResult_t pncclGetLsaMultimemDevicePointer(ncclWindow_t window, size_t offset, void **ptr)
{
  return refuse("ncclGetLsaMultimemDevicePointer");
}
NCCL_WEAK_NAME(ncclGetLsaMultimemDevicePointer);

ncclResult_t pncclGetMultimemDevicePointer(ncclWindow_t window, size_t offset, ncclMultimemHandle_t multimem,
                                           void **ptr)
{
  return refuse("ncclGetMultimemDevicePointer");
}
NCCL_WEAK_NAME(ncclGetMultimemDevicePointer);

/* A slot has 8 bytes of data. */
int pncclLLA2ACalcSlots(int max_elements, int max_element_size)
{
  return max_elements * ((max_element_size + 7) / 8);
}
NCCL_WEAK_NAME(ncclLLA2ACalcSlots);

/* These functions cannot return an error: an unknown communicator has no ranks, and the last error says so. */
ncclTeam_t pncclTeamWorld(ncclComm_t comm)
{
  ncclTeam_t team = {0, 0, 1};
  tuttiResult_t result = tuttiCommCount(comm, &team.nRanks);
  if (result == tuttiSuccess) result = tuttiCommUserRank(comm, &team.rank);
  tt_nccl_result(result);
  return team;
}
NCCL_WEAK_NAME(ncclTeamWorld);

ncclTeam_t pncclTeamLsa(ncclComm_t comm)
{
  return (ncclTeam_t){1, 0, 1};
}
NCCL_WEAK_NAME(ncclTeamLsa);

ncclTeam_t pncclTeamRail(ncclComm_t comm)
{
  return pncclTeamWorld(comm);
}
NCCL_WEAK_NAME(ncclTeamRail);

int pncclTeamRankToWorld(ncclComm_t comm, ncclTeam_t team, int rank)
{
  return pncclTeamWorld(comm).rank + (rank - team.rank) * team.stride;
}
NCCL_WEAK_NAME(ncclTeamRankToWorld);

int pncclTeamRankToLsa(ncclComm_t comm, ncclTeam_t team, int rank)
{
  return pncclTeamLsa(comm).rank + (rank - team.rank) * team.stride;
}
NCCL_WEAK_NAME(ncclTeamRankToLsa);
