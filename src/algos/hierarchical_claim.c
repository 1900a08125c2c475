/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of hierarchical algorithms: the sum of the claims of their steps, and the largest scratch among them,
 * because scratch is reused. A message of the middle step that goes over the end of a shard's blocks counts as two.
 *
 * Rounds. The longest way from the ranks below a unit up to the rank that acts for it is the maximum, over the units of
 * its group, of the way of that unit plus its hops to the acting one; the way down is as long. A direct exchange takes
 * one hop, a k-nomial tree as many as the unit's index has digits other than 0. So the rounds of a shard are known but
 * for those of the middle step if its ranks are unequally late (tt_middle_rounds). Neighbouring shards that are alike
 * are counted once. */
#include "algos/hierarchy_private.h"

struct tally {
  const struct tt_shape *shape;
  struct tt_hierarchy h;
  int32_t shard[TT_MAX_LEVELS];
  int has_shards;
  struct tt_cost *cost;
  int32_t *before, *last; /* [ntops]: how late the ranks of the middle step start, in this and in the last shard */
  int32_t last_blocks;    /* of the last shard; 0: there was none */
};

static void add(struct tt_cost *cost, const struct tt_cost *part)
{
  cost->messages += part->messages;
  cost->blocks += part->blocks;
  cost->reductions += part->reductions;
  if (part->slots > cost->slots) cost->slots = part->slots;
}

static void run_add(struct tt_cost *cost, const struct tt_algo *algo, const struct tt_shape *shape)
{
  struct tt_cost part = {0};
  if (shape->nranks > 1) algo->claim(shape, &part);
  add(cost, &part);
}

static void middle_add(struct tally *t, int32_t top, int32_t nblocks)
{
  struct tt_shape middle = tt_middle_shape(t->shape, t->h.ntops, top, nblocks);
  run_add(t->cost, tt_middle_algo(t->shape), &middle);
  if (nblocks != t->shape->nblocks) t->cost->messages += tt_middle_splits(tt_middle_algo(t->shape), &middle);
}

static void leaders_add(struct tally *t)
{
  int32_t unit = t->shape->rank;
  for (int32_t l = 0; l < t->h.nlevels; l++) {
    const struct tt_hierarchy_level *level = &t->h.level[l];
    int32_t index = level->index[unit], size = tt_group_size(level, level->group[unit]);
    struct tt_shape up = tt_tree_shape(t->shape, TT_REDUCE, size, index);
    struct tt_shape down = tt_tree_shape(t->shape, TT_BROADCAST, size, index);
    run_add(t->cost, tt_tree_algo(TT_REDUCE), &up);
    run_add(t->cost, tt_tree_algo(TT_BROADCAST), &down);
    if (index) return;
    unit = level->group[unit];
  }
  middle_add(t, unit, t->shape->nblocks);
}

static void shards_add(struct tally *t, int32_t l, int32_t unit, struct tt_blocks blocks)
{
  if (blocks.n == 0) return;
  if (l >= t->h.nlevels || l >= TT_MAX_LEVELS) {
    middle_add(t, unit, blocks.n);
    return;
  }
  const struct tt_hierarchy_level *level = &t->h.level[l];
  int32_t group = level->group[unit], size = tt_group_size(level, group), index = level->index[unit];
  struct tt_shape circle = tt_circle_shape(size, index, blocks.n);
  struct tt_cost exchange;
  tt_direct_parts_claim(&circle, tt_circle_parts(&t->h, l, size, blocks.n), &exchange);
  add(t->cost, &exchange);
  for (int32_t s = tt_shard_first(level, size, index); s < tt_shard_first(level, size, index + 1); s++)
    shards_add(t, l + 1, group, tt_shard_blocks(level, blocks, s, s + 1));
}

/* ---- rounds ---------------------------------------------------------------------- */

/* Hops from the unit of this index in a group to the owner. */
static int32_t hops(const struct tally *t, int32_t size, int32_t index, int32_t owner)
{
  struct tt_shape tree = tt_tree_shape(t->shape, TT_REDUCE, size, index);
  return t->has_shards ? index != owner : tt_knomial_hops(&tree);
}

/* The longest chain of messages from the ranks below a unit of level l to the rank that acts for it on the current
 * shard. */
