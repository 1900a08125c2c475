/* SPDX-License-Identifier: BSD-3-Clause */
/* L2 norms: their bits are those of the definition in norm.h, for every type and table, however a tensor is cut.
 * Labels: serial. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "chance.h"
#include "reduce/norm.h"
#include "reduce_tables.h"
#include "slow.h"
#include "strange.h"

#define MOST 200 /* elements */

/* Room for MOST elements at any alignment. */
struct tensor {
  int type;
  size_t count;
  char *data;
  char room[MOST * 8 + 64];
};

/* ---- the definition, once more ---- */

static double element(const struct tensor *tensor, size_t i)
{
  const char *at = tensor->data + i * tt_type_size(tensor->type);
  union {
    int8_t i8;
    uint8_t u8;
    int16_t i16;
    uint16_t u16;
    int32_t i32;
    uint32_t u32;
    int64_t i64;
    uint64_t u64;
    double fp64;
  } value = {.u64 = 0};
  memcpy(&value, at, tt_type_size(tensor->type));
  switch (tensor->type) {
  case tuttiInt8: return value.i8;
  case tuttiUint8: return value.u8;
  case tuttiInt16: return value.i16;
  case tuttiUint16: return value.u16;
  case tuttiInt32: return value.i32;
  case tuttiUint32: return value.u32;
  case tuttiInt64: return (double)value.i64;
  case tuttiUint64: return (double)value.u64;
  case tuttiFloat64: return value.fp64;
  default: return reference_decode(tensor->type, value.u32);
  }
}

static uint64_t bits_of(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return isnan(value) ? 0x7ff8000000000000u : bits;
}

