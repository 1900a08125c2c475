/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations in CUDA graphs. They are enqueued once, with numbers that come again at every replay. An operation is
 * kept until its communicator ends, and goes to the front of the queue whenever the GPU writes its number: the GPU
 * carries out all that it has of a communicator in one order, so no other one of these is under way. Calls without a
 * CUDA stream may come at any time: they go through the queue, too, so a thread at a time uses the run. */
#include "comm/private.h"
#include "cuda/stream.h"

void tt_captured_add_locked(struct tt_op *op)
{
  struct tuttiComm *comm = op->comm;
  op->is_abandoned = 1;
  if (!comm->calls.captured) atomic_fetch_add(&comm->queue.queued, 1); /* from now on all calls go through the queue */
  op->next_captured = NULL;
  if (comm->calls.captured) comm->calls.last_captured->next_captured = op;
  else comm->calls.captured = op;
  comm->calls.last_captured = op;
  tt_progress_add_locked(comm);
}

static struct tt_op *search(struct tt_op *from, const struct tt_op *end, uint32_t number)
{
  while (from != end && (from->trigger.first != number || !from->trigger.npieces)) from = from->next_captured;
  return from == end ? NULL : from;
}

/* A graph replays its operations one after the other, as they were captured. */
static struct tt_op *find_locked(struct tuttiComm *comm, uint32_t number)
{
  struct tt_op *from = comm->calls.replayed, *op = search(from, NULL, number);
  if (!op) op = search(comm->calls.captured, from, number);
  if (op) comm->calls.replayed = op;
  return op;
}

struct tt_op *tt_replayed_locked(struct tuttiComm *comm, struct tt_op *first)
{
  const struct tt_slots *slots = comm->parts.slots;
  if (tt_comm_has_failed(comm) || atomic_load(&comm->life.aborting)) {
    tt_trigger_fail(comm);
    return first; /* its words are for those who release the GPU */
  }
  uint32_t number = tt_turn_look(slots->turn_ready, slots->turn_done);
  if (!number || number == TT_TURN_TAKEN || atomic_load(slots->turn_done) != TT_TURN_NEXT) return first;
  struct tt_op *op = find_locked(comm, number);
  if (!op || op->is_queued) return first; /* a later piece of the one under way */
  op->started = op->is_begun = 0;
  op->since_ns = 0;
  op->next_of_comm = first;
  comm->queue.first = op;
  if (!first) comm->queue.last = op;
  op->is_queued = 1;
  atomic_fetch_add(&comm->queue.queued, 1);
  return op;
}

void tt_captured_free(struct tuttiComm *comm)
{
  while (comm->calls.captured) {
    struct tt_op *op = comm->calls.captured;
    comm->calls.captured = op->next_captured;
    tt_op_give(op);
  }
}
