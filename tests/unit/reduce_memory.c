/* SPDX-License-Identifier: BSD-3-Clause */
/* Which bytes the kernels of each table touch, and what state of the thread they depend on.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce_call.h"
#include "reduce_tables.h"
#include "slow.h"
#include "strange.h"

static void check(const struct call *call)
{
  const char *fault = call_fault(call);
  if (fault) fail_msg("%s", fault);
}

static void random_calls_write_what_they_must_and_nothing_else(void **state)
{
  (void)state;
  uint64_t seed = 4711;
  for (int i = 0; i < (IS_SLOW ? 500 : 2000); i++) {
    struct call call = call_draw(4097, &seed);
    check(&call);
  }
}

static void any_count_and_alignment_will_do(void **state)
{
  (void)state;
  uint64_t seed = 4712;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++)
      for (size_t count = 0; count <= 200; count += IS_SLOW ? 7 : 1) {
        if (tt_redop_lacks(redop, type)) continue;
        struct call call = call_plain(redop, type, 1 + (int)below(&seed, 3), count);
        call.align = below(&seed, 64);
        call.seed = next(&seed);
        call.streams = (int)below(&seed, 2);
        reference_arg(&call.arg, redop, type, (int)below(&seed, 3) % call.nsrc, &seed);
        check(&call);
      }
}

/* Every choice of the sources that are dst, the second destination, wide and scaled. */
static void check_roles(struct call call, uint64_t *seed)
{
  const int is_wide = call.type == tuttiFloat16 || call.type == tuttiBfloat16, n = call.nsrc;
  for (call.arg.dst_wide = 0; call.arg.dst_wide <= is_wide; call.arg.dst_wide++)
    for (call.arg.wide = -1; call.arg.wide < (is_wide ? n : 0); call.arg.wide++)
      for (int roles = 0; roles < (n + 1) * (n + 2); roles++) {
        call.in_place = roles / (n + 2) - 1;
        call.also = roles % (n + 2) - 2;
        call.count = below(seed, 70);
        call.align = below(seed, 64);
        call.seed = next(seed) | 1;
        if (call_is_legal(&call)) check(&call);
      }
}

