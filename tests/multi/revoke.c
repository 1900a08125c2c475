/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator that is revoked: what is under way and queued ends on all ranks, nothing starts any more, and the
 * ranks go on with what they shrink it to. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/private.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60

static int state_of(tuttiComm_t comm)
{
  tuttiResult_t state = tuttiInProgress;
  return tuttiCommGetAsyncError(comm, &state) == tuttiSuccess ? (int)state : -1;
}

static void run(const char *transports, int nranks, ranks_body body)
{
  struct meeting *meeting = meeting_make(nranks);
  assert_non_null(meeting);
  setenv("TUTTI_TRANSPORTS", transports, 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_processes(nranks, body, meeting, LIMIT_S), 0);
  meeting_free(meeting);
}

/* ---- all ranks ---- */

enum { RANKS = 5, REVOKES = 0, CALLS = 1, STREAMS = 2, RECEIVES = 3, GROUPS = 4 };

static int big[300000];

/* Waits for rank REVOKES, each in its own way. Returns what came of it. */
static tuttiResult_t wait_in_vain(int rank, tuttiComm_t comm)
{
  tuttiStream_t stream;
  tuttiResult_t result;
  int x = 0;
  switch (rank) {
  case CALLS: return tuttiAllReduce(big, big, 300000, tuttiInt, tuttiSum, comm, NULL);
  case RECEIVES: return tuttiRecv(&x, 1, tuttiInt, REVOKES, comm, NULL);
  case GROUPS:
    tuttiGroupStart();
    tuttiAllReduce(big, big, 300000, tuttiInt, tuttiSum, comm, NULL);
    tuttiBcast(&x, 1, tuttiInt, REVOKES, comm, NULL);
    return tuttiGroupEnd();
  default: /* one under way, two queued behind it */
    if (tuttiStreamCreate(&stream) != tuttiSuccess) return tuttiNumResults;
    tuttiAllReduce(big, big, 300000, tuttiInt, tuttiSum, comm, stream);
    for (int i = 0; i < 2; i++) tuttiBcast(&x, 1, tuttiInt, REVOKES, comm, stream);
    result = tuttiStreamSynchronize(stream);
    return tuttiStreamDestroy(stream) == result ? result : tuttiNumResults;
  }
}

/* All ranks are at it, and it does not work for any of them. */
static int is_over(const struct ranks *self, tuttiComm_t comm)
{
  tuttiComm_t none = NULL;
  int x = 1;
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiInvalidUsage);
  RANKS_CHECK(comm_says(comm, "rank 0") && x == 1);
  RANKS_CHECK(comm_says(comm, "has revoked the communicator: shrink or destroy it (communicator \"w\", "));
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &none, NULL) == tuttiInvalidUsage && !none);
  return 0;
}

static int all_end_body(const struct ranks *self)
{
  struct meeting *meeting = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm, fewer = NULL, again = NULL, half = NULL;
  int last[] = {self->nranks - 1};
  if (strcmp(getenv("TUTTI_TRANSPORTS"), "tcp") == 0) setenv("TUTTI_HOSTID", self->rank < 3 ? "one" : "two", 1);
  config.name = "w";
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0);
  if (self->rank == REVOKES) {
    usleep(100000); /* the others are waiting */
    RANKS_CHECK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT) == tuttiSuccess);
    RANKS_CHECK(state_of(comm) == tuttiSuccess);
  } else {
    RANKS_CHECK(wait_in_vain(self->rank, comm) == tuttiInvalidUsage);
    RANKS_CHECK(state_of(comm) == tuttiInvalidUsage);
  }
  RANKS_CHECK(is_over(self, comm) == 0);
  RANKS_CHECK(meeting_wait(meeting));
  for (int i = 0; i < 2; i++) RANKS_CHECK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT) == tuttiSuccess);
  RANKS_CHECK(state_of(comm) == tuttiSuccess);
  RANKS_CHECK(is_over(self, comm) == 0); /* rank 0 was the first, and stays it */
  RANKS_CHECK(tuttiCommShrink(comm, NULL, 0, &again, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
  if (self->rank != last[0])
    RANKS_CHECK(tuttiCommShrink(comm, last, 1, &fewer, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(again, self->rank % 2, 0, &half, NULL) == tuttiSuccess);
  RANKS_CHECK(comm_try(self, again, self->nranks) == 0 && comm_try(self, half, self->rank % 2 ? 2 : 3) == 0);
  RANKS_CHECK(!fewer || comm_try(self, fewer, self->nranks - 1) == 0);
  RANKS_CHECK(tuttiCommDestroy(again) == tuttiSuccess && tuttiCommDestroy(fewer) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(half) == tuttiSuccess);
  return 0;
}

static void a_revoke_ends_operations_on_all_ranks_which_go_on_without_it(void **state)
{
  (void)state;
  run("shm", RANKS, all_end_body);
  run("tcp", RANKS, all_end_body); /* two hosts */
}

/* ---- this rank ---- */

struct caller {
  tuttiComm_t comm;
  tuttiResult_t result;
  _Atomic int over;
};

static void *call_in_vain(void *context)
{
  struct caller *caller = context;
  caller->result = tuttiAllReduce(big, big, 300000, tuttiInt, tuttiSum, caller->comm, NULL);
  atomic_store(&caller->over, 1);
  return NULL;
}

/* The rank's own call, made by another thread, has ended when the revoke returns; so has what is queued behind an
 * operation of another communicator, which goes on. */
static int own_thread_body(const struct ranks *self)
{
  struct meeting *meeting = self->argument;
  struct caller caller = {.result = tuttiSuccess};
  tuttiComm_t comm, other, queued;
  tuttiStream_t stream;
  pthread_t thread;
  int x = 1, y = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &other, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &queued, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  if (self->rank == 0) {
    caller.comm = comm;
    RANKS_CHECK(pthread_create(&thread, NULL, call_in_vain, &caller) == 0);
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, other, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(&y, &y, 1, tuttiInt, tuttiSum, queued, stream) == tuttiSuccess);
    usleep(50000);
    RANKS_CHECK(!atomic_load(&caller.over));
    RANKS_CHECK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT) == tuttiSuccess && !atomic_load(&comm->life.inside));
    pthread_join(thread, NULL);
    RANKS_CHECK(caller.result == tuttiInvalidUsage);
    RANKS_CHECK(tuttiCommRevoke(queued, TUTTI_REVOKE_DEFAULT) == tuttiSuccess && !atomic_load(&queued->queue.queued));
    RANKS_CHECK(meeting_wait(meeting));
    RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiInvalidUsage && says("has revoked"));
    RANKS_CHECK(x == self->nranks && y == 1);
  } else {
    RANKS_CHECK(meeting_wait(meeting));
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, other, NULL) == tuttiSuccess && x == self->nranks);
  }
  RANKS_CHECK(comm_try(self, other, self->nranks) == 0);
  tuttiStreamDestroy(stream);
  RANKS_CHECK(tuttiCommDestroy(other) == tuttiSuccess);
  tuttiResult_t ended = tuttiCommDestroy(comm), too = tuttiCommDestroy(queued);
  RANKS_CHECK(self->rank || (ended == tuttiSuccess && too == tuttiSuccess)); /* others may have heard of it or not */
  return 0;
}

