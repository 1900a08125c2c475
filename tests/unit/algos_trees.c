/* SPDX-License-Identifier: BSD-3-Clause */
/* What trees, circulant graphs and the direct exchange are said to be, seen in their schedules.
 * Labels: serial, planner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"

#define MOST 130 /* ranks */

/* What one rank does, message by message. */
struct traffic {
  int32_t nsent, ntaken, npeers;       /* npeers: different ranks sent to */
  int32_t to[1200], from[1200];        /* in the order of the program */
  int64_t sent, taken;                 /* blocks */
};

static const struct tt_algo *row(int collective, const char *name)
{
  const struct tt_algo *algo = tt_algo_find(collective, name);
  assert_non_null(algo);
  return algo;
}

static struct tt_shape shape_of(const struct tt_algo *algo, int32_t nranks, int32_t rank, int32_t root)
{
  struct tt_shape shape = {.nranks = nranks, .rank = rank, .root = root, .middle = -1};
  tt_algo_shape(algo, &shape);
  return shape;
}

static void generated(struct tt_schedule *schedule, const struct tt_algo *algo, const struct tt_shape *shape)
{
  tt_schedule_init(schedule, shape);
  algo->generate(schedule, shape);
  assert_int_equal(schedule->error, tuttiSuccess);
}

static void step_count(struct traffic *traffic, const struct tt_schedule *s, const struct tt_step *step)
{
  for (int32_t k = step->to; k < step->to + step->nto; k++) {
    int known = 0;
    for (int32_t j = 0; j < traffic->nsent; j++) known |= traffic->to[j] == s->peers[k];
    traffic->npeers += !known;
    traffic->to[traffic->nsent++] = s->peers[k];
    traffic->sent += step->nblocks;
  }
  for (int32_t k = step->src; k < step->src + step->nsrc; k++) {
    if (s->operands[k].place != TT_MESSAGE) continue;
    traffic->from[traffic->ntaken++] = s->operands[k].at;
    traffic->taken += step->nblocks;
  }
}

static void look(struct traffic *traffic, const struct tt_algo *algo, const struct tt_shape *shape)
{
  struct tt_schedule s;
  memset(traffic, 0, sizeof *traffic);
  generated(&s, algo, shape);
  assert_in_range(s.nsteps, 1, 1100);
  for (int32_t i = 0; i < s.nsteps; i++) step_count(traffic, &s, &s.steps[i]);
  tt_schedule_destroy(&s);
}

static void generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  ((const struct tt_algo *)context)->generate(schedule, shape);
}

static int64_t rounds_of(const struct tt_algo *algo, const struct tt_shape *shape)
{
  struct tt_proof proof = {0};
  if (tt_verify(shape, generate, (void *)(uintptr_t)algo, &proof))
    fail_msg("%s, %d ranks: %s", algo->name, (int)shape->nranks, proof.complaint);
  return proof.rounds;
}

/* The smallest number of digits that count to n different numbers. */
static int32_t digits(int32_t n, int32_t radix)
{
  int32_t count = 0;
  for (int64_t reach = 1; reach < n; reach *= radix) count++;
  return count;
}

/* ---- circulant ------------------------------------------------------------------- */

static void circulant_talks_to_as_few_ranks_as_there_are_bits_and_moves_each_block_once(void **state)
{
  (void)state;
  static const int collectives[2] = {TT_REDUCE_SCATTER, TT_ALL_GATHER};
  for (int32_t nranks = 2; nranks <= MOST; nranks++)
    for (int k = 0; k < 2; k++) {
      const struct tt_algo *algo = row(collectives[k], "circulant");
      struct traffic traffic;
      struct tt_shape shape = shape_of(algo, nranks, nranks * 2 / 3, -1);
      look(&traffic, algo, &shape);
      assert_int_equal(traffic.npeers, digits(nranks, 2));
      assert_int_equal(traffic.sent, nranks - 1);
      assert_int_equal(traffic.taken, nranks - 1);
      assert_in_range(traffic.nsent, digits(nranks, 2), 2 * digits(nranks, 2));
      if (k == 1 || (nranks & (nranks - 1)) == 0) assert_int_equal(traffic.nsent, digits(nranks, 2));
    }
}

static void circulant_all_reduce_moves_all_parts_but_the_own_twice_and_needs_no_scratch(void **state)
{
  (void)state;
  const struct tt_algo *algo = row(TT_ALL_REDUCE, "circulant");
  for (int32_t nranks = 2; nranks <= MOST; nranks++) {
    struct tt_shape shape = shape_of(algo, nranks, nranks / 2, -1);
    struct traffic traffic;
    struct tt_schedule s;
    look(&traffic, algo, &shape);
    assert_int_equal(traffic.sent, 2 * (nranks - 1));
    assert_int_equal(traffic.taken, 2 * (nranks - 1));
    generated(&s, algo, &shape);
    assert_int_equal(s.nslots, 0);
    tt_schedule_destroy(&s);
  }
}

