/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels of each table compute, element by element.
 * Labels: serial. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce_tables.h"

/* Runs one kernel on `count` elements and compares with the reference; sources apart. */
static void check(int redop, int type, const void *const *sources, int nsrc, size_t count,
                  const struct tt_reduce_arg *arg)
{
  static char got[65536], wanted[65536];
  size_t size = tt_type_size(type);
  assert_true(count * size <= sizeof got);
  tt_reduce_kernel(redop, type)(got, sources, nsrc, count, arg);
  reference_reduce(&(struct reference){redop, type, nsrc, sources, arg}, wanted, count);
  for (size_t i = 0; i < count; i++) {
    if (!memcmp(got + i * size, wanted + i * size, size)) continue;
    uint64_t bits[3] = {0};
    memcpy(&bits[0], (const char *)sources[0] + i * size, size);
    memcpy(&bits[1], got + i * size, size);
    memcpy(&bits[2], wanted + i * size, size);
    fail_msg("%s of %d %s, element %zu: source 0 is %llx, result %llx, should be %llx",
             tt_redop_name(redop), nsrc, tt_type_name(type), i, (unsigned long long)bits[0],
             (unsigned long long)bits[1], (unsigned long long)bits[2]);
  }
}

static void every_operation_has_a_kernel_of_each_type_that_it_takes(void **state)
{
  (void)state;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      assert_int_equal(tt_reduce_kernel(redop, type) == NULL, tt_redop_lacks(redop, type) != NULL);
}

static void unknown_operations_and_types_have_no_kernel(void **state)
{
  (void)state;
  assert_null(tt_reduce_kernel(-1, 0));
  assert_null(tt_reduce_kernel(TT_REDOPS, 0));
  assert_null(tt_reduce_kernel(tuttiMaxRedOp, 0));
  assert_null(tt_reduce_kernel(0, -1));
  assert_null(tt_reduce_kernel(0, tuttiNumTypes));
}

static void hard_pairs_equal_the_reference(void **state)
{
  (void)state;
  static char hard[REFERENCE_HARD * 8], left[REFERENCE_HARD * REFERENCE_HARD * 8];
  static char right[sizeof left];
  const void *sources[2] = {left, right};
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    size_t size = tt_type_size(type), n = reference_hard(type, hard);
    assert_in_range(n, 8, REFERENCE_HARD);
    for (size_t i = 0; i < n * n; i++) {
      memcpy(left + i * size, hard + i / n * size, size);
      memcpy(right + i * size, hard + i % n * size, size);
    }
    for (int redop = 0; redop < TT_REDOPS; redop++) {
      if (tt_redop_lacks(redop, type)) continue;
      struct tt_reduce_arg arg;
      uint64_t seed = 31;
      for (int scaled = -1; scaled < (tt_reduce_scales(redop, type) ? 2 : 0); scaled++) {
        reference_arg(&arg, redop, type, scaled, &seed);
        check(redop, type, sources, 2, n * n, &arg);
      }
    }
  }
}

static void check_many(int nsrc, size_t words, int tame, uint64_t *seed)
{
  static uint64_t pool[700][40];
  const void *sources[700];
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    size_t size = tt_type_size(type), count = words * 8 / size;
    for (int k = 0; k < nsrc; k++) {
      sources[k] = pool[k];
      for (size_t w = 0; w < words; w++) pool[k][w] = next(seed);
      for (size_t i = 0; i < (tame ? count : 0); i++) reference_tame(type, (char *)pool[k] + i * size, seed);
    }
    for (int redop = 0; redop < TT_REDOPS; redop++) {
      if (tt_redop_lacks(redop, type)) continue;
      struct tt_reduce_arg arg;
      reference_arg(&arg, redop, type, (int)(below(seed, (size_t)nsrc + 1)) - 1, seed);
      check(redop, type, sources, nsrc, count, &arg);
    }
  }
}

static void many_sources_are_combined_left_to_right(void **state)
{
  (void)state;
  uint64_t seed = 7;
  for (int nsrc = 1; nsrc <= 16; nsrc++) check_many(nsrc, 40, nsrc % 2, &seed);
  check_many(40, 5, 1, &seed);
  check_many(700, 1, 1, &seed);
}