static void every_source_may_have_every_role(void **state)
{
  (void)state;
  uint64_t seed = 4713;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++)
      for (int nsrc = 1; nsrc <= (IS_SLOW ? 2 : 3) && !tt_redop_lacks(redop, type); nsrc++)
        for (int scaled = -1; scaled < (tt_reduce_scales(redop, type) ? nsrc : 0); scaled++) {
          struct call call = call_plain(redop, type, nsrc, 0);
          reference_arg(&call.arg, redop, type, scaled, &seed);
          check_roles(call, &seed);
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

#define BUFFERS 5
#define PAGE 65536

/* Pages that may not be touched stand before and behind each buffer: one byte too many ends the test. */
static unsigned char *fenced(void)
{
  unsigned char *memory = mmap(NULL, (2 * BUFFERS + 1) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  for (size_t b = 0; b < BUFFERS; b++) {
    assert_int_equal(mprotect(memory + (2 * b + 1) * PAGE, PAGE, PROT_READ | PROT_WRITE), 0);
    memset(memory + (2 * b + 1) * PAGE, 0x3c, PAGE);
  }
  return memory;
}

/* Buffer b of `len` bytes, at the end of its page or at its beginning. */
static void *beside_fence(unsigned char *memory, size_t b, size_t len, int at_end)
{
  return memory + (2 * b + 1) * PAGE + (at_end ? PAGE - len : 0);
}

static void run_fenced(unsigned char *memory, const struct call *call, int at_end)
{
  size_t len = call->count * tt_type_size(call->type), wide_len = call->count * sizeof(float);
  struct tt_reduce_arg arg = call->arg;
  const void *sources[3];
  for (int k = 0; k < call->nsrc; k++)
    sources[k] = beside_fence(memory, (size_t)k, k == arg.wide ? wide_len : len, at_end);
  arg.also = beside_fence(memory, 3, len, at_end);
  void *dst = beside_fence(memory, 4, arg.dst_wide ? wide_len : len, at_end);
  tt_reduce_kernel(call->redop, call->type)(dst, sources, call->nsrc, call->count, &arg);
  tt_reduce_table()->finite[call->type](sources[0], call->count);
}

static void not_even_a_byte_beside_a_buffer_is_read(void **state)
{
  (void)state;
  unsigned char *memory = fenced();
  uint64_t seed = 4714;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < REFERENCE_TYPES; type++)
      for (size_t count = 0; count < 300; count += 1 + count / 100) {
        if (tt_redop_lacks(redop, type)) continue;
        struct call call = call_plain(redop, type, 1 + (int)below(&seed, 3), count);
        reference_arg(&call.arg, redop, type, (int)below(&seed, 4) % (call.nsrc + 1) - 1, &seed);
        if (type == tuttiFloat16 || type == tuttiBfloat16) {
          call.arg.wide = (int)below(&seed, (size_t)call.nsrc + 1) - 1;
          call.arg.dst_wide = (int)below(&seed, 2);
        }
        run_fenced(memory, &call, 1);
        run_fenced(memory, &call, 0);
      }
  munmap(memory, (2 * BUFFERS + 1) * PAGE);
}

static void the_callers_floating_point_environment_changes_nothing(void **state)
{
  (void)state;
  uint64_t seed = 4715;
  for (int type = tuttiFloat16; type <= tuttiFloat8e5m2; type++)
    for (int redop = 0; redop <= tuttiAvg; redop++)
      for (int i = 0; i < 4 * STRANGE; i++) {
        struct call call = call_draw_of(redop, type, 60, &seed);
        call.strange = i % STRANGE;
        if (call.arg.scaled >= 0 && i % 3 == 0) call.arg.scale = type == tuttiFloat64 ? 0x1.8p-1070 : 0x1.8p-140;
        check(&call);
      }
}

static void args_make(struct tt_reduce_arg args[4])
{
  tt_reduce_arg_make(&args[0], tuttiAvg, tuttiFloat32, 3, 0, 1);
  tt_reduce_arg_make(&args[1], tuttiAvg, tuttiFloat64, 3, 0, 1);
  tt_reduce_arg_make(&args[2], TT_PREMUL_SUM, tuttiBfloat16, 3, 1, 1); /* the least subnormal, also of fp32 */
  tt_reduce_arg_before(&args[3], tuttiSum, tuttiFloat32, 3, 0, 0x1p-149f);
}

static void nor_does_it_change_arguments_and_conversions(void **state)
{
  (void)state;
  struct tt_reduce_arg wanted[4], got[4];
  args_make(wanted);
  assert_true(wanted[2].scale > 0 && wanted[3].scale > 0);
  for (int which = 0; which < STRANGE; which++) {
    strange_enter(which);
    args_make(got);
    uint32_t tie = tt_float_from_fp32(tuttiFloat16, 0x1.5p-24f), least = tt_float_from_fp32(tuttiBfloat16, 0x1p-133f);
    int kept = strange_leave(which);
    assert_true(kept);
    assert_memory_equal(got, wanted, sizeof got);
    assert_int_equal(tie, 1);
    assert_int_equal(least, 1);
  }
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_calls_write_what_they_must_and_nothing_else),
      cmocka_unit_test(any_count_and_alignment_will_do),
      cmocka_unit_test(every_source_may_have_every_role),
      cmocka_unit_test(all_sources_may_be_one_buffer),
      cmocka_unit_test(not_even_a_byte_beside_a_buffer_is_read),
      cmocka_unit_test(the_callers_floating_point_environment_changes_nothing),
      cmocka_unit_test(nor_does_it_change_arguments_and_conversions),
  };
  return cmocka_run_group_tests_name(table, tests, NULL, NULL);
}

int main(void)
{
  alarm(60);
  return tables_each(run);
}
