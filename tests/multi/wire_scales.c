/* SPDX-License-Identifier: BSD-3-Clause */
/* What tutti.h promises of numbers: the error of sums that travel as fp16 or bf16, and scales before and after.
 * Labels: processes. */
#include <math.h>

#include "strange.h"
#include "wire_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT 4000

/* ---- the error of a sum ---- */

/* tutti.h: of n ranks' scaled contributions whose magnitudes sum up to s. */
static double error_bound(int wire, int n, double s)
{
  int is_half = wire == tuttiFloat16;
  double u = is_half ? 0x1p-11 : 0x1p-8, e = is_half ? 0x1p-25 : 0x1p-134;
  double grown = pow((1 + u) * (1 + 0x1p-24), n);
  return (grown - 1) * s + n * grown * e;
}

enum pattern { RANDOM, TINY, LOST, PATTERNS };

/* LOST: one rank's number is so large that adding 1 to it, which is half of its last place, has no effect; which rank
 * that is changes from element to element. */
static float pattern_value(int pattern, int wire, int nranks, int rank, size_t i)
{
  if (pattern == RANDOM) return mixed_value(rank, i);
  if (pattern == TINY) return mixed_value(rank, i) * (wire == tuttiFloat16 ? 0x1p-24f : 0x1p-132f);
  return (int)(i / 3 % (size_t)nranks) == rank ? wire == tuttiFloat16 ? 2048 : 256 : 1;
}

/* The scalar of a rank where the operation has one. */
static float scalar_of(int rank)
{
  return 0.7f + 0.3f * (float)rank;
}

/* Largest error over its bound. */
static double worst_error(const struct ranks *self, int pattern, int wire, tuttiRedOp_t op, const float *got)
{
  double worst = 0;
  for (size_t i = 0; i < COUNT; i++) {
    double sum = 0, magnitudes = 0;
    for (int r = 0; r < self->nranks; r++) {
      double x = (double)pattern_value(pattern, wire, self->nranks, r, i);
      if (op == tuttiAvg) x /= self->nranks;
      if ((int)op >= tuttiNumOps) x *= (double)scalar_of(r);
      sum += x;
      magnitudes += fabs(x);
    }
    double error = fabs((double)got[i] - sum) / error_bound(wire, self->nranks, magnitudes);
    if (error > worst) worst = error;
  }
  return worst;
}

static int errors_measure(const struct ranks *self, tuttiComm_t comm, int wire, const char *algo, double *lost)
{
  static float data[COUNT];
  float scalar = scalar_of(self->rank);
  tuttiRedOp_t ops[3] = {tuttiSum, tuttiAvg};
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&ops[2], &scalar, tuttiFloat, tuttiScalarHostImmediate, comm) == tuttiSuccess);
  for (int pattern = 0; pattern < PATTERNS; pattern++)
    for (int k = 0; k < 3; k++) {
      for (size_t i = 0; i < COUNT; i++) data[i] = pattern_value(pattern, wire, self->nranks, self->rank, i);
      RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiFloat, ops[k], comm, NULL) == tuttiSuccess);
      double worst = worst_error(self, pattern, wire, ops[k], data);
      if (!(worst <= 1)) fprintf(stderr, "%s, pattern %d, op %d: %g of the bound\n", algo, pattern, k, worst);
      RANKS_CHECK(worst <= 1);
      if (pattern == LOST && k == 0 && worst > *lost) *lost = worst;
    }
  return 0;
}