/* Longer than a block of the kernels, so that the second block takes part. */
static void long_vectors_equal_the_reference(void **state)
{
  (void)state;
  static uint64_t words[3][2600];
  const void *sources[3] = {words[0], words[1], words[2]};
  uint64_t seed = 99;
  for (int k = 0; k < 3; k++)
    for (int w = 0; w < 2600; w++) words[k][w] = next(&seed);
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (int nsrc = 1; nsrc <= 3; nsrc++) {
      struct tt_reduce_arg arg;
      reference_arg(&arg, TT_PREMUL_SUM, type, nsrc - 1, &seed);
      check(TT_PREMUL_SUM, type, sources, nsrc, 2600, &arg);
      check(tuttiSum, type, sources, nsrc, 2600, &tt_reduce_plainly);
    }
}

static uint32_t small(int redop, int type, int nsrc, const double *values)
{
  uint16_t elements[8], result = 0;
  const void *sources[8];
  struct tt_reduce_arg arg = tt_reduce_plainly;
  for (int k = 0; k < nsrc; k++) {
    uint32_t bits = tt_float_from_fp32(type, (float)values[k]);
    memcpy(&elements[k], &bits, 2);
    sources[k] = &elements[k];
  }
  tt_reduce_kernel(redop, type)(&result, sources, nsrc, 1, &arg);
  return result;
}

static float sum_of(int type, int nsrc, const double *values)
{
  return tt_float_to_fp32(type, small(tuttiSum, type, nsrc, values));
}

static void small_floats_round_once_over_all_sources(void **state)
{
  (void)state;
  const double fp16[] = {2048, 1, 1, 1}, bf16[] = {256, 1, 1, 1}, e4m3[] = {16, 1, 1, 1};
  const double e5m2[] = {8, 1, 1, 1};
  assert_true(sum_of(tuttiFloat16, 4, fp16) == 2052);   /* 2051, a tie; one by one 2048 */
  assert_true(sum_of(tuttiBfloat16, 4, bf16) == 260);   /* 259; one by one 256 */
  assert_true(sum_of(tuttiFloat8e4m3, 4, e4m3) == 20);  /* 19; one by one 16 */
  assert_true(sum_of(tuttiFloat8e5m2, 4, e5m2) == 12);  /* 11; one by one 8 */
}

static void overflow_is_infinity_but_saturates_in_e4m3(void **state)
{
  (void)state;
  const double fp16[] = {65504, 16}, fp16_less[] = {65504, 15.984375}, fp16_down[] = {-65504, -16};
  const double e5m2[] = {57344, 4096}, e5m2_less[] = {57344, 3584}, e4m3[] = {448, 448};
  const double e4m3_down[] = {-448, -32}, huge[] = {3e38, 3e38};
  assert_int_equal(small(tuttiSum, tuttiFloat16, 2, fp16), 0x7c00);
  assert_int_equal(small(tuttiSum, tuttiFloat16, 2, fp16_less), 0x7bff);
  assert_int_equal(small(tuttiSum, tuttiFloat16, 2, fp16_down), 0xfc00);
  assert_int_equal(small(tuttiSum, tuttiFloat8e5m2, 2, e5m2), 0x7c);
  assert_int_equal(small(tuttiSum, tuttiFloat8e5m2, 2, e5m2_less), 0x7b);
  assert_int_equal(small(tuttiSum, tuttiFloat8e4m3, 2, e4m3), 0x7e);
  assert_int_equal(small(tuttiSum, tuttiFloat8e4m3, 2, e4m3_down), 0xfe);
  assert_int_equal(small(tuttiSum, tuttiBfloat16, 2, huge), 0x7f80);
  assert_int_equal(tt_float_from_fp32(tuttiFloat8e4m3, INFINITY), 0x7e);
  assert_int_equal(tt_float_from_fp32(tuttiFloat8e4m3, -INFINITY), 0xfe);
}

static void an_infinity_of_one_rank_survives_the_sum(void **state)
{
  (void)state;
  const double values[] = {1, INFINITY, -3};
  assert_true(isinf(sum_of(tuttiFloat16, 3, values)));
  assert_true(isinf(sum_of(tuttiBfloat16, 3, values)));
  assert_true(isinf(sum_of(tuttiFloat8e5m2, 3, values)));
}

static void nan_passes_sums_and_products_but_loses_to_numbers(void **state)
{
  (void)state;
  const double values[2][2] = {{NAN, 2}, {2, NAN}}, both[] = {NAN, NAN};
  const int types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
  for (int t = 0; t < 4; t++)
    for (int redop = 0; redop < TT_REDOPS; redop++) {
      if (tt_redop_lacks(redop, types[t])) continue;
      int ordered = redop == tuttiMax || redop == tuttiMin;
      for (int order = 0; order < 2; order++) {
        float result = tt_float_to_fp32(types[t], small(redop, types[t], 2, values[order]));
        assert_true(ordered ? result == 2 : isnan(result));
      }
      assert_true(isnan(tt_float_to_fp32(types[t], small(redop, types[t], 2, both))));
    }
}

