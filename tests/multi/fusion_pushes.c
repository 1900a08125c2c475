/* SPDX-License-Identifier: BSD-3-Clause */
/* Pushes by a codec of which some do not count: each rank repeats its own by the public functions of codecs. What the
 * codec has left out is, after each step, that of the steps that counted, as if no other had been; and weights are the
 * sums of what was decoded of these. So it is after deaths, and after a move to another communicator.
 * Labels: processes. */
#include <signal.h>
#include <unistd.h>

#include "codecs.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT 4000
#define STEPS 12
#define DEATH 5 /* the step in which rank 1 dies */
#define BEFORE 4 /* factor of contributions, which their results lose; with a staleness before they are encoded */

static const tuttiFusionTensor_t tensor = {"w", COUNT, tuttiFloat32};

/* Sums of exact codecs are, too. Tensors have one owner, so a contribution counts as a whole. */
struct task {
  const char *codec;
  int is_exact, left_out, staleness, dies; /* quorum: all ranks but `left_out`; with a staleness 1 */
};

struct shared {
  struct task task;
  _Atomic uint64_t updates; /* that rank 0 has seen */
};

struct job {
  const struct task *task;
  tuttiFusion_t fusion;
  tuttiFusionInfo_t info;
  struct codec_world world; /* of this rank alone */
  float *kept[TT_CODEC_PLANES], *counted; /* planes before the step; the sum of what counts */
  float in[COUNT], out[COUNT];
};

static tuttiResult_t add(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] += shard->gradient[i];
  return tuttiSuccess;
}

