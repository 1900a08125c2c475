/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank is killed while a fusion with servers moves: the others get one verdict on all, and without a timeout. If the
 * move has succeeded they go on, else the fusion moves once more, to those that live. Either way weights tell that each
 * contribution of a live rank is in them exactly once, unless `dropped` says otherwise. Where all ranks count a move
 * may end on some ranks alone, and the next one then says so on all.
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

#define RANKS 4
#define MOVE 6          /* updates after which the fusion moves, */
#define END 12          /* and at the end */
#define MOVE_US 30000   /* about as long as a move takes */

static uint64_t first_seed = 1;
static int times = 2;

struct task {
  struct meeting *meeting;
  int quorum; /* RANKS: all */
  int victim, slow; /* slow: a rank to which messages come late; -1: none */
  useconds_t us;    /* from the begin of the move to the death */
  int is_left;      /* 1: the victim does not move: it destroys the fusion, and dies meanwhile */
  _Atomic int moved[RANKS], again[RANKS]; /* 1 + the result of the move, and of another one */
  _Atomic int ended[RANKS];
  float values[RANKS][TAGS];
};

struct life {
  struct task *task;
  struct job job;
  uint64_t steps, counted;
  float *kept[TAGGED];
};

static int wants_all(const struct task *task)
{
  return task->quorum == RANKS;
}

static int tagged_step(const struct ranks *self, struct life *life)
{
  struct job *job = &life->job;
  RANKS_CHECK(job_step(self, job, (int)job->info.updates, (float)(1 << self->rank)) == 0);
  life->steps++;
  RANKS_CHECK(job->wrong == 0);
  for (int t = 0; t < TAGGED; t++)
    for (size_t e = 0; e < tagged[t].count; e++) {
      float value = life->kept[t][e] = weight_of(job, t, e);
      RANKS_CHECK(value == weight_of(job, 0, e % TAGS));
      RANKS_CHECK(e % TAGS < job->info.updates ? bits_of(value) >= 2 : value == 0);
      RANKS_CHECK(e % TAGS < MOVE || !((unsigned)value >> life->task->victim & 1));
    }
  return 0;
}

static int steps_until(const struct ranks *self, struct life *life, uint64_t updates)
{
  while (life->job.info.updates < updates) RANKS_CHECK(tagged_step(self, life) == 0);
  return 0;
}

static void *killer(void *argument)
{
  usleep(*(const useconds_t *)argument);
  raise(SIGKILL);
  return NULL;
}

static int victim_end(const struct ranks *self, struct life *life, tuttiComm_t to)
{
  struct task *task = life->task;
  pthread_t thread;
  RANKS_CHECK(pthread_create(&thread, NULL, killer, &task->us) == 0);
  if (task->is_left) tuttiFusionDestroy(life->job.fusion);
  else atomic_store(&task->moved[self->rank], 1 + (int)tuttiFusionMove(&life->job.fusion, to));
  pause();
  return 1;
}

/* A fusion in which all count ends behind a death. */
static int failure_await(const struct ranks *self, struct life *life)
{
  struct job *job = &life->job;
  tuttiResult_t result = tuttiSuccess;
  for (int t = TAGGED - 1; t >= 0 && result == tuttiSuccess; t--) {
    tag_put(job, t, (int)job->info.updates, (float)(1 << self->rank));
    result = gradient_push(job->fusion, &job->g, t, NULL);
  }
  if (result == tuttiSuccess) result = tuttiFusionWaitAll(job->fusion);
  RANKS_CHECK(result == tuttiRemoteError);
  return 0;
}

/* The shares that a dead rank has served are lost where all count. */
static int moved(const struct ranks *self, struct life *life, uint64_t updates, uint64_t dropped)
{
  struct job *job = &life->job;
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  RANKS_CHECK(job->info.updates == updates && job->info.dropped == dropped);
  for (int t = 0; t < TAGGED && wants_all(life->task); t++)
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, life->kept[t], tagged[t].count, 1) == tuttiSuccess);
  return 0;
}

