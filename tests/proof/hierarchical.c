/* SPDX-License-Identifier: BSD-3-Clause */
/* The hierarchical all-reduces, proved over nested groups of all kinds and with every middle step there is, and their
 * claims compared: a seeded sample, less of it under a sanitizer, which is slow; with --long everything is proved.
 * Labels: slow. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"
#include "slow.h"

#define MOST_RANKS 1024

/* What main found on the command line; handed to the tests by cmocka. */
struct extent {
  int everything, is_slow;
};

static uint32_t draw(uint64_t *seed, uint32_t below)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33) % below;
}

/* ---- groups ---------------------------------------------------------------------- */

struct grouping {
  struct tt_groups groups;
  int32_t group[TT_MAX_LEVELS][MOST_RANKS];
  char name[80];
};

/* Numbers the groups of a level by first appearance. */
static void number(int32_t *group, int32_t nranks)
{
  int32_t name[MOST_RANKS], next = 0;
  memset(name, -1, sizeof name);
  for (int32_t rank = 0; rank < nranks; rank++) {
    if (name[group[rank]] < 0) name[group[rank]] = next++;
    group[rank] = name[group[rank]];
  }
}

static void level_add(struct grouping *g, int32_t nranks)
{
  number(g->group[g->groups.nlevels], nranks);
  g->groups.group[g->groups.nlevels] = g->group[g->groups.nlevels];
  g->groups.nlevels++;
}

/* Consecutive units of the level below (ranks) in groups of these sizes, again and again. */
static void runs_add(struct grouping *g, int32_t nranks, const int32_t *sizes, int32_t nsizes)
{
  int32_t end[MOST_RANKS], at = 0, l = g->groups.nlevels;
  for (int32_t k = 0, u = 0; u < nranks; k++)
    for (int32_t i = 0; i < sizes[k % nsizes] && u < nranks; i++) end[u++] = at + k;
  for (int32_t rank = 0; rank < nranks; rank++) g->group[l][rank] = end[l ? g->group[l - 1][rank] : rank];
  level_add(g, nranks);
}

/* Each unit of the level below goes into one of a few groups: neighbours or not, of any sizes. */
static void random_add(struct grouping *g, int32_t nranks, uint64_t *seed)
{
  int32_t of[MOST_RANKS], l = g->groups.nlevels;
  uint32_t few = 1 + draw(seed, (uint32_t)nranks);
  int spread = (int)draw(seed, 3);
  for (int32_t u = 0; u < nranks; u++) {
    if (spread == 0) of[u] = (int32_t)draw(seed, few);
    if (spread == 1) of[u] = u ? of[u - 1] + (draw(seed, 4) == 0) : 0;
    if (spread == 2) of[u] = draw(seed, 3) ? 0 : (int32_t)draw(seed, few);
  }
  for (int32_t rank = 0; rank < nranks; rank++) g->group[l][rank] = of[l ? g->group[l - 1][rank] : rank];
  level_add(g, nranks);
}

static void grouping_runs(struct grouping *g, int32_t nranks, int32_t a, int32_t b)
{
  g->groups.nlevels = 0;
  runs_add(g, nranks, (const int32_t[]){a, b}, 2);
  snprintf(g->name, sizeof g->name, "runs of %d and %d", (int)a, (int)b);
}

static void grouping_random(struct grouping *g, int32_t nranks, uint64_t *seed)
{
  int32_t nlevels = 1 + (int32_t)draw(seed, TT_MAX_LEVELS);
  snprintf(g->name, sizeof g->name, "%d levels, seed %llu", (int)nlevels, (unsigned long long)*seed);
  g->groups.nlevels = 0;
  for (int32_t l = 0; l < nlevels; l++) random_add(g, nranks, seed);
}

/* ---- one proof ------------------------------------------------------------------- */

static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  ((const struct tt_algo *)context)->generate(schedule, shape);
}

