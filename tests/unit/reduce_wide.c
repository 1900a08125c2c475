/* SPDX-License-Identifier: BSD-3-Clause */
/* What the kernels of each table make of fp32 data that travel as fp16 or bf16, and what they see of infinities and
 * NaN.
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

static const int types[] = {tuttiFloat16, tuttiBfloat16};
#define COUNT 100
#define SOURCES 4

/* A kernel on data of which source k is fp32, and on the same data converted before. */
static void check_converted(int redop, int type, int nsrc, int k, uint64_t *seed)
{
  uint16_t narrow[SOURCES][COUNT], wanted[COUNT], also[COUNT];
  float wide[SOURCES][COUNT], got[COUNT];
  const void *converted[SOURCES], *mixed[SOURCES];
  struct tt_reduce_arg arg = tt_reduce_plainly;
  for (int j = 0; j < nsrc; j++) {
    for (int i = 0; i < COUNT; i++) {
      uint32_t bits = reference_border(type, seed);
      memcpy(&wide[j][i], &bits, 4);
      narrow[j][i] = (uint16_t)tt_float_from_fp32(type, wide[j][i]);
    }
    converted[j] = mixed[j] = narrow[j];
  }
  mixed[k] = wide[k];
  tt_reduce_kernel(redop, type)(wanted, converted, nsrc, COUNT, &arg);
  arg.wide = k;
  arg.dst_wide = 1;
  arg.also = also;
  tt_reduce_kernel(redop, type)(got, mixed, nsrc, COUNT, &arg);
  assert_memory_equal(also, wanted, sizeof wanted);
  for (int i = 0; i < COUNT; i++) {
    float value = tt_float_to_fp32(type, wanted[i]);
    assert_memory_equal(&got[i], &value, 4);
  }
}

static void conversion_before_or_on_the_way_gives_the_same_bits(void **state)
{
  (void)state;
  uint64_t seed = 61;
  for (int t = 0; t < 2; t++)
    for (int redop = 0; redop < TT_REDOPS; redop++)
      for (int nsrc = 1; nsrc <= SOURCES && !tt_redop_lacks(redop, types[t]); nsrc++)
        for (int k = 0; k < nsrc; k++) check_converted(redop, types[t], nsrc, k, &seed);
}

/* The result of a sum of one wide element and, if there are two sources, one of the type. */
static float sum_of(int type, float wide, const uint16_t *other, double scale)
{
  float result;
  const void *sources[2] = {&wide, other};
  struct tt_reduce_arg arg = tt_reduce_plainly;
  arg.wide = 0;
  arg.dst_wide = 1;
  arg.scaled = scale == 1 ? -1 : 0;
  arg.scale = scale;
  tt_reduce_kernel(TT_PREMUL_SUM, type)(&result, sources, other ? 2 : 1, 1, &arg);
  return result;
}

static void a_wide_source_is_rounded_before_it_is_added(void **state)
{
  (void)state;
  const uint16_t minus_one16 = 0xbc00, minus_one_bf16 = 0xbf80, zero = 0;
  assert_true(sum_of(tuttiFloat16, 1 + 0x1p-11f, &minus_one16, 1) == 0);
  assert_true(sum_of(tuttiFloat16, 1 + 0x1.8p-10f, &minus_one16, 1) == 0x1p-9f);
  assert_true(sum_of(tuttiBfloat16, 1 + 0x1p-8f, &minus_one_bf16, 1) == 0);
  assert_true(sum_of(tuttiBfloat16, 1 + 0x1.8p-7f, &minus_one_bf16, 1) == 0x1p-6f);
  assert_true(sum_of(tuttiFloat16, 0x1p-25f, &zero, 1) == 0);
  assert_true(sum_of(tuttiFloat16, 0x1.1p-25f, &zero, 1) == 0x1p-24f); /* the least subnormal */
}

static void a_wide_source_is_scaled_before_it_is_rounded(void **state)
{
  (void)state;
  assert_true(sum_of(tuttiFloat16, 1 + 0x1p-11f, NULL, 3) == 3 + 0x1p-9f); /* 3.00146; rounded first it is 3 */
  assert_true(sum_of(tuttiBfloat16, 1 + 0x1p-8f, NULL, 3) == 3 + 0x1p-6f);
  assert_true(sum_of(tuttiFloat16, 0x1p-30f, NULL, 0x1p20) == 0x1p-10f);
}

