/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels of each table make of the ranks' contributions in avg and in a pre-multiplied sum.
 * Labels: serial. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce_tables.h"

#define WORDS 20
#define SOURCES 5

static void compare(int type, const void *got, const void *wanted, size_t count)
{
  size_t size = tt_type_size(type);
  for (size_t i = 0; i < count; i++)
    if (memcmp((const char *)got + i * size, (const char *)wanted + i * size, size))
      fail_msg("element %zu of %s is wrong", i, tt_type_name(type));
}

/* Not by the reference: the kernels against themselves. */
static void check_before_or_while(int redop, int type, int nsrc, int k, uint64_t *seed)
{
  uint64_t words[SOURCES][WORDS], before[WORDS], apart[WORDS], together[WORDS];
  const void *sources[SOURCES], *alone[1] = {words[k]};
  size_t count = sizeof *words / tt_type_size(type);
  struct tt_reduce_arg scaling, adding, both;
  reference_arg(&both, redop, type, k, seed);
  scaling = adding = both;
  scaling.scaled = 0;
  adding.scaled = -1;
  for (int j = 0; j < nsrc; j++) {
    for (int w = 0; w < WORDS; w++) words[j][w] = next(seed);
    sources[j] = words[j];
  }
  tt_reduce_kernel(redop, type)(together, sources, nsrc, count, &both);
  tt_reduce_kernel(redop, type)(before, alone, 1, count, &scaling);
  sources[k] = before;
  tt_reduce_kernel(redop, type)(apart, sources, nsrc, count, &adding);
  compare(type, together, apart, count);
}

static void a_contribution_has_the_same_bits_scaled_before_or_while_it_is_added(void **state)
{
  (void)state;
  uint64_t seed = 12;
  for (int redop = tuttiAvg; redop <= TT_PREMUL_SUM; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++)
      for (int nsrc = 1; nsrc <= SOURCES && tt_reduce_scales(redop, type); nsrc++)
        for (int k = 0; k < nsrc; k++)
          for (int round = 0; round < 3; round++) check_before_or_while(redop, type, nsrc, k, &seed);
}

/* The order of the ranks in a sum of two is the schedule's to choose. */
static void scaling_either_of_two_gives_the_same_bits(void **state)
{
  (void)state;
  uint64_t seed = 13, a[WORDS], b[WORDS], first[WORDS], second[WORDS];
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    const void *ab[2] = {a, b}, *ba[2] = {b, a};
    size_t count = sizeof a / tt_type_size(type);
    struct tt_reduce_arg arg;
    for (int w = 0; w < WORDS; w++) {
      a[w] = next(&seed);
      b[w] = next(&seed);
    }
    reference_arg(&arg, TT_PREMUL_SUM, type, 0, &seed);
    tt_reduce_kernel(TT_PREMUL_SUM, type)(first, ab, 2, count, &arg);
    arg.scaled = 1;
    tt_reduce_kernel(TT_PREMUL_SUM, type)(second, ba, 2, count, &arg);
    compare(type, first, second, count);
  }
}

static void hard_values_by_hard_scalars_equal_the_reference(void **state)
{
  (void)state;
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    uint64_t hard[REFERENCE_HARD], got[REFERENCE_HARD], wanted[REFERENCE_HARD];
    size_t size = tt_type_size(type), n = reference_hard(type, hard);
    const void *sources[1] = {hard};
    for (size_t i = 0; i < n; i++) {
      struct tt_reduce_arg arg;
      uint64_t scalar = 0;
      memcpy(&scalar, (const char *)hard + i * size, size);
      tt_reduce_arg_make(&arg, TT_PREMUL_SUM, type, 3, scalar, 0);
      tt_reduce_kernel(TT_PREMUL_SUM, type)(got, sources, 1, n, &arg);
      reference_reduce(&(struct reference){TT_PREMUL_SUM, type, 1, sources, &arg}, wanted, n);
      compare(type, got, wanted, n);
    }
  }
}

static void a_scaled_source_is_rounded_before_it_is_added(void **state)
{
  (void)state;
  const float s32 = 1 + 0x1p-13f, down32 = -1;
  const double s64 = 1 + 0x1p-30, down64 = -1;
  const uint16_t s16 = 0x3c01, scalar16 = 0x3e00, down16 = 0xbe00; /* 1 + 2^-10, 1.5, -1.5 */
  float r32;
  double r64;
  uint16_t r16;
  uint64_t scalar = 0;
  struct tt_reduce_arg arg;
  memcpy(&scalar, &s32, 4);
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiFloat32, 2, scalar, 0);
  tt_reduce_kernel(TT_PREMUL_SUM, tuttiFloat32)(&r32, (const void *[]){&s32, &down32}, 2, 1, &arg);
  assert_true(r32 == 0x1p-12f); /* unrounded, 2^-26 would be left too */
  memcpy(&scalar, &s64, 8);
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiFloat64, 2, scalar, 0);
  tt_reduce_kernel(TT_PREMUL_SUM, tuttiFloat64)(&r64, (const void *[]){&s64, &down64}, 2, 1, &arg);
  assert_true(r64 == 0x1p-29);
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiFloat16, 2, scalar16, 1);
  tt_reduce_kernel(TT_PREMUL_SUM, tuttiFloat16)(&r16, (const void *[]){&down16, &s16}, 2, 1, &arg);
  assert_true(reference_decode(tuttiFloat16, r16) == 0x1p-9); /* 1.5 steps become 2 */
}

