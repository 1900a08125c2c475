/* SPDX-License-Identifier: BSD-3-Clause */
/* Anchors: predictions go through what was measured, and only where it was measured in a cluster like this one.
 * Labels: plain, planner. */
#include <math.h>
#include <string.h>

#include "tuned.h"
#include "tuner/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { SIZES = 3 };
static const uint64_t sizes[SIZES] = {8, 65536, 1 << 20};

static void anchor_add_in(uint32_t block_bytes, struct tt_profile *profile, const char *algo, int nranks, int size,
                          double us)
{
  struct tt_profile_anchor anchor = {.collective = TT_ALL_REDUCE,
                                     .block_bytes = block_bytes,
                                     .nranks = nranks,
                                     .nnodes = 1,
                                     .cores = 4,
                                     .bytes = sizes[size],
                                     .us = us,
                                     .line = 100 * nranks + size};
  snprintf(anchor.algo, sizeof anchor.algo, "%s", algo);
  snprintf(anchor.transport, sizeof anchor.transport, "shm");
  assert_int_equal(tt_profile_add_anchor(profile, &anchor), tuttiSuccess);
}

static void anchor_add(struct tt_profile *profile, const char *algo, int nranks, int cores, int size, double us)
{
  anchor_add_in(131072, profile, algo, nranks, size, us);
  profile->anchors[profile->nanchors - 1].cores = cores;
}

static struct tt_choice choice_of(const char *algo)
{
  return (struct tt_choice){.algo = (uint8_t)(tt_algo_find(TT_ALL_REDUCE, algo) - tt_algos),
                            .middle = -1,
                            .block_bytes = 131072};
}

/* The factor of one of three algorithms, in a cluster of ranks on a node of so many cores. */
static double factor_of(const struct tt_profile *profile, int nranks, int cores, const char *algo, uint64_t bytes)
{
  struct tuned tuned;
  struct tt_calibration *calibration;
  int32_t lines[2];
  const struct tt_choice choices[] = {choice_of("ring"), choice_of("direct"), choice_of("star")};
  const struct tt_choice wanted = choice_of(algo);
  tuned_make(&tuned, nranks, 1, "shm");
  tuned.cluster.cores = cores;
  tuned.prices.profile = profile;
  assert_int_equal(tt_calibration_make(&calibration, TT_ALL_REDUCE, choices, 3, &tuned.tuning), tuttiSuccess);
  double factor = tt_calibration_ratio(calibration, &wanted, bytes, lines);
  tt_calibration_destroy(calibration);
  tuned_destroy(&tuned);
  return factor;
}

static int near(double a, double b)
{
  return fabs(a / b - 1) < 1e-6;
}

static void a_prediction_at_an_anchor_is_what_was_measured(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  struct tuned tuned;
  struct tt_settings settings = {.algo = "all_reduce:ring"};
  struct tt_costs *costs;
  const struct tt_choice ring = choice_of("ring");
  (void)state;
  for (int s = 0; s < SIZES; s++) anchor_add(&profile, "ring", 4, 4, s, 7.5 * (s + 1));
  tuned_make(&tuned, 4, 1, "shm");
  tuned.cluster.cores = 4;
  tuned.prices.profile = &profile;
  assert_int_equal(tt_costs_make(&costs, TT_ALL_REDUCE, &settings, &tuned.tuning, &ring, 1), tuttiSuccess);
  for (int s = 0; s < SIZES; s++) {
    struct tt_predicted predicted;
    assert_int_equal(tt_costs_split(costs, tt_costs_find(costs, &ring), sizes[s], &predicted), tuttiSuccess);
    assert_true(fabs(predicted.us / (7.5 * (s + 1)) - 1) < 0.02); /* the table's price is straight between sizes */
    assert_true(predicted.anchor_line == 400 + s || predicted.anchor_line2 == 400 + s);
    assert_true(near(predicted.us, predicted.factor * (predicted.latency_us + predicted.bandwidth_us +
                                                       predicted.reduction_us)));
  }
  tt_costs_destroy(costs);
  tuned_destroy(&tuned);
  tt_profile_destroy(&profile);
}

static void what_was_not_measured_is_as_far_off_as_the_others(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  (void)state;
  for (int s = 0; s < SIZES; s++) {
    anchor_add(&profile, "ring", 4, 4, s, 1000);
    anchor_add(&profile, "direct", 4, 4, s, 1000);
  }
  for (int s = 0; s < SIZES; s++) {
    double ring = factor_of(&profile, 4, 4, "ring", sizes[s]), direct = factor_of(&profile, 4, 4, "direct", sizes[s]);
    double star = factor_of(&profile, 4, 4, "star", sizes[s]);
    assert_true(near(star, ring) || near(star, direct));
    assert_true(star > 1);
  }
  tt_profile_destroy(&profile);
}

