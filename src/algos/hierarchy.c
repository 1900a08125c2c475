/* SPDX-License-Identifier: BSD-3-Clause */
#include "algos/hierarchy_private.h"

/* The integer whose square is nearest to nranks: the size of groups of consecutive ranks, of which the last may be
 * smaller. */
static int32_t size_near_root(int32_t nranks)
{
  int64_t size = 1;
  while (size * (size + 1) < nranks) size++; /* (s + 1)^2 is nearer than s^2 from s^2 + s + 1 on */
  return (int32_t)size;
}

int32_t tt_hierarchy_tops(const struct tt_shape *shape)
{
  int32_t size = size_near_root(shape->nranks), most = 0;
  if (!shape->groups) return (shape->nranks + size - 1) / size;
  if (shape->groups->nlevels == 0) return shape->nranks;
  const int32_t *group = shape->groups->group[shape->groups->nlevels - 1];
  for (int32_t rank = 0; rank < shape->nranks; rank++)
    if (group[rank] > most) most = group[rank];
  return most + 1;
}

/* Sorts the units of a level by their groups, which are known. */
static void level_sort(struct tt_hierarchy_level *level)
{
  for (int32_t u = 0; u < level->nunits; u++) level->index[u] = level->start[level->group[u] + 1]++;
  for (int32_t g = 0; g < level->ngroups; g++) {
    if (level->start[g + 1] > level->most) level->most = level->start[g + 1];
    level->start[g + 1] += level->start[g];
  }
  for (int32_t u = 0; u < level->nunits; u++) level->unit[level->start[level->group[u]] + level->index[u]] = u;
}

/* Finds the groups of level l, takes its arrays from `room`, and returns the rest of it. h->ranks[u] is a rank of unit
 * u on entry, and of group u on return. */
static int32_t *level_make(struct tt_hierarchy *h, const struct tt_shape *shape, int32_t l, int32_t *room)
{
  struct tt_hierarchy_level *level = &h->level[l];
  int32_t size = size_near_root(shape->nranks);
  level->nunits = h->ntops;
  level->group = room;
  level->index = level->group + level->nunits;
  level->unit = level->index + level->nunits;
  level->start = level->unit + level->nunits;
  for (int32_t u = 0; u < level->nunits; u++) {
    level->group[u] = shape->groups ? shape->groups->group[l][h->ranks[u]] : h->ranks[u] / size;
    if (level->group[u] >= level->ngroups) level->ngroups = level->group[u] + 1;
  }
  level_sort(level);
  for (int32_t g = 0; g < level->ngroups; g++) h->ranks[g] = h->ranks[level->unit[level->start[g]]];
  h->ntops = level->ngroups;
  return level->start + level->ngroups + 1;
}

tuttiResult_t tt_hierarchy_create(struct tt_hierarchy *h, const struct tt_shape *shape)
{
  int32_t nlevels = shape->groups ? shape->groups->nlevels : 1;
  *h = (struct tt_hierarchy){.nlevels = nlevels, .ntops = shape->nranks};
  h->storage = tt_alloc((size_t)shape->nranks * (size_t)(4 * nlevels + 2) + (size_t)nlevels + 1, sizeof *h->storage);
  if (!h->storage)
    return tt_fail(tuttiSystemError, "no memory for the groups of %d ranks: give the process more",
                   (int)shape->nranks);
  h->ranks = h->storage;
  h->starts = h->ranks + shape->nranks;
  int32_t *room = h->starts + shape->nranks + 1;
  for (int32_t rank = 0; rank < shape->nranks; rank++) h->ranks[rank] = rank;
  for (int32_t l = 0; l < nlevels; l++) room = level_make(h, shape, l, room);
  return tuttiSuccess;
}

void tt_hierarchy_destroy(struct tt_hierarchy *h)
{
  tt_free(h->storage);
  *h = (struct tt_hierarchy){0};
}

int32_t tt_hierarchy_actor(const struct tt_hierarchy *h, int32_t l, int32_t unit, const int32_t *shard)
{
  while (l-- > 0) {
    const struct tt_hierarchy_level *level = &h->level[l];
    unit = level->unit[level->start[unit] + tt_shard_owner(level, tt_group_size(level, unit), shard[l])];
  }
  return unit;
}

struct tt_shape tt_circle_shape(int32_t size, int32_t index, int32_t nblocks)
{
  return (struct tt_shape){.collective = TT_ALL_REDUCE, .nranks = size, .rank = index, .nblocks = nblocks,
                           .root = -1, .middle = -1};
}

const int32_t *tt_circle_parts(struct tt_hierarchy *h, int32_t l, int32_t size, int32_t nblocks)
{
  const struct tt_hierarchy_level *level = &h->level[l];
  struct tt_blocks all = {0, nblocks};
  for (int32_t k = 0; k <= size; k++)
    h->starts[k] = tt_shard_blocks(level, all, 0, tt_shard_first(level, size, k)).n;
  return h->starts;
}

const struct tt_algo *tt_tree_algo(int collective)
{
  return tt_algo_find(collective, "knomial");
}

struct tt_shape tt_tree_shape(const struct tt_shape *shape, int collective, int32_t size, int32_t index)
{
  return (struct tt_shape){.collective = collective, .nranks = size, .rank = index, .nblocks = shape->nblocks,
                           .radix = shape->radix, .middle = -1};
}
