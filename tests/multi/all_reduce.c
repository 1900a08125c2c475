/* SPDX-License-Identifier: BSD-3-Clause */
/* Real ranks, real transports: every rank gets the exact result for every type, operation and kind of count, by
 * the algorithms that the library chooses. multi.collectives runs each by its name.
 * Labels: slow, plain. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ranks.h"
#include "base/base.h"
#include "reduce/reduce.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

/* Contribution of a rank to element i, recognisable and exact in any order of summation for every type: small
 * integers for sums; powers of two for products; anything for max and min. */
static double contribution(int rank, size_t i, int op)
{
  if (op == tuttiProd) return (i + (size_t)rank) % 3 == 0 ? 2 : 1;
  if (op == tuttiAvg) return (double)((i % 4) * 8); /* the same on all ranks: the average is exact */
  return (double)((i * 7 + (size_t)rank * 3) % 5);
}

static double expected(int nranks, size_t i, int op)
{
  double result = contribution(0, i, op);
  for (int r = 1; r < nranks; r++) {
    double next = contribution(r, i, op);
    if (op == tuttiSum) result += next;
    if (op == tuttiProd) result *= next;
    if (op == tuttiMax && next > result) result = next;
    if (op == tuttiMin && next < result) result = next;
  }
  return result;
}

static void put(void *buffer, size_t i, int type, double value)
{
  char *at = (char *)buffer + i * tt_type_size(type);
  uint32_t bits = 0;
  int64_t integer = (int64_t)value;
  float single = (float)value;
  switch (type) {
  case tuttiFloat32: memcpy(at, &single, 4); return;
  case tuttiFloat64: memcpy(at, &value, 8); return;
  case tuttiFloat16:
  case tuttiBfloat16:
  case tuttiFloat8e4m3:
  case tuttiFloat8e5m2:
    bits = tt_float_from_fp32(type, single);
    memcpy(at, &bits, tt_type_size(type));
    return;
  default: memcpy(at, &integer, tt_type_size(type)); return;
  }
}

struct trial {
  size_t count;
  int type, op, in_place, shift;
  int ulps; /* allowed distance: 2 for averages of floats over a number of ranks that is no power of two */
};

#define PERIOD 60 /* elements after which contributions and what they make repeat */
#define GUARD 64 /* bytes around each buffer that nobody may touch */
#define SHIFT 32 /* room to begin at any alignment */

/* fp32 and fp64 as integers: the distance in units of the last place. */
static int close_enough(const char *got, const char *want, const struct trial *trial)
{
  for (size_t i = 0; i < trial->count; i++) {
    int64_t a = 0, b = 0;
    size_t element = tt_type_size(trial->type);
    memcpy(&a, got + i * element, element);
    memcpy(&b, want + i * element, element);
    if (a - b > trial->ulps || b - a > trial->ulps) return 0;
  }
  return 1;
}

/* What the rank gives; of all ranks (rank -1) what it makes. */
static void fill(void *buffer, const struct trial *trial, int rank, int nranks)
{
  size_t period = PERIOD * tt_type_size(trial->type), len = trial->count * tt_type_size(trial->type);
  for (size_t i = 0; i < PERIOD && i < trial->count; i++)
    put(buffer, i, trial->type, rank < 0 ? expected(nranks, i, trial->op) : contribution(rank, i, trial->op));
  for (size_t done = period, n; done < len; done += n) {
    n = len - done < done ? len - done : done;
    memcpy((char *)buffer + done, buffer, n);
  }
}

static int check_one(const struct ranks *self, tuttiComm_t comm, const struct trial *trial)
{
  size_t element = tt_type_size(trial->type), len = trial->count * element;
  char *in = malloc(len + 2 * GUARD + SHIFT), *out = malloc(len + 2 * GUARD + SHIFT), *want = malloc(len + 1);
  char *from = in + GUARD + trial->shift, *to = trial->in_place ? from : out + GUARD + trial->shift;
  memset(in, 0x5a, len + 2 * GUARD + SHIFT);
  memset(out, 0x5a, len + 2 * GUARD + SHIFT);
  fill(from, trial, self->rank, self->nranks);
  fill(want, trial, -1, self->nranks);
  RANKS_CHECK(tuttiAllReduce(from, to, trial->count, (tuttiDataType_t)trial->type, (tuttiRedOp_t)trial->op, comm,
                             NULL) == tuttiSuccess);
  RANKS_CHECK(trial->ulps ? close_enough(to, want, trial) : memcmp(to, want, len) == 0);
  for (int g = 0; g < GUARD; g++) RANKS_CHECK(to[-1 - g] == 0x5a && to[len + (size_t)g] == 0x5a);
  if (!trial->in_place) {
    fill(want, trial, self->rank, self->nranks);
    RANKS_CHECK(memcmp(from, want, len) == 0);
  }
  free(in);
  free(out);
  free(want);
  return 0;
}

