/* SPDX-License-Identifier: BSD-3-Clause */
/* Ring: all-reduce is a reduce-scatter round the ring, then an all-gather; each of the two also stands alone, and
 * reduce is the reduce-scatter and a gather of the parts at the root.
 *
 * Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", JPDC 69(2), 2009. Part p
 * of the vector, or share p, belongs to rank p. In the reduce-scatter it starts at rank p + 1, gathers each rank's
 * contribution on its way up the ranks, and is complete at its owner; in the all-gather it goes round from there.
 * With P ranks, N elements of a vector or n of a share, a rank
 *   all-reduce      sends 2 (P - 1) messages, 2 N elements less its own part and its right neighbour's (2 (P - 1) N / P
 *                   where P divides N), reduces N less its left neighbour's part, needs no scratch; 2 (P - 1) rounds;
 *   reduce-scatter  sends P - 1 messages of n, reduces (P - 1) n, needs min(2, P - 2) n of scratch; P - 1 rounds;
 *   all-gather      sends P - 1 messages of n; P - 1 rounds;
 *   reduce          sends P messages and N elements (the root one message and part less), reduces N less its left
 *                   neighbour's part, needs two parts of scratch; P rounds.
 * Parts are runs of whole blocks; with fewer blocks than ranks some are empty and cost nothing. Any P, any N, any
 * root, in place or not. */
#include "algos/parts_private.h"
#include "algos/shares_private.h"
#include "algos/table_private.h"

/* The blocks of part or share p, for -nranks <= p < nranks. */
static struct tt_blocks part(const struct tt_shape *shape, int32_t p)
{
  return tt_parts(shape, p + shape->nranks, 1);
}

/* The place of the sum made in `round`. If it has no place in OUT, two places in scratch alternate: one holds the sum
 * that is sent while the next sum is made in the other. */
static struct tt_operand sum(const struct tt_shape *shape, struct tt_blocks blocks, int32_t round)
{
  int32_t place = round % 2 * ((shape->nblocks + shape->nranks - 1) / shape->nranks);
  int is_last = round == shape->nranks - 2;
  switch (shape->collective) {
  case TT_REDUCE_SCATTER: return is_last ? tt_out(blocks.first) : tt_scratch(round % 2 * shape->nblocks);
  case TT_REDUCE: return is_last && shape->rank == shape->root ? tt_out(blocks.first) : tt_scratch(place);
  default: return tt_out(blocks.first);
  }
}

/* Takes one part from the left and adds our own. The message stands first unless we are rank 0: it either passed rank
 * 0, and so holds the lowest rank, or comes from lower ranks only. */
static void take(struct tt_schedule *schedule, struct tt_blocks blocks, int32_t left, struct tt_operand dst)
{
  struct tt_operand own = tt_in(blocks.first), message = tt_message(left);
  if (schedule->shape.rank == 0)
    tt_reduce2(schedule, blocks, own, message, dst);
  else
    tt_reduce2(schedule, blocks, message, own, dst);
}

static void reduce_round(struct tt_schedule *schedule, const struct tt_shape *shape, int32_t round)
{
  struct tt_blocks out = part(shape, shape->rank - 1 - round), in = part(shape, shape->rank - 2 - round);
  tt_send(schedule, out, round == 0 ? tt_in(out.first) : sum(shape, out, round - 1), tt_rank_at(shape, 1));
  take(schedule, in, tt_rank_at(shape, -1), sum(shape, in, round));
}

/* `own`: the place of our own part. */
static void gather_round(struct tt_schedule *schedule, const struct tt_shape *shape, int32_t round,
                         struct tt_operand own)
{
  struct tt_blocks out = part(shape, shape->rank - round), in = part(shape, shape->rank - 1 - round);
  tt_send(schedule, out, round == 0 ? own : tt_out(out.first), tt_rank_at(shape, 1));
  tt_recv(schedule, in, tt_rank_at(shape, -1), tt_out(in.first));
}