static int job_begin(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = "function";
  config.function = add;
  config.codec = job->task->codec;
  config.quorum = job->task->staleness ? 1 : self->nranks - job->task->left_out;
  config.staleness = job->task->staleness;
  job->info.size = sizeof job->info;
  RANKS_CHECK(tuttiFusionCreate(&job->fusion, comm, &tensor, 1, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(job->fusion, 0, 0, job->out, COUNT, 1) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionScale(job->fusion, BEFORE, 1.0f / BEFORE) == tuttiSuccess);
  codec_world_create(&job->world, job->task->codec, 1, COUNT);
  job->world.seed = job->world.tensor = 0;
  job->world.first_rank = self->rank;
  for (int p = 0; p < TT_CODEC_PLANES; p++) job->kept[p] = floats(COUNT);
  job->counted = floats(COUNT);
  return 0;
}

static void job_free(struct job *job)
{
  codec_world_destroy(&job->world);
  for (int p = 0; p < TT_CODEC_PLANES; p++) free(job->kept[p]);
  free(job->counted);
  free(job);
}

/* The same push by the functions of codecs. */
static void repeat(struct job *job, int counts)
{
  static float unused[COUNT], sent[COUNT], scaled[COUNT];
  const float *in = scaled;
  float *to = sent, before = job->task->staleness ? 1 : BEFORE;
  uint32_t wanted = job->world.wanted;
  for (int p = 0; p < TT_CODEC_PLANES && job->world.planes[p]; p++)
    memcpy(job->kept[p], job->world.planes[p], sizeof job->in);
  job->world.step = (uint32_t)job->info.steps;
  for (int e = 0; e < COUNT; e++) scaled[e] = job->in[e] * before;
  codec_world_reduce(&job->world, &in, unused, &to);
  for (int e = 0; e < COUNT && counts; e++) job->counted[e] += sent[e] / before;
  if (counts) return;
  job->world.wanted = wanted;
  for (int p = 0; p < TT_CODEC_PLANES && job->world.planes[p]; p++)
    memcpy(job->world.planes[p], job->kept[p], sizeof job->in);
}

static int step_run(const struct ranks *self, struct job *job)
{
  static float plane[COUNT];
  uint64_t dropped = job->info.dropped, state = (uint64_t)self->rank * 4096 + job->info.steps;
  floats_draw(job->in, COUNT, &state);
  RANKS_CHECK(tuttiFusionPush(job->fusion, 0, job->in, job->out, COUNT, tuttiFloat32, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(job->fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  repeat(job, job->info.dropped == dropped);
  for (int p = 0; p < TT_CODEC_PLANES && job->world.planes[p]; p++) {
    RANKS_CHECK(tuttiFusionState(job->fusion, 0, 1 + p, plane, COUNT, 0) == tuttiSuccess);
    for (int e = 0; e < COUNT; e++)
      RANKS_CHECK(plane[e] == job->world.planes[p][e] / (job->task->staleness ? 1 : BEFORE));
  }
  return 0;
}

/* The masters of all ranks are the sum of what counted on all. */
static int masters_check(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  static float masters[COUNT];
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(job->fusion, 0, 0, masters, COUNT, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(masters, masters, COUNT, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(job->counted, job->counted, COUNT, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(!job->task->is_exact || memcmp(masters, job->counted, sizeof masters) == 0);
  return 0;
}

/* The last rank is slow: its first push comes when the others have made so many updates without it that it is late, or
 * too stale. */
static int push_body(const struct ranks *self)
{
  struct shared *shared = self->argument;
  struct job *job = calloc(1, sizeof *job);
  tuttiComm_t comm, beside = NULL;
  int is_slow = self->rank == self->nranks - 1;
  int has_lengths = strchr("at", shared->task.codec[0]) != NULL; /* adacomp, threshold: these begin anew */
  int moves = !shared->task.dies && !has_lengths;
  job->task = &shared->task;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_begin(self, job, comm) == 0);
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0); /* it is made on all ranks */
  while (is_slow && atomic_load(&shared->updates) < STEPS / 2) usleep(500);
  for (int n = 0; job->task->staleness ? n < STEPS : job->info.updates < STEPS; n++) {
    if (job->task->dies && self->rank == 1 && n == DEATH) raise(SIGKILL);
    if (moves && (job->task->staleness ? n : (int)job->info.updates) >= STEPS - 4) {
      RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &beside, NULL) == tuttiSuccess);
      RANKS_CHECK(tuttiFusionMove(&job->fusion, beside) == tuttiSuccess);
      moves = 0;
    }
    RANKS_CHECK(step_run(self, job) == 0);
    if (is_slow && n == 0) RANKS_CHECK(job->info.dropped == 1);
    if (is_slow) usleep(1500);
    if (self->rank == 0) atomic_store(&shared->updates, job->info.updates);
  }
  if (job->task->dies && self->rank == 1) raise(SIGKILL); /* the others made all updates before its push DEATH */
  if (!job->task->dies) RANKS_CHECK(masters_check(self, job, comm) == 0);
  RANKS_CHECK(tuttiFusionDestroy(job->fusion) == tuttiSuccess);
  job_free(job);
  if (!shared->task.dies && !has_lengths) RANKS_CHECK(tuttiCommDestroy(beside) == tuttiSuccess);
  if (shared->task.dies) tuttiCommAbort(comm);
  else RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void run(const char *transport, int nranks, struct task task)
{
  struct shared *shared = ranks_shared(sizeof *shared);
  shared->task = task;
  assert_int_equal(run_fusion(transport, nranks, push_body, shared), task.dies);
}

static void what_late_pushes_leave_out_is_forgotten(void **state)
{
  static const char *const texts[] = {"drop:0.9", "1bit:4096", "dgc:0.9", "threshold:0.5", "1bit:64"};
  (void)state;
  for (int k = 0; k < 5; k++) {
    struct task task = {.codec = texts[k], .is_exact = k % 3 == 0, .left_out = 1 + (k == 1)};
    run(ranks_transports(ranks_transports(1) ? k % 2 : 0), 3 + task.left_out % 2, task);
  }
}

static void what_stale_pushes_leave_out_is_forgotten(void **state)
{
  static const char *const texts[] = {"drop:0.9", "adacomp:50", "1bit:4096"};
  (void)state;
  for (int k = 0; k < 3; k++)
    run(ranks_transports(ranks_transports(1) ? k % 2 : 0), 3, (struct task){texts[k], k == 0, 0, 1, 0});
}

static void pushes_go_on_after_a_death(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  run("shm", 4, (struct task){"1bit:64", 0, 2, 0, 1});
  run("tcp", 4, (struct task){"drop:0.9", 0, 2, 0, 1});
  unsetenv("TUTTI_DEBUG");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_late_pushes_leave_out_is_forgotten),
                                     cmocka_unit_test(what_stale_pushes_leave_out_is_forgotten),
                                     cmocka_unit_test(pushes_go_on_after_a_death)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
