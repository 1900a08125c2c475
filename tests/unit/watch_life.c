/* SPDX-License-Identifier: BSD-3-Clause */
/* What a silent rank is taken for, as a table, and with a clock that is only a number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "watch/life_private.h"

#define MS 1000000ull

static const struct tt_life_limits limits = {.stale_ns = 50 * MS, .frozen_ns = 1000 * MS, .unreachable_ns = 3000 * MS};

struct row {
  uint64_t age_ms;
  int attached;
  enum tt_life life;
  uint64_t stopped_ms;
  enum tt_life_verdict verdict;
};

static const struct row rows[] = {
    /* a fresh beat outweighs whatever /proc says */
    {0, 1, TT_LIFE_DEAD, 0, TT_VERDICT_FINE},
    {50, 1, TT_LIFE_DEAD, 0, TT_VERDICT_FINE},
    {50, 1, TT_LIFE_FROZEN, 9000, TT_VERDICT_FINE},
    /* dead is dead at once, also during start-up */
    {51, 1, TT_LIFE_DEAD, 0, TT_VERDICT_DEAD},
    {51, 0, TT_LIFE_DEAD, 0, TT_VERDICT_DEAD},
    {100000, 1, TT_LIFE_DEAD, 0, TT_VERDICT_DEAD},
    /* stopped is an error after the limit, counted from the stop and not from the last beat */
    {51, 1, TT_LIFE_FROZEN, 0, TT_VERDICT_FINE},
    {5000, 1, TT_LIFE_FROZEN, 999, TT_VERDICT_FINE},
    {5000, 1, TT_LIFE_FROZEN, 1000, TT_VERDICT_FROZEN},
    {5000, 0, TT_LIFE_FROZEN, 1000, TT_VERDICT_FROZEN},
    /* a debugger may hold a rank for ever */
    {51, 1, TT_LIFE_TRACED, 0, TT_VERDICT_TRACED},
    {100000, 1, TT_LIFE_TRACED, 0, TT_VERDICT_TRACED},
    /* alive is late at most */
    {51, 1, TT_LIFE_ALIVE, 0, TT_VERDICT_FINE},
    {100000000, 1, TT_LIFE_ALIVE, 0, TT_VERDICT_FINE},
    /* nothing known: the silence decides, but not before the first beat */
    {2999, 1, TT_LIFE_UNKNOWN, 0, TT_VERDICT_FINE},
    {3000, 1, TT_LIFE_UNKNOWN, 0, TT_VERDICT_UNREACHABLE},
    {100000, 0, TT_LIFE_UNKNOWN, 0, TT_VERDICT_FINE},
};

static void the_ranks_of_a_host_beat_12800_times_a_second_at_most(void **state)
{
  (void)state;
  assert_int_equal(tt_beat_ns(1), 10 * MS);
  assert_int_equal(tt_beat_ns(128), 10 * MS);
  assert_int_equal(tt_beat_ns(1024), 80 * MS);
  for (int ranks = 1; ranks <= 65536; ranks++) assert_true((uint64_t)ranks * 1000 * MS / tt_beat_ns(ranks) <= 12800);
}

static void silence_is_judged_by_the_table(void **state)
{
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    struct tt_life_facts facts = {.age_ns = rows[i].age_ms * MS,
                                  .attached = rows[i].attached,
                                  .life = rows[i].life,
                                  .stopped_ns = rows[i].stopped_ms * MS};
    enum tt_life_verdict verdict = tt_life_judge(&facts, &limits);
    if (verdict != rows[i].verdict) fail_msg("row %zu: verdict %d, wanted %d", i, verdict, rows[i].verdict);
  }
}

/* Ticks of 10 ms; the rank is stopped at 100 ms, continued at `until_ms`. Returns when the alarm came, 0: never. */
static uint64_t stopped_until(uint64_t until_ms)
{
  uint64_t last_beat = 0, stopped_since = 0;
  for (uint64_t now = 0; now < 5000; now += 10) {
    int stopped = now >= 100 && now < until_ms;
    if (!stopped) last_beat = now;
    if (!stopped) stopped_since = 0;
    if (stopped && !stopped_since && !tt_life_fresh((now - last_beat) * MS, &limits)) stopped_since = now;
    struct tt_life_facts facts = {.age_ns = (now - last_beat) * MS,
                                  .attached = 1,
                                  .life = stopped ? TT_LIFE_FROZEN : TT_LIFE_ALIVE,
                                  .stopped_ns = stopped_since ? (now - stopped_since) * MS : 0};
    if (tt_life_judge(&facts, &limits) == TT_VERDICT_FROZEN) return now;
  }
  return 0;
}

static void a_stop_shorter_than_the_limit_raises_no_alarm(void **state)
{
  (void)state;
  assert_int_equal(stopped_until(1000), 0);
  assert_int_equal(stopped_until(100), 0);
}

static void a_stop_longer_than_the_limit_raises_it_soon_after(void **state)
{
  (void)state;
  uint64_t alarm_ms = stopped_until(4000);
  assert_in_range(alarm_ms, 1100, 1200);
}

static void an_end_counts_at_once_unless_others_may_do_without_the_rank(void **state)
{
  (void)state;
  static const struct {
    struct tt_end_facts facts;
    int counts;
  } ends[] = {
      {{.finished = 0, .least_finished = 0}, 1},
      {{.finished = 7, .least_finished = 7}, 1},
      {{.finished = 7, .least_finished = 6}, 0}, /* somebody is inside 7, or has yet to come to it */
      {{.finished = 7, .least_finished = 8}, 1}, /* the rank was inside 8 */
      {{.finished = 7, .least_finished = UINT64_MAX}, 1},
      {{.finished = 7, .least_finished = 7, .has_cause = 1}, 0},
      {{.finished = 7, .least_finished = 7, .unnumbered = 1}, 0},
  };
  for (size_t i = 0; i < sizeof ends / sizeof *ends; i++)
    assert_int_equal(tt_end_counts(&ends[i].facts), ends[i].counts);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_ranks_of_a_host_beat_12800_times_a_second_at_most),
      cmocka_unit_test(silence_is_judged_by_the_table),
      cmocka_unit_test(a_stop_shorter_than_the_limit_raises_no_alarm),
      cmocka_unit_test(a_stop_longer_than_the_limit_raises_it_soon_after),
      cmocka_unit_test(an_end_counts_at_once_unless_others_may_do_without_the_rank),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
