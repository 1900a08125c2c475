/* SPDX-License-Identifier: BSD-3-Clause */
/* A server dies, another one takes its elements over, and dies as well: on the two ranks that are left all weights, and
 * what the update keeps beside them, are those of the equations, where that begins as zeros for the elements that have
 * moved: those of the first dead rank twice. The others keep theirs. Ranks step together where steps are decided, else
 * one after the other, so it is known what is in each update.
 * Labels: processes. */
#include <signal.h>
#include <unistd.h>

#include "base/host.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 4
#define STEPS 12
static const int dies_at[RANKS] = {-1, 4, 8, -1}; /* steps of all ranks before it: 2 has taken over from 1 by then */
#define HEIR 3 /* of 2 */

static const tuttiFusionTensor_t tensors[] = {
    {"first", 3000, tuttiFloat32}, {"few", 5, tuttiFloat32}, {"last", 2049, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors, MOST = 3000 };

/* v = v / 2 + g; w = w - v. */
static const struct rule {
  const char *name, *update;
  int quorum, staleness;
} rules[] = {{"quorum", "momentum:0.5", 2, 0}, {"asgd", "function:2", 1, 1000000}, {"ssp", "function:2", 0, 1000000}};
enum { RULES = sizeof rules / sizeof *rules };

struct task {
  const struct rule *rule;
  struct {
    pid_t pid;
    uint64_t start;
  } processes[RANKS];
  struct {
    _Atomic int ready, done; /* ranks that have come to this step; that have made it */
  } steps[STEPS + 1];
  int8_t owners[TENSORS][MOST]; /* at first */
  float kept[RANKS][TENSORS][MOST]; /* of v at the end, zero where others serve it */
};

struct job {
  tuttiFusion_t fusion;
  float in[TENSORS][MOST], out[TENSORS][MOST];
  float w[TENSORS][MOST], v[TENSORS][MOST]; /* by the equations */
};

static tuttiResult_t momentum(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) {
    shard->planes[1][i] = shard->planes[1][i] / 2 + shard->gradient[i];
    shard->planes[0][i] -= shard->planes[1][i];
  }
  return tuttiSuccess;
}

static int lives(int rank, int step)
{
  return dies_at[rank] < 0 || step < dies_at[rank];
}

static int living(int step)
{
  int n = 0;
  for (int rank = 0; rank < RANKS; rank++) n += lives(rank, step);
  return n;
}

static int factor_of(size_t e)
{
  return 1 + (int)(e % 3);
}

static int job_make(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  struct task *task = self->argument;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = task->rule->update;
  config.function = momentum;
  if (strcmp(config.update, "function:2") != 0) config.function = NULL;
  config.rate = config.function ? 0 : 1;
  config.quorum = task->rule->quorum;
  config.staleness = task->rule->staleness;
  RANKS_CHECK(tuttiFusionCreate(&job->fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) {
    for (size_t e = 0; e < tensors[t].count; e++) job->w[t][e] = 64;
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, job->w[t], tensors[t].count, 1) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, job->out[t], tensors[t].count, 0) == tuttiSuccess);
    for (size_t e = 0; e < tensors[t].count; e++)
      if (job->out[t][e] != 0) task->owners[t][e] = (int8_t)self->rank;
  }
  return 0;
}

/* Ranks 1 and 2 take all that they serve with them. */
static void moves_follow(const struct task *task, struct job *job, int step)
{
  for (int t = 0; t < TENSORS; t++)
    for (size_t e = 0; e < tensors[t].count; e++) {
      int owner = task->owners[t][e];
      if ((owner == 1 && (step == dies_at[1] || step == dies_at[2])) || (owner == 2 && step == dies_at[2]))
        job->v[t][e] = 0;
    }
}

static void update_follow(struct job *job, int gradient)
{
  for (int t = 0; t < TENSORS; t++)
    for (size_t e = 0; e < tensors[t].count; e++) {
      job->v[t][e] = job->v[t][e] / 2 + (float)(gradient * factor_of(e));
      job->w[t][e] -= job->v[t][e];
    }
}

