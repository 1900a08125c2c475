/* SPDX-License-Identifier: BSD-3-Clause */
/* The learner is told of few calls, of short ones still fewer, which changes nothing but the count of calls that are
 * timed; and one that takes over what is known, and one without a choice.
 * Labels: serial, planner. */
#include "tuner/learn_private.h"

#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define CALLS_MOST 4000000

static void exchange(struct tt_learn *learn)
{
  int64_t facts[TT_LEARN_FACTS];
  tt_learn_tell(learn, facts);
  tt_learn_agree(learn, facts);
}

/* One call of the next arm, and those that need nothing; how many. */
static uint32_t call(struct tt_learn *learn, const uint64_t *ns)
{
  uint64_t took = tt_learn_is_timed(learn) ? ns[tt_learn_arm(learn)] : 0;
  if (tt_learn_unready(learn) >= 0) tt_learn_ready(learn);
  if (tt_learn_step(learn, took)) {
    exchange(learn);
    return 1;
  }
  uint32_t quiet = tt_learn_quiet(learn);
  tt_learn_skip(learn, quiet);
  return 1 + quiet;
}

/* Calls until it has settled; *told: of those of which it was told. */
static uint32_t settle(struct tt_learn *learn, const uint64_t *ns, uint32_t *told)
{
  uint32_t calls = 0;
  for (*told = 0; learn->agreed.state != TT_LEARN_SETTLED && calls < CALLS_MOST; ++*told) calls += call(learn, ns);
  assert_int_equal(learn->agreed.state, TT_LEARN_SETTLED);
  return calls;
}

static void few_short_calls_are_told(void **state)
{
  static const uint64_t ns[] = {130, 100, 110, 200};
  struct tt_learn learn;
  uint32_t told;
  (void)state;
  tt_learn_init(&learn, 4);
  uint32_t calls = settle(&learn, ns, &told);
  assert_int_equal(learn.agreed.incumbent, 1);
  assert_true(told - 100 < calls / 20);
  uint32_t rested = 0;
  for (told = 0; rested < 2000000; told++) rested += call(&learn, ns);
  assert_true(told < rested / 1000);
  assert_int_equal(learn.agreed.incumbent, 1);
}

static void few_calls_of_a_race_are_told(void **state)
{
  static const uint64_t ns[] = {3100, 2900, 3000};
  struct tt_learn learn;
  uint32_t told;
  (void)state;
  tt_learn_init(&learn, 3);
  uint32_t calls = settle(&learn, ns, &told);
  assert_true(told < calls / 5);
  assert_int_equal(learn.agreed.incumbent, 1);
}

/* A learner that is told of each call without a time is where one is that has skipped them. */
static void a_skip_is_as_many_calls_without_a_time(void **state)
{
  static const uint64_t ns[] = {500, 450, 700};
  struct tt_learn skips, steps;
  (void)state;
  tt_learn_init(&skips, 3);
  tt_learn_init(&steps, 3);
  for (uint32_t calls = 0; calls < 3000000;) {
    int arm = tt_learn_arm(&skips);
    uint32_t n = call(&skips, ns);
    for (uint32_t k = 0; k < n; k++) {
      assert_int_equal(tt_learn_arm(&steps), k ? tt_learn_arm(&skips) : arm);
      assert_true(!k || !tt_learn_is_timed(&steps));
      if (!k && tt_learn_unready(&steps) >= 0) tt_learn_ready(&steps);
      if (tt_learn_step(&steps, k ? 0 : ns[arm])) exchange(&steps);
    }
    assert_memory_equal(&skips, &steps, sizeof skips);
    calls += n;
  }
  assert_int_equal(skips.agreed.state, TT_LEARN_SETTLED);
}

/* How often the race begins again within so many calls. */
static int drifts(struct tt_learn *learn, const uint64_t *ns, uint32_t calls)
{
  int n = 0, was = learn->agreed.state;
  for (uint32_t done = 0; done < calls; was = learn->agreed.state) {
    done += call(learn, ns);
    n += was == TT_LEARN_SETTLED && learn->agreed.state == TT_LEARN_RACE;
  }
  return n;
}

