/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes the kernels touch, and what state of the thread they depend on. */
#include <fenv.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "reduce_placed.h"
#include "reduce_reference.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

static const size_t counts[] = {0, 1, 2, 3, 5, 8, 15, 17, 33, 64, 127, 257};

static void check(const struct placement *place)
{
  const char *fault = placed_fault(place);
  if (fault)
    fail_msg("%s: %s of %d %s, count %zu, alignment %zu, scaled %d, in place %d", fault,
             tt_redop_name(place->redop), place->nsrc, tt_type_name(place->type), place->count,
             place->align, place->scaled, place->in_place);
}

static void check_counts(struct placement place)
{
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    place.count = counts[c];
    check(&place);
  }
}

/* The first that need not be tried as the scaled source. */
static int scaled_end(int redop, int type, int nsrc)
{
  return tt_reduce_scales(redop, type) ? nsrc : 0;
}

static void any_alignment_gives_the_result_and_touches_nothing_else(void **state)
{
  (void)state;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (size_t align = 0; align < 64; align += align < 9 ? 1 : 11)
        check_counts((struct placement){redop, type, 2, scaled_end(redop, type, 2) - 1, -1, align, 0});
}

static void any_number_of_sources_touches_nothing_else(void **state)
{
  (void)state;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (int nsrc = 1; nsrc <= PLACED_SOURCES; nsrc++)
        check_counts((struct placement){redop, type, nsrc, scaled_end(redop, type, nsrc) - 1, -1, 3, 0});
}

static void check_in_place(int redop, int type, int nsrc)
{
  for (int scaled = -1; scaled < scaled_end(redop, type, nsrc); scaled++)
    for (int k = 0; k < nsrc; k++)
      check_counts((struct placement){redop, type, nsrc, scaled, k, (size_t)(5 * k), 0});
}

static void dst_may_be_any_one_of_the_sources(void **state)
{
  (void)state;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (int nsrc = 1; nsrc <= PLACED_SOURCES; nsrc++) check_in_place(redop, type, nsrc);
}

#define MANY 40
#define LONG 1100 /* words: longer than a block of any type */

/* Longer than a block, where a kernel that wrote dst too early would read its own result. */
static void check_many_in_place(int redop, int type, int scaled, int in_place)
{
  static uint64_t words[MANY][LONG];
  static uint64_t wanted[LONG];
  const void *sources[MANY];
  uint64_t seed = 3, scalar = 0;
  struct tt_reduce_arg arg;
  size_t size = tt_type_size(type), count = sizeof wanted / size;
  for (int k = 0; k < MANY; k++) {
    for (size_t i = 0; i < LONG; i++) words[k][i] = reference_random(&seed);
    sources[k] = words[k];
  }
  reference_tame(type, &scalar, &seed);
  tt_reduce_arg_make(&arg, redop, type, 3, scalar, scaled);
  tt_reduce_kernel(redop, type)(wanted, sources, MANY, count, &arg);
  tt_reduce_kernel(redop, type)(words[in_place], sources, MANY, count, &arg);
  for (size_t i = 0; i < count; i++)
    assert_true(reference_same(type, (char *)words[in_place] + i * size, (char *)wanted + i * size));
}

static void dst_may_be_any_one_of_many_long_sources(void **state)
{
  (void)state;
  const int types[] = {tuttiFloat16, tuttiFloat32, tuttiInt64, tuttiUint8}, places[] = {0, 1, 7, MANY - 1};
  for (int t = 0; t < 4; t++)
    for (int p = 0; p < 4; p++) {
      check_many_in_place(tuttiSum, types[t], -1, places[p]);
      check_many_in_place(TT_PREMUL_SUM, types[t], places[t], places[p]);
    }
}

static void all_sources_may_be_one_buffer(void **state)
{
  (void)state;
  int32_t values[3] = {1, -2, 3};
  const void *sources[3] = {values, values, values};
  tt_reduce_kernel(tuttiProd, tuttiInt32)(values, sources, 3, 3, NULL);
  assert_int_equal(values[0], 1);
  assert_int_equal(values[1], -8);
  assert_int_equal(values[2], 27);
}

