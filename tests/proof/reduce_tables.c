/* SPDX-License-Identifier: BSD-3-Clause */
/* Every table of kernels against the plain one, and that against the reference: every value and every place where one
 * is rounded, all triples of hard values, vectors of megabytes, and calls drawn by chance.
 *
 *   test_proof_reduce_tables [--long] [--seconds N] [--seed S]
 *
 * --long: also all values of fp32 converted and, by the fast tables, all pairs of 16-bit floats combined; and calls are
 * drawn for 60 seconds for each table, or N. Their seed is then the time unless it is given.
 * Labels: slow. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce_call.h"
#include "reduce_tables.h"
#include "slow.h"

static struct {
  int is_long;
  long seconds;
  uint64_t seed;
} options = {0, 2, 4716};

static const int small_types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
#define SMALL_TYPES 4
#define TRAVELS 2 /* the first of them: those in which fp32 data may travel */

#define MOST (1 << 19) /* elements compared at a time */

struct results {
  char dst[MOST * 8], also[MOST * 8];
};

static void differ(const struct call *call, const struct results *got, const struct results *wanted)
{
  size_t size = tt_type_size(call->type), dst_size = call->arg.dst_wide ? sizeof(float) : size, i = 0;
  while (i < call->count && !memcmp(got->dst + i * dst_size, wanted->dst + i * dst_size, dst_size)) i++;
  fail_msg("%s of %d %s, wide %d, dst wide %d, scaled %d, scale %a: element %zu of %s is wrong",
           tt_redop_name(call->redop), call->nsrc, tt_type_name(call->type), call->arg.wide, call->arg.dst_wide,
           call->arg.scaled, call->arg.scale, i % call->count, i < call->count ? "dst" : "also");
}

/* Runs `call` on sources that are apart, and compares dst and the second destination with the judge's. */
static void compare(struct call *call, const void *const *sources)
{
  static struct results got, wanted;
  size_t size = tt_type_size(call->type), dst_size = call->arg.dst_wide ? sizeof(float) : size;
  const struct reference judged = {call->redop, call->type, call->nsrc, sources, &call->arg};
  assert_true(call->count <= MOST);
  call->arg.also = wanted.also;
  tables_judge(&judged, wanted.dst, call->count);
  call->arg.also = got.also;
  tt_reduce_kernel(call->redop, call->type)(got.dst, sources, call->nsrc, call->count, &call->arg);
  call->arg.also = NULL;
  if (memcmp(got.dst, wanted.dst, call->count * dst_size) || memcmp(got.also, wanted.also, call->count * size))
    differ(call, &got, &wanted);
}

static uint32_t codes_of(int type)
{
  return 1u << (8 * tt_type_size(type));
}

static int may_be_wide(int type)
{
  return type == tuttiFloat16 || type == tuttiBfloat16;
}