static int errors_body(const struct ranks *self)
{
  const char *algo;
  double lost = 0; /* in whichever algorithm it is most */
  for (int a = 0; (algo = wire_algo(a, self->nranks)); a++) {
    tuttiComm_t comm;
    int wire = wires[(a + self->nranks) % 2];
    if (wire_comm(self, self->argument, algo, 4096, wire, &comm)) return 1;
    if (errors_measure(self, comm, wire, algo, &lost)) return 1;
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  RANKS_CHECK(lost > 0.1 || self->nranks == 1); /* the bound is no exaggeration */
  return 0;
}

static void errors_are_within_the_bound_and_come_near_it(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 7; nranks += nranks < 3 ? 1 : 2) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks % 2 ? "shm" : "tcp", nranks, errors_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* ---- scales ---- */

struct kind {
  int type, wire; /* wire -1: as it is */
};

static const struct kind kinds[] = {{tuttiFloat32, tuttiFloat16}, {tuttiFloat32, tuttiBfloat16}, {tuttiFloat32, -1},
                                    {tuttiFloat64, -1},           {tuttiFloat16, -1},            {tuttiBfloat16, -1},
                                    {tuttiFloat8e5m2, -1},        {tuttiFloat8e4m3, -1}};
enum { KINDS = sizeof kinds / sizeof *kinds };

static void put(void *at, int type, double x)
{
  uint32_t bits = type == tuttiFloat64 ? 0 : tt_float_from_fp32(type, (float)x);
  if (type == tuttiFloat64) memcpy(at, &x, 8);
  else memcpy(at, &bits, tt_type_size(type));
}

static double get(const void *at, int type)
{
  double x;
  uint32_t bits = 0;
  if (type == tuttiFloat64) {
    memcpy(&x, at, 8);
    return x;
  }
  memcpy(&bits, at, tt_type_size(type));
  return (double)tt_float_to_fp32(type, bits);
}

static double small_value(int rank, size_t i)
{
  return (double)((int)(i + (size_t)rank) % 3 - 1);
}

/* before is 2^-rank, after is 8: no bit is lost in any type. */
static int powers_of_two(const struct ranks *self, tuttiComm_t comm, const struct kind *kind, size_t count)
{
  static char data[COUNT * 8], out[COUNT * 8];
  size_t size = tt_type_size(kind->type);
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (kind->wire >= 0) options.wire_type = kind->wire;
  options.scale_before = 1.0f / (float)(1 << self->rank % 3);
  options.scale_after = self->nranks % 2 ? 8 : -8;
  for (int in_place = 0; in_place < 2; in_place++) {
    char *to = in_place ? data : out;
    for (size_t i = 0; i < count; i++) put(data + i * size, kind->type, small_value(self->rank, i));
    RANKS_CHECK(tuttiAllReduceWith(data, to, count, (tuttiDataType_t)kind->type, tuttiSum, &options, comm, NULL) ==
                tuttiSuccess);
    for (size_t i = 0; i < count; i++) {
      double want = 0;
      for (int r = 0; r < self->nranks; r++) want += small_value(r, i) / (1 << r % 3);
      RANKS_CHECK(get(to + i * size, kind->type) == want * (double)options.scale_after);
    }
  }
  return 0;
}

/* Any factors: what was converted with the factor, summed up without options, and multiplied at the end. */
static int any_factors(const struct ranks *self, tuttiComm_t comm, const struct kind *kind, tuttiRedOp_t op)
{
  static char data[COUNT * 8], want[COUNT * 8];
  int type = kind->type, carried = kind->wire >= 0 ? kind->wire : type;
  size_t size = tt_type_size(type), carried_size = tt_type_size(carried);
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (kind->wire >= 0) options.wire_type = kind->wire;
  options.scale_before = 0.3f + 0.1f * (float)self->rank;
  options.scale_after = 1.7f;
  double factor = (double)options.scale_before / (op == tuttiAvg ? self->nranks : 1);
  if (type != tuttiFloat64) factor = (double)(float)factor;
  for (size_t i = 0; i < COUNT; i++) {
    put(data + i * size, type, (double)mixed_value(self->rank, i) / 64);
    double x = get(data + i * size, type), product = x * factor;
    put(want + i * carried_size, carried, type == tuttiFloat64 ? product : (double)(float)product);
  }
  RANKS_CHECK(tuttiAllReduce(want, want, COUNT, (tuttiDataType_t)carried, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(data, data, COUNT, (tuttiDataType_t)type, op, &options, comm, NULL) == tuttiSuccess);
  for (size_t i = 0; i < COUNT; i++) {
    char end[8];
    put(end, type, get(want + i * carried_size, carried) * (double)options.scale_after);
    RANKS_CHECK(memcmp(data + i * size, end, size) == 0);
  }
  return 0;
}

static int scales_body(const struct ranks *self)
{
  const char *algo;
  for (int a = 0; (algo = wire_algo(a, self->nranks)); a++) {
    tuttiComm_t comm;
    if (wire_comm(self, self->argument, algo, 4096, -1, &comm)) return 1;
    for (int k = 0; k < KINDS; k++) {
      int is_tiny = tt_type_size(kinds[k].type) == 1; /* 8 bits hold few sums */
      if (!is_tiny || self->nranks < 3)
        if (powers_of_two(self, comm, &kinds[k], (k + a) % 3 ? 77 : COUNT)) return 1;
      if ((k + a) % 4 == 0 && any_factors(self, comm, &kinds[k], (k + a) % 8 ? tuttiAvg : tuttiSum)) return 1;
    }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void scales_are_applied_once_before_and_after(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 6; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks % 2 ? "shm" : "tcp", nranks, scales_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* scale_before and the scalar of a pre-multiplied sum are one factor; scale_after goes with any operation. */
static int with_operations_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiRedOp_t op;
  float x[100], scalar = 3, want[100];
  double wide[100], wide_scalar = 3;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (wire_comm(self, self->argument, "", 0, tuttiFloat16, &comm)) return 1;
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&op, &scalar, tuttiFloat, tuttiScalarHostImmediate, comm) == tuttiSuccess);
  options.scale_before = 0.25f;
  options.scale_after = 4;
  for (int i = 0; i < 100; i++) wide[i] = x[i] = (float)(i - 50);
  RANKS_CHECK(tuttiAllReduceWith(x, x, 100, tuttiFloat, op, &options, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < 100; i++) RANKS_CHECK(x[i] == (float)(3 * (i - 50) * self->nranks));
  RANKS_CHECK(tuttiRedOpDestroy(op, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&op, &wide_scalar, tuttiDouble, tuttiScalarDevice, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(wide, wide, 100, tuttiDouble, op, &options, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < 100; i++) RANKS_CHECK(wide[i] == 3 * (i - 50) * self->nranks);
  options.scale_before = 1;
  options.scale_after = 0.3f;
  for (int i = 0; i < 100; i++) {
    x[i] = mixed_value(self->rank, (size_t)i);
    want[i] = -70000;
    for (int r = 0; r < self->nranks; r++) want[i] = fmaxf(want[i], rounded(tuttiFloat16, mixed_value(r, (size_t)i)));
  }
  RANKS_CHECK(tuttiAllReduceWith(x, x, 100, tuttiFloat, tuttiMax, &options, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < 100; i++) RANKS_CHECK(x[i] == want[i] * 0.3f);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void scales_go_with_other_factors_and_operations(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 4; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire("shm", nranks, with_operations_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* Also a factor that the caller's environment takes for 0: the same bits in each. */
static int strange_body(const struct ranks *self)
{
  static float plainly[COUNT], strangely[COUNT];
  tuttiComm_t comm;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (wire_comm(self, self->argument, "", 0, tuttiBfloat16, &comm)) return 1;
  for (int which = 0; which < STRANGE * 3; which++) {
    options.scale_before = which % 3 == 1 ? 1e-40f : 0.3f;
    options.scale_after = which % 3 == 2 ? 1e-40f : 1.7f;
    if (which % 3 && which / 3 == STRANGE - 1) continue; /* it traps where such a factor is only looked at */
    for (size_t i = 0; i < COUNT; i++) plainly[i] = strangely[i] = 100 * mixed_value(self->rank, i);
    RANKS_CHECK(tuttiAllReduceWith(plainly, plainly, COUNT, tuttiFloat, tuttiAvg, &options, comm, NULL) ==
                tuttiSuccess);
    strange_enter(which / 3);
    tuttiResult_t result =
        tuttiAllReduceWith(strangely, strangely, COUNT, tuttiFloat, tuttiAvg, &options, comm, NULL);
    int kept = strange_leave(which / 3);
    RANKS_CHECK(result == tuttiSuccess && kept && memcmp(plainly, strangely, sizeof plainly) == 0);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void the_callers_environment_changes_no_bit(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 3; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire("shm", nranks, strange_body, meeting), 0);
    meeting_free(meeting);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(errors_are_within_the_bound_and_come_near_it),
      cmocka_unit_test(scales_are_applied_once_before_and_after),
      cmocka_unit_test(scales_go_with_other_factors_and_operations),
      cmocka_unit_test(the_callers_environment_changes_no_bit),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