#define RUNS 4
typedef unsigned char floats[RUNS][tuttiNumTypes][64];

/* Of every float type a sum, an average, a scaling alone and a pre-multiplied sum, of values that round and
 * of subnormals. The scalar is a subnormal. */
static void run_floats(floats out)
{
  unsigned char hard[REFERENCE_HARD * 8] = {0};
  struct tt_reduce_arg third, scalar;
  for (int type = tuttiFloat16; type < tuttiNumTypes; type++) {
    size_t size = tt_type_size(type), count = 64 / size;
    uint64_t bits = 0;
    reference_hard(type, hard);
    memcpy(&bits, hard + 4 * size, size); /* a subnormal */
    const void *sources[2] = {hard, hard + 6 * size};
    tt_reduce_arg_make(&third, tuttiAvg, type, 3, 0, 1);
    tt_reduce_arg_make(&scalar, TT_PREMUL_SUM, type, 3, bits, 0);
    tt_reduce_kernel(tuttiSum, type)(out[0][type], sources, 2, count, NULL);
    tt_reduce_kernel(tuttiAvg, type)(out[1][type], sources, 2, count, &third);
    tt_reduce_kernel(TT_PREMUL_SUM, type)(out[2][type], sources, 2, count, &scalar);
    third.scaled = 0;
    tt_reduce_kernel(tuttiAvg, type)(out[3][type], sources, 1, count, &third);
  }
}

static void args_make(struct tt_reduce_arg args[3])
{
  tt_reduce_arg_make(&args[0], tuttiAvg, tuttiFloat32, 3, 0, 1);
  tt_reduce_arg_make(&args[1], tuttiAvg, tuttiFloat64, 3, 0, 1);
  tt_reduce_arg_make(&args[2], TT_PREMUL_SUM, tuttiBfloat16, 3, 1, 1); /* the least subnormal, also of fp32 */
}

static void the_callers_rounding_mode_changes_nothing(void **state)
{
  (void)state;
  static floats wanted, got;
  struct tt_reduce_arg before[3], after[3];
  run_floats(wanted);
  args_make(before);
  const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int m = 0; m < 3; m++) {
    fesetround(modes[m]);
    run_floats(got);
    args_make(after);
    uint32_t tie = tt_float_from_fp32(tuttiFloat16, 0x1.5p-24f);
    int kept = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(kept, modes[m]);
    assert_memory_equal(got, wanted, sizeof got);
    assert_memory_equal(after, before, sizeof after);
    assert_int_equal(tie, 1);
  }
}

static void subnormals_are_kept_though_the_caller_flushes_them(void **state)
{
  (void)state;
#if defined(__x86_64__)
  static floats wanted, got;
  const unsigned int flush = 0x8040; /* FTZ and DAZ */
  struct tt_reduce_arg before[3], after[3];
  run_floats(wanted);
  args_make(before);
  unsigned int saved = _mm_getcsr();
  _mm_setcsr(saved | flush);
  run_floats(got);
  args_make(after);
  unsigned int kept = _mm_getcsr();
  _mm_setcsr(saved);
  assert_int_equal(kept & flush, flush);
  assert_memory_equal(got, wanted, sizeof got);
  assert_memory_equal(after, before, sizeof after);
  assert_true(before[2].scale > 0);
#else
  print_message("skipped: the control word for subnormals is known here for x86-64 only\n");
  skip();
#endif
}

int main(void)
{
  alarm(60);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(any_alignment_gives_the_result_and_touches_nothing_else),
      cmocka_unit_test(any_number_of_sources_touches_nothing_else),
      cmocka_unit_test(dst_may_be_any_one_of_the_sources),
      cmocka_unit_test(dst_may_be_any_one_of_many_long_sources),
      cmocka_unit_test(all_sources_may_be_one_buffer),
      cmocka_unit_test(the_callers_rounding_mode_changes_nothing),
      cmocka_unit_test(subnormals_are_kept_though_the_caller_flushes_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