static int all_kinds(const struct ranks *self)
{
  static const size_t counts[] = {0, 1, 2, 3, 7, 8, 64, 1000, 4099, 65537};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (int type = 0; type <= tuttiFloat8e5m2; type++)
      for (int op = 0; op <= tuttiAvg; op++) {
        int fp8 = type == tuttiFloat8e4m3 || type == tuttiFloat8e5m2;
        int shift = (int)(c % 3) * (int)tt_type_size(type);
        struct trial trial = {counts[c], type, op, (int)(c + (size_t)op) % 2, shift + (int)(c % 2), 0};
        int is_small_float = fp8 || type == tuttiFloat16 || type == tuttiBfloat16;
        int thirds = op == tuttiAvg && (self->nranks & (self->nranks - 1));
        if (thirds && is_small_float) continue; /* rounds at every hop */
        if (thirds && (type == tuttiFloat32 || type == tuttiFloat64)) trial.ulps = 2;
        if (fp8 && self->nranks > 2 && op != tuttiMax && op != tuttiMin) continue;                     /* not exact */
        if ((type == tuttiInt8 || type == tuttiUint8) && op == tuttiAvg && self->nranks > 4) continue; /* wraps */
        if (counts[c] > 5000 && (type + op) % 3) continue;
        if (check_one(self, comm, &trial)) return 1;
      }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int large(const struct ranks *self)
{
  static const size_t counts[] = {300000, 1048576, 5000011};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (int in_place = 0; in_place < 2; in_place++) {
      struct trial trial = {counts[c], tuttiFloat32, tuttiSum, in_place, 4, 0};
      if (check_one(self, comm, &trial)) return 1;
    }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Fewer kinds, for ranks as threads: what matters there is who touches what. */
static int few_kinds(const struct ranks *self)
{
  static const size_t counts[] = {0, 1, 7, 1000, 65537, 300001};
  static const int ops[] = {tuttiSum, tuttiMax};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (int o = 0; o < 2; o++) {
      struct trial trial = {counts[c], o ? tuttiInt32 : tuttiFloat32, ops[o], (int)(c + (size_t)o) % 2, 0, 0};
      if (check_one(self, comm, &trial)) return 1;
    }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void run_all(const char *transport, ranks_body body, int largest)
{
  setenv("TUTTI_TRANSPORTS", transport, 1);
  for (int nranks = 1; nranks <= largest; nranks++)
    assert_int_equal(ranks_run_processes(nranks, body, NULL, 120), 0);
}

static void every_rank_gets_the_exact_result_over_shm(void **state)
{
  (void)state;
  run_all("shm", all_kinds, 8);
}

static void every_rank_gets_the_exact_result_over_tcp(void **state)
{
  (void)state;
  run_all("tcp", all_kinds, 8);
}

static void large_vectors_are_exact(void **state)
{
  static const char *const algos[] = {"", "ring", "recursive_doubling"};
  (void)state;
  for (int a = 0; a < 3; a++) {
    setenv("TUTTI_ALGO", algos[a], 1);
    run_all("shm", large, 3);
    run_all("tcp", large, 3);
  }
  unsetenv("TUTTI_ALGO");
}

/* From here on this process itself uses the library, so nothing can be forked any more. */
static void ranks_may_be_threads(void **state)
{
  static const char *const transports[] = {"shm", "tcp"}, *const algos[] = {"ring", "recursive_doubling"};
  (void)state;
  for (int k = 0; k < 4; k++) {
    setenv("TUTTI_TRANSPORTS", transports[k / 2], 1);
    setenv("TUTTI_ALGO", algos[k % 2], 1);
    for (int nranks = 1 + (k / 2 + k) % 2; nranks <= 8; nranks += 2) /* each number on both, by one algorithm */
      assert_int_equal(ranks_run_threads(nranks, few_kinds, NULL, 200), 0);
  }
  unsetenv("TUTTI_ALGO");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rank_gets_the_exact_result_over_shm),
      cmocka_unit_test(every_rank_gets_the_exact_result_over_tcp),
      cmocka_unit_test(large_vectors_are_exact),
      cmocka_unit_test(ranks_may_be_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
