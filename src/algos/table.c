/* SPDX-License-Identifier: BSD-3-Clause */
#include "algos/table_private.h"


/* The functions of a family. */
#define FAMILY(name) .generate = tt_##name##_generate, .claim = tt_##name##_claim, .blocks = tt_##name##_blocks

/* The functions of one member of a family whose members share the number of blocks. */
#define MEMBER(name, family) \
  .generate = tt_##name##_generate, .claim = tt_##name##_claim, .blocks = tt_##family##_blocks

const struct tt_algo tt_algos[] = {
    {"ring", TT_ALL_REDUCE, FAMILY(ring)},
    {"recursive_doubling", TT_ALL_REDUCE, FAMILY(multiplying), .folded = tt_multiplying_folded, .radix = 2},
    {"recursive_multiplying", TT_ALL_REDUCE, FAMILY(multiplying), .folded = tt_multiplying_folded, .has_radix = 1},
    {"one_shot", TT_ALL_REDUCE, FAMILY(multiplying), .radix = TT_RADIX_RANKS},
    {"halving_doubling", TT_ALL_REDUCE, FAMILY(halving), .folded = tt_halving_folded},
    {"binary_blocks", TT_ALL_REDUCE, FAMILY(binary), .has_one_tree = 1},
    {"binary_blocks_whole", TT_ALL_REDUCE, MEMBER(binary_whole, multiplying), .has_one_tree = 1},
    {"ring", TT_REDUCE_SCATTER, MEMBER(ring_scatter, ring)},
    {"ring", TT_ALL_GATHER, MEMBER(ring_gather, ring)},
    {"chain", TT_BROADCAST, MEMBER(chain_broadcast, chain)},
    {"chain", TT_REDUCE, MEMBER(chain_reduce, chain)},
    {"scatter_allgather", TT_BROADCAST, FAMILY(scatter_allgather)},
    {"reduce_scatter_gather", TT_REDUCE, MEMBER(ring_reduce, ring)},
    {"binomial", TT_SCATTER, MEMBER(binomial_scatter, scatter_gather)},
    {"direct", TT_SCATTER, MEMBER(direct_scatter, scatter_gather)},
    {"binomial", TT_GATHER, MEMBER(binomial_gather, scatter_gather)},
    {"direct", TT_GATHER, MEMBER(direct_gather, scatter_gather)},
    {"direct", TT_ALL_TO_ALL, MEMBER(direct_all_to_all, all_to_all)},
    {"bruck", TT_ALL_TO_ALL, MEMBER(bruck, all_to_all)},
    {"hierarchical", TT_ALL_REDUCE, FAMILY(hierarchical), .has_radix = 1, .has_middle = 1,
     .illegal = tt_hierarchical_illegal},
    {"hierarchical_shards", TT_ALL_REDUCE, FAMILY(shards), .has_middle = 1, .illegal = tt_shards_illegal},
    {"knomial", TT_ALL_REDUCE, FAMILY(knomial), .illegal = tt_knomial_illegal, .has_radix = 1},
    {"binary_tree", TT_ALL_REDUCE, FAMILY(knomial), .radix = 2},
    {"star", TT_ALL_REDUCE, FAMILY(knomial), .radix = TT_RADIX_RANKS},
    {"knomial", TT_REDUCE, FAMILY(knomial), .illegal = tt_knomial_illegal, .has_radix = 1},
    {"binary_tree", TT_REDUCE, FAMILY(knomial), .radix = 2, .has_one_tree = 1},
    {"star", TT_REDUCE, FAMILY(knomial), .radix = TT_RADIX_RANKS},
    {"knomial", TT_BROADCAST, FAMILY(knomial), .illegal = tt_knomial_illegal, .has_radix = 1},
    {"binary_tree", TT_BROADCAST, FAMILY(knomial), .radix = 2},
    {"star", TT_BROADCAST, FAMILY(knomial), .radix = TT_RADIX_RANKS},
    {"double_tree", TT_ALL_REDUCE, FAMILY(double_tree)},
    {"double_tree", TT_REDUCE, FAMILY(double_tree)},
    {"double_tree", TT_BROADCAST, FAMILY(double_tree)},
    {"circulant", TT_ALL_REDUCE, FAMILY(circulant)},
    {"circulant", TT_REDUCE_SCATTER, FAMILY(circulant)},
    {"circulant", TT_ALL_GATHER, FAMILY(circulant)},
    {"direct", TT_ALL_REDUCE, FAMILY(direct)},
    {"direct", TT_REDUCE_SCATTER, FAMILY(direct), .has_one_tree = 1},
    {"direct", TT_ALL_GATHER, FAMILY(direct)},
};

const int tt_algo_count = sizeof tt_algos / sizeof tt_algos[0];

void tt_algo_shape(const struct tt_algo *algo, struct tt_shape *shape)
{
  shape->collective = algo->collective;
  if (algo->radix) shape->radix = algo->radix;
  if (shape->radix > shape->nranks) shape->radix = shape->nranks;
  shape->nblocks = 1;
  shape->nblocks = algo->blocks(shape);
}

void tt_algo_schedule(const struct tt_algo *algo, struct tt_schedule *schedule, const struct tt_shape *shape,
                      int deterministic)
{
  algo->generate(schedule, shape);
  if (!deterministic) tt_pass_merge(schedule);
  tt_pass_fuse(schedule);
}

const struct tt_algo *tt_algo_find(int collective, const char *name)
{
  for (int i = 0; name && i < tt_algo_count; i++)
    if (tt_algos[i].collective == collective && tt_same_name(tt_algos[i].name, name)) return &tt_algos[i];
  return NULL;
}
