/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators made of others: who is in them and in which order, that parent and child work side by side, that
 * nothing is left behind, and that survivors of a death find together again.
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "census.h"
#include "comm/private.h"
#include "meeting.h"
#include "ranks.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60
#define SPLITS (IS_SLOW ? 15 : 50)

/* The ranks of comm are those of `members` (numbers in the first parent), in this order: each says who it is. */
static int has(const struct ranks *self, tuttiComm_t comm, const int *members, int n)
{
  int all[16] = {0}, count, rank, big[2000];
  RANKS_CHECK(tuttiCommCount(comm, &count) == tuttiSuccess && count == n);
  RANKS_CHECK(tuttiCommUserRank(comm, &rank) == tuttiSuccess && members[rank] == self->rank);
  RANKS_CHECK(tuttiAllGather(&self->rank, all, 1, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(memcmp(all, members, (size_t)n * sizeof *members) == 0);
  for (int i = 0; i < 2000; i++) big[i] = self->rank + i;
  RANKS_CHECK(tuttiAllReduce(big, big, 2000, tuttiInt32, tuttiMax, comm, NULL) == tuttiSuccess);
  int most = 0;
  for (int r = 0; r < n; r++) most = members[r] > most ? members[r] : most;
  for (int i = 0; i < 2000; i++) RANKS_CHECK(big[i] == most + i);
  return 0;
}

static void run(const char *transports, int nranks, ranks_body body, void *argument)
{
  setenv("TUTTI_TRANSPORTS", transports, 1);
  assert_int_equal(ranks_run_processes(nranks, body, argument, LIMIT_S), 0);
}

static void run_on_all_transports(int nranks, ranks_body body)
{
  run("shm", nranks, body, NULL);
  run("tcp", nranks, body, NULL);
}

/* ---- split ---- */

static int colors_and_keys_body(const struct ranks *self)
{
  static const int odd[] = {5, 3, 1}, even[] = {0, 2, 4}, tied[] = {3, 0, 1, 2, 4, 5}, few[] = {1, 4};
  static const int whole[] = {0, 1, 2, 3, 4, 5};
  tuttiComm_t comm, child, none;
  int r = self->rank;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, r) == tuttiSuccess);
  /* odd ranks backwards, even ones all with the same key */
  RANKS_CHECK(tuttiCommSplit(comm, r % 2 ? 7 : INT32_MAX, r % 2 ? -r : 3, &child, NULL) == tuttiSuccess);
  for (int k = 0; k < 5; k++) /* parent and child in turns */
    if (has(self, child, r % 2 ? odd : even, 3) || has(self, comm, whole, 6)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, r == 3 ? INT32_MIN : INT32_MAX, &child, NULL) == tuttiSuccess);
  if (has(self, child, tied, 6)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  none = comm;
  RANKS_CHECK(tuttiCommSplit(comm, r == 1 || r == 4 ? 1 : TUTTI_SPLIT_NOCOLOR, 0, &none, NULL) == tuttiSuccess);
  RANKS_CHECK((none != NULL) == (r == 1 || r == 4));
  if (none && has(self, none, few, 2)) return 1;
  RANKS_CHECK(tuttiCommDestroy(none) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, TUTTI_SPLIT_NOCOLOR, 0, &none, NULL) == tuttiSuccess && !none);
  RANKS_CHECK(tuttiCommSplit(comm, r, 0, &child, NULL) == tuttiSuccess); /* each alone */
  if (has(self, child, &r, 1) || has(self, comm, whole, 6)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess); /* before the child */
  if (has(self, child, &r, 1)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  return 0;
}

static void colors_part_and_keys_order(void **state)
{
  (void)state;
  run_on_all_transports(6, colors_and_keys_body);
}

