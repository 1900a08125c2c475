/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator that pauses: what it holds, and what of that it gives back meanwhile. */
#include "comm/comm.h"

tuttiResult_t tt_comm_suspend(struct tuttiComm *comm, int releases)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = tt_comm_drain(comm);
  if (result == tuttiSuccess) {
    tt_comm_own(comm);
    if (releases) tt_run_trim(comm->run);
    tt_comm_disown(comm);
    atomic_store(&comm->state, TT_COMM_SUSPENDED);
  }
  tt_comm_exit(comm);
  return result;
}

void tt_comm_held(struct tuttiComm *comm, uint64_t *spare, uint64_t *rest)
{
  *spare = *rest = 0;
  if (!tt_comm_enter(comm)) return;
  tt_comm_own(comm);
  *spare = tt_run_held(comm->run);
  for (int t = 0; t < comm->ntransports; t++)
    if (comm->transports[t]) *rest += comm->transports[t]->ops->held(comm->transports[t]);
  tt_comm_disown(comm);
  tt_comm_exit(comm);
}
