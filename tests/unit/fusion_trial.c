/* SPDX-License-Identifier: BSD-3-Clause */
/* Which of some plans stays: the quicker one, whatever others promise, and though the machine has slow phases.
 * Labels: serial. */
#include "chance.h"
#include "fusion/trial_private.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <cmocka.h>

#define STEPS 4000
#define SEEDS (IS_SLOW ? 200 : 1000)

enum { NONE = -1, FIRST, PLAIN, PROMISED, PLANS };

struct loop {
  double us[PLANS], promise_us; /* what steps take by each plan; what is told of PROMISED, 0: there is no such plan */
  double unlucky[PLANS];        /* seven of eight steps take so many times more */
  struct tt_trial trial;
  int now, kept, beaten;
};

/* At an agreement; us: as measured of the present plan. 1: it has changed. */
static int agree(struct loop *loop, uint64_t step, double us)
{
  int was = loop->now;
  enum tt_verdict verdict = tt_trial_ends(&loop->trial, step, us);
  if (verdict == TT_TRIED_WELL) loop->beaten = loop->kept;
  if (verdict == TT_TRIED_IN_VAIN) loop->now = loop->kept;
  struct tt_promises promises = {
      .now_us = loop->now == PROMISED ? loop->promise_us : 100,
      .new_us = loop->promise_us != 0 ? loop->promise_us : 100,
      .has_beaten = loop->beaten != NONE, .has_plain = loop->now != PLAIN && loop->beaten != PLAIN};
  enum tt_try what = tt_trial_begins(&loop->trial, step, &promises);
  if (what == TT_TRY_NOTHING) return loop->now != was;
  loop->kept = loop->now;
  loop->now = what == TT_TRY_PLAIN ? PLAIN : what == TT_TRY_BEATEN ? loop->beaten : PROMISED;
  return 1;
}

static int by_length(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x > y) - (x < y);
}

static double judged(const float *us, int n)
{
  float sorted[TT_TRIAL_STEPS];
  for (int k = 0; k < n; k++) sorted[k] = us[k];
  qsort(sorted, (size_t)n, sizeof *sorted, by_length);
  return tt_trial_us(sorted, n);
}

/* A training loop, in slow phases of some steps up to twice as slow. How many of the second half were by `plan`;
 * *agreements of all. */
static int steps_by(struct loop *loop, int plan, uint64_t seed, int *agreements)
{
  uint64_t next = tt_trial_next(&loop->trial, 0), phase = 0;
  double factor = 1;
  float recent[TT_TRIAL_STEPS];
  int n = 0, by = 0;
  *agreements = 0;
  for (uint64_t step = 1; step <= STEPS; step++) {
    if (phase-- == 0) {
      phase = below(&seed, 25);
      factor = below(&seed, 3) ? 1 : 1 + (double)below(&seed, 1000) / 1000;
    }
    double more = below(&seed, 8) ? loop->unlucky[loop->now] : 0;
    recent[n++ % TT_TRIAL_STEPS] = (float)(loop->us[loop->now] * factor * (1 + more));
    if (step > STEPS / 2) by += loop->now == plan;
    if (step < next) continue;
    double us = judged(recent, n < TT_TRIAL_STEPS ? n : TT_TRIAL_STEPS);
    if (++*agreements > 1 && agree(loop, step, us)) n = 0;
    next = tt_trial_next(&loop->trial, step);
    assert_true(next > step);
  }
  return by;
}

/* Percent of the steps in many loops. */
static double part_by(struct loop loop, int plan)
{
  int sum = 0, agreements;
  for (uint64_t seed = 1; seed <= SEEDS; seed++) {
    struct loop one = loop;
    one.beaten = NONE;
    sum += steps_by(&one, plan, seed, &agreements);
    assert_in_range(agreements, STEPS / 50, 3 * STEPS / 50);
  }
  return 200.0 * sum / SEEDS / STEPS;
}

static void the_quicker_plan_stays(void **state)
{
  (void)state;
  static const double us[3][2] = {{100, 120}, {120, 100}, {105, 100}};
  for (int k = 0; k < 3; k++) {
    struct loop loop = {.us = {us[k][0], us[k][1]}};
    double slower = part_by(loop, us[k][0] > us[k][1] ? FIRST : PLAIN);
    print_message("%.1f %% of the steps by the slower plan\n", slower);
    assert_true(slower < 5);
  }
}