static void describe(char *text, size_t size, const struct tt_algo *algo, const struct tt_shape *shape,
                     const char *groups)
{
  snprintf(text, size, "%s over %s, %d ranks (%s), %d blocks, radix %d", algo->name,
           shape->middle < 0 ? "the default" : tt_algos[shape->middle].name, (int)shape->nranks, groups,
           (int)shape->nblocks, (int)shape->radix);
}

/* `stride`: every so many ranks' claims. */
static void prove(const struct tt_algo *algo, struct tt_shape shape, const char *groups, int32_t stride)
{
  char what[240];
  struct tt_proof proof = {0};
  describe(what, sizeof what, algo, &shape, groups);
  if (tt_verify(&shape, generate, (void *)(uintptr_t)algo, &proof)) fail_msg("%s: %s", what, proof.complaint);
  for (shape.rank = 0; shape.rank < shape.nranks; shape.rank += stride) {
    struct tt_cost is, said;
    struct tt_schedule schedule;
    tt_schedule_init(&schedule, &shape);
    algo->generate(&schedule, &shape);
    tt_schedule_cost(&schedule, &is);
    tt_schedule_destroy(&schedule);
    is.rounds = proof.rounds;
    algo->claim(&shape, &said);
    if (memcmp(&is, &said, sizeof is))
      fail_msg("%s, rank %d: claims %lld messages %lld blocks %lld reductions %lld slots %lld rounds, has %lld, %lld, "
               "%lld, %lld, %lld", what, (int)shape.rank, (long long)said.messages, (long long)said.blocks,
               (long long)said.reductions, (long long)said.slots, (long long)said.rounds, (long long)is.messages,
               (long long)is.blocks, (long long)is.reductions, (long long)is.slots, (long long)is.rounds);
  }
}

#define NKINDS_OF_BLOCKS 8

/* The natural number of blocks of the shape and awkward ones. */
static void blocks_set(const struct tt_algo *algo, struct tt_shape *shape, int kind)
{
  int32_t n = shape->nranks;
  const int32_t awkward[NKINDS_OF_BLOCKS] = {0, 1, 2, n > 1 ? n - 1 : 3, n, n + 1, 2 * n + 3, 97};
  tt_algo_shape(algo, shape);
  if (kind) shape->nblocks = awkward[kind];
}

static int is_hierarchical(const struct tt_algo *algo)
{
  return algo->collective == TT_ALL_REDUCE && algo->has_middle;
}

/* A form with a middle step. */
struct pairing {
  const struct tt_algo *algo;
  int32_t middle;
};

#define MOST_PAIRINGS 256

/* All that are legal for some number of ranks; returns how many. */
static int32_t pairings_list(struct pairing *pairings)
{
  struct tt_shape shape = {.nranks = 12, .root = -1};
  int32_t n = 0;
  for (int a = 0; a < tt_algo_count; a++)
    for (shape.middle = -1; is_hierarchical(&tt_algos[a]) && shape.middle < tt_algo_count; shape.middle++) {
      if (tt_algos[a].illegal(&shape)) continue;
      assert_true(n < MOST_PAIRINGS);
      pairings[n++] = (struct pairing){&tt_algos[a], shape.middle};
    }
  return n;
}

static int32_t prove_pairing(const struct pairing *pairing, int32_t nranks, const struct grouping *g,
                             const struct extent *extent, uint64_t *seed)
{
  struct tt_shape shape = {.nranks = nranks, .root = -1, .middle = pairing->middle, .groups = g ? &g->groups : NULL};
  int32_t proofs = 0, drawn = (int32_t)draw(seed, NKINDS_OF_BLOCKS);
  const int32_t radix[] = {0, 2, 3, TT_RADIX_RANKS};
  shape.radix = radix[draw(seed, 4)];
  if (pairing->algo->illegal(&shape)) return 0;
  for (int kind = 0; kind < NKINDS_OF_BLOCKS; kind++) {
    if (kind != drawn && !extent->everything) continue;
    blocks_set(pairing->algo, &shape, kind);
    prove(pairing->algo, shape, g ? g->name : "near the root", 1);
    proofs++;
  }
  return proofs;
}

/* ---- tests ----------------------------------------------------------------------- */