static void another_kind_of_world_says_nothing(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  (void)state;
  for (int s = 0; s < SIZES; s++) anchor_add(&profile, "ring", 4, 2, s, 1000);
  assert_true(factor_of(&profile, 4, 2, "ring", 8) > 10);
  assert_true(factor_of(&profile, 4, 4, "ring", 8) == 1); /* a core for each */
  snprintf(profile.anchors[0].transport, sizeof profile.anchors[0].transport, "tcp");
  snprintf(profile.anchors[1].transport, sizeof profile.anchors[1].transport, "tcp");
  snprintf(profile.anchors[2].transport, sizeof profile.anchors[2].transport, "tcp");
  assert_true(factor_of(&profile, 4, 2, "ring", 8) == 1);
  tt_profile_destroy(&profile);
}

static void between_sizes_factors_lie_between_and_the_nearest_ranks_count(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  (void)state;
  for (int s = 0; s < SIZES; s++) {
    anchor_add(&profile, "ring", 4, 2, s, 30);
    anchor_add(&profile, "ring", 8, 2, s, 400);
  }
  for (int s = 0; s < SIZES; s++) {
    double few = factor_of(&profile, 4, 2, "ring", sizes[s]), many = factor_of(&profile, 8, 2, "ring", sizes[s]);
    double between = factor_of(&profile, 6, 2, "ring", sizes[s]);
    assert_true(few != many && near(between, many)); /* 8 ranks are nearer than 4 */
    assert_true(near(factor_of(&profile, 16, 2, "ring", sizes[s]), many));
    assert_true(near(factor_of(&profile, 3, 2, "ring", sizes[s]), few));
  }
  double low = factor_of(&profile, 4, 2, "ring", sizes[0]), high = factor_of(&profile, 4, 2, "ring", sizes[1]);
  double at = factor_of(&profile, 4, 2, "ring", 700);
  assert_true((low < at && at < high) || (low > at && at > high));
  assert_true(near(factor_of(&profile, 4, 2, "ring", 4), low));
  tt_profile_destroy(&profile);
}

/* What two ranks showed says less and less of what sets algorithms apart among many. */
static void far_from_what_was_measured_choices_are_alike(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  double last = 1e9;
  (void)state;
  for (int s = 0; s < SIZES; s++) {
    anchor_add(&profile, "ring", 2, 64, s, 40);
    anchor_add(&profile, "direct", 2, 64, s, 20);
    anchor_add(&profile, "star", 2, 64, s, 20);
  }
  for (int nranks = 4; nranks <= 64; nranks *= 2) {
    double apart = factor_of(&profile, nranks, 64, "ring", 8) / factor_of(&profile, nranks, 64, "star", 8);
    assert_true(apart > 1 && apart < last);
    last = apart;
  }
  assert_true(last < 1.1);
  tt_profile_destroy(&profile);
}

static void the_table_takes_what_was_measured_as_fastest(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  struct tt_settings settings;
  struct tt_table table;
  struct tuned tuned;
  (void)state;
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == TT_ALL_REDUCE)
      for (int s = 0; s < SIZES; s++)
        anchor_add(&profile, tt_algos[a].name, 4, 4, s, strcmp(tt_algos[a].name, "double_tree") && s == 1 ? 500 : 250);
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  tuned_make(&tuned, 4, 1, "shm");
  tuned.cluster.cores = 4;
  tuned.prices.profile = &profile;
  assert_int_equal(tt_table_make(&table, &settings, &tuned.tuning), tuttiSuccess);
  assert_string_equal(tt_algos[tt_table_choice(&table, TT_ALL_REDUCE, sizes[1])->algo].name, "double_tree");
  tuned_destroy(&tuned);
  tt_profile_destroy(&profile);
}

