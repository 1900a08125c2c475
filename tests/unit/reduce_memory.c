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
    fail_msg("%s: %s of %d %s, count %zu, alignment %zu, in place %d", fault,
             tt_redop_name(place->redop), place->nsrc, tt_type_name(place->type), place->count,
             place->align, place->in_place);
}

static void check_counts(int redop, int type, int nsrc, int in_place, size_t align)
{
  for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
    struct placement place = {redop, type, nsrc, in_place, align, counts[c]};
    check(&place);
  }
}

static void any_alignment_gives_the_result_and_touches_nothing_else(void **state)
{
  (void)state;
  for (int redop = 0; redop < tuttiNumOps; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (size_t align = 0; align < 64; align += align < 9 ? 1 : 11)
        check_counts(redop, type, 2, -1, align);
}

static void any_number_of_sources_touches_nothing_else(void **state)
{
  (void)state;
  for (int redop = 0; redop < tuttiNumOps; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (int nsrc = 1; nsrc <= PLACED_SOURCES; nsrc++) check_counts(redop, type, nsrc, -1, 3);
}

static void dst_may_be_any_one_of_the_sources(void **state)
{
  (void)state;
  for (int redop = 0; redop < tuttiNumOps; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (int nsrc = 1; nsrc <= PLACED_SOURCES; nsrc++)
        for (int k = 0; k < nsrc; k++) check_counts(redop, type, nsrc, k, (size_t)(5 * k));
}

/* Longer than a block, where a kernel that wrote dst too early would read its own result. */
static void dst_may_be_the_last_source_of_a_long_vector(void **state)
{
  (void)state;
  static float values[4][5000];
  const void *sources[4] = {values[0], values[1], values[2], values[3]};
  for (int k = 0; k < 4; k++)
    for (int i = 0; i < 5000; i++) values[k][i] = (float)(i * 4 + k);
  tt_reduce_kernel(tuttiSum, tuttiFloat32)(values[3], sources, 4, 5000, NULL);
  for (int i = 0; i < 5000; i++) assert_true(values[3][i] == (float)(i * 16 + 6));
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

static const struct tt_reduce_arg third = {.raw = 3, .divisor = 1, .scale = 1.0 / 3};

/* One sum and one average of every float type, of values that round and of subnormals. */
static void run_floats(unsigned char out[2][tuttiNumTypes][64])
{
  unsigned char hard[REFERENCE_HARD * 8] = {0};
  for (int type = tuttiFloat16; type < tuttiNumTypes; type++) {
    size_t size = tt_type_size(type);
    reference_hard(type, hard);
    const void *sources[2] = {hard, hard + 6 * size};
    tt_reduce_kernel(tuttiSum, type)(out[0][type], sources, 2, 64 / size, NULL);
    tt_reduce_kernel(tuttiAvg, type)(out[1][type], sources, 2, 64 / size, &third);
  }
}

static void the_callers_rounding_mode_changes_nothing(void **state)
{
  (void)state;
  static unsigned char wanted[2][tuttiNumTypes][64], got[2][tuttiNumTypes][64];
  struct tt_reduce_arg before, after;
  run_floats(wanted);
  tt_reduce_arg_make(&before, tuttiAvg, 3, 3, 1);
  const int modes[] = {FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};
  for (int m = 0; m < 3; m++) {
    fesetround(modes[m]);
    run_floats(got);
    tt_reduce_arg_make(&after, tuttiAvg, 3, 3, 1);
    uint32_t tie = tt_float_from_fp32(tuttiFloat16, 0x1.5p-24f);
    int kept = fegetround();
    fesetround(FE_TONEAREST);
    assert_int_equal(kept, modes[m]);
    assert_memory_equal(got, wanted, sizeof got);
    assert_memory_equal(&after, &before, sizeof after);
    assert_int_equal(tie, 1);
  }
}

static void subnormals_are_kept_though_the_caller_flushes_them(void **state)
{
  (void)state;
#if defined(__x86_64__)
  static unsigned char wanted[2][tuttiNumTypes][64], got[2][tuttiNumTypes][64];
  const unsigned int flush = 0x8040; /* FTZ and DAZ */
  run_floats(wanted);
  unsigned int saved = _mm_getcsr();
  _mm_setcsr(saved | flush);
  run_floats(got);
  unsigned int kept = _mm_getcsr();
  _mm_setcsr(saved);
  assert_int_equal(kept & flush, flush);
  assert_memory_equal(got, wanted, sizeof got);
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
      cmocka_unit_test(dst_may_be_the_last_source_of_a_long_vector),
      cmocka_unit_test(all_sources_may_be_one_buffer),
      cmocka_unit_test(the_callers_rounding_mode_changes_nothing),
      cmocka_unit_test(subnormals_are_kept_though_the_caller_flushes_them),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
