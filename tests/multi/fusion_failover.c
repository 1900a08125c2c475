/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions without a decision, of which ranks are killed: with a staleness the others go on, all but one may die, and
 * every contribution of a live rank is in all weights exactly once, as it is in the answer to it; those of a dead one
 * at most once. With softsync as many are missing as an update may lack, for each death. With easgd weights stay
 * between those that ranks had at first; where these are the same, with easgd and gossip, they keep their bits.
 * "--seed N": the moments of death; "--times N": so many of each kind.
 * Labels: processes. */
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <unistd.h>

#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 6
#define STEPS 30
#define SAME 5.0f /* of all ranks, for the elements that are nobody's */

static uint64_t first_seed = 1;
static int times = 1;

/* An element is that of a rank, in turn, or nobody's. */
static const tuttiFusionTensor_t tensors[] = {
    {"first", 5000, tuttiFloat32}, {"few", 3, tuttiFloat32}, {"none", 0, tuttiFloat32}, {"last", 4097, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static const struct rule {
  const char *name, *update;
  int quorum, staleness;
} rules[] = {{"asgd", "function", 1, 1000000}, {"ssp", "function", 0, 3}, {"softsync", "function", 2, 1000000},
             {"easgd", "easgd:0.5", 0, 0}, {"gossip", "gossip", 0, 0}};
enum { RULES = sizeof rules / sizeof *rules, ASGD = 0, SOFTSYNC = 2, EASGD = 3, GOSSIP = 4 };

enum moment { AT_ONCE, BEFORE_PUSHES, AMID_PUSHES, BEHIND_PUSHES, ANY_TIME };

struct killing {
  const struct rule *rule;
  int ndead, first; /* these ranks die: from `first` on */
  enum moment moment;
  int step, apart;  /* the first one in this step, each other one so many later */
  uint64_t seed;
};

struct shared {
  struct killing killing;
  _Atomic int ready;         /* live ranks that have made their steps */
  _Atomic int began[RANKS];  /* steps that a rank has begun */
};

struct job {
  tuttiFusion_t fusion;
  struct gradients g;
  int step;
};

static int owner_of(const struct ranks *self, size_t e)
{
  int owner = (int)(e % (size_t)(self->nranks + 1));
  return owner == self->nranks ? -1 : owner;
}

static tuttiResult_t add(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] += shard->gradient[i];
  return tuttiSuccess;
}

static int exchanges(const struct killing *killing)
{
  return killing->rule >= &rules[EASGD];
}

static float at(const struct job *job, const char *in, int t, size_t e)
{
  float value;
  memcpy(&value, in + job->g.at[t] + e * sizeof value, sizeof value);
  return value;
}

static int place_of(const struct ranks *self, const struct killing *killing, int rank)
{
  return (rank - killing->first + self->nranks) % self->nranks;
}

static int dies(const struct ranks *self, const struct killing *killing, int rank)
{
  return place_of(self, killing, rank) < killing->ndead;
}

static int job_make(const struct ranks *self, struct job *job, tuttiComm_t comm, const struct killing *killing)
{
  static float weights[5000];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = killing->rule->update;
  config.function = exchanges(killing) ? NULL : add;
  config.quorum = killing->rule->quorum;
  config.staleness = killing->rule->staleness;
  RANKS_CHECK(tuttiFusionCreate(&job->fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  if (killing->moment == AT_ONCE && dies(self, killing, self->rank)) raise(SIGKILL); /* others are in the call still */
  RANKS_CHECK(gradients_make(&job->g, tensors, TENSORS, 64, 0));
  for (size_t e = 0; e < 5000; e++) weights[e] = exchanges(killing) && owner_of(self, e) < 0 ? SAME : 0;
  for (int t = 0; t < TENSORS; t++)
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, weights, tensors[t].count, 1) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) /* the first weights of the program */
    memcpy(job->g.out + job->g.at[t], weights, tensors[t].count * sizeof *weights);
  return 0;
}

/* Gradients: 1 for the rank's own elements. Exchanges: its weights, of which its own ones are 8 at first. */
static void tensor_fill(const struct ranks *self, struct job *job, int t, float value)
{
  const struct shared *shared = self->argument;
  for (size_t e = 0; e < tensors[t].count; e++) {
    int is_own = owner_of(self, e) == self->rank;
    float its = is_own ? value : 0;
    if (exchanges(&shared->killing)) its = is_own && !job->step ? 8 : at(job, job->g.out, t, e);
    memcpy(job->g.in + job->g.at[t] + e * sizeof its, &its, sizeof its);
  }
}

static int weights_check(const struct ranks *self, const struct job *job, const struct killing *killing)
{
  int lacks = killing->rule == &rules[SOFTSYNC] ? (killing->rule->quorum - 1) * (1 + killing->ndead) : 0;
  for (int t = 0; t < TENSORS; t++)
    for (size_t e = 0; e < tensors[t].count; e++) {
      float value = at(job, job->g.out, t, e);
      int owner = owner_of(self, e);
      if (owner < 0) RANKS_CHECK(value == (exchanges(killing) ? SAME : 0));
      else if (killing->rule == &rules[EASGD]) RANKS_CHECK(value >= 0 && value <= 8);
      else if (exchanges(killing)) continue; /* of ranks that exchange at the same time each gives a half */
      else if (owner == self->rank) RANKS_CHECK(value <= (float)job->step && value >= (float)(job->step - lacks));
      else RANKS_CHECK(value >= 0 && value <= STEPS);
    }
  return 0;
}

/* ---- deaths ---- */

static void *killer(void *argument)
{
  usleep(*(const useconds_t *)argument);
  raise(SIGKILL);
  return NULL;
}

/* Ends this process at its moment, or soon. Returns 1 if it has to end in the middle of its pushes. */
static int die_maybe(const struct ranks *self, const struct job *job, const struct killing *killing)
{
  static useconds_t us;
  int step = killing->step + place_of(self, killing, self->rank) * killing->apart;
  uint64_t chance = killing->seed + (uint64_t)self->rank;
  pthread_t thread;
  if (us || !dies(self, killing, self->rank) || job->step < step) return 0;
  if (killing->moment == BEFORE_PUSHES || job->step == STEPS) raise(SIGKILL);
  if (killing->moment != ANY_TIME) return 1;
  us = 1 + (useconds_t)below(&chance, 4000);
  pthread_create(&thread, NULL, killer, &us);
  return 0;
}

/* ---- steps ---- */

static int step_make(const struct ranks *self, struct job *job, float value, int is_last)
{
  struct shared *shared = self->argument;
  const struct killing *killing = &shared->killing;
  int least = is_last && killing->moment == AMID_PUSHES ? 1 : 0;
  atomic_store(&shared->began[self->rank], job->step + (value > 0));
  for (int t = TENSORS - 1; t >= least; t--) {
    tensor_fill(self, job, t, value);
    RANKS_CHECK(gradient_push(job->fusion, &job->g, t, NULL) == tuttiSuccess);
  }
  if (is_last) {
    usleep(200); /* some of it is on its way */
    raise(SIGKILL);
  }
  RANKS_CHECK(tuttiFusionWaitAll(job->fusion) == tuttiSuccess);
  job->step += value > 0;
  return weights_check(self, job, killing);
}

static int life_body(const struct ranks *self)
{
  struct shared *shared = self->argument;
  const struct killing *killing = &shared->killing;
  struct job job = {.step = 0};
  tuttiComm_t comm;
  float sum = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm, killing) == 0);
  while (job.step < STEPS) {
    int is_last = die_maybe(self, &job, killing);
    RANKS_CHECK(step_make(self, &job, 1, is_last) == 0);
    usleep(300);
  }
  if (dies(self, killing, self->rank)) raise(SIGKILL); /* it was to die later than this */
  atomic_fetch_add(&shared->ready, 1);
  while (atomic_load(&shared->ready) < self->nranks - killing->ndead) sched_yield();
  RANKS_CHECK(step_make(self, &job, 0, 0) == 0); /* its answer has all that was answered before */
  for (int t = 0; t < TENSORS && !exchanges(killing) && killing->rule != &rules[SOFTSYNC]; t++)
    for (size_t e = 0; e < tensors[t].count; e++) {
      int owner = owner_of(self, e);
      float value = at(&job, job.g.out, t, e);
      if (owner < 0) continue;
      RANKS_CHECK(value <= (float)atomic_load(&shared->began[owner]));
      RANKS_CHECK(dies(self, killing, owner) || value == STEPS);
    }
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  gradients_free(&job.g);
  RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiFloat32, tuttiSum, comm, NULL) ==
              (killing->ndead ? tuttiRemoteError : tuttiSuccess));
  tuttiCommAbort(comm);
  return 0;
}

