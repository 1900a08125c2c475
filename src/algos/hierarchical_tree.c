/* SPDX-License-Identifier: BSD-3-Clause */
/* What runs inside a group of the leader form: a star. */
#include "algos/hierarchy.h"
static void up(struct tt_schedule *s, const struct tt_shape *shape)
{
  struct tt_blocks all = {0, shape->nblocks};
  if (shape->rank) { tt_send(s, all, tt_in(0), 0); return; }
  for (int32_t r = 1; r < shape->nranks; r++)
    tt_reduce2(s, all, r == 1 ? tt_in(0) : tt_out(0), tt_message(r), tt_out(0));
}
static void up_claim(const struct tt_shape *shape, struct tt_cost *c)
{
  *c = (struct tt_cost){.rounds = 1};
  if (shape->rank) { c->messages = 1; c->blocks = shape->nblocks; } else c->reductions = (int64_t)(shape->nranks - 1) * shape->nblocks;
}
static void down(struct tt_schedule *s, const struct tt_shape *shape)
{
  struct tt_blocks all = {0, shape->nblocks};
  if (shape->rank) { tt_recv(s, all, 0, tt_out(0)); return; }
  tt_copy(s, all, tt_in(0), tt_out(0));
  for (int32_t r = 1; r < shape->nranks; r++) tt_send(s, all, tt_in(0), r);
}
static void down_claim(const struct tt_shape *shape, struct tt_cost *c)
{
  *c = (struct tt_cost){.rounds = 1};
  if (!shape->rank) { c->messages = shape->nranks - 1; c->blocks = c->messages * shape->nblocks; }
}
static int32_t one(const struct tt_shape *s) { (void)s; return 1; }
static const struct tt_algo a = {"up", TT_REDUCE, .generate = up, .claim = up_claim, .blocks = one};
static const struct tt_algo b = {"down", TT_BROADCAST, .generate = down, .claim = down_claim, .blocks = one};
const struct tt_algo *tt_tree_algo(int c) { return c == TT_REDUCE ? &a : &b; }
struct tt_shape tt_tree_shape(const struct tt_shape *shape, int collective, int32_t size, int32_t index)
{
  return (struct tt_shape){.collective = collective, .nranks = size, .rank = index, .nblocks = shape->nblocks, .root = 0, .radix = shape->radix, .middle = -1};
}
int32_t tt_tree_hops(const struct tt_shape *s, int32_t i) { (void)s; return i > 0; }
