/* SPDX-License-Identifier: BSD-3-Clause */
/* The map of all ranks, their order on the wire and their groups.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "topo/topo.h"

#define MOST 64

static void equals(const int32_t *got, const int32_t *wanted, size_t n)
{
  assert_memory_equal(got, wanted, n * sizeof *got);
}

static struct tt_topology make(int32_t n, const uint64_t *host, const struct tt_locality *where)
{
  struct tt_topology topology;
  assert_int_equal(tt_topology_make(&topology, n, host, where), tuttiSuccess);
  assert_int_equal(topology.nranks, n);
  return topology;
}

static uint64_t lot(uint64_t *seed)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return *seed >> 33;
}

/* Up to 3 nodes, 2 NUMA nodes each, 2 caches each; some unknown. */
static struct tt_topology random_make(uint64_t *seed, int32_t n)
{
  uint64_t host[MOST];
  struct tt_locality where[MOST];
  for (int32_t r = 0; r < n; r++) {
    host[r] = lot(seed) % 3;
    where[r].numa = (int32_t)(lot(seed) % 3) - 1;
    where[r].cache = (int32_t)(lot(seed) % 3) - 1;
  }
  return make(n, host, where);
}

static void places_are_numbered_by_first_appearance(void **state)
{
  (void)state;
  static const uint64_t host[] = {7ull << 32, 0, 7, 7ull << 32, 0, 7};
  static const struct tt_locality where[] = {{1, 8}, {1, 8}, {-1, -1}, {0, 0}, {1, 8}, {2000000000, -1}};
  struct tt_topology t = make(6, host, where);
  assert_int_equal(t.nnodes, 3);
  assert_int_equal(t.nnumas, 4);
  assert_int_equal(t.ncaches, 3);
  equals(t.node, (int32_t[]){0, 1, 2, 0, 1, 2}, 6);
  equals(t.numa, (int32_t[]){0, 1, -1, 2, 1, 3}, 6);
  equals(t.cache, (int32_t[]){0, 1, -1, 2, 1, -1}, 6);
  tt_topology_destroy(&t);
  assert_null(t.node);
  tt_topology_destroy(&t);
  tt_topology_destroy(NULL);
}

static void a_cache_that_spans_numa_nodes_counts_in_each(void **state)
{
  (void)state;
  static const uint64_t host[4] = {5, 5, 5, 5};
  static const struct tt_locality where[] = {{0, 0}, {1, 0}, {0, 0}, {-1, 0}};
  struct tt_topology t = make(4, host, where);
  equals(t.cache, (int32_t[]){0, 1, 0, 2}, 4);
  assert_int_equal(tt_topology_kind(&t, 0, 1), TT_LINK_NODE);
  assert_int_equal(tt_topology_kind(&t, 0, 2), TT_LINK_CACHE);
  tt_topology_destroy(&t);
}

static void the_kind_of_link_is_the_nearest_thing_shared(void **state)
{
  (void)state;
  static const uint64_t host[] = {1, 1, 1, 1, 1, 1, 2, 2};
  static const struct tt_locality where[] = {{0, 0}, {0, 0}, {0, 4}, {1, 8}, {0, -1}, {-1, -1}, {0, 0}, {-1, -1}};
  struct tt_topology t = make(8, host, where);
  static const int wanted[8] = {TT_LINK_SELF, TT_LINK_CACHE, TT_LINK_NUMA, TT_LINK_NODE,
                                TT_LINK_NUMA, TT_LINK_NODE,  TT_LINK_NET,  TT_LINK_NET};
  for (int32_t r = 0; r < 8; r++) {
    assert_int_equal(tt_topology_kind(&t, 0, r), wanted[r]);
    assert_int_equal(tt_topology_kind(&t, r, 0), wanted[r]);
  }
  assert_int_equal(tt_topology_kind(&t, 6, 7), TT_LINK_NODE);
  assert_int_equal(tt_topology_kind(&t, 4, 5), TT_LINK_NODE);
  assert_int_equal(tt_topology_kind(&t, 5, 5), TT_LINK_SELF);
  tt_topology_destroy(&t);
}