static int32_t way_up(const struct tally *t, int32_t l, int32_t unit)
{
  int32_t longest = 0;
  if (l == 0) return 0;
  const struct tt_hierarchy_level *level = &t->h.level[l - 1];
  int32_t size = tt_group_size(level, unit), owner = tt_shard_owner(level, size, t->shard[l - 1]);
  for (int32_t k = 0; k < size; k++) {
    int32_t way = way_up(t, l - 1, level->unit[level->start[unit] + k]) + hops(t, size, k, owner);
    if (way > longest) longest = way;
  }
  return longest;
}

static int is_as_last(const struct tally *t, int32_t nblocks)
{
  if (nblocks != t->last_blocks) return 0;
  for (int32_t top = 0; top < t->h.ntops; top++)
    if (t->before[top] != t->last[top]) return 0;
  return 1;
}

static void middle_rounds(struct tally *t, int32_t nblocks)
{
  struct tt_shape middle = tt_middle_shape(t->shape, t->h.ntops, 0, nblocks);
  for (int32_t top = 0; top < t->h.ntops; top++) t->before[top] = way_up(t, t->h.nlevels, top);
  if (is_as_last(t, nblocks)) return;
  int64_t rounds = tt_middle_rounds(tt_middle_algo(t->shape), &middle, t->before);
  if (rounds > t->cost->rounds) t->cost->rounds = rounds;
  int32_t *now = t->before;
  t->before = t->last;
  t->last = now;
  t->last_blocks = nblocks;
}

static void shards_rounds(struct tally *t, int32_t l, struct tt_blocks blocks)
{
  if (blocks.n == 0) return;
  if (l >= t->h.nlevels || l >= TT_MAX_LEVELS) {
    middle_rounds(t, blocks.n);
    return;
  }
  for (int32_t s = 0; s < t->h.level[l].most; s++) {
    t->shard[l] = s;
    shards_rounds(t, l + 1, tt_shard_blocks(&t->h.level[l], blocks, s, s + 1));
  }
}

/* ---- rows ------------------------------------------------------------------------ */

static void claim(const struct tt_shape *shape, struct tt_cost *cost, int has_shards)
{
  struct tally t = {.shape = shape, .cost = cost, .has_shards = has_shards};
  int32_t *room = tt_alloc((size_t)shape->nranks, 2 * sizeof *room);
  struct tt_blocks all = {0, shape->nblocks};
  *cost = (struct tt_cost){0};
  if (!tt_hierarchy_create(&t.h, shape) && room) {
    t.before = room;
    t.last = room + shape->nranks;
    if (has_shards) {
      shards_add(&t, 0, shape->rank, all);
      shards_rounds(&t, 0, all);
    } else {
      leaders_add(&t);
      middle_rounds(&t, all.n);
    }
  }
  tt_hierarchy_destroy(&t.h);
  tt_free(room);
}

void tt_hierarchical_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  claim(shape, cost, 0);
}

void tt_shards_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  claim(shape, cost, 1);
}

int32_t tt_hierarchical_blocks(const struct tt_shape *shape)
{
  return tt_middle_shape(shape, tt_hierarchy_tops(shape), 0, 0).nblocks;
}

/* The number of shards times the blocks that the middle step wants for each: this is the number of ranks if groups are
 * equal and the middle step wants one block a rank. If sizes differ a lot it would be many more, and levels are left
 * out. */
int32_t tt_shards_blocks(const struct tt_shape *shape)
{
  struct tt_hierarchy h;
  int64_t blocks = tt_hierarchical_blocks(shape);
  if (!tt_hierarchy_create(&h, shape))
    for (int32_t l = 0; l < h.nlevels; l++)
      if (blocks * h.level[l].most <= 4 * (int64_t)shape->nranks) blocks *= h.level[l].most;
  tt_hierarchy_destroy(&h);
  return (int32_t)blocks;
}

const char *tt_shards_illegal(const struct tt_shape *shape)
{
  if (shape->middle < -1 || shape->middle >= tt_algo_count) return "its middle step is no algorithm";
  const struct tt_algo *algo = tt_middle_algo(shape);
  if (algo->collective != TT_ALL_REDUCE) return "its middle step must be an all-reduce";
  if (algo->has_middle) return "its middle step must not be hierarchical itself";
  struct tt_shape middle = tt_middle_shape(shape, tt_hierarchy_tops(shape), 0, 0);
  return algo->illegal ? algo->illegal(&middle) : NULL;
}

const char *tt_hierarchical_illegal(const struct tt_shape *shape)
{
  const char *reason = tt_shards_illegal(shape);
  return reason ? reason : tt_knomial_illegal(shape);
}
