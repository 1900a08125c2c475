/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators: made, divided, asked and ended. */
#include <string.h>

#include "nccl/shim.h"

#define RANKS_OF_PROCESS 1024 /* most that one group can make */

ncclResult_t pncclGetUniqueId(ncclUniqueId *id)
{
  return tt_nccl_result(tuttiGetUniqueId(id));
}
NCCL_WEAK_NAME(ncclGetUniqueId);

ncclResult_t pncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank, ncclConfig_t *config)
{
  struct tt_nccl_config storage;
  tuttiConfig_t *options;
  ncclResult_t result = tt_nccl_config(&storage, &options, config);
  if (result == tuttiSuccess && !options) {
    storage.config = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
    options = &storage.config;
  }
  if (result == tuttiSuccess) result = tt_nccl_cuda_look(options);
  if (result == tuttiSuccess) result = tuttiCommInitRankConfig(comm, nranks, id, rank, options);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclCommInitRankConfig);

ncclResult_t pncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
  return pncclCommInitRankConfig(comm, nranks, id, rank, NULL);
}
NCCL_WEAK_NAME(ncclCommInitRank);

/* Several ids only share the load of NCCL's start-up; here one rendezvous, that of the first id, is enough. */
ncclResult_t pncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids, ncclUniqueId *ids,
                                       ncclConfig_t *config)
{
  ncclUniqueId first;
  if (!ids) return tt_nccl_refuse(tuttiInvalidArgument, "ids is NULL: pass nId unique ids");
  if (nids < 1 || nids > nranks)
    return tt_nccl_refuse(tuttiInvalidArgument, "nId is %d: it must be from 1 to nranks = %d", nids, nranks);
  memcpy(&first, ids, sizeof first);
  return pncclCommInitRankConfig(comm, nranks, first, rank, config);
}
NCCL_WEAK_NAME(ncclCommInitRankScalable);

/* Several ranks may have the same device. Without GPUs these are numbers that ncclCommCuDevice returns again. */
ncclResult_t pncclCommInitAll(ncclComm_t *comms, int ndev, const int *devlist)
{
  int devices[RANKS_OF_PROCESS];
  tuttiResult_t looked = tt_nccl_cuda_look(NULL);
  if (looked != tuttiSuccess) return tt_nccl_result(looked);
  for (int d = 0; d < ndev && d < RANKS_OF_PROCESS; d++) {
    devices[d] = devlist ? devlist[d] : d;
    if (devices[d] < 0) return tt_nccl_refuse(tuttiInvalidArgument, "devlist[%d] is %d: no device", d, devices[d]);
  }
  return tt_nccl_result(tuttiCommInitAll(comms, ndev, ndev > RANKS_OF_PROCESS ? devlist : devices));
}
NCCL_WEAK_NAME(ncclCommInitAll);

/* Split and shrink, when they do not block, return the new communicator at once. */
static ncclResult_t made(tuttiResult_t result, ncclComm_t parent, const ncclComm_t *child)
{
  if (result == tuttiInProgress && *child) tt_nccl_pending_add(parent, *child);
  return tt_nccl_result(result);
}

ncclResult_t pncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm, ncclConfig_t *config)
{
  struct tt_nccl_config storage;
  tuttiConfig_t *options;
  ncclResult_t result = tt_nccl_config(&storage, &options, config);
  if (result == tuttiSuccess) result = tuttiCommSplit(comm, color, key, newcomm, options);
  return made(result, comm, newcomm);
}
NCCL_WEAK_NAME(ncclCommSplit);

ncclResult_t pncclCommShrink(ncclComm_t comm, int *exclude, int nexclude, ncclComm_t *newcomm, ncclConfig_t *config,
                             int flags)
{
  struct tt_nccl_config storage;
  tuttiConfig_t *options;
  ncclResult_t result = tt_nccl_config(&storage, &options, config);
  if (result == tuttiSuccess) result = tuttiCommShrink(comm, exclude, nexclude, newcomm, options, flags);
  return made(result, comm, newcomm);
}
NCCL_WEAK_NAME(ncclCommShrink);