static void killed_check(const char *transport, int nranks, const struct killing *killing)
{
  struct shared *shared = ranks_shared(sizeof *shared);
  shared->killing = *killing;
  int nbad = run_fusion(transport, nranks, life_body, shared);
  if (nbad != killing->ndead)
    fail_msg("%s, %d ranks, %s: %d from %d on die at moment %d of step %d (%d apart, seed %llu)", transport, nranks,
             killing->rule->name, killing->ndead, killing->first, (int)killing->moment, killing->step, killing->apart,
             (unsigned long long)killing->seed);
}

/* ---- tests ---- */

static void contributions_of_live_ranks_are_in_all_weights_once(void **state)
{
  static const struct killing killings[] = {{NULL, 1, 0, BEFORE_PUSHES, 5, 0, 0}, {NULL, 1, 1, AMID_PUSHES, 0, 0, 0},
                                            {NULL, 2, 2, BEHIND_PUSHES, 4, 0, 0}, {NULL, 4, 1, AMID_PUSHES, 3, 2, 0},
                                            {NULL, 1, 0, BEHIND_PUSHES, 9, 0, 0}, {NULL, 2, 2, AT_ONCE, 0, 0, 0}};
  static const int nranks[] = {3, 3, 5, 5, 2, 4};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int rule = 0; rule < RULES; rule++)
    for (size_t k = 0; k < sizeof killings / sizeof *killings; k++) {
      struct killing killing = killings[k];
      killing.rule = &rules[rule];
      killed_check(ranks_transports(ranks_transports(1) ? (int)((k + (size_t)rule) % 2) : 0), nranks[k], &killing);
    }
  unsetenv("TUTTI_DEBUG");
}

static void a_death_at_any_time_is_survived(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < 2 * times * RULES; k++) {
    uint64_t chance = first_seed + (uint64_t)k, seed = chance;
    int nranks = 2 + (int)below(&chance, RANKS - 1);
    struct killing killing = {.rule = &rules[seed / 2 % RULES], .moment = ANY_TIME, .seed = seed};
    killing.ndead = 1 + (int)below(&chance, (size_t)nranks - 1);
    killing.first = (int)below(&chance, (size_t)nranks);
    killing.step = (int)below(&chance, STEPS - 12);
    killing.apart = (int)below(&chance, 3);
    killed_check(ranks_transport_of(seed), nranks, &killing);
  }
  unsetenv("TUTTI_DEBUG");
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(contributions_of_live_ranks_are_in_all_weights_once),
                                     cmocka_unit_test(a_death_at_any_time_is_survived)};
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--times") == 0) times = atoi(argv[i + 1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
