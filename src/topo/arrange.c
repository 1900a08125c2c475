/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "topo/number_private.h"

enum { CACHE, NUMA, NODE, KINDS };

/* Groups of ranks, one array for each kind of place; every rank is in a group of each kind, and they are nested. */
struct work {
  int32_t n;
  int32_t *number[KINDS], count[KINDS];
  int32_t *start, *members;
  struct tt_place_key *keys;
};

static void work_destroy(struct work *w)
{
  for (int k = 0; k < KINDS; k++) tt_free(w->number[k]);
  tt_free(w->start);
  tt_free(w->members);
  tt_free(w->keys);
}

static int work_create(struct work *w, int32_t nranks)
{
  size_t n = (size_t)nranks;
  int is_whole = 1;
  memset(w, 0, sizeof *w);
  w->n = nranks;
  for (int k = 0; k < KINDS; k++) is_whole &= (w->number[k] = tt_alloc(n, sizeof *w->number[k])) != NULL;
  w->start = tt_alloc(n + 1, sizeof *w->start);
  w->members = tt_alloc(n, sizeof *w->members);
  w->keys = tt_alloc(n, sizeof *w->keys);
  if (is_whole && w->start && w->members && w->keys) return 1;
  work_destroy(w);
  return 0;
}

/* Makes the groups of `kind`: those of `outer`, cut by `value`; -1 is a value like others. */
static void groups_cut(struct work *w, int kind, const int32_t *outer, const int32_t *value)
{
  for (int32_t r = 0; r < w->n; r++)
    w->keys[r] = (struct tt_place_key){outer ? (uint64_t)outer[r] : 0, (uint64_t)(value[r] + 1), r};
  w->count[kind] = tt_places_number(w->keys, w->n, w->n, w->number[kind]);
}

/* Stable sorts by cache, NUMA node and node, one after another: the last one counts most. */
static void order_find(struct work *w, int32_t *order)
{
  for (int32_t r = 0; r < w->n; r++) order[r] = r;
  for (int k = 0; k < KINDS; k++) {
    tt_ranks_sort(w->n, w->number[k], w->count[k], order, w->start, w->members);
    memcpy(order, w->members, (size_t)w->n * sizeof *order);
  }
}

static int says_something(int64_t ngroups, int64_t nranks)
{
  return ngroups > 1 && ngroups < nranks;
}

/* Groups have consecutive positions, so a new group begins where the number changes. */
static void level_append(struct tt_arrangement *made, const int32_t *number)
{
  int32_t *group = made->storage + (size_t)(made->groups.nlevels + 1) * (size_t)made->nranks;
  group[0] = 0;
  for (int32_t p = 1; p < made->nranks; p++)
    group[p] = group[p - 1] + (number[made->order[p]] != number[made->order[p - 1]]);
  made->groups.group[made->groups.nlevels++] = group;
}

/* The number of groups with sizes near the square root of n: n / d for the largest divisor d from 2/3 of the root to
 * the root, else the number for the nearest whole size. Computed in integers, so that all ranks agree. */
static int64_t groups_near_root(int64_t n)
{
  int64_t root = 1;
  while ((root + 1) * (root + 1) <= n) root++;
  for (int64_t d = root; 9 * d * d >= 4 * n && d > 1; d--)
    if (n % d == 0) return n / d;
  if (n - root * root > root) root++;
  return (n + root - 1) / root;
}

/* Makes groups of consecutive positions; with a given size the last group has the rest, else sizes differ by one. */
static void level_invent(struct tt_arrangement *made, int64_t group_size)
{
  int64_t n = made->nranks, ngroups = group_size > 0 ? (n + group_size - 1) / group_size : groups_near_root(n);
  if (!says_something(ngroups, n)) return;
  int32_t *group = made->storage + n;
  for (int64_t p = 0, g = 0; p < n; p++) {
    int64_t end = group_size > 0 ? (g + 1) * group_size
                                 : (int64_t)tt_block_start((size_t)n, (int32_t)ngroups, (int32_t)g + 1);
    if (p == end) g++;
    group[p] = (int32_t)g;
  }
  made->groups.group[made->groups.nlevels++] = group;
}

tuttiResult_t tt_topology_arrange(struct tt_arrangement *made, const struct tt_topology *topology, int64_t group_size)
{
  struct work w;
  struct tt_arrangement new = {.nranks = topology->nranks};
  int32_t below = 0;
  int has_work = work_create(&w, topology->nranks);
  new.storage = tt_alloc((size_t)topology->nranks * (KINDS + 1), sizeof *new.storage);
  if (!has_work || !new.storage) {
    if (has_work) work_destroy(&w);
    tt_free(new.storage);
    return tt_fail(tuttiSystemError, "no memory to arrange %d ranks: give the process more", (int)topology->nranks);
  }
  groups_cut(&w, NODE, NULL, topology->node);
  groups_cut(&w, NUMA, w.number[NODE], topology->numa);
  groups_cut(&w, CACHE, w.number[NUMA], topology->cache);
  new.order = new.storage;
  order_find(&w, new.order);
  for (int k = 0; k < KINDS && group_size <= 0; k++) {
    if (says_something(w.count[k], w.n) && w.count[k] != below) level_append(&new, w.number[k]);
    below = w.count[k];
  }
  if (new.groups.nlevels == 0) level_invent(&new, group_size);
  work_destroy(&w);
  *made = new;
  return tuttiSuccess;
}

void tt_arrangement_destroy(struct tt_arrangement *arrangement)
{
  if (!arrangement) return;
  tt_free(arrangement->storage);
  memset(arrangement, 0, sizeof *arrangement);
}
