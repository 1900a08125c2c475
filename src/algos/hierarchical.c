/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical all-reduce over nested groups of ranks: near ranks combine before far ones talk.
 *
 * Two forms. Both end on their way up with an all-reduce among one rank of each of the G outermost groups, by any other
 * row of the table (ring if not told), and come back down the way they went up. Any groups of any sizes, any P, any N,
 * in place or not; without groups, ranks in runs of about the square root of P.
 *
 * hierarchical: Jia et al., "Highly scalable deep learning training system with mixed-precision: training ImageNet in
 * four minutes", 2018. At each level the ranks that lead the units of a group reduce to the first of them by a k-nomial
 * tree, and at the end it broadcasts to them. With groups of k, k2, ... units a rank that leads up to level l sends what
 * the trees of k .. k_l units and, if it leads an outermost group, the middle step send: whole vectors of N in the
 * trees, 2 log(k) a round at most for radix 2. Scratch: the most of any of its steps.
 *
 * hierarchical_shards: reduce-scatter in each innermost group, so that each of its ranks owns a shard; then
 * for each shard the same over the next level among its owners, one in each group; the middle step for each shard that
 * is left; all-gathers back. Every rank works at every level, so all links of a node are used: with P = k G
 * ranks in equal groups a rank sends 2 (k - 1) N / k elements inside and what the middle step sends for N / k. Shards
 * and owners where groups differ in size: see hierarchy.h. Inside a group ranks exchange directly (direct.c): in one of
 * k units 2 (k - 1) messages of N less its own shards and k - 1 times those, k - 1 reductions of its own shards, and
 * k times those of scratch.
 *
 * Rounds: the longest way up, through the middle step and down; see hierarchical_claim.c. */
#include "algos/hierarchy.h"

struct build {
  struct tt_schedule *schedule;
  const struct tt_shape *shape;
  struct tt_hierarchy h;
  int32_t shard[TT_MAX_LEVELS]; /* the shard at hand, as tt_hierarchy_actor wants it; all 0 where there are none */
};

/* Puts a schedule of some of the ranks, h.ranks, on `blocks` into OUT, and destroys it; what this rank puts in lies in
 * `value`. */
static void embed(struct build *b, struct tt_schedule *inner, struct tt_blocks blocks, enum tt_place value)
{
  tt_embed(b->schedule, inner,
           &(struct tt_embedding){.ranks = b->h.ranks, .first = blocks.first, .in = value, .out = TT_OUT});
  tt_schedule_destroy(inner);
}

static void run(struct build *b, const struct tt_algo *algo, const struct tt_shape *shape, struct tt_blocks blocks,
                enum tt_place value)
{
  struct tt_schedule inner;
  if (shape->nranks == 1 || blocks.n == 0) return;
  tt_schedule_init(&inner, shape);
  algo->generate(&inner, shape);
  embed(b, &inner, blocks, value);
}

static void middle_run(struct build *b, int32_t top, struct tt_blocks blocks, enum tt_place value)
{
  struct tt_shape middle = tt_middle_shape(b->shape, b->h.ntops, top, blocks.n);
  for (int32_t t = 0; t < b->h.ntops; t++) b->h.ranks[t] = tt_hierarchy_actor(&b->h, b->h.nlevels, t, b->shard);
  run(b, tt_middle_algo(b->shape), &middle, blocks, value);
}

/* ---- to a leader and back -------------------------------------------------------- */

/* Reduce or broadcast in the group that `unit` of level l is in, among the units' leaders. */
static void tree_run(struct build *b, int collective, int32_t l, int32_t unit, enum tt_place value)
{
  const struct tt_level *level = &b->h.level[l];
  int32_t start = level->start[level->group[unit]];
  struct tt_shape tree = tt_tree_shape(b->shape, collective, tt_group_size(level, level->group[unit]),
                                       level->index[unit]);
  for (int32_t k = 0; k < tree.nranks; k++)
    b->h.ranks[k] = tt_hierarchy_actor(&b->h, l, level->unit[start + k], b->shard);
  run(b, tt_tree_algo(collective), &tree, (struct tt_blocks){0, b->shape->nblocks}, value);
}

static void leaders_run(struct build *b)
{
  enum tt_place value = TT_IN;
  int32_t units[TT_MAX_LEVELS], l = 0, unit = b->shape->rank, leads = 1;
  for (; leads && l < b->h.nlevels; l++) {
    const struct tt_level *level = &b->h.level[l];
    units[l] = unit;
    tree_run(b, TT_REDUCE, l, unit, value);
    leads = level->index[unit] == 0;
    unit = level->group[unit];
    if (tt_group_size(level, unit) > 1) value = TT_OUT;
  }
  if (leads) middle_run(b, unit, (struct tt_blocks){0, b->shape->nblocks}, value);
  while (l-- > 0) tree_run(b, TT_BROADCAST, l, units[l], TT_OUT);
}

/* ---- in shards ------------------------------------------------------------------- */

/* The direct exchange of a group in which this rank acts for a unit: what all act for goes to the owners, or back. */
static void circle_run(struct build *b, int32_t l, int32_t unit, struct tt_blocks blocks, enum tt_place value,
                       void (*half)(struct tt_schedule *, const int32_t *))
{
  const struct tt_level *level = &b->h.level[l];
  int32_t group = level->group[unit], size = tt_group_size(level, group);
  struct tt_shape circle = tt_circle_shape(size, level->index[unit], blocks.n);
  struct tt_schedule inner;
  for (int32_t k = 0; k < size; k++)
    b->h.ranks[k] = tt_hierarchy_actor(&b->h, l, level->unit[level->start[group] + k], b->shard);
  tt_schedule_init(&inner, &circle);
  half(&inner, tt_circle_parts(&b->h, l, size, blocks.n));
  embed(b, &inner, blocks, value);
}

/* All-reduces `blocks` over the levels from l on, where this rank acts for `unit`. */
static void shards_run(struct build *b, int32_t l, int32_t unit, struct tt_blocks blocks, enum tt_place value)
{
  if (blocks.n == 0) return;
  if (l == b->h.nlevels) {
    middle_run(b, unit, blocks, value);
    return;
  }
  const struct tt_level *level = &b->h.level[l];
  int32_t group = level->group[unit], size = tt_group_size(level, group), index = level->index[unit];
  circle_run(b, l, unit, blocks, value, tt_direct_reduce_parts);
  for (int32_t s = tt_shard_first(level, size, index); s < tt_shard_first(level, size, index + 1); s++) {
    b->shard[l] = s;
    shards_run(b, l + 1, group, tt_shard_blocks(level, blocks, s, s + 1), size > 1 ? TT_OUT : value);
  }
  circle_run(b, l, unit, blocks, TT_OUT, tt_direct_gather_parts);
}

/* ---- rows ------------------------------------------------------------------------ */

static int build_make(struct build *b, struct tt_schedule *schedule, const struct tt_shape *shape)
{
  *b = (struct build){.schedule = schedule, .shape = shape};
  tuttiResult_t code = tt_hierarchy_create(&b->h, shape);
  if (code && !schedule->error) schedule->error = code;
  if (shape->nranks == 1) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, tt_in(0), tt_out(0));
  return !schedule->error;
}

void tt_hierarchical_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct build b;
  if (build_make(&b, schedule, shape)) leaders_run(&b);
  tt_hierarchy_destroy(&b.h);
}

void tt_shards_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct build b;
  struct tt_blocks all = {0, shape->nblocks};
  if (build_make(&b, schedule, shape)) shards_run(&b, 0, shape->rank, all, TT_IN);
  tt_hierarchy_destroy(&b.h);
}
