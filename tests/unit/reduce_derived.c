/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels that a table makes of its others, on every table: bool gives 0 or 1 for any bytes, also from one source and
 * in place; the bitwise operations of integers of all sizes; complex numbers are twice as many floats.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce/norm.h"
#include "reduce_tables.h"

enum { BYTES = 9000, MOST = 5, BESIDE = 16 };

static unsigned char words[MOST][BYTES], got[BYTES + BESIDE], also[BYTES + BESIDE], wanted[BYTES + BESIDE];

static unsigned char of_bools(int op, const unsigned char *values, int n)
{
  int trues = 0;
  for (int k = 0; k < n; k++) trues += values[k] != 0;
  if (op == tuttiBitXor) return (unsigned char)(trues % 2);
  return op == tuttiProd || op == tuttiMin || op == tuttiBitAnd ? trues == n : trues > 0;
}

static unsigned char of_bits(int op, const unsigned char *values, int n)
{
  unsigned char all = values[0];
  for (int k = 1; k < n; k++) {
    if (op == tuttiBitAnd) all &= values[k];
    else if (op == tuttiBitOr) all |= values[k];
    else all ^= values[k];
  }
  return all;
}

/* In place where in_place >= 0, with a second destination, and nothing behind the last element is written. */
static void check(int op, int type, int nsrc, size_t count, int in_place)
{
  const size_t len = count * tt_type_size(type);
  const void *sources[MOST];
  struct tt_reduce_arg arg = tt_reduce_plainly;
  arg.also = also;
  memset(wanted, 0xa5, sizeof wanted);
  memset(got, 0xa5, sizeof got);
  memset(also, 0xa5, sizeof also);
  for (size_t i = 0; i < len; i++) {
    unsigned char values[MOST];
    for (int k = 0; k < nsrc; k++) values[k] = words[k][i];
    wanted[i] = type == tuttiBool ? of_bools(op, values, nsrc) : of_bits(op, values, nsrc);
  }
  for (int k = 0; k < nsrc; k++) sources[k] = words[k];
  if (in_place >= 0) {
    memcpy(got, words[in_place], len);
    sources[in_place] = got;
  }
  tt_reduce_kernel(op, type)(got, sources, nsrc, count, &arg);
  assert_memory_equal(got, wanted, sizeof got);
  assert_memory_equal(also, wanted, sizeof also);
}

static int bytes_are_combined(const char *table)
{
  static const int types[] = {tuttiBool,  tuttiInt8,   tuttiUint8, tuttiInt16, tuttiUint16,
                              tuttiInt32, tuttiUint32, tuttiInt64, tuttiUint64};
  static const size_t counts[] = {0, 1, 2, 3, 15, 16, 63, 64, 65, 130, 1000, 1024};
  uint64_t seed = 23;
  (void)table;
  for (int k = 0; k < MOST; k++)
    for (int i = 0; i < BYTES; i++) words[k][i] = (unsigned char)(next(&seed) % 3 ? next(&seed) : 0);
  for (size_t t = 0; t < sizeof types / sizeof *types; t++)
    for (int op = 0; op < TT_REDOPS; op++) {
      int is_bitwise = op == tuttiBitAnd || op == tuttiBitOr || op == tuttiBitXor;
      if (tt_redop_lacks(op, types[t]) || (types[t] != tuttiBool && !is_bitwise)) continue;
      for (size_t c = 0; c < sizeof counts / sizeof *counts; c++)
        for (int nsrc = 1; nsrc <= MOST; nsrc++)
          check(op, types[t], nsrc, counts[c], (int)below(&seed, (size_t)nsrc + 1) - 1);
      if (types[t] == tuttiBool) check(op, tuttiBool, 3, BYTES, 1); /* several blocks */
    }
  return 0;
}

static void bytes_are_combined_by_every_table(void **state)
{
  (void)state;
  assert_int_equal(tables_each(bytes_are_combined), 0);
}

static void check_parts(int type, int op, int nsrc, int scaled)
{
  const int part = tt_type_part(type);
  const size_t count = 77;
  const void *sources[MOST];
  struct tt_reduce_arg arg;
  for (int k = 0; k < nsrc; k++) sources[k] = words[k];
  tt_reduce_arg_make(&arg, op, type, 3, 0, scaled);
  if (op == TT_PREMUL_SUM) arg.scale = 0.75;
  memset(got, 0xa5, sizeof got);
  memset(wanted, 0xa5, sizeof wanted);
  tt_reduce_kernel(op, type)(got, sources, nsrc, count, &arg);
  tt_reduce_kernel(op, part)(wanted, sources, nsrc, 2 * count, &arg);
  assert_memory_equal(got, wanted, sizeof got);
}

static int complex_is_pairs(const char *table)
{
  static const int ops[] = {tuttiSum, tuttiAvg, TT_PREMUL_SUM};
  uint64_t seed = 5;
  (void)table;
  for (int type = tuttiComplexFloat32; type <= tuttiComplexFloat64; type++) {
    const int part = tt_type_part(type);
    for (int k = 0; k < MOST; k++)
      for (size_t at = 0; at < BYTES; at += tt_type_size(part)) reference_tame(part, words[k] + at, &seed);
    for (int o = 0; o < 3; o++)
      for (int nsrc = 1; nsrc <= MOST; nsrc++)
        for (int scaled = -1; scaled < (ops[o] == tuttiSum ? 0 : nsrc); scaled++)
          check_parts(type, ops[o], nsrc, scaled);
    struct tt_norm whole = {{0}}, parts = {{0}};
    for (size_t at = 0; at < 100; at += 10) tt_norm_add(&whole, type, words[0] + at * tt_type_size(type), at, 10);
    tt_norm_add(&parts, part, words[0], 0, 200);
    assert_true(tt_norm_get(&whole) == tt_norm_get(&parts) && tt_norm_get(&whole) > 0);
    assert_true(tt_reduce_table()->finite[type](words[0], 100));
    memset(words[0] + 99 * tt_type_size(type) + tt_type_size(part), 0xff, tt_type_size(part)); /* the last imaginary */
    assert_false(tt_reduce_table()->finite[type](words[0], 100));
  }
  return 0;
}

static void complex_numbers_are_pairs_of_floats_to_every_table(void **state)
{
  (void)state;
  assert_int_equal(tables_each(complex_is_pairs), 0);
}

static void an_average_of_complex_numbers_has_the_factor_of_its_parts(void **state)
{
  struct tt_reduce_arg whole, part;
  (void)state;
  for (int nranks = 1; nranks < 20; nranks++)
    for (int type = tuttiComplexFloat32; type <= tuttiComplexFloat64; type++) {
      tt_reduce_arg_make(&whole, tuttiAvg, type, nranks, 0, 0);
      tt_reduce_arg_make(&part, tuttiAvg, tt_type_part(type), nranks, 0, 0);
      assert_true(whole.scale == part.scale && whole.scaled == 0);
      tt_reduce_arg_before(&whole, tuttiAvg, type, nranks, 0, 0.3f);
      tt_reduce_arg_before(&part, tuttiAvg, tt_type_part(type), nranks, 0, 0.3f);
      assert_true(whole.scale == part.scale);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bytes_are_combined_by_every_table),
      cmocka_unit_test(complex_numbers_are_pairs_of_floats_to_every_table),
      cmocka_unit_test(an_average_of_complex_numbers_has_the_factor_of_its_parts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
