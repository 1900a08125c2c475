/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels of each table on all values of the small floats, on millions of random ones, and at every place in
 * memory.
 * Labels: slow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce_call.h"
#include "reduce_tables.h"
#include "slow.h"

static const int small_types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
#define SMALL_TYPES 4

static uint32_t codes_of(int type)
{
  return 1u << (8 * tt_type_size(type));
}

static void every_code_converts_to_its_value_and_back(void **state)
{
  (void)state;
  for (int t = 0; t < SMALL_TYPES; t++)
    for (uint32_t code = 0; code < codes_of(small_types[t]); code++) {
      float got = tt_float_to_fp32(small_types[t], code);
      double wanted = reference_decode(small_types[t], code);
      uint32_t back = tt_float_from_fp32(small_types[t], got);
      assert_true(isnan(wanted) ? isnan(got) : (double)got == wanted && !signbit(got) == !signbit(wanted));
      assert_int_equal(back, isnan(wanted) ? reference_encode(small_types[t], NAN) : code);
    }
}

static void check_rounding(int type, float value)
{
  uint32_t got = tt_float_from_fp32(type, value), wanted = reference_encode(type, value);
  if (got == wanted) return;
  fail_msg("%a becomes %s %#x, should be %#x", (double)value, tt_type_name(type), got, wanted);
}

/* Rounding changes only between two neighbours, at the value half-way; so this, with the
 * neighbours in fp32 of each such place, is all there is to get wrong. */
static void every_tie_goes_to_even_and_its_neighbours_do_not(void **state)
{
  (void)state;
  for (int t = 0; t < SMALL_TYPES; t++) {
    int type = small_types[t];
    for (uint32_t code = 0; code + 1 < codes_of(type) / 2; code++) {
      double here = reference_decode(type, code), above = reference_decode(type, code + 1);
      if (!isfinite(here)) break;
      if (!isfinite(above)) above = here + (here - reference_decode(type, code - 1));
      const float places[2] = {(float)here, (float)((here + above) / 2)};
      for (int p = 0; p < 2; p++)
        for (int sign = -1; sign <= 1; sign += 2) {
          check_rounding(type, (float)sign * places[p]);
          check_rounding(type, (float)sign * nextafterf(places[p], INFINITY));
          check_rounding(type, (float)sign * nextafterf(places[p], -INFINITY));
        }
    }
  }
}

static void random_fp32_values_are_rounded_to_nearest(void **state)
{
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 4000000; i++) {
    uint32_t bits = (uint32_t)next(&seed);
    float value;
    memcpy(&value, &bits, 4);
    check_rounding(small_types[i % SMALL_TYPES], value);
  }
}

#if defined(__FLT16_MAX__)
/* All values of fp32 that have their last 13 bits in a set that decides a rounding. */
static void fp16_is_rounded_as_the_compiler_does(void **state)
{
  (void)state;
  static const uint32_t tails[] = {0, 1, 0xfff, 0x1000, 0x1001, 0x1fff};
  for (uint32_t head = 0; head < 1u << 19; head++)
    for (int i = 0; i < 6; i++) {
      uint32_t bits = head << 13 | tails[i];
      float value;
      uint16_t wanted;
      memcpy(&value, &bits, 4);
      __extension__ _Float16 half = (_Float16)value;
      memcpy(&wanted, &half, 2);
      if (!isnan(value)) assert_int_equal(tt_float_from_fp32(tuttiFloat16, value), wanted);
    }
}
#endif

#define RANDOM_WORDS 4096

static char got[1 << 20], wanted[1 << 20];

static void compare(const struct call *call, const void *const *sources)
{
  size_t size = tt_type_size(call->type);
  assert_true(call->count * size <= sizeof got);
  tt_reduce_kernel(call->redop, call->type)(got, sources, call->nsrc, call->count, &call->arg);
  const struct reference judged = {call->redop, call->type, call->nsrc, sources, &call->arg};
  tables_judge(&judged, wanted, call->count);
  if (memcmp(got, wanted, call->count * size) == 0) return;
  size_t i = 0;
  while (memcmp(got + i * size, wanted + i * size, size) == 0) i++;
  fail_msg("%s of %d %s: element %zu is wrong", tt_redop_name(call->redop), call->nsrc, tt_type_name(call->type), i);
}

