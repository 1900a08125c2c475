/* SPDX-License-Identifier: BSD-3-Clause */
/* Sleeping while a communicator is being created: many ranks that wait must not take the cores from those that work. */
#include "comm/creation_private.h"

#define LOOKS 2           /* before the first sleep */
#define REST_NS 50000000u /* for what no descriptor tells of: deadlines, deaths, failures of a parent */

/* A pause after a look that said tuttiInProgress: after some first looks until something may go on, 50 ms at most. */
static void rest(struct tuttiComm *comm, struct tt_waiter *waiter)
{
  const struct tt_creation *creation = comm->life.creation;
  struct tt_pollset pollset = {.until_ns = tt_now_ns() + REST_NS};
  if (waiter->idle < LOOKS || creation->stage == SPLITTING || creation->stage == MEASURING) {
    tt_waiter_pause(waiter, 0);
    return;
  }
  tt_rendezvous_pollset(creation->rendezvous, &pollset);
  if (creation->stage == WATCHING) tt_watch_pollset(comm->parts.watch, &pollset);
  tt_pollset_sleep(&pollset);
}

tuttiResult_t tt_comm_create_wait(struct tuttiComm *comm)
{
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  tuttiResult_t result;
  while ((result = tt_comm_create_poll(comm)) == tuttiInProgress) rest(comm, &waiter);
  return result;
}
