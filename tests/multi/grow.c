/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that grow: new processes, or restarted ones, join ranks that are at work, and nobody waits for ever.
 * Labels: processes. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "meeting.h"
#include "ranks.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60
#define RANKS_MOST 4

/* Ranks 0 .. nold-1 begin; all nranks meet. The id is made by rank `giver`. */
struct job {
  int nold, giver;
  struct meeting *meeting;
  _Atomic int told; /* ranks that have their error */
};

static struct job *job_make(int nranks, int nold, int giver)
{
  struct job *job = ranks_shared(sizeof *job);
  assert_non_null(job);
  *job = (struct job){.nold = nold, .giver = giver, .meeting = meeting_make(nranks)};
  assert_non_null(job->meeting);
  return job;
}

static void run(int nranks, struct job *job, ranks_body body)
{
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    atomic_store(&job->told, 0);
    assert_int_equal(ranks_run_processes(nranks, body, job, LIMIT_S), 0);
  }
}

/* All ranks of comm have the numbers that they have here. */
static int is_in_order(const struct ranks *self, tuttiComm_t comm, int nranks)
{
  int all[RANKS_MOST] = {0}, count, own;
  RANKS_CHECK(tuttiCommCount(comm, &count) == tuttiSuccess && count == nranks);
  RANKS_CHECK(tuttiCommUserRank(comm, &own) == tuttiSuccess && own == self->rank);
  RANKS_CHECK(tuttiAllGather(&self->rank, all, 1, tuttiInt32, comm, NULL) == tuttiSuccess);
  for (int r = 0; r < nranks; r++) RANKS_CHECK(all[r] == r);
  return 0;
}

static int begin(const struct ranks *self, int nold, tuttiComm_t *comm)
{
  *comm = NULL;
  if (self->rank < nold) RANKS_CHECK(tuttiCommInitRank(comm, nold, self->id, self->rank) == tuttiSuccess);
  return 0;
}

/* This rank has its error. Rank 0, where new ranks hear theirs, stays until all `nranks` that live have one. */
static void told(const struct ranks *self, struct job *job, int nranks)
{
  atomic_fetch_add(&job->told, 1);
  while (self->rank == 0 && atomic_load(&job->told) < nranks) usleep(1000);
}

/* Hands the id round, from the rank that makes it. */
static int id_get(const struct ranks *self, struct job *job, tuttiComm_t comm, tuttiUniqueId *id)
{
  if (self->rank == job->giver)
    RANKS_CHECK(tuttiCommGetUniqueId(comm, &job->meeting->id) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(job->meeting));
  *id = job->meeting->id;
  return 0;
}

static int joins_body(const struct ranks *self)
{
  struct job *job = self->argument;
  int is_new = self->rank >= job->nold, has_id = is_new || self->rank == job->giver;
  tuttiUniqueId id;
  tuttiComm_t comm, grown = NULL;
  if (begin(self, job->nold, &comm) || id_get(self, job, comm, &id)) return 1;
  RANKS_CHECK(tuttiCommGrow(comm, self->nranks, has_id ? &id : NULL, is_new ? self->rank : -1, &grown, NULL) ==
              tuttiSuccess);
  if (is_in_order(self, grown, self->nranks)) return 1;
  if (comm && is_in_order(self, comm, job->nold)) return 1; /* it goes on beside the new one */
  RANKS_CHECK(!comm || tuttiCommDestroy(comm) == tuttiSuccess);
  if (is_in_order(self, grown, self->nranks)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grown) == tuttiSuccess);
  return 0;
}

static void new_ranks_join_behind_the_old_ones(void **state)
{
  (void)state;
  run(3, job_make(3, 2, 0), joins_body);
  run(4, job_make(4, 2, 1), joins_body);
  run(2, job_make(2, 1, 0), joins_body);
}