static const int byte_types[] = {tuttiInt8, tuttiUint8, tuttiFloat8e4m3, tuttiFloat8e5m2};

static void all_pairs_of_8_bit_elements_are_combined_right(void **state)
{
  (void)state;
  static unsigned char left[65536], right[65536];
  const void *sources[2] = {left, right};
  for (int i = 0; i < 65536; i++) {
    left[i] = (unsigned char)(i >> 8);
    right[i] = (unsigned char)i;
  }
  for (int t = 0; t < 4; t++)
    for (int redop = 0; redop < TT_REDOPS; redop++) {
      if (tt_redop_lacks(redop, byte_types[t])) continue;
      struct call call = call_plain(redop, byte_types[t], 2, 65536);
      uint64_t seed = 6;
      for (int scaled = -1; scaled < 2; scaled++) {
        reference_arg(&call.arg, redop, byte_types[t], scaled, &seed);
        compare(&call, sources);
      }
    }
}

/* By each scalar, and by what averages multiply or divide by. */
static void every_8_bit_element_is_scaled_right(void **state)
{
  (void)state;
  static unsigned char bytes[256];
  const void *sources[1] = {bytes};
  for (int i = 0; i < 256; i++) bytes[i] = (unsigned char)i;
  for (int t = 0; t < 4; t++)
    for (int i = 0; i < 256; i++) {
      struct call call = call_plain(TT_PREMUL_SUM, byte_types[t], 1, 256);
      tt_reduce_arg_make(&call.arg, TT_PREMUL_SUM, byte_types[t], 3, (uint64_t)i, 0);
      compare(&call, sources);
      call.redop = tuttiAvg;
      tt_reduce_arg_make(&call.arg, tuttiAvg, byte_types[t], i + 1, 0, 0);
      if (tt_reduce_finishes(tuttiAvg, byte_types[t], i + 1)) tt_reduce_arg_finish(&call.arg, i + 1);
      compare(&call, sources);
    }
}

/* Random bits are mostly far apart in value. With `exponent` all elements share the high
 * bits of theirs, so that roundings, cancellations and overflows are frequent. */
static void fill(int type, const uint64_t *exponent, uint64_t *words, uint64_t *seed)
{
  uint64_t same = exponent ? *exponent : 0, mask = 0;
  if (type == tuttiFloat16) mask = 0x7800780078007800u;
  if (type == tuttiBfloat16) mask = 0x7e007e007e007e00u;
  if (type == tuttiFloat32) mask = 0x7e0000007e000000u;
  if (type == tuttiFloat64) mask = 0x7fe0000000000000u;
  if (!exponent) mask = 0;
  for (size_t i = 0; i < RANDOM_WORDS; i++)
    words[i] = (next(seed) & ~mask) | (same & mask);
}

static void random_elements_are_combined_right(void **state)
{
  (void)state;
  static uint64_t words[16][RANDOM_WORDS];
  const void *sources[16];
  uint64_t seed = 20;
  for (int k = 0; k < 16; k++) sources[k] = words[k];
  for (int round = 0; round < 24; round++)
    for (int type = 0; type < REFERENCE_TYPES; type++) {
      int nsrc = round < 16 ? 2 : 1 + (int)below(&seed, 16);
      uint64_t exponent = next(&seed);
      for (int k = 0; k < nsrc; k++) fill(type, round % 2 ? &exponent : NULL, words[k], &seed);
      for (int redop = 0; redop < TT_REDOPS; redop++) {
        if (tt_redop_lacks(redop, type)) continue;
        struct call call = call_plain(redop, type, nsrc, RANDOM_WORDS * 8 / tt_type_size(type));
        reference_arg(&call.arg, redop, type, (int)below(&seed, (size_t)nsrc + 1) - 1, &seed);
        compare(&call, sources);
      }
    }
}