static void what_does_not_keep_its_promise_goes_again(void **state)
{
  (void)state;
  static const double us[3] = {120, 200, 102};
  for (int k = 0; k < 3; k++) {
    struct loop loop = {.us = {100, 130, us[k]}, .promise_us = 80};
    double broken = part_by(loop, PROMISED), plain = part_by(loop, PLAIN);
    print_message("%.1f %% of the steps by the plan that takes %.0f, %.1f without priority\n", broken, us[k], plain);
    assert_true(broken < 12 && plain < 5); /* here nothing is learnt from a trial but the verdict */
  }
}

static void what_keeps_its_promise_stays(void **state)
{
  (void)state;
  struct loop loop = {.us = {100, 130, 80}, .promise_us = 80};
  double kept = part_by(loop, PROMISED);
  print_message("%.1f %% of the steps\n", kept);
  assert_true(kept > 95);
}

/* The luckiest iteration of the first plan is as short as any of the other one. */
static void a_plan_is_judged_by_its_usual_iterations(void **state)
{
  (void)state;
  struct loop loop = {.us = {95, 95, 0}, .unlucky = {[FIRST] = 0.1}};
  double steady = part_by(loop, PLAIN);
  print_message("%.1f %% of the steps by the steady plan\n", steady);
  assert_true(steady > 95);
}

/* A promise that holds is taken at once, others are not looked at again before their time. */
static void trials_follow_one_another(void **state)
{
  (void)state;
  struct tt_trial trial = {.us = 0};
  struct tt_promises better = {.now_us = 100, .new_us = 90, .has_plain = 1};
  assert_int_equal(tt_trial_ends(&trial, 6, 100), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 6, &better), TT_TRY_PROMISED);
  assert_int_equal(tt_trial_ends(&trial, 10, 110), TT_TRIED_IN_VAIN); /* 1.22 of what it promised */
  assert_int_equal(tt_trial_begins(&trial, 10, &better), TT_TRY_PLAIN);
  assert_int_equal(tt_trial_ends(&trial, 20, 105), TT_TRIED_IN_VAIN);
  assert_int_equal(tt_trial_begins(&trial, 20, &better), TT_TRY_NOTHING);
  better.new_us = 80; /* even with that it would be better */
  assert_int_equal(tt_trial_ends(&trial, 21, 100), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 21, &better), TT_TRY_PROMISED);
}

/* All promises are too long by a third, and the better one is a better plan: or it is not, and is not tried again. */
static void a_promise_that_is_too_long_is_tried_if_it_is_the_better_one(void **state)
{
  (void)state;
  struct tt_promises better = {.now_us = 133, .new_us = 120};
  for (int is_good = 0; is_good < 2; is_good++) {
    struct tt_trial trial = {.us = 0};
    assert_int_equal(tt_trial_ends(&trial, 6, 100), TT_NOT_TRIED);
    assert_int_equal(tt_trial_begins(&trial, 6, &better), TT_TRY_PROMISED);
    assert_int_equal(tt_trial_ends(&trial, 10, is_good ? 90 : 100), is_good ? TT_TRIED_WELL : TT_TRIED_IN_VAIN);
    if (!is_good) assert_int_equal(tt_trial_begins(&trial, 10, &better), TT_TRY_NOTHING);
  }
}

static void as_short_with_half_the_messages_is_tried_and_may_be_as_long(void **state)
{
  (void)state;
  struct tt_trial trial = {.us = 0};
  struct tt_promises simpler = {.now_us = 100, .new_us = 100, .is_simpler = 1};
  assert_int_equal(tt_trial_ends(&trial, 6, 100), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 6, &simpler), TT_TRY_PROMISED);
  assert_int_equal(tt_trial_ends(&trial, 10, 100), TT_TRIED_WELL);
}

/* Agreements until the plan that promises 150 has the place of one that takes 200 now and took `then_us` in the
 * beginning. */
static int agreements_until_changed(double then_us)
{
  struct tt_trial trial = {.us = 0};
  struct tt_promises promises = {.now_us = 200, .new_us = 150};
  uint64_t step = 100;
  int n = 0;
  tt_trial_ends(&trial, step, then_us);
  for (enum tt_verdict verdict = TT_NOT_TRIED; verdict != TT_TRIED_WELL && n < 1000; n++) {
    step = tt_trial_next(&trial, step);
    verdict = tt_trial_ends(&trial, step, trial.what == TT_TRY_PROMISED ? 150 : 200);
    tt_trial_begins(&trial, step, &promises);
  }
  return n;
}