/* All values, in their order. */
static const void *every_code(int type)
{
  static uint16_t codes[65536];
  static uint8_t bytes[256];
  for (uint32_t i = 0; i < 65536; i++) codes[i] = (uint16_t)i;
  for (uint32_t i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
  return codes_of(type) > 256 ? (const void *)codes : bytes;
}

/* `count` times the element, whose bits are given. */
static const void *the_same(int type, uint64_t bits, size_t count)
{
  static char out[MOST * 8];
  size_t size = tt_type_size(type);
  for (size_t i = 0; i < count; i++) memcpy(out + i * size, &bits, size);
  return out;
}

static uint64_t bits_at(const void *elements, size_t i, size_t size)
{
  uint64_t bits = 0;
  memcpy(&bits, (const char *)elements + i * size, size);
  return bits;
}

/* All values in every operation with each hard value, on either side. */
static void every_value_with_every_hard_one(void **state)
{
  (void)state;
  for (int t = 0; t < SMALL_TYPES; t++) {
    const int type = small_types[t];
    uint64_t hard[REFERENCE_HARD];
    size_t n = reference_hard(type, hard), size = tt_type_size(type);
    for (size_t i = 0; i < n; i++) {
      const void *all = every_code(type), *one = the_same(type, bits_at(hard, i, size), codes_of(type));
      for (int redop = 0; redop < tuttiAvg; redop++) {
        struct call call = call_plain(redop, type, 2, codes_of(type));
        call.arg.dst_wide = may_be_wide(type) && i % 3 == 0;
        compare(&call, i % 2 ? (const void *[]){all, one} : (const void *[]){one, all});
      }
    }
  }
}

/* By each hard factor, by those of averages and by factors that only fp32 has; alone and added to a number. */
static void every_16_bit_value_scaled_by_every_hard_factor(void **state)
{
  (void)state;
  uint64_t seed = 4717;
  for (int t = 0; t < TRAVELS; t++) {
    const int type = small_types[t];
    uint64_t hard[REFERENCE_HARD];
    size_t n = reference_hard(type, hard), size = tt_type_size(type);
    const void *sources[2] = {every_code(type), the_same(type, bits_at(hard, 14, size), codes_of(type))};
    for (size_t i = 0; i < n + 48; i++) {
      struct call call = call_plain(TT_PREMUL_SUM, type, 1 + (int)(i % 2), codes_of(type));
      tt_reduce_arg_make(&call.arg, i < n ? TT_PREMUL_SUM : tuttiAvg, type, (int)i + 1, bits_at(hard, i % n, size), 0);
      if (i >= n + 24) reference_arg(&call.arg, TT_PREMUL_SUM, type, 0, &seed);
      call.arg.dst_wide = i % 3 == 0;
      compare(&call, sources);
    }
  }
}

/* Every value of a small type that is not negative, and what is half-way to the next, with their neighbours in fp32;
 * returns how many. */
static size_t places(int type, float *out)
{
  size_t n = 0;
  for (uint32_t code = 0; code + 1 < codes_of(type) / 2; code++) {
    double here = reference_decode(type, code), above = reference_decode(type, code + 1);
    if (!isfinite(here)) break;
    if (!isfinite(above)) above = here + (here - reference_decode(type, code - 1));
    const float two[2] = {(float)here, (float)((here + above) / 2)};
    for (int p = 0; p < 2; p++) {
      out[n++] = nextafterf(two[p], -INFINITY);
      out[n++] = two[p];
      out[n++] = nextafterf(two[p], INFINITY);
    }
  }
  return n;
}

static void every_fp32_next_to_where_rounding_changes_is_converted_right(void **state)
{
  (void)state;
  static float wide[MOST];
  for (int t = 0; t < TRAVELS; t++) {
    size_t count = places(small_types[t], wide);
    const void *sources[2] = {wide, the_same(small_types[t], 0, count)};
    for (int sign = 0; sign < 2; sign++) {
      for (int kind = 0; kind < 6; kind++) {
        struct call call = call_plain(kind % 3 == 2 ? TT_PREMUL_SUM : tuttiSum, small_types[t], 1 + kind / 3, count);
        call.arg.wide = 0;
        call.arg.dst_wide = kind % 3 == 1;
        if (kind % 3 == 2) tt_reduce_arg_make(&call.arg, tuttiAvg, small_types[t], 2, 0, 0);
        compare(&call, sources);
      }
      for (size_t i = 0; i < count; i++) wide[i] = -wide[i];
    }
  }
}

static void every_8_bit_float_by_every_factor_next_to_where_rounding_changes(void **state)
{
  (void)state;
  static float factors[2048];
  for (int t = TRAVELS; t < SMALL_TYPES; t++) {
    size_t n = places(small_types[t], factors);
    const void *sources[1] = {every_code(small_types[t])};
    for (size_t i = 0; i < n; i++) {
      struct call call = call_plain(TT_PREMUL_SUM, small_types[t], 1, 256);
      call.arg.scaled = 0;
      call.arg.scale = factors[i];
      compare(&call, sources);
    }
  }
}

static void all_triples_of_hard_values(void **state)
{
  (void)state;
  static char words[3][REFERENCE_HARD * REFERENCE_HARD * REFERENCE_HARD * 8];
  const void *sources[3] = {words[0], words[1], words[2]};
  uint64_t hard[REFERENCE_HARD], seed = 4718;
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    size_t size = tt_type_size(type), n = reference_hard(type, hard);
    for (size_t i = 0; i < n * n * n; i++) {
      memcpy(words[0] + i * size, (char *)hard + i / n / n * size, size);
      memcpy(words[1] + i * size, (char *)hard + i / n % n * size, size);
      memcpy(words[2] + i * size, (char *)hard + i % n * size, size);
    }
    for (int redop = 0; redop < TT_REDOPS; redop++) {
      if (tt_redop_lacks(redop, type)) continue;
      struct call call = call_plain(redop, type, 3, n * n * n);
      reference_arg(&call.arg, redop, type, (int)below(&seed, 4) - 1, &seed);
      call.arg.dst_wide = may_be_wide(type) && (int)below(&seed, 2);
      compare(&call, sources);
    }
  }
}

