/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator that pauses: what it holds, and what of that it gives back meanwhile. */
#include "comm/private.h"
#include "cuda/stream.h"

tuttiResult_t tt_comm_suspend(struct tuttiComm *comm, int releases)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = tt_views_refuse(comm, "suspends");
  if (result == tuttiSuccess) result = tt_comm_drain(comm);
  if (result == tuttiSuccess) {
    tt_comm_own(comm);
    if (releases) {
      tt_run_trim(comm->parts.run);
      tt_codes_free(&comm->calls.codes);
    }
    tt_comm_disown(comm);
    atomic_store(&comm->life.state, TT_COMM_SUSPENDED);
  }
  tt_comm_exit(comm);
  return result;
}

tuttiResult_t tt_comm_resume(struct tuttiComm *comm)
{
  int suspended = TT_COMM_SUSPENDED;
  if (atomic_compare_exchange_strong(&comm->life.state, &suspended, TT_COMM_READY)) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "comm is not suspended: there is nothing to resume");
}

tuttiResult_t tt_comm_held(struct tuttiComm *comm, struct tt_held *held)
{
  tuttiResult_t result = tt_comm_check(comm);
  int is_suspended = result == tuttiSuccess && atomic_load(&comm->life.state) == TT_COMM_SUSPENDED;
  if (result == tuttiSuccess && !is_suspended) result = tt_comm_ready_check(comm);
  if (result != tuttiSuccess) return result;
  *held = (struct tt_held){.is_suspended = is_suspended};
  if (!tt_comm_enter(comm)) return tuttiSuccess;
  tt_comm_own(comm);
  held->spare = (comm->parts.run ? tt_run_held(comm->parts.run) : 0) + tt_codes_held(&comm->calls.codes);
  for (int t = 0; t < comm->parts.ntransports; t++)
    if (comm->parts.transports[t]) held->rest += comm->parts.transports[t]->ops->held(comm->parts.transports[t]);
  if (comm->parts.slots) held->rest += (TT_SLOTS + TT_OWN_SLOTS) * comm->parts.slots->bytes;
  tt_comm_disown(comm);
  tt_comm_exit(comm);
  return tuttiSuccess;
}
