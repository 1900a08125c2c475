/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions with servers that go on over the communicator of a shrink, after a death, and of a grow, with a new rank:
 * weights tell which contributions are in them, so each one counts at most once, and those of live ranks exactly once,
 * unless `dropped` says otherwise; what the update keeps beside the weights moves bit by bit. Codecs keep what they
 * kept before a step of which not all was answered.
 * Labels: processes. */
#include <signal.h>
#include <unistd.h>

#include "counted_ranks.h"
#include "meeting.h"
#include "tagged_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define OLD 3   /* ranks of the first communicator; process 1 dies */
#define ALL 4   /* process 3 is new */
#define DEATH 5 /* updates after which process 1 dies */
#define LEFT 9  /* after which the others shrink; then they grow, and move once more: */
#define GROWN 14
#define AGAIN 19

struct task {
  struct meeting *meeting;
  int quorum;                /* of tagged steps; OLD: all of any set */
  int is_amid;               /* process 1 dies in the middle of its pushes */
  const struct rule *rule;   /* of counted steps */
  _Atomic int ready;
  _Atomic int began[COUNTERS];
  float values[ALL][TAGS];
};

/* ---- steps of which each weight tells the contributors ---- */

struct walk {
  struct task *task;
  struct life life;
  tuttiComm_t comm;
};

static int wants_all(const struct walk *walk)
{
  return walk->task->quorum == OLD;
}

static int tagged_step(const struct ranks *self, struct walk *walk)
{
  RANKS_CHECK(life_step(self, &walk->life) == 0);
  for (size_t tag = 0; tag < TAGS; tag++) {
    unsigned value = (unsigned)weight_of(&walk->life.job, 0, tag);
    RANKS_CHECK(value < 1 << ALL && (tag < DEATH || !(value & 2))); /* 2: of the dead, */
    RANKS_CHECK(tag >= GROWN || !(value & 8));                      /* 8: of the new one */
  }
  return 0;
}

static int steps_until(const struct ranks *self, struct walk *walk, uint64_t updates)
{
  while (walk->life.job.info.updates < updates) RANKS_CHECK(tagged_step(self, walk) == 0);
  return 0;
}

/* Process 1 dies, and with it a fusion in which all count. */
static int death_make(const struct ranks *self, struct walk *walk)
{
  const struct task *task = walk->task;
  struct job *job = &walk->life.job;
  if (self->rank == 1 && task->is_amid)
    for (int t = TAGGED - 1; t > 0; t--) {
      tag_put(job, t, (int)job->info.updates, 2);
      RANKS_CHECK(gradient_push(job->fusion, &job->g, t, NULL) == tuttiSuccess);
    }
  if (self->rank == 1) {
    usleep(20000); /* all of it has come */
    raise(SIGKILL);
  }
  return wants_all(walk) ? life_fails(self, &walk->life) : steps_until(self, walk, LEFT);
}

/* The sum of what each rank owns of the second plane: how often each element was updated. All ranks are between the
 * same two updates. */
