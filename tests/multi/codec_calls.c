/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduces with a codec: on every transport and number of ranks, called, in a group or on a stream, in place or not,
 * the bits are those that one process makes by the plain C codec, on all ranks. Calls that a codec is not for are
 * refused by name. Differing codecs and a rank that dies end the call on all ranks.
 * Labels: processes. */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "chance.h"
#include "codecs.h"
#include "meeting.h"
#include "ranks.h"
#include "reduce/reduce.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static const char *const rows[] = {"fp16",       "bf16",     "int8",     "int8:7",    "qsgd:4",     "qsgd:2,100",
                                   "qsgd:8,16",  "qsgd:5,9", "terngrad", "terngrad:0", "qsgd:3,40000"};
enum { ROWS = sizeof rows / sizeof *rows };

static const size_t counts[] = {0, 1, 63, 1000, 2049, 12345, 70001};
enum { COUNTS = sizeof counts / sizeof *counts };

enum how { CALLED, GROUPED, STREAMED, HOWS };

/* One call. */
struct trial {
  const char *codec;
  size_t count;
  int avg, in_place, is_hard, overflows, reports;
  enum how how;
  float before, after;
};

static struct trial trial_draw(uint64_t *state)
{
  struct trial trial = {.codec = rows[below(state, ROWS)], .before = 1, .after = 1};
  trial.count = counts[below(state, COUNTS)];
  trial.avg = (int)below(state, 2);
  trial.in_place = (int)below(state, 2);
  trial.is_hard = (int)below(state, 2);
  trial.overflows = below(state, 4) == 0;
  trial.reports = (int)below(state, 2);
  trial.how = (enum how)below(state, HOWS);
  if (below(state, 3) == 0) trial.before = -1.7f;
  if (below(state, 3) == 0) trial.after = 0.3f;
  return trial;
}

static void values_draw(const struct trial *trial, int rank, uint64_t number, float *to)
{
  uint64_t state = number * 64 + (uint64_t)rank;
  if (trial->is_hard) floats_draw_hard(to, trial->count, &state);
  else floats_draw(to, trial->count, &state);
  if (trial->overflows && trial->count && rank == 0) to[trial->count / 2] = INFINITY;
}

/* The result by the plain C codec. step: number of the coded call on its communicator, from 1 on. */
static void result_make(const struct trial *trial, int nranks, uint64_t number, uint32_t step, float *result)
{
  struct codec_world world;
  float **values = calloc((size_t)nranks, sizeof *values);
  const char *before = tt_reduce_table()->name;
  tt_reduce_choose("plain");
  codec_world_create(&world, trial->codec, nranks, trial->count);
  world.seed = 0;
  world.tensor = 0;
  world.step = step;
  for (int rank = 0; rank < nranks; rank++) {
    values[rank] = floats(trial->count);
    values_draw(trial, rank, number, values[rank]);
    for (size_t i = 0; i < trial->count; i++) values[rank][i] *= trial->before;
  }
  codec_world_reduce(&world, (const float *const *)values, result, NULL);
  float factor = (float)((double)trial->after / (trial->avg ? nranks : 1));
  for (size_t i = 0; i < trial->count; i++) result[i] *= factor;
  for (int rank = 0; rank < nranks; rank++) free(values[rank]);
  free(values);
  codec_world_destroy(&world);
  tt_reduce_choose(before);
}

static int same_floats(const float *a, const float *b, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(isnan(a[i]) && isnan(b[i]))) return 0;
  return 1;
}

static int trial_run(const struct ranks *self, tuttiComm_t comm, const struct trial *trial, uint64_t number)
{
  float *in = floats(trial->count), *out = trial->in_place ? in : floats(trial->count), *want = floats(trial->count);
  float *given = floats(trial->count);
  int overflow = 77, expected = 0;
  tuttiStream_t stream = NULL;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.codec = trial->codec;
  options.scale_before = trial->before;
  options.scale_after = trial->after;
  if (trial->reports) options.overflow = &overflow;
  values_draw(trial, self->rank, number, in);
  memcpy(given, in, trial->count * sizeof *in);
  if (trial->how == STREAMED) RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  if (trial->how == GROUPED) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(in, out, trial->count, tuttiFloat, trial->avg ? tuttiAvg : tuttiSum, &options, comm,
                                 stream) == tuttiSuccess);
  if (trial->how == GROUPED) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  if (stream) RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
  if (stream) RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  result_make(trial, self->nranks, number, (uint32_t)number, want);
  for (size_t i = 0; i < trial->count; i++) expected |= !isfinite(want[i]);
  if (!same_floats(out, want, trial->count))
    fprintf(stderr, "%s, %zu elements, avg %d, in place %d, hard %d, way %d, x %g, x %g\n", trial->codec, trial->count,
            trial->avg, trial->in_place, trial->is_hard, (int)trial->how, (double)trial->before, (double)trial->after);
  RANKS_CHECK(same_floats(out, want, trial->count));
  RANKS_CHECK(!trial->reports || overflow == expected);
  RANKS_CHECK(!trial->overflows || !trial->count || expected);
  if (!trial->in_place) RANKS_CHECK(memcmp(in, given, trial->count * sizeof *in) == 0);
  if (!trial->in_place) free(out);
  free(in);
  free(want);
  free(given);
  return 0;
}