/* Rank 2 dies, and another process joins in its place. */
static int restart_body(const struct ranks *self)
{
  struct job *job = self->argument;
  int failed[RANKS_MOST], n = RANKS_MOST, x = 1;
  tuttiComm_t comm, left = NULL, grown;
  RANKS_CHECK(tuttiCommInitRank(&comm, 3, self->id, self->rank) == tuttiSuccess && !comm_try(self, comm, 3));
  if (self->rank == 2) raise(SIGKILL);
  while (tuttiAllReduce(&x, &x, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess) continue;
  RANKS_CHECK(tuttiCommGetFailed(comm, failed, &n) == tuttiSuccess && n == 1 && failed[0] == 2);
  RANKS_CHECK(tuttiCommShrink(comm, failed, n, &left, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  tuttiCommDestroy(comm);
  if (self->rank == 0) RANKS_CHECK(tuttiCommGetUniqueId(left, &job->meeting->id) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(job->meeting));
  RANKS_CHECK(tuttiCommGrow(left, 3, self->rank ? NULL : &job->meeting->id, -1, &grown, NULL) == tuttiSuccess);
  if (is_in_order(self, grown, 3)) return 1;
  RANKS_CHECK(tuttiCommDestroy(left) == tuttiSuccess && tuttiCommDestroy(grown) == tuttiSuccess);
  return 0;
}

static int restarted_body(const struct ranks *started)
{
  struct ranks of_job = {.rank = 2, .nranks = 3}, *self = &of_job;
  struct job *job = started->argument;
  tuttiComm_t grown;
  RANKS_CHECK(meeting_wait(job->meeting));
  RANKS_CHECK(tuttiCommGrow(NULL, 3, &job->meeting->id, 2, &grown, NULL) == tuttiSuccess);
  if (is_in_order(self, grown, 3)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grown) == tuttiSuccess);
  return 0;
}

static void a_restarted_process_joins_in_the_place_of_a_dead_one(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    struct job *job = job_make(3, 3, 0);
    int pids[3], again;
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    assert_int_equal(ranks_start(3, restart_body, job, pids), 0);
    assert_int_equal(ranks_wait(pids[2], LIMIT_S), 128 + SIGKILL);
    assert_int_equal(ranks_start(1, restarted_body, job, &again), 0);
    assert_int_equal(ranks_wait(again, LIMIT_S), 0);
    for (int r = 0; r < 2; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), 0);
  }
}

#define REFUSED(words, ...) RANKS_CHECK(tuttiCommGrow(__VA_ARGS__) == tuttiInvalidArgument && says(words))

