/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of two plans stays: the quicker one, though the machine has slow phases. */
#include "chance.h"
#include "fuser/trial.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define STEPS 4000

/* A training loop: steps take us[which plan], and in slow phases of some steps up to twice that. How many of the second
 * half were by the slower plan; *agreements of all. */
static int slower_steps(const double us[2], uint64_t seed, int *agreements)
{
  struct tt_trial trial = {.is_other = 0};
  uint64_t agree = tt_trial_next(&trial, 0), phase = 0;
  double factor = 1, recent[TT_TRIAL_STEPS];
  int n = 0, slower = 0;
  *agreements = 0;
  for (uint64_t step = 1; step <= STEPS; step++) {
    if (phase-- == 0) {
      phase = below(&seed, 25);
      factor = below(&seed, 3) ? 1 : 1 + (double)below(&seed, 1000) / 1000;
    }
    recent[n++ % TT_TRIAL_STEPS] = us[trial.is_other] * factor;
    if (step > STEPS / 2) slower += us[trial.is_other] > us[!trial.is_other];
    if (step < agree) continue;
    double least = recent[0];
    for (int k = 1; k < n && k < TT_TRIAL_STEPS; k++) least = recent[k] < least ? recent[k] : least;
    if (++*agreements > 1 && tt_trial_decide(&trial, step, least, 1)) n = 0;
    agree = tt_trial_next(&trial, step);
    assert_true(agree > step);
  }
  return slower;
}

static void the_quicker_plan_stays(void **state)
{
  (void)state;
  static const double us[3][2] = {{100, 120}, {120, 100}, {105, 100}};
  int sum = 0, agreements;
  for (int k = 0; k < 3; k++)
    for (uint64_t seed = 1; seed <= 1000; seed++) {
      sum += slower_steps(us[k], seed, &agreements);
      assert_in_range(agreements, STEPS / 50, 2 * STEPS / 50);
    }
  print_message("%.1f %% of the steps by the slower plan\n", 100.0 * sum / (3 * 1000 * STEPS / 2));
  assert_true(sum < 3 * 1000 * STEPS / 2 / 20);
}

static void without_priority_nothing_is_tried(void **state)
{
  (void)state;
  struct tt_trial trial = {.is_other = 0};
  for (uint64_t step = 3; step < STEPS; step = tt_trial_next(&trial, step))
    assert_int_equal(tt_trial_decide(&trial, step, 100, 0), 0);
}

static void what_was_not_measured_decides_nothing(void **state)
{
  (void)state;
  struct tt_trial trial = {.is_other = 0};
  assert_int_equal(tt_trial_decide(&trial, 6, 0, 1), 0);
  assert_int_equal(tt_trial_decide(&trial, 10, 100, 1), 1);
  assert_int_equal(tt_trial_decide(&trial, 20, 0, 0), 0);
  assert_int_equal(trial.is_other, 1);
  assert_int_equal(tt_trial_decide(&trial, 30, 101, 0), 1);
  assert_int_equal(trial.is_other, 0);
}

static void ranks_agree_often_at_first_and_soon_after_a_trial(void **state)
{
  (void)state;
  static const uint64_t wanted[] = {3, 6, 10, 20, 50, 100, 150};
  struct tt_trial trial = {.is_other = 0};
  uint64_t step = 0;
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
    step = tt_trial_next(&trial, step);
    assert_int_equal(step, wanted[k]);
  }
  trial.is_on = 1;
  assert_int_equal(tt_trial_next(&trial, 150), 160);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_quicker_plan_stays),
      cmocka_unit_test(without_priority_nothing_is_tried),
      cmocka_unit_test(what_was_not_measured_decides_nothing),
      cmocka_unit_test(ranks_agree_often_at_first_and_soon_after_a_trial),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