/* The move once more, over what is left of the communicator. */
static int move_again(const struct ranks *self, struct life *life, tuttiComm_t *comm)
{
  struct job *job = &life->job;
  struct task *task = life->task;
  tuttiComm_t left;
  int failed[RANKS], n = RANKS;
  uint64_t updates = job->info.updates, dropped = job->info.dropped;
  while (tuttiBarrier(*comm, NULL) == tuttiSuccess) continue;
  RANKS_CHECK(tuttiCommGetFailed(*comm, failed, &n) == tuttiSuccess && n == 1 && failed[0] == task->victim);
  RANKS_CHECK(tuttiCommShrink(*comm, failed, n, &left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  tuttiCommAbort(*comm);
  *comm = left;
  if (wants_all(task)) job->quorum = RANKS - 1;
  tuttiResult_t result = tuttiFusionMove(&job->fusion, left);
  atomic_store(&task->again[self->rank], 1 + (int)result);
  if (result != tuttiSuccess) {
    RANKS_CHECK(wants_all(task) && result == tuttiInvalidUsage && says("bring fusions that two calls have made"));
    return 0;
  }
  return moved(self, life, updates, dropped);
}

static int life_end(const struct ranks *self, struct life *life)
{
  struct task *task = life->task;
  RANKS_CHECK(steps_until(self, life, END) == 0);
  for (int tag = 0; tag < TAGS; tag++) {
    task->values[self->rank][tag] = weight_of(&life->job, 0, (size_t)tag);
    life->counted += (unsigned)task->values[self->rank][tag] >> self->rank & 1;
  }
  RANKS_CHECK(life->job.info.dropped == life->steps - life->counted);
  atomic_store(&task->ended[self->rank], 1);
  return 0;
}

static int move_body(const struct ranks *self)
{
  struct task *task = self->argument;
  struct life life = {.task = task, .job = {.quorum = task->quorum}};
  tuttiComm_t first, comm;
  for (int t = 0; t < TAGGED; t++) life.kept[t] = calloc(tagged[t].count + 1, sizeof(float));
  if (self->rank == task->slow) setenv("TUTTI_FAULT", "side=recv,action=delay:3ms", 1);
  RANKS_CHECK(tuttiCommInitRank(&first, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &life.job, first) == 0);
  RANKS_CHECK(steps_until(self, &life, MOVE) == 0);
  int moves = !task->is_left || self->rank != task->victim;
  RANKS_CHECK(tuttiCommSplit(first, moves ? 0 : TUTTI_SPLIT_NOCOLOR, self->rank, &comm, NULL) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(task->meeting));
  if (self->rank == task->victim) return victim_end(self, &life, comm);
  if (task->is_left && wants_all(task)) life.job.quorum = RANKS - 1;
  tuttiResult_t result = tuttiFusionMove(&life.job.fusion, comm);
  atomic_store(&task->moved[self->rank], 1 + (int)result);
  RANKS_CHECK(result == tuttiSuccess || (result == tuttiRemoteError && !task->is_left));
  if (task->is_left) RANKS_CHECK(moved(self, &life, life.job.info.updates, life.job.info.dropped) == 0);
  else if (result == tuttiSuccess && wants_all(task)) RANKS_CHECK(failure_await(self, &life) == 0);
  if (result != tuttiSuccess || (wants_all(task) && !task->is_left))
    RANKS_CHECK(move_again(self, &life, &comm) == 0);
  if (atomic_load(&task->again[self->rank]) <= 1) RANKS_CHECK(life_end(self, &life) == 0);
  RANKS_CHECK(tuttiFusionDestroy(life.job.fusion) == tuttiSuccess || !atomic_load(&task->ended[self->rank]));
  gradients_free(&life.job.g);
  for (int t = 0; t < TAGGED; t++) free(life.kept[t]);
  tuttiCommAbort(comm);
  tuttiCommAbort(first);
  return 0;
}

static void moved_check(const char *transport, int quorum, uint64_t seed, int counts[3])
{
  struct task *task = ranks_shared(sizeof *task);
  uint64_t chance = seed;
  task->meeting = meeting_make(RANKS);
  task->quorum = quorum;
  task->victim = (int)below(&chance, RANKS);
  task->us = (useconds_t)below(&chance, MOVE_US);
  task->slow = (int)below(&chance, 2) ? (task->victim + 1 + (int)below(&chance, RANKS - 1)) % RANKS : -1;
  if (task->slow >= 0) task->us *= 5;
  task->is_left = below(&chance, 4) == 0;
  int nbad = run_fusion(transport, RANKS, move_body, task), first = -1, victim = task->victim;
  if (nbad != 1)
    fail_msg("%s, quorum %d, seed %llu: %d ranks failed (rank %d died after %d us, slow %d, left %d)", transport,
             quorum, (unsigned long long)seed, nbad, victim, (int)task->us, task->slow, task->is_left);
  for (int rank = 0; rank < RANKS; rank++) {
    if (rank == victim) continue;
    if (first < 0) first = rank;
    int its = atomic_load(&task->moved[rank]), others = atomic_load(&task->moved[first]);
    if (quorum < RANKS && its != others)
      fail_msg("%s, seed %llu: the move returned %d on rank %d, %d on others", transport, (unsigned long long)seed,
               its - 1, rank, others - 1);
    assert_int_equal(atomic_load(&task->again[rank]), atomic_load(&task->again[first]));
    assert_memory_equal(task->values[rank], task->values[first], sizeof task->values[0]);
  }
  counts[!atomic_load(&task->ended[first]) ? 2 : atomic_load(&task->moved[first]) == 1 + tuttiSuccess]++;
}

static void moved_run(int quorum)
{
  int counts[3] = {0, 0, 0};
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < 4 * times; k++) {
    uint64_t seed = first_seed + (uint64_t)k;
    moved_check(ranks_transport_of(seed), quorum, seed, counts);
  }
  unsetenv("TUTTI_DEBUG");
  print_message("%d moved at once, %d once more, %d on some ranks alone\n", counts[1], counts[0], counts[2]);
}

static void with_a_quorum_a_death_in_a_move_has_one_verdict(void **state)
{
  (void)state;
  moved_run(2);
}

static void where_all_count_a_move_goes_on_or_is_known_to_be_half_made(void **state)
{
  (void)state;
  moved_run(RANKS);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(with_a_quorum_a_death_in_a_move_has_one_verdict),
      cmocka_unit_test(where_all_count_a_move_goes_on_or_is_known_to_be_half_made),
  };
  for (int i = 1; i + 1 < argc; i += 2) {
    if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 10);
    else if (strcmp(argv[i], "--times") == 0) times = atoi(argv[i + 1]);
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