/* Links or layers are slower than they were, or the one iteration that was measured was a short one. */
static void what_takes_longer_for_good_is_planned_anew_soon(void **state)
{
  (void)state;
  assert_in_range(agreements_until_changed(200), 1, 2);
  assert_in_range(agreements_until_changed(100), 2, 10);
  assert_in_range(agreements_until_changed(10), 2, 10);
}

/* What a plan of many messages took is held against those of half as many or more. */
static void few_messages_are_not_doubted_for_many(void **state)
{
  (void)state;
  struct tt_trial trial = {.us = 0};
  struct tt_promises many = {.now_us = 100, .new_us = 90, .messages = 400};
  struct tt_promises half = {.now_us = 100, .new_us = 90, .messages = 200};
  struct tt_promises few = {.now_us = 100, .new_us = 98, .messages = 26};
  assert_int_equal(tt_trial_ends(&trial, 6, 100), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 6, &many), TT_TRY_PROMISED);
  assert_int_equal(tt_trial_ends(&trial, 10, 110), TT_TRIED_IN_VAIN);
  struct tt_trial then = trial;
  assert_int_equal(tt_trial_begins(&then, 10, &half), TT_TRY_NOTHING);
  assert_int_equal(tt_trial_begins(&trial, 10, &few), TT_TRY_PROMISED);
  assert_int_equal(tt_trial_ends(&trial, 20, 101), TT_TRIED_IN_VAIN); /* less doubtful than many, but now it is, too */
  assert_int_equal(tt_trial_begins(&trial, 20, &few), TT_TRY_NOTHING);
}

static void without_priority_and_promises_nothing_is_tried(void **state)
{
  (void)state;
  struct tt_trial trial = {.us = 0};
  struct tt_promises same = {.now_us = 100, .new_us = 100};
  for (uint64_t step = 3; step < STEPS; step = tt_trial_next(&trial, step)) {
    assert_int_equal(tt_trial_ends(&trial, step, 100), TT_NOT_TRIED);
    assert_int_equal(tt_trial_begins(&trial, step, &same), TT_TRY_NOTHING);
  }
}

static void what_was_not_measured_decides_nothing(void **state)
{
  (void)state;
  struct tt_trial trial = {.us = 0};
  struct tt_promises same = {.now_us = 100, .new_us = 100, .has_plain = 1};
  assert_int_equal(tt_trial_ends(&trial, 6, 0), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 6, &same), TT_TRY_NOTHING);
  assert_int_equal(tt_trial_ends(&trial, 10, 100), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 10, &same), TT_TRY_PLAIN);
  assert_int_equal(tt_trial_ends(&trial, 20, 0), TT_NOT_TRIED);
  assert_int_equal(tt_trial_begins(&trial, 20, &same), TT_TRY_NOTHING);
  assert_int_equal(trial.what, TT_TRY_PLAIN);
  assert_int_equal(tt_trial_ends(&trial, 30, 101), TT_TRIED_IN_VAIN);
}

static void ranks_agree_often_at_first_and_soon_after_a_trial(void **state)
{
  (void)state;
  static const uint64_t wanted[] = {3, 6, 12, 24, 48, 96, 146, 196};
  struct tt_trial trial = {.us = 0};
  uint64_t step = 0;
  for (size_t k = 0; k < sizeof wanted / sizeof *wanted; k++) {
    step = tt_trial_next(&trial, step);
    assert_int_equal(step, wanted[k]);
  }
  trial.what = TT_TRY_PLAIN;
  assert_int_equal(tt_trial_next(&trial, 3), 6);
  assert_int_equal(tt_trial_next(&trial, 150), 160);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_quicker_plan_stays),
      cmocka_unit_test(what_does_not_keep_its_promise_goes_again),
      cmocka_unit_test(what_keeps_its_promise_stays),
      cmocka_unit_test(a_plan_is_judged_by_its_usual_iterations),
      cmocka_unit_test(trials_follow_one_another),
      cmocka_unit_test(a_promise_that_is_too_long_is_tried_if_it_is_the_better_one),
      cmocka_unit_test(as_short_with_half_the_messages_is_tried_and_may_be_as_long),
      cmocka_unit_test(what_takes_longer_for_good_is_planned_anew_soon),
      cmocka_unit_test(few_messages_are_not_doubted_for_many),
      cmocka_unit_test(without_priority_and_promises_nothing_is_tried),
      cmocka_unit_test(what_was_not_measured_decides_nothing),
      cmocka_unit_test(ranks_agree_often_at_first_and_soon_after_a_trial),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
