/* SPDX-License-Identifier: BSD-3-Clause */
/* The reduce kernels on all values of the small floats, on millions of random ones, and
 * at every place in memory. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduce_placed.h"
#include "reduce_reference.h"

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
      if (isnan(wanted)) {
        assert_true(isnan(got) && isnan(reference_decode(small_types[t], back)));
        continue;
      }
      assert_true((double)got == wanted && !signbit(got) == !signbit(wanted));
      assert_int_equal(back, code);
    }
}

static void check_rounding(int type, float value)
{
  uint32_t got = tt_float_from_fp32(type, value), wanted = reference_encode(type, value);
  if (got == wanted) return;
  if (isnan(reference_decode(type, got)) && isnan(value)) return;
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
      double here = reference_decode(type, code), next = reference_decode(type, code + 1);
      if (!isfinite(here)) break;
      if (!isfinite(next)) next = here + (here - reference_decode(type, code - 1));
      const float places[2] = {(float)here, (float)((here + next) / 2)};
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
    uint32_t bits = (uint32_t)reference_random(&seed);
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
      _Float16 half = (_Float16)value;
      memcpy(&wanted, &half, 2);
      if (!isnan(value)) assert_int_equal(tt_float_from_fp32(tuttiFloat16, value), wanted);
    }
}
#endif

#define RANDOM_WORDS 4096

static char got[1 << 20], wanted[1 << 20];

static void compare(const struct placement *place, const void *const *sources,
                    const struct tt_reduce_arg *arg)
{
  size_t size = tt_type_size(place->type);
  assert_true(place->count * size <= sizeof got);
  tt_reduce_kernel(place->redop, place->type)(got, sources, place->nsrc, place->count, arg);
  const struct reference call = {place->redop, place->type, place->nsrc, sources, arg};
  reference_reduce(&call, wanted, place->count);
  for (size_t i = 0; i < place->count; i++)
    if (!reference_same(place->type, got + i * size, wanted + i * size))
      fail_msg("%s of %d %s: element %zu is wrong", tt_redop_name(place->redop), place->nsrc,
               tt_type_name(place->type), i);
}

static void all_pairs_of_8_bit_elements_are_combined_right(void **state)
{
  (void)state;
  static unsigned char left[65536], right[65536];
  static const int types[] = {tuttiInt8, tuttiUint8, tuttiFloat8e4m3, tuttiFloat8e5m2};
  const void *sources[2] = {left, right};
  for (int i = 0; i < 65536; i++) {
    left[i] = (unsigned char)(i >> 8);
    right[i] = (unsigned char)i;
  }
  for (int t = 0; t < 4; t++)
    for (int redop = 0; redop < tuttiNumOps; redop++) {
      struct placement place = {redop, types[t], 2, -1, 0, 65536};
      struct tt_reduce_arg arg;
      tt_reduce_arg_make(&arg, redop, 3, 2, 1);
      compare(&place, sources, &arg);
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
    words[i] = (reference_random(seed) & ~mask) | (same & mask);
}

static void random_elements_are_combined_right(void **state)
{
  (void)state;
  static uint64_t words[16][RANDOM_WORDS];
  const void *sources[16];
  uint64_t seed = 20;
  for (int k = 0; k < 16; k++) sources[k] = words[k];
  for (int round = 0; round < 24; round++)
    for (int type = 0; type < tuttiNumTypes; type++) {
      int nsrc = round < 16 ? 2 : 1 + (int)(reference_random(&seed) % 16);
      uint64_t exponent = reference_random(&seed);
      for (int k = 0; k < nsrc; k++) fill(type, round % 2 ? &exponent : NULL, words[k], &seed);
      for (int redop = 0; redop < tuttiNumOps; redop++) {
        struct placement place = {redop, type, nsrc, -1, 0, RANDOM_WORDS * 8 / tt_type_size(type)};
        struct tt_reduce_arg arg;
        tt_reduce_arg_make(&arg, redop, 2 + round, (uint32_t)seed, round % 3 != 0);
        compare(&place, sources, &arg);
      }
    }
}

static void sum_prod_max_and_min_commute(void **state)
{
  (void)state;
  static uint64_t words[2][RANDOM_WORDS];
  const void *ab[2] = {words[0], words[1]}, *ba[2] = {words[1], words[0]};
  uint64_t seed = 5;
  for (int type = 0; type < tuttiNumTypes; type++)
    for (int redop = 0; redop < tuttiAvg; redop++) {
      size_t size = tt_type_size(type), count = RANDOM_WORDS * 8 / size;
      fill(type, NULL, words[0], &seed);
      fill(type, NULL, words[1], &seed);
      tt_reduce_kernel(redop, type)(got, ab, 2, count, NULL);
      tt_reduce_kernel(redop, type)(wanted, ba, 2, count, NULL);
      for (size_t i = 0; i < count; i++)
        assert_true(reference_same(type, got + i * size, wanted + i * size));
    }
}

static void every_place_in_memory_gives_the_result(void **state)
{
  (void)state;
  for (int redop = 0; redop < tuttiNumOps; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (size_t align = 0; align < 64; align++)
        for (size_t count = 0; count <= PLACED_COUNT; count++) {
          int in_place = (int)((align + count) % 3) - 1;
          struct placement place = {redop, type, 2, in_place, align, count};
          const char *fault = placed_fault(&place);
          if (fault)
            fail_msg("%s: %s of %s, count %zu, alignment %zu, in place %d", fault,
                     tt_redop_name(redop), tt_type_name(type), count, align, in_place);
        }
}

int main(void)
{
  alarm(600);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_code_converts_to_its_value_and_back),
      cmocka_unit_test(every_tie_goes_to_even_and_its_neighbours_do_not),
      cmocka_unit_test(random_fp32_values_are_rounded_to_nearest),
#if defined(__FLT16_MAX__)
      cmocka_unit_test(fp16_is_rounded_as_the_compiler_does),
#endif
      cmocka_unit_test(all_pairs_of_8_bit_elements_are_combined_right),
      cmocka_unit_test(random_elements_are_combined_right),
      cmocka_unit_test(sum_prod_max_and_min_commute),
      cmocka_unit_test(every_place_in_memory_gives_the_result),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