/* Of all sizes, and next to multiples of the divisor. */
static void integers_are_divided_toward_zero(void **state)
{
  (void)state;
  static uint64_t values[512];
  const void *sources[1] = {values};
  uint64_t seed = 4721;
  for (int type = tuttiInt8; type <= tuttiUint64; type++)
    for (int i = 0; i < 400; i++) {
      struct call call = call_plain(tuttiAvg, type, 1, 512);
      size_t size = tt_type_size(type), n = reference_hard(type, values);
      int power = (int)below(&seed, 31), near = (int)below(&seed, 3) - 1;
      tt_reduce_arg_finish(&call.arg, i < 300 ? i + 1 : power ? (int)(1u << power) + near : INT32_MAX);
      for (; n < 512; n++) {
        uint64_t multiple = (uint64_t)call.arg.divisor * (next(&seed) >> below(&seed, 64));
        uint64_t bits = (next(&seed) % 2 ? multiple : -multiple) + below(&seed, 3) - 1;
        memcpy((char *)values + n * size, &bits, size);
      }
      compare(&call, sources);
    }
}

static void check(const struct call *call)
{
  const char *fault = call_fault(call);
  if (fault) fail_msg("%s", fault);
}

static int is_judged_by_the_reference(void)
{
  return !strcmp(tt_reduce_table()->name, "plain");
}

static void counts_around_blocks_and_many_sources(void **state)
{
  (void)state;
  static const int numbers[] = {1, 2, 3, 4, 5, 8, 9, 17};
  uint64_t seed = 4720;
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (int redop = 0; redop < TT_REDOPS; redop++)
      for (size_t block = 256; block <= 4096; block *= 2)
        for (size_t near = 0; near < 3; near++) {
          if (tt_redop_lacks(redop, type)) continue;
          struct call call = call_plain(redop, type, numbers[below(&seed, 8)], block - 1 + near);
          reference_arg(&call.arg, redop, type, (int)below(&seed, (size_t)call.nsrc + 1) - 1, &seed);
          call.in_place = (int)below(&seed, (size_t)call.nsrc + 1) - 1;
          call.also = call.in_place < 0 ? CALL_NO_ALSO : CALL_ALSO_APART;
          call.align = below(&seed, 64);
          call.seed = next(&seed) | 1;
          check(&call);
        }
}

static void vectors_of_megabytes(void **state)
{
  (void)state;
  uint64_t seed = 4719;
  const size_t len = IS_SLOW || is_judged_by_the_reference() ? 100000 : 2 << 20;
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (int kind = 0; kind < (options.is_long ? 4 : 2); kind++) {
      struct call call;
      do call = call_draw_of((int)below(&seed, TT_REDOPS), type, 1, &seed);
      while (call.nsrc > 5 || tt_redop_lacks(call.redop, type));
      call.count = len / tt_type_size(type) + below(&seed, 1000);
      call.streams = kind % 2;
      check(&call);
    }
}

