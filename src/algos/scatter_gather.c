/* SPDX-License-Identifier: BSD-3-Clause */
/* Scatter and gather: by a binomial tree, or between the root and each rank directly.
 *
 * Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience",
 * Concurrency and Computation 19(13), 2007. Ranks are counted from the root, v = 0 .. P - 1. In the tree v > 0 has the
 * shares of s = min(2^j, P - v) ranks, v and those behind it, 2^j being its lowest bit; its parent is v - 2^j, its
 * children v + 1, v + 2, v + 4, .. with the shares from there on. With P ranks and n elements of a share
 *   binomial gather   every rank but the root sends one message of s n elements; scratch s n, none for s = 1 and
 *                     on the root; floor(log2 P) rounds;
 *   binomial scatter  every rank sends a message to each of its ceil(log2 s) children (root: s = P), (s - 1) n elements
 *                     in all; scratch the same; floor(log2 P) rounds;
 *   direct            the root receives or sends P - 1 messages of n elements; no scratch; one round.
 * A message of the tree holds the shares of consecutive ranks, which may wrap around past rank 0. The tree is made for
 * shares of one block; with more blocks each share is a message of its own. Any P, any n, any root, in place or not. */
#include "algos/shares_private.h"
#include "algos/table_private.h"

/* The place of the share of the rank at a distance, in IN, OUT, or scratch. */
static struct tt_operand held(const struct tt_shape *shape, enum tt_place place, int32_t distance)
{
  int32_t at = place == TT_SCRATCH ? distance * shape->nblocks : tt_shares(shape, distance, 1).first;
  return (struct tt_operand){.place = (uint8_t)place, .at = at};
}

static void own_copy(struct tt_schedule *schedule, const struct tt_shape *shape, enum tt_place from, enum tt_place to)
{
  tt_copy(schedule, tt_shares(shape, 0, 1), held(shape, from, 0), held(shape, to, 0));
}

/* Sends the shares of `n` ranks, from distance k on, to a peer. */
static void shares_send(struct tt_schedule *schedule, enum tt_place from, int32_t k, int32_t n, int32_t peer)
{
  const struct tt_shape *shape = &schedule->shape;
  int32_t each = tt_shares_at_once(shape, n);
  for (int32_t i = k; i < k + n; i += each) tt_send(schedule, tt_shares(shape, i, each), held(shape, from, i), peer);
}

static void shares_recv(struct tt_schedule *schedule, int32_t k, int32_t n, int32_t peer, enum tt_place to)
{
  const struct tt_shape *shape = &schedule->shape;
  int32_t each = tt_shares_at_once(shape, n);
  for (int32_t i = k; i < k + n; i += each) tt_recv(schedule, tt_shares(shape, i, each), peer, held(shape, to, i));
}

void tt_binomial_gather_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_node me = tt_node_of(tt_rank_from_root(shape), shape->nranks);
  int is_root = shape->rank == shape->root;
  enum tt_place place = is_root ? TT_OUT : me.n > 1 ? TT_SCRATCH : TT_IN;
  if (place != TT_IN) own_copy(schedule, shape, TT_IN, place);
  for (int32_t k = 1; k < me.n; k *= 2)
    shares_recv(schedule, k, tt_node_child(&me, k), tt_rank_at(shape, k), place);
  if (!is_root) shares_send(schedule, place, 0, me.n, tt_rank_at(shape, -me.reach));
}

void tt_binomial_scatter_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_node me = tt_node_of(tt_rank_from_root(shape), shape->nranks);
  int is_root = shape->rank == shape->root;
  enum tt_place place = is_root ? TT_IN : me.n > 1 ? TT_SCRATCH : TT_OUT;
  if (!is_root) shares_recv(schedule, 0, me.n, tt_rank_at(shape, -me.reach), place);
  for (int32_t k = me.reach / 2; k >= 1; k /= 2)
    if (k < me.n) shares_send(schedule, place, k, tt_node_child(&me, k), tt_rank_at(shape, k));
  if (place != TT_OUT) own_copy(schedule, shape, place, TT_OUT);
}

void tt_direct_gather_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  if (shape->rank != shape->root) {
    shares_send(schedule, TT_IN, 0, 1, shape->root);
    return;
  }
  own_copy(schedule, shape, TT_IN, TT_OUT);
  for (int32_t k = 1; k < shape->nranks; k++) shares_recv(schedule, k, 1, tt_rank_at(shape, k), TT_OUT);
}

void tt_direct_scatter_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  if (shape->rank != shape->root) {
    shares_recv(schedule, 0, 1, shape->root, TT_OUT);
    return;
  }
  for (int32_t k = 1; k < shape->nranks; k++) shares_send(schedule, TT_IN, k, 1, tt_rank_at(shape, k));
  own_copy(schedule, shape, TT_IN, TT_OUT);
}

static int64_t slots_of(const struct tt_shape *shape, const struct tt_node *node)
{
  return shape->rank != shape->root && node->n > 1 ? (int64_t)node->n * shape->nblocks : 0;
}

void tt_binomial_gather_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct tt_node me = tt_node_of(tt_rank_from_root(shape), shape->nranks);
  *cost = (struct tt_cost){.slots = slots_of(shape, &me), .rounds = tt_log2(shape->nranks)};
  if (shape->rank == shape->root) return;
  cost->messages = tt_shares_steps(shape, me.n);
  cost->blocks = (int64_t)me.n * shape->nblocks;
}

void tt_binomial_scatter_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct tt_node me = tt_node_of(tt_rank_from_root(shape), shape->nranks);
  *cost = (struct tt_cost){.slots = slots_of(shape, &me), .rounds = tt_log2(shape->nranks)};
  for (int32_t k = 1; k < me.n; k *= 2) cost->messages += tt_shares_steps(shape, tt_node_child(&me, k));
  cost->blocks = (int64_t)(me.n - 1) * shape->nblocks;
}

void tt_direct_gather_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  *cost = (struct tt_cost){.rounds = shape->nranks > 1};
  if (shape->rank == shape->root) return;
  cost->messages = 1;
  cost->blocks = shape->nblocks;
}

void tt_direct_scatter_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  *cost = (struct tt_cost){.rounds = shape->nranks > 1};
  if (shape->rank != shape->root) return;
  cost->messages = shape->nranks - 1;
  cost->blocks = cost->messages * shape->nblocks;
}

int32_t tt_scatter_gather_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}
