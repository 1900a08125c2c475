/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank dies, ends, aborts or lacks something inside a split, a shrink or the making of a fusion: all others are told,
 * by name, long before the time-out of a start-up (300 s); who is left can find together, and what is healthy stays
 * so. */
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "meeting.h"
#include "ranks.h"
#include "tutti_fusion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 5, DEAD = 4, LIMIT_S = 60 }; /* a rank that is not told waits for five minutes */
enum kind { SPLIT, SHRINK, FUSION };
enum how { KILL, EXIT, ABORT, LEAVE, NO_FILES, NO_MEMORY };

struct trial {
  enum kind kind;
  enum how how;
  int victim, stage, allocation; /* of the start-up in which it ends; the allocation that fails */
  int hosts;
  /* shared with the processes */
  struct meeting *meeting, *later; /* the second one without who is dead */
  _Atomic int pid;
  char sentence[RANKS][512];
};

static int ends(const struct trial *trial)
{
  return trial->how == KILL || trial->how == EXIT;
}

static struct tt_comm_spec spec_of(const struct trial *trial, tuttiComm_t comm, const int *dead)
{
  struct tt_comm_spec spec = {.parent = comm, .settings = &comm->facts.settings, .device = -1};
  spec.is_second = trial->kind == FUSION;
  if (trial->kind == SHRINK) spec.exclude = dead;
  if (trial->kind == SHRINK) spec.nexclude = 1;
  return spec;
}

static tuttiResult_t make(const struct trial *trial, tuttiComm_t comm, tuttiComm_t *child)
{
  static const tuttiFusionTensor_t tensor = {.name = "x", .count = 10, .type = tuttiFloat};
  int dead[] = {DEAD};
  tuttiFusion_t fusion = NULL;
  if (trial->kind == SPLIT) return tuttiCommSplit(comm, 0, 0, child, NULL);
  if (trial->kind == SHRINK) return tuttiCommShrink(comm, dead, 1, child, NULL, TUTTI_SHRINK_ABORT);
  tuttiResult_t result = tuttiFusionCreate(&fusion, comm, &tensor, 1, NULL);
  if (result == tuttiSuccess) tuttiFusionDestroy(fusion);
  return result;
}

/* As far as that stage; then the victim ends, or aborts what is being made. */
static int go_amid(const struct ranks *self, struct trial *trial, tuttiComm_t comm)
{
  int dead[] = {DEAD};
  tuttiComm_t child = NULL;
  const struct tt_comm_spec spec = spec_of(trial, comm, dead);
  RANKS_CHECK(tt_comm_create(&child, &spec) == tuttiSuccess);
  while (child->life.creation->stage < (enum stage)trial->stage)
    RANKS_CHECK(tt_comm_create_poll(child) == tuttiInProgress);
  if (trial->stage == GATHERING && trial->hosts == 1) /* the all-gather has ended, and the others go on */
    while (!atomic_load(&child->life.creation->op->done)) tt_comm_drive(comm, 1);
  if (trial->how == KILL) raise(SIGKILL);
  if (trial->how == EXIT) exit(0);
  RANKS_CHECK(tuttiCommAbort(child) == tuttiSuccess);
  return 0;
}

static int lack(const struct ranks *self, struct trial *trial, tuttiComm_t comm)
{
  struct rlimit limit, none;
  tuttiComm_t child = NULL;
  RANKS_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  none = (struct rlimit){3, limit.rlim_max};
  if (trial->how == NO_FILES) setrlimit(RLIMIT_NOFILE, &none);
  else atomic_store(&tt_process.alloc_countdown, trial->allocation);
  RANKS_CHECK(make(trial, comm, &child) == tuttiSystemError);
  setrlimit(RLIMIT_NOFILE, &limit);
  atomic_store(&tt_process.alloc_countdown, 0);
  return 0;
}

/* Told, with the name of the victim. */
static int survive(const struct ranks *self, struct trial *trial, tuttiComm_t comm)
{
  char pid[24];
  tuttiComm_t child = NULL;
  tuttiResult_t result = make(trial, comm, &child);
  const char *sentence = tuttiGetLastError(NULL);
  snprintf(pid, sizeof pid, "pid %d ", atomic_load(&trial->pid));
  RANKS_CHECK(result == tuttiRemoteError || result == tuttiSystemError);
  RANKS_CHECK(strstr(sentence, pid));
  snprintf(trial->sentence[self->rank], sizeof trial->sentence[0], "%s", sentence);
  return 0;
}

