/* SPDX-License-Identifier: BSD-3-Clause */
/* Algorithms that are made of butterflies send what their definition says, by numbers that can be done by hand.
 * Labels: serial, planner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"

static struct tt_schedule made(const char *name, int32_t nranks, int32_t rank, int32_t radix)
{
  const struct tt_algo *algo = tt_algo_find(TT_ALL_REDUCE, name);
  struct tt_shape shape = {.nranks = nranks, .rank = rank, .radix = radix, .root = -1, .middle = -1};
  struct tt_schedule schedule;
  tt_algo_shape(algo, &shape);
  tt_schedule_init(&schedule, &shape);
  algo->generate(&schedule, &shape);
  assert_int_equal(schedule.error, tuttiSuccess);
  return schedule;
}

static struct tt_cost claimed(const char *name, int32_t nranks, int32_t rank, int32_t radix)
{
  const struct tt_algo *algo = tt_algo_find(TT_ALL_REDUCE, name);
  struct tt_shape shape = {.nranks = nranks, .rank = rank, .radix = radix, .root = -1, .middle = -1};
  struct tt_cost cost;
  tt_algo_shape(algo, &shape);
  algo->claim(&shape, &cost);
  return cost;
}

/* The ranks it sends to, in order, are exactly these n, as many blocks to each. */
static void sends(const struct tt_schedule *schedule, const int32_t (*wanted)[2], int32_t n)
{
  int32_t seen = 0;
  for (int32_t i = 0; i < schedule->nsteps; i++)
    for (int32_t k = 0; k < schedule->steps[i].nto; k++, seen++) {
      assert_true(seen < n);
      assert_int_equal(schedule->peers[schedule->steps[i].to + k], wanted[seen][0]);
      assert_int_equal(schedule->steps[i].nblocks, wanted[seen][1]);
    }
  assert_int_equal(seen, n);
}

#define SENDS(schedule, ...)                                                      \
  do {                                                                            \
    static const int32_t wanted_[][2] = {__VA_ARGS__};                            \
    sends((schedule), wanted_, (int32_t)(sizeof wanted_ / sizeof wanted_[0]));    \
  } while (0)

/* ---- binary blocks ------------------------------------------------------------------ */

/* 600 = 512 + 64 + 16 + 8, and N is 512 blocks: the first rank of each block of ranks. */
static void of_600_ranks_each_block_talks_to_its_neighbours(void **state)
{
  (void)state;
  struct tt_schedule first = made("binary_blocks", 600, 0, 0), second = made("binary_blocks", 600, 512, 0);
  struct tt_schedule third = made("binary_blocks", 600, 576, 0), fourth = made("binary_blocks", 600, 592, 0);
  SENDS(&first, {1, 256}, {2, 128}, {4, 64}, {8, 32}, {16, 16}, {32, 8}, {64, 4}, {128, 2}, {256, 1}, /* halve */
        {512, 1},                                                                                  /* finished */
        {256, 1}, {128, 2}, {64, 4}, {32, 8}, {16, 16}, {8, 32}, {4, 64}, {2, 128}, {1, 256});     /* double */
  SENDS(&second, {513, 256}, {514, 128}, {516, 64}, {520, 32}, {528, 16}, {544, 8}, /* halve */
        {0, 1}, {64, 1}, {128, 1}, {192, 1}, {256, 1}, {320, 1}, {384, 1}, {448, 1}, /* pieces up */
        {576, 8},                                                                    /* finished */
        {544, 8}, {528, 16}, {520, 32}, {516, 64}, {514, 128}, {513, 256});          /* double */
  SENDS(&third, {577, 256}, {578, 128}, {580, 64}, {584, 32}, {512, 8}, {528, 8}, {544, 8}, {560, 8}, {592, 32},
        {584, 32}, {580, 64}, {578, 128}, {577, 256});
  SENDS(&fourth, {593, 256}, {594, 128}, {596, 64}, {576, 32}, {584, 32}, {596, 64}, {594, 128}, {593, 256});
  tt_schedule_destroy(&first);
  tt_schedule_destroy(&second);
  tt_schedule_destroy(&third);
  tt_schedule_destroy(&fourth);
}

/* Ranks of the two blocks in the middle send 2 N = 1024 blocks, the others less. */
static void of_600_ranks_none_sends_more_than_twice_the_vector(void **state)
{
  (void)state;
  for (int32_t rank = 0; rank < 600; rank++) {
    struct tt_cost cost = claimed("binary_blocks", 600, rank, 0);
    assert_int_equal(cost.blocks, rank < 512 ? 1023 : rank < 592 ? 1024 : 960);
    assert_int_equal(cost.reductions, rank < 592 ? 512 : 448);
    assert_int_equal(cost.rounds, 18);
  }
}