static int of_a_split_body(const struct ranks *self)
{
  int r = self->rank;
  const int half[] = {r / 4 * 4, r / 4 * 4 + 1, r / 4 * 4 + 2, r / 4 * 4 + 3}, pair[] = {r / 2 * 2, r / 2 * 2 + 1};
  tuttiComm_t comm, child, grandchild;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, r) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, r / 4, r, &child, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(child, r / 2, r, &grandchild, NULL) == tuttiSuccess);
  if (has(self, grandchild, pair, 2) || has(self, child, half, 4)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  if (has(self, grandchild, pair, 2)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grandchild) == tuttiSuccess);
  return 0;
}

static void a_split_can_be_split(void **state)
{
  (void)state;
  run_on_all_transports(8, of_a_split_body);
}

/* Two ranks in each of three processes; all splits of a process in one group. */
static int in_groups_body(const struct ranks *self)
{
  tuttiComm_t comms[2], children[2] = {NULL, NULL}, none = NULL;
  int n = 2 * self->nranks, data[2];
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int k = 0; k < 2; k++)
    RANKS_CHECK(tuttiCommInitRank(&comms[k], n, self->id, 2 * self->rank + k) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int round = 0; round < 3; round++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int k = 0; k < 2; k++)
      RANKS_CHECK(tuttiCommSplit(comms[k], k, -self->rank, &children[k], NULL) == tuttiSuccess && !children[k]);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && children[0] && children[1]);
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int k = 0; k < 2; k++) {
      int rank;
      RANKS_CHECK(tuttiCommUserRank(children[k], &rank) == tuttiSuccess && rank == self->nranks - 1 - self->rank);
      data[k] = 2 * self->rank + k;
      RANKS_CHECK(tuttiAllReduce(&data[k], &data[k], 1, tuttiInt32, tuttiSum, children[k], NULL) == tuttiSuccess);
    }
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    for (int k = 0; k < 2; k++) {
      RANKS_CHECK(data[k] == self->nranks * (self->nranks - 1) + k * self->nranks);
      RANKS_CHECK(tuttiCommDestroy(children[k]) == tuttiSuccess);
      children[k] = NULL;
    }
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int k = 0; k < 2; k++)
      RANKS_CHECK(tuttiCommSplit(comms[k], k - 1, 0, k ? &children[1] : &none, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && !none && children[1]);
    RANKS_CHECK(tuttiCommDestroy(children[1]) == tuttiSuccess);
    children[1] = NULL;
  }
  for (int k = 0; k < 2; k++) RANKS_CHECK(tuttiCommDestroy(comms[k]) == tuttiSuccess);
  return 0;
}

static void ranks_of_one_process_split_in_a_group(void **state)
{
  (void)state;
  run_on_all_transports(3, in_groups_body);
}

static int ready(tuttiComm_t comm)
{
  tuttiResult_t state = tuttiInProgress;
  while (tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiInProgress) usleep(500);
  return state == tuttiSuccess;
}

static int nonblocking_body(const struct ranks *self)
{
  const int members[] = {self->rank % 2, self->rank % 2 + 2};
  tuttiComm_t comm, child;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 5; k++) {
    RANKS_CHECK(tuttiCommSplit(comm, self->rank % 2, 0, &child, &config) == tuttiInProgress);
    RANKS_CHECK(ready(child));
    if (has(self, child, members, 2)) return 1;
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
    child = comm;
    tuttiResult_t result = tuttiCommSplit(comm, self->rank ? 0 : TUTTI_SPLIT_NOCOLOR, 0, &child, &config);
    RANKS_CHECK(self->rank ? result == tuttiInProgress && ready(child) : result == tuttiSuccess && !child);
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_split_need_not_block(void **state)
{
  (void)state;
  run_on_all_transports(4, nonblocking_body);
}

static int nothing_leaks_body(const struct ranks *self)
{
  struct census before, after;
  tuttiComm_t comm, child;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  int x = 1;
  config.learn = 0; /* algorithms that are tried have plans, which stay */
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; k < SPLITS; k++) {
    if (k == 5) {
      tt_sleep_ns(200000000); /* the watch of comm has a descriptor of the next process once both have beaten */
      census_take(&before);
    }
    RANKS_CHECK(tuttiCommSplit(comm, self->rank % 2, k, &child, NULL) == tuttiSuccess);
    x = 1;
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, child, NULL) == tuttiSuccess);
    RANKS_CHECK(x == (self->nranks + !(self->rank % 2)) / 2);
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  }
  RANKS_CHECK(census_same(&before, &after, 256));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void splits_leave_nothing_behind(void **state)
{
  (void)state;
  run_on_all_transports(5, nothing_leaks_body);
}

