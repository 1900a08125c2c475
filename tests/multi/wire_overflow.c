/* SPDX-License-Identifier: BSD-3-Clause */
/* The overflow report: an infinity or NaN on any rank at any place, or one that comes only of a sum, is told to every
 * rank, by every algorithm; and nothing else is.
 * Labels: slow, processes. */
#include <math.h>

#include "wire_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 20011

struct kind {
  int type, wire; /* wire -1: as it is */
  int count;
};

static const struct kind kinds[] = {
    {tuttiFloat32, tuttiFloat16, MOST}, {tuttiFloat32, tuttiBfloat16, 1000}, {tuttiFloat32, -1, 13},
    {tuttiFloat64, -1, 4000},           {tuttiFloat16, -1, 1},               {tuttiBfloat16, -1, 2000},
    {tuttiFloat8e5m2, -1, 5000},        {tuttiFloat8e4m3, -1, 64},           {tuttiFloat32, tuttiFloat16, 2},
    {tuttiFloat32, tuttiBfloat16, MOST}};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* What is wrong with one element. */
enum harm { NOTHING, INFINITE, NEGATIVE, NOT_A_NUMBER, SUM, SCALED, HARMS };

static void put(void *at, int type, double x)
{
  uint32_t bits = type == tuttiFloat64 ? 0 : tt_float_from_fp32(type, (float)x);
  if (type == tuttiFloat64) memcpy(at, &x, 8);
  else memcpy(at, &bits, tt_type_size(type));
}

/* The largest value that elements may have. */
static double largest_of(const struct kind *kind)
{
  switch (kind->wire >= 0 ? kind->wire : kind->type) {
  case tuttiFloat16: return 65504;
  case tuttiFloat8e5m2: return 57344;
  case tuttiFloat64: return 0x1.fffffffffffffp1023;
  case tuttiFloat32: return 0x1.fffffep127;
  case tuttiBfloat16: return 0x1.fep127;
  default: return 448;
  }
}

struct trial {
  const struct kind *kind;
  int harm, rank; /* whose element it is */
  int place;
  int in_place;
};

static int expects(const struct trial *trial, int nranks)
{
  int is_e4m3 = trial->kind->type == tuttiFloat8e4m3;
  if (trial->harm == NOTHING) return 0;
  if (trial->harm == SUM) return nranks > 1 && !is_e4m3;
  return trial->harm == NOT_A_NUMBER || !is_e4m3; /* that type has no infinity */
}

static void harm_put(const struct ranks *self, const struct trial *trial, char *data)
{
  double largest = largest_of(trial->kind), bad = NAN;
  char *at = data + (size_t)trial->place * tt_type_size(trial->kind->type);
  if (trial->harm == SUM) put(at, trial->kind->type, 0.75 * largest); /* on all ranks: each of them is well */
  if (trial->rank != self->rank || trial->harm == NOTHING || trial->harm == SUM) return;
  if (trial->harm == INFINITE) bad = INFINITY;
  if (trial->harm == NEGATIVE) bad = -INFINITY;
  if (trial->harm == SCALED) bad = 0.5 * largest;
  put(at, trial->kind->type, bad);
}

static int try(const struct ranks *self, tuttiComm_t comm, const struct trial *trial)
{
  static char in[MOST * 8], out[MOST * 8];
  const struct kind *kind = trial->kind;
  size_t count = (size_t)kind->count;
  int overflow = 77;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  if (kind->wire >= 0) options.wire_type = kind->wire;
  if (trial->harm == SCALED && trial->rank == self->rank) options.scale_before = 4;
  options.overflow = &overflow;
  for (size_t i = 0; i < count; i++)
    put(in + i * tt_type_size(kind->type), kind->type, (double)((int)(i + (size_t)self->rank) % 5 - 2));
  harm_put(self, trial, in);
  RANKS_CHECK(tuttiAllReduceWith(in, trial->in_place ? in : out, count, (tuttiDataType_t)kind->type, tuttiSum, &options,
                                 comm, NULL) == tuttiSuccess);
  if (overflow != expects(trial, self->nranks))
    fprintf(stderr, "%s as %d, count %d, harm %d of rank %d at %d, in place %d\n", tt_type_name(kind->type), kind->wire,
            kind->count, trial->harm, trial->rank, trial->place, trial->in_place);
  RANKS_CHECK(overflow == expects(trial, self->nranks));
  return 0;
}