static int push(const struct ranks *self, struct job *job)
{
  for (int t = TENSORS - 1; t >= 0; t--) {
    for (size_t e = 0; e < tensors[t].count; e++) job->in[t][e] = (float)((1 << self->rank) * factor_of(e));
    RANKS_CHECK(tuttiFusionPush(job->fusion, t, job->in[t], job->out[t], tensors[t].count, tuttiFloat32, NULL) ==
                tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(job->fusion) == tuttiSuccess);
  return 0;
}

static int weights_check(const struct ranks *self, const struct job *job, int step)
{
  const struct task *task = self->argument;
  for (int t = 0; t < TENSORS; t++)
    for (size_t e = 0; e < tensors[t].count; e++) {
      if (job->out[t][e] == job->w[t][e]) continue;
      fprintf(stderr, "rank %d, %s, step %d: element %zu of tensor %d, which was rank %d's, is %.9g, not %.9g\n",
              self->rank, task->rule->name, step, e, t, task->owners[t][e], (double)job->out[t][e],
              (double)job->w[t][e]);
      return 1;
    }
  return 0;
}

/* All ranks contribute. The first element of a rank that lives tells who counted: two or more, the same in all others.
 * The next step needs all of them, so this one is over for all. */
static int decided_step(const struct ranks *self, struct job *job, int step)
{
  struct task *task = self->argument;
  size_t first = 0;
  while (task->owners[0][first] != HEIR) first++;
  moves_follow(task, job, step);
  RANKS_CHECK(push(self, job) == 0);
  float g = (job->w[0][first] - job->out[0][first] - job->v[0][first] / 2) / (float)factor_of(first);
  RANKS_CHECK(g > 0 && g < 1 << RANKS && g == (float)(int)g && __builtin_popcount((unsigned)g) >= 2);
  for (int rank = 0; rank < RANKS; rank++) RANKS_CHECK(lives(rank, step) || !((int)g >> rank & 1));
  update_follow(job, (int)g);
  return weights_check(self, job, step);
}

/* Ranks contribute one after the other. */
static int single_steps(const struct ranks *self, struct job *job, int step)
{
  struct task *task = self->argument;
  moves_follow(task, job, step);
  for (int rank = 0, before = 0; rank < RANKS; rank++) {
    if (!lives(rank, step)) continue;
    update_follow(job, 1 << rank);
    if (rank == self->rank) {
      RANKS_CHECK(meeting_await(&task->steps[step].done, before));
      RANKS_CHECK(push(self, job) == 0 && weights_check(self, job, step) == 0);
      atomic_fetch_add(&task->steps[step].done, 1);
    }
    before++;
  }
  return 0;
}

/* The planes beside the weights have one server for each element. */
static int kept_check(const struct ranks *self, struct job *job)
{
  struct task *task = self->argument;
  for (int t = 0; t < TENSORS; t++)
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 1, task->kept[self->rank][t], tensors[t].count, 0) == tuttiSuccess);
  atomic_fetch_add(&task->steps[STEPS].done, 1);
  RANKS_CHECK(meeting_await(&task->steps[STEPS].done, living(STEPS)));
  for (int t = 0; t < TENSORS; t++)
    for (size_t e = 0; e < tensors[t].count; e++) {
      float sum = 0;
      for (int rank = 0; rank < RANKS; rank++) sum += task->kept[rank][t][e];
      RANKS_CHECK(sum == job->v[t][e]);
      RANKS_CHECK(task->owners[t][e] == 0 ? task->kept[0][t][e] == sum : task->kept[HEIR][t][e] == sum);
    }
  return 0;
}

/* All that live have made the step before, and nobody serves any more who does not live in this one. */
static int step_await(const struct ranks *self, int step)
{
  struct task *task = self->argument;
  atomic_fetch_add(&task->steps[step].ready, 1);
  RANKS_CHECK(meeting_await(&task->steps[step].ready, step ? living(step - 1) : RANKS));
  if (!lives(self->rank, step)) raise(SIGKILL);
  for (int rank = 0; rank < RANKS; rank++)
    while (!lives(rank, step) &&
           tt_process_life(task->processes[rank].pid, task->processes[rank].start) != TT_LIFE_DEAD)
      usleep(100);
  return 0;
}

static int body(const struct ranks *self)
{
  static struct job job;
  struct task *task = self->argument;
  tuttiComm_t comm;
  task->processes[self->rank].pid = getpid();
  task->processes[self->rank].start = tt_process_start(getpid());
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  for (int step = 0; step < STEPS; step++) {
    RANKS_CHECK(step_await(self, step) == 0);
    if (task->rule->staleness) RANKS_CHECK(single_steps(self, &job, step) == 0);
    else RANKS_CHECK(decided_step(self, &job, step) == 0);
  }
  RANKS_CHECK(step_await(self, STEPS) == 0);
  RANKS_CHECK(kept_check(self, &job) == 0);
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  tuttiCommAbort(comm);
  return 0;
}

static void what_has_moved_twice_is_as_the_equations_say(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (int rule = 0; rule < RULES; rule++) {
      struct task *task = ranks_shared(sizeof *task);
      task->rule = &rules[rule];
      assert_int_equal(run_fusion(ranks_transports(t), RANKS, body, task), 2);
    }
  unsetenv("TUTTI_DEBUG");
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_has_moved_twice_is_as_the_equations_say)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