/* ---- order and groups ---- */

static void a_wire_order_puts_neighbours_together(void **state)
{
  (void)state;
  static const uint64_t host[] = {9, 3, 9, 3, 9, 3, 9, 3, 9};
  static const struct tt_locality where[] = {{0, 0}, {0, 0}, {1, 8}, {0, 4}, {0, 4}, {0, 0}, {1, 8}, {0, 4}, {0, 0}};
  struct tt_topology t = make(9, host, where);
  struct tt_arrangement a;
  assert_int_equal(tt_topology_arrange(&a, &t, 0), tuttiSuccess);
  equals(a.order, (int32_t[]){0, 8, 4, 2, 6, 1, 5, 3, 7}, 9);
  assert_int_equal(a.groups.nlevels, 3);
  equals(a.groups.group[0], (int32_t[]){0, 0, 1, 2, 2, 3, 3, 4, 4}, 9);
  equals(a.groups.group[1], (int32_t[]){0, 0, 0, 1, 1, 2, 2, 2, 2}, 9);
  equals(a.groups.group[2], (int32_t[]){0, 0, 0, 0, 0, 1, 1, 1, 1}, 9);
  tt_arrangement_destroy(&a);
  tt_arrangement_destroy(&a);
  tt_arrangement_destroy(NULL);
  tt_topology_destroy(&t);
}

