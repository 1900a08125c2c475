/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_level 1 with real processes: ranks are killed by SIGKILL at drawn moments, also several at once and while the
 * others agree on who is left. Each rank logs how each of its collectives ended. Then the logs are compared: every
 * collective has one outcome on all ranks that it ended on, also on those killed later; every success has the result of
 * exactly the members of one view; and all survivors carry out all of their collectives, without a restart. A third of
 * the jobs is on two hosts, where more than half of the ranks survive. A host that is silent for too long is left
 * behind, and told when it speaks again; a half without rank 0 does not go on, the one with it does.
 * "--kills N": so many jobs, of each transport in turn; "--seed N"; "--only TEST"; "--totals FILE".
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "campaign.h"
#include "chance.h"
#include "job_check.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "seeds.h"

#define RANKS 5
#define CALLS 400
#define MOST 20000 /* elements of a call */

static int njobs = 12;
static uint64_t first_seed = 1;
static struct campaign campaign = {.name = "views"};

enum { BROADCAST, REDUCE, ALL_GATHER, ALL_REDUCE, REDUCE_SCATTER, ALL_TO_ALL, GATHER, SCATTER, BARRIER, KINDS };

/* A call, as a rank knows it. */
struct outcome {
  int code;       /* 1 + tuttiResult_t; 0: the call has not ended */
  uint64_t ranks; /* bit for each rank of the first view whose contribution the result has; all: it is no sum */
  int nranks;     /* of the communicator after it */
};

/* Shared with the processes. */
struct job {
  uint64_t seed;
  int nranks;
  const char *transports;
  int nhosts;
  _Atomic int nready;
  _Atomic int calls[RANKS]; /* under way */
  struct outcome log[RANKS][CALLS];
};

/* The shape of call k is the same on all ranks. Calls of one kind and root come one after the other: without the commit
 * barrier the root of a broadcast would be many calls ahead of the others. */
static void shape(const struct job *job, int k, int nranks, int *kind, int *root, size_t *count)
{
  uint64_t chance = job->seed * 7919 + (uint64_t)k;
  static const size_t counts[] = {1, 100, MOST / RANKS};
  *count = counts[below(&chance, 3)];
  chance = job->seed * 104729 + (uint64_t)k / 16;
  *kind = (int)below(&chance, KINDS + 3);
  if (*kind >= KINDS) *kind = BROADCAST;
  *root = (int)below(&chance, (size_t)nranks);
}

/* Each rank contributes a power of 16, so a sum tells who is in it, and how often. Returns those ranks; 0: it is
 * wrong. */
static uint64_t ranks_in(const int64_t *data, size_t count)
{
  uint64_t ranks = 0;
  for (size_t k = 1; k < count; k++)
    if (data[k] != data[0]) return 0;
  for (int r = 0; r < RANKS; r++) {
    int64_t times = data[0] >> 4 * r & 15;
    if (times > 1) return 0;
    ranks |= (uint64_t)times << r;
  }
  return data[0] >> 4 * RANKS ? 0 : ranks;
}

static int64_t in[MOST], out[MOST]; /* of this process */

/* Shares of ranks in their order: 0: they are wrong. */
static int are_shares(int nranks, size_t count)
{
  for (int r = 0, last = -1; r < nranks; r++) {
    uint64_t of = ranks_in(out + (size_t)r * count, count);
    int who = of ? __builtin_ctzll(of) : -1;
    if (!of || (of & (of - 1)) || who <= last) return 0;
    last = who;
  }
  return 1;
}

static tuttiResult_t call(const struct job *job, int self, int k, tuttiComm_t comm, uint64_t *ranks)
{
  int kind, root, nranks, rank;
  size_t count;
  tuttiCommCount(comm, &nranks);
  tuttiCommUserRank(comm, &rank);
  shape(job, k, nranks, &kind, &root, &count);
  for (size_t e = 0; e < count * (size_t)nranks; e++) in[e] = (int64_t)1 << 4 * self;
  memset(out, 0, sizeof out);
  tuttiResult_t result = tuttiSuccess;
  *ranks = UINT64_MAX;
  if (kind == BROADCAST) result = tuttiBroadcast(in, out, count, tuttiInt64, root, comm, NULL);
  else if (kind == REDUCE) result = tuttiReduce(in, out, count, tuttiInt64, tuttiSum, root, comm, NULL);
  else if (kind == ALL_GATHER) result = tuttiAllGather(in, out, count, tuttiInt64, comm, NULL);
  else if (kind == ALL_REDUCE) result = tuttiAllReduce(in, out, count, tuttiInt64, tuttiSum, comm, NULL);
  else if (kind == REDUCE_SCATTER) result = tuttiReduceScatter(in, out, count, tuttiInt64, tuttiSum, comm, NULL);
  else if (kind == ALL_TO_ALL) result = tuttiAlltoAll(in, out, count, tuttiInt64, comm, NULL);
  else if (kind == GATHER) result = tuttiGather(in, out, count, tuttiInt64, root, comm, NULL);
  else if (kind == SCATTER) result = tuttiScatter(in, out, count, tuttiInt64, root, comm, NULL);
  else result = tuttiBarrier(comm, NULL);
  if (result != tuttiSuccess || kind == BARRIER || ((kind == REDUCE || kind == GATHER) && rank != root)) return result;
  if (kind == BROADCAST || kind == SCATTER) *ranks = ranks_in(out, count) ? UINT64_MAX : 0;
  else if (kind == ALL_GATHER || kind == ALL_TO_ALL || kind == GATHER)
    *ranks = are_shares(nranks, count) ? UINT64_MAX : 0;
  else *ranks = ranks_in(out, count);
  return result;
}