static int counts_read(const struct ranks *self, const struct walk *walk, float *to)
{
  RANKS_CHECK(tuttiBarrier(walk->comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(walk->life.job.fusion, 0, 1, to, tagged[0].count, 0) == tuttiSuccess);
  return tuttiAllReduce(to, to, tagged[0].count, tuttiFloat32, tuttiSum, walk->comm, NULL) != tuttiSuccess;
}

/* Goes on over another communicator; is_new: this rank has no fusion yet. */
static int walk_move(const struct ranks *self, struct walk *walk, tuttiComm_t to, int is_new)
{
  static float before[5000], after[5000];
  struct job *job = &walk->life.job;
  uint64_t updates = wants_all(walk) ? GROWN : 0, dropped = 0;
  int had_all = !is_new && job->info.updates >= GROWN; /* nobody has died in this communicator */
  if (had_all) RANKS_CHECK(counts_read(self, walk, before) == 0);
  if (wants_all(walk)) tuttiCommCount(to, &job->quorum);
  if (!is_new) {
    updates = job->info.updates;
    dropped = job->info.dropped;
    RANKS_CHECK(tuttiFusionMove(&job->fusion, to) == tuttiSuccess);
  } else RANKS_CHECK(job_begin(self, job, to) == 0);
  walk->comm = to;
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  RANKS_CHECK(job->info.updates == updates && job->info.dropped == dropped);
  if (job->info.updates >= GROWN || is_new) RANKS_CHECK(counts_read(self, walk, after) == 0);
  RANKS_CHECK(!had_all || memcmp(before, after, sizeof before) == 0);
  return 0;
}

/* What live servers keep beside the weights is that of the step that counts; that of rank 1 begins anew. */
static int counts_check(const struct ranks *self, const struct walk *walk)
{
  static float counts[5000];
  for (int t = 0; t < TAGGED; t++) {
    size_t n = tagged[t].count, nkept = 0;
    RANKS_CHECK(tuttiFusionState(walk->life.job.fusion, t, 1, counts, n, 0) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(counts, counts, n, tuttiFloat32, tuttiSum, walk->comm, NULL) == tuttiSuccess);
    for (size_t e = 0; e < n; e++) {
      RANKS_CHECK(counts[e] == 0 || counts[e] == DEATH);
      nkept += counts[e] != 0;
    }
    RANKS_CHECK(2 * nkept >= n);
  }
  return 0;
}

/* All but process 1 go on without it. */
static int walk_shrink(const struct ranks *self, struct walk *walk, tuttiComm_t *left)
{
  const struct job *job = &walk->life.job;
  tuttiComm_t old = walk->comm;
  RANKS_CHECK(comm_shrink(self, old, 1, left) == 0);
  RANKS_CHECK(walk_move(self, walk, *left, 0) == 0);
  tuttiCommDestroy(old);
  if (!wants_all(walk)) return 0;
  RANKS_CHECK(counts_check(self, walk) == 0);
  RANKS_CHECK(gradient_push(job->fusion, &job->g, 0, NULL) == tuttiInvalidUsage && says("has no weights"));
  return life_give(self, &walk->life); /* what rank 1 has served is lost */
}

static int tagged_body(const struct ranks *self)
{
  struct task *task = self->argument;
  struct walk walk = {.task = task, .life.job = {.quorum = task->quorum, .planes = 2}};
  int is_new = self->rank == OLD;
  tuttiComm_t left = NULL, grown, again;
  tuttiUniqueId id;
  RANKS_CHECK(life_make(&walk.life));
  if (!is_new) {
    RANKS_CHECK(tuttiCommInitRank(&walk.comm, OLD, self->id, self->rank) == tuttiSuccess);
    RANKS_CHECK(job_make(self, &walk.life.job, walk.comm) == 0);
    RANKS_CHECK(steps_until(self, &walk, DEATH) == 0);
    RANKS_CHECK(comm_try(self, walk.comm, OLD) == 0);
    RANKS_CHECK(death_make(self, &walk) == 0);
    RANKS_CHECK(walk_shrink(self, &walk, &left) == 0);
    RANKS_CHECK(steps_until(self, &walk, GROWN) == 0);
  }
  RANKS_CHECK(meeting_id(task->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommGrow(left, OLD, &id, is_new ? 2 : -1, &grown, NULL) == tuttiSuccess);
  RANKS_CHECK(walk_move(self, &walk, grown, is_new) == 0);
  RANKS_CHECK(steps_until(self, &walk, AGAIN) == 0);
  RANKS_CHECK(tuttiCommSplit(grown, 0, self->rank, &again, NULL) == tuttiSuccess);
  RANKS_CHECK(walk_move(self, &walk, again, 0) == 0);
  RANKS_CHECK(steps_until(self, &walk, TAGS) == 0);
  RANKS_CHECK(life_tell(self, &walk.life, task->values[self->rank]) == 0);
  RANKS_CHECK(tuttiFusionDestroy(walk.life.job.fusion) == tuttiSuccess);
  life_free(&walk.life);
  RANKS_CHECK(tuttiCommDestroy(again) == tuttiSuccess && tuttiCommDestroy(grown) == tuttiSuccess);
  return left && tuttiCommDestroy(left) != tuttiSuccess;
}

static void tagged_run(const char *transport, int quorum, int is_amid)
{
  struct task *task = ranks_shared(sizeof *task);
  int pids[ALL], ndied = 0;
  task->meeting = meeting_make(ALL - 1);
  task->quorum = quorum;
  task->is_amid = is_amid;
  setenv("TUTTI_TRANSPORTS", transport, 1);
  assert_int_equal(ranks_start(ALL, tagged_body, task, pids), 0);
  for (int r = 0; r < ALL; r++) {
    int status = ranks_wait(pids[r], 60);
    assert_int_equal(status, r == 1 ? 128 + SIGKILL : 0);
    ndied += status != 0;
  }
  assert_int_equal(ndied, 1);
  for (int r = 0; r < ALL; r++)
    if (r != 1) assert_memory_equal(task->values[r], task->values[0], sizeof task->values[0]);
}

static void with_a_quorum_a_step_counts_once_before_or_after_a_move(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (int is_amid = 0; is_amid < 2; is_amid++) tagged_run(ranks_transports(t), 2, is_amid);
  unsetenv("TUTTI_DEBUG");
}

static void where_all_count_a_step_that_has_failed_is_taken_back(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (int is_amid = 0; is_amid < 2; is_amid++) tagged_run(ranks_transports(t), OLD, is_amid);
  unsetenv("TUTTI_DEBUG");
}

/* ---- rules without a decision: each rank counts its steps in elements of its own ---- */

#define STEPS 8 /* in each communicator */

static int counter_old(const struct ranks *self, struct counter *c, tuttiComm_t *left)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, OLD, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(counter_make(self, c, comm, 0) == 0);
  RANKS_CHECK(comm_try(self, comm, OLD) == 0);
  RANKS_CHECK(counter_steps(self, c, STEPS / 2) == 0);
  if (self->rank == 1) raise(SIGKILL);
  RANKS_CHECK(counter_steps(self, c, STEPS - STEPS / 2) == 0);
  RANKS_CHECK(comm_shrink(self, comm, 1, left) == 0);
  RANKS_CHECK(tuttiFusionMove(&c->fusion, *left) == tuttiSuccess);
  tuttiCommDestroy(comm);
  return counter_steps(self, c, STEPS);
}

static int counted_body(const struct ranks *self)
{
  static struct counter counter;
  static const int steps[COUNTERS] = {3 * STEPS, -1, 3 * STEPS, STEPS, 0};
  struct counter *c = &counter;
  struct task *task = self->argument;
  int is_new = self->rank == OLD;
  tuttiComm_t left = NULL, grown;
  tuttiUniqueId id;
  tuttiFusionInfo_t info = {.size = sizeof info};
  *c = (struct counter){.rule = task->rule, .number = self->rank, .began = task->began};
  if (!is_new) RANKS_CHECK(counter_old(self, c, &left) == 0);
  RANKS_CHECK(meeting_id(task->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommGrow(left, OLD, &id, is_new ? 2 : -1, &grown, NULL) == tuttiSuccess);
  if (is_new) RANKS_CHECK(counter_make(self, c, grown, 1) == 0);
  else RANKS_CHECK(tuttiFusionMove(&c->fusion, grown) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(c->fusion, &info) == tuttiSuccess && info.steps == 2 * STEPS);
  RANKS_CHECK(counter_steps(self, c, STEPS) == 0);
  atomic_fetch_add(&task->ready, 1);
  RANKS_CHECK(meeting_await(&task->ready, ALL - 1));
  RANKS_CHECK(counter_end(self, c, steps) == 0);
  RANKS_CHECK(tuttiFusionGetInfo(c->fusion, &info) == tuttiSuccess && info.steps == 3 * STEPS + 1);
  RANKS_CHECK(tuttiFusionDestroy(c->fusion) == tuttiSuccess && tuttiCommDestroy(grown) == tuttiSuccess);
  return left && tuttiCommDestroy(left) != tuttiSuccess;
}

static void contributions_of_live_ranks_count_once_across_moves(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (int rule = 0; rule < RULES; rule++) {
      struct task *task = ranks_shared(sizeof *task);
      task->meeting = meeting_make(ALL - 1);
      task->rule = &rules[rule];
      assert_int_equal(run_fusion(ranks_transports(t), ALL, counted_body, task), 1);
    }
  unsetenv("TUTTI_DEBUG");
}

/* ---- a step of which a half was answered ---- */

#define CODED 600

struct half {
  struct meeting *meeting;
  _Atomic int updates; /* of tensor 1 */
};

static tuttiResult_t half_count(void *context, const tuttiFusionShard_t *shard)
{
  struct half *half = context;
  if (shard->tensor == 1) atomic_fetch_add(&half->updates, 1);
  return count(context, shard);
}

/* The step of rank 0 of which it has the answer of its own server alone, though that of rank 1 has counted it, too. */
static int half_step(const struct ranks *self, tuttiFusion_t fusion, float in[2][CODED], float out[2][CODED])
{
  struct half *half = self->argument;
  for (int t = 0; t < 2; t++)
    RANKS_CHECK(tuttiFusionPush(fusion, t, in[t], out[t], CODED, tuttiFloat32, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWait(fusion, 0) == tuttiSuccess);
  RANKS_CHECK(meeting_await(&half->updates, 2));
  RANKS_CHECK(tuttiFusionAbort(fusion) == tuttiSuccess);
  return tuttiFusionWait(fusion, 1) != tuttiRemoteError;
}

static int rests_read(const struct ranks *self, tuttiFusion_t fusion, float rests[2][CODED])
{
  for (int t = 0; t < 2; t++)
    RANKS_CHECK(tuttiFusionState(fusion, t, 1, rests[t], CODED, 0) == tuttiSuccess);
  return 0;
}

/* A sparse codec gives a whole tensor to one owner: these to rank 0, and to rank 1. */
static int half_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t halves[] = {{"here", CODED, tuttiFloat32}, {"there", CODED, tuttiFloat32}};
  static float in[2][CODED], out[2][CODED], before[2][CODED], after[2][CODED];
  struct half *half = self->argument;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiComm_t comm, again;
  tuttiFusion_t fusion;
  config.update = "function";
  config.function = half_count;
  config.context = half;
  config.quorum = 1;
  config.staleness = 1000;
  config.codec = "drop:0.5";
  config.codec_least = CODED;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &again, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, halves, 2, &config) == tuttiSuccess);
  for (int t = 0; t < 2; t++) {
    RANKS_CHECK(tuttiFusionState(fusion, t, 0, out[t], CODED, 1) == tuttiSuccess);
    for (int e = 0; e < CODED; e++) in[t][e] = (float)(1 + (e * 7 + t) % 97);
  }
  for (int t = 0; t < 2 && self->rank == 0; t++)
    RANKS_CHECK(tuttiFusionPush(fusion, t, in[t], out[t], CODED, tuttiFloat32, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  RANKS_CHECK(rests_read(self, fusion, before) == 0);
  for (int t = 0; t < 2; t++)
    for (int e = 0; e < CODED; e++) RANKS_CHECK(out[t][e] + before[t][e] == (self->rank ? 0 : in[t][e]));
  if (self->rank == 0) RANKS_CHECK(half_step(self, fusion, in, out) == 0);
  RANKS_CHECK(meeting_wait(half->meeting));
  RANKS_CHECK(tuttiFusionMove(&fusion, again) == tuttiSuccess);
  RANKS_CHECK(rests_read(self, fusion, after) == 0);
  RANKS_CHECK(memcmp(before, after, sizeof before) == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(again) == tuttiSuccess);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void what_codecs_keep_is_as_before_a_step_that_was_half_answered(void **state)
{
  struct half *half = ranks_shared(sizeof *half);
  (void)state;
  half->meeting = meeting_make(2);
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_LANES", "1", 1); /* lane 1 is that of messages: that the fusion is made, and answers, two for each */
  setenv("TUTTI_FAULT", "rank=1,lane=1,side=send,nth=5,action=delay:3600s", 1);
  assert_int_equal(run_fusion("shm", 2, half_body, half), 0);
  unsetenv("TUTTI_FAULT");
  unsetenv("TUTTI_LANES");
  unsetenv("TUTTI_DEBUG");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_a_quorum_a_step_counts_once_before_or_after_a_move),
      cmocka_unit_test(where_all_count_a_step_that_has_failed_is_taken_back),
      cmocka_unit_test(contributions_of_live_ranks_count_once_across_moves),
      cmocka_unit_test(what_codecs_keep_is_as_before_a_step_that_was_half_answered),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