/* The bits of the NaN that kernels write. */
static uint64_t nan_of(int type)
{
  switch (type) {
  case tuttiFloat16: return 0x7e00;
  case tuttiBfloat16: return 0x7fc0;
  case tuttiFloat8e4m3: return 0x7f;
  case tuttiFloat8e5m2: return 0x7e;
  case tuttiFloat32: return 0x7fc00000;
  default: return 0x7ff8000000000000;
  }
}

/* Signs, payloads, quiet and signalling ones; with another NaN and, but for max and min, with a number. */
static void every_nan_that_is_written_is_the_same_one(void **state)
{
  (void)state;
  uint64_t nans[16], others[16], got[16], seed = 44;
  const void *sources[2] = {nans, others};
  for (int type = tuttiFloat16; type <= tuttiFloat8e5m2; type++)
    for (int redop = 0; redop < TT_REDOPS; redop++) {
      if (tt_redop_lacks(redop, type)) continue;
      size_t size = tt_type_size(type), last = 8 * size - 1;
      const uint64_t wanted = nan_of(type), all = ~(uint64_t)0 >> (63 - last);
      for (size_t i = 0; i < 16; i++) {
        uint64_t nan = (type == tuttiFloat8e4m3 ? wanted : next(&seed) & all) | wanted;
        uint64_t other = i % 2 || redop == tuttiMax || redop == tuttiMin ? nan ^ (uint64_t)1 << last : 0;
        memcpy((char *)nans + i * size, &nan, size);
        memcpy((char *)others + i * size, &other, size);
      }
      tt_reduce_kernel(redop, type)(got, sources, 2, 16, NULL);
      for (size_t i = 0; i < 16; i++) assert_memory_equal((char *)got + i * size, &wanted, size);
    }
}

/* Also of a NaN whose only bits are those that a shorter format has not. */
static void every_nan_is_converted_to_the_same_one(void **state)
{
  (void)state;
  const int types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
  const uint32_t payloads[] = {1, 0x1000, 0x7fffff, 0x400000};
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < 8; i++) {
      uint32_t bits = 0x7f800000u | payloads[i / 2] | (uint32_t)(i % 2) << 31;
      float value;
      memcpy(&value, &bits, 4);
      assert_int_equal(tt_float_from_fp32(types[t], value), nan_of(types[t]));
    }
}

static void zeros_are_ordered_in_max_and_min(void **state)
{
  (void)state;
  const double zeros[2][2] = {{0.0, -0.0}, {-0.0, 0.0}};
  for (int order = 0; order < 2; order++) {
    assert_int_equal(small(tuttiMax, tuttiFloat16, 2, zeros[order]), 0);
    assert_int_equal(small(tuttiMin, tuttiFloat16, 2, zeros[order]), 0x8000);
  }
  for (int order = 0; order < 2; order++) {
    double result;
    const void *sources[2] = {&zeros[order][0], &zeros[order][1]};
    tt_reduce_kernel(tuttiMax, tuttiFloat64)(&result, sources, 2, 1, NULL);
    assert_false(signbit(result));
    tt_reduce_kernel(tuttiMin, tuttiFloat64)(&result, sources, 2, 1, NULL);
    assert_true(signbit(result));
  }
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_operation_has_a_kernel_of_each_type_that_it_takes),
      cmocka_unit_test(unknown_operations_and_types_have_no_kernel),
      cmocka_unit_test(hard_pairs_equal_the_reference),
      cmocka_unit_test(many_sources_are_combined_left_to_right),
      cmocka_unit_test(long_vectors_equal_the_reference),
      cmocka_unit_test(small_floats_round_once_over_all_sources),
      cmocka_unit_test(overflow_is_infinity_but_saturates_in_e4m3),
      cmocka_unit_test(an_infinity_of_one_rank_survives_the_sum),
      cmocka_unit_test(nan_passes_sums_and_products_but_loses_to_numbers),
      cmocka_unit_test(every_nan_that_is_written_is_the_same_one),
      cmocka_unit_test(every_nan_is_converted_to_the_same_one),
      cmocka_unit_test(zeros_are_ordered_in_max_and_min),
  };
  return cmocka_run_group_tests_name(table, tests, NULL, NULL);
}

int main(void)
{
  alarm(60);
  return tables_each(run);
}