static void a_revoke_returns_when_this_rank_has_nothing_under_way(void **state)
{
  (void)state;
  run("shm", 3, own_thread_body);
  run("tcp", 3, own_thread_body);
}

/* ---- after a failure ---- */

static int failed_body(const struct ranks *self)
{
  int x = 1, dead[] = {1};
  tuttiComm_t comm, fewer;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == dead[0]) raise(SIGKILL);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiRemoteError);
  RANKS_CHECK(tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT) == tuttiSuccess && state_of(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL) == tuttiRemoteError && comm_says(comm, "died"));
  RANKS_CHECK(tuttiCommShrink(comm, dead, 1, &fewer, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess && comm_try(self, fewer, self->nranks - 1) == 0);
  RANKS_CHECK(tuttiCommDestroy(fewer) == tuttiSuccess);
  return 0;
}

static void a_revoke_after_a_death_leaves_its_cause_and_allows_a_shrink(void **state)
{
  int pids[4];
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_start(4, failed_body, NULL, pids), 0);
  for (int r = 0; r < 4; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == 1 ? 128 + SIGKILL : 0);
}

/* ---- and aborted ---- */

static void *revoke_main(void *comm)
{
  tuttiCommRevoke(comm, 0);
  return NULL;
}

static void *abort_main(void *comm)
{
  tuttiCommAbort(comm);
  return NULL;
}

/* Both wait for a call that is inside; the sanitizers tell if the abort then frees what the revoke still uses. */
static int aborted_body(const struct ranks *self)
{
  tuttiComm_t comm;
  pthread_t revoker, aborter;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  atomic_store(&comm->life.inside, 1);
  RANKS_CHECK(pthread_create(&revoker, NULL, revoke_main, comm) == 0);
  while (!atomic_load(&comm->life.revoked)) usleep(1000);
  RANKS_CHECK(pthread_create(&aborter, NULL, abort_main, comm) == 0);
  while (!atomic_load(&comm->life.aborting)) usleep(1000);
  usleep(1000);
  atomic_store(&comm->life.inside, 0);
  RANKS_CHECK(pthread_join(revoker, NULL) == 0 && pthread_join(aborter, NULL) == 0);
  return 0;
}

static void an_abort_waits_for_a_revoke(void **state)
{
  (void)state;
  for (int k = 0; k < 10; k++) run("shm", 1, aborted_body);
}

/* ---- refused ---- */

static int refused_body(const struct ranks *self)
{
  tuttiComm_t comm, later;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  RANKS_CHECK(tuttiCommRevoke(NULL, 0) == tuttiInvalidArgument && says("comm"));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommRevoke(comm, 1) == tuttiInvalidArgument && says("flags is 1"));
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0);
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &later, &config) == tuttiInProgress);
  if (self->rank == 0) RANKS_CHECK(meeting_wait(self->argument));
  else RANKS_CHECK(tuttiCommRevoke(comm, 1) == tuttiInvalidArgument && meeting_wait(self->argument));
  while (state_of(later) == tuttiInProgress) usleep(1000);
  RANKS_CHECK(comm_try(self, later, self->nranks) == 0 && tuttiCommFinalize(later) == tuttiSuccess);
  RANKS_CHECK(tuttiCommRevoke(later, 0) == tuttiInvalidUsage && says("finalized"));
  RANKS_CHECK(tuttiCommDestroy(later) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_revokes_are_refused_and_nothing_is_lost(void **state)
{
  (void)state;
  run("shm", 2, refused_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_revoke_ends_operations_on_all_ranks_which_go_on_without_it),
      cmocka_unit_test(a_revoke_returns_when_this_rank_has_nothing_under_way),
      cmocka_unit_test(a_revoke_after_a_death_leaves_its_cause_and_allows_a_shrink),
      cmocka_unit_test(an_abort_waits_for_a_revoke),
      cmocka_unit_test(wrong_revokes_are_refused_and_nothing_is_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
