/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions with a quorum, of which ranks are killed: the others go on, with weights that have the same contributors to
 * a step in all elements and on all ranks, those that died included, and nothing of one step in another. One death more
 * is an error that names all dead ranks; a collective of the communicator fails at the first one, as ever. A rank that
 * dies while the fusion is made ends that on all others, or on none; once it is made on one rank it is on all.
 * "--seed N": the moments of death; "--times N": so many of each kind.
 * Labels: processes. */
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "tagged_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 6
#define MAKING_US 30000 /* about as long as it takes to make a fusion */

static uint64_t first_seed = 1;
static int times = 1;

enum moment { AT_ONCE, BEFORE_PUSHES, AMID_PUSHES, BEHIND_PUSHES, ANY_TIME };

struct killing {
  int quorum, ndead, first; /* these ranks die: from `first` on */
  enum moment moment;
  int step, apart;          /* the first one in this step, each other one so many later */
  uint64_t seed;
};

struct shared {
  struct killing killing;
  _Atomic int ended[RANKS];
  float values[RANKS][TAGS]; /* by tag, of those that have ended */
  _Atomic int made[RANKS];   /* 1 + the result of tuttiFusionCreate */
};

static void *killer(void *argument)
{
  usleep(*(const useconds_t *)argument);
  raise(SIGKILL);
  return NULL;
}

static int dies(const struct ranks *self, const struct killing *killing)
{
  return (self->rank - killing->first + self->nranks) % self->nranks < killing->ndead;
}

/* Ends this process at its moment, or soon. Returns 1 if it has to end in the middle of its pushes. */
static int die_maybe(const struct ranks *self, const struct job *job, const struct killing *killing)
{
  static useconds_t us;
  int place = (self->rank - killing->first + self->nranks) % self->nranks;
  uint64_t step = (uint64_t)(killing->step + place * killing->apart), chance = killing->seed + (uint64_t)self->rank;
  pthread_t thread;
  if (us || !dies(self, killing) || job->info.updates < step) return 0;
  if (killing->moment == BEFORE_PUSHES) raise(SIGKILL);
  if (killing->moment != ANY_TIME) return 1;
  us = 1 + (useconds_t)below(&chance, 4000);
  pthread_create(&thread, NULL, killer, &us);
  return 0;
}

/* Pushes what is left of a step after which, or in which, this rank dies. */
static int last_step(const struct ranks *self, struct job *job, const struct killing *killing)
{
  int least = killing->moment == AMID_PUSHES ? 1 : 0;
  for (int t = TAGGED - 1; t >= least; t--) {
    tag_put(job, t, (int)job->info.updates, (float)(1 << self->rank));
    RANKS_CHECK(gradient_push(job->fusion, &job->g, t, NULL) == tuttiSuccess);
  }
  usleep(200); /* some of it is on its way */
  raise(SIGKILL);
  return 1;
}

static int life_body(const struct ranks *self)
{
  struct shared *shared = self->argument;
  const struct killing *killing = &shared->killing;
  struct job job = {.quorum = killing->quorum};
  tuttiComm_t comm;
  float sum = 1;
  uint64_t steps = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_begin(self, &job, comm) == 0);
  if (killing->moment == AT_ONCE && dies(self, killing)) raise(SIGKILL); /* others are in tuttiFusionCreate still */
  RANKS_CHECK(job_give(self, &job) == 0);
  for (; job.info.updates < TAGS; steps++) {
    if (die_maybe(self, &job, killing)) return last_step(self, &job, killing);
    RANKS_CHECK(job_step(self, &job, (int)job.info.updates, (float)(1 << self->rank)) == 0);
    RANKS_CHECK(job.wrong == 0 && sets_check(self, &job) == 0);
    usleep(300);
  }
  for (int tag = 0; tag < TAGS; tag++) {
    shared->values[self->rank][tag] = weight_of(&job, 0, (size_t)tag);
    steps -= (unsigned)shared->values[self->rank][tag] >> self->rank & 1;
  }
  RANKS_CHECK(job.info.dropped == steps); /* those that are not in the weights */
  atomic_store(&shared->ended[self->rank], 1);
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  gradients_free(&job.g);
  if (dies(self, killing)) raise(SIGKILL); /* it was to die later than this */
  RANKS_CHECK(tuttiAllReduce(&sum, &sum, 1, tuttiFloat32, tuttiSum, comm, NULL) == tuttiRemoteError);
  tuttiCommAbort(comm);
  return 0;
}

