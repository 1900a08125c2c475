/* SPDX-License-Identifier: BSD-3-Clause */
/* What several samples say together, and the mixed order of points.
 * Labels: serial. */
#include "measure/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static void median_and_quarters_lie_between_the_samples(void **state)
{
  (void)state;
  double odd[] = {5, 1, 4, 2, 3}, even[] = {4, 1, 3, 2}, one[] = {7};
  struct summary sum = samples_summarise(odd, 5);
  assert_true(sum.median == 3 && sum.low == 2 && sum.high == 4);
  for (int i = 0; i < 5; i++) assert_true(odd[i] == i + 1);
  sum = samples_summarise(even, 4);
  assert_true(sum.median == 2.5 && sum.low == 1.75 && sum.high == 3.25);
  sum = samples_summarise(one, 1);
  assert_true(sum.median == 7 && sum.low == 7 && sum.high == 7);
}

static void one_far_sample_of_ten_does_not_count(void **state)
{
  (void)state;
  const double high[] = {9, 10, 10, 10, 10, 10, 10, 10, 12, 1000}, low[] = {1, 10, 10, 10, 10, 10, 10, 10, 10, 12};
  assert_true(samples_error_percent(high, 10, 10) == 20);
  assert_true(samples_error_percent(low, 10, 10) == 20);
  assert_true(samples_error_percent(high, 9, 10) == 20); /* fewer: all count */
  assert_true(samples_error_percent(low, 9, 10) == 90);
  assert_true(samples_error_percent(high, 1, 9) == 0);
  assert_true(samples_error_percent(high, 10, 0) == 0);
}

static void a_mixed_order_has_every_number_once_and_follows_from_its_seed(void **state)
{
  (void)state;
  int32_t order[44], again[44], other[44];
  int differ = 0, moved = 0;
  for (uint32_t seed = 0; seed < 100; seed++) {
    uint64_t seen = 0;
    order_mix(order, 44, seed);
    order_mix(again, 44, seed);
    order_mix(other, 44, seed + 1);
    for (int i = 0; i < 44; i++) {
      assert_int_equal(order[i], again[i]);
      seen |= (uint64_t)1 << order[i];
      differ += order[i] != other[i];
      moved += order[i] != i;
    }
    assert_true(seen == ((uint64_t)1 << 44) - 1);
  }
  assert_true(differ > 2000 && moved > 2000); /* of 4,400 */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(median_and_quarters_lie_between_the_samples),
      cmocka_unit_test(one_far_sample_of_ten_does_not_count),
      cmocka_unit_test(a_mixed_order_has_every_number_once_and_follows_from_its_seed),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
