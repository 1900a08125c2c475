/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions that go on over the communicator of a shrink or a grow: step after step the bits of every tensor are those of
 * the plain codec, or of the equations of an update, with the state of before in the places where it belongs. So each
 * contribution counts once, and only what ranks that are gone have kept is lost.
 * Labels: processes. */
#include <signal.h>

#include "codecs.h"
#include "comm/coded.h"
#include "fusion/private.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static const tuttiFusionTensor_t tensors[] = {
    {"w0", 5000, tuttiFloat32}, {"b0", 10, tuttiFloat32}, {"none", 0, tuttiFloat32}, {"w1", 2049, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

#define LEAST 1000
#define RANKS_MOST 5
#define RATE 0.25f
#define MOMENTUM 0.875f

/* ---- the reference: the state of all ranks ---- */

struct reference {
  const char *codec; /* NULL: owners update weights */
  int nranks, members[RANKS_MOST]; /* who they are, in the order of their ranks */
  uint64_t steps;
  struct codec_world worlds[TENSORS];
  float *w[TENSORS], *v[TENSORS];
};

static int has_codec(const struct reference *r, int t)
{
  return r->codec && strcmp(r->codec, "none") != 0 && tensors[t].count >= LEAST;
}

static void worlds_make(struct reference *r)
{
  for (int t = 0; t < TENSORS; t++) {
    if (!has_codec(r, t)) continue;
    codec_world_create(&r->worlds[t], r->codec, r->nranks, tensors[t].count);
    r->worlds[t].seed = 0;
    r->worlds[t].tensor = (uint32_t)t;
  }
}

static void reference_make(struct reference *r, const char *codec, int nranks)
{
  uint64_t state = 5;
  *r = (struct reference){.codec = codec, .nranks = nranks};
  for (int m = 0; m < nranks; m++) r->members[m] = m;
  for (int t = 0; t < TENSORS; t++) {
    r->w[t] = floats(tensors[t].count);
    r->v[t] = floats(tensors[t].count);
    floats_draw(r->w[t], tensors[t].count, &state);
  }
  worlds_make(r);
}

static void reference_free(struct reference *r)
{
  for (int t = 0; t < TENSORS; t++) {
    if (has_codec(r, t)) codec_world_destroy(&r->worlds[t]);
    free(r->w[t]);
    free(r->v[t]);
  }
}

/* Whose element it is (tutti_fusion.h, comm/coded.h). */
static int owner_of(const struct reference *r, int t, uint64_t e)
{
  static const struct tt_codec none;
  uint64_t turns = 0, unit = 1;
  for (int k = 0; k <= t; k++) {
    if (!tensors[k].count || (r->codec && !has_codec(r, k))) continue;
    unit = tt_coded_unit(r->codec ? &r->worlds[k].codec : &none, tensors[k].count, r->nranks);
    if (k < t) turns += (tensors[k].count + unit - 1) / unit;
  }
  return (int)((e / unit + turns) % (uint64_t)r->nranks);
}

static int rank_of(const struct reference *r, int member)
{
  for (int rank = 0; rank < r->nranks; rank++)
    if (r->members[rank] == member) return rank;
  return -1;
}

/* Goes on with these ranks. Those that are gone take with them what they owned. */
static void reference_move(struct reference *r, const int *members, int n)
{
  struct reference old = *r;
  r->nranks = n;
  memcpy(r->members, members, (size_t)n * sizeof *members);
  worlds_make(r);
  for (int t = 0; t < TENSORS; t++) {
    int is_coded = has_codec(r, t);
    for (int rank = 0; rank < n && is_coded; rank++)
      for (int p = 0; p < TT_CODEC_PLANES; p++) {
        int was = rank_of(&old, members[rank]);
        float *to = r->worlds[t].planes[rank * TT_CODEC_PLANES + p];
        if (to && was >= 0)
          memcpy(to, old.worlds[t].planes[was * TT_CODEC_PLANES + p], tensors[t].count * sizeof *to);
      }
    for (uint64_t e = 0; e < tensors[t].count; e++) {
      int is_lost = (is_coded || !r->codec) && rank_of(r, old.members[owner_of(&old, t, e)]) < 0;
      for (int p = 0; p < TT_CODEC_PLANES && is_coded; p++)
        if (r->worlds[t].owner[p]) r->worlds[t].owner[p][e] = is_lost ? 0 : old.worlds[t].owner[p][e];
      if (is_lost) r->v[t][e] = 0;
    }
    if (is_coded) codec_world_destroy(&old.worlds[t]);
  }
}

static void values_draw(int t, int member, uint64_t step, float *to)
{
  uint64_t state = ((uint64_t)t * 64 + (uint64_t)member) * 4096 + step;
  floats_draw(to, tensors[t].count, &state);
}

/* The results of the next step. */
static void reference_step(struct reference *r, int t, float *result)
{
  float *values[RANKS_MOST];
  uint64_t step = r->steps + 1;
  for (int rank = 0; rank < r->nranks; rank++) {
    values[rank] = floats(tensors[t].count);
    values_draw(t, r->members[rank], step, values[rank]);
  }
  if (has_codec(r, t)) {
    r->worlds[t].step = (uint32_t)step;
    codec_world_reduce(&r->worlds[t], (const float *const *)values, result, NULL);
  }
  for (uint64_t e = 0; e < tensors[t].count && !has_codec(r, t); e++) {
    float sum = 0; /* without rounding */
    for (int rank = 0; rank < r->nranks; rank++) sum += values[rank][e];
    result[e] = sum;
    if (r->codec) continue;
    r->v[t][e] = MOMENTUM * r->v[t][e] + sum;
    r->w[t][e] = r->w[t][e] - RATE * r->v[t][e];
    result[e] = r->w[t][e];
  }
  for (int rank = 0; rank < r->nranks; rank++) free(values[rank]);
}

/* ---- the fusion ---- */

static tuttiResult_t fusion_make(tuttiFusion_t *fusion, tuttiComm_t comm, const struct reference *r)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = "threshold:8192";
  config.codec_least = LEAST;
  config.codec = r->codec;
  config.update = r->codec ? NULL : "momentum:0.875";
  config.rate = r->codec ? 0 : RATE;
  return tuttiFusionCreate(fusion, comm, tensors, TENSORS, &config);
}

