/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions with servers that go on over the communicator of a shrink, after a death, and of a grow, with a new rank:
 * weights tell which contributions are in them, so each one counts at most once, and those of live ranks exactly once,
 * unless `dropped` says otherwise; what the update keeps beside the weights moves bit by bit.
 * Labels: processes. */
#include <sched.h>
#include <signal.h>
#include <unistd.h>

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
  _Atomic int began[ALL];
  _Atomic int ended[ALL];
  float values[ALL][TAGS];
};

/* ---- steps of which each weight tells the contributors ---- */

struct life {
  struct task *task;
  struct job job;
  tuttiComm_t comm;
  uint64_t steps, counted; /* steps that have ended; in the weights at the end */
  float *kept[TAGGED];     /* weights of the last step that has ended */
};

static int wants_all(const struct life *life)
{
  return life->task->quorum == OLD;
}

static int tagged_step(const struct ranks *self, struct life *life)
{
  struct job *job = &life->job;
  RANKS_CHECK(job_step(self, job, (int)job->info.updates, (float)(1 << self->rank)) == 0);
  life->steps++;
  RANKS_CHECK(job->wrong == 0);
  for (int t = 0; t < TAGGED; t++)
    for (size_t e = 0; e < tagged[t].count; e++) RANKS_CHECK(weight_of(job, t, e) == weight_of(job, 0, e % TAGS));
  for (size_t tag = 0; tag < TAGS; tag++) {
    float value = weight_of(job, 0, tag);
    RANKS_CHECK(tag < job->info.updates ? bits_of(value) >= 2 && value < 1 << ALL : value == 0);
    RANKS_CHECK(tag < DEATH || !((unsigned)value & 2));  /* of the dead */
    RANKS_CHECK(tag >= GROWN || !((unsigned)value & 8)); /* of the new one */
  }
  for (int t = 0; t < TAGGED; t++)
    for (size_t e = 0; e < tagged[t].count; e++) life->kept[t][e] = weight_of(job, t, e);
  return 0;
}

static int steps_until(const struct ranks *self, struct life *life, uint64_t updates)
{
  while (life->job.info.updates < updates) RANKS_CHECK(tagged_step(self, life) == 0);
  return 0;
}

/* Process 1 dies, and with it a fusion in which all count. */
static int death_make(const struct ranks *self, struct life *life)
{
  const struct task *task = life->task;
  struct job *job = &life->job;
  tuttiResult_t result = tuttiSuccess;
  if (self->rank == 1 && task->is_amid)
    for (int t = TAGGED - 1; t > 0; t--) {
      tag_put(job, t, (int)job->info.updates, 2);
      RANKS_CHECK(gradient_push(job->fusion, &job->g, t, NULL) == tuttiSuccess);
    }
  if (self->rank == 1) {
    usleep(20000); /* all of it has come */
    raise(SIGKILL);
  }
  if (!wants_all(life)) return steps_until(self, life, LEFT);
  for (int t = TAGGED - 1; t >= 0 && result == tuttiSuccess; t--) {
    tag_put(job, t, (int)job->info.updates, (float)(1 << self->rank));
    result = gradient_push(job->fusion, &job->g, t, NULL);
  }
  if (result == tuttiSuccess) result = tuttiFusionWaitAll(job->fusion);
  RANKS_CHECK(result == tuttiRemoteError);
  return 0;
}

/* The sum of what each rank owns of the second plane: how often each element was updated. All ranks are between the
 * same two updates. */
