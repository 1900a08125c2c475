/* SPDX-License-Identifier: BSD-3-Clause */
/* The CUDA kernels give the bits of the plain table: their source, compiled for the CPU, on a driver without a GPU. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "fake_driver.h"
#include "on_device.h"
#include "reduce_reference.h"

static const struct tt_device *device;

static int begin(void **state)
{
  (void)state;
  device = fake_driver_begin();
  return device ? 0 : -1;
}

static int end(void **state)
{
  (void)state;
  return fake_driver_end() ? 0 : -1;
}

static void check(const struct call *call)
{
  const struct on_device on = {device, 1};
  const char *fault = on_device_fault(&on, call);
  if (fault) fail_msg("%s", fault);
}

static void every_kernel_gives_the_bits_of_the_plain_table(void **state)
{
  (void)state;
  uint64_t seed = 1;
  for (int redop = 0; redop < TT_REDOPS; redop++)
    for (int type = 0; type < tuttiNumTypes; type++)
      for (int round = 0; round < 12; round++) {
        struct call call = call_draw_of(redop, type, 300, &seed);
        call.strange = 0; /* the CPU plays the GPU */
        check(&call);
      }
}

/* Short ones have no vectors, longer ones some before, between and behind. */
static void every_count_and_alignment_gives_the_bits_of_the_plain_table(void **state)
{
  (void)state;
  static const int types[] = {tuttiInt8, tuttiFloat16, tuttiFloat32, tuttiFloat64};
  for (size_t t = 0; t < 4; t++)
    for (size_t align = 0; align < 17; align++)
      for (size_t count = 0; count < 70; count += count < 20 ? 1 : 7) {
        struct call call = call_plain(tuttiSum, types[t], 2, count);
        call.align = align;
        call.seed = align * 100 + count;
        check(&call);
      }
}

static void more_sources_than_fit_into_the_argument_are_read_from_a_list(void **state)
{
  (void)state;
  static const int numbers[] = {63, 64, 65, 200};
  for (size_t n = 0; n < 4; n++) {
    struct call call = call_plain(tuttiSum, tuttiBfloat16, numbers[n], 300);
    call.seed = n + 1;
    check(&call);
  }
}

/* ---- all values ---- */

#define ALL 65536

struct values {
  const struct tt_reduce_table *plain;
  void *dst, *device_dst, *device_sources[2];
  uint64_t got[ALL], wanted[ALL];
};

static const struct tt_reduce_table *plain_table(void)
{
  int last = 0;
  while (tt_reduce_tables[last + 1]) last++;
  return tt_reduce_tables[last];
}

/* One reduction of the two sources, or of the first of them, all in device memory. */
static void compare(struct values *values, const struct tt_reduction *what, const void *const *host)
{
  size_t out = what->count * (what->arg->dst_wide ? sizeof(float) : tt_type_size(what->type));
  struct tt_reduction theirs = *what;
  tt_ticket ticket;
  for (int k = 0; k < what->nsrc; k++) {
    size_t len = what->count * (what->arg->wide == k ? sizeof(float) : tt_type_size(what->type));
    assert_true(on_device_move(device, values->device_sources[k], host[k], len));
  }
  theirs.dst = values->device_dst;
  theirs.sources = (const void *const *)values->device_sources;
  assert_int_equal(device->reduce(device, &theirs, &ticket), tuttiSuccess);
  assert_int_equal(on_device_wait(device, ticket), tuttiSuccess);
  assert_true(on_device_move(device, values->got, values->device_dst, out));
  values->plain->kernels[what->redop][what->type](values->wanted, host, what->nsrc, what->count, what->arg);
  if (memcmp(values->got, values->wanted, out) != 0)
    fail_msg("%s of %s differs from the plain table", tt_redop_name(what->redop), tt_type_name(what->type));
}

static struct values *values_make(void)
{
  struct values *values = calloc(1, sizeof *values);
  values->plain = plain_table();
  values->device_dst = device->alloc(device, ALL * 8);
  for (int k = 0; k < 2; k++) values->device_sources[k] = device->alloc(device, ALL * 8);
  assert_true(values->device_dst && values->device_sources[0] && values->device_sources[1]);
  return values;
}

static void values_free(struct values *values)
{
  device->free(device, values->device_dst);
  for (int k = 0; k < 2; k++) device->free(device, values->device_sources[k]);
  free(values);
}