/* ---- what is inherited ---- */

static int inherits_body(const struct ranks *self)
{
  static const int others[] = {4, 3, 2, 1, 0};
  tuttiComm_t comm, child, other;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.deterministic = 1;
  config.timeout_ms = 12345;
  setenv("TUTTI_TOPOLOGY", self->argument, 1);
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, -self->rank, &child, NULL) == tuttiSuccess);
  RANKS_CHECK(child->facts.settings.deterministic == 1 && child->facts.settings.timeout_ms == 12345);
  RANKS_CHECK(child->parts.topology.nnodes == 2); /* its part of the file, turned round */
  for (int r = 0; r < 5; r++) RANKS_CHECK(child->parts.topology.node[r] == (r > 2));
  if (has(self, child, others, 5)) return 1;
  config = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
  config.deterministic = 0;
  RANKS_CHECK(tuttiCommSplit(child, self->rank ? 0 : TUTTI_SPLIT_NOCOLOR, 0, &other, &config) == tuttiSuccess);
  if (other) {
    const struct tt_topology *topology = &other->parts.topology;
    RANKS_CHECK(!other->facts.settings.deterministic && topology->nnodes == 2 && topology->nranks == 4);
  }
  if (other && has(self, other, others, 4)) return 1;
  RANKS_CHECK(tuttiCommDestroy(other) == tuttiSuccess);
  if (self->rank) {
    int exclude[] = {0};
    RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &other, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    RANKS_CHECK(other->facts.settings.deterministic == 1 && other->parts.topology.nranks == 4);
    RANKS_CHECK(tuttiCommDestroy(other) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void settings_and_places_are_inherited(void **state)
{
  char path[] = "/tmp/tutti-topology-XXXXXX";
  (void)state;
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  dprintf(fd, "tutti topology 1\nnode a ranks 0-1\nnode b ranks 2-4\n");
  close(fd);
  run("shm", 5, inherits_body, path);
  run("tcp", 5, inherits_body, path);
  unlink(path);
}

/* ---- shrink ---- */

static int excluded_body(const struct ranks *self)
{
  static const int left[] = {1, 2, 4}, fewer[] = {1, 4}, whole[] = {0, 1, 2, 3, 4};
  int exclude[] = {3, 0}, again[] = {1};
  struct meeting *meeting = self->argument;
  tuttiComm_t comm, child, grandchild;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank % 3) { /* the others live and do not call */
    for (int k = 0; k < 2; k++) {
      RANKS_CHECK(tuttiCommShrink(comm, exclude, 2, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
      if (has(self, child, left, 3)) return 1;
      if (self->rank != 2) { /* a shrink of a shrunk one */
        RANKS_CHECK(tuttiCommShrink(child, again, 1, &grandchild, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
        if (has(self, grandchild, fewer, 2)) return 1;
        RANKS_CHECK(tuttiCommDestroy(grandchild) == tuttiSuccess);
      }
      if (has(self, child, left, 3)) return 1;
      RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
    }
  }
  if (has(self, comm, whole, 5)) return 1; /* the parent is as it was */
  RANKS_CHECK(meeting_wait(meeting) && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_healthy_communicator_shrinks(void **state)
{
  (void)state;
  for (int t = 0; t < 2; t++) {
    struct meeting *meeting = meeting_make(5);
    assert_non_null(meeting);
    run(t ? "tcp" : "shm", 5, excluded_body, meeting);
    meeting_free(meeting);
  }
}

struct deaths {
  int dead[8], ndead; /* ranks killed, one after the other, with a shrink after each `at_once` of them */
  int at_once;
};

static _Atomic int *alive; /* shared: ranks that need nothing of the others now, in all rounds */

/* All of these and of the rounds before do: whoever dies now is missed by what comes next only. */
static void alive_await(int ranks)
{
  while (atomic_load(alive) < ranks) usleep(1000);
}

/* Numbers in comm of the first `n` dead from `from` on, of those that live in comm. */
static int exclude_make(const int *members, int n, const struct deaths *deaths, int from, int *exclude)
{
  int found = 0;
  for (int r = 0; r < n; r++)
    for (int d = from; d < from + deaths->at_once; d++)
      if (members[r] == deaths->dead[d]) exclude[found++] = r;
  return found;
}

static int dies(const struct deaths *deaths, int from, int rank)
{
  for (int d = from; d < from + deaths->at_once; d++)
    if (deaths->dead[d] == rank) return 1;
  return 0;
}

static int after_deaths_body(const struct ranks *self)
{
  const struct deaths *deaths = self->argument;
  int members[16], n = self->nranks, exclude[16];
  static float x[100000];
  tuttiComm_t comm, child;
  for (int r = 0; r < n; r++) members[r] = r;
  RANKS_CHECK(tuttiCommInitRank(&comm, n, self->id, self->rank) == tuttiSuccess);
  for (int from = 0, all = 0; from < deaths->ndead; from += deaths->at_once) {
    if (has(self, comm, members, n)) return 1;
    atomic_fetch_add(alive, 1);
    alive_await(all += n);
    if (dies(deaths, from, self->rank)) raise(SIGKILL);
    tuttiResult_t result = tuttiAllReduce(x, x, 100000, tuttiFloat, tuttiSum, comm, NULL);
    RANKS_CHECK(result == tuttiRemoteError);
    int nexclude = exclude_make(members, n, deaths, from, exclude), kept = 0;
    RANKS_CHECK(tuttiCommShrink(comm, exclude, nexclude, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiRemoteError);
    RANKS_CHECK(tuttiCommShrink(comm, exclude, nexclude, &child, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(x, x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    for (int r = 0; r < n; r++)
      if (!dies(deaths, from, members[r])) members[kept++] = members[r];
    n = kept;
    comm = child;
  }
  for (int k = 0; k < 3; k++)
    if (has(self, comm, members, n)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void run_deaths(const struct deaths *deaths, int nranks, const char *transports)
{
  int pids[8];
  alive = ranks_shared(sizeof *alive);
  assert_non_null(alive);
  setenv("TUTTI_TRANSPORTS", transports, 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_start(nranks, after_deaths_body, (void *)(uintptr_t)deaths, pids), 0);
  for (int r = 0; r < nranks; r++) {
    int died = 0;
    for (int d = 0; d < deaths->ndead; d++) died |= deaths->dead[d] == r;
    assert_int_equal(ranks_wait(pids[r], LIMIT_S), died ? 128 + SIGKILL : 0);
  }
}

static void survivors_shrink_and_go_on(void **state)
{
  static const struct deaths kinds[] = {
      {{1}, 1, 1},                /* one in the middle */
      {{0}, 1, 1},                /* the lowest, where the others met */
      {{0, 3, 1}, 3, 1},          /* a shrink of a shrunk one, of that again */
      {{0, 1, 2, 4}, 4, 4},       /* all but one */
      {{4, 0}, 2, 2},
  };
  (void)state;
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
    if (!IS_SLOW || k % 2 == 0) run_deaths(&kinds[k], 5, "shm");
    if (!IS_SLOW || k % 2 == 1) run_deaths(&kinds[k], 5, "tcp");
  }
}

/* Ranks of one process, and hosts told apart by name. */
static int on_hosts_body(const struct ranks *self)
{
  static const int odd[] = {1, 3, 5}, even[] = {0, 2, 4}, left[] = {0, 1, 3, 4, 5};
  int exclude[] = {2};
  tuttiComm_t comm, child;
  setenv("TUTTI_HOSTID", self->rank < 3 ? "one" : "two", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, self->rank % 2, 0, &child, NULL) == tuttiSuccess);
  if (has(self, child, self->rank % 2 ? odd : even, 3)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  atomic_fetch_add(alive, 1);
  alive_await(self->nranks);
  if (self->rank == 2) raise(SIGKILL);
  RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &child, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  if (has(self, child, left, 5)) return 1;
  tuttiCommDestroy(comm);
  if (has(self, child, left, 5)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  return 0;
}

static void hosts_split_and_shrink(void **state)
{
  int pids[6];
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; t < 2; t++) {
    setenv("TUTTI_TRANSPORTS", t ? "tcp" : "shm,tcp", 1);
    alive = ranks_shared(sizeof *alive);
    assert_non_null(alive);
    assert_int_equal(ranks_start(6, on_hosts_body, NULL, pids), 0);
    for (int r = 0; r < 6; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == 2 ? 128 + SIGKILL : 0);
  }
}

/* No interface fits, so the ranks have met at a local socket. */
static void ranks_of_one_host_need_no_interface(void **state)
{
  char address[64];
  struct meeting *meeting = meeting_make(5);
  (void)state;
  assert_non_null(meeting);
  snprintf(address, sizeof address, "127.0.0.1:%d", 1024 + (int)getpid() % 60000);
  setenv("TUTTI_COMM_ID", address, 1);
  setenv("TUTTI_SOCKET_IFNAME", "=none", 1);
  run("shm", 5, excluded_body, meeting);
  run("shm", 8, of_a_split_body, NULL);
  unsetenv("TUTTI_SOCKET_IFNAME");
  unsetenv("TUTTI_COMM_ID");
  meeting_free(meeting);
}

/* An operation on a stream waits for a rank that does not come; a shrink ends it. */
static int ends_what_waits_body(const struct ranks *self)
{
  static const int left[] = {0, 1};
  int exclude[] = {2};
  float x = 1;
  struct meeting *meeting = self->argument;
  tuttiComm_t comm, child;
  tuttiStream_t stream;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 2) {
    RANKS_CHECK(meeting_wait(meeting));
    tuttiCommAbort(comm);
    return 0;
  }
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  usleep(50000);
  RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &child, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiRemoteError);
  if (has(self, child, left, 2)) return 1;
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiRemoteError && tuttiCommDestroy(comm) == tuttiRemoteError);
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  return 0;
}

static void a_shrink_ends_what_waits(void **state)
{
  (void)state;
  for (int t = 0; t < 2; t++) {
    struct meeting *meeting = meeting_make(3);
    assert_non_null(meeting);
    run(t ? "tcp" : "shm", 3, ends_what_waits_body, meeting);
    meeting_free(meeting);
  }
}

/* Lists that differ: nobody gets a communicator, and nobody waits for ever. */
static int lists_differ_body(const struct ranks *self)
{
  static const int whole[] = {0, 1, 2, 3};
  int kind = *(const int *)self->argument, exclude[] = {3}, other[] = {kind ? 2 : 0};
  tuttiComm_t comm, child = NULL;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  int64_t usual_ms = comm->facts.settings.init_timeout_ms;
  comm->facts.settings.init_timeout_ms = 2000; /* of the shrink alone */
  if (self->rank != 3 && !(kind && self->rank == 2)) {
    tuttiResult_t result =
        tuttiCommShrink(comm, self->rank == 1 ? other : exclude, 1, &child, NULL, TUTTI_SHRINK_DEFAULT);
    RANKS_CHECK(result == tuttiInvalidUsage || result == tuttiRemoteError);
    RANKS_CHECK(!child && tuttiGetLastError(NULL)[0]);
    RANKS_CHECK(kind || self->rank != 0 || result == tuttiRemoteError || says("rank"));
  }
  comm->facts.settings.init_timeout_ms = usual_ms;
  if (has(self, comm, whole, 4)) return 1;
  usleep(100000);
  tuttiCommDestroy(comm);
  return 0;
}

static void lists_that_differ_are_told(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int kind = 0; kind < 2; kind++) run("shm", 4, lists_differ_body, &kind);
}

static int refuses(tuttiComm_t comm, int *exclude, int nexclude, int flags, const char *words)
{
  tuttiComm_t child = NULL;
  return tuttiCommShrink(comm, exclude, nexclude, &child, NULL, flags) == tuttiInvalidArgument && !child &&
         says(words);
}

static int refused_body(const struct ranks *self)
{
  int exclude[] = {0, 0}, self_list[] = {self->rank}, wrong[] = {2}, below[] = {-1};
  tuttiComm_t comm, child = NULL;
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  int *twice = self->rank ? exclude : self_list;
  RANKS_CHECK(tuttiCommSplit(NULL, 0, 0, &child, NULL) == tuttiInvalidArgument && says("comm"));
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, NULL, NULL) == tuttiInvalidArgument && says("newcomm"));
  RANKS_CHECK(tuttiCommSplit(comm, -2, 0, &child, NULL) == tuttiInvalidArgument && says("color is -2"));
  RANKS_CHECK(refuses(NULL, twice, 1, 0, "comm"));
  RANKS_CHECK(refuses(comm, NULL, 1, 0, "exclude"));
  RANKS_CHECK(tuttiCommShrink(comm, twice, 1, NULL, NULL, 0) == tuttiInvalidArgument && says("newcomm"));
  RANKS_CHECK(refuses(comm, self_list, 1, 0, "exclude[0]"));
  RANKS_CHECK(refuses(comm, wrong, 1, 0, "exclude[0] is 2"));
  RANKS_CHECK(refuses(comm, below, 1, 0, "exclude[0] is -1"));
  RANKS_CHECK(refuses(comm, exclude, 2, 0, "nexclude is 2"));
  RANKS_CHECK(refuses(comm, exclude, -1, 0, "nexclude is -1"));
  int fine[] = {!self->rank};
  RANKS_CHECK(refuses(comm, fine, 1, 2, "flags is 2"));
  RANKS_CHECK(!child);
  static const int whole[] = {0, 1};
  if (has(self, comm, whole, 2)) return 1; /* nothing is lost */
  RANKS_CHECK(tuttiCommShrink(comm, NULL, 0, &child, NULL, 0) == tuttiSuccess);
  if (has(self, child, whole, 2)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_arguments_are_refused(void **state)
{
  (void)state;
  run("shm", 2, refused_body, NULL);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(colors_part_and_keys_order),
      cmocka_unit_test(a_split_can_be_split),
      cmocka_unit_test(ranks_of_one_process_split_in_a_group),
      cmocka_unit_test(a_split_need_not_block),
      cmocka_unit_test(splits_leave_nothing_behind),
      cmocka_unit_test(settings_and_places_are_inherited),
      cmocka_unit_test(wrong_arguments_are_refused),
      cmocka_unit_test(a_healthy_communicator_shrinks),
      cmocka_unit_test(survivors_shrink_and_go_on),
      cmocka_unit_test(hosts_split_and_shrink),
      cmocka_unit_test(ranks_of_one_host_need_no_interface),
      cmocka_unit_test(a_shrink_ends_what_waits),
      cmocka_unit_test(lists_that_differ_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