static void calls_drawn_by_chance(void **state)
{
  (void)state;
  const time_t end = time(NULL) + options.seconds;
  uint64_t seed = options.seed, calls = 0, elements = 0;
  do
    for (int i = 0; i < 100; i++, calls++) {
      struct call call = call_draw(i ? 4097 : 40000, &seed);
      check(&call);
      elements += call.count * (size_t)call.nsrc;
    }
  while (time(NULL) < end);
  print_message("%llu calls, %llu elements of sources, seed %llu\n", (unsigned long long)calls,
                (unsigned long long)elements, (unsigned long long)options.seed);
}

/* All that follows is for --long. */

static void every_fp32_is_converted_right(void **state)
{
  (void)state;
  static uint32_t wide[MOST];
  const void *sources[1] = {wide};
  for (uint64_t first = 0; first < UINT64_C(1) << 32; first += MOST) {
    for (uint32_t i = 0; i < MOST; i++) wide[i] = (uint32_t)first + i;
    for (int t = 0; t < TRAVELS; t++) {
      struct call call = call_plain(tuttiSum, small_types[t], 1, MOST);
      call.arg.wide = 0;
      compare(&call, sources);
    }
  }
}

static void every_pair_of_16_bit_floats_is_combined_right(void **state)
{
  (void)state;
  const void *all = every_code(tuttiFloat16);
  if (is_judged_by_the_reference()) {
    print_message("left out: the reference would take hours\n");
    skip();
  }
  for (uint32_t code = 0; code < 65536; code++) {
    const void *sources[2] = {the_same(tuttiFloat16, code, 65536), all};
    for (int t = 0; t < TRAVELS; t++)
      for (int redop = 0; redop < tuttiAvg; redop++) {
        struct call call = call_plain(redop, small_types[t], 2, 65536);
        compare(&call, sources);
      }
  }
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_value_with_every_hard_one),
      cmocka_unit_test(every_16_bit_value_scaled_by_every_hard_factor),
      cmocka_unit_test(every_fp32_next_to_where_rounding_changes_is_converted_right),
      cmocka_unit_test(every_8_bit_float_by_every_factor_next_to_where_rounding_changes),
      cmocka_unit_test(all_triples_of_hard_values),
      cmocka_unit_test(integers_are_divided_toward_zero),
      cmocka_unit_test(counts_around_blocks_and_many_sources),
      cmocka_unit_test(vectors_of_megabytes),
      cmocka_unit_test(calls_drawn_by_chance),
  };
  const struct CMUnitTest long_tests[] = {
      cmocka_unit_test(every_fp32_is_converted_right),
      cmocka_unit_test(every_pair_of_16_bit_floats_is_combined_right),
  };
  int failed = cmocka_run_group_tests_name(table, tests, NULL, NULL);
  return failed + (options.is_long ? cmocka_run_group_tests_name(table, long_tests, NULL, NULL) : 0);
}

static int usage(const char *program)
{
  fprintf(stderr, "usage: %s [--long] [--seconds N] [--seed S]\n", program);
  return 2;
}

int main(int argc, char **argv)
{
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--long")) {
      options.is_long = 1;
      options.seconds = 60;
      options.seed = (uint64_t)time(NULL);
    } else if (!strcmp(argv[i], "--seconds") && i + 1 < argc) options.seconds = atol(argv[++i]);
    else if (!strcmp(argv[i], "--seed") && i + 1 < argc) options.seed = strtoull(argv[++i], NULL, 0);
    else return usage(argv[0]);
  }
  alarm(options.is_long ? 7200 + 5 * (unsigned)options.seconds : 600);
  return tables_each(run);
}
