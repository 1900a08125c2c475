/* SPDX-License-Identifier: BSD-3-Clause */
/* Wire types, scales and the overflow report for every reducing collective, also where no public function asks for
 * them: the bits are those of a plain call, in the type that travels, on contributions that were scaled and converted
 * before.
 * Labels: processes. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algos/algos.h"
#include "chance.h"
#include "comm/comm.h"
#include "ranks.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

struct job {
  int row; /* of each collective */
};

/* One call; alike on all ranks but for `before`. */
struct trial {
  int collective, type, wire;     /* wire: the type that travels, often `type` itself */
  int op, root, in_place, is_hostile, reports;
  size_t count, shift; /* shift: elements by which buffers are not aligned */
  float before, after;
};

static float value(int rank, size_t i, int is_hostile)
{
  static const float odd[] = {INFINITY, -INFINITY, NAN, 65519.9f, 65520, -3e38f, 1e-40f, 0, -0.0f};
  uint64_t state = ((uint64_t)rank << 40) + i, chance = next(&state);
  if (is_hostile && chance % 16 == 0) return odd[chance / 16 % (sizeof odd / sizeof *odd)];
  return ((float)(chance >> 40) / 16777216.0f - 0.5f) * (float)(1 << (chance >> 8) % 12);
}

/* ---- elements as numbers: all types here are exact in fp64 ---- */

static double load(int type, const void *from)
{
  uint32_t bits = 0;
  double wide;
  memcpy(&wide, from, tt_type_size(type) == 8 ? 8 : 0);
  if (type == tuttiFloat64) return wide;
  memcpy(&bits, from, tt_type_size(type));
  return (double)tt_float_to_fp32(type, bits);
}

/* Rounds x, a product in the accumulation type; all NaN are one. */
static void store(int type, void *to, double x)
{
  if (type == tuttiFloat64) {
    if (isnan(x)) x = (double)NAN;
    memcpy(to, &x, 8);
    return;
  }
  uint32_t bits = tt_float_from_fp32(type, isnan(x) ? NAN : (float)x);
  memcpy(to, &bits, tt_type_size(type));
}

static double product(int type, double a, double b)
{
  volatile double wide = a * b;
  volatile float single = (float)a * (float)b;
  return type == tuttiFloat64 ? wide : (double)single;
}

/* What contributions are multiplied by; 1: they are taken as they are. */
static double factor_of(const struct trial *trial, int nranks)
{
  volatile double wide = trial->op == tuttiAvg ? (double)trial->before / nranks : (double)trial->before;
  volatile float single = (float)wide;
  return trial->type == tuttiFloat64 ? wide : (double)single;
}

/* ---- one trial ---- */

static size_t shares_in(const struct ranks *self, const struct trial *trial)
{
  return trial->collective == TT_REDUCE_SCATTER ? (size_t)self->nranks : 1;
}

static struct tt_binding binding_of(const struct trial *trial, const void *in, void *out)
{
  return (struct tt_binding){.call = {.count = trial->count,
                                      .collective = (uint8_t)trial->collective,
                                      .type = (uint8_t)trial->type,
                                      .redop = (uint8_t)trial->op,
                                      .root = trial->root},
                             .in = in,
                             .out = out,
                             .before = trial->before,
                             .overflow = NULL};
}

/* In place on `half`, elements of the wire type. */
static int reference_make(const struct ranks *self, tuttiComm_t comm, const struct trial *trial, char *half)
{
  size_t n = trial->count * shares_in(self, trial), size = tt_type_size(trial->wire);
  int scales = trial->op == tuttiAvg || trial->before != 1;
  double factor = factor_of(trial, self->nranks), x;
  for (size_t i = 0; i < n; i++) {
    char element[8];
    store(trial->type, element, (double)value(self->rank, i, trial->is_hostile));
    x = load(trial->type, element);
    store(trial->wire, half + i * size, scales ? product(trial->type, x, factor) : x);
  }
  struct trial plain = *trial;
  plain.type = trial->wire;
  plain.op = trial->op == tuttiAvg ? tuttiSum : trial->op;
  plain.before = 1;
  char *out = half + (shares_in(self, trial) > 1 ? (size_t)self->rank * trial->count * size : 0);
  struct tt_binding binding = binding_of(&plain, half, out);
  RANKS_CHECK(tt_comm_run(comm, &binding) == tuttiSuccess);
  memmove(half, out, trial->count * size);
  return 0;
}