static tuttiResult_t join(const struct ranks *self, int nhosts, tuttiComm_t *comm)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.fault_level = 1;
  config.transports = job->transports;
  if (nhosts > 1) setenv("TUTTI_HOSTID", self->rank % nhosts ? "odd" : "even", 1);
  return tuttiCommInitRankConfig(comm, self->nranks, self->id, self->rank, &config);
}

static int body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(join(self, job->nhosts, &comm) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  for (int k = 0; k < CALLS; k++) {
    struct outcome *outcome = &job->log[self->rank][k];
    atomic_store(&job->calls[self->rank], k);
    tuttiResult_t result = call(job, self->rank, k, comm, &outcome->ranks), state;
    RANKS_CHECK(tuttiCommCount(comm, &outcome->nranks) == tuttiSuccess);
    atomic_signal_fence(memory_order_seq_cst);
    outcome->code = 1 + (int)result;
    RANKS_CHECK(result == tuttiSuccess || result == tuttiRemoteError);
    RANKS_CHECK(result == tuttiSuccess || strstr(tuttiGetLastError(NULL), "failed on all ranks that are left"));
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Kills ranks at drawn calls, a drawn time after they have begun: the first ones apart, or all at nearly once. */
static uint64_t ranks_kill(struct job *job, const int *pids, uint64_t *chance, int ndead)
{
  uint64_t dead = 0;
  int victim = (int)below(chance, (size_t)job->nranks), at = (int)below(chance, CALLS / 2);
  int are_apart = below(chance, 2) != 0;
  for (int d = 0; d < ndead; d++, victim = (victim + 1) % job->nranks) {
    long limit = meeting_now_us() + 20000000 * ranks_patience();
    int witness = 0;
    while (dead >> witness & 1) witness++;
    while (atomic_load(&job->calls[witness]) < at && meeting_now_us() < limit) usleep(20);
    int came = atomic_load(&job->calls[witness]);
    CHECK(came >= at, "rank %d has come to call %d only, not %d; 0x%llx are dead", witness, came, at,
          (unsigned long long)dead);
    long wait = meeting_now_us() + (long)below(chance, 500);
    while (meeting_now_us() < wait) {}
    kill(pids[victim], SIGKILL);
    dead |= 1ull << victim;
    if (are_apart) at += 1 + (int)below(chance, (size_t)(CALLS - at) / 3 + 1);
    else usleep((useconds_t)below(chance, 3) * 700); /* the others may be agreeing on the first one */
  }
  return dead;
}

/* Returns how many calls failed. */
static int log_check(const struct job *job, uint64_t dead)
{
  int nfailed = 0;
  for (int k = 0; k < CALLS; k++) {
    int code = 0, nranks = 0;
    uint64_t ranks = UINT64_MAX;
    for (int r = 0; r < job->nranks; r++) {
      const struct outcome *outcome = &job->log[r][k];
      CHECK(outcome->code || dead >> r & 1, "rank %d has no outcome of call %d", r, k);
      if (!outcome->code) continue;
      CHECK(!code || outcome->code == code, "call %d ended with %d on rank %d and %d elsewhere", k, outcome->code - 1,
            r, code - 1);
      code = outcome->code;
      if (!(dead >> r & 1)) { /* one that was killed may have died between the call and the count */
        CHECK(!nranks || outcome->nranks == nranks, "call %d: %d ranks on rank %d, %d elsewhere", k, outcome->nranks, r,
              nranks);
        nranks = outcome->nranks;
      }
      if (code != 1 + (int)tuttiSuccess || outcome->ranks == UINT64_MAX) continue;
      CHECK(outcome->ranks, "call %d: a wrong result on rank %d", k, r);
      CHECK(ranks == UINT64_MAX || ranks == outcome->ranks, "call %d: results of ranks %llx and %llx", k,
            (unsigned long long)ranks, (unsigned long long)outcome->ranks);
      ranks = outcome->ranks;
    }
    nfailed += code == 1 + (int)tuttiRemoteError;
    if (ranks != UINT64_MAX)
      CHECK((ranks | dead) == (1ull << job->nranks) - 1, "call %d: a survivor is not in the result %llx", k,
            (unsigned long long)ranks);
  }
  return nfailed;
}

static void job_run(uint64_t seed, const char *transports, int nhosts, int *nfailed, int *nkilled)
{
  int pids[RANKS], ndead;
  uint64_t chance = seed;
  struct job *job = ranks_shared(sizeof *job);
  *job = (struct job){.seed = seed, .nranks = nhosts + 1 + (int)below(&chance, (size_t)(RANKS - nhosts)),
                      .transports = transports, .nhosts = nhosts};
  int most = nhosts > 1 ? (job->nranks - 1) / 2 : job->nranks - 1;
  ndead = 1 + (int)below(&chance, (size_t)most);
  assert_int_equal(ranks_start(job->nranks, body, job, pids), 0);
  assert_true(meeting_await(&job->nready, job->nranks));
  uint64_t dead = ranks_kill(job, pids, &chance, ndead);
  for (int r = 0; r < job->nranks; r++) {
    int status = ranks_wait(pids[r], 60 * ranks_patience());
    CHECK(dead >> r & 1 || status == 0, "rank %d: status %d in call %d", r, status, atomic_load(&job->calls[r]));
  }
  *nfailed += log_check(job, dead);
  *nkilled += ndead;
}

static void survivors_agree_on_every_outcome_and_go_on(void **state)
{
  int nfailed = 0, nkilled = 0;
  (void)state;
  for (int k = 0; k < njobs; k++) {
    uint64_t seed = first_seed + (uint64_t)k;
    const char *given = ranks_transports(1) ? NULL : ranks_transports(0); /* maybe of devices, and so of hosts */
    job_run(seed, given ? given : seed % 3 == 1 ? "shm" : "tcp", 1 + (given || seed % 3 == 0), &nfailed, &nkilled);
  }
  printf("%d jobs, %d ranks killed, %d calls failed, each on all survivors\n", njobs, nkilled, nfailed);
  campaign.first = first_seed;
  campaign.done = njobs; /* a disagreement has ended the program */
  campaign_total(&campaign, "kills=%d failed_calls=%d disagreements=0", nkilled, nfailed);
  assert_true(nfailed > 0 && nfailed <= nkilled);
}

/* ---- hosts that are silent ---- */

/* Ranks of odd numbers are on one host, the others on another one, and those of one are stopped in a barrier: if it is
 * the one with rank 0, of a half, the others end, and it goes on when it wakes. */
static int is_silent(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiComm_t comm;
  tuttiResult_t result = tuttiSuccess;
  int nranks, nleft = (self->nranks + 1) / 2; /* ranks of even numbers */
  setenv("TUTTI_UNREACHABLE_MS", "1000", 1);
  RANKS_CHECK(join(self, 2, &comm) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  while (result == tuttiSuccess) result = tuttiBarrier(comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError);
  if (self->rank % 2) {
    int is_stopped = !job->seed;
    const char *sentence = tuttiGetLastError(NULL);
    RANKS_CHECK(strstr(sentence, "These do not") || (is_stopped && strstr(sentence, "the other ranks took rank")));
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    atomic_fetch_add(&job->nready, 1);
    return 0;
  }
  RANKS_CHECK(says("failed on all ranks that are left"));
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == nleft);
  for (int k = 0; k < 20; k++) RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  usleep(1000000); /* the others find it alive */
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Stops ranks first, first + 2, ... */
static void silent(int nranks, int first)
{
  int pids[RANKS], nleft = (nranks + first) / 2;
  struct job *job = ranks_shared(sizeof *job);
  *job = (struct job){.transports = "tcp", .seed = !first};
  assert_int_equal(ranks_start(nranks, is_silent, job, pids), 0);
  assert_true(meeting_await(&job->nready, nranks));
  usleep(20000);
  long since = meeting_now_us();
  for (int r = first; r < nranks; r += 2) kill(pids[r], SIGSTOP);
  assert_true(meeting_await(&job->nready, nranks + nleft));
  printf("%d ranks, a silent host with %d: the others know after %ld ms, with a limit of 1000 ms\n", nranks,
         nranks - nleft, (meeting_now_us() - since) / 1000);
  for (int r = first; r < nranks; r += 2) kill(pids[r], SIGCONT);
  for (int r = 0; r < nranks; r++) assert_int_equal(ranks_wait(pids[r], 30 * ranks_patience()), 0);
}

static void a_silent_host_is_left_behind_and_told(void **state)
{
  (void)state;
  silent(5, 1);
}

static void only_the_half_with_the_lowest_rank_goes_on(void **state)
{
  (void)state;
  silent(2, 0);
}

/* ---- ranks that are late ---- */

/* Rank 2 makes no further call, rank 3 waits for it in a broadcast, and the others behind that in the barrier. */
static int is_late(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiComm_t comm;
  int nranks, byte = self->rank;
  setenv("TUTTI_TIMEOUT_MS", "1500", 1);
  setenv("TUTTI_ALGO", "broadcast:chain", 1);
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  for (int k = 0; k < 5; k++) RANKS_CHECK(tuttiBroadcast(&byte, &byte, 1, tuttiInt32, 0, comm, NULL) == tuttiSuccess);
  if (self->rank == 2) RANKS_CHECK(meeting_await(&job->nready, 3));
  tuttiResult_t result = tuttiBroadcast(&byte, &byte, 1, tuttiInt32, 0, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError);
  if (self->rank == 2) {
    RANKS_CHECK(says("the other ranks took rank 2"));
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    return 0;
  }
  RANKS_CHECK(says("failed on all ranks that are left"));
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == 3);
  for (int k = 0; k < 20; k++) RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_late_rank_costs_no_other_one(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    struct job *job = ranks_shared(sizeof *job);
    *job = (struct job){.transports = ranks_transports(t)};
    assert_int_equal(ranks_run_processes(4, is_late, job, 30), 0);
  }
}

/* ---- failures without a death ---- */

/* A connection of rank 2 is broken (TUTTI_FAULT), or rank 2 lacks memory for its first all-gather. */
static int is_disturbed(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  tuttiResult_t result = tuttiSuccess;
  float value = 1, sum = 0;
  struct outcome *outcome = &job->log[self->rank][0];
  if (!job->seed) setenv("TUTTI_FAULT", "rank=2,nth=30,action=drop", 1);
  config.fault_level = 1;
  config.timeout_ms = 1000;
  config.transports = "tcp";
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; k < 100 && result == tuttiSuccess; k++)
    result = tuttiAllReduce(&value, &sum, 1, tuttiFloat, tuttiSum, comm, NULL);
  if (job->seed && self->rank == 2) tt_alloc_fail_at(1);
  if (job->seed) result = tuttiAllGather(&value, in, 1, tuttiFloat, comm, NULL);
  const char *sentence = tuttiGetLastError(NULL);
  RANKS_CHECK(result == (job->seed ? tuttiSystemError : tuttiRemoteError));
  outcome->code = strstr(sentence, "on all ranks that are left") ? 1 : strstr(sentence, "the other ranks took") ? 2 : 3;
  RANKS_CHECK(tuttiCommCount(comm, &outcome->nranks) == tuttiSuccess);
  for (int k = 0; k < 20 && outcome->code == 1; k++)
    RANKS_CHECK(tuttiAllReduce(&value, &sum, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess && sum == 2);
  tuttiCommDestroy(comm);
  return 0;
}

static void a_broken_connection_costs_one_of_its_ranks(void **state)
{
  struct job *job = ranks_shared(sizeof *job);
  (void)state;
  assert_int_equal(ranks_run_processes(3, is_disturbed, job, 60), 0);
  int codes = 0;
  for (int r = 0; r < 3; r++) codes += job->log[r][0].code;
  assert_int_equal(codes, 1 + 1 + 2);
  for (int r = 0; r < 3; r++) assert_int_equal(job->log[r][0].nranks, job->log[r][0].code == 1 ? 2 : 3);
}

/* Each waits 5 s for an explanation, longer than a rank may be late, and takes none of the others for late. */
static void ranks_that_find_no_explanation_end_alike(void **state)
{
  struct job *job = ranks_shared(sizeof *job);
  (void)state;
  job->seed = 1;
  assert_int_equal(ranks_run_processes(3, is_disturbed, job, 60), 0);
  for (int r = 0; r < 3; r++) {
    assert_int_equal(job->log[r][0].code, 3);
    assert_int_equal(job->log[r][0].nranks, 3);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(survivors_agree_on_every_outcome_and_go_on),
                                     cmocka_unit_test(a_broken_connection_costs_one_of_its_ranks),
                                     cmocka_unit_test(ranks_that_find_no_explanation_end_alike),
                                     cmocka_unit_test(a_silent_host_is_left_behind_and_told),
                                     cmocka_unit_test(only_the_half_with_the_lowest_rank_goes_on),
                                     cmocka_unit_test(a_late_rank_costs_no_other_one)};
  setenv("TUTTI_DEBUG", "NONE", 0);
  setenv("TUTTI_CACHE", "none", 0);
  seeds_read(argc, argv, "--kills", &first_seed, &njobs);
  campaign.began_ms = meeting_now_ms();
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], "--totals") == 0) campaign.totals = argv[i + 1];
  return cmocka_run_group_tests(tests, NULL, NULL);
}
