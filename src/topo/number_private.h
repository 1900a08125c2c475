/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: turns names of locations into dense numbers. */
#ifndef TT_TOPO_NUMBER_H
#define TT_TOPO_NUMBER_H

#include "topo/topo.h"

/* Ranks with equal (outer, inner) are in one place. */
struct tt_place_key {
  uint64_t outer, inner;
  int32_t rank;
};

/* number[rank] = dense number of its place, by first appearance in rank order, for the ranks that have a key; -1 for
 * the other ranks of 0 .. nranks - 1. Keys are sorted in place. Returns how many locations there are. */
int32_t tt_places_number(struct tt_place_key *keys, int32_t nkeys, int32_t nranks, int32_t *number);

/* The location of a rank, by any names; 0: unknown. Equal numa in different nodes, and equal caches in different numa,
 * are different locations. */
struct tt_location {
  uint64_t node, numa, cache;
};

/* tt_topology_make for any names. */
tuttiResult_t tt_topology_number(struct tt_topology *topology, int32_t nranks, const struct tt_location *locations);

/* Sorts ranks by number, stable: members[start[g] .. start[g + 1] - 1] are the ranks of group g. `ranks` gives the
 * order within a group, NULL: ascending. start has ngroups + 1 entries. */
void tt_ranks_sort(int32_t nranks, const int32_t *number, int32_t ngroups, const int32_t *ranks, int32_t *start,
                   int32_t *members);

#endif