static void form_set(struct tt_call *call, const struct trial *trial)
{
  uint32_t after;
  memcpy(&after, &trial->after, sizeof after);
  if (trial->wire != trial->type) call->form |= (uint64_t)(1 + trial->wire) << TT_FORM_WIRE_SHIFT;
  if (trial->after != 1) call->form |= (uint64_t)after << TT_FORM_AFTER_SHIFT;
  if (trial->reports) call->form |= TT_FORM_REPORT;
}

/* Of an all-reduce every rank is told the truth; of the others each rank of what it has. */
static int report_is_right(const struct ranks *self, const struct trial *trial, int said, int is_finite)
{
  if (!trial->reports) return said == 77;
  if (trial->collective == TT_ALL_REDUCE) return said == !is_finite;
  if (trial->collective == TT_REDUCE && self->rank == trial->root) return said == !is_finite;
  return said == 1 || (said == 0 && is_finite);
}

static int result_check(const struct ranks *self, const struct trial *trial, const char *out, const char *half,
                        int said)
{
  int writes = trial->collective != TT_REDUCE || self->rank == trial->root, is_finite = 1;
  size_t size = tt_type_size(trial->type), half_size = tt_type_size(trial->wire);
  for (size_t i = 0; writes && i < trial->count; i++) {
    char want[8];
    double x = load(trial->wire, half + i * half_size);
    store(trial->type, want, x);
    if (trial->after != 1) store(trial->type, want, product(trial->type, x, (double)trial->after));
    is_finite &= isfinite(load(trial->type, want)) != 0;
    if (memcmp(want, out + i * size, size) == 0) continue;
    fprintf(stderr, "%s %s as %s op %d count %zu in place %d: [%zu] is %a instead of %a\n",
            tt_kinds[trial->collective].name, tt_type_name(trial->type), tt_type_name(trial->wire), trial->op,
            trial->count, trial->in_place, i, load(trial->type, out + i * size), load(trial->type, want));
    RANKS_CHECK(0);
  }
  for (size_t b = 0; !writes && b < trial->count * size; b++) RANKS_CHECK(out[b] == 0x5a);
  RANKS_CHECK(report_is_right(self, trial, said, is_finite));
  return 0;
}

/* The call on buffers of the trial's memory; `host` has the contributions, and gets what recvbuff has then. */
static int operate(const struct ranks *self, tuttiComm_t comm, const struct trial *trial, char *host, int *said)
{
  size_t size = tt_type_size(trial->type), ins = shares_in(self, trial), own = ins > 1 ? (size_t)self->rank : 0;
  size_t len = trial->count * size, room = len * ins + trial->shift * size + 1;
  char *memory[2] = {malloc(room), malloc(room)};
  RANKS_CHECK(memory[0] && memory[1]);
  char *in = memory[0] + trial->shift * size, *out = memory[1] + trial->shift * size;
  if (trial->in_place) out = in + own * len;
  memset(memory[1], 0x5a, room);
  memcpy(in, host, len * ins);
  struct tt_binding binding = binding_of(trial, in, out);
  if (trial->collective == TT_REDUCE && self->rank != trial->root) binding.out = NULL;
  binding.overflow = said;
  form_set(&binding.call, trial);
  RANKS_CHECK(tt_comm_run(comm, &binding) == tuttiSuccess);
  memcpy(host, out, len);
  if (trial->in_place && !binding.out) memset(host, 0x5a, len);
  for (int b = 0; b < 2; b++) free(memory[b]);
  return 0;
}

static int trial_run(const struct ranks *self, tuttiComm_t comm, const struct trial *trial)
{
  size_t n = trial->count * shares_in(self, trial), size = tt_type_size(trial->type);
  char *half = malloc(n * 8 + 1), *host = malloc(n * 8 + 1);
  int said = 77;
  RANKS_CHECK(half && host);
  for (size_t i = 0; i < n; i++)
    store(trial->type, host + i * size, (double)value(self->rank, i, trial->is_hostile));
  int bad = reference_make(self, comm, trial, half) || operate(self, comm, trial, host, &said) ||
            result_check(self, trial, host, half, said);
  free(half);
  free(host);
  return bad;
}

/* ---- every algorithm ---- */

static const int collectives[] = {TT_ALL_REDUCE, TT_REDUCE, TT_REDUCE_SCATTER};