static void only_the_source_that_is_named_is_scaled(void **state)
{
  (void)state;
  const float values[3] = {8, 12, 40};
  const int32_t whole[3] = {8, 12, 40};
  const void *sources[3] = {&values[0], &values[1], &values[2]};
  const void *integers[3] = {&whole[0], &whole[1], &whole[2]};
  struct tt_reduce_arg arg;
  for (int scaled = -1; scaled < 3; scaled++) {
    float result;
    int32_t sum;
    tt_reduce_arg_make(&arg, tuttiAvg, tuttiFloat32, 4, 0, scaled);
    tt_reduce_kernel(tuttiAvg, tuttiFloat32)(&result, sources, 3, 1, &arg);
    assert_true(result == (scaled < 0 ? 60 : 60 - values[scaled] * 0.75f));
    tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiInt32, 4, (uint32_t)-5, scaled);
    tt_reduce_kernel(TT_PREMUL_SUM, tuttiInt32)(&sum, integers, 3, 1, &arg);
    assert_int_equal(sum, scaled < 0 ? 60 : 60 - 6 * whole[scaled]);
  }
}

/* In place, onto itself: also NaN keeps its bits, which a multiplication by 1 would change. */
static void one_source_that_is_not_scaled_is_copied(void **state)
{
  (void)state;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++) {
      if (tt_redop_lacks(redop, type)) continue;
      uint64_t words[WORDS], kept[WORDS], out[WORDS] = {0};
      const void *sources[1] = {words};
      size_t count = sizeof words / tt_type_size(type);
      struct tt_reduce_arg arg;
      for (int w = 0; w < WORDS; w++) kept[w] = words[w] = w % 2 ? 0x7ff4000000000001u : 0x7f8000017f817f85u;
      tt_reduce_arg_make(&arg, redop, type, 3, 7, -1);
      tt_reduce_kernel(redop, type)(out, sources, 1, count, &arg);
      tt_reduce_kernel(redop, type)(words, sources, 1, count, &arg);
      assert_memory_equal(out, kept, sizeof out);
      assert_memory_equal(words, kept, sizeof words);
    }
}

static void multiplied_integers_wrap(void **state)
{
  (void)state;
  const int8_t values[5] = {100, -128, 3, 0, -1}, wanted[5] = {-56, 0, 6, 0, -2};
  const uint64_t large = UINT64_C(1) << 63, one = 1;
  int8_t result[5];
  uint64_t product;
  struct tt_reduce_arg arg;
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiInt8, 3, 0xff02, 0); /* the low 8 bits count */
  tt_reduce_kernel(TT_PREMUL_SUM, tuttiInt8)(result, (const void *[]){values}, 1, 5, &arg);
  assert_memory_equal(result, wanted, 5);
  tt_reduce_arg_make(&arg, TT_PREMUL_SUM, tuttiUint64, 3, 3, 1);
  tt_reduce_kernel(TT_PREMUL_SUM, tuttiUint64)(&product, (const void *[]){&one, &large}, 2, 1, &arg);
  assert_true(product == large + 1);
}

static void avg_of_integers_is_a_sum_until_it_is_finished(void **state)
{
  (void)state;
  const int8_t a[] = {-7, 7, 127, -128, 1}, b[] = {0, 0, 1, -1, -2};
  const int8_t sum[] = {-7, 7, -128, 127, -1}, average[] = {-3, 3, -64, 63, 0};
  int8_t result[5], quotient[5];
  const uint64_t large = UINT64_MAX;
  uint64_t half;
  struct tt_reduce_arg arg;
  tt_reduce_arg_make(&arg, tuttiAvg, tuttiInt8, 2, 0, 0);
  tt_reduce_kernel(tuttiAvg, tuttiInt8)(result, (const void *[]){a, b}, 2, 5, &arg);
  assert_memory_equal(result, sum, 5);
  tt_reduce_arg_finish(&arg, 2);
  tt_reduce_kernel(tuttiAvg, tuttiInt8)(quotient, (const void *[]){result}, 1, 5, &arg);
  tt_reduce_kernel(tuttiAvg, tuttiInt8)(result, (const void *[]){result}, 1, 5, &arg);
  assert_memory_equal(quotient, average, 5);
  assert_memory_equal(result, average, 5);
  tt_reduce_kernel(tuttiAvg, tuttiUint64)(&half, (const void *[]){&large}, 1, 1, &arg);
  assert_true(half == UINT64_MAX / 2);
}

