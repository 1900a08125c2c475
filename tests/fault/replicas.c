/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_level 3 with real processes: leaders of logical ranks, and other replicas, are killed by SIGKILL in the middle
 * of calls. No call fails, and every result has, on every replica, bit for bit what it has without a death, for sums of
 * floats, whose bits depend on their order. A logical rank that loses its majority ends all alike.
 * Prints the time of the longest call of a job with deaths, from the death of a leader to the sum.
 * "--kills N": so many jobs, of each transport in turn; "--seed N"; "--only TEST".
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "chance.h"
#include "job_check.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "seeds.h"

#define LOGICAL 2
#define MOST_REPLICAS 5
#define PROCESSES (LOGICAL * MOST_REPLICAS)
#define CALLS 60
#define MOST 30000 /* elements of a call */
#define MOST_JOBS 1000 /* of a transport, whose times are kept */

static int njobs = 4;
static uint64_t first_seed = 1;

/* Shared with the processes. */
struct job {
  uint64_t seed;
  int n; /* replicas */
  int late; /* the process that makes no further call */
  const char *transports;
  _Atomic int nready;
  _Atomic int calls[PROCESSES]; /* under way */
  _Atomic long longest_us[PROCESSES]; /* of a call */
  uint64_t results[PROCESSES][CALLS]; /* digests; 0: the call has not ended */
};

static uint64_t digest(const void *data, size_t bytes)
{
  const uint8_t *at = data;
  uint64_t hash = 14695981039346656037u;
  for (size_t k = 0; k < bytes; k++) hash = (hash ^ at[k]) * 1099511628211u;
  return hash | 1;
}

static float in[LOGICAL * MOST], out[LOGICAL * MOST]; /* of this process */

/* The same on all replicas of a logical rank. */
static tuttiResult_t call(const struct job *job, int rank, int k, tuttiComm_t comm, uint64_t *result)
{
  uint64_t chance = job->seed * 7919 + (uint64_t)k;
  size_t kind = below(&chance, 6), root = below(&chance, LOGICAL), few = 1 + below(&chance, 7);
  size_t count = below(&chance, 2) ? MOST : few;
  int in_place = (int)below(&chance, 2);
  chance = job->seed * 104729 + (uint64_t)(k * LOGICAL + rank);
  for (size_t e = 0; e < LOGICAL * count; e++) in[e] = (float)next(&chance) / (float)(1ull << 40) - 1e6f;
  memset(out, 0, sizeof out);
  float *to = in_place ? in : out;
  size_t n = count;
  tuttiResult_t ended;
  if (kind == 0) ended = tuttiBroadcast(in, to, count, tuttiFloat, (int)root, comm, NULL);
  else if (kind == 1) {
    ended = tuttiReduce(in, to, count, tuttiFloat, tuttiSum, (int)root, comm, NULL);
    if (rank != (int)root) n = 0;
  } else if (kind == 2) {
    ended = tuttiAllGather(in_place ? in + (size_t)rank * count : in, to, count, tuttiFloat, comm, NULL);
    n = LOGICAL * count;
  } else if (kind == 3) {
    ended = tuttiReduceScatter(in, out, count, tuttiFloat, tuttiSum, comm, NULL);
    to = out;
  } else ended = tuttiAllReduce(in, to, count, tuttiFloat, kind == 4 ? tuttiAvg : tuttiSum, comm, NULL);
  *result = digest(to, n * sizeof *to);
  return ended;
}

static int body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  int nranks, rank;
  config.fault_level = 3;
  config.transports = job->transports;
  setenv("TUTTI_REPLICAS", job->n == 3 ? "3" : "5", 1);
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == LOGICAL);
  RANKS_CHECK(tuttiCommUserRank(comm, &rank) == tuttiSuccess && rank == self->rank / job->n);
  atomic_fetch_add(&job->nready, 1);
  for (int k = 0; k < CALLS; k++) {
    uint64_t result;
    atomic_store(&job->calls[self->rank], k);
    long since = meeting_now_us();
    RANKS_CHECK(call(job, rank, k, comm, &result) == tuttiSuccess);
    long took = meeting_now_us() - since;
    if (k && took > atomic_load(&job->longest_us[self->rank])) atomic_store(&job->longest_us[self->rank], took);
    job->results[self->rank][k] = result;
    RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == LOGICAL);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Kills the lowest replicas that live, which lead, and some others, at drawn calls a drawn time after they have begun:
 * a minority of each logical rank. Returns them. */