/* One less than the bits of the distances where not all of them are needed together. */
static void circulant_hands_a_block_on_at_most_once_a_round(void **state)
{
  (void)state;
  static const int32_t nranks[] = {2, 3, 4, 5, 6, 7, 8, 11, 12, 16, 24, 33},
                       depth[] = {1, 1, 2, 2, 2, 2, 3, 3, 3, 4, 4, 5};
  for (int k = 0; k < 12; k++) {
    const struct tt_algo *algo = row(TT_ALL_REDUCE, "circulant");
    struct tt_shape shape = shape_of(algo, nranks[k], 0, -1);
    assert_int_equal(rounds_of(algo, &shape), 2 * depth[k]);
  }
}

/* ---- direct ---------------------------------------------------------------------- */

static void direct_takes_two_rounds_and_begins_with_the_next_rank(void **state)
{
  (void)state;
  const struct tt_algo *algo = row(TT_ALL_REDUCE, "direct");
  for (int32_t nranks = 2; nranks <= MOST; nranks += nranks < 20 ? 1 : 37) {
    struct tt_shape shape = shape_of(algo, nranks, 0, -1);
    assert_int_equal(rounds_of(algo, &shape), 2);
    for (shape.rank = 0; shape.rank < nranks; shape.rank++) {
      struct traffic traffic;
      look(&traffic, algo, &shape);
      assert_int_equal(traffic.nsent, 2 * (nranks - 1));
      for (int32_t d = 1; d < nranks; d++) assert_int_equal(traffic.to[d - 1], (shape.rank + d) % nranks);
    }
  }
}

/* The reduction of the share that the passes leave: one step with as many sources as ranks. */
static void direct_rounds_once_when_it_is_merged(void **state)
{
  (void)state;
  const struct tt_algo *algo = row(TT_REDUCE_SCATTER, "direct");
  for (int32_t nranks = 2; nranks <= MOST; nranks += 13)
    for (int32_t rank = 0; rank < nranks; rank += 1 + nranks / 4) {
      struct tt_shape shape = shape_of(algo, nranks, rank, -1);
      struct tt_schedule s;
      int32_t reductions = 0, sources = 0;
      generated(&s, algo, &shape);
      tt_pass_merge(&s);
      assert_int_equal(s.error, tuttiSuccess);
      for (int32_t i = 0; i < s.nsteps; i++)
        if (s.steps[i].nsrc > 1) {
          reductions++;
          sources = s.steps[i].nsrc;
        }
      tt_schedule_destroy(&s);
      assert_int_equal(reductions, 1);
      assert_int_equal(sources, nranks);
    }
}

/* ---- k-nomial trees ---------------------------------------------------------------- */

static void knomial_is_no_deeper_than_the_numbers_have_digits(void **state)
{
  (void)state;
  static const int32_t radix[] = {2, 3, 4, 7};
  const struct tt_algo *algo = row(TT_BROADCAST, "knomial");
  for (int32_t nranks = 1; nranks <= 70; nranks++)
    for (int k = 0; k < 4; k++) {
      struct tt_shape shape = {.nranks = nranks, .root = nranks / 3, .radix = radix[k], .middle = -1};
      tt_algo_shape(algo, &shape);
      int64_t rounds = rounds_of(algo, &shape);
      assert_in_range(rounds, nranks > 1, digits(nranks, radix[k]));
      if (nranks > 1) assert_true(rounds >= digits(nranks, radix[k]) - 1);
    }
}

static void binary_tree_and_star_are_radix_2_and_the_number_of_ranks(void **state)
{
  (void)state;
  for (int32_t nranks = 2; nranks <= 70; nranks++) {
    struct tt_shape shape = shape_of(row(TT_ALL_REDUCE, "binary_tree"), nranks, 0, -1);
    int32_t ones = 0;
    while ((1 << (ones + 1)) - 1 < nranks) ones++;
    assert_int_equal(shape.radix, 2);
    assert_int_equal(rounds_of(row(TT_ALL_REDUCE, "binary_tree"), &shape), 2 * ones);
    shape = shape_of(row(TT_ALL_REDUCE, "star"), nranks, 0, -1);
    assert_int_equal(shape.radix, nranks);
    assert_int_equal(rounds_of(row(TT_ALL_REDUCE, "star"), &shape), 2);
  }
}

/* 10 ranks, root 7, radix 3: rank 7 is 0 there, its children are 1, 2, 3, 6, 9. */
static void knomial_counts_ranks_from_the_root(void **state)
{
  (void)state;
  static const int32_t children[] = {8, 9, 0, 3, 6};
  const struct tt_algo *algo = row(TT_REDUCE, "knomial");
  struct tt_shape shape = {.nranks = 10, .rank = 7, .root = 7, .radix = 3, .middle = -1};
  struct traffic traffic;
  tt_algo_shape(algo, &shape);
  look(&traffic, algo, &shape);
  assert_int_equal(traffic.ntaken, 5);
  assert_int_equal(traffic.nsent, 0);
  for (int k = 0; k < 5; k++) assert_int_equal(traffic.from[k], children[k]);
  shape.rank = 8; /* 1: a leaf */
  look(&traffic, algo, &shape);
  assert_int_equal(traffic.ntaken, 0);
  assert_int_equal(traffic.nsent, 1);
  assert_int_equal(traffic.to[0], 7);
}

