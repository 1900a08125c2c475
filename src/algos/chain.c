/* SPDX-License-Identifier: BSD-3-Clause */
/* Chain: the vector passes through the ranks one after the other, block after block.
 *
 * The pipelined linear tree of Barnett, Shuler, Gupta, Payne, van de Geijn and Watts, "Building a high-performance
 * collective communication library", Supercomputing 1994. Broadcast goes from the root up the ranks and round to the
 * one below it; reduce comes the other way, and each rank adds its own contribution. With P ranks and N elements in B
 * blocks every rank but the last one of the chain (reduce: but the root) sends B messages, N elements. In a reduce
 * every rank but the first one reduces N elements, and those in between need min(B, 4) blocks of scratch. P - 1 rounds
 * for each block, all blocks under way at once: B blocks take P - 2 + B times as long as one. Any P, any N, any root,
 * in place or not. */
#include "algos/shares_private.h"
#include "algos/table_private.h"

#define PLACES 4 /* sums that a rank may have under way */

void tt_chain_broadcast_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t distance = tt_rank_from_root(shape), before = tt_rank_at(shape, -1), behind = tt_rank_at(shape, 1);
  for (int32_t b = 0; b < shape->nblocks; b++) {
    struct tt_blocks block = {b, 1};
    if (distance > 0) tt_recv(schedule, block, before, tt_out(b));
    if (distance < shape->nranks - 1) tt_send(schedule, block, distance ? tt_out(b) : tt_in(b), behind);
    if (distance == 0) tt_copy(schedule, block, tt_in(b), tt_out(b));
  }
}

/* Adds our own block to the message from behind: the sum of the ranks up to the one before the root, which stands first
 * if it holds rank 0. */
static void take(struct tt_schedule *schedule, const struct tt_shape *shape, int32_t b, struct tt_operand dst)
{
  struct tt_blocks block = {b, 1};
  struct tt_operand message = tt_message(tt_rank_at(shape, 1));
  int holds_rank_0 = shape->root > 0 && shape->rank >= shape->root;
  if (holds_rank_0)
    tt_reduce2(schedule, block, message, tt_in(b), dst);
  else
    tt_reduce2(schedule, block, tt_in(b), message, dst);
}

void tt_chain_reduce_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t distance = tt_rank_from_root(shape), before = tt_rank_at(shape, -1);
  int is_first = distance == shape->nranks - 1;
  for (int32_t b = 0; b < shape->nblocks; b++) {
    struct tt_operand sum = distance ? tt_scratch(b % PLACES) : tt_out(b);
    if (!is_first) take(schedule, shape, b, sum);
    if (distance) tt_send(schedule, (struct tt_blocks){b, 1}, is_first ? tt_in(b) : sum, before);
  }
  if (shape->nranks == 1) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, tt_in(0), tt_out(0));
}

void tt_chain_broadcast_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int sends = tt_rank_from_root(shape) < shape->nranks - 1;
  *cost = (struct tt_cost){.rounds = shape->nranks - 1};
  if (sends) cost->messages = cost->blocks = shape->nblocks;
}

void tt_chain_reduce_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t distance = tt_rank_from_root(shape);
  int sends = distance > 0, takes = distance < shape->nranks - 1;
  *cost = (struct tt_cost){.rounds = shape->nranks - 1};
  if (sends) cost->messages = cost->blocks = shape->nblocks;
  if (takes) cost->reductions = shape->nblocks;
  if (sends && takes) cost->slots = shape->nblocks < PLACES ? shape->nblocks : PLACES;
}

/* So many blocks that filling the chain takes at most half as long as all blocks take to leave the root. Two ranks have
 * no chain to fill, and a program of more than a few windows gains no more. */
int32_t tt_chain_blocks(const struct tt_shape *shape)
{
  if (shape->nranks <= 2) return 1;
  return shape->nranks <= 32 ? 2 * shape->nranks : 64;
}
