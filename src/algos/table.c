/* SPDX-License-Identifier: BSD-3-Clause */
#include "algos/table.h"

#include <string.h>

/* What the functions of a family are called. */
#define FAMILY(name) .generate = tt_##name##_generate, .claim = tt_##name##_claim, .blocks = tt_##name##_blocks

const struct tt_algo tt_algos[] = {
    {"ring", TT_ALL_REDUCE, FAMILY(ring)},
    {"recursive_doubling", TT_ALL_REDUCE, FAMILY(multiplying), .radix = 2},
    {"recursive_multiplying", TT_ALL_REDUCE, FAMILY(multiplying), .has_radix = 1},
    {"one_shot", TT_ALL_REDUCE, FAMILY(multiplying), .radix = TT_RADIX_RANKS},
    {"halving_doubling", TT_ALL_REDUCE, FAMILY(halving)},
    {"binary_blocks", TT_ALL_REDUCE, FAMILY(binary), .is_butterfly = 1},
    {"binary_blocks_whole", TT_ALL_REDUCE, .generate = tt_binary_whole_generate, .claim = tt_binary_whole_claim,
     .blocks = tt_multiplying_blocks, .is_butterfly = 1},
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

const struct tt_algo *tt_algo_find(int collective, const char *name)
{
  for (int i = 0; name && i < tt_algo_count; i++)
    if (tt_algos[i].collective == collective && strcmp(tt_algos[i].name, name) == 0) return &tt_algos[i];
  return NULL;
}
