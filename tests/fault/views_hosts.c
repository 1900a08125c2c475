/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_level 1 between hosts: whichever ranks leave, those that are left stay linked with each other, and agree. No
 * link that is made for that costs a rank that lives: not by one that comes back and was taken for lost, and not for
 * want of descriptors or of room for links. Ranks pretend to be on several hosts. "--only TEST". Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 24
#define FAILURES 3
#define LIMIT_S 40

struct job {
  int each;            /* ranks of a host */
  int nleft[FAILURES]; /* after each failure; 0: there are no more */
  uint64_t aborts;     /* bit for each rank that aborts ... */
  uint64_t lingers;    /* ... that goes on for a while after the others took it for lost ... */
  uint64_t lates;      /* ... and that makes no call until the others have ended */
  _Atomic int nready;  /* ranks */
  _Atomic int nfailed; /* ranks that have seen them, each */
  _Atomic int nended;
};

/* Broadcasts until so many ranks are left as after the k-th failure; ranks that leave together may fail several. */
static int fails(const struct ranks *self, tuttiComm_t comm, int k)
{
  struct job *job = self->argument;
  int nranks = self->nranks;
  char byte = 0;
  while (nranks > job->nleft[k]) {
    tuttiResult_t result = tuttiBroadcast(&byte, &byte, 1, tuttiInt8, 0, comm, NULL);
    if (result == tuttiSuccess) continue;
    RANKS_CHECK(result == tuttiRemoteError && says("failed on all ranks that are left"));
    RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess);
  }
  RANKS_CHECK(nranks == job->nleft[k]);
  atomic_fetch_add(&job->nfailed, 1);
  return 0;
}