static void ranks_in_blocks_keep_their_numbers_and_sizes_may_differ(void **state)
{
  (void)state;
  uint64_t host[12] = {0};
  struct tt_locality where[12] = {{0, 0}};
  for (int r = 0; r < 12; r++) {
    host[r] = r < 7 ? 100 : 4;
    where[r] = (struct tt_locality){-1, -1};
  }
  struct tt_topology t = make(12, host, where);
  struct tt_arrangement a;
  assert_int_equal(tt_topology_arrange(&a, &t, 0), tuttiSuccess);
  equals(a.order, (int32_t[]){0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, 12);
  assert_int_equal(a.groups.nlevels, 1);
  equals(a.groups.group[0], (int32_t[]){0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1}, 12);
  tt_arrangement_destroy(&a);
  tt_topology_destroy(&t);
}

static void levels_that_say_nothing_are_left_out(void **state)
{
  (void)state;
  /* One cache a NUMA node, every rank on a core of its own cache but two: only the cache level says something. */
  static const uint64_t host[4] = {1, 1, 1, 1};
  static const struct tt_locality where[] = {{0, 0}, {0, 0}, {1, 4}, {2, 8}};
  struct tt_topology t = make(4, host, where);
  struct tt_arrangement a;
  assert_int_equal(tt_topology_arrange(&a, &t, 0), tuttiSuccess);
  assert_int_equal(a.groups.nlevels, 1);
  equals(a.groups.group[0], (int32_t[]){0, 0, 1, 2}, 4);
  tt_arrangement_destroy(&a);
  tt_topology_destroy(&t);
}

/* At position p of level l: the group a brute-force reading of the contract gives. */
static int is_same_place(const struct tt_topology *t, int kind, int32_t a, int32_t b)
{
  if (t->node[a] != t->node[b]) return 0;
  if (kind >= 1 && t->numa[a] != t->numa[b]) return 0;
  return kind < 2 || t->cache[a] == t->cache[b];
}

static void partition_check(const struct tt_topology *t, const struct tt_arrangement *a, int kind, int *level)
{
  int32_t n = t->nranks, ngroups = 0, below = 0, group[MOST];
  for (int32_t p = 0; p < n; p++) {
    int32_t q = 0;
    while (!is_same_place(t, kind, a->order[q], a->order[p])) q++;
    group[p] = q == p ? ngroups++ : group[q];
    /* Neighbours in place are neighbours on the wire, in rank order if nothing nearer parts them. */
    if (q < p) assert_true(is_same_place(t, kind, a->order[p - 1], a->order[p]));
    if (q < p && kind == 2) assert_true(a->order[p - 1] < a->order[p]);
  }
  for (int32_t p = 0; kind < 2 && p < n; p++) {
    int32_t q = 0;
    while (!is_same_place(t, kind + 1, a->order[q], a->order[p])) q++;
    below += q == p;
  }
  if (ngroups == 1 || ngroups == n || ngroups == below) return;
  assert_true(*level < a->groups.nlevels);
  equals(a->groups.group[(*level)++], group, (size_t)n);
}

static void arrangements_are_what_the_contract_says(void **state)
{
  (void)state;
  uint64_t seed = 12;
  for (int round = 0; round < 600; round++) {
    int32_t n = 1 + round % MOST, seen[MOST] = {0};
    struct tt_topology t = random_make(&seed, n);
    struct tt_arrangement a;
    assert_int_equal(tt_topology_arrange(&a, &t, 0), tuttiSuccess);
    for (int32_t p = 0; p < n; p++) assert_int_equal(seen[a.order[p]]++, 0);
    int level = 0;
    for (int kind = 2; kind >= 0; kind--) partition_check(&t, &a, kind, &level);
    if (level) assert_int_equal(level, a.groups.nlevels); /* else groups of about the square root */
    /* Nodes, and what is inside, in order of first appearance. */
    for (int32_t p = 1; p < n; p++) {
      int32_t here = a.order[p], before = a.order[p - 1];
      assert_true(t.node[before] <= t.node[here]);
    }
    tt_arrangement_destroy(&a);
    tt_topology_destroy(&t);
  }
}

/* The sizes of the groups of n ranks about which nothing is known, up to 8 of them. */
static void invented(int32_t n, int64_t group_size, int ngroups, const int32_t *sizes)
{
  uint64_t host[MOST] = {0};
  struct tt_locality where[MOST] = {{0, 0}};
  for (int32_t r = 0; r < n; r++) where[r] = (struct tt_locality){-1, -1};
  struct tt_topology t = make(n, host, where);
  struct tt_arrangement a;
  assert_int_equal(tt_topology_arrange(&a, &t, group_size), tuttiSuccess);
  for (int32_t p = 0; p < n; p++) assert_int_equal(a.order[p], p);
  assert_int_equal(a.groups.nlevels, ngroups > 0);
  int32_t p = 0;
  for (int g = 0; g < ngroups; g++)
    for (int32_t i = 0; i < sizes[g]; i++) assert_int_equal(a.groups.group[0][p++], g);
  if (ngroups) assert_int_equal(p, n);
  tt_arrangement_destroy(&a);
  tt_topology_destroy(&t);
}

static void without_topology_groups_are_near_the_square_root(void **state)
{
  (void)state;
  static const int32_t sizes[][8] = {
      {0}, {0}, {0}, {2, 1}, {2, 2}, {2, 2, 1}, {2, 2, 2}, {3, 2, 2}, {2, 2, 2, 2}, {3, 3, 3}, {3, 3, 2, 2},
      {3, 3, 3, 2}, {3, 3, 3, 3}, {4, 3, 3, 3}, {4, 4, 3, 3}, {3, 3, 3, 3, 3}, {4, 4, 4, 4}, {4, 4, 3, 3, 3},
  };
  for (int32_t n = 1; n < (int32_t)(sizeof sizes / sizeof sizes[0]); n++) {
    int ngroups = 0;
    while (sizes[n][ngroups]) ngroups++;
    invented(n, 0, ngroups, sizes[n]);
  }
}

static void a_group_size_counts_where_no_topology_shows(void **state)
{
  (void)state;
  invented(7, 3, 3, (int32_t[]){3, 3, 1});
  invented(7, 4, 2, (int32_t[]){4, 3});
  invented(8, 4, 2, (int32_t[]){4, 4});
  invented(7, 6, 2, (int32_t[]){6, 1});
  invented(7, 7, 0, NULL);
  invented(7, 65536, 0, NULL);
  invented(7, 1, 0, NULL);
  invented(1, 1, 0, NULL);
  invented(2, 1, 0, NULL);
}

static void a_group_size_counts_before_what_a_topology_shows(void **state)
{
  (void)state;
  static const uint64_t host[6] = {9, 8, 9, 8, 9, 8};
  static const struct tt_locality where[6] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {1, 1}, {0, 0}};
  struct tt_topology t = make(6, host, where);
  struct tt_arrangement a;
  assert_int_equal(tt_topology_arrange(&a, &t, 2), tuttiSuccess);
  equals(a.order, (int32_t[]){0, 2, 4, 1, 3, 5}, 6);
  assert_int_equal(a.groups.nlevels, 1);
  equals(a.groups.group[0], (int32_t[]){0, 0, 1, 1, 2, 2}, 6);
  tt_arrangement_destroy(&a);
  tt_topology_destroy(&t);
}