static void binary_blocks_never_send_more_than_twice_the_vector(void **state)
{
  (void)state;
  for (int32_t nranks = 2; nranks <= 300; nranks++)
    for (int32_t rank = 0; rank < nranks; rank++) {
      struct tt_cost cost = claimed("binary_blocks", nranks, rank, 0);
      int32_t largest = 1;
      while (largest <= nranks / 2) largest *= 2;
      assert_true(cost.blocks <= 2 * (int64_t)largest);
      assert_int_equal(cost.slots, 0);
    }
}

/* Everyone begins by exchanging half of its input, within its block; a block of one rank gives it all away. */
static void no_rank_is_idle_in_the_reduce_scatter(void **state)
{
  static const int32_t ranks[] = {2, 3, 7, 100, 600};
  (void)state;
  for (size_t k = 0; k < sizeof ranks / sizeof ranks[0]; k++)
    for (int32_t rank = 0; rank < ranks[k]; rank++) {
      struct tt_schedule s = made("binary_blocks", ranks[k], rank, 0);
      int is_single = ranks[k] % 2 && rank == ranks[k] - 1;
      assert_int_equal(s.operands[s.steps[0].src].place, TT_IN);
      if (!is_single) assert_int_equal(s.peers[s.steps[0].to], rank ^ 1);
      if (!is_single) assert_int_equal(s.steps[0].nblocks, s.shape.nblocks / 2);
      if (!is_single) assert_int_equal(s.steps[1].nsrc, 2);
      tt_schedule_destroy(&s);
    }
}

/* 9 = 8 + 1: the last rank gives its vector to 4 of the 8, and these help. */
static void whole_vectors_spread_along_a_tree_and_the_result_comes_from_one_rank_each(void **state)
{
  (void)state;
  struct tt_schedule last = made("binary_blocks_whole", 9, 8, 0), first = made("binary_blocks_whole", 9, 0, 0);
  struct tt_schedule second = made("binary_blocks_whole", 9, 1, 0), eighth = made("binary_blocks_whole", 9, 7, 0);
  SENDS(&last, {0, 1}, {1, 1}, {3, 1}, {7, 1});
  SENDS(&first, {1, 1}, {2, 1}, {4, 1}, {2, 1}, {4, 1});
  SENDS(&second, {0, 1}, {3, 1}, {5, 1}, {5, 1});
  SENDS(&eighth, {6, 1}, {5, 1}, {3, 1}, {8, 1});
  tt_schedule_destroy(&last);
  tt_schedule_destroy(&first);
  tt_schedule_destroy(&second);
  tt_schedule_destroy(&eighth);
}

/* Also where one rank stands beside a large block. */
static void whole_vectors_need_one_round_more_than_a_power_of_two_and_few_messages(void **state)
{
  static const struct {
    int32_t nranks, rounds, messages;
  } cases[] = {{600, 10, 11}, {1000, 10, 10}, {1023, 10, 10}, {1024, 10, 10}, {1025, 11, 19}};
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    int64_t most = 0;
    for (int32_t rank = 0; rank < cases[k].nranks; rank++) {
      struct tt_cost cost = claimed("binary_blocks_whole", cases[k].nranks, rank, 0);
      if (cost.messages > most) most = cost.messages;
      assert_int_equal(cost.rounds, cases[k].rounds);
    }
    assert_int_equal(most, cases[k].messages);
  }
}

/* ---- halving and doubling -------------------------------------------------------------- */

static void of_600_ranks_88_fold_and_their_partners_send_three_times_the_vector(void **state)
{
  int32_t aside = 0;
  (void)state;
  for (int32_t rank = 0; rank < 600; rank++) {
    struct tt_cost cost = claimed("halving_doubling", 600, rank, 0);
    if (cost.messages == 1) {
      aside++;
      assert_int_equal(cost.blocks, 512);
      assert_int_equal(rank % 2, 1);
    } else {
      int is_partner = rank < 176;
      assert_int_equal(cost.messages, 18 + is_partner);
      assert_int_equal(cost.blocks, 1022 + is_partner * 512);
      assert_int_equal(cost.reductions, 511 + is_partner * 512);
    }
    assert_int_equal(cost.rounds, 20);
  }
  assert_int_equal(aside, 88);
}

/* ---- multiplying ------------------------------------------------------------------------- */

struct way {
  int32_t nranks, radix, rounds;
  int32_t messages; /* of rank 0 */
  int32_t aside;    /* ranks that fold */
};

