/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA kernels give the bits of the plain table: their source, compiled for the CPU, on a driver without a GPU. The
 * same functions of the harness run on a real one in tests/gpu.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include <cmocka.h>

#include "device_bits.h"
#include "fake_driver.h"

static struct on_device on = {NULL, 1};

static int begin(void **state)
{
  (void)state;
  on.device = fake_driver_begin();
  return on.device ? 0 : -1;
}

static int end(void **state)
{
  (void)state;
  return fake_driver_end() ? 0 : -1;
}

static void check(const char *fault)
{
  if (fault) fail_msg("%s", fault);
}

static void every_kernel_gives_the_bits_of_the_plain_table(void **state)
{
  (void)state;
  check(bits_of_calls(&on, 12, 1));
}

static void every_count_and_alignment_gives_the_bits_of_the_plain_table(void **state)
{
  (void)state;
  check(bits_of_places(&on));
}

static void more_sources_than_fit_into_the_argument_are_read_from_a_list(void **state)
{
  (void)state;
  check(bits_of_many_sources(&on));
}

static void every_value_of_16_and_8_bits_is_scaled_and_widened_like_the_plain_table(void **state)
{
  (void)state;
  check(bits_of_all_values(on.device));
}

static void every_pair_of_bytes_and_of_hard_values_is_combined_like_the_plain_table(void **state)
{
  (void)state;
  check(bits_of_all_pairs(on.device));
}

static void fp32_is_rounded_like_the_plain_table(void **state)
{
  (void)state;
  check(bits_of_rounding(on.device, 1));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_gives_the_bits_of_the_plain_table),
      cmocka_unit_test(every_count_and_alignment_gives_the_bits_of_the_plain_table),
      cmocka_unit_test(more_sources_than_fit_into_the_argument_are_read_from_a_list),
      cmocka_unit_test(every_value_of_16_and_8_bits_is_scaled_and_widened_like_the_plain_table),
      cmocka_unit_test(every_pair_of_bytes_and_of_hard_values_is_combined_like_the_plain_table),
      cmocka_unit_test(fp32_is_rounded_like_the_plain_table),
  };
  setenv("FAKE_DELAY_US", "0", 1);
  alarm(60);
  return cmocka_run_group_tests(tests, begin, end);
}