static uint64_t wanted(const struct tensor *tensor)
{
  volatile double lane[TT_NORM_LANES] = {0};
  for (size_t i = 0; i < tensor->count; i++) {
    volatile double square = element(tensor, i);
    square = square * square;
    lane[i % TT_NORM_LANES] += square;
  }
  for (int half = TT_NORM_LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  return bits_of(sqrt(lane[0]));
}

/* ---- tensors ---- */

static void tensor_draw(struct tensor *tensor, int type, size_t count, uint64_t *seed)
{
  size_t size = tt_type_size(type);
  tensor->type = type;
  tensor->count = count;
  tensor->data = tensor->room + below(seed, 64);
  for (size_t i = 0; i < count; i++) reference_tame(type, tensor->data + i * size, seed);
}

/* In as many pieces as come, each of at most `most` elements. */
static uint64_t norm_of(const struct tensor *tensor, size_t most, uint64_t *seed)
{
  struct tt_norm norm = {{0}};
  size_t size = tt_type_size(tensor->type);
  for (size_t at = 0, n; at < tensor->count; at += n) {
    n = below(seed, most + 1);
    if (n > tensor->count - at) n = tensor->count - at;
    tt_norm_add(&norm, tensor->type, tensor->data + at * size, at, n);
  }
  double result = tt_norm_get(&norm);
  uint64_t bits;
  memcpy(&bits, &result, sizeof bits);
  return bits;
}

static uint64_t norm_in_two(const struct tensor *tensor, size_t cut)
{
  struct tt_norm norm = {{0}};
  tt_norm_add(&norm, tensor->type, tensor->data, 0, cut);
  tt_norm_add(&norm, tensor->type, tensor->data + cut * tt_type_size(tensor->type), cut, tensor->count - cut);
  return bits_of(tt_norm_get(&norm));
}

static void the_bits_are_those_of_the_definition_at_every_cut(void **state)
{
  (void)state;
  struct tensor tensor;
  uint64_t seed = 5711;
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (size_t count = 0; count <= MOST; count += IS_SLOW ? 13 : 1) {
      tensor_draw(&tensor, type, count, &seed);
      uint64_t right = wanted(&tensor);
      for (size_t cut = 0; cut <= count; cut++) assert_true(norm_in_two(&tensor, cut) == right);
      for (size_t most = 1; most <= MOST; most = most * 3 / 2 + 1) assert_true(norm_of(&tensor, most, &seed) == right);
    }
}

/* Also of integers beyond 2^53, infinities and subnormals. */
static void hard_elements_count_like_others(void **state)
{
  (void)state;
  struct tensor tensor;
  uint64_t seed = 5712;
  for (int type = 0; type < REFERENCE_TYPES; type++) {
    char hard[REFERENCE_HARD * 8];
    size_t size = tt_type_size(type), n = reference_hard(type, hard);
    for (size_t i = 0; i < n; i++)
      for (size_t at = 0; at < 2 * TT_NORM_LANES; at++) {
        tensor_draw(&tensor, type, at + 1 + below(&seed, 40), &seed);
        memcpy(tensor.data + at * size, hard + i * size, size);
        assert_true(norm_of(&tensor, 20, &seed) == wanted(&tensor));
      }
  }
}

static void small_tensors_have_exact_norms(void **state)
{
  (void)state;
  float singles[50] = {3, 4}, least = 0x1p-149f;
  double doubles[2] = {0x1.8p600, 0}, infinite;
  int64_t integers[] = {-6000000000, 8000000000};
  struct tt_norm norm = {{0}};
  assert_true(tt_norm_get(&norm) == 0);
  tt_norm_add(&norm, tuttiFloat32, singles, 0, 2);
  assert_true(tt_norm_get(&norm) == 5);
  singles[0] = 0;
  singles[1] = -12;
  tt_norm_add(&norm, tuttiFloat32, singles, 2, 50);
  assert_true(tt_norm_get(&norm) == 13);
  norm = (struct tt_norm){{0}};
  tt_norm_add(&norm, tuttiInt64, integers, 0, 2);
  assert_true(tt_norm_get(&norm) == 1e10);
  norm = (struct tt_norm){{0}};
  tt_norm_add(&norm, tuttiFloat32, &least, 0, 1);
  assert_true(tt_norm_get(&norm) == 0x1p-149);
  norm = (struct tt_norm){{0}};
  tt_norm_add(&norm, tuttiFloat64, doubles, 0, 2);
  infinite = tt_norm_get(&norm);
  assert_true(isinf(infinite) && infinite > 0);
}

static void infinities_and_nans_get_through(void **state)
{
  (void)state;
  static const struct {
    int type;
    uint64_t infinity, nan;
  } formats[] = {{tuttiFloat16, 0xfc00, 0xfe01},
                 {tuttiBfloat16, 0xff80, 0xffc1},
                 {tuttiFloat32, 0xff800000u, 0xff800001u},
                 {tuttiFloat64, 0xfff0000000000000u, 0xfff0000000000001u},
                 {tuttiFloat8e5m2, 0xfc, 0xff},
                 {tuttiFloat8e4m3, 0, 0xff}};
  struct tensor tensor;
  uint64_t seed = 5713;
  for (size_t f = 0; f < sizeof formats / sizeof formats[0]; f++)
    for (size_t at = 0; at < 50; at++) {
      size_t size = tt_type_size(formats[f].type);
      tensor_draw(&tensor, formats[f].type, 50, &seed);
      if (formats[f].infinity) {
        memcpy(tensor.data + at * size, &formats[f].infinity, size);
        assert_true(norm_of(&tensor, 50, &seed) == 0x7ff0000000000000u);
      }
      memcpy(tensor.data + (at + 17) % 50 * size, &formats[f].nan, size);
      assert_true(norm_of(&tensor, 50, &seed) == 0x7ff8000000000000u);
    }
}

static void the_callers_floating_point_environment_changes_nothing(void **state)
{
  (void)state;
  struct tensor tensor;
  uint64_t seed = 5714;
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (int which = 0; which < STRANGE; which++) {
      tensor_draw(&tensor, type, MOST, &seed);
      if (type == tuttiFloat32) memset(tensor.data, 1, 4 * TT_NORM_LANES); /* tiny ones */
      if (type == tuttiFloat64) memset(tensor.data, 0, 8 * TT_NORM_LANES);
      uint64_t right = wanted(&tensor);
      strange_enter(which);
      uint64_t got = norm_of(&tensor, 30, &seed);
      int kept = strange_leave(which);
      assert_true(kept);
      assert_true(got == right);
    }
}

static void not_even_a_byte_beside_a_tensor_is_read(void **state)
{
  (void)state;
  const size_t page = 65536;
  char *memory = mmap(NULL, 3 * page, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(memory != MAP_FAILED);
  assert_int_equal(mprotect(memory + page, page, PROT_READ | PROT_WRITE), 0);
  for (int type = 0; type < REFERENCE_TYPES; type++)
    for (size_t count = 0; count < 70; count++) {
      struct tt_norm norm = {{0}};
      size_t len = count * tt_type_size(type);
      tt_norm_add(&norm, type, memory + page, count % 3, count);
      tt_norm_add(&norm, type, memory + 2 * page - len, count, count);
      assert_true(tt_norm_get(&norm) == 0);
    }
  munmap(memory, 3 * page);
}

static int run(const char *table)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_bits_are_those_of_the_definition_at_every_cut),
      cmocka_unit_test(hard_elements_count_like_others),
      cmocka_unit_test(small_tensors_have_exact_norms),
      cmocka_unit_test(infinities_and_nans_get_through),
      cmocka_unit_test(the_callers_floating_point_environment_changes_nothing),
      cmocka_unit_test(not_even_a_byte_beside_a_tensor_is_read),
  };
  return cmocka_run_group_tests_name(table, tests, NULL, NULL);
}

int main(void)
{
  alarm(IS_SLOW ? 600 : 60);
  return tables_each(run);
}