static int counts_read(const struct ranks *self, const struct life *life, float *to)
{
  RANKS_CHECK(tuttiBarrier(life->comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(life->job.fusion, 0, 1, to, tagged[0].count, 0) == tuttiSuccess);
  return tuttiAllReduce(to, to, tagged[0].count, tuttiFloat32, tuttiSum, life->comm, NULL) != tuttiSuccess;
}

/* Goes on over another communicator; is_new: this rank has no fusion yet. */
static int life_move(const struct ranks *self, struct life *life, tuttiComm_t to, int is_new)
{
  static float before[5000], after[5000];
  struct job *job = &life->job;
  uint64_t updates = wants_all(life) ? GROWN : 0, dropped = 0;
  int had_all = !is_new && job->info.updates >= GROWN; /* nobody has died in this communicator */
  if (had_all) RANKS_CHECK(counts_read(self, life, before) == 0);
  if (wants_all(life)) tuttiCommCount(to, &job->quorum);
  if (!is_new) {
    updates = job->info.updates;
    dropped = job->info.dropped;
    RANKS_CHECK(tuttiFusionMove(&job->fusion, to) == tuttiSuccess);
  } else RANKS_CHECK(job_begin(self, job, to) == 0);
  life->comm = to;
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  RANKS_CHECK(job->info.updates == updates && job->info.dropped == dropped);
  if (job->info.updates >= GROWN || is_new) RANKS_CHECK(counts_read(self, life, after) == 0);
  RANKS_CHECK(!had_all || memcmp(before, after, sizeof before) == 0);
  return 0;
}

/* What live servers keep beside the weights is that of the step that counts; that of rank 1 begins anew. */
static int counts_check(const struct ranks *self, const struct life *life)
{
  static float counts[5000];
  for (int t = 0; t < TAGGED; t++) {
    size_t n = tagged[t].count, nkept = 0;
    RANKS_CHECK(tuttiFusionState(life->job.fusion, t, 1, counts, n, 0) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(counts, counts, n, tuttiFloat32, tuttiSum, life->comm, NULL) == tuttiSuccess);
    for (size_t e = 0; e < n; e++) {
      RANKS_CHECK(counts[e] == 0 || counts[e] == DEATH);
      nkept += counts[e] != 0;
    }
    RANKS_CHECK(2 * nkept >= n);
  }
  return 0;
}

/* All but process 1 go on without it. */
static int life_shrink(const struct ranks *self, struct life *life, tuttiComm_t *left)
{
  struct job *job = &life->job;
  int failed[OLD], n = OLD;
  while (tuttiBarrier(life->comm, NULL) == tuttiSuccess) continue;
  RANKS_CHECK(tuttiCommGetFailed(life->comm, failed, &n) == tuttiSuccess && n == 1 && failed[0] == 1);
  RANKS_CHECK(tuttiCommShrink(life->comm, failed, n, left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  tuttiComm_t old = life->comm;
  RANKS_CHECK(life_move(self, life, *left, 0) == 0);
  tuttiCommDestroy(old);
  if (!wants_all(life)) return 0;
  RANKS_CHECK(counts_check(self, life) == 0);
  RANKS_CHECK(gradient_push(job->fusion, &job->g, 0, NULL) == tuttiInvalidUsage && says("has no weights"));
  for (int t = 0; t < TAGGED; t++) /* what rank 1 has served is lost */
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, life->kept[t], tagged[t].count, 1) == tuttiSuccess);
  return 0;
}

static int life_end(const struct ranks *self, struct life *life)
{
  struct task *task = life->task;
  for (int tag = 0; tag < TAGS; tag++) {
    task->values[self->rank][tag] = weight_of(&life->job, 0, (size_t)tag);
    life->counted += (unsigned)task->values[self->rank][tag] >> self->rank & 1;
  }
  RANKS_CHECK(life->job.info.dropped == life->steps - life->counted);
  atomic_store(&task->ended[self->rank], 1);
  RANKS_CHECK(tuttiFusionDestroy(life->job.fusion) == tuttiSuccess);
  gradients_free(&life->job.g);
  for (int t = 0; t < TAGGED; t++) free(life->kept[t]);
  return 0;
}

static int tagged_body(const struct ranks *self)
{
  struct task *task = self->argument;
  struct life life = {.task = task, .job = {.quorum = task->quorum, .planes = 2}};
  int is_new = self->rank == OLD;
  tuttiComm_t left = NULL, grown, again;
  tuttiUniqueId id;
  for (int t = 0; t < TAGGED; t++) life.kept[t] = calloc(tagged[t].count + 1, sizeof(float));
  if (!is_new) {
    RANKS_CHECK(tuttiCommInitRank(&life.comm, OLD, self->id, self->rank) == tuttiSuccess);
    RANKS_CHECK(job_make(self, &life.job, life.comm) == 0);
    RANKS_CHECK(steps_until(self, &life, DEATH) == 0);
    RANKS_CHECK(comm_try(self, life.comm, OLD) == 0);
    RANKS_CHECK(death_make(self, &life) == 0);
    RANKS_CHECK(life_shrink(self, &life, &left) == 0);
    RANKS_CHECK(steps_until(self, &life, GROWN) == 0);
  }
  RANKS_CHECK(meeting_id(task->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommGrow(left, OLD, &id, is_new ? 2 : -1, &grown, NULL) == tuttiSuccess);
  RANKS_CHECK(life_move(self, &life, grown, is_new) == 0);
  RANKS_CHECK(steps_until(self, &life, AGAIN) == 0);
  RANKS_CHECK(tuttiCommSplit(grown, 0, self->rank, &again, NULL) == tuttiSuccess);
  RANKS_CHECK(life_move(self, &life, again, 0) == 0);
  RANKS_CHECK(steps_until(self, &life, TAGS) == 0);
  RANKS_CHECK(life_end(self, &life) == 0);
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

static const struct rule {
  const char *update;
  int quorum, staleness;
} rules[] = {{"function", 1, 1000000}, {"function", 0, 3}, {"easgd", 0, 0}, {"gossip", 0, 0}};
enum { RULES = sizeof rules / sizeof *rules, EXCHANGES = 2 };

#define COUNT 5000
#define STEPS 8    /* in each communicator */
#define SAME 5.0f  /* of elements that are nobody's, where ranks exchange their weights */

static const tuttiFusionTensor_t counted[] = {{"long", COUNT, tuttiFloat32}, {"short", 3, tuttiFloat32}};
enum { COUNTED = sizeof counted / sizeof *counted };

struct counter {
  struct task *task;
  tuttiFusion_t fusion;
  int steps;
  float in[COUNTED][COUNT], out[COUNTED][COUNT];
};

static int owner_of(size_t e)
{
  int owner = (int)(e % (ALL + 1));
  return owner == ALL ? -1 : owner;
}

static tuttiResult_t count(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] += shard->gradient[i];
  return tuttiSuccess;
}

static int exchanges(const struct counter *c)
{
  return c->task->rule >= &rules[EXCHANGES];
}

/* is_joining: the weights are there, but with gossip. */
static int counter_make(const struct ranks *self, struct counter *c, tuttiComm_t comm, int is_joining)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = c->task->rule->update;
  config.function = exchanges(c) ? NULL : count;
  config.quorum = c->task->rule->quorum;
  config.staleness = c->task->rule->staleness;
  RANKS_CHECK(tuttiFusionCreate(&c->fusion, comm, counted, COUNTED, &config) == tuttiSuccess);
  for (int t = 0; t < COUNTED; t++)
    for (size_t e = 0; e < counted[t].count; e++) c->out[t][e] = exchanges(c) ? SAME : 0;
  for (int t = 0; t < COUNTED && (!is_joining || strcmp(config.update, "gossip") == 0); t++)
    RANKS_CHECK(tuttiFusionState(c->fusion, t, 0, c->out[t], counted[t].count, 1) == tuttiSuccess);
  return 0;
}

/* Gradients: `value` for the rank's own elements. Exchanges: its weights. */
static int counter_step(const struct ranks *self, struct counter *c, float value)
{
  atomic_store(&c->task->began[self->rank], c->steps + (value > 0));
  for (int t = 0; t < COUNTED; t++) {
    for (size_t e = 0; e < counted[t].count; e++)
      c->in[t][e] = exchanges(c) ? c->out[t][e] : owner_of(e) == self->rank ? value : 0;
    RANKS_CHECK(tuttiFusionPush(c->fusion, t, c->in[t], c->out[t], counted[t].count, tuttiFloat32, NULL) ==
                tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(c->fusion) == tuttiSuccess);
  c->steps += value > 0;
  for (int t = 0; t < COUNTED; t++)
    for (size_t e = 0; e < counted[t].count; e++) {
      int owner = owner_of(e);
      float its = c->out[t][e];
      if (exchanges(c)) RANKS_CHECK(its == SAME);
      else if (owner == self->rank) RANKS_CHECK(its == (float)c->steps);
      else RANKS_CHECK(owner < 0 ? its == 0 : its >= 0 && its <= (float)atomic_load(&c->task->began[owner]));
    }
  return 0;
}

static int counter_steps(const struct ranks *self, struct counter *c, int n)
{
  for (int k = 0; k < n; k++) RANKS_CHECK(counter_step(self, c, 1) == 0);
  return 0;
}

static int counter_old(const struct ranks *self, struct counter *c, tuttiComm_t *left)
{
  tuttiComm_t comm;
  int failed[OLD], n = OLD;
  RANKS_CHECK(tuttiCommInitRank(&comm, OLD, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(counter_make(self, c, comm, 0) == 0);
  RANKS_CHECK(comm_try(self, comm, OLD) == 0);
  RANKS_CHECK(counter_steps(self, c, STEPS / 2) == 0);
  if (self->rank == 1) raise(SIGKILL);
  RANKS_CHECK(counter_steps(self, c, STEPS - STEPS / 2) == 0);
  while (tuttiBarrier(comm, NULL) == tuttiSuccess) continue;
  RANKS_CHECK(tuttiCommGetFailed(comm, failed, &n) == tuttiSuccess && n == 1 && failed[0] == 1);
  RANKS_CHECK(tuttiCommShrink(comm, failed, n, left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionMove(&c->fusion, *left) == tuttiSuccess);
  tuttiCommDestroy(comm);
  return counter_steps(self, c, STEPS);
}

static int counted_body(const struct ranks *self)
{
  static struct counter counter;
  struct counter *c = &counter;
  struct task *task = c->task = self->argument;
  int is_new = self->rank == OLD;
  tuttiComm_t left = NULL, grown;
  tuttiUniqueId id;
  tuttiFusionInfo_t info = {.size = sizeof info};
  if (!is_new) RANKS_CHECK(counter_old(self, c, &left) == 0);
  RANKS_CHECK(meeting_id(task->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommGrow(left, OLD, &id, is_new ? 2 : -1, &grown, NULL) == tuttiSuccess);
  if (is_new) RANKS_CHECK(counter_make(self, c, grown, 1) == 0);
  else RANKS_CHECK(tuttiFusionMove(&c->fusion, grown) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(c->fusion, &info) == tuttiSuccess && info.steps == 2 * STEPS);
  RANKS_CHECK(counter_steps(self, c, STEPS) == 0);
  atomic_fetch_add(&task->ready, 1);
  while (atomic_load(&task->ready) < ALL - 1) sched_yield();
  RANKS_CHECK(counter_step(self, c, 0) == 0); /* its answer has all that was answered before */
  for (int t = 0; t < COUNTED && !exchanges(c); t++)
    for (size_t e = 0; e < counted[t].count; e++) {
      int owner = owner_of(e);
      RANKS_CHECK(owner == 1 || owner < 0 || c->out[t][e] == (float)(owner == OLD ? STEPS : 3 * STEPS));
    }
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

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_a_quorum_a_step_counts_once_before_or_after_a_move),
      cmocka_unit_test(where_all_count_a_step_that_has_failed_is_taken_back),
      cmocka_unit_test(contributions_of_live_ranks_count_once_across_moves),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