static int weights_give(const struct ranks *self, tuttiFusion_t fusion, const struct reference *r)
{
  for (int t = 0; t < TENSORS && !r->codec; t++)
    RANKS_CHECK(tuttiFusionState(fusion, t, 0, r->w[t], tensors[t].count, 1) == tuttiSuccess);
  return 0;
}

static int step_push(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step)
{
  for (int t = TENSORS - 1; t >= 0; t--) {
    values_draw(t, self->rank, step, (float *)(void *)(g->in + g->at[t]));
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  return 0;
}

/* One step; the fusion says which one it was. */
static int step_run(const struct ranks *self, tuttiFusion_t fusion, struct reference *r)
{
  struct gradients g;
  tuttiFusionInfo_t info = {.size = sizeof info};
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 64, 0));
  RANKS_CHECK(step_push(self, fusion, &g, r->steps + 1) == 0);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) {
    float *want = floats(tensors[t].count);
    reference_step(r, t, want);
    int is_same = memcmp(want, g.out + g.at[t], tensors[t].count * sizeof *want) == 0;
    if (!is_same)
      fprintf(stderr, "codec %s, %d ranks, step %llu, tensor %d\n", r->codec ? r->codec : "(update)", r->nranks,
              (unsigned long long)r->steps + 1, t);
    RANKS_CHECK(is_same);
    free(want);
  }
  r->steps++;
  for (; info.state_step < r->steps; usleep(50)) /* the engine ends the step behind the wait */
    RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess && info.steps == r->steps);
  RANKS_CHECK(info.state_step == r->steps);
  gradients_free(&g);
  return 0;
}

static int steps_run(const struct ranks *self, tuttiFusion_t fusion, struct reference *r, int n)
{
  for (int k = 0; k < n; k++)
    if (step_run(self, fusion, r)) return 1;
  return 0;
}

/* ---- three ranks, two of them, and two new ones with these ---- */

struct job {
  struct meeting *meeting;
  const char *const *codecs;
};