static void killed_check(const char *transport, int nranks, const struct killing *killing)
{
  struct shared *shared = ranks_shared(sizeof *shared);
  int first = -1;
  shared->killing = *killing;
  int nbad = run_fusion(transport, nranks, life_body, shared);
  if (nbad != killing->ndead)
    fail_msg("%s, %d ranks, quorum %d: %d from %d on die at moment %d of step %d (%d apart, seed %llu)", transport,
             nranks, killing->quorum, killing->ndead, killing->first, (int)killing->moment, killing->step,
             killing->apart, (unsigned long long)killing->seed);
  for (int rank = 0; rank < nranks; rank++) {
    if (!atomic_load(&shared->ended[rank])) continue;
    if (first < 0) first = rank;
    assert_memory_equal(shared->values[rank], shared->values[first], sizeof shared->values[0]);
  }
}

static void ranks_that_live_have_the_same_weights(void **state)
{
  static const struct killing killings[] = {
    {2, 1, 0, BEFORE_PUSHES, 5, 0, 0}, /* the decider */
    {2, 1, 1, AMID_PUSHES, 0, 0, 0},   /* before any update */
    {3, 2, 2, BEHIND_PUSHES, 4, 0, 0}, {3, 2, 4, AMID_PUSHES, 7, 1, 0}, {4, 2, 0, BEHIND_PUSHES, 3, 6, 0},
    {1, 1, 0, BEFORE_PUSHES, 9, 0, 0}, {1, 1, 1, BEHIND_PUSHES, 9, 0, 0}, /* one is left */
    {2, 1, 1, AT_ONCE, 0, 0, 0}, {3, 2, 4, AT_ONCE, 0, 0, 0}, {3, 2, 0, AT_ONCE, 0, 0, 0}};
  static const int nranks[] = {3, 3, 5, 5, 6, 2, 2, 3, 5, 5};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (size_t k = 0; k < sizeof killings / sizeof *killings; k++)
    killed_check(ranks_transports(ranks_transports(1) ? (int)(k % 2) : 0), nranks[k], &killings[k]);
  unsetenv("TUTTI_DEBUG");
}

static void a_death_at_any_time_is_survived(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < 2 * times; k++) {
    uint64_t chance = first_seed + (uint64_t)k, seed = chance;
    int nranks = 3 + (int)below(&chance, RANKS - 2), most = (nranks - 1) / 2;
    int ndead = 1 + (int)below(&chance, (size_t)most);
    struct killing killing = {.quorum = nranks - ndead, .ndead = ndead, .moment = ANY_TIME, .seed = seed};
    killing.first = (int)below(&chance, (size_t)nranks);
    killing.step = (int)below(&chance, TAGS - 8);
    killing.apart = (int)below(&chance, 3);
    killed_check(ranks_transport_of(seed), nranks, &killing);
  }
  unsetenv("TUTTI_DEBUG");
}

/* Ranks 1 and 2 die of four, of which one may. */
static int doom_body(const struct ranks *self)
{
  struct job job = {.quorum = 3};
  tuttiComm_t comm;
  tuttiResult_t result = tuttiSuccess;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  for (int k = 0; result == tuttiSuccess; k++) {
    if (k == 4 && (self->rank == 1 || self->rank == 2)) raise(SIGKILL);
    for (int t = 0; t < TAGGED && result == tuttiSuccess; t++) result = gradient_push(job.fusion, &job.g, t, NULL);
    if (result == tuttiSuccess) result = tuttiFusionWaitAll(job.fusion);
  }
  RANKS_CHECK(result == tuttiRemoteError && says("ranks 1, 2 died: a quorum of 3 of 4 ranks lets no more than 1 die"));
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiRemoteError);
  gradients_free(&job.g);
  tuttiCommAbort(comm);
  return 0;
}

static void one_death_more_names_all(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) assert_int_equal(run_fusion(ranks_transports(t), 4, doom_body, NULL), 2);
  unsetenv("TUTTI_DEBUG");
}

/* Three tensors of one element, of three ranks: a word of deaths is longer than any weights. */
static int short_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensors[] = {{"a", 1, tuttiFloat32}, {"b", 1, tuttiFloat32}, {"c", 1, tuttiFloat32}};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusionInfo_t info = {.size = sizeof info};
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  float weights[3] = {0}, gradient = 1;
  config.update = "sgd";
  config.rate = 1;
  config.quorum = 2;
  RANKS_CHECK(tuttiCommInitRank(&comm, 3, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, 3, &config) == tuttiSuccess);
  for (int t = 0; t < 3; t++) RANKS_CHECK(tuttiFusionState(fusion, t, 0, weights, 1, 1) == tuttiSuccess);
  RANKS_CHECK(comm_try(self, comm, 3) == 0); /* it is made on all ranks */
  while (info.updates < 20) {
    if (self->rank == *(const int *)self->argument && info.updates >= 5) raise(SIGKILL);
    for (int t = 0; t < 3; t++)
      RANKS_CHECK(tuttiFusionPush(fusion, t, &gradient, &weights[t], 1, tuttiFloat32, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess);
    for (int t = 0; t < 3; t++) /* two contributions to each update, or three */
      RANKS_CHECK(weights[t] == weights[0] && -weights[t] >= 2 * (float)info.updates);
    RANKS_CHECK(-weights[0] <= 3 * (float)info.updates);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  tuttiCommAbort(comm);
  return 0;
}

static void words_of_deaths_are_longer_than_short_weights(void **state)
{
  int *dies = ranks_shared(sizeof *dies);
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++)
    for (*dies = 0; *dies < 2; ++*dies)
      assert_int_equal(run_fusion(ranks_transports(t), 3, short_body, dies), 1);
  unsetenv("TUTTI_DEBUG");
}