/* double_tree in blocks of 64 KiB was measured as fastest at 1 MiB; at the sizes below only in those of 128 KiB. */
static void a_block_is_chosen_only_where_it_was_measured_as_faster(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  struct tt_settings settings;
  struct tt_table table;
  struct tuned tuned;
  const double us[SIZES] = {10, 40, 250};
  (void)state;
  for (int a = 0; a < tt_algo_count; a++)
    for (int s = 0; s < SIZES && tt_algos[a].collective == TT_ALL_REDUCE; s++)
      anchor_add(&profile, tt_algos[a].name, 4, 4, s, us[s] * (strcmp(tt_algos[a].name, "double_tree") ? 1 : 0.6));
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  for (int round = 0; round < 2; round++) {
    tuned_make(&tuned, 4, 1, "shm");
    tuned.cluster.cores = 4;
    tuned.prices.profile = &profile;
    assert_int_equal(tt_table_make(&table, &settings, &tuned.tuning), tuttiSuccess);
    for (int s = 0; s < SIZES; s++) {
      const struct tt_choice *choice = tt_table_choice(&table, TT_ALL_REDUCE, sizes[s]);
      assert_string_equal(tt_algos[choice->algo].name, "double_tree");
      assert_int_equal(choice->block_bytes, round && s == SIZES - 1 ? 65536 : 131072);
    }
    settings.segment_bytes = 131072; /* who sets it has it */
    assert_int_equal(tt_table_make(&table, &settings, &tuned.tuning), tuttiSuccess);
    assert_int_equal(tt_table_choice(&table, TT_ALL_REDUCE, sizes[SIZES - 1])->block_bytes, 131072);
    settings.segment_bytes = 0;
    tuned_destroy(&tuned);
    anchor_add_in(65536, &profile, "double_tree", 4, SIZES - 1, 120);
    anchor_add_in(262144, &profile, "double_tree", 4, SIZES - 1, 300);
  }
  tt_profile_destroy(&profile);
}

static void anchors_add_in(enum tt_memory memory, struct tt_profile *profile, const char *best)
{
  for (int a = 0; a < tt_algo_count; a++)
    for (int s = 0; s < SIZES && tt_algos[a].collective == TT_ALL_REDUCE; s++) {
      anchor_add(profile, tt_algos[a].name, 4, 4, s, strcmp(tt_algos[a].name, best) ? 400 : 250);
      profile->anchors[profile->nanchors - 1].memory = memory;
    }
}

/* The best choices for 64 KiB in malloc's memory and, if it has rows of its own, in that of tuttiMemAlloc. */
static void check_kinds(const struct tt_profile *profile, const struct tt_settings *settings, const char *malloced,
                        const char *tutti)
{
  struct tt_table table;
  struct tuned tuned;
  tuned_make(&tuned, 4, 1, "shm");
  tuned.cluster.cores = 4;
  tuned.prices.profile = profile;
  assert_int_equal(tt_table_make(&table, settings, &tuned.tuning), tuttiSuccess);
  assert_int_equal(tt_table_valid(&table), 1);
  assert_int_equal(tt_table_has_tutti(&table, TT_ALL_REDUCE), tutti != NULL);
  assert_int_equal(tt_table_has_tutti(&table, TT_ALL_GATHER) || tt_table_has_tutti(&table, TT_REDUCE), 0);
  for (int memory = 0; memory < TT_MEMORIES; memory++) {
    const struct tt_choice *choice = tt_table_choice_in(&table, (enum tt_memory)memory, TT_ALL_REDUCE, sizes[1]);
    const struct tt_arms *arms = &table.arms[memory][tt_arms_row(TT_ALL_REDUCE)];
    assert_string_equal(tt_algos[choice->algo].name, memory == TT_MEMORY_TUTTI && tutti ? tutti : malloced);
    int first = arms->of[tt_size_class(sizes[1])][0], is_learnt = arms->n > 0;
    assert_int_equal(is_learnt, settings->learn != TT_LEARN_OFF && (memory == TT_MEMORY_MALLOC || tutti));
    assert_true(!is_learnt || (first > 0 && tt_choices_same(&arms->choices[first - 1], choice)));
  }
  tuned_destroy(&tuned);
}

static void each_kind_of_memory_has_its_anchors(void **state)
{
  struct tt_profile profile = {.nlinks = 0};
  struct tt_settings settings;
  (void)state;
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  anchors_add_in(TT_MEMORY_MALLOC, &profile, "double_tree");
  check_kinds(&profile, &settings, "double_tree", NULL);
  anchors_add_in(TT_MEMORY_TUTTI, &profile, "ring");
  check_kinds(&profile, &settings, "double_tree", "ring");
  settings.learn = TT_LEARN_OFF; /* it is no matter of learning */
  check_kinds(&profile, &settings, "double_tree", "ring");
  tt_profile_destroy(&profile);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_prediction_at_an_anchor_is_what_was_measured),
      cmocka_unit_test(what_was_not_measured_is_as_far_off_as_the_others),
      cmocka_unit_test(another_kind_of_world_says_nothing),
      cmocka_unit_test(between_sizes_factors_lie_between_and_the_nearest_ranks_count),
      cmocka_unit_test(far_from_what_was_measured_choices_are_alike),
      cmocka_unit_test(the_table_takes_what_was_measured_as_fastest),
      cmocka_unit_test(each_kind_of_memory_has_its_anchors),
      cmocka_unit_test(a_block_is_chosen_only_where_it_was_measured_as_faster),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