static void check_arg(const struct tt_reduce_arg *arg, int scaled, double scale, uint64_t multiplier)
{
  assert_int_equal(arg->scaled, scaled);
  assert_int_equal(arg->divisor, 1);
  assert_true(arg->scale == scale || (isnan(arg->scale) && isnan(scale)));
  assert_true(arg->multiplier == multiplier);
}

static void only_what_is_scaled_has_an_argument(void **state)
{
  (void)state;
  struct tt_reduce_arg arg;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++) {
      int scales = redop == TT_PREMUL_SUM || (redop == tuttiAvg && reference_is_float(type));
      assert_int_equal(tt_reduce_scales(redop, type), scales);
      assert_int_equal(tt_reduce_finishes(redop, type, 9), redop == tuttiAvg && !scales);
      tt_reduce_arg_make(&arg, redop, type, 9, 7, 2);
      if (!scales) check_arg(&arg, -1, 1, 1);
    }
  tt_reduce_arg_finish(&arg, 9);
  assert_int_equal(arg.divisor, 9);
  arg.divisor = 1;
  check_arg(&arg, -1, 1, 1);
}

static void avg_scales_by_the_reciprocal_in_the_precision_of_its_arithmetic(void **state)
{
  (void)state;
  struct tt_reduce_arg arg;
  for (int nranks = 1; nranks < 3000; nranks++) {
    tt_reduce_arg_make(&arg, tuttiAvg, tuttiFloat16 + nranks % 6, nranks, 7, 2);
    int is_double = tuttiFloat16 + nranks % 6 == tuttiFloat64;
    check_arg(&arg, 2, is_double ? 1.0 / nranks : (double)(1.0f / (float)nranks), 1);
  }
}

static double factor_before(int redop, int type, int nranks, uint64_t scalar, float before)
{
  struct tt_reduce_arg arg;
  tt_reduce_arg_before(&arg, redop, type, nranks, scalar, before);
  check_arg(&arg, -1, arg.scale, 1);
  return arg.scale;
}

static void what_is_multiplied_before_is_one_factor_with_what_the_operation_asks(void **state)
{
  (void)state;
  uint64_t seed = 14, third16 = 0x3555; /* 0x1.554p-2 */
  for (int nranks = 1; nranks < 1000; nranks++) {
    uint32_t bits = (uint32_t)next(&seed) & 0xbfffffff;
    float before;
    memcpy(&before, &bits, 4);
    assert_true(factor_before(tuttiSum, tuttiBfloat16, nranks, 7, before) == before);
    assert_true(factor_before(tuttiAvg, tuttiFloat16, nranks, 7, before) == before / (float)nranks);
    assert_true(factor_before(tuttiAvg, tuttiFloat64, nranks, 7, before) == (double)before / nranks);
    float product = before * 0x1.554p-2f;
    assert_true(factor_before(TT_PREMUL_SUM, tuttiFloat16, nranks, third16, before) == product);
  }
}

static void a_scalar_is_the_value_of_its_bits(void **state)
{
  (void)state;
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    uint64_t hard[REFERENCE_HARD];
    size_t size = tt_type_size(type), n = reference_hard(type, hard);
    for (size_t i = 0; i < n; i++) {
      struct tt_reduce_arg arg;
      uint64_t bits = 0;
      memcpy(&bits, (const char *)hard + i * size, size);
      double value = 1;
      if (type == tuttiFloat64) memcpy(&value, &bits, 8);
      else if (reference_is_float(type)) value = reference_decode(type, (uint32_t)bits);
      tt_reduce_arg_make(&arg, TT_PREMUL_SUM, type, 3, bits, -1);
      check_arg(&arg, -1, value, reference_is_float(type) ? 1 : bits);
      assert_int_equal(!signbit(arg.scale), !signbit(value));
    }
  }
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_contribution_has_the_same_bits_scaled_before_or_while_it_is_added),
      cmocka_unit_test(scaling_either_of_two_gives_the_same_bits),
      cmocka_unit_test(hard_values_by_hard_scalars_equal_the_reference),
      cmocka_unit_test(a_scaled_source_is_rounded_before_it_is_added),
      cmocka_unit_test(only_the_source_that_is_named_is_scaled),
      cmocka_unit_test(one_source_that_is_not_scaled_is_copied),
      cmocka_unit_test(multiplied_integers_wrap),
      cmocka_unit_test(avg_of_integers_is_a_sum_until_it_is_finished),
      cmocka_unit_test(only_what_is_scaled_has_an_argument),
      cmocka_unit_test(avg_scales_by_the_reciprocal_in_the_precision_of_its_arithmetic),
      cmocka_unit_test(what_is_multiplied_before_is_one_factor_with_what_the_operation_asks),
      cmocka_unit_test(a_scalar_is_the_value_of_its_bits),
  };
  return cmocka_run_group_tests_name(table, tests, NULL, NULL);
}

int main(void)
{
  alarm(60);
  return tables_each(run);
}
