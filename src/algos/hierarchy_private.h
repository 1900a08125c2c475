/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: nested groups of ranks, and the ranks that act for groups in hierarchical algorithms.
 *
 * The units of level 0 are the ranks, those of level l the groups of level l - 1. A group of level l is a list of such
 * units, ordered by their lowest ranks. On their way up, the blocks of a group are cut into as many shards as the
 * largest group of its level has units, and shard s of S is owned in a group of k units by unit s k / S, rounded down:
 * so a shard has one owner in every group, and an owner has neighbouring shards. The rank that acts for a unit on a
 * shard is found by descending: the owner among the units of that unit, then the owner among the units of the owner,
 * and so on down to a rank. */
#ifndef TT_ALGOS_HIERARCHY_H
#define TT_ALGOS_HIERARCHY_H

#include "algos/table_private.h"

struct tt_hierarchy_level {
  int32_t nunits, ngroups;
  int32_t most;   /* units of the largest group: the number of shards */
  int32_t *start; /* [ngroups + 1]: the units of group g are unit[start[g]] .. unit[start[g + 1] - 1] */
  int32_t *unit;  /* [nunits] */
  int32_t *group; /* [nunits]: the group of each unit */
  int32_t *index; /* [nunits]: its place in that group */
};

struct tt_hierarchy {
  int32_t nlevels, ntops; /* ntops: groups of the outermost level; with no level the ranks themselves */
  struct tt_hierarchy_level level[TT_MAX_LEVELS];
  int32_t *ranks;         /* [nranks]: for the caller, e.g. to map the ranks of an embedded schedule */
  int32_t *starts;        /* [nranks + 1]: for tt_circle_parts */
  int32_t *storage;
};

/* Takes the groups from shape->groups, or makes groups near the square root of nranks. Destroy it also after errors. */
tuttiResult_t tt_hierarchy_create(struct tt_hierarchy *h, const struct tt_shape *shape);
void tt_hierarchy_destroy(struct tt_hierarchy *h);

/* The value of h->ntops, without making a hierarchy. */
int32_t tt_hierarchy_tops(const struct tt_shape *shape);

static inline int32_t tt_group_size(const struct tt_hierarchy_level *level, int32_t group)
{
  return level->start[group + 1] - level->start[group];
}

/* The index of the unit that owns a shard in a group of `size` units, and the first shard that unit `index` owns; for
 * index = size it is the number of shards. */
static inline int32_t tt_shard_owner(const struct tt_hierarchy_level *level, int32_t size, int32_t shard)
{
  return (int32_t)((int64_t)shard * size / level->most);
}
static inline int32_t tt_shard_first(const struct tt_hierarchy_level *level, int32_t size, int32_t index)
{
  return (int32_t)(((int64_t)index * level->most + size - 1) / size);
}

/* Shards [from, to) of the blocks that a level cuts. */
static inline struct tt_blocks tt_shard_blocks(const struct tt_hierarchy_level *level, struct tt_blocks blocks,
                                               int32_t from, int32_t to)
{
  int32_t first = (int32_t)((int64_t)from * blocks.n / level->most);
  int32_t end = (int32_t)((int64_t)to * blocks.n / level->most);
  return (struct tt_blocks){blocks.first + first, end - first};
}

/* The rank that acts for a unit of level `l` (nlevels: for an outermost group) on the shard that is number shard[0] of
 * level 0, within it number shard[1] of level 1, and so on. All 0: the unit's lowest rank. */
int32_t tt_hierarchy_actor(const struct tt_hierarchy *h, int32_t l, int32_t unit, const int32_t *shard);

/* The direct exchange of the shard form in a group of `size` units of level l: its shape, and the owners' parts of
 * `nblocks` blocks, as direct.c wants them. The parts are valid until the next call. */
struct tt_shape tt_circle_shape(int32_t size, int32_t index, int32_t nblocks);
const int32_t *tt_circle_parts(struct tt_hierarchy *h, int32_t l, int32_t size, int32_t nblocks);

/* The middle step among the outermost groups: its algorithm (shape->middle or the default), and its shape for one of
 * h->ntops ranks and `nblocks` blocks. */
const struct tt_algo *tt_middle_algo(const struct tt_shape *shape);
struct tt_shape tt_middle_shape(const struct tt_shape *shape, int32_t ntops, int32_t top, int32_t nblocks);

/* The number of messages of a rank of the middle step that go over the end of its blocks, and so become two if these
 * are not the whole vector. -1: no memory. */
int64_t tt_middle_splits(const struct tt_algo *algo, const struct tt_shape *middle);

/* The longest chain of messages through the middle step, if rank i of it starts after a chain of before[i] messages and
 * is followed by one of as many. -1: no memory. */
int64_t tt_middle_rounds(const struct tt_algo *algo, const struct tt_shape *middle, const int32_t *before);

/* The algorithm in a group of the leader form (reduce or broadcast), and its shape for the unit of an index among
 * `size`. */
const struct tt_algo *tt_tree_algo(int collective);
struct tt_shape tt_tree_shape(const struct tt_shape *shape, int collective, int32_t size, int32_t index);

#endif
