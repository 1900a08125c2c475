/* SPDX-License-Identifier: BSD-3-Clause */
/* Hierarchical all-reduce over nested groups of ranks: near ranks combine before far ones talk.
 *
 * There are two forms. On the way up both end with an all-reduce among one rank of each of the G outermost groups, by
 * any other row of the table (the middle step; ring by default), and they come back down the way they went up. Any
 * number of levels, groups of any sizes, any P, any N, in place or not; without groups, ranks in runs of about the
 * square root of P.
 *
 * hierarchical: Jia et al., "Highly scalable deep learning training system with mixed-precision: training ImageNet in
 * four minutes", 2018. In each group the leaders of its units (innermost: the ranks) reduce to the first one by a
 * k-nomial tree, which leads the group on the next level; on the way back it broadcasts. A rank sends N elements
 * up once, unless it leads an outermost group; down, N to each child it has in the trees of the groups it was in; and,
 * leading an outermost group, what the middle step sends. Reductions: N for each of those children, and the middle
 * step's. Scratch: N for inner ranks of the trees, or the middle step's if that is more.
 *
 * hierarchical_shards: a reduce-scatter in each innermost group, so that each of its ranks owns a shard; then the same
 * for each shard on the next level, among its owners, one in each group; the middle step for each shard that is left;
 * and all-gathers back. All ranks work on all levels, so all links of a node are used. Inside a group ranks exchange
 * directly (direct.c): a rank that acts in one of k units on n elements and owns m of them sends at most 2 (k - 1)
 * messages, n - m + (k - 1) m elements, reduces (k - 1) m, with k m of scratch. With one level of equal groups, so
 * P = k G, that is 2 (k - 1) messages and 2 (k - 1) / k N elements, and then what the middle step sends for N / k.
 * Shards and their owners where groups differ in size: see hierarchy_private.h.
 *
 * Rounds: the longest way up, through the middle step, and down; with one level of equal groups, the rounds of the
 * trees, or 2, and those of the middle step. See hierarchical_claim.c. */
#include "algos/hierarchy_private.h"

struct build {
  struct tt_schedule *schedule;
  const struct tt_shape *shape;
  struct tt_hierarchy h;
  int32_t shard[TT_MAX_LEVELS]; /* the current shard, as tt_hierarchy_actor wants it; all 0 if there are none */
};

/* Embeds a schedule of the ranks h.ranks on `blocks`, with its result in OUT, and destroys it. The input of this rank
 * lies in `value`. */
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

/* Sets h.ranks to the ranks that act for the units of a group of level l. */
static void group_map(struct build *b, int32_t l, int32_t group)
{
  const struct tt_hierarchy_level *level = &b->h.level[l];
  for (int32_t k = level->start[group]; k < level->start[group + 1]; k++)
    b->h.ranks[k - level->start[group]] = tt_hierarchy_actor(&b->h, l, level->unit[k], b->shard);
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
  const struct tt_hierarchy_level *level = &b->h.level[l];
  int32_t group = level->group[unit];
  struct tt_shape tree = tt_tree_shape(b->shape, collective, tt_group_size(level, group), level->index[unit]);
  group_map(b, l, group);
  run(b, tt_tree_algo(collective), &tree, (struct tt_blocks){0, b->shape->nblocks}, value);
}

static void leaders_run(struct build *b)
{
  enum tt_place value = TT_IN;
  int32_t units[TT_MAX_LEVELS], l = 0, unit = b->shape->rank, leads = 1;
  for (; leads && l < b->h.nlevels; l++) {
    const struct tt_hierarchy_level *level = &b->h.level[l];
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

/* The direct exchange of a group in which this rank acts for a unit: contributions go to the owners, or results come
 * back. */
static void circle_run(struct build *b, int32_t l, int32_t unit, struct tt_blocks blocks, enum tt_place value,
                       void (*half)(struct tt_schedule *, const int32_t *))
{
  const struct tt_hierarchy_level *level = &b->h.level[l];
  int32_t group = level->group[unit], size = tt_group_size(level, group);
  struct tt_shape circle = tt_circle_shape(size, level->index[unit], blocks.n);
  struct tt_schedule inner;
  group_map(b, l, group);
  tt_schedule_init(&inner, &circle);
  half(&inner, tt_circle_parts(&b->h, l, size, blocks.n));
  embed(b, &inner, blocks, value);
}

/* All-reduces `blocks` over the levels from l on, where this rank acts for `unit`. */
static void shards_run(struct build *b, int32_t l, int32_t unit, struct tt_blocks blocks, enum tt_place value)
{
  if (blocks.n == 0) return;
  if (l >= b->h.nlevels || l >= TT_MAX_LEVELS) {
    middle_run(b, unit, blocks, value);
    return;
  }
  const struct tt_hierarchy_level *level = &b->h.level[l];
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