/* Masters that a rank has taken with it are missed by the next push. */
static int missing_weights_give(const struct ranks *self, tuttiFusion_t fusion, const struct reference *r)
{
  float x[5000] = {0};
  if (r->codec) return 0;
  RANKS_CHECK(tuttiFusionPush(fusion, 0, x, x, 5000, tuttiFloat32, NULL) == tuttiInvalidUsage);
  RANKS_CHECK(says("has no weights"));
  return weights_give(self, fusion, r);
}

static int moves_of(const struct ranks *self, struct job *job, tuttiComm_t comm, const char *codec)
{
  static const int two[] = {0, 2}, four[] = {0, 2, 3, 4};
  int exclude[] = {1}, is_old = self->rank < 3;
  struct reference reference, *r = &reference;
  tuttiFusion_t fusion = NULL;
  tuttiComm_t left = NULL, grown = NULL;
  tuttiUniqueId id;
  reference_make(r, codec, 3);
  if (is_old) {
    RANKS_CHECK(fusion_make(&fusion, comm, r) == tuttiSuccess && weights_give(self, fusion, r) == 0);
    if (steps_run(self, fusion, r, 2)) return 1;
  } else {
    float *unused = floats(5000);
    for (; r->steps < 2; r->steps++)
      for (int t = 0; t < TENSORS; t++) reference_step(r, t, unused);
    free(unused);
  }
  reference_move(r, two, 2);
  if (is_old && self->rank != 1) {
    RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &left, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionMove(&fusion, left) == tuttiSuccess && missing_weights_give(self, fusion, r) == 0);
    if (steps_run(self, fusion, r, 2)) return 1;
  } else {
    float *unused = floats(5000);
    for (; r->steps < 4; r->steps++)
      for (int t = 0; t < TENSORS; t++) reference_step(r, t, unused);
    free(unused);
  }
  RANKS_CHECK(meeting_id(job->meeting, self->rank == 0, &id));
  reference_move(r, four, 4);
  if (self->rank != 1) {
    RANKS_CHECK(tuttiCommGrow(left, 4, &id, is_old ? -1 : self->rank - 1, &grown, NULL) == tuttiSuccess);
    if (is_old) RANKS_CHECK(tuttiFusionMove(&fusion, grown) == tuttiSuccess);
    else RANKS_CHECK(fusion_make(&fusion, grown, r) == tuttiSuccess);
    if (steps_run(self, fusion, r, 3)) return 1;
  }
  RANKS_CHECK(meeting_wait(job->meeting) && tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(!grown || tuttiCommDestroy(grown) == tuttiSuccess);
  RANKS_CHECK(!left || tuttiCommDestroy(left) == tuttiSuccess);
  reference_free(r);
  return 0;
}

