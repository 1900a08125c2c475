/* SPDX-License-Identifier: BSD-3-Clause */
/* Nothing leaks: descriptors, threads, mappings, heap, names in /dev/shm, over many communicators in the same
 * processes, whether they end well, are aborted, fail to start, or lose a rank to kill -9 and are formed again with
 * a fresh process. `--long` does a thousand rounds, and a hundred with a kill.
 * Labels: slow, plain. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "census.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define WARM 5           /* rounds before the first count */
#define HEAP_SLACK 512 /* of the C library, at most: 320 were seen once, in a round that failed */
#define LARGE 200000

static int rounds = 60, kills = 12, limit_s = 120;

/* Shared by the ranks of a test. */
struct job {
  struct meeting *meeting;
  int rounds;
  int (*round)(const struct ranks *self, tuttiUniqueId id, int number);
  /* of kill-and-recreate */
  _Atomic int made;   /* round + 1 for which the id is there */
  _Atomic int inside; /* ranks that have been at work, in all rounds: the death of one may find them anywhere */
  tuttiUniqueId id;
  int survivors;
};

static struct job *job_make(int members, int count)
{
  struct job *job = ranks_shared(sizeof *job);
  assert_non_null(job);
  job->meeting = meeting_make(members);
  job->rounds = count;
  return job;
}