static void what_is_known_is_settled(void **state)
{
  static const uint64_t as_before[] = {10000, 9000}, near[] = {11500, 9000}, far[] = {13000, 9000};
  struct tt_learn learn;
  (void)state;
  tt_learn_resume(&learn, 2, 10000);
  assert_int_equal(learn.agreed.state, TT_LEARN_SETTLED);
  assert_int_equal(tt_learn_arm(&learn), 0);
  assert_int_equal(drifts(&learn, as_before, 20000), 0);
  assert_int_equal(tt_learn_arm(&learn), 0);
  tt_learn_resume(&learn, 2, 10000);
  assert_int_equal(drifts(&learn, near, 20000), 0);
  tt_learn_resume(&learn, 2, 10000);
  assert_int_equal(drifts(&learn, far, 60000), 1);
  assert_int_equal(learn.agreed.incumbent, 1);
  tt_learn_resume(&learn, 2, 0);
  assert_int_equal(drifts(&learn, far, 60000), 0);
}

static void one_arm_is_neither_measured_nor_exchanged(void **state)
{
  struct tt_learn learn;
  (void)state;
  tt_learn_init(&learn, 1);
  for (int call = 0; call < 100000; call++) {
    assert_int_equal(tt_learn_arm(&learn), 0);
    assert_int_equal(tt_learn_is_timed(&learn), 0);
    assert_int_equal(tt_learn_step(&learn, 1000), 0);
  }
}

/* One rank has told these facts of four visits of arm 1; what is known of it then. */
static struct tt_learn_agreed agree_on(int64_t arm_ns, int64_t least_ns, int64_t error_ns)
{
  struct tt_learn learn;
  int64_t facts[TT_LEARN_FACTS] = {0};
  tt_learn_init(&learn, 2);
  learn.agreed.state = TT_LEARN_RACE;
  learn.agreed.ready = 2;
  learn.agreed.reference_ns = least_ns;
  learn.agreed.race = (struct tt_learn_race){.challenger = 1, .stage = COARSE, .visits = 4, .n = 4};
  facts[ARM] = arm_ns;
  facts[INCUMBENT] = least_ns;
  facts[LEAST_INCUMBENT] = -least_ns;
  facts[ERROR] = error_ns;
  facts[VISITS] = -4;
  facts[READY] = -2;
  tt_learn_agree(&learn, facts);
  return learn.agreed;
}

/* Visits stay short, as the excess may be large. */
static void an_error_beyond_all_bounds_is_not_taken_for_none(void **state)
{
  (void)state;
  struct tt_learn_agreed agreed = agree_on(100, 100, 1000000000);
  assert_int_equal(agreed.state, TT_LEARN_RACE);
  assert_int_equal(agreed.race.stage, COARSE);
  assert_int_equal(agreed.race.upper_ppm, 1000000000);
}

static void parts_of_long_times_are_exact(void **state)
{
  (void)state;
  assert_int_equal(agree_on(151, 100, 0).known_ppm[1], 510000);
  assert_int_equal(agree_on(5000000000000, 100000000000, 0).known_ppm[1], 49000000);
  assert_int_equal(agree_on(50000000000000, 20000000000000, 0).known_ppm[1], 1500000);
  assert_int_equal(agree_on(1000000000000000, 100, 0).known_ppm[1], 1000000000);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(few_short_calls_are_told),
      cmocka_unit_test(few_calls_of_a_race_are_told),
      cmocka_unit_test(a_skip_is_as_many_calls_without_a_time),
      cmocka_unit_test(what_is_known_is_settled),
      cmocka_unit_test(an_error_beyond_all_bounds_is_not_taken_for_none),
      cmocka_unit_test(parts_of_long_times_are_exact),
      cmocka_unit_test(one_arm_is_neither_measured_nor_exchanged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
