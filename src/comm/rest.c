/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping while a communicator is being created: many ranks that wait must not take the cores from those that work. */
#include "comm/creation_private.h"

#define LOOKS 2           /* before the first sleep */
#define REST_NS 50000000u /* for what no descriptor tells of: deadlines, deaths, failures of a parent */
#define NAP_NS 2000000u   /* of a thread that others may need */

/* Adds what the creation waits for; 0: no descriptor tells of that. */
static int pollset_fill(const struct tuttiComm *comm, struct tt_pollset *pollset)
{
  const struct tt_creation *creation = comm->life.creation;
  if (creation->stage == GATHERING || creation->stage == MEASURING) return 0;
  tt_rendezvous_pollset(creation->rendezvous, pollset);
  if (creation->stage == WATCHING) tt_watch_pollset(comm->parts.watch, pollset);
  return 1;
}

static int is_creating(const struct tuttiComm *comm)
{
  return atomic_load(&comm->life.state) == TT_COMM_CREATING;
}

/* A pause after looks that said tuttiInProgress: after some first looks until something may go on, 50 ms at most. */
static void rest(struct tuttiComm *const *comms, int n, struct tt_waiter *waiter)
{
  struct tt_pollset pollset = {.until_ns = tt_now_ns() + REST_NS};
  int sleeps = waiter->idle >= LOOKS;
  for (int k = 0; k < n && sleeps; k++) sleeps = !is_creating(comms[k]) || pollset_fill(comms[k], &pollset);
  if (sleeps) tt_pollset_sleep(&pollset);
  else tt_waiter_pause(waiter, 0);
}

int tt_comm_create_nap(const struct tuttiComm *comm)
{
  struct tt_pollset pollset = {.until_ns = tt_now_ns() + NAP_NS};
  if (!is_creating(comm) || !pollset_fill(comm, &pollset)) return 0;
  tt_pollset_sleep(&pollset);
  return 1;
}

tuttiResult_t tt_comms_create_wait(struct tuttiComm *const *comms, int n)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  for (;;) {
    int left = 0;
    for (int k = 0; k < n; k++)
      left += is_creating(comms[k]) && tt_comm_create_poll(comms[k]) == tuttiInProgress;
    if (!left) break;
    rest(comms, n, &waiter);
  }
  for (int k = 0; k < n; k++)
    if (atomic_load(&comms[k]->life.state) == TT_COMM_NOT_CREATED && !comms[k]->life.is_none)
      return tt_comm_health(comms[k]);
  return tuttiSuccess;
}

tuttiResult_t tt_comm_create_wait(struct tuttiComm *comm)
{
  return tt_comms_create_wait(&comm, 1);
}