/* What is proved: each grouping with some of the pairings, in turns, so that each meets all kinds of groupings. */
struct turns {
  const struct extent *extent;
  struct pairing pairings[MOST_PAIRINGS];
  int32_t npairings, next, proofs;
  uint64_t seed;
};

static void prove_grouping(struct turns *t, int32_t nranks, const struct grouping *g)
{
  int32_t n = t->extent->everything ? t->npairings : t->extent->is_slow ? 1 : 3;
  for (int32_t k = 0; k < n; k++, t->next++)
    t->proofs += prove_pairing(&t->pairings[t->next % t->npairings], nranks, g, t->extent, &t->seed);
}

static void any_nested_groups_give_an_all_reduce_at_the_claimed_cost(void **state)
{
  static const int32_t sizes[][2] = {{7, 5}, {1, MOST_RANKS}, {MOST_RANKS, 1}, {1, 1}, {1, 2}, {3, 8}};
  struct turns t = {.extent = *state, .seed = 60};
  struct grouping g;
  t.npairings = pairings_list(t.pairings);
  for (int32_t nranks = 1; nranks <= 60; nranks++) {
    prove_grouping(&t, nranks, NULL);
    for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
      grouping_runs(&g, nranks, sizes[k][0], sizes[k][1]);
      prove_grouping(&t, nranks, &g);
    }
    for (int k = 0; k < 8; k++) {
      grouping_random(&g, nranks, &t.seed);
      prove_grouping(&t, nranks, &g);
    }
  }
  print_message("%d proofs of %d pairings of a form and a middle step\n", (int)t.proofs, (int)t.npairings);
  assert_true(t.npairings >= 10 && t.proofs >= 500);
}

/* Sockets of 4 cores, nodes of 2 sockets but every third one of 1, racks of 12 nodes. */
static void grouping_racks(struct grouping *g, int32_t nranks)
{
  g->groups.nlevels = 0;
  runs_add(g, nranks, (const int32_t[]){4}, 1);
  runs_add(g, nranks, (const int32_t[]){2, 2, 1}, 3);
  runs_add(g, nranks, (const int32_t[]){12}, 1);
  snprintf(g->name, sizeof g->name, "racks");
}

static void many_ranks_in_nodes_and_racks_give_an_all_reduce_at_the_claimed_cost(void **state)
{
  const struct extent *extent = *state;
  static const int32_t many[] = {600, 1000, 1024};
  struct grouping g[3];
  for (size_t k = 0; k < sizeof many / sizeof many[0]; k++) {
    grouping_runs(&g[0], many[k], 8, 8);
    grouping_runs(&g[1], many[k], 64, 32);
    grouping_racks(&g[2], many[k]);
    for (int a = 0; a < tt_algo_count; a++)
      for (int i = 0; is_hierarchical(&tt_algos[a]) && i < 3; i++) {
        struct tt_shape shape = {.nranks = many[k], .root = -1, .middle = -1, .groups = &g[i].groups};
        int is_turn = (i + (int)k + a) % 2 == 0; /* of the other form */
        if (extent->is_slow ? i != (int)k || many[k] == 1000 : !extent->everything && !is_turn) continue;
        tt_algo_shape(&tt_algos[a], &shape);
        prove(&tt_algos[a], shape, g[i].name, extent->everything ? 1 : 61);
      }
  }
}

static void assert_same(const struct tt_algo *algo, const struct tt_shape *a, const struct tt_shape *b)
{
  struct tt_schedule one, other;
  tt_schedule_init(&one, a);
  tt_schedule_init(&other, b);
  algo->generate(&one, a);
  algo->generate(&other, b);
  assert_int_equal(one.nsteps, other.nsteps);
  assert_int_equal(one.npeers, other.npeers);
  for (int32_t i = 0; i < one.nsteps; i++) {
    assert_int_equal(one.steps[i].first, other.steps[i].first);
    assert_int_equal(one.steps[i].nblocks, other.steps[i].nblocks);
  }
  for (int32_t i = 0; i < one.npeers; i++) assert_int_equal(one.peers[i], other.peers[i]);
  tt_schedule_destroy(&one);
  tt_schedule_destroy(&other);
}