/* ---- deaths in the making ---- */

/* Ends this process once one rank has the fusion. */
static void *killer_at_first(void *argument)
{
  const struct shared *shared = argument;
  for (int rank = 0; !atomic_load(&shared->made[rank]); rank = (rank + 1) % RANKS) usleep(20);
  raise(SIGKILL);
  return NULL;
}

/* In every other job the first rank that lives hears late of what others have made. */
static int making_body(const struct ranks *self)
{
  static useconds_t us;
  struct shared *shared = self->argument;
  const struct killing *killing = &shared->killing;
  struct job job = {.quorum = killing->quorum};
  uint64_t chance = killing->seed + (uint64_t)self->rank;
  tuttiComm_t comm;
  pthread_t thread;
  us = 1 + (useconds_t)below(&chance, MAKING_US);
  int is_at_first = (int)(killing->seed / 2 % 2), place = (self->rank - killing->first + self->nranks) % self->nranks;
  if (is_at_first && place == killing->ndead) setenv("TUTTI_FAULT", "side=recv,action=delay:5ms", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  void *(*kills)(void *) = is_at_first ? killer_at_first : killer;
  if (dies(self, killing)) RANKS_CHECK(pthread_create(&thread, NULL, kills, is_at_first ? (void *)shared : &us) == 0);
  tuttiResult_t result = job_create(&job, comm);
  atomic_store(&shared->made[self->rank], 1 + (int)result);
  if (dies(self, killing)) pause();
  RANKS_CHECK(result == tuttiSuccess || result == tuttiRemoteError);
  if (result == tuttiSuccess) {
    RANKS_CHECK(gradients_make(&job.g, tagged, TAGGED, 64, 0) && job_give(self, &job) == 0);
    while (job.info.updates < 3) RANKS_CHECK(job_step(self, &job, (int)job.info.updates, 1) == 0);
    RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
    gradients_free(&job.g);
  }
  tuttiCommAbort(comm);
  return 0;
}

static void making_check(const char *transport, uint64_t seed, int nmade[2])
{
  struct shared *shared = ranks_shared(sizeof *shared);
  uint64_t chance = seed;
  int nranks = 3 + (int)below(&chance, RANKS - 2), ndead = 1 + (int)below(&chance, (size_t)(nranks - 1) / 2), made = 0;
  struct killing *killing = &shared->killing;
  *killing = (struct killing){.quorum = nranks - ndead, .ndead = ndead, .seed = seed};
  killing->first = (int)below(&chance, (size_t)nranks);
  int nbad = run_fusion(transport, nranks, making_body, shared);
  if (nbad != ndead)
    fail_msg("%s, seed %llu: %d of %d ranks failed", transport, (unsigned long long)seed, nbad, nranks);
  for (int rank = 0; rank < nranks; rank++) {
    int is_dead = (rank - killing->first + nranks) % nranks < ndead, its = atomic_load(&shared->made[rank]);
    if (is_dead && its != 1 + tuttiSuccess) continue; /* it may have died before */
    if (made && its != made)
      fail_msg("%s, seed %llu: the creation returned %d on rank %d, %d on others", transport, (unsigned long long)seed,
               its - 1, rank, made - 1);
    made = its;
  }
  nmade[made == 1 + tuttiSuccess]++;
}

static void a_death_in_the_making_ends_it_on_all_or_on_none(void **state)
{
  int nmade[2] = {0, 0};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < 12 * times; k++) {
    uint64_t seed = first_seed + (uint64_t)k;
    making_check(ranks_transport_of(seed), seed, nmade);
  }
  unsetenv("TUTTI_DEBUG");
  print_message("%d made, %d not\n", nmade[1], nmade[0]);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_that_live_have_the_same_weights),
      cmocka_unit_test(a_death_at_any_time_is_survived),
      cmocka_unit_test(one_death_more_names_all),
      cmocka_unit_test(words_of_deaths_are_longer_than_short_weights),
      cmocka_unit_test(a_death_in_the_making_ends_it_on_all_or_on_none),
  };
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--times") == 0) times = atoi(argv[i + 1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