static int moves_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiComm_t comm = NULL;
  if (self->rank < 3) RANKS_CHECK(tuttiCommInitRank(&comm, 3, self->id, self->rank) == tuttiSuccess);
  for (int c = 0; job->codecs[c]; c++)
    if (moves_of(self, job, comm, job->codecs[c][0] ? job->codecs[c] : NULL)) return 1;
  RANKS_CHECK(!comm || tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void run(const char *transports, const char *const *ways)
{
  struct job *job = ranks_shared(sizeof *job);
  *job = (struct job){meeting_make(5), ways};
  assert_int_equal(run_fusion(transports, 5, moves_body, job), 0);
}

static void planes_of_codecs_move_with_their_ranks_and_to_their_owners(void **state)
{
  static const char *const ways[] = {"1bit", "dgc:0.75", "qsgd:4", "none", NULL}, *const one[] = {"1bit", NULL};
  (void)state;
  run("shm", ways);
  run("tcp", one);
}

static void weights_and_what_updates_keep_move_to_their_owners(void **state)
{
  static const char *const update[] = {"", NULL};
  (void)state;
  run("shm", update);
  run("tcp", update);
}

/* ---- a fusion that has failed ---- */

/* Makes this rank one that has not ended the last step, which the others have. */
static void step_unend(struct tuttiFusion *fusion)
{
  struct coding *coding = &fusion->coding;
  coding->step--;
  coding->past.kept = KEPT_NOTHING;
  for (int t = 0; t < TENSORS; t++)
    for (int p = 0; p < TT_CODEC_PLANES; p++)
      for (int stage = 0; stage < 2; stage++) {
        float *plane = coding->tensors[t].planes[stage][p];
        coding->tensors[t].planes[stage][p] = coding->tensors[t].changed[stage][p];
        coding->tensors[t].changed[stage][p] = plane;
      }
}

/* Rank 2 dies in step 4, after a step that rank 0 has not ended: it goes on from the state of step 2, on both. */
static int behind_body(const struct ranks *self)
{
  static const int two[] = {0, 1};
  struct reference reference, before, *r = &reference;
  struct gradients g;
  tuttiFusion_t fusion;
  tuttiComm_t comm, left;
  _Atomic int *came = self->argument; /* behind the barrier */
  int failed[3], n = 3;
  reference_make(r, "drop:0.75", 3);
  reference_make(&before, "drop:0.75", 3);
  RANKS_CHECK(tuttiCommInitRank(&comm, 3, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, comm, r) == tuttiSuccess && steps_run(self, fusion, r, 3) == 0);
  float *unused = floats(5000);
  for (; before.steps < 2; before.steps++)
    for (int t = 0; t < TENSORS; t++) reference_step(&before, t, unused);
  free(unused);
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  if (self->rank == 2) {
    while (atomic_load(came) < 2) usleep(1000);
    raise(SIGKILL);
  }
  atomic_fetch_add(came, 1);
  while (tuttiBarrier(comm, NULL) == tuttiSuccess) continue;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 0));
  if (self->rank == 0) step_unend(fusion);
  RANKS_CHECK(tuttiCommGetFailed(comm, failed, &n) == tuttiSuccess && n == 1 && failed[0] == 2);
  RANKS_CHECK(tuttiCommShrink(comm, failed, n, &left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionMove(&fusion, left) == tuttiSuccess);
  reference_move(&before, two, 2);
  if (steps_run(self, fusion, &before, 3)) return 1;
  tuttiCommDestroy(comm);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(left) == tuttiSuccess);
  gradients_free(&g);
  reference_free(&before);
  reference_free(r);
  return 0;
}

static void a_rank_that_is_a_step_ahead_takes_it_back(void **state)
{
  int pids[3];
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_start(3, behind_body, ranks_shared(sizeof(_Atomic int)), pids), 0);
  for (int rank = 0; rank < 3; rank++) assert_int_equal(ranks_wait(pids[rank], 60), rank == 2 ? 128 + SIGKILL : 0);
}

/* Rank 0 has encoded contributions of the step after: what it kept before the last step is gone. */
static int ahead_body(const struct ranks *self)
{
  struct reference reference, *r = &reference;
  struct gradients g;
  tuttiFusion_t fusion, same;
  tuttiComm_t comm, left;
  float *plane = floats(5000);
  reference_make(r, "drop:0.75", 2);
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, comm, r) == tuttiSuccess && steps_run(self, fusion, r, 2) == 0);
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 0));
  if (self->rank == 0) {
    RANKS_CHECK(step_push(self, fusion, &g, 3) == 0);
    RANKS_CHECK(tuttiFusionMove(&fusion, comm) == tuttiInvalidUsage && says("step 3 is under way"));
    while (__atomic_load_n(&fusion->coding.past.kept, __ATOMIC_RELAXED) != KEPT_NOTHING) usleep(200);
  } else { /* so that the message without a codec goes on its way, and the one with it begins on rank 0 */
    for (int t = 2; t > 0; t--) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(meeting_wait(self->argument) && tuttiFusionAbort(fusion) == tuttiSuccess);
  if (self->rank == 1) step_unend(fusion);
  same = fusion;
  RANKS_CHECK(tuttiCommShrink(comm, NULL, 0, &left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionMove(&fusion, left) == tuttiInvalidUsage && fusion == same);
  RANKS_CHECK(says("rank 0 has the state of step 2") && says("step 1") && says("tuttiFusionState"));
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, plane, 5000, 0) == tuttiSuccess); /* it can still be read */
  tuttiFusionDestroy(fusion);
  tuttiCommDestroy(comm);
  RANKS_CHECK(tuttiCommDestroy(left) == tuttiSuccess);
  gradients_free(&g);
  reference_free(r);
  free(plane);
  return 0;
}