/* Values tell ranks apart; a sum that is right has them all. */
static int reduce(const struct ranks *self, tuttiComm_t comm, int count, tuttiStream_t stream)
{
  static _Thread_local float data[LARGE]; /* so much is in the stacks of the library's threads, too */
  for (int i = 0; i < count; i++) data[i] = (float)(self->rank + i % 5);
  RANKS_CHECK(tuttiAllReduce(data, data, (size_t)count, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  if (stream) RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
  for (int i = 0; i < count; i++)
    RANKS_CHECK(data[i] == (float)(self->nranks * (self->nranks - 1) / 2 + self->nranks * (i % 5)));
  return 0;
}

/* ---- rounds ---- */

static int work(const struct ranks *self, tuttiUniqueId id, int number)
{
  tuttiComm_t comm;
  tuttiStream_t stream;
  void *memory;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  RANKS_CHECK(tuttiMemAlloc(&memory, 100000) == tuttiSuccess);
  if (reduce(self, comm, 3, NULL) || reduce(self, comm, 500, stream)) return 1;
  if (number % 4 == 0 && reduce(self, comm, LARGE, NULL)) return 1;
  RANKS_CHECK(tuttiMemFree(memory) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  if (number % 3 == 0) RANKS_CHECK(tuttiCommFinalize(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* One rank aborts with operations of others, and on streams, still waiting for it. */
static int be_aborted(const struct ranks *self, tuttiUniqueId id, int number)
{
  static _Thread_local float x[8];
  tuttiComm_t comm;
  tuttiStream_t stream;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  if (number % 2 && reduce(self, comm, 100, NULL)) return 1;
  /* Else one rank may still be in that call when others miss the one that left. */
  RANKS_CHECK(meeting_wait(((struct job *)self->argument)->meeting));
  if (self->rank == number % self->nranks) {
    tuttiCommAbort(comm);
    RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
    return 0;
  }
  /* It may have left before this is queued: then the call itself says so. */
  tuttiResult_t result = tuttiAllReduce(x, x, 8, tuttiFloat, tuttiSum, comm, stream);
  if (result == tuttiSuccess) result = tuttiStreamDestroy(stream);
  else tuttiStreamDestroy(stream);
  RANKS_CHECK(result == tuttiRemoteError);
  if (number % 3) tuttiCommAbort(comm);
  else RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  return 0;
}

/* The last rank of one more never comes; nor do, in time, others that are held up. */
static int miss_one(const struct ranks *self, tuttiUniqueId id, int number)
{
  tuttiComm_t comm = NULL;
  (void)number;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks + 1, id, self->rank) == tuttiRemoteError);
  RANKS_CHECK(comm == NULL && tuttiGetLastError(NULL)[0]);
  return 0;
}

/* One rank's settings are of another mind, or all are wrong. */
static int differ(const struct ranks *self, tuttiUniqueId id, int number)
{
  tuttiComm_t comm = NULL;
  int alike = number % 2, odd = self->rank == number % self->nranks;
  setenv("TUTTI_ALGO", alike ? "teleport" : odd ? "ring" : "recursive_doubling", 1);
  tuttiResult_t result = tuttiCommInitRank(&comm, self->nranks, id, self->rank);
  RANKS_CHECK(result == (alike ? tuttiInvalidArgument : tuttiInvalidUsage) && comm == NULL);
  unsetenv("TUTTI_ALGO");
  return 0;
}

/* All ranks in one process, moved by one thread. */
static int init_all(const struct ranks *self, tuttiUniqueId id, int number)
{
  enum { N = 4 };
  tuttiComm_t comms[N];
  float x[N] = {1, 2, 3, 4};
  (void)id;
  RANKS_CHECK(tuttiCommInitAll(comms, N, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int r = 0; r < N; r++)
    RANKS_CHECK(tuttiAllReduce(&x[r], &x[r], 1, tuttiFloat, tuttiSum, comms[r], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int r = 0; r < N; r++) {
    RANKS_CHECK(x[r] == 10);
    if (number % 2) tuttiCommAbort(comms[r]);
    else RANKS_CHECK(tuttiCommDestroy(comms[r]) == tuttiSuccess);
  }
  return 0;
}

/* ---- many of them ---- */

/* A rendezvous that nobody comes to stays: this comes to the one that every test process is given. */
static int use_own_id(const struct ranks *self, struct census *bare)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  for (int looks = 0; looks < 50; looks++) { /* until what ends by itself has ended */
    usleep(200000);
    census_take(bare);
    if (bare->threads == 1 || !bare->heap) break;
  }
  RANKS_CHECK(bare->threads == 1 || !bare->heap); /* a sanitizer may have one */
  return 0;
}

/* After some rounds: what the heap has then is usual, but of the rest nothing more than before is. */
static void count_heap(struct census *before)
{
  struct census now;
  census_take(&now);
  before->heap = now.heap;
  before->resident = now.resident;
}

static void tell(const struct ranks *self, const char *what, int count, const struct census *at[2])
{
  if (self->rank != 0) return;
  printf("%s, %s, %d ranks, %d rounds: %d descriptors, %d threads, heap %+ld bytes, resident %+ld KiB\n", what,
         getenv("TUTTI_TRANSPORTS"), self->nranks, count, at[1]->descriptors, at[1]->threads,
         (long)at[1]->heap - (long)at[0]->heap, ((long)at[1]->resident - (long)at[0]->resident) / 1024);
  fflush(stdout);
}

static int many(const struct ranks *self)
{
  struct job *job = self->argument;
  struct census before, after;
  tuttiUniqueId id;
  if (use_own_id(self, &before)) return 1;
  if (job->round == miss_one) setenv("TUTTI_INIT_TIMEOUT_MS", "300", 1);
  for (int k = 0; k < WARM + job->rounds; k++) {
    if (k == WARM) {
      RANKS_CHECK(meeting_wait(job->meeting));
      count_heap(&before);
    }
    RANKS_CHECK(meeting_id(job->meeting, self->rank == 0 && job->round != init_all, &id));
    if (job->round(self, id, k)) return 1;
  }
  RANKS_CHECK(meeting_wait(job->meeting));
  RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  tell(self, "communicators", job->rounds, (const struct census *[]){&before, &after});
  return 0;
}

static void repeat(int nranks, int count, int (*round)(const struct ranks *, tuttiUniqueId, int))
{
  struct job *job = job_make(nranks, count);
  int in_dev_shm = census_dev_shm();
  job->round = round;
  assert_int_equal(ranks_run_processes(nranks, many, job, limit_s), 0);
  assert_int_equal(census_dev_shm(), in_dev_shm);
  meeting_free(job->meeting);
}

static void on_all(int nranks, int count, int (*round)(const struct ranks *, tuttiUniqueId, int))
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    repeat(nranks, count, round);
  }
}

static void communicators_leave_nothing(void **state)
{
  (void)state;
  on_all(2, rounds, work);
  on_all(4, rounds, work);
}

static void aborts_leave_nothing(void **state)
{
  (void)state;
  on_all(3, rounds / 2, be_aborted);
}

static void failed_inits_leave_nothing(void **state)
{
  (void)state;
  on_all(2, rounds / 10, miss_one);
  on_all(3, rounds / 2, differ);
}

static void ranks_of_one_thread_leave_nothing(void **state)
{
  (void)state;
  on_all(1, rounds, init_all);
}

/* ---- ranks as threads: fresh threads each time ---- */

static int one_life(const struct ranks *self)
{
  return work(self, self->id, 3) || self->rank > self->nranks;
}

static int lives(const struct ranks *self)
{
  struct job *job = self->argument;
  struct census before, after;
  if (use_own_id(self, &before)) return 1;
  for (int k = 0; k < WARM + job->rounds; k++) {
    if (k == WARM) count_heap(&before);
    RANKS_CHECK(ranks_run_threads(4, one_life, NULL, limit_s) == 0);
  }
  RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  tell(self, "ranks as threads", job->rounds, (const struct census *[]){&before, &after});
  return 0;
}

static void ranks_as_threads_leave_nothing(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    assert_int_equal(ranks_run_processes(1, lives, job_make(1, rounds / 2), limit_s), 0);
  }
}

/* ---- kill and recreate ---- */

/* Rank of the one that is killed; survivor p has the p-th of the other ranks. */
static int victim_of(int round, int survivors)
{
  return round % (survivors + 1);
}

static int at_work(const struct ranks *self, struct job *job, int round)
{
  static float data[LARGE];
  int count = round % 2 ? LARGE : 10;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, job->id, self->rank) == tuttiSuccess);
  if (reduce(self, comm, count, NULL)) return 1;
  tuttiResult_t result = tuttiSuccess;
  atomic_fetch_add(&job->inside, 1);
  while (result == tuttiSuccess)
    result = tuttiAllReduce(data, data, (size_t)count, tuttiFloat, tuttiMax, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError);
  if (round % 3 == 0) RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  else RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static int survive(const struct ranks *survivor)
{
  struct job *job = survivor->argument;
  struct ranks me = *survivor, *self = &me;
  struct census before, after;
  if (use_own_id(survivor, &before)) return 1;
  self->nranks = job->survivors + 1;
  for (int k = 0; k < WARM + job->rounds; k++) {
    int victim = victim_of(k, job->survivors);
    RANKS_CHECK(meeting_wait(job->meeting));
    if (k == WARM) count_heap(&before);
    if (survivor->rank == 0) {
      RANKS_CHECK(tuttiGetUniqueId(&job->id) == tuttiSuccess);
      atomic_store(&job->made, k + 1);
    }
    RANKS_CHECK(meeting_wait(job->meeting));
    self->rank = survivor->rank + (survivor->rank >= victim);
    if (at_work(self, job, k)) return 1;
  }
  RANKS_CHECK(meeting_wait(job->meeting));
  RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  self->rank = survivor->rank;
  tell(self, "kill -9", job->rounds, (const struct census *[]){&before, &after});
  return 0;
}

static int victim_start(struct job *job, int round)
{
  struct ranks self = {.rank = victim_of(round, job->survivors), .nranks = job->survivors + 1, .id = job->id};
  fflush(NULL);
  int pid = fork();
  if (pid) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  _exit(at_work(&self, job, round));
}

static void kill_and_recreate(int survivors)
{
  int pids[8];
  struct job *job = job_make(survivors, kills);
  int in_dev_shm = census_dev_shm();
  job->survivors = survivors;
  assert_int_equal(ranks_start(survivors, survive, job, pids), 0);
  for (int k = 0; k < WARM + kills; k++) {
    assert_true(meeting_await(&job->made, k + 1));
    int pid = victim_start(job, k);
    assert_true(meeting_await(&job->inside, (k + 1) * (survivors + 1)));
    usleep((useconds_t)(k % 7) * 3000);
    kill(pid, SIGKILL);
    assert_int_equal(ranks_wait(pid, 30), 128 + SIGKILL);
  }
  for (int p = 0; p < survivors; p++) assert_int_equal(ranks_wait(pids[p], 60), 0);
  assert_int_equal(census_dev_shm(), in_dev_shm);
  meeting_free(job->meeting);
}

static void survivors_of_a_kill_go_on_with_a_fresh_process(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    kill_and_recreate(1);
    kill_and_recreate(3);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(communicators_leave_nothing),
      cmocka_unit_test(aborts_leave_nothing),
      cmocka_unit_test(failed_inits_leave_nothing),
      cmocka_unit_test(ranks_of_one_thread_leave_nothing),
      cmocka_unit_test(ranks_as_threads_leave_nothing),
      cmocka_unit_test(survivors_of_a_kill_go_on_with_a_fresh_process),
  };
  if (argc > 1 && strcmp(argv[1], "--long") == 0) {
    rounds = 1000;
    kills = 100;
    limit_s = 1200;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
