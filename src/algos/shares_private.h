/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: shares, ranks as seen from a root, the binomial tree. */
#ifndef TT_ALGOS_SHARES_H
#define TT_ALGOS_SHARES_H

#include "sched/sched.h"

/* The rank that comes `distance` ranks after that of the shape (before it if < 0), for |distance| <= nranks. */
static inline int32_t tt_rank_at(const struct tt_shape *shape, int32_t distance)
{
  return (shape->rank + distance + shape->nranks) % shape->nranks;
}

/* The rank counted from the root, which is 0. */
static inline int32_t tt_rank_from_root(const struct tt_shape *shape)
{
  return (shape->rank - shape->root + shape->nranks) % shape->nranks;
}

/* The blocks of `n` shares, from that of the rank at `distance` on; they may go over the end. */
static inline struct tt_blocks tt_shares(const struct tt_shape *shape, int32_t distance, int32_t n)
{
  return (struct tt_blocks){tt_rank_at(shape, distance) * shape->nblocks, n * shape->nblocks};
}

/* How many of `n` shares one step handles if they are in scratch. Only the slots of shares of one block can be put
 * together and taken apart as spans. */
static inline int32_t tt_shares_at_once(const struct tt_shape *shape, int32_t n)
{
  return shape->nblocks == 1 ? n : 1;
}

/* The number of steps that `n` shares in scratch need. */
static inline int32_t tt_shares_steps(const struct tt_shape *shape, int32_t n)
{
  return shape->nblocks == 1 ? n > 0 : n;
}

/* floor(log2 n), n >= 1: also the most bits that are set in any number below n. */
static inline int32_t tt_log2(int32_t n)
{
  int32_t bits = 0;
  while (n >> (bits + 1)) bits++;
  return bits;
}

/* The binomial tree over the ranks counted from the root: v > 0 leads the n = min(2^j, nranks - v) ranks from v on, 2^j
 * being its lowest bit; its parent is v - 2^j, its children are v + 1, v + 2, v + 4, .. */
struct tt_node {
  int32_t reach; /* 2^j; the root: the power of two from nranks up */
  int32_t n;
};

static inline struct tt_node tt_node_of(int32_t v, int32_t nranks)
{
  int32_t reach = 1;
  while (reach < nranks && !(v & reach)) reach *= 2;
  return (struct tt_node){reach, reach < nranks - v ? reach : nranks - v};
}

/* Ranks that the child at distance k < n leads. */
static inline int32_t tt_node_child(const struct tt_node *node, int32_t k)
{
  return k < node->n - k ? k : node->n - k;
}

#endif
