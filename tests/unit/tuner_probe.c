/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes of links that are quick, slow, uneven or late: which messages are sent, when it ends, and what is told.
 * Labels: plain. */
#include "tuner/probe.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static const struct tt_probe_point points[] = {{.bytes = 8, .first_bytes = 8, .first_times = 4},
                                               {.bytes = 4096, .first_bytes = 1024, .first_times = 1}};
static const struct tt_probe_budget budget = {
    .batch_us = 60, .times_most = 64, .batches = 5, .batches_slow = 3, .nearly = 1.1, .slow_us = 1000};

/* A link: us of a message, and of a byte. Batches of even numbers take `uneven` times as long. */
struct link {
  double message_us, byte_us, uneven;
};

/* Sends until it is over. Returns how many batches that took. */
static int probe_run(struct tt_probe *probe, const struct link *link)
{
  int n = 0;
  double spent_us = 0;
  for (; probe->times && n < 1000; n++) {
    double us = (link->message_us + probe->bytes * link->byte_us) * (n % 2 ? 1 : link->uneven);
    spent_us += us * probe->times;
    tt_probe_took(probe, us, spent_us);
  }
  return n;
}

static void batches_take_as_long_as_they_may_and_begin_with_the_first_messages(void **state)
{
  (void)state;
  struct tt_probe probe;
  tt_probe_begin(&probe, &budget, points, 2);
  assert_true(probe.is_first && probe.bytes == 8 && probe.times == 4);
  tt_probe_took(&probe, 6, 24);
  assert_true(!probe.is_first && probe.bytes == 8 && probe.times == 10);
  tt_probe_took(&probe, 0.1, 0);
  assert_true(probe.times == 10); /* the same for all batches of a point */
  tt_probe_begin(&probe, &budget, points, 2);
  tt_probe_took(&probe, 0.1, 0);
  assert_true(probe.times == 64);
  tt_probe_begin(&probe, &budget, points, 2);
  tt_probe_took(&probe, 600, 0);
  assert_true(probe.times == 1);
}

static void a_row_has_its_fastest_batches_and_leaves_out_the_first(void **state)
{
  (void)state;
  struct tt_probe probe;
  const double us[] = {1, 5, 3, 9, 3.5, 4}; /* the first one does not count */
  struct tt_probe_budget three = budget;
  three.nearly = 1.2;
  tt_probe_begin(&probe, &three, points, 1);
  for (int k = 0; k < 6; k++) {
    assert_true(probe.times > 0);
    tt_probe_took(&probe, us[k], 0);
  }
  assert_int_equal(probe.times, 0);
  assert_true(probe.rows[0].is_done && probe.rows[0].n == 5 && probe.rows[0].bytes == 8);
  assert_true(probe.rows[0].least_us == 3 && probe.rows[0].second_us == 3.5);
}

static void it_goes_on_until_a_second_batch_is_nearly_as_fast(void **state)
{
  (void)state;
  struct tt_probe probe;
  tt_probe_begin(&probe, &budget, points, 1);
  tt_probe_took(&probe, 10, 0);
  tt_probe_took(&probe, 10, 0);
  for (int k = 0; k < 30; k++) tt_probe_took(&probe, 12, 0);
  assert_true(probe.times > 0 && !probe.rows[0].is_done);
  tt_probe_took(&probe, 10.9, 0);
  assert_true(!probe.times && probe.rows[0].is_done);
}

static void fewer_batches_do_where_a_message_takes_longer_than_one(void **state)
{
  (void)state;
  struct tt_probe probe;
  const struct link slow = {.message_us = 100, .uneven = 1}, quick = {.message_us = 1, .uneven = 1};
  tt_probe_begin(&probe, &budget, points, 1);
  assert_int_equal(probe_run(&probe, &slow), 1 + 3);
  tt_probe_begin(&probe, &budget, points, 1);
  assert_int_equal(probe_run(&probe, &quick), 1 + 5);
}

static void on_slow_links_long_messages_stay_short_and_on_slower_ones_it_ends(void **state)
{
  (void)state;
  struct tt_probe probe;
  const struct link slow = {.message_us = 1, .byte_us = 1, .uneven = 1}, slower = {.message_us = 1001, .uneven = 1};
  tt_probe_begin(&probe, &budget, points, 2);
  probe_run(&probe, &slow);
  assert_true(probe.rows[0].is_done && probe.rows[1].is_done);
  assert_true(probe.rows[1].bytes == 1024 && probe.rows[1].least_us == 1025);
  tt_probe_begin(&probe, &budget, points, 2);
  assert_int_equal(probe_run(&probe, &slower), 1);
  assert_false(probe.rows[0].is_done || probe.rows[1].is_done);
}

static void nothing_begins_when_the_time_is_over(void **state)
{
  (void)state;
  struct tt_probe probe;
  struct tt_probe_budget late = budget;
  const struct link uneven = {.message_us = 50, .uneven = 2};
  late.nearly = 0.5; /* never */
  late.all_us = 5000;
  tt_probe_begin(&probe, &late, points, 2);
  int n = probe_run(&probe, &uneven);
  assert_true(n > 50 && n < 100 && !probe.rows[0].is_done);
}

static void points_that_would_take_too_long_are_left_out(void **state)
{
  (void)state;
  const struct tt_probe_budget short_one = {.batches = 2, .point_us = 1000};
  const struct tt_probe_point fixed[] = {{.bytes = 10, .first_bytes = 10, .first_times = 3, .times = 5},
                                         {.bytes = 100, .first_bytes = 100, .first_times = 3, .times = 5},
                                         {.bytes = 1000, .first_bytes = 1000, .first_times = 3, .times = 5}};
  struct tt_probe probe;
  const struct link link = {.byte_us = 1, .uneven = 1}, quick = {.byte_us = 0.1, .uneven = 1};
  tt_probe_begin(&probe, &short_one, fixed, 3);
  assert_int_equal(probe_run(&probe, &link), 2 * (1 + 2)); /* 1000 B would take 10,000 us */
  assert_true(probe.rows[0].is_done && probe.rows[1].is_done && !probe.rows[2].n);
  tt_probe_begin(&probe, &short_one, fixed, 3);
  assert_int_equal(probe_run(&probe, &quick), 3 * (1 + 2));
  assert_true(probe.rows[2].least_us == 100);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(batches_take_as_long_as_they_may_and_begin_with_the_first_messages),
      cmocka_unit_test(a_row_has_its_fastest_batches_and_leaves_out_the_first),
      cmocka_unit_test(it_goes_on_until_a_second_batch_is_nearly_as_fast),
      cmocka_unit_test(fewer_batches_do_where_a_message_takes_longer_than_one),
      cmocka_unit_test(on_slow_links_long_messages_stay_short_and_on_slower_ones_it_ends),
      cmocka_unit_test(nothing_begins_when_the_time_is_over),
      cmocka_unit_test(points_that_would_take_too_long_are_left_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