static void a_tree_of_radix_1_is_refused(void **state)
{
  (void)state;
  const struct tt_algo *algo = row(TT_ALL_REDUCE, "knomial");
  struct tt_shape shape = {.nranks = 5, .radix = 1, .root = -1, .middle = -1};
  assert_non_null(algo->illegal(&shape));
  shape.radix = -2;
  assert_non_null(algo->illegal(&shape));
  shape.radix = 0;
  assert_null(algo->illegal(&shape));
  shape.radix = 2;
  assert_null(algo->illegal(&shape));
  shape.nranks = shape.radix = 1;
  assert_null(algo->illegal(&shape));
}

/* ---- double trees ------------------------------------------------------------------ */

/* In a reduce with 2 blocks: block k goes through tree k. How many children this rank has there. */
static void children_count(const struct tt_shape *shape, int32_t children[2])
{
  struct tt_schedule s;
  children[0] = children[1] = 0;
  generated(&s, row(TT_REDUCE, "double_tree"), shape);
  for (int32_t i = 0; i < s.nsteps; i++)
    for (int32_t k = s.steps[i].src; k < s.steps[i].src + s.steps[i].nsrc; k++)
      children[s.steps[i].first] += s.operands[k].place == TT_MESSAGE;
  tt_schedule_destroy(&s);
}

static void no_rank_but_the_root_is_an_inner_one_of_both_trees(void **state)
{
  (void)state;
  for (int32_t nranks = 2; nranks <= MOST; nranks++) {
    int32_t root = nranks * 3 / 4, children[2], leaves_of_both = 0;
    struct tt_shape shape = shape_of(row(TT_REDUCE, "double_tree"), nranks, root, root);
    assert_int_equal(shape.nblocks, 2);
    children_count(&shape, children);
    assert_int_equal(children[0], 1);
    assert_int_equal(children[1], 1);
    for (shape.rank = 0; shape.rank < nranks; shape.rank++) {
      if (shape.rank == root) continue;
      children_count(&shape, children);
      assert_true(children[0] == 0 || children[1] == 0);
      assert_in_range(children[0] + children[1], 0, 2);
      leaves_of_both += children[0] + children[1] == 0;
    }
    assert_in_range(leaves_of_both, 0, 1);
  }
}

static void double_tree_is_as_deep_as_there_are_bits(void **state)
{
  (void)state;
  const struct tt_algo *algo = row(TT_ALL_REDUCE, "double_tree");
  for (int32_t nranks = 2; nranks <= 70; nranks++) {
    struct tt_shape shape = shape_of(algo, nranks, 0, -1);
    assert_int_equal(shape.nblocks, 2 * digits(nranks, 2));
    assert_int_equal(rounds_of(algo, &shape), 2 * digits(nranks, 2));
  }
}

static void double_tree_sends_and_takes_at_most_one_vector_each_way(void **state)
{
  (void)state;
  const struct tt_algo *algo = row(TT_ALL_REDUCE, "double_tree");
  for (int32_t nranks = 2; nranks <= MOST; nranks++) {
    struct tt_shape shape = shape_of(algo, nranks, 0, -1);
    for (shape.rank = 0; shape.rank < nranks; shape.rank++) {
      struct traffic traffic;
      look(&traffic, algo, &shape);
      assert_true(traffic.sent <= 2 * shape.nblocks);
      assert_true(traffic.taken <= 2 * shape.nblocks);
    }
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(circulant_talks_to_as_few_ranks_as_there_are_bits_and_moves_each_block_once),
    cmocka_unit_test(circulant_all_reduce_moves_all_parts_but_the_own_twice_and_needs_no_scratch),
    cmocka_unit_test(circulant_hands_a_block_on_at_most_once_a_round),
    cmocka_unit_test(direct_takes_two_rounds_and_begins_with_the_next_rank),
    cmocka_unit_test(direct_rounds_once_when_it_is_merged),
    cmocka_unit_test(knomial_is_no_deeper_than_the_numbers_have_digits),
    cmocka_unit_test(binary_tree_and_star_are_radix_2_and_the_number_of_ranks),
    cmocka_unit_test(knomial_counts_ranks_from_the_root),
    cmocka_unit_test(a_tree_of_radix_1_is_refused),
    cmocka_unit_test(no_rank_but_the_root_is_an_inner_one_of_both_trees),
    cmocka_unit_test(double_tree_is_as_deep_as_there_are_bits),
    cmocka_unit_test(double_tree_sends_and_takes_at_most_one_vector_each_way),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