/* The failed ranks are those that have ended, and what is left shrinks to itself. */
static int find_together(const struct ranks *self, struct trial *trial, tuttiComm_t comm)
{
  int failed[RANKS], n = 0, wanted = trial->kind == SHRINK ? 2 : 1;
  tuttiComm_t child = NULL;
  for (; n < wanted; usleep(1000)) {
    n = RANKS;
    RANKS_CHECK(tuttiCommGetFailed(comm, failed, &n) == tuttiSuccess);
  }
  RANKS_CHECK(n == wanted && failed[0] == trial->victim && (n == 1 || failed[1] == DEAD));
  RANKS_CHECK(tuttiCommShrink(comm, failed, n, &child, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  tuttiCommDestroy(comm);
  if (comm_try(self, child, self->nranks - n)) return 1;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  return 0;
}

/* Nobody has ended: the same is made once more. */
static int make_again(const struct ranks *self, struct trial *trial, tuttiComm_t comm)
{
  tuttiComm_t child = NULL;
  if (trial->kind != SHRINK && comm_try(self, comm, self->nranks)) return 1;
  RANKS_CHECK(make(trial, comm, &child) == tuttiSuccess);
  if (child && comm_try(self, child, trial->kind == SHRINK ? self->nranks - 1 : self->nranks)) return 1;
  RANKS_CHECK(meeting_wait(trial->later));
  tuttiCommDestroy(child);
  tuttiCommDestroy(comm);
  return 0;
}

/* Where a child's first rank is, nothing goes on listening for the others: that ends at once, or the test's limit is
 * over. */
static void roots_await(void)
{
  for (const void *left = &left; left; usleep(1000)) {
    tt_service_lock();
    left = tt_process.roots;
    tt_service_unlock();
  }
}

static int body(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiComm_t comm;
  if (trial->hosts > 1) setenv("TUTTI_HOSTID", self->rank % trial->hosts ? "odd" : "even", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == trial->victim) atomic_store(&trial->pid, getpid());
  if (trial->how == NO_FILES && trial->kind != SHRINK) { /* links that are open need no descriptor later */
    tuttiComm_t child = NULL;
    if (comm_try(self, comm, self->nranks)) return 1;
    RANKS_CHECK(make(trial, comm, &child) == tuttiSuccess && tuttiCommDestroy(child) == tuttiSuccess);
  }
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (trial->kind == SHRINK && self->rank == DEAD) raise(SIGKILL);
  if (trial->kind == SHRINK) {
    float x = 1;
    tuttiResult_t result;
    while ((result = tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL)) == tuttiSuccess) continue;
    RANKS_CHECK(result == tuttiRemoteError);
  }
  if (self->rank == trial->victim && trial->how == LEAVE) {
    tuttiCommDestroy(comm);
    RANKS_CHECK(meeting_wait(trial->later));
    return 0;
  }
  int lacks = trial->how == NO_FILES || trial->how == NO_MEMORY;
  int failed = self->rank != trial->victim ? survive(self, trial, comm)
               : lacks                     ? lack(self, trial, comm)
                                           : go_amid(self, trial, comm);
  if (failed) return 1;
  roots_await();
  if (ends(trial)) return find_together(self, trial, comm);
  RANKS_CHECK(meeting_wait(trial->later));
  int has_parent_failed = trial->how == NO_MEMORY || (trial->how == ABORT && trial->stage == GATHERING);
  if (trial->how != LEAVE && !has_parent_failed) return make_again(self, trial, comm);
  tuttiCommDestroy(comm);
  return 0;
}

/* Of the first communicator: rank 2 has not come yet, or all are at their watches. */
static int abort_first(const struct ranks *self)
{
  struct trial *trial = self->argument;
  struct tt_settings settings;
  tuttiComm_t comm = NULL;
  if (self->rank == 2 && trial->stage == MEETING) RANKS_CHECK(meeting_wait(trial->later));
  if (self->rank != 1) {
    tuttiResult_t result = tuttiCommInitRank(&comm, self->nranks, self->id, self->rank);
    RANKS_CHECK(result == tuttiRemoteError && strstr(tuttiGetLastError(NULL), "rank 1 (pid "));
    return trial->stage == MEETING && !meeting_wait(trial->meeting); /* the root is with rank 0 */
  }
  tt_process_enter();
  RANKS_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  const struct tt_comm_spec spec = {.id = &self->id, .nranks = self->nranks, .rank = 1, .settings = &settings};
  RANKS_CHECK(tt_comm_create(&comm, &spec) == tuttiSuccess);
  while (comm->life.creation->stage < (enum stage)trial->stage)
    RANKS_CHECK(tt_comm_create_poll(comm) == tuttiInProgress);
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  if (trial->stage == MEETING) RANKS_CHECK(meeting_wait(trial->later));
  return 0;
}

static void an_abort_in_the_first_start_up_is_told(void **state)
{
  static const int stages[] = {MEETING, EXCHANGING, WATCHING};
  (void)state;
  for (int s = 0; s < 3; s++) {
    struct trial trial = {.stage = stages[s], .meeting = meeting_make(2), .later = meeting_make(2)};
    assert_true(trial.meeting && trial.later);
    assert_int_equal(ranks_run_processes(3, abort_first, &trial, LIMIT_S), 0);
    meeting_free(trial.meeting);
    meeting_free(trial.later);
  }
}

/* 1: the sentences of two survivors are equal, or tell one cause of a split that was given up at the end of its
 * all-gather: a rank that is in that has the cause alone, one behind it names the start-up that it gives up first. */
static int is_same_cause(const struct trial *trial, const char *one, const char *other)
{
  int is_behind_gather = trial->how == ABORT && trial->stage == GATHERING;
  return strcmp(one, other) == 0 || (is_behind_gather && (strstr(one, other) || strstr(other, one)));
}

/* On one host all survivors have the same sentence; but some may still be in the all-gather of a split when a rank ends
 * right after it. */
static void run(const struct trial *kind)
{
  int pids[RANKS], n = kind->kind == SHRINK ? RANKS : RANKS - 1, first = kind->victim == 0;
  int is_amid_gather = kind->kind != SHRINK && kind->stage == MEETING && ends(kind);
  struct trial *trial = ranks_shared(sizeof *trial);
  memcpy(trial, kind, sizeof *trial);
  trial->meeting = meeting_make(n);
  trial->later = meeting_make(RANKS - 1);
  assert_true(trial->meeting && trial->later);
  assert_int_equal(ranks_start(n, body, trial, pids), 0);
  for (int r = n - 1; r >= 0; r--) {
    int wanted = (r == trial->victim && trial->how == KILL) || r == DEAD ? 128 + SIGKILL : 0;
    assert_int_equal(ranks_wait(pids[r], LIMIT_S), wanted);
  }
  for (int r = 0; r < RANKS - 1 && trial->hosts < 2 && !is_amid_gather; r++)
    if (r != trial->victim && !is_same_cause(trial, trial->sentence[r], trial->sentence[first]))
      fail_msg("\"%s\" and \"%s\"", trial->sentence[r], trial->sentence[first]);
  print_message("             %s\n", trial->sentence[first]);
  meeting_free(trial->meeting);
  meeting_free(trial->later);
}

static void in_each_stage(enum kind kind)
{
  static const int stages[] = {MEETING, EXCHANGING, WATCHING, AGREEING};
  for (int s = 0; s < 4; s++) {
    run(&(struct trial){.kind = kind, .how = KILL, .stage = stages[s], .victim = s % 3});
    run(&(struct trial){.kind = kind, .how = KILL, .stage = stages[s], .victim = (s + 1) % 3, .hosts = 2});
  }
  run(&(struct trial){.kind = kind, .how = EXIT, .stage = MEETING, .victim = 1});
}

static void a_death_inside_a_split_is_known_to_all(void **state)
{
  (void)state;
  in_each_stage(SPLIT);
}

static void a_second_death_inside_a_shrink_is_known_to_all(void **state)
{
  (void)state;
  in_each_stage(SHRINK);
}

static void a_death_inside_the_making_of_a_fusion_is_known_to_all(void **state)
{
  (void)state;
  in_each_stage(FUSION);
}

static void who_leaves_before_or_aborts_is_named(void **state)
{
  (void)state;
  for (int hosts = 1; hosts < 3; hosts++) {
    run(&(struct trial){.kind = SHRINK, .how = LEAVE, .victim = hosts - 1, .hosts = hosts});
    run(&(struct trial){.kind = SHRINK, .how = ABORT, .stage = EXCHANGING, .victim = 1, .hosts = hosts});
    run(&(struct trial){.kind = SPLIT, .how = ABORT, .stage = MEETING, .victim = 0, .hosts = hosts});
    run(&(struct trial){.kind = SPLIT, .how = ABORT, .stage = GATHERING, .victim = 1, .hosts = hosts});
  }
}

static void who_lacks_descriptors_is_named_and_all_can_try_again(void **state)
{
  (void)state;
  for (int hosts = 1; hosts < 3; hosts++) {
    run(&(struct trial){.kind = SPLIT, .how = NO_FILES, .victim = 2, .hosts = hosts});
    run(&(struct trial){.kind = SHRINK, .how = NO_FILES, .victim = 0, .hosts = hosts});
    run(&(struct trial){.kind = FUSION, .how = NO_FILES, .victim = 1, .hosts = hosts});
  }
}

static void who_lacks_memory_is_named(void **state)
{
  (void)state;
  for (int n = 1; n < 12; n += 5) {
    run(&(struct trial){.kind = SPLIT, .how = NO_MEMORY, .allocation = n, .victim = n % 2});
    run(&(struct trial){.kind = SHRINK, .how = NO_MEMORY, .allocation = n, .victim = 0});
  }
}

/* The last message of the all-gather to rank 2 does not come: rank 0 has all colors, unless it hears of the death
 * before, and rank 2 has not. */
static int split_amid_a_gather(const struct ranks *self)
{
  struct trial *trial = self->argument;
  char pid[24];
  tuttiComm_t comm, child = NULL;
  if (self->rank == 1) atomic_store(&trial->pid, getpid());
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(comm, self->rank % 2, 0, &child, NULL) == tuttiRemoteError);
  snprintf(pid, sizeof pid, "pid %d ", atomic_load(&trial->pid));
  RANKS_CHECK(says(pid));
  int is_early = says("rank 1 ") && says("died during CommSplit");
  if (self->rank == 0 && !is_early)
    RANKS_CHECK(says("rank 2") && says("gave up the start-up of the communicator split from"));
  tuttiCommDestroy(comm);
  return 0;
}

