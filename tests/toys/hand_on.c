/* SPDX-License-Identifier: BSD-3-Clause */
/* Hand on: each rank gives the next one, the last one rank 0, the share that it has for it.
 *
 * A toy (tests/toys/run). With P ranks and shares of N elements in B blocks every rank sends B messages, N elements. No
 * reductions, no scratch, 1 round. Any P, any N, in place or not. */
#include "algos/table_private.h"

void tt_hand_on_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t nranks = shape->nranks, own = shape->rank * shape->nblocks;
  int32_t next = (shape->rank + 1) % nranks, theirs = next * shape->nblocks;
  for (int32_t b = 0; b < shape->nblocks; b++) {
    if (nranks == 1) tt_copy(schedule, (struct tt_blocks){b, 1}, tt_in(b), tt_out(b));
    if (nranks == 1) continue;
    tt_send(schedule, (struct tt_blocks){theirs + b, 1}, tt_in(theirs + b), next);
    tt_recv(schedule, (struct tt_blocks){own + b, 1}, (shape->rank + nranks - 1) % nranks, tt_out(own + b));
  }
}

void tt_hand_on_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  *cost = (struct tt_cost){.rounds = shape->nranks > 1};
  if (shape->nranks > 1) cost->messages = cost->blocks = shape->nblocks;
}

int32_t tt_hand_on_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}