static void what_is_too_large_for_the_type_becomes_infinite(void **state)
{
  (void)state;
  const uint16_t largest = 0x7bff;
  assert_true(sum_of(tuttiFloat16, 65519.996f, NULL, 1) == 65504);
  assert_true(isinf(sum_of(tuttiFloat16, 65520, NULL, 1)));
  assert_true(sum_of(tuttiFloat16, -65520, NULL, 1) == -INFINITY);
  assert_true(sum_of(tuttiFloat16, 15.997f, &largest, 1) == INFINITY); /* 16, when it is rounded */
  assert_true(isinf(sum_of(tuttiBfloat16, 0x1.ff8p127f, NULL, 1)));
  assert_true(sum_of(tuttiBfloat16, 0x1.fefp127f, NULL, 1) == 0x1.fep127f);
}

static void a_lone_wide_source_is_converted_and_its_nan_with_it(void **state)
{
  (void)state;
  const uint32_t nans[4] = {0xffc00001, 0x7f800001, 0x7fffffff, 0xff812345};
  const uint16_t wanted[2] = {0x7e00, 0x7fc0}, narrow_nans[2] = {0xfc01, 0xff81};
  const uint32_t wide_nan = 0x7fc00000;
  uint16_t narrow[4];
  uint32_t wide;
  struct tt_reduce_arg arg = tt_reduce_plainly;
  for (int t = 0; t < 2; t++) {
    arg.wide = 0;
    arg.dst_wide = 0;
    tt_reduce_kernel(tuttiSum, types[t])(narrow, (const void *[]){nans}, 1, 4, &arg);
    for (int i = 0; i < 4; i++) assert_int_equal(narrow[i], wanted[t]);
    arg.wide = -1;
    arg.dst_wide = 1;
    tt_reduce_kernel(tuttiSum, types[t])(&wide, (const void *[]){&narrow_nans[t]}, 1, 1, &arg);
    assert_int_equal(wide, wide_nan);
  }
}

#define FINITE_COUNT 150

/* Of a vector of the largest numbers, between NaN that do not belong to it, with one element of each kind at `at`. */
static void check_finite(int type, size_t count, size_t align, size_t at)
{
  static _Alignas(64) unsigned char room[64 + FINITE_COUNT * 8 + 128];
  uint64_t hard[REFERENCE_HARD];
  size_t size = tt_type_size(type), n = reference_hard(type, hard);
  unsigned char *data = room + align;
  tt_finite_fn finite = tt_reduce_table()->finite[type];
  const char *largest = (const char *)hard + 36 * size;
  memset(room, 0xff, sizeof room);
  assert_true(reference_finite(type, largest, 1));
  for (size_t i = 0; i < count; i++) memcpy(data + i * size, largest + i % 2 * size, size);
  assert_int_equal(finite(data, count), 1);
  for (size_t i = 0; i < n && at < count; i++) {
    memcpy(data + at * size, (const char *)hard + i * size, size);
    assert_int_equal(finite(data, count), reference_finite(type, (const char *)hard + i * size, 1));
  }
}

static void one_infinity_or_nan_anywhere_is_seen_and_those_outside_are_not(void **state)
{
  (void)state;
  uint64_t seed = 62;
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (size_t count = 0; count < FINITE_COUNT; count++)
      for (int i = 0; i < 3; i++) check_finite(type, count, below(&seed, 64), count ? below(&seed, count) : 0);
}

static void each_element_counts(void **state)
{
  (void)state;
  for (int type = tuttiFloat16; type <= tuttiFloat8e5m2; type++)
    for (size_t at = 0; at < FINITE_COUNT; at++) check_finite(type, FINITE_COUNT, at % 7, at);
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conversion_before_or_on_the_way_gives_the_same_bits),
      cmocka_unit_test(a_wide_source_is_rounded_before_it_is_added),
      cmocka_unit_test(a_wide_source_is_scaled_before_it_is_rounded),
      cmocka_unit_test(what_is_too_large_for_the_type_becomes_infinite),
      cmocka_unit_test(a_lone_wide_source_is_converted_and_its_nan_with_it),
      cmocka_unit_test(one_infinity_or_nan_anywhere_is_seen_and_those_outside_are_not),
      cmocka_unit_test(each_element_counts),
  };
  return cmocka_run_group_tests_name(table, tests, NULL, NULL);
}

int main(void)
{
  alarm(60);
  return tables_each(run);
}