static void who_lacks_colors_of_a_split_is_not_waited_for(void **state)
{
  int pids[3];
  (void)state;
  setenv("TUTTI_ALGO", "all_gather:ring", 1);
  setenv("TUTTI_FAULT", "rank=1,peer=2,nth=2,action=kill", 1);
  struct trial *trial = ranks_shared(sizeof *trial);
  assert_int_equal(ranks_start(3, split_amid_a_gather, trial, pids), 0);
  for (int r = 0; r < 3; r++) assert_int_equal(ranks_wait(pids[r], LIMIT_S), r == 1 ? 128 + SIGKILL : 0);
  unsetenv("TUTTI_ALGO");
  unsetenv("TUTTI_FAULT");
}

/* One of three hosts has died, and another falls silent: rank 1 does not take itself to be the one that is cut off. */
static int shrink_to_a_silent_host(const struct ranks *self)
{
  static const char *const hosts[] = {"a", "b", "c"};
  struct trial *trial = self->argument;
  int dead[] = {2}, x = 1;
  char pid[24];
  tuttiComm_t comm, child = NULL;
  tuttiResult_t result = tuttiSuccess;
  setenv("TUTTI_HOSTID", hosts[self->rank], 1);
  if (self->rank == 0) atomic_store(&trial->pid, getpid());
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, NULL) == tuttiSuccess);
  if (self->rank == 2) raise(SIGKILL);
  while (result == tuttiSuccess) result = tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, NULL);
  if (self->rank == 0) raise(SIGSTOP);
  RANKS_CHECK(tuttiCommShrink(comm, dead, 1, &child, NULL, TUTTI_SHRINK_ABORT) == tuttiRemoteError);
  snprintf(pid, sizeof pid, "pid %d ", atomic_load(&trial->pid));
  RANKS_CHECK(says(pid));
  tuttiCommDestroy(comm);
  return 0;
}