static void reduce_rounds(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_blocks own = part(shape, shape->rank);
  if (shape->nranks == 1) tt_copy(schedule, own, tt_in(own.first), tt_out(own.first));
  for (int32_t round = 0; round < shape->nranks - 1; round++) reduce_round(schedule, shape, round);
}

void tt_ring_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_operand own = tt_out(part(shape, shape->rank).first);
  reduce_rounds(schedule, shape);
  for (int32_t round = 0; round < shape->nranks - 1; round++) gather_round(schedule, shape, round, own);
}

void tt_ring_scatter_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  reduce_rounds(schedule, shape);
}

void tt_ring_gather_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_blocks own = part(shape, shape->rank);
  for (int32_t round = 0; round < shape->nranks - 1; round++) {
    gather_round(schedule, shape, round, tt_in(own.first));
    if (round == 0) tt_copy(schedule, own, tt_in(own.first), tt_out(own.first));
  }
  if (shape->nranks == 1) tt_copy(schedule, own, tt_in(own.first), tt_out(own.first));
}

void tt_ring_reduce_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_blocks own = part(shape, shape->rank);
  reduce_rounds(schedule, shape);
  if (shape->rank != shape->root) {
    tt_send(schedule, own, sum(shape, own, shape->nranks - 2), shape->root);
    return;
  }
  for (int32_t distance = 1; distance < shape->nranks; distance++) {
    struct tt_blocks theirs = part(shape, tt_rank_at(shape, distance));
    tt_recv(schedule, theirs, tt_rank_at(shape, distance), tt_out(theirs.first));
  }
}

void tt_ring_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks, parts = shape->nblocks < n ? shape->nblocks : n;
  int32_t own = part(shape, shape->rank).n, next = part(shape, tt_rank_at(shape, 1)).n;
  *cost = (struct tt_cost){.rounds = 2 * (n - 1)};
  if (n == 1) return;
  cost->messages = 2 * (int64_t)parts - (own > 0) - (next > 0);
  cost->blocks = 2 * (int64_t)shape->nblocks - own - next;
  cost->reductions = shape->nblocks - part(shape, shape->rank - 1).n;
}

void tt_ring_scatter_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks, places = n <= 3 ? n - 2 : 2;
  *cost = (struct tt_cost){.messages = n - 1, .blocks = (int64_t)(n - 1) * shape->nblocks, .rounds = n - 1};
  cost->reductions = cost->blocks;
  if (n > 1) cost->slots = (int64_t)places * shape->nblocks;
}

void tt_ring_gather_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks;
  *cost = (struct tt_cost){.messages = n - 1, .blocks = (int64_t)(n - 1) * shape->nblocks, .rounds = n - 1};
}

void tt_ring_reduce_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks, parts = shape->nblocks < n ? shape->nblocks : n;
  struct tt_blocks own = part(shape, shape->rank);
  int is_root = shape->rank == shape->root, to_root = own.n > 0 && !is_root;
  *cost = (struct tt_cost){0};
  if (n == 1) return;
  cost->messages = parts - (own.n > 0) + to_root;
  cost->blocks = shape->nblocks - (is_root ? own.n : 0);
  cost->reductions = shape->nblocks - part(shape, shape->rank - 1).n;
  cost->rounds = shape->nblocks == 1 && shape->root == n - 1 ? n - 1 : n; /* a single block is the last rank's */
  for (int32_t round = 0; round < n - 1; round++) {
    struct tt_blocks blocks = part(shape, shape->rank - 2 - round);
    struct tt_operand at = sum(shape, blocks, round);
    if (at.place == TT_SCRATCH && blocks.n && at.at + blocks.n > cost->slots) cost->slots = at.at + blocks.n;
  }
}

int32_t tt_ring_blocks(const struct tt_shape *shape)
{
  return tt_kinds[shape->collective].is_shared ? 1 : shape->nranks;
}
