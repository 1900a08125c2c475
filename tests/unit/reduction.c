/* SPDX-License-Identifier: BSD-3-Clause */
/* A reduction runs the kernel of its operation and type, and looks at results.
 * Labels: serial. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "reduce/reduction.h"

static void the_kernel_is_that_of_operation_and_type(void **state)
{
  (void)state;
  const int32_t a[2] = {1, -5}, b[2] = {10, 20}, c[2] = {100, 200};
  int32_t result[2];
  const void *sources[3] = {a, b, c};
  const struct tt_reduction what = {tuttiSum, tuttiInt32, result, sources, 3, 2, NULL, NULL};
  assert_int_equal(tt_reduce_run(&what), tuttiSuccess);
  assert_int_equal(result[0], 111);
  assert_int_equal(result[1], 215);
}

static void unknown_reductions_are_errors(void **state)
{
  (void)state;
  int32_t value = 3;
  const void *sources[1] = {&value};
  const struct tt_reduction what = {99, tuttiInt32, &value, sources, 1, 1, NULL, NULL};
  assert_int_equal(tt_reduce_run(&what), tuttiInternalError);
  assert_non_null(strstr(tt_last_sentence(), "op 99"));
}

/* An infinite element anywhere, also behind the first piece that is looked at, and with more sources than fit there. */
static void overflow_is_seen_wherever_it_is(void **state)
{
  enum { COUNT = 5000, SOURCES = 70 };
  static float values[COUNT], result[COUNT];
  const void *sources[SOURCES];
  (void)state;
  for (int k = 0; k < SOURCES; k++) sources[k] = values;
  for (int nsrc = 2; nsrc <= SOURCES; nsrc += SOURCES - 2)
    for (int at = -1; at < COUNT; at += 1249) {
      int seen = 0;
      const struct tt_reduction what = {tuttiSum, tuttiFloat32, result, sources, nsrc, COUNT, NULL, &seen};
      if (at >= 0) values[at] = INFINITY;
      assert_int_equal(tt_reduce_run(&what), tuttiSuccess);
      assert_int_equal(seen, at >= 0);
      if (at >= 0) values[at] = 0;
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_kernel_is_that_of_operation_and_type),
      cmocka_unit_test(unknown_reductions_are_errors),
      cmocka_unit_test(overflow_is_seen_wherever_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