static void a_silent_host_is_not_waited_for_when_the_others_are_dead(void **state)
{
  int pids[3];
  (void)state;
  setenv("TUTTI_UNREACHABLE_MS", "500", 1);
  struct trial *trial = ranks_shared(sizeof *trial);
  assert_int_equal(ranks_start(3, shrink_to_a_silent_host, trial, pids), 0);
  assert_int_equal(ranks_wait(pids[1], LIMIT_S), 0);
  kill(pids[0], SIGKILL);
  assert_int_equal(ranks_wait(pids[0], LIMIT_S), 128 + SIGKILL);
  assert_int_equal(ranks_wait(pids[2], LIMIT_S), 128 + SIGKILL);
  unsetenv("TUTTI_UNREACHABLE_MS");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_death_inside_a_split_is_known_to_all),
      cmocka_unit_test(a_second_death_inside_a_shrink_is_known_to_all),
      cmocka_unit_test(a_death_inside_the_making_of_a_fusion_is_known_to_all),
      cmocka_unit_test(a_silent_host_is_not_waited_for_when_the_others_are_dead),
      cmocka_unit_test(who_lacks_colors_of_a_split_is_not_waited_for),
      cmocka_unit_test(an_abort_in_the_first_start_up_is_told),
      cmocka_unit_test(who_leaves_before_or_aborts_is_named),
      cmocka_unit_test(who_lacks_descriptors_is_named_and_all_can_try_again),
      cmocka_unit_test(who_lacks_memory_is_named),
  };
  setenv("TUTTI_DEBUG", "NONE", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