/* Where the ranks are a product of small factors nobody folds; else as few as go with the fewest messages. */
static void ranks_are_factored_before_they_are_folded(void **state)
{
  static const struct way ways[] = {
    {6, 2, 3, 3, 2}, /* 2 x 2, fold 2: the two that fold are too near for a chain of 4 messages */
    {7, 2, 4, 3, 3},
    {6, 3, 2, 3, 0}, /* 3 x 2 */
    {6, 0, 2, 3, 0}, /* radix 4: no fold of the two ranks that are more than 4 */
    {7, 4, 3, 4, 4}, /* 3, fold 3: no more messages than 4, fold 2 */
    {7, 7, 1, 6, 0},
    {17, 4, 4, 5, 8}, /* 3 x 3, fold 2; a team of 16 would take as long, and send 7 */
    {16, 4, 2, 6, 0},
    {54, 4, 4, 7, 0}, /* 3 x 3 x 3 x 2 takes as long as a fold */
    {1000, 10, 3, 27, 0},
    {1000, 4, 6, 15, 744}, /* 4 x 4 x 4 x 4, fold 4 */
  };
  (void)state;
  for (size_t k = 0; k < sizeof ways / sizeof ways[0]; k++) {
    int32_t aside = 0;
    struct way way = ways[k];
    struct tt_cost cost = claimed("recursive_multiplying", way.nranks, 0, way.radix);
    for (int32_t rank = 0; rank < way.nranks; rank++)
      aside += claimed("recursive_multiplying", way.nranks, rank, way.radix).reductions == 0;
    if (cost.rounds != way.rounds || cost.messages != way.messages || aside != way.aside)
      fail_msg("%d ranks, radix %d: %d rounds, %d messages, %d aside", (int)way.nranks, (int)way.radix,
               (int)cost.rounds, (int)cost.messages, (int)aside);
  }
}

static void one_shot_sends_the_input_to_all_others_in_one_step(void **state)
{
  (void)state;
  struct tt_schedule s = made("one_shot", 5, 2, 0);
  assert_int_equal(s.nsteps, 3);
  SENDS(&s, {0, 1}, {1, 1}, {3, 1}, {4, 1});
  assert_int_equal(s.steps[1].nsrc, 5);
  assert_int_equal(s.steps[2].dst.place, TT_OUT);
  tt_schedule_destroy(&s);
}

/* A step has at most TT_MAX_SOURCES sources. */
static void one_shot_works_for_more_ranks_than_a_step_has_sources(void **state)
{
  (void)state;
  struct tt_schedule s = made("one_shot", 3000, 2999, 0);
  struct tt_cost cost;
  tt_schedule_cost(&s, &cost);
  assert_int_equal(cost.messages, 2999);
  assert_int_equal(cost.reductions, 2999);
  assert_int_equal(s.nsteps, 7);
  tt_schedule_destroy(&s);
}

/* One round alone is copied, every other number of rounds ends in OUT by itself. */
static void only_a_single_round_is_copied(void **state)
{
  (void)state;
  for (int32_t nranks = 1; nranks <= 64; nranks++)
    for (int32_t rank = 0; rank < nranks; rank++) {
      struct tt_schedule s = made("recursive_doubling", nranks, rank, 0);
      int32_t copies = 0;
      for (int32_t i = 0; i < s.nsteps; i++)
        copies += s.steps[i].nsrc == 1 && s.steps[i].nto == 0 && s.operands[s.steps[i].src].place != TT_MESSAGE;
      assert_int_equal(copies, nranks == 1 || nranks == 2 || (nranks == 3 && rank == 2));
      tt_schedule_destroy(&s);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(of_600_ranks_each_block_talks_to_its_neighbours),
    cmocka_unit_test(of_600_ranks_none_sends_more_than_twice_the_vector),
    cmocka_unit_test(binary_blocks_never_send_more_than_twice_the_vector),
    cmocka_unit_test(no_rank_is_idle_in_the_reduce_scatter),
    cmocka_unit_test(whole_vectors_spread_along_a_tree_and_the_result_comes_from_one_rank_each),
    cmocka_unit_test(whole_vectors_need_one_round_more_than_a_power_of_two_and_few_messages),
    cmocka_unit_test(of_600_ranks_88_fold_and_their_partners_send_three_times_the_vector),
    cmocka_unit_test(ranks_are_factored_before_they_are_folded),
    cmocka_unit_test(one_shot_sends_the_input_to_all_others_in_one_step),
    cmocka_unit_test(one_shot_works_for_more_ranks_than_a_step_has_sources),
    cmocka_unit_test(only_a_single_round_is_copied),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