ncclResult_t pncclCommCount(const ncclComm_t comm, int *count)
{
  return tt_nccl_result(tuttiCommCount(comm, count));
}
NCCL_WEAK_NAME(ncclCommCount);

ncclResult_t pncclCommUserRank(const ncclComm_t comm, int *rank)
{
  return tt_nccl_result(tuttiCommUserRank(comm, rank));
}
NCCL_WEAK_NAME(ncclCommUserRank);

/* Without a GPU there is no device, but a program that hands the number to CUDA needs one; 0 is the first of any
 * thread. */
ncclResult_t pncclCommCuDevice(const ncclComm_t comm, int *device)
{
  tuttiResult_t result = tuttiCommDevice(comm, device);
  if (result == tuttiSuccess && *device < 0) *device = 0;
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclCommCuDevice);

ncclResult_t pncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
  tuttiResult_t result = tuttiCommGetAsyncError(comm, state);
  if (result != tuttiSuccess) return tt_nccl_remember(result);
  if (*state == tuttiSuccess) *state = tt_nccl_pending_state(comm);
  else tt_nccl_result(*state);
  return tuttiSuccess;
}
NCCL_WEAK_NAME(ncclCommGetAsyncError);

ncclResult_t pncclCommFinalize(ncclComm_t comm)
{
  return comm ? tt_nccl_result(tuttiCommFinalize(comm)) : tuttiSuccess;
}
NCCL_WEAK_NAME(ncclCommFinalize);

ncclResult_t pncclCommDestroy(ncclComm_t comm)
{
  tt_nccl_pending_remove(comm);
  tt_nccl_windows_free(comm);
  return tt_nccl_result(tuttiCommDestroy(comm));
}
NCCL_WEAK_NAME(ncclCommDestroy);

ncclResult_t pncclCommAbort(ncclComm_t comm)
{
  tt_nccl_pending_remove(comm);
  tt_nccl_windows_free(comm);
  return tt_nccl_result(tuttiCommAbort(comm));
}
NCCL_WEAK_NAME(ncclCommAbort);

ncclResult_t pncclCommRevoke(ncclComm_t comm, int flags)
{
  return comm ? tt_nccl_result(tuttiCommRevoke(comm, flags)) : tuttiSuccess;
}
NCCL_WEAK_NAME(ncclCommRevoke);

/* ---- a communicator that grows ---- */

ncclResult_t pncclCommGetUniqueId(ncclComm_t comm, ncclUniqueId *id)
{
  return tt_nccl_result(tuttiCommGetUniqueId(comm, id));
}
NCCL_WEAK_NAME(ncclCommGetUniqueId);

/* A new rank binds the device that is current, as with ncclCommInitRankConfig. */
ncclResult_t pncclCommGrow(ncclComm_t comm, int nranks, const ncclUniqueId *id, int rank, ncclComm_t *newcomm,
                           ncclConfig_t *config)
{
  if (!comm && id) return pncclCommInitRankConfig(newcomm, nranks, *id, rank, config);
  struct tt_nccl_config storage;
  tuttiConfig_t *options;
  ncclResult_t result = tt_nccl_config(&storage, &options, config);
  if (result == tuttiSuccess) result = tuttiCommGrow(comm, nranks, id, rank, newcomm, options);
  return comm ? made(result, comm, newcomm) : tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclCommGrow);

/* ---- a communicator that pauses ---- */

ncclResult_t pncclCommSuspend(ncclComm_t comm, int flags)
{
  return tt_nccl_result(tuttiCommSuspend(comm, flags));
}
NCCL_WEAK_NAME(ncclCommSuspend);

ncclResult_t pncclCommResume(ncclComm_t comm)
{
  return tt_nccl_result(tuttiCommResume(comm));
}
NCCL_WEAK_NAME(ncclCommResume);

/* Operations work on host memory, so the statistics are of host memory. */
ncclResult_t pncclCommMemStats(ncclComm_t comm, ncclCommMemStat_t stat, uint64_t *value)
{
  return tt_nccl_result(tuttiCommMemStats(comm, stat, value));
}
NCCL_WEAK_NAME(ncclCommMemStats);
