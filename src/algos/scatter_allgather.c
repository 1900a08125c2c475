/* SPDX-License-Identifier: BSD-3-Clause */
/* Broadcast as a scatter of parts and an all-gather of them.
 *
 * Barnett, Shuler, Gupta, Payne, van de Geijn and Watts, "Building a high-performance collective communication
 * library", Supercomputing 1994. Ranks are counted from the root, v = 0 .. P - 1; part v of the vector is meant for
 * rank v. The scatter goes down the binomial tree: v > 0 gets the parts of the s = min(2^j, P - v) ranks from v on,
 * 2^j being its lowest bit. The all-gather is that of Bruck, Ho, Kipnis, Upfal and Weathersby, IEEE TPDS 8(11), 1997:
 * in round k = 1, 2, 4, .. v gets from v + k the min(k, P - k) parts from v + k on, in their places, because a span
 * over the end is still one step; parts that v has from the scatter are not sent. So every rank but the root receives N
 * elements in at most 1 + ceil(log2 P) messages, the root none. The ranks send different amounts, the root most: at
 * most 2 ceil(log2 P) messages and 2 N (P - 1) / P elements where P divides N. No scratch; at most 2 floor(log2 P)
 * rounds, 2 log2 P - 1 for powers of two. Parts are runs of whole blocks; with fewer blocks than ranks some are empty
 * and cost nothing. Any P, any N, any root, in place or not. */
#include "algos/parts_private.h"
#include "algos/shares_private.h"
#include "algos/table_private.h"

/* The parts that rank v gets in round k of the all-gather. */
static struct tt_blocks missing(const struct tt_shape *shape, int32_t v, int32_t k)
{
  int32_t has = tt_node_of(v, shape->nranks).n, from = k > has ? k : has;
  int32_t end = 2 * k < shape->nranks ? 2 * k : shape->nranks;
  return tt_parts(shape, v + from, from < end ? end - from : 0);
}

/* The parts that the rank k before us gets from us in round k. */
static struct tt_blocks wanted(const struct tt_shape *shape, int32_t k)
{
  return missing(shape, (tt_rank_from_root(shape) - k + shape->nranks) % shape->nranks, k);
}

static void send(struct tt_schedule *schedule, struct tt_blocks blocks, int32_t distance)
{
  const struct tt_shape *shape = &schedule->shape;
  int is_root = shape->rank == shape->root;
  tt_send(schedule, blocks, is_root ? tt_in(blocks.first) : tt_out(blocks.first), tt_rank_at(shape, distance));
}

static void recv(struct tt_schedule *schedule, struct tt_blocks blocks, int32_t distance)
{
  tt_recv(schedule, blocks, tt_rank_at(&schedule->shape, distance), tt_out(blocks.first));
}

void tt_scatter_allgather_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t v = tt_rank_from_root(shape);
  struct tt_node me = tt_node_of(v, shape->nranks);
  if (v > 0) recv(schedule, tt_parts(shape, v, me.n), -me.reach);
  for (int32_t k = me.reach / 2; k >= 1; k /= 2)
    if (k < me.n) send(schedule, tt_parts(shape, v + k, tt_node_child(&me, k)), k);
  for (int32_t k = 1; k < shape->nranks; k *= 2) {
    send(schedule, wanted(shape, k), -k);
    recv(schedule, missing(shape, v, k), k);
  }
  if (v == 0) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, tt_in(0), tt_out(0));
}

static void count(struct tt_cost *cost, struct tt_blocks blocks)
{
  cost->messages += blocks.n > 0;
  cost->blocks += blocks.n;
}

/* Part p reaches rank p in as many messages as p has bits set. It reaches rank p - d in as many more as d has bits set,
 * if d and p differ in their lowest bit, and in fewer if they do not: so the longest chain has an odd d for even p, an
 * even d for odd p. */
static int64_t rounds_of_part(const struct tt_shape *shape, int32_t p)
{
  if (tt_parts(shape, p, 1).n == 0) return 0;
  return __builtin_popcount((unsigned)p) + tt_log2(p % 2 ? (shape->nranks + 1) / 2 : shape->nranks);
}

void tt_scatter_allgather_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t v = tt_rank_from_root(shape);
  struct tt_node me = tt_node_of(v, shape->nranks);
  *cost = (struct tt_cost){0};
  for (int32_t k = 1; k < me.n; k *= 2) count(cost, tt_parts(shape, v + k, tt_node_child(&me, k)));
  for (int32_t k = 1; k < shape->nranks; k *= 2) count(cost, wanted(shape, k));
  for (int32_t p = 0; p < shape->nranks; p++)
    if (rounds_of_part(shape, p) > cost->rounds) cost->rounds = rounds_of_part(shape, p);
}

int32_t tt_scatter_allgather_blocks(const struct tt_shape *shape)
{
  return shape->nranks;
}
