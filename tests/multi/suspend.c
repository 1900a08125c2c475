/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator that pauses: what it gives back, what is refused meanwhile, and that it goes on as before. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60
#define RANKS_MAX 3
#define EACH 100000 /* elements that each rank sends to each */

static uint64_t told(tuttiComm_t comm, tuttiCommMemStat_t stat)
{
  uint64_t value = UINT64_MAX;
  return tuttiCommMemStats(comm, stat, &value) == tuttiSuccess ? value : UINT64_MAX;
}

static void run(const char *transports, int nranks, ranks_body body)
{
  setenv("TUTTI_TRANSPORTS", transports, 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_processes(nranks, body, NULL, LIMIT_S), 0);
}

/* In place, so that a copy of all of it is kept. */
static int exchange(const struct ranks *self, tuttiComm_t comm)
{
  static int x[RANKS_MAX * EACH];
  int n = self->nranks;
  for (int i = 0; i < n * EACH; i++) x[i] = self->rank * n * EACH + i;
  RANKS_CHECK(tuttiAlltoAll(x, x, EACH, tuttiInt, comm, NULL) == tuttiSuccess);
  for (int r = 0; r < n; r++)
    for (int i = 0; i < EACH; i++) RANKS_CHECK(x[r * EACH + i] == r * n * EACH + self->rank * EACH + i);
  return 0;
}

static int holds(const struct ranks *self, tuttiComm_t comm, uint64_t spare, uint64_t suspended)
{
  RANKS_CHECK(told(comm, tuttiStatMemSuspended) == suspended);
  RANKS_CHECK(spare ? told(comm, tuttiStatMemSuspend) >= spare : told(comm, tuttiStatMemSuspend) == 0);
  RANKS_CHECK(told(comm, tuttiStatMemTotal) == told(comm, tuttiStatMemSuspend) + told(comm, tuttiStatMemPersist));
  return 0;
}

static int gives_back_body(const struct ranks *self)
{
  const uint64_t copy = (uint64_t)self->nranks * EACH * sizeof(int);
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int round = 0; round < 3; round++) {
    if (exchange(self, comm) || holds(self, comm, copy, 0)) return 1;
    RANKS_CHECK(told(comm, tuttiStatMemPersist) > 0);
    RANKS_CHECK(tuttiCommSuspend(comm, round == 2 ? 0 : TUTTI_SUSPEND_MEM) == tuttiSuccess);
    if (holds(self, comm, round == 2 ? copy : 0, 1)) return 1;
    RANKS_CHECK(tuttiCommResume(comm) == tuttiSuccess);
  }
  if (exchange(self, comm)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_suspend_gives_back_what_operations_keep(void **state)
{
  (void)state;
  run("shm", RANKS_MAX, gives_back_body);
  run("tcp", RANKS_MAX, gives_back_body);
}

static int refuses(const struct ranks *self, tuttiComm_t comm)
{
  int x = 1;
  void *handle;
  tuttiComm_t child = NULL;
  tuttiRedOp_t op;
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiInvalidUsage);
  RANKS_CHECK(says("comm is suspended: call tuttiCommResume") && x == 1);
  RANKS_CHECK(tuttiSend(&x, 1, tuttiInt, 0, comm, NULL) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiCommRegister(comm, &x, sizeof x, &handle) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &child, NULL) == tuttiInvalidUsage && !child);
  RANKS_CHECK(tuttiCommShrink(comm, NULL, 0, &child, NULL, 0) == tuttiInvalidUsage && !child);
  RANKS_CHECK(tuttiCommRevoke(comm, 0) == tuttiInvalidUsage && tuttiCommSuspend(comm, 0) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&op, &x, tuttiInt, tuttiScalarHostImmediate, comm) == tuttiInvalidUsage);
  return 0;
}

static int refused_body(const struct ranks *self)
{
  uint64_t value;
  int x = 1;
  tuttiComm_t comm, ended[2];
  tuttiStream_t stream;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSuspend(NULL, 0) == tuttiInvalidArgument && tuttiCommResume(NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommResume(comm) == tuttiInvalidUsage && says("not suspended"));
  RANKS_CHECK(tuttiCommSuspend(comm, 2) == tuttiInvalidArgument && says("flags is 0x2"));
  RANKS_CHECK(tuttiCommMemStats(comm, (tuttiCommMemStat_t)4, &value) == tuttiInvalidArgument && says("stat is 4"));
  RANKS_CHECK(tuttiCommMemStats(comm, tuttiStatMemTotal, NULL) == tuttiInvalidArgument && says("value"));
  tuttiGroupStart();
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSuspend(comm, 0) == tuttiInvalidUsage && says("tuttiGroupEnd"));
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && x == self->nranks);
  for (int c = 0; c < 2; c++) RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &ended[c], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess); /* what is queued is done first */
  for (int i = 0; i < 10; i++)
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEM) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamQuery(stream) == tuttiSuccess && tuttiStreamDestroy(stream) == tuttiSuccess);
  if (refuses(self, comm)) return 1;
  RANKS_CHECK(tuttiCommResume(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int c = 0; c < 2; c++) RANKS_CHECK(tuttiCommSuspend(ended[c], TUTTI_SUSPEND_MEM) == tuttiSuccess);
  RANKS_CHECK(tuttiCommFinalize(ended[0]) == tuttiSuccess && tuttiCommResume(ended[0]) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiCommDestroy(ended[0]) == tuttiSuccess);
  RANKS_CHECK((self->rank ? tuttiCommDestroy : tuttiCommAbort)(ended[1]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_suspended_communicator_refuses_all_but_its_end(void **state)
{
  (void)state;
  run("shm", 2, refused_body);
  run("tcp", 2, refused_body);
}

static int death_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiResult_t state = tuttiSuccess;
  int failed = -1, n = 1;
  _Atomic int *suspended = self->argument;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSuspend(comm, TUTTI_SUSPEND_MEM) == tuttiSuccess);
  atomic_fetch_add(suspended, 1);
  RANKS_CHECK(meeting_await(suspended, 2));
  if (self->rank == 1) raise(SIGKILL);
  while (state == tuttiSuccess) {
    usleep(1000);
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommGetFailed(comm, &failed, &n) == tuttiSuccess && n == 1 && failed == 1);
  RANKS_CHECK(state == tuttiRemoteError && tuttiCommResume(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSuspend(comm, 0) == tuttiRemoteError && says("rank 1"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  return 0;
}

static void a_death_is_noticed_meanwhile(void **state)
{
  int pids[2];
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_start(2, death_body, ranks_shared(sizeof(_Atomic int)), pids), 0);
  assert_int_equal(ranks_wait(pids[1], LIMIT_S), 128 + SIGKILL);
  assert_int_equal(ranks_wait(pids[0], LIMIT_S), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_suspend_gives_back_what_operations_keep),
      cmocka_unit_test(a_suspended_communicator_refuses_all_but_its_end),
      cmocka_unit_test(a_death_is_noticed_meanwhile),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