static unsigned leaders_kill(const struct job *job, const int *pids, uint64_t *chance)
{
  unsigned dead = 0;
  int at = 1 + (int)below(chance, CALLS / 3);
  for (int d = 0; d < job->n / 2; d++)
    for (int l = 0; l < LOGICAL; l++) {
      int first = l * job->n, victim = first, witness = 0;
      while (dead >> victim & 1) victim++;
      if (below(chance, 4) == 0) victim = first + job->n - 1 - d;
      if (dead >> victim & 1 || below(chance, 5) == 0) continue;
      while (dead >> witness & 1 || witness == victim) witness++;
      long limit = meeting_now_us() + 20000000 * ranks_patience();
      while (atomic_load(&job->calls[witness]) < at && meeting_now_us() < limit) usleep(20);
      int came = atomic_load(&job->calls[witness]);
      CHECK(came >= at, "process %d, of %d, has come to call %d only, not %d; 0x%x are dead", witness,
            LOGICAL * job->n, came, at, dead);
      long wait = meeting_now_us() + (long)below(chance, 1000);
      while (meeting_now_us() < wait) {}
      kill(pids[victim], SIGKILL);
      dead |= 1u << victim;
      at += (int)below(chance, CALLS / 6);
    }
  return dead;
}

static int by_value(const void *a, const void *b)
{
  long x = *(const long *)a, y = *(const long *)b;
  return (x > y) - (x < y);
}

static void times_print(const char *what, long *us, int n)
{
  qsort(us, (size_t)n, sizeof *us, by_value);
  if (n)
    printf("%s: %d jobs, longest call p50 %.1f ms, max %.1f ms\n", what, n, (double)us[n / 2] / 1e3,
           (double)us[n - 1] / 1e3);
}

/* Runs the job of a seed; kills: with deaths. Returns how many ranks were killed. */
static int job_run(struct job *job, int kills, long *longest_us)
{
  int pids[PROCESSES], nprocesses = LOGICAL * job->n, nkilled = 0;
  uint64_t chance = job->seed;
  assert_int_equal(ranks_start(nprocesses, body, job, pids), 0);
  assert_true(meeting_await(&job->nready, nprocesses));
  unsigned dead = kills ? leaders_kill(job, pids, &chance) : 0;
  for (int p = 0; p < nprocesses; p++) {
    int status = ranks_wait(pids[p], 60 * ranks_patience());
    CHECK(dead >> p & 1 || status == 0, "process %d: status %d in call %d", p, status, atomic_load(&job->calls[p]));
    nkilled += (int)(dead >> p & 1);
    if (!(dead >> p & 1) && atomic_load(&job->longest_us[p]) > *longest_us)
      *longest_us = atomic_load(&job->longest_us[p]);
  }
  return nkilled;
}

static void deaths_change_no_bit(void **state)
{
  static long times_us[2][MOST_JOBS];
  int nkilled = 0, ncompared = 0, ntimes[2] = {0, 0};
  long calm_us = 0;
  (void)state;
  for (int k = 0; k < njobs; k++) {
    struct job *whole = ranks_shared(sizeof *whole), *job = ranks_shared(sizeof *job);
    uint64_t seed = first_seed + (uint64_t)k;
    int is_second = ranks_transports(1) && seed % 2 == 0;
    *whole = (struct job){.seed = seed, .n = seed % 4 ? 3 : 5, .transports = ranks_transports(is_second)};
    *job = *whole;
    job_run(whole, 0, &calm_us);
    long longest_us = 0;
    int dead = job_run(job, 1, &longest_us);
    nkilled += dead;
    if (dead && ntimes[is_second] < MOST_JOBS) times_us[is_second][ntimes[is_second]++] = longest_us;
    for (int p = 0; p < LOGICAL * job->n; p++)
      for (int c = 0; c < CALLS; c++) {
        if (!job->results[p][c]) continue; /* it was killed before */
        int first = p / job->n * job->n;
        CHECK(job->results[p][c] == whole->results[first][c], "call %d has other bits on process %d", c, p);
        CHECK(whole->results[p][c] == whole->results[first][c], "call %d differs between replicas without a death", c);
        ncompared++;
      }
  }
  printf("%d jobs, %d processes killed, %d results alike bit for bit; longest call without deaths %.1f ms\n", njobs,
         nkilled, ncompared, (double)calm_us / 1e3);
  for (int t = 0; ranks_transports(t); t++) times_print(ranks_transports(t), times_us[t], ntimes[t]);
  assert_true(nkilled > 0);
}

