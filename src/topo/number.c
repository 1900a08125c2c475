/* SPDX-License-Identifier: BSD-3-Clause */
#include "topo/number_private.h"

#include <stdlib.h>
#include <string.h>

static int keys_compare(const void *left, const void *right)
{
  const struct tt_place_key *a = left, *b = right;
  if (a->outer != b->outer) return a->outer < b->outer ? -1 : 1;
  if (a->inner != b->inner) return a->inner < b->inner ? -1 : 1;
  return (a->rank > b->rank) - (a->rank < b->rank);
}

int32_t tt_places_number(struct tt_place_key *keys, int32_t nkeys, int32_t nranks, int32_t *number)
{
  int32_t count = 0, lead = 0;
  qsort(keys, (size_t)nkeys, sizeof *keys, keys_compare);
  for (int32_t r = 0; r < nranks; r++) number[r] = -1;
  for (int32_t k = 0; k < nkeys; k++) {
    if (k == 0 || keys[k].outer != keys[k - 1].outer || keys[k].inner != keys[k - 1].inner) lead = keys[k].rank;
    number[keys[k].rank] = lead;
  }
  /* The lead is the lowest rank of its place, so its number is there before other ranks of the place need it. */
  for (int32_t r = 0; r < nranks; r++)
    if (number[r] == r) number[r] = count++;
    else if (number[r] >= 0) number[r] = number[number[r]];
  return count;
}

void tt_ranks_sort(int32_t nranks, const int32_t *number, int32_t ngroups, const int32_t *ranks, int32_t *start,
                   int32_t *members)
{
  memset(start, 0, ((size_t)ngroups + 1) * sizeof *start);
  for (int32_t r = 0; r < nranks; r++)
    if (number[r] >= 0 && number[r] + 1 < ngroups) start[number[r] + 2]++;
  for (int32_t g = 2; g <= ngroups; g++) start[g] += start[g - 1];
  /* start[g + 1] is the beginning of group g, and moves to its end. */
  for (int32_t i = 0; i < nranks; i++) {
    int32_t rank = ranks ? ranks[i] : i;
    if (number[rank] >= 0) members[start[number[rank] + 1]++] = rank;
  }
}