static void every_value_of_16_and_8_bits_is_scaled_and_widened_like_the_plain_table(void **state)
{
  (void)state;
  static const int types[] = {tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiFloat8e5m2};
  static const double scales[] = {1, 0.3330078125, 1.5, 5.9604644775390625e-8, 65504, -1e-30};
  static uint16_t all[ALL];
  struct values *values = values_make();
  const void *host[] = {all};
  for (int t = 0; t < 4; t++) {
    size_t size = tt_type_size(types[t]), n = size == 2 ? ALL : 256;
    for (size_t i = 0; i < n; i++)
      if (size == 2) all[i] = (uint16_t)i;
      else ((uint8_t *)all)[i] = (uint8_t)i;
    for (int s = 0; s < 12; s++) {
      struct tt_reduce_arg arg = tt_reduce_plainly;
      arg.scaled = 0;
      arg.scale = scales[s % 6];
      arg.dst_wide = s >= 6;
      if (s >= 6 && size == 1) break;
      const struct tt_reduction what = {TT_PREMUL_SUM, types[t], NULL, host, 1, n, &arg, NULL};
      compare(values, &what, host);
    }
  }
  values_free(values);
}

static void every_pair_of_8_bits_is_combined_like_the_plain_table(void **state)
{
  (void)state;
  static uint8_t pairs[2][ALL];
  static const int types[] = {tuttiInt8, tuttiUint8, tuttiFloat8e4m3, tuttiFloat8e5m2};
  struct values *values = values_make();
  const void *host[] = {pairs[0], pairs[1]};
  for (size_t i = 0; i < ALL; i++) pairs[0][i] = (uint8_t)i, pairs[1][i] = (uint8_t)(i >> 8);
  for (int t = 0; t < 4; t++)
    for (int redop = tuttiSum; redop <= tuttiMin; redop++) {
      const struct tt_reduction what = {redop, types[t], NULL, host, 2, ALL, &tt_reduce_plainly, NULL};
      compare(values, &what, host);
    }
  values_free(values);
}

static void every_pair_of_hard_values_is_combined_like_the_plain_table(void **state)
{
  (void)state;
  static uint64_t pairs[2][REFERENCE_HARD * REFERENCE_HARD];
  uint64_t hard[REFERENCE_HARD];
  struct values *values = values_make();
  const void *host[] = {pairs[0], pairs[1]};
  for (int type = 0; type < tuttiNumTypes; type++) {
    size_t size = tt_type_size(type), n = reference_hard(type, hard);
    for (size_t i = 0; i < n * n; i++) {
      memcpy((char *)pairs[0] + i * size, (char *)hard + i / n * size, size);
      memcpy((char *)pairs[1] + i * size, (char *)hard + i % n * size, size);
    }
    for (int redop = tuttiSum; redop <= tuttiMin; redop++) {
      const struct tt_reduction what = {redop, type, NULL, host, 2, n * n, &tt_reduce_plainly, NULL};
      compare(values, &what, host);
    }
  }
  values_free(values);
}

/* Of values of fp32 next to those where rounding changes. */
static void fp32_is_rounded_like_the_plain_table(void **state)
{
  (void)state;
  static uint32_t wide[ALL];
  static const int types[] = {tuttiFloat16, tuttiBfloat16};
  struct values *values = values_make();
  const void *host[] = {wide};
  uint64_t seed = 5;
  for (int t = 0; t < 2; t++) {
    struct tt_reduce_arg arg = tt_reduce_plainly;
    arg.wide = 0;
    for (size_t i = 0; i < ALL; i++) wide[i] = (uint32_t)(i % 4 ? reference_border(types[t], &seed) : next(&seed));
    const struct tt_reduction what = {tuttiSum, types[t], NULL, host, 1, ALL, &arg, NULL};
    compare(values, &what, host);
  }
  values_free(values);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_kernel_gives_the_bits_of_the_plain_table),
      cmocka_unit_test(every_count_and_alignment_gives_the_bits_of_the_plain_table),
      cmocka_unit_test(more_sources_than_fit_into_the_argument_are_read_from_a_list),
      cmocka_unit_test(every_value_of_16_and_8_bits_is_scaled_and_widened_like_the_plain_table),
      cmocka_unit_test(every_pair_of_8_bits_is_combined_like_the_plain_table),
      cmocka_unit_test(every_pair_of_hard_values_is_combined_like_the_plain_table),
      cmocka_unit_test(fp32_is_rounded_like_the_plain_table),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, begin, end);
}