/* With every source scaled once, and in lengths that end within a block and behind one. */
static void many_sources_are_combined_right(void **state)
{
  (void)state;
  static uint64_t words[700][160];
  static const size_t counts[] = {1, 33, 1025, 1280};
  static const int sizes[] = {40, 700};
  const void *sources[700];
  uint64_t seed = 21;
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    for (int k = 0; k < 700; k++) {
      sources[k] = words[k];
      for (size_t i = 0; i < sizeof words[k] / tt_type_size(type); i++)
        reference_tame(type, (char *)words[k] + i * tt_type_size(type), &seed);
    }
    for (int redop = 0; redop < TT_REDOPS; redop++)
      for (int s = 0; s < 2 && !tt_redop_lacks(redop, type); s++)
        for (int i = 0; i < (tt_reduce_scales(redop, type) ? 40 : 4); i++) {
          int scaled = sizes[s] == 40 ? i : (int)below(&seed, 700);
          size_t most = sizeof *words / tt_type_size(type), count = i < 4 ? counts[i] : 1;
          struct call call = call_plain(redop, type, sizes[s], count < most ? count : most);
          reference_arg(&call.arg, redop, type, scaled, &seed);
          compare(&call, sources);
        }
  }
}

static void sum_prod_max_and_min_commute(void **state)
{
  (void)state;
  static uint64_t words[2][RANDOM_WORDS];
  const void *ab[2] = {words[0], words[1]}, *ba[2] = {words[1], words[0]};
  uint64_t seed = 5;
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (int redop = 0; redop < tuttiAvg; redop++) {
      size_t size = tt_type_size(type), count = RANDOM_WORDS * 8 / size;
      fill(type, NULL, words[0], &seed);
      fill(type, NULL, words[1], &seed);
      tt_reduce_kernel(redop, type)(got, ab, 2, count, NULL);
      tt_reduce_kernel(redop, type)(wanted, ba, 2, count, NULL);
      assert_memory_equal(got, wanted, count * size);
    }
}

static void every_place_in_memory_gives_the_result(void **state)
{
  (void)state;
  uint64_t seed = 22;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++)
      for (size_t align = 0; align < 64; align += IS_SLOW ? 7 : 3)
        for (size_t count = 0; count <= 260; count += 1 + count / 65) {
          if (tt_redop_lacks(redop, type)) continue;
          struct call call = call_plain(redop, type, 2, count);
          call.align = align;
          call.in_place = (int)((align + count) % 3) - 1;
          call.seed = next(&seed) | 1;
          reference_arg(&call.arg, redop, type, (int)(align % 2), &seed);
          const char *fault = call_fault(&call);
          if (fault) fail_msg("%s", fault);
        }
}

static int run_conversions(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_converts_to_its_value_and_back),
      cmocka_unit_test(every_tie_goes_to_even_and_its_neighbours_do_not),
      cmocka_unit_test(random_fp32_values_are_rounded_to_nearest),
#if defined(__FLT16_MAX__)
      cmocka_unit_test(fp16_is_rounded_as_the_compiler_does),
#endif
  };
  return cmocka_run_group_tests_name("conversions", tests, NULL, NULL);
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_pairs_of_8_bit_elements_are_combined_right),
      cmocka_unit_test(random_elements_are_combined_right),
      cmocka_unit_test(every_8_bit_element_is_scaled_right),
      cmocka_unit_test(many_sources_are_combined_right),
      cmocka_unit_test(sum_prod_max_and_min_commute),
      cmocka_unit_test(every_place_in_memory_gives_the_result),
  };
  return cmocka_run_group_tests_name(table, tests, NULL, NULL);
}

int main(void)
{
  alarm(600);
  return run_conversions() + tables_each(run);
}