/* The integer whose square is nearest. */
static int32_t near_root(int32_t nranks)
{
  int32_t best = 1;
  for (int32_t s = 1; s <= nranks; s++)
    if (abs(s * s - nranks) < abs(best * best - nranks)) best = s;
  return best;
}

static void without_groups_they_are_runs_near_the_square_root(void **state)
{
  (void)state;
  struct grouping g;
  for (int32_t nranks = 1; nranks <= 130; nranks++) {
    grouping_runs(&g, nranks, near_root(nranks), near_root(nranks));
    for (int a = 0; a < tt_algo_count; a++) {
      struct tt_shape shape = {.nranks = nranks, .rank = nranks - 1, .root = -1, .middle = -1}, same;
      if (!is_hierarchical(&tt_algos[a])) continue;
      tt_algo_shape(&tt_algos[a], &shape);
      same = shape;
      same.groups = &g.groups;
      assert_same(&tt_algos[a], &shape, &same);
      shape.rank = same.rank = nranks / 2;
      assert_same(&tt_algos[a], &shape, &same);
    }
  }
}

static void no_memory_is_an_error(void **state)
{
  (void)state;
  struct grouping g;
  grouping_runs(&g, 12, 3, 1);
  for (int a = 0; a < tt_algo_count; a++) {
    struct tt_shape shape = {.nranks = 12, .root = -1, .middle = -1, .groups = &g.groups};
    int fails = 1;
    if (!is_hierarchical(&tt_algos[a])) continue;
    tt_algo_shape(&tt_algos[a], &shape);
    for (long n = 1; fails; n++) {
      struct tt_schedule schedule;
      struct tt_cost cost;
      tt_schedule_init(&schedule, &shape);
      tt_alloc_fail_at(n);
      tt_algos[a].generate(&schedule, &shape);
      tt_alloc_fail_at(n);
      tt_algos[a].claim(&shape, &cost);
      tt_alloc_fail_at(0);
      fails = schedule.error != 0;
      if (fails) assert_int_equal(schedule.error, tuttiSystemError);
      tt_schedule_destroy(&schedule);
    }
  }
}

static void a_wrong_middle_step_is_refused(void **state)
{
  (void)state;
  for (int a = 0; a < tt_algo_count; a++) {
    struct tt_shape shape = {.nranks = 12, .root = -1};
    if (!is_hierarchical(&tt_algos[a])) continue;
    for (shape.middle = 0; shape.middle < tt_algo_count; shape.middle++) {
      const struct tt_algo *middle = &tt_algos[shape.middle];
      if (middle->collective != TT_ALL_REDUCE)
        assert_non_null(strstr(tt_algos[a].illegal(&shape), "must be an all-reduce"));
      else if (middle->has_middle)
        assert_non_null(strstr(tt_algos[a].illegal(&shape), "must not be hierarchical"));
      else if (!middle->illegal)
        assert_null(tt_algos[a].illegal(&shape));
    }
    assert_non_null(strstr(tt_algos[a].illegal(&shape), "no algorithm"));
    shape.middle = -2;
    assert_non_null(strstr(tt_algos[a].illegal(&shape), "no algorithm"));
    shape.middle = -1;
    assert_null(tt_algos[a].illegal(&shape));
  }
}

int main(int argc, char **argv)
{
  struct extent extent = {0, IS_SLOW};
  if (argc > 1 && strcmp(argv[1], "--long") == 0) extent = (struct extent){1, 0};
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_prestate(any_nested_groups_give_an_all_reduce_at_the_claimed_cost, &extent),
      cmocka_unit_test_prestate(many_ranks_in_nodes_and_racks_give_an_all_reduce_at_the_claimed_cost, &extent),
      cmocka_unit_test(without_groups_they_are_runs_near_the_square_root),
      cmocka_unit_test(no_memory_is_an_error),
      cmocka_unit_test(a_wrong_middle_step_is_refused),
  };
  alarm(extent.everything ? 3600 : 600);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
