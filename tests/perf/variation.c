/* SPDX-License-Identifier: BSD-3-Clause */
/* Draws of perf/replay: each depends on the seed and on what it is for, and on nothing else; their means and standard
 * deviations are what they are asked to be; a slow rank and the lengths of a trace are factors besides; and what is no
 * variation is refused.
 * Labels: serial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "variation.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define DRAWS 200000

static void nothing_varies_unless_asked_for(void **state)
{
  (void)state;
  struct variation v = {.seed = 7};
  for (int k = 0; k < 100; k++) assert_true(variation_factor(&v, (uint64_t)k, k % 4, k, BACKWARD) == 1);
}

static void a_draw_does_not_depend_on_those_before_it(void **state)
{
  (void)state;
  struct variation v = {.seed = 7, .jitter = 0.5};
  double first[4][50];
  for (int rank = 0; rank < 4; rank++)
    for (int layer = 0; layer < 50; layer++)
      first[rank][layer] = variation_factor(&v, variation_step(3, 5), rank, layer, FORWARD);
  for (int layer = 49; layer >= 0; layer--)
    for (int rank = 3; rank >= 0; rank--)
      assert_true(first[rank][layer] == variation_factor(&v, variation_step(3, 5), rank, layer, FORWARD));
}

static void each_part_of_its_name_makes_it_another_draw(void **state)
{
  (void)state;
  struct variation v = {.seed = 7, .jitter = 0.5}, other = {.seed = 8, .jitter = 0.5};
  for (int k = 0; k < 1000; k++) {
    uint64_t step = variation_step(k, 1);
    double us = variation_factor(&v, step, k % 5, k % 7, BACKWARD);
    assert_true(us != variation_factor(&v, step, k % 5, k % 7, FORWARD));
    assert_true(us != variation_factor(&v, step, k % 5, k % 7 + 1, BACKWARD));
    assert_true(us != variation_factor(&v, step, k % 5 + 1, k % 7, BACKWARD));
    assert_true(us != variation_factor(&v, step + 1, k % 5, k % 7, BACKWARD));
    assert_true(us != variation_factor(&v, variation_step(k + 1, 1), k % 5, k % 7, BACKWARD));
    assert_true(us != variation_factor(&other, step, k % 5, k % 7, BACKWARD));
  }
}

static void jitter_has_mean_one_and_the_standard_deviation_asked_for(void **state)
{
  (void)state;
  const double jitters[] = {0.1, 0.2, 0.5};
  for (int j = 0; j < 3; j++) {
    struct variation v = {.seed = 1, .jitter = jitters[j]};
    double sum = 0, squares = 0;
    for (int k = 0; k < DRAWS; k++) {
      double factor = variation_factor(&v, (uint64_t)(k / 100), k % 4, k % 100, k % 2 ? FORWARD : BACKWARD);
      assert_true(factor > 0);
      sum += factor;
      squares += (factor - 1) * (factor - 1);
    }
    assert_true(fabs(sum / DRAWS - 1) < 0.01 * jitters[j]);
    assert_true(fabs(sqrt(squares / DRAWS) / jitters[j] - 1) < 0.02);
  }
}

static void the_slow_rank_alone_is_slow_by_its_factor(void **state)
{
  (void)state;
  struct variation v = {.seed = 1, .jitter = 0.2}, slow = v;
  assert_int_equal(variation_take(&slow, 's', "2:2"), 1);
  for (int rank = 0; rank < 4; rank++)
    assert_true(variation_factor(&slow, 9, rank, 3, FORWARD) ==
                variation_factor(&v, 9, rank, 3, FORWARD) * (rank == 2 ? 2 : 1));
}

static void all_of_a_step_has_the_length_of_one_batch_of_the_trace(void **state)
{
  (void)state;
  double lengths[] = {0.5, 1, 1.5};
  int seen[3] = {0};
  struct variation v = {.seed = 1, .nlengths = 3, .lengths = lengths};
  for (uint64_t step = 0; step < 3000; step++) {
    double factor = variation_factor(&v, step, 0, 0, BACKWARD);
    for (int k = 0; k < 10; k++)
      assert_true(variation_factor(&v, step, k % 4, k, k % 2 ? FORWARD : BACKWARD) == factor);
    assert_true(factor == 0.5 || factor == 1 || factor == 1.5);
    seen[(int)(2 * factor) - 1]++;
  }
  for (int k = 0; k < 3; k++) assert_in_range(seen[k], 900, 1100);
}

/* variation_take of a file with this text. */
static int lengths_take(struct variation *v, const char *text)
{
  char path[] = "/tmp/variation-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  FILE *file = fdopen(fd, "w");
  assert_non_null(file);
  fputs(text, file);
  assert_int_equal(fclose(file), 0);
  int taken = variation_take(v, 'l', path);
  unlink(path);
  return taken;
}

static void a_trace_is_read_as_it_stands(void **state)
{
  (void)state;
  struct variation v = {.seed = 1};
  assert_int_equal(lengths_take(&v, "batch,tokens,factor\n1,20,0.75\n2,30,1.25\n"), 1);
  assert_int_equal(v.nlengths, 2);
  assert_true(v.lengths[0] == 0.75 && v.lengths[1] == 1.25);
  variation_free(&v);
  const char *const wrong[] = {"", "batch,tokens,factor\n", "batch,tokens,factor\n2,20,1\n",
                               "batch,tokens,factor\n1,20,0\n", "batch,tokens,factor\n1,20,x\n",
                               "batch,tokens,factor\n1,20,1\n1,20,1\n"};
  for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) assert_int_equal(lengths_take(&v, wrong[k]), 0);
  assert_int_equal(variation_take(&v, 'l', "/nothing"), 0);
  variation_free(&v);
}

static void what_is_no_variation_is_refused(void **state)
{
  (void)state;
  struct variation v = {.seed = 1};
  const char *const jitters[] = {"", "x", "-1", "1001", "20%", "nan"};
  const char *const slows[] = {"", "2", "0:", "-1:2", "0:0", "0:1e9", "0:2x", "0:nan"};
  for (size_t k = 0; k < sizeof jitters / sizeof jitters[0]; k++)
    assert_int_equal(variation_take(&v, 'j', jitters[k]), 0);
  for (size_t k = 0; k < sizeof slows / sizeof slows[0]; k++) assert_int_equal(variation_take(&v, 's', slows[k]), 0);
  assert_int_equal(variation_take(&v, 'd', "one"), 0);
  assert_int_equal(variation_take(&v, 't', NULL), -1);
  assert_int_equal(variation_take(&v, 'j', "20"), 1);
  assert_true(v.jitter == 0.2);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(nothing_varies_unless_asked_for),
      cmocka_unit_test(a_draw_does_not_depend_on_those_before_it),
      cmocka_unit_test(each_part_of_its_name_makes_it_another_draw),
      cmocka_unit_test(jitter_has_mean_one_and_the_standard_deviation_asked_for),
      cmocka_unit_test(the_slow_rank_alone_is_slow_by_its_factor),
      cmocka_unit_test(all_of_a_step_has_the_length_of_one_batch_of_the_trace),
      cmocka_unit_test(a_trace_is_read_as_it_stands),
      cmocka_unit_test(what_is_no_variation_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