static int every_algorithm_body(const struct ranks *self)
{
  const char *algo;
  for (int a = 0; (algo = wire_algo(a, self->nranks)); a++) {
    tuttiComm_t comm;
    if (algo_is_left_out(a, self->nranks)) continue;
    if (wire_comm(self, self->argument, algo, 4096, -1, &comm)) return 1;
    for (int k = (a / 2 + self->nranks) % 2; k < KINDS; k += 2)
      for (int harm = 0; harm < HARMS; harm++) {
        uint64_t state = (uint64_t)(k * 100 + harm * 10 + a);
        struct trial trial = {.kind = &kinds[k], .harm = harm, .rank = (int)below(&state, (size_t)self->nranks),
                              .in_place = (int)below(&state, 2)};
        int places[3] = {0, kinds[k].count - 1, (int)below(&state, (size_t)kinds[k].count)};
        trial.place = places[below(&state, 3)];
        if (try(self, comm, &trial)) {
          fprintf(stderr, "algorithm %s\n", algo);
          return 1;
        }
      }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void every_rank_learns_of_it_from_every_algorithm(void **state)
{
  static const int numbers[] = {1, 2, 3, 4, 5, 6, 9};
  size_t most = IS_SLOW ? 4 : sizeof numbers / sizeof *numbers; /* 2 to 4 ranks have each algorithm once */
  (void)state;
  for (size_t n = IS_SLOW; n < most; n++)
    for (int t = 0; t < (numbers[n] > 6 ? 1 : 2); t++) {
      if (IS_SLOW && n % 2 != (size_t)t) continue;
      struct meeting *meeting = meeting_make(numbers[n]);
      assert_int_equal(run_wire(t ? "tcp" : "shm", numbers[n], every_algorithm_body, meeting), 0);
      meeting_free(meeting);
    }
}

/* A single NaN on each rank in turn, in each block. */
static int every_place_body(const struct ranks *self)
{
  static const char *const algos[] = {"ring", "binary_blocks", "direct", "hierarchical"};
  static const struct kind small = {tuttiFloat32, tuttiFloat16, 41};
  for (size_t a = 0; a < sizeof algos / sizeof *algos; a++) {
    tuttiComm_t comm;
    if (wire_comm(self, self->argument, algos[a], 0, -1, &comm)) return 1;
    for (int rank = 0; rank < self->nranks; rank++)
      for (int place = 0; place < small.count; place++) {
        struct trial trial = {&small, NOT_A_NUMBER, rank, place, place % 2};
        struct trial well = {&small, NOTHING, rank, place, place % 2};
        if (try(self, comm, &trial) || try(self, comm, &well)) return 1; /* nothing is left of the one before */
      }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void every_rank_learns_of_it_at_every_place(void **state)
{
  (void)state;
  for (int nranks = 3; nranks <= 6; nranks += 3) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks == 3 ? "tcp" : "shm", nranks, every_place_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* Sums that leave the range on the way and may come back: no matter what is said, all say the same, and nobody says
 * that all is well of a result that is not. */
static int ranks_agree_body(const struct ranks *self)
{
  const char *algo;
  for (int a = 0; (algo = wire_algo(a, self->nranks)); a++) {
    tuttiComm_t comm;
    if (wire_comm(self, self->argument, algo, 4096, tuttiFloat16, &comm)) return 1;
    for (int turn = 0; turn < 8; turn++) {
      float x[300];
      int overflow = 77, is_well = 1;
      tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
      options.overflow = &overflow;
      for (int i = 0; i < 300; i++) x[i] = 1;
      x[turn * 37] = (self->rank * 7 + turn) % 3 ? 40000 : -50000;
      RANKS_CHECK(tuttiAllReduceWith(x, x, 300, tuttiFloat, tuttiSum, &options, comm, NULL) == tuttiSuccess);
      for (int i = 0; i < 300; i++) is_well &= isfinite(x[i]) != 0;
      RANKS_CHECK(overflow == 0 || overflow == 1);
      RANKS_CHECK(is_well || overflow);
      if (same_number(self, comm, (uint64_t)overflow)) return 1;
    }
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  }
  return 0;
}

static void ranks_agree_on_what_leaves_the_range_on_the_way(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 6 - 2 * IS_SLOW; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks % 2 ? "shm" : "tcp", nranks, ranks_agree_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* ---- what has nothing to tell, and the end ---- */

struct call {
  tuttiDataType_t type;
  size_t count;
  tuttiRedOp_t op;
  float after;
};

/* What an all-reduce in place reports; -1: it fails. */
static int reports(const struct ranks *self, tuttiComm_t comm, void *data, struct call call)
{
  int overflow = 77;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.overflow = &overflow;
  options.scale_after = call.after;
  tuttiResult_t result = tuttiAllReduceWith(data, data, call.count, call.type, call.op, &options, comm, NULL);
  if (result != tuttiSuccess) ranks_complain(self, __FILE__, __LINE__, "tuttiAllReduceWith");
  return result == tuttiSuccess ? overflow : -1;
}

static int edges_body(const struct ranks *self)
{
  tuttiComm_t comm;
  int32_t integers[8];
  uint16_t half[5];
  float x[5];
  if (wire_comm(self, self->argument, "", 0, tuttiFloat16, &comm)) return 1;
  memset(integers, 0xff, sizeof integers); /* as floats they would be NaN */
  RANKS_CHECK(reports(self, comm, integers, (struct call){tuttiInt32, 8, tuttiSum, 1}) == 0);
  RANKS_CHECK(reports(self, comm, integers, (struct call){tuttiUint8, 8, tuttiAvg, 1}) == 0);
  RANKS_CHECK(reports(self, comm, NULL, (struct call){tuttiFloat, 0, tuttiSum, 1}) == 0);
  RANKS_CHECK(reports(self, comm, NULL, (struct call){tuttiInt64, 0, tuttiSum, 1}) == 0);
  for (int i = 0; i < 5; i++) x[i] = 1000;
  RANKS_CHECK(reports(self, comm, x, (struct call){tuttiFloat, 5, tuttiSum, 1e30f}) == 0);
  RANKS_CHECK(x[4] == 1000.0f * (float)self->nranks * 1e30f);
  for (int i = 0; i < 5; i++) x[i] = 1000;
  RANKS_CHECK(reports(self, comm, x, (struct call){tuttiFloat, 5, tuttiSum, 3e38f}) == 1); /* only at the end */
  RANKS_CHECK(isinf(x[0]));
  for (int i = 0; i < 5; i++) half[i] = 0x6400; /* 1024 */
  RANKS_CHECK(reports(self, comm, half, (struct call){tuttiFloat16, 5, tuttiSum, 64}) == 1 && half[2] == 0x7c00);
  for (int i = 0; i < 5; i++) half[i] = 0x7bff; /* the largest: an average does not leave the range */
  RANKS_CHECK(reports(self, comm, half, (struct call){tuttiFloat16, 5, tuttiAvg, 1}) == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void edges_are_told_right(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 2; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire("shm", nranks, edges_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* Each call of a group, and each on a stream, has a report of its own. */
static int many_at_once_body(const struct ranks *self)
{
  enum { CALLS = 12, N = 3000 };
  static float x[CALLS][N];
  int overflow[CALLS];
  tuttiComm_t comm;
  tuttiStream_t stream;
  if (wire_comm(self, self->argument, "", 0, tuttiBfloat16, &comm)) return 1;
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int round = 0; round < 3; round++) { /* a group, a stream, a group on a stream */
    if (round != 1) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int c = 0; c < CALLS; c++) {
      tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER; /* need not live */
      options.overflow = &overflow[c];
      options.scale_after = (float)(c + 1);
      overflow[c] = 77;
      for (int i = 0; i < N; i++) x[c][i] = 1;
      if (c % 3 == 1 && self->rank == c % self->nranks) x[c][c * 200] = NAN;
      RANKS_CHECK(tuttiAllReduceWith(x[c], x[c], N, tuttiFloat, tuttiSum, &options, comm, round ? stream : NULL) ==
                  tuttiSuccess);
    }
    if (round != 1) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
    for (int c = 0; c < CALLS; c++) {
      RANKS_CHECK(overflow[c] == (c % 3 == 1));
      RANKS_CHECK(x[c][N - 1] == (float)(self->nranks * (c + 1)));
    }
  }
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void calls_at_once_have_reports_of_their_own(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 4; nranks++) {
    struct meeting *meeting = meeting_make(nranks);
    assert_int_equal(run_wire(nranks % 2 ? "tcp" : "shm", nranks, many_at_once_body, meeting), 0);
    meeting_free(meeting);
  }
}

/* ---- ranks as threads: who writes which report ---- */

static int threads_body(const struct ranks *self)
{
  enum { N = 9000, CALLS = 6 };
  tuttiComm_t comm;
  tuttiStream_t stream;
  int overflow[CALLS];
  float *x = malloc(CALLS * N * sizeof *x);
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.wire_type = tuttiFloat16;
  RANKS_CHECK(x && tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int c = 0; c < CALLS; c++) {
    tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
    options.overflow = &overflow[c];
    for (int i = 0; i < N; i++) x[c * N + i] = i % 7 == 0 && c == 3 && self->rank == 1 ? 70000 : 2;
    RANKS_CHECK(tuttiAllReduceWith(x + c * N, x + c * N, N, tuttiFloat, tuttiSum, &options, comm,
                                   c % 2 ? stream : NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
  for (int c = 0; c < CALLS; c++) {
    RANKS_CHECK(overflow[c] == (c == 3 && self->nranks > 1));
    RANKS_CHECK(x[c * N + 1] == (float)(2 * self->nranks));
  }
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  free(x);
  return 0;
}

/* From here on this process itself uses the library, so nothing can be forked any more. */
static void ranks_may_be_threads(void **state)
{
  static const char *const algos[] = {"", "ring", "recursive_doubling", "binary_blocks"};
  (void)state;
  setenv("TUTTI_SEGMENT_BYTES", "0", 1);
  for (int k = 0; k < 8; k++) {
    setenv("TUTTI_TRANSPORTS", k / 4 ? "tcp" : "shm", 1);
    setenv("TUTTI_ALGO", algos[k % 4], 1);
    for (int nranks = 1; nranks <= 5; nranks += 2)
      assert_int_equal(ranks_run_threads(nranks, threads_body, NULL, 100), 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_rank_learns_of_it_from_every_algorithm),
      cmocka_unit_test(every_rank_learns_of_it_at_every_place),
      cmocka_unit_test(ranks_agree_on_what_leaves_the_range_on_the_way),
      cmocka_unit_test(edges_are_told_right),
      cmocka_unit_test(calls_at_once_have_reports_of_their_own),
      cmocka_unit_test(ranks_may_be_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