static void ranks_on_nodes_of_their_own_are_grouped_by_size(void **state)
{
  (void)state;
  static const uint64_t host[6] = {9, 8, 7, 6, 5, 4};
  static const struct tt_locality where[6] = {{0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}, {0, 0}};
  struct tt_topology t = make(6, host, where);
  struct tt_arrangement a;
  assert_int_equal(tt_topology_arrange(&a, &t, 0), tuttiSuccess);
  equals(a.order, (int32_t[]){0, 1, 2, 3, 4, 5}, 6);
  assert_int_equal(a.groups.nlevels, 1);
  equals(a.groups.group[0], (int32_t[]){0, 0, 1, 1, 2, 2}, 6);
  tt_arrangement_destroy(&a);
  tt_topology_destroy(&t);
}

/* ---- refusals ---- */

static void a_wrong_number_of_ranks_is_refused(void **state)
{
  (void)state;
  static const int32_t wrong[] = {0, -1, TT_TOPOLOGY_MAX_RANKS + 1, INT32_MAX, INT32_MIN};
  struct tt_topology t = {.nranks = 77};
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++)
    assert_int_equal(tt_topology_make(&t, wrong[w], NULL, NULL), tuttiInvalidArgument);
  assert_int_equal(t.nranks, 77);
}

static void every_failed_allocation_is_told_and_leaves_nothing(void **state)
{
  (void)state;
  static const uint64_t host[3] = {1, 1, 2};
  static const struct tt_locality where[3] = {{0, 0}, {0, 0}, {0, 0}};
  struct tt_topology t = {.nranks = 77};
  struct tt_arrangement a = {.nranks = 77};
  int failures = 0;
  for (tuttiResult_t result = tuttiSystemError; result != tuttiSuccess; failures++) {
    assert_int_equal(t.nranks, 77);
    tt_alloc_fail_at(failures + 1);
    result = tt_topology_make(&t, 3, host, where);
    tt_alloc_fail_at(0);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_int_equal(failures, 6); /* 5 allocations */
  failures = 0;
  for (tuttiResult_t result = tuttiSystemError; result != tuttiSuccess; failures++) {
    assert_int_equal(a.nranks, 77);
    tt_alloc_fail_at(failures + 1);
    result = tt_topology_arrange(&a, &t, 0);
    tt_alloc_fail_at(0);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_true(failures > 3);
  tt_arrangement_destroy(&a);
  tt_topology_destroy(&t);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(places_are_numbered_by_first_appearance),
      cmocka_unit_test(a_cache_that_spans_numa_nodes_counts_in_each),
      cmocka_unit_test(the_kind_of_link_is_the_nearest_thing_shared),
      cmocka_unit_test(a_wire_order_puts_neighbours_together),
      cmocka_unit_test(ranks_in_blocks_keep_their_numbers_and_sizes_may_differ),
      cmocka_unit_test(levels_that_say_nothing_are_left_out),
      cmocka_unit_test(arrangements_are_what_the_contract_says),
      cmocka_unit_test(without_topology_groups_are_near_the_square_root),
      cmocka_unit_test(a_group_size_counts_where_no_topology_shows),
      cmocka_unit_test(a_group_size_counts_before_what_a_topology_shows),
      cmocka_unit_test(ranks_on_nodes_of_their_own_are_grouped_by_size),
      cmocka_unit_test(a_wrong_number_of_ranks_is_refused),
      cmocka_unit_test(every_failed_allocation_is_told_and_leaves_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