static int refused_body(const struct ranks *self)
{
  tuttiComm_t comm, grown = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiUniqueId id, none = {{0}};
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommGetUniqueId(NULL, &id) == tuttiInvalidArgument && says("comm is NULL"));
  RANKS_CHECK(tuttiCommGetUniqueId(comm, NULL) == tuttiInvalidArgument && says("id is NULL"));
  RANKS_CHECK(tuttiCommGetUniqueId(comm, &id) == tuttiSuccess);
  config.blocking = 7;
  REFUSED("newcomm is NULL", comm, 3, &id, -1, NULL, NULL);
  REFUSED("nranks is 2: comm has 2 ranks", comm, 2, &id, -1, &grown, NULL);
  REFUSED("nranks is 65537", comm, 65537, &id, -1, &grown, NULL);
  REFUSED("rank is 2: a rank of comm keeps its number", comm, 3, &id, 2, &grown, NULL);
  REFUSED("config.blocking is 7", comm, 3, &id, -1, &grown, &config);
  REFUSED("was not made by tuttiGetUniqueId", comm, 3, &none, -1, &grown, NULL);
  REFUSED("id is NULL", NULL, 3, NULL, 2, &grown, NULL);
  REFUSED("nranks is 0", NULL, 0, &id, 0, &grown, NULL);
  REFUSED("rank is 3", NULL, 3, &id, 3, &grown, NULL);
  RANKS_CHECK(!grown && !comm_try(self, comm, 2)); /* nothing was queued */
  RANKS_CHECK(tuttiCommGrow(comm, 3, &self->id, -1, &grown, NULL) == tuttiInvalidUsage && says("made a communicator"));
  RANKS_CHECK(!grown && !comm_try(self, comm, 2));
  RANKS_CHECK(meeting_wait(self->argument)); /* both have ended their calls */
  RANKS_CHECK(tuttiCommRevoke(comm, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiCommGrow(comm, 3, &id, -1, &grown, NULL) == tuttiInvalidUsage && says("has revoked"));
  RANKS_CHECK(tuttiCommGetUniqueId(comm, &id) == tuttiInvalidUsage && says("has revoked"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_arguments_are_refused_before_anything_is_queued(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(ranks_run_processes(2, refused_body, meeting_make(2), LIMIT_S), 0);
}

/* Ranks of comm that do not give the same end the call on all, also on the new rank, and comm goes on. */
static int unlike_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm, grown = NULL;
  if (begin(self, 2, &comm) || id_get(self, job, comm, &id)) return 1;
  int nranks = 3 + (self->rank == 1), is_new = self->rank == 2;
  tuttiResult_t result = tuttiCommGrow(comm, nranks, self->rank == 1 ? NULL : &id, is_new ? 2 : -1, &grown, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage && says("nranks is 4 on rank 1 and 3 on rank 0") && !grown);
  told(self, job, 3);
  if (is_new) return 0;
  RANKS_CHECK(!comm_try(self, comm, 2));
  RANKS_CHECK(tuttiCommGrow(comm, 3, NULL, -1, &grown, NULL) == tuttiInvalidUsage && says("gave the id NULL"));
  RANKS_CHECK(tuttiCommGetUniqueId(comm, &id) == tuttiSuccess);
  RANKS_CHECK(tuttiCommGrow(comm, 3, &id, -1, &grown, NULL) == tuttiInvalidUsage && says("different ids"));
  RANKS_CHECK(!grown && !comm_try(self, comm, 2));
  tuttiResult_t unlike = self->rank ? tuttiCommGrow(comm, 3, NULL, -1, &grown, NULL)
                                    : tuttiCommSplit(comm, 0, 0, &grown, NULL);
  RANKS_CHECK(unlike == tuttiInvalidUsage && says("CommGrow") && says("CommSplit"));
  tuttiCommDestroy(comm);
  return 0;
}

static void unlike_calls_are_told_to_all_ranks(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  run(3, job_make(3, 2, 0), unlike_body);
}

/* Rank 1 dies before it grows: the others are told, the new one as well. */
static int dies_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm, grown = NULL;
  if (begin(self, 3, &comm) || id_get(self, job, comm, &id)) return 1;
  if (self->rank == 1) raise(SIGKILL);
  int is_new = self->rank == 3;
  tuttiResult_t result =
      tuttiCommGrow(comm, 4, self->rank == 2 ? NULL : &id, is_new ? 3 : -1, &grown, NULL);
  RANKS_CHECK(result == tuttiRemoteError && says("rank 1") && !grown);
  told(self, job, 3);
  if (comm) tuttiCommDestroy(comm);
  return 0;
}

static void the_death_of_an_old_rank_ends_the_call_on_all(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    int pids[4];
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    assert_int_equal(ranks_start(4, dies_body, job_make(4, 3, 0), pids), 0);
    for (int r = 0; r < 4; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == 1 ? 128 + SIGKILL : 0);
  }
}

/* The new rank never comes. Then it does, at another id: the parent is as before. */
static int absent_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm, grown = NULL;
  int is_new = self->rank == 2;
  if (begin(self, 2, &comm) || id_get(self, job, comm, &id)) return 1;
  if (!is_new) {
    tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
    config.init_timeout_ms = 300;
    RANKS_CHECK(tuttiCommGrow(comm, 3, &id, -1, &grown, &config) == tuttiRemoteError && !grown);
    RANKS_CHECK(says("rank 2 of 3 did not come") && !comm_try(self, comm, 2));
  }
  RANKS_CHECK(meeting_wait(job->meeting));
  if (id_get(self, job, comm, &id)) return 1;
  RANKS_CHECK(tuttiCommGrow(comm, 3, &id, is_new ? 2 : -1, &grown, NULL) == tuttiSuccess);
  if (is_in_order(self, grown, 3)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grown) == tuttiSuccess && (!comm || tuttiCommDestroy(comm) == tuttiSuccess));
  return 0;
}