static const struct {
  int type, wire;
} types[] = {{tuttiFloat32, tuttiFloat16}, {tuttiFloat32, tuttiFloat32},  {tuttiFloat32, tuttiBfloat16},
             {tuttiFloat64, tuttiFloat64}, {tuttiFloat16, tuttiFloat16}, {tuttiBfloat16, tuttiBfloat16}};

static struct trial trial_make(const struct ranks *self, int collective, size_t k)
{
  static const size_t counts[] = {1, 5, 1000, 9001, 0, 20003};
  static const int ops[] = {tuttiSum, tuttiAvg, tuttiMax};
  static const float afters[] = {1, 0.37f, 3e4f};
  const struct job *job = self->argument;
  uint64_t chance = (uint64_t)job->row * 1000 + (uint64_t)collective * 100 + k;
  struct trial trial = {.collective = collective, .type = types[k % 6].type, .wire = types[k % 6].wire};
  trial.count = counts[below(&chance, 6)];
  if (collective == TT_REDUCE_SCATTER && trial.count > 9000) trial.count /= (size_t)self->nranks;
  trial.op = ops[below(&chance, 3)];
  trial.root = collective == TT_REDUCE ? (int)below(&chance, (size_t)self->nranks) : -1;
  trial.in_place = (int)below(&chance, 2);
  trial.shift = below(&chance, 3);
  trial.is_hostile = (int)below(&chance, 2);
  trial.reports = trial.op != tuttiMax && below(&chance, 2);
  trial.after = afters[below(&chance, 3)];
  trial.before = trial.op != tuttiMax && below(&chance, 2) ? 0.3f * (float)(self->rank + 1) : 1;
  return trial;
}

static int body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t c = 0; c < 3; c++)
    for (size_t k = 0; k < 6; k++) {
      struct trial trial = trial_make(self, collectives[c], k);
      if (trial_run(self, comm, &trial)) return 1;
    }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static const struct tt_algo *row_of(int collective, int n)
{
  int rows = 0;
  for (int a = 0; a < tt_algo_count; a++) rows += tt_algos[a].collective == collective;
  n %= rows;
  for (int a = 0; a < tt_algo_count; a++)
    if (tt_algos[a].collective == collective && n-- == 0) return &tt_algos[a];
  return NULL;
}

/* Segments so short that spans wrap and cross shares in several of them. */
static void rows_set(int row)
{
  char text[256];
  snprintf(text, sizeof text, "all_reduce:%s;reduce:%s;reduce_scatter:%s", row_of(TT_ALL_REDUCE, row)->name,
           row_of(TT_REDUCE, row)->name, row_of(TT_REDUCE_SCATTER, row)->name);
  setenv("TUTTI_ALGO", text, 1);
  setenv("TUTTI_SEGMENT_BYTES", row % 2 ? "1000" : "9000", 1);
  setenv("TUTTI_TRANSPORTS", row % 3 ? "shm" : "tcp", 1);
}

static void calls_give_the_bits_of_the_type_that_travels(void **state)
{
  int most = 0;
  (void)state;
  for (int a = 0; a < tt_algo_count; a++) most += tt_algos[a].collective == TT_ALL_REDUCE;
  for (int row = 0; row < most; row++)
    for (int k = IS_SLOW && row % 2; k < 2 - (IS_SLOW && row % 2 == 0); k++) {
      struct job job = {row * 2 + k};
      rows_set(row);
      assert_int_equal(ranks_run_threads(k ? 5 - row % 4 : 1 + row % 5, body, &job, 100), 0);
    }
}

/* ---- what cannot be ---- */

static int refused_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float x = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  struct trial trial = {.collective = TT_ALL_REDUCE, .type = tuttiFloat32, .wire = tuttiFloat64, .root = -1,
                        .count = 1, .before = 1, .after = 1};
  struct tt_binding binding = binding_of(&trial, &x, &x);
  form_set(&binding.call, &trial);
  RANKS_CHECK(tt_comm_run(comm, &binding) == tuttiInternalError && x == 1);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "float cannot travel as double"));
  tuttiCommAbort(comm);
  return 0;
}

static void types_that_cannot_travel_are_refused(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_threads(1, refused_body, NULL, 100), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(calls_give_the_bits_of_the_type_that_travels),
      cmocka_unit_test(types_that_cannot_travel_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