static int bits_body(const struct ranks *self)
{
  tuttiComm_t comm;
  uint64_t state = 99;
  int trials = IS_SLOW ? 20 : 120;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 1; k <= trials; k++) {
    struct trial trial = trial_draw(&state);
    if (k <= ROWS) trial.codec = rows[k - 1]; /* each at least once */
    if (trial_run(self, comm, &trial, (uint64_t)k)) return 1;
    if (k % 7) continue;
    int x = 1; /* plain calls go in between */
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess && x == self->nranks);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void bits_are_those_of_the_plain_codec(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (int nranks = 1; nranks <= 5; nranks += 1 + 3 * IS_SLOW)
      assert_int_equal(ranks_run_processes(nranks, bits_body, NULL, 120), 0);
  }
  unsetenv("TUTTI_TRANSPORTS");
}

/* Several calls in one group, on two communicators, of which one call is plain. */
static int group_body(const struct ranks *self)
{
  enum { N = 5000 };
  tuttiComm_t comm[2];
  float *x[3], *want = floats(N);
  struct trial trial = {.codec = "qsgd:4", .count = N, .before = 1, .after = 1};
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.codec = trial.codec;
  RANKS_CHECK(tuttiCommInitRank(&comm[0], self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm[0], 0, self->rank, &comm[1], NULL) == tuttiSuccess);
  for (int k = 0; k < 3; k++) {
    x[k] = floats(N);
    values_draw(&trial, self->rank, (uint64_t)k, x[k]);
  }
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(x[0], x[0], N, tuttiFloat, tuttiSum, &options, comm[0], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(x[1], x[1], N, tuttiFloat, tuttiSum, &options, comm[1], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduceWith(x[2], x[2], N, tuttiFloat, tuttiSum, &options, comm[0], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int k = 0; k < 3; k++) {
    result_make(&trial, self->nranks, (uint64_t)k, k == 2 ? 2 : 1, want);
    RANKS_CHECK(same_floats(x[k], want, N));
    free(x[k]);
  }
  free(want);
  RANKS_CHECK(tuttiCommDestroy(comm[1]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm[0]) == tuttiSuccess);
  return 0;
}

/* Operations are used again: a coded one takes over what an earlier one of messages had, which has to serve a third. */
static int messages_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float x = 0, y[20], *sum = floats(1000);
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  int peer = 1 - self->rank;
  options.codec = "fp16";
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int round = 0; round < 3; round++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int k = 0; k < 20; k++) {
      RANKS_CHECK(tuttiSend(&x, 1, tuttiFloat, peer, comm, NULL) == tuttiSuccess);
      RANKS_CHECK(tuttiRecv(&y[k], 1, tuttiFloat, peer, comm, NULL) == tuttiSuccess);
    }
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    for (int k = 0; k < 2; k++)
      RANKS_CHECK(tuttiAllReduceWith(sum, sum, 1000, tuttiFloat, tuttiSum, &options, comm, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(sum);
  return 0;
}

static void messages_go_on_after_coded_calls(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, messages_body, NULL, 60), 0);
}

static void groups_carry_out_coded_calls(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, group_body, NULL, 60), 0);
}

/* ---- none ---- */

/* "none" is the plain call, whatever that is for, and matches it: rank 0 names none, the others give NULL. */
static int none_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.codec = self->rank ? NULL : "none";
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 3; k++) { /* called, in a group, on a stream */
    tuttiStream_t stream = NULL;
    int whole[2] = {self->rank, -self->rank}, last = self->nranks - 1;
    float x[3] = {0.1f, 1, (float)self->rank}, exact[3] = {0.1f, 1, (float)self->rank};
    if (k == 2) RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(exact, exact, 3, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
    if (k == 1) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    options.wire_type = TUTTI_CONFIG_UNDEF_INT;
    RANKS_CHECK(tuttiAllReduceWith(whole, whole, 2, tuttiInt, tuttiMax, &options, comm, stream) == tuttiSuccess);
    options.wire_type = tuttiFloat32;
    RANKS_CHECK(tuttiAllReduceWith(x, x, 3, tuttiFloat, tuttiSum, &options, comm, stream) == tuttiSuccess);
    if (k == 1) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    if (stream) RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
    if (stream) RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
    RANKS_CHECK(whole[0] == last && whole[1] == 0 && same_floats(x, exact, 3));
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void none_is_the_plain_call(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, none_body, NULL, 60), 0);
}

/* ---- refusals ---- */

#define REFUSED(call, words) RANKS_CHECK((call) == tuttiInvalidArgument && says(words))

