/* SPDX-License-Identifier: BSD-3-Clause */
#include "algos/table.h"

#include <string.h>

/* What the functions of a family are called. */
#define FAMILY(name) .generate = tt_##name##_generate, .claim = tt_##name##_claim, .blocks = tt_##name##_blocks

const struct tt_algo tt_algos[] = {
    {"ring", TT_ALL_REDUCE, FAMILY(ring)},
    {"recursive_doubling", TT_ALL_REDUCE, FAMILY(doubling), .radix = 2},
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
