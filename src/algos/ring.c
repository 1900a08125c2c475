/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring all-reduce: a reduce-scatter round the ring, then an all-gather.
 *
 * Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of
 * workstations", JPDC 69(2), 2009. Part p of the vector belongs to rank p. It starts
 * at rank p + 1, gathers each rank's contribution on its way up the ranks, is complete
 * at its owner, and goes round once more. With P ranks and N elements a rank sends
 * 2 (P - 1) messages, 2 N elements less its own part and its right neighbour's
 * (2 (P - 1) N / P where P divides N), reduces N elements less its left neighbour's
 * part, and needs no scratch. Parts are runs of whole blocks; with fewer blocks than
 * ranks some are empty and cost nothing. Any P, any N, in place or not. */
#include "algos/table.h"

/* The blocks of part p, for any p >= -nranks. */
static struct tt_blocks part(const struct tt_shape *shape, int32_t p)
{
  int64_t n = shape->nranks, owner = (p + n) % n;
  int64_t first = owner * shape->nblocks / n, end = (owner + 1) * shape->nblocks / n;
  return (struct tt_blocks){(int32_t)first, (int32_t)(end - first)};
}

/* Takes one part from the left and adds our own. What comes passed rank 0, and so holds
 * the lowest rank, or comes from lower ranks, unless we are rank 0 ourselves. */
static void take(struct tt_schedule *schedule, struct tt_blocks blocks, int32_t left)
{
  struct tt_operand own = tt_in(blocks.first), message = tt_message(left);
  if (schedule->shape.rank == 0)
    tt_reduce2(schedule, blocks, own, message, tt_out(blocks.first));
  else
    tt_reduce2(schedule, blocks, message, own, tt_out(blocks.first));
}

void tt_ring_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t n = shape->nranks, me = shape->rank, right = (me + 1) % n, left = (me + n - 1) % n;
  if (n == 1) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, tt_in(0), tt_out(0));
  for (int32_t round = 0; round < n - 1; round++) {
    struct tt_blocks out = part(shape, me - 1 - round);
    tt_send(schedule, out, round == 0 ? tt_in(out.first) : tt_out(out.first), right);
    take(schedule, part(shape, left - 1 - round), left);
  }
  for (int32_t round = 0; round < n - 1; round++) {
    struct tt_blocks out = part(shape, me - round), in = part(shape, left - round);
    tt_send(schedule, out, tt_out(out.first), right);
    tt_recv(schedule, in, left, tt_out(in.first));
  }
}

void tt_ring_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks, parts = shape->nblocks < n ? shape->nblocks : n;
  int32_t own = part(shape, shape->rank).n, next = part(shape, shape->rank + 1).n;
  *cost = (struct tt_cost){.rounds = 2 * (n - 1)};
  if (n == 1) return;
  cost->messages = 2 * (int64_t)parts - (own > 0) - (next > 0);
  cost->blocks = 2 * (int64_t)shape->nblocks - own - next;
  cost->reductions = shape->nblocks - part(shape, shape->rank - 1).n;
}

int32_t tt_ring_blocks(const struct tt_shape *shape)
{
  return shape->nranks;
}