static int refusals_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float x[4] = {1, 2, 3, 4};
  double wide = 1;
  int overflow = 0;
  tuttiRedOp_t mul;
  tuttiReduceOptions_t with = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  float two = 2;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&mul, &two, tuttiFloat, tuttiScalarHostImmediate, comm) == tuttiSuccess);
  with.codec = "zip";
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), "there is no codec \"zip\"");
  with.codec = "";
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), ", or none");
  with.codec = "qsgd:9";
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), "codec qsgd: BITS is \"9\"");
  with.codec = "1bit";
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), "use a fusion");
  with.codec = "dgc:0.9";
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), "options.codec is \"dgc:0.9,0.9,0\"");
  with.codec = "int8";
  REFUSED(tuttiAllReduceWith(&wide, &wide, 1, tuttiDouble, tuttiSum, &with, comm, NULL), "but type is double");
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiMax, &with, comm, NULL), "but op is max");
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, mul, &with, comm, NULL), "scale_before");
  REFUSED(tuttiAllReduceWith(x, x + 1, 3, tuttiFloat, tuttiSum, &with, comm, NULL), "overlaps");
  REFUSED(tuttiAllReduceWith(x, x, (size_t)1 << 31, tuttiFloat, tuttiSum, &with, comm, NULL), "at most 2147483647");
  with.wire_type = tuttiFloat16;
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), "set one of the two");
  with.wire_type = TUTTI_CONFIG_UNDEF_INT;
  with.overflow = &overflow;
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  with.codec = "zip";
  REFUSED(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL), "zip");
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidArgument);
  with.codec = "fp16";
  RANKS_CHECK(tuttiAllReduceWith(x, x, 4, tuttiFloat, tuttiSum, &with, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x[3] == 4 * (float)self->nranks && overflow == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void what_a_codec_is_not_for_is_refused(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, refusals_body, NULL, 60), 0);
}

/* ---- differences ---- */

struct difference {
  const char *codec[2]; /* NULL: none */
  float after[2];
  const char *words[2];
};

static int differ_body(const struct ranks *self)
{
  const struct difference *difference = self->argument;
  int odd = self->rank == 1;
  size_t count = 10000;
  tuttiComm_t comm;
  float *x = floats(count);
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.codec = difference->codec[odd];
  options.scale_after = difference->after[odd];
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  tuttiResult_t result = tuttiAllReduceWith(x, x, count, tuttiFloat, tuttiSum, &options, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(comm_says(comm, difference->words[0]) && comm_says(comm, difference->words[1]));
  RANKS_CHECK(comm_says(comm, "rank 1"));
  tuttiCommDestroy(comm);
  free(x);
  return 0;
}

static void differing_codecs_are_named_on_all_ranks(void **state)
{
  static const struct difference kinds[] = {
      {{"int8", "qsgd:4"}, {1, 1}, {"codec int8:256)", "codec qsgd:4,512)"}},
      {{"int8:64", "int8"}, {1, 1}, {"codec int8:64)", "codec int8:256)"}},
      {{"fp16", "bf16"}, {1, 1}, {"codec fp16)", "codec bf16)"}},
      {{"terngrad:2", "terngrad"}, {1, 1}, {"codec terngrad:2)", "codec terngrad:2.5)"}},
      {{"int8", NULL}, {1, 1}, {"codec int8:256)", "float, sum)"}},
      {{"int8", "int8"}, {0.5f, 1}, {"codec int8, scale_after 0.5)", "codec int8)"}},
  };
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
      assert_int_equal(ranks_run_processes(3, differ_body, (void *)(uintptr_t)&kinds[k], 30), 0);
  }
  unsetenv("TUTTI_TRANSPORTS");
  unsetenv("TUTTI_DEBUG");
}

/* ---- deaths ---- */

static int death_body(const struct ranks *self)
{
  const int *late_us = self->argument;
  size_t count = 300000;
  tuttiComm_t comm;
  float *x = floats(count);
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  options.codec = "qsgd:4";
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 1) ualarm((useconds_t)*late_us, 0); /* kills it */
  tuttiResult_t result = tuttiSuccess;
  while (result == tuttiSuccess)
    result = tuttiAllReduceWith(x, x, count, tuttiFloat, tuttiSum, &options, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError && comm_says(comm, "rank 1"));
  tuttiCommDestroy(comm);
  free(x);
  return 0;
}

static void a_death_in_mid_reduction_ends_it_on_all_ranks(void **state)
{
  uint64_t chance = 5;
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (int k = 0; k < 3; k++) {
      int late_us = 1000 + (int)below(&chance, 30000);
      setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
      assert_int_equal(ranks_run_processes(4, death_body, &late_us, 30), 1); /* the one that died */
    }
  unsetenv("TUTTI_TRANSPORTS");
  unsetenv("TUTTI_DEBUG");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_of_the_plain_codec),
      cmocka_unit_test(groups_carry_out_coded_calls),
      cmocka_unit_test(messages_go_on_after_coded_calls),
      cmocka_unit_test(none_is_the_plain_call),
      cmocka_unit_test(what_a_codec_is_not_for_is_refused),
      cmocka_unit_test(differing_codecs_are_named_on_all_ranks),
      cmocka_unit_test(a_death_in_mid_reduction_ends_it_on_all_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
