/* SPDX-License-Identifier: BSD-3-Clause */
/* There and back: the sum goes up the ranks, each of which adds its own, and the result comes down again.
 *
 * A toy (tests/toys/run). With P ranks and N elements in B blocks every rank but the first and the last one sends 2 B
 * messages, 2 N elements, these two B messages, N elements. All but rank 0 reduce N elements. No scratch, 2 (P - 1)
 * rounds. Any P, any N, in place or not. */
#include "algos/table_private.h"

void tt_there_and_back_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t rank = shape->rank, last = shape->nranks - 1;
  for (int32_t b = 0; b < shape->nblocks; b++) {
    struct tt_blocks block = {b, 1};
    if (rank > 0) tt_reduce2(schedule, block, tt_message(rank - 1), tt_in(b), tt_out(b));
    if (rank < last) tt_send(schedule, block, rank ? tt_out(b) : tt_in(b), rank + 1);
    if (rank < last) tt_recv(schedule, block, rank + 1, tt_out(b));
    if (rank > 0) tt_send(schedule, block, tt_out(b), rank - 1);
    if (last == 0) tt_copy(schedule, block, tt_in(b), tt_out(b));
  }
}

void tt_there_and_back_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int neighbours = (shape->rank > 0) + (shape->rank < shape->nranks - 1);
  *cost = (struct tt_cost){.rounds = 2 * (shape->nranks - 1)};
  cost->messages = cost->blocks = neighbours * shape->nblocks;
  if (shape->rank > 0) cost->reductions = shape->nblocks;
}

int32_t tt_there_and_back_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}