static void a_step_that_cannot_be_taken_back_is_told_on_all_ranks(void **state)
{
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 2, ahead_body, meeting_make(2)), 0);
}

/* Rank 0 has moved its fusion, and rank 1 has not: what they own overlaps, or belongs to neither. */
static int apart_body(const struct ranks *self)
{
  struct reference reference, *r = &reference;
  tuttiFusion_t fusion, same;
  tuttiComm_t comm, own, all;
  reference_make(r, self->argument, 2);
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, comm, r) == tuttiSuccess && weights_give(self, fusion, r) == 0);
  if (steps_run(self, fusion, r, 2)) return 1;
  RANKS_CHECK(tuttiCommSplit(comm, self->rank, 0, &own, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &all, NULL) == tuttiSuccess);
  if (self->rank == 0) RANKS_CHECK(tuttiFusionMove(&fusion, own) == tuttiSuccess);
  same = fusion;
  RANKS_CHECK(tuttiFusionMove(&fusion, all) == tuttiInvalidUsage && fusion == same);
  RANKS_CHECK(says("ranks 0 and 1 bring fusions that two calls have made") && says("tuttiFusionState"));
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(all) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(own) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  reference_free(r);
  return 0;
}

static void fusions_of_two_calls_do_not_become_one(void **state)
{
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 2, apart_body, NULL), 0);
  assert_int_equal(run_fusion_quietly("shm", 2, apart_body, (char[]){"1bit"}), 0);
}

static int refused_body(const struct ranks *self)
{
  struct reference reference, *r = &reference;
  tuttiFusion_t fusion = NULL, none = NULL;
  tuttiComm_t comm, all;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  reference_make(r, "1bit", 2);
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, comm, r) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &all, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionMove(NULL, comm) == tuttiInvalidArgument && says("fusion is NULL"));
  RANKS_CHECK(tuttiFusionMove(&none, comm) == tuttiInvalidArgument && says("fusion is NULL"));
  RANKS_CHECK(tuttiFusionMove(&fusion, NULL) == tuttiInvalidArgument && says("comm is NULL"));
  config.codec = "1bit:64"; /* a new rank with another codec */
  config.codec_least = LEAST;
  config.policy = "threshold:8192";
  tuttiResult_t result = self->rank ? tuttiFusionCreate(&none, all, tensors, TENSORS, &config)
                                    : tuttiFusionMove(&fusion, all);
  RANKS_CHECK(result == tuttiInvalidUsage && says("codec (TUTTI_FUSION_CODEC) is 1bit:64 on rank 1"));
  if (steps_run(self, fusion, r, 1)) return 1; /* it goes on where it was */
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  config = (tuttiFusionConfig_t)TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = "sgd";
  config.quorum = 2;
  tuttiFusion_t served; /* likewise with servers, which have not ended then */
  float x[2049] = {0};
  static const tuttiFusionTensor_t one = {"x", 2049, tuttiFloat32};
  RANKS_CHECK(tuttiFusionCreate(&served, comm, &one, 1, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(served, 0, 0, x, 2049, 1) == tuttiSuccess);
  config.update = "momentum";
  result = self->rank ? tuttiFusionCreate(&none, all, &one, 1, &config) : tuttiFusionMove(&served, all);
  RANKS_CHECK(result == tuttiInvalidUsage && says("update is momentum:0.899999976,0 on rank 1"));
  RANKS_CHECK(tuttiFusionPush(served, 0, x, x, 2049, tuttiFloat32, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(served) == tuttiSuccess && tuttiFusionDestroy(served) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(all) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  reference_free(r);
  return 0;
}

static void what_cannot_move_stays_as_it_is(void **state)
{
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 2, refused_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(planes_of_codecs_move_with_their_ranks_and_to_their_owners),
      cmocka_unit_test(weights_and_what_updates_keep_move_to_their_owners),
      cmocka_unit_test(a_rank_that_is_a_step_ahead_takes_it_back),
      cmocka_unit_test(a_step_that_cannot_be_taken_back_is_told_on_all_ranks),
      cmocka_unit_test(fusions_of_two_calls_do_not_become_one),
      cmocka_unit_test(what_cannot_move_stays_as_it_is),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