static int body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  char host[24], byte = 0;
  config.fault_level = 1;
  config.transports = "tcp";
  snprintf(host, sizeof host, "apart%d", self->rank / job->each);
  setenv("TUTTI_HOSTID", host, 1);
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  atomic_fetch_add(&job->nready, 1);
  if (job->aborts >> self->rank & 1) {
    RANKS_CHECK(meeting_await(&job->nready, self->nranks));
    RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
    return 0;
  }
  if (job->lates >> self->rank & 1) {
    RANKS_CHECK(meeting_await(&job->nended, self->nranks - 1));
    RANKS_CHECK(tuttiBroadcast(&byte, &byte, 1, tuttiInt8, 0, comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(says("the other ranks took rank"));
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    return 0;
  }
  if (job->lingers >> self->rank & 1) {
    while (tuttiBroadcast(&byte, &byte, 1, tuttiInt8, 0, comm, NULL) == tuttiSuccess) continue;
    usleep(2500000);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    return 0;
  }
  for (int k = 0; k < FAILURES && job->nleft[k]; k++)
    if (fails(self, comm, k)) return 1;
  for (int k = 0; k < 20; k++) RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  atomic_fetch_add(&job->nended, 1);
  return 0;
}

static struct job *job_start(int nranks, struct job made, int pids[MOST])
{
  struct job *job = ranks_shared(sizeof *job);
  *job = made;
  assert_int_equal(ranks_start(nranks, body, job, pids), 0);
  assert_true(meeting_await(&job->nready, nranks));
  return job;
}

/* All ranks but those of the set end well. */
static void job_end(int nranks, const int pids[MOST], uint64_t others)
{
  for (int r = 0; r < nranks; r++) {
    int status = ranks_wait(pids[r], LIMIT_S * ranks_patience());
    if (!(others >> r & 1)) assert_int_equal(status, 0);
  }
}

static void kill_all(const int pids[MOST], uint64_t set, int signal)
{
  for (int r = 0; r < MOST; r++)
    if (set >> r & 1) kill(pids[r], signal);
}

/* Every other host dies. No link of the first ring leads from one of the others to another one, and ranks in the middle
 * of those that are dead have no neighbour that is left. */
static void hosts_that_no_link_joins_go_on_together(void **state)
{
  const uint64_t dead = 0xfc0fc0;
  int pids[MOST];
  (void)state;
  job_start(24, (struct job){.each = 6, .nleft = {12}}, pids);
  long since = meeting_now_us();
  kill_all(pids, dead, SIGKILL);
  job_end(24, pids, dead);
  printf("2 of 4 hosts with 6 ranks each died: the others had gone on after %ld ms\n",
         (meeting_now_us() - since) / 1000);
}

/* Two ranks at each of the two places where the hosts meet. */
static void ranks_that_abort_part_nobody(void **state)
{
  int pids[MOST];
  (void)state;
  setenv("TUTTI_TIMEOUT_MS", "20000", 1);
  job_start(12, (struct job){.each = 6, .nleft = {8}, .aborts = 1 << 1 | 1 << 2 | 1 << 8 | 1 << 9}, pids);
  job_end(12, pids, 0);
  unsetenv("TUTTI_TIMEOUT_MS");
}

/* Rank 5 has four dead neighbours on either side, and sleeps while the others look for it. */
static void a_rank_between_dead_ones_is_found(void **state)
{
  const uint64_t dead = 0x3de, later = 1 << 15;
  int pids[MOST];
  (void)state;
  struct job *job = job_start(20, (struct job){.each = 1, .nleft = {12, 11}}, pids);
  kill_all(pids, dead, SIGKILL);
  usleep(600000);
  kill(pids[5], SIGSTOP);
  usleep(450000);
  kill(pids[5], SIGCONT);
  assert_true(meeting_await(&job->nfailed, 12));
  usleep(1200000); /* for verdicts that are none */
  kill_all(pids, later, SIGKILL);
  job_end(20, pids, dead | later);
}

/* Rank 1 was stopped until it was taken for lost, its neighbour died, and it comes back. */
static void a_lost_rank_that_comes_back_costs_nobody(void **state)
{
  const uint64_t lost = 1 << 1;
  int pids[MOST];
  (void)state;
  setenv("TUTTI_UNREACHABLE_MS", "1000", 1);
  struct job *job = job_start(9, (struct job){.each = 1, .nleft = {8, 7, 6}, .lingers = lost}, pids);
  kill_all(pids, lost, SIGSTOP);
  assert_true(meeting_await(&job->nfailed, 8));
  kill(pids[2], SIGKILL);
  assert_true(meeting_await(&job->nfailed, 8 + 7));
  kill_all(pids, lost, SIGCONT);
  usleep(1500000); /* for verdicts that are none */
  kill(pids[7], SIGKILL);
  job_end(9, pids, 1 << 2 | 1 << 7);
  unsetenv("TUTTI_UNREACHABLE_MS");
}

/* Its kernel answers whoever knocks, and it has no neighbour left. */
static void a_stopped_rank_between_dead_ones_is_left_behind(void **state)
{
  const uint64_t dead = 1 << 3 | 1 << 4 | 1 << 6 | 1 << 7, stopped = 1 << 5;
  int pids[MOST];
  (void)state;
  setenv("TUTTI_UNREACHABLE_MS", "1000", 1);
  struct job *job = job_start(16, (struct job){.each = 1, .nleft = {11}}, pids);
  kill_all(pids, stopped, SIGSTOP);
  kill_all(pids, dead, SIGKILL);
  assert_true(meeting_await(&job->nended, 11));
  kill_all(pids, stopped, SIGKILL);
  job_end(16, pids, dead | stopped);
  unsetenv("TUTTI_UNREACHABLE_MS");
}

/* Ranks 5 to 7 wait in the broadcast for rank 4, which rank 0 does not see. When it comes it is told. */
static void a_late_rank_of_another_host_costs_no_other_one(void **state)
{
  int pids[MOST];
  (void)state;
  setenv("TUTTI_TIMEOUT_MS", "1500", 1);
  setenv("TUTTI_ALGO", "broadcast:chain", 1);
  job_start(8, (struct job){.each = 1, .nleft = {7}, .lates = 1 << 4}, pids);
  job_end(8, pids, 0);
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_TIMEOUT_MS");
}

/* While rank 0 makes new links. */
static void a_rank_without_descriptors_costs_nobody(void **state)
{
  const uint64_t first = 1 << 1, second = 1 << 8;
  int pids[MOST];
  struct rlimit few, as_before;
  (void)state;
  struct job *job = job_start(12, (struct job){.each = 1, .nleft = {11, 10}}, pids);
  assert_int_equal(prlimit((pid_t)pids[0], RLIMIT_NOFILE, NULL, &as_before), 0);
  few = as_before;
  few.rlim_cur = 3;
  assert_int_equal(prlimit((pid_t)pids[0], RLIMIT_NOFILE, &few, NULL), 0);
  kill_all(pids, first, SIGKILL);
  usleep(1500000);
  assert_int_equal(prlimit((pid_t)pids[0], RLIMIT_NOFILE, &as_before, NULL), 0);
  assert_true(meeting_await(&job->nfailed, 11));
  kill_all(pids, second, SIGKILL);
  job_end(12, pids, first | second);
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(hosts_that_no_link_joins_go_on_together),
                                     cmocka_unit_test(ranks_that_abort_part_nobody),
                                     cmocka_unit_test(a_rank_between_dead_ones_is_found),
                                     cmocka_unit_test(a_lost_rank_that_comes_back_costs_nobody),
                                     cmocka_unit_test(a_stopped_rank_between_dead_ones_is_left_behind),
                                     cmocka_unit_test(a_late_rank_of_another_host_costs_no_other_one),
                                     cmocka_unit_test(a_rank_without_descriptors_costs_nobody)};
  for (int i = 1; i + 1 < argc; i += 2)
    if (strcmp(argv[i], "--only") == 0) cmocka_set_test_filter(argv[i + 1]);
  setenv("TUTTI_DEBUG", "NONE", 0);
  setenv("TUTTI_CACHE", "none", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