static void a_rank_that_never_comes_is_named_and_the_parent_goes_on(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  run(3, job_make(3, 2, 0), absent_body);
}

/* Options that the config gave to comm go on in the grown one; new ranks that lack them are told. */
static int options_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiUniqueId id;
  tuttiComm_t comm = NULL, grown = NULL;
  int is_new = self->rank == 2;
  config.deterministic = 1;
  if (!is_new)
    RANKS_CHECK(tuttiCommInitRankConfig(&comm, 2, self->id, self->rank, &config) == tuttiSuccess);
  for (int with = 0; with < 2; with++) {
    if (id_get(self, job, comm, &id)) return 1;
    tuttiResult_t result =
        tuttiCommGrow(comm, 3, &id, is_new ? 2 : -1, &grown, is_new && with ? &config : NULL);
    RANKS_CHECK(result == (with ? tuttiSuccess : tuttiInvalidUsage));
    RANKS_CHECK(with || says("TUTTI_DETERMINISTIC"));
  }
  if (is_in_order(self, grown, 3)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grown) == tuttiSuccess && (!comm || tuttiCommDestroy(comm) == tuttiSuccess));
  return 0;
}

static void new_ranks_need_the_options_of_the_old_ones(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  run(3, job_make(3, 2, 0), options_body);
}

/* The launcher's part and the restarted process's: one process, whose number of the restart is 1. */
static int alone_body(const struct ranks *self)
{
  tuttiUniqueId id;
  tuttiComm_t grown;
  const int first_and_restarted[] = {0, 1}, restarted[] = {1};
  char text[16];
  int fd, can_join = 0;
  (void)self;
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess && tuttiLaunchJoins(&id, 1, &fd) == tuttiSuccess);
  snprintf(text, sizeof text, "%d", fd);
  setenv("TUTTI_LAUNCH_JOINS", text, 1);
  setenv("TUTTI_LAUNCH_RESTART", "1", 1);
  setenv("TUTTI_INIT_TIMEOUT_MS", "500", 1);
  RANKS_CHECK(tuttiLaunchRunning(-1, restarted, 1, &can_join) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiLaunchRunning(fd, first_and_restarted, 2, &can_join) == tuttiSuccess && can_join);
  RANKS_CHECK(tuttiLaunchGrow(NULL, &grown, NULL) == tuttiRemoteError && says("within 0.5 s for restart 1"));
  RANKS_CHECK(tuttiLaunchRunning(fd, restarted, 1, &can_join) == tuttiSuccess && !can_join);
  RANKS_CHECK(tuttiLaunchGrow(NULL, &grown, NULL) == tuttiRemoteError && says("restart 1 has nobody to join"));
  return 0;
}

static void a_restarted_process_waits_for_nobody_who_has_ended(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, alone_body, NULL, LIMIT_S), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(new_ranks_join_behind_the_old_ones),
      cmocka_unit_test(a_restarted_process_joins_in_the_place_of_a_dead_one),
      cmocka_unit_test(wrong_arguments_are_refused_before_anything_is_queued),
      cmocka_unit_test(unlike_calls_are_told_to_all_ranks),
      cmocka_unit_test(the_death_of_an_old_rank_ends_the_call_on_all),
      cmocka_unit_test(a_rank_that_never_comes_is_named_and_the_parent_goes_on),
      cmocka_unit_test(new_ranks_need_the_options_of_the_old_ones),
      cmocka_unit_test(a_restarted_process_waits_for_nobody_who_has_ended),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
