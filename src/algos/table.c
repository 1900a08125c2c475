/* SPDX-License-Identifier: BSD-3-Clause */
#include "algos/table.h"

#include <string.h>

const struct tt_algo tt_algos[] = {
  {"ring", TT_ALL_REDUCE, tt_ring_generate, tt_ring_claim, tt_ring_blocks, NULL},
  {"recursive_doubling", TT_ALL_REDUCE, tt_doubling_generate, tt_doubling_claim, tt_doubling_blocks, NULL},
};

const int tt_algo_count = sizeof tt_algos / sizeof tt_algos[0];

const struct tt_algo *tt_algo_find(int collective, const char *name)
{
  for (int i = 0; name && i < tt_algo_count; i++)
    if (tt_algos[i].collective == collective && strcmp(tt_algos[i].name, name) == 0) return &tt_algos[i];
  return NULL;
}