/* ---- a call that gives a logical rank nothing ---- */

enum { LONG = 1 << 22 }; /* elements that no rank has sent before others receive */

/* Process 0 stays out of the last call but one, until it is killed. Then the leader of logical rank 1 is in it, and the
 * other replicas, to which it has nothing to hand on, in the barrier behind it. */
static int reduces(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  int rank;
  float *x = calloc(LONG, sizeof *x), *sum = calloc(LONG, sizeof *sum), one = 1, two = 0;
  config.fault_level = 3;
  config.transports = job->transports;
  RANKS_CHECK(x && sum);
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiCommUserRank(comm, &rank) == tuttiSuccess);
  for (int i = 0; i < LONG; i++) x[i] = (float)(i + rank);
  RANKS_CHECK(tuttiAllReduce(&one, &two, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess && two == 2);
  atomic_fetch_add(&job->nready, 1);
  while (self->rank == 0) pause();
  RANKS_CHECK(tuttiReduce(x, sum, LONG, tuttiFloat, tuttiSum, 0, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < LONG && rank == 0; i++) RANKS_CHECK(sum[i] == (float)(2 * i + 1)); /* exact: below 2^24 */
  RANKS_CHECK(tuttiAllReduce(&one, &two, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess && two == 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  free(x);
  free(sum);
  return 0;
}

static void a_leader_dies_while_another_has_nothing_to_hand_on(void **state)
{
  int pids[PROCESSES];
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    struct job *job = ranks_shared(sizeof *job);
    job->transports = ranks_transports(t);
    assert_int_equal(ranks_start(6, reduces, job, pids), 0);
    assert_true(meeting_await(&job->nready, 6));
    usleep(200000);
    kill(pids[0], SIGKILL);
    for (int p = 0; p < 6; p++) {
      int status = ranks_wait(pids[p], 30 * ranks_patience());
      if (p != 0) assert_int_equal(status, 0);
    }
  }
}

/* ---- hosts that are lost ---- */

/* Replica r of each logical rank is on host r. */
static int on_hosts(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  float one = 1, two;
  char host[16];
  snprintf(host, sizeof host, "host%d", self->rank % MOST_REPLICAS);
  setenv("TUTTI_HOSTID", host, 1);
  setenv("TUTTI_REPLICAS", "5", 1);
  config.fault_level = 3;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; k < CALLS; k++) {
    RANKS_CHECK(tuttiAllReduce(&one, &two, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess && two == 2);
    if (k == 1) atomic_fetch_add(&job->nready, 1);
    while (k == 1 && !atomic_load(&job->calls[0])) usleep(200);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Processes 1, 2, 3 and 6, 7, 8 of a ring of ten are left: no link of that ring leads from one side to the other. */
static void two_of_five_hosts_die_at_once(void **state)
{
  int pids[PROCESSES];
  const unsigned dead = 1u << 0 | 1u << 4 | 1u << 5 | 1u << 9;
  struct job *job = ranks_shared(sizeof *job);
  (void)state;
  assert_int_equal(ranks_start(PROCESSES, on_hosts, job, pids), 0);
  assert_true(meeting_await(&job->nready, PROCESSES));
  for (int p = 0; p < PROCESSES; p++)
    if (dead >> p & 1) kill(pids[p], SIGKILL);
  atomic_store(&job->calls[0], 1);
  for (int p = 0; p < PROCESSES; p++) {
    int status = ranks_wait(pids[p], 30 * ranks_patience());
    if (!(dead >> p & 1)) assert_int_equal(status, 0);
  }
}

/* ---- a replica that is late ---- */

/* One replica makes no further call. It is told that it was taken for lost, and no other one is. */
static int is_late(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  float one = 1, two;
  setenv("TUTTI_TIMEOUT_MS", "1000", 1);
  config.fault_level = 3;
  config.transports = job->transports;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; k < CALLS; k++) {
    int is_the_one = self->rank == job->late;
    if (k == 5 && is_the_one) RANKS_CHECK(meeting_await(&job->nready, 5));
    tuttiResult_t result = tuttiAllReduce(&one, &two, 1, tuttiFloat, tuttiSum, comm, NULL);
    if (k == 5 && is_the_one) {
      RANKS_CHECK(result == tuttiRemoteError && says("the other ranks took rank"));
      RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
      return 0;
    }
    RANKS_CHECK(result == tuttiSuccess && two == 2);
  }
  atomic_fetch_add(&job->nready, 1);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_late_replica_costs_no_other_one(void **state)
{
  (void)state;
  for (int late = 3; late < 6; late++) { /* one of them leads */
    struct job *job = ranks_shared(sizeof *job);
    job->transports = ranks_transports(late % 2);
    job->late = late;
    assert_int_equal(ranks_run_processes(6, is_late, job, 30), 0);
  }
}

/* ---- a replica that lacks memory ---- */

/* Process 4, for its copy of the contribution. With `late` the call is not the first one. */
static int lacks_memory(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  static float data[1000];
  config.fault_level = 3;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (job->late) RANKS_CHECK(tuttiAllReduce(data, data, 10, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  if (self->rank == 4) tt_alloc_fail_at(1);
  RANKS_CHECK(tuttiAllReduce(data, data, 1000, tuttiFloat, tuttiSum, comm, NULL) == tuttiSystemError);
  RANKS_CHECK(self->rank != 4 || says("no memory to keep"));
  RANKS_CHECK(tuttiAllReduce(data, data, 1000, tuttiFloat, tuttiSum, comm, NULL) == tuttiSystemError);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSystemError);
  return 0;
}

/* Also where another process dies while it gives up: then the view changes, and the call is made again. */
static void a_replica_without_memory_ends_all_alike(void **state)
{
  (void)state;
  for (int late = 0; late < 2; late++) {
    struct job *job = ranks_shared(sizeof *job);
    int pids[PROCESSES];
    job->late = late;
    assert_int_equal(ranks_start(6, lacks_memory, job, pids), 0);
    assert_true(meeting_await(&job->nready, 6));
    usleep(500000);
    if (late) kill(pids[2], SIGKILL);
    for (int p = 0; p < 6; p++) {
      int status = ranks_wait(pids[p], 60);
      if (p != 2 || !late) assert_int_equal(status, 0);
    }
  }
}

/* ---- a logical rank without a majority ---- */

static int lacks(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  tuttiResult_t result = tuttiSuccess, state;
  float value = 1, sum;
  config.fault_level = 3;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  while (result == tuttiSuccess) result = tuttiAllReduce(&value, &sum, 1, tuttiFloat, tuttiSum, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError && says("of logical rank 1 no more than half"));
  RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiRemoteError);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  return 0;
}

static void a_logical_rank_without_a_majority_ends_all(void **state)
{
  int pids[PROCESSES];
  struct job *job = ranks_shared(sizeof *job);
  (void)state;
  assert_int_equal(ranks_start(6, lacks, job, pids), 0);
  assert_true(meeting_await(&job->nready, 6));
  usleep(30000);
  kill(pids[3], SIGKILL);
  kill(pids[5], SIGKILL);
  for (int p = 0; p < 6; p++) {
    int status = ranks_wait(pids[p], 30 * ranks_patience());
    if (p != 3 && p != 5) assert_int_equal(status, 0);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(deaths_change_no_bit),
                                     cmocka_unit_test(a_leader_dies_while_another_has_nothing_to_hand_on),
                                     cmocka_unit_test(two_of_five_hosts_die_at_once),
                                     cmocka_unit_test(a_late_replica_costs_no_other_one),
                                     cmocka_unit_test(a_replica_without_memory_ends_all_alike),
                                     cmocka_unit_test(a_logical_rank_without_a_majority_ends_all)};
  setenv("TUTTI_DEBUG", "NONE", 0);
  setenv("TUTTI_CACHE", "none", 0);
  seeds_read(argc, argv, "--kills", &first_seed, &njobs);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
