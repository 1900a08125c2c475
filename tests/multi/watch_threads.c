/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads of one process: the same status pages and links, seen by the thread sanitizer, and counted: what is
 * created and destroyed over and over, or in halves, leaves nothing behind. */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "census.h"
#include "watch/watch.h"

#define MS 1000000ull
#define NRANKS 4

struct group {
  int nhosts;
  struct tt_listener *ip_listener, *local_listener;
  struct tt_settings settings;
  struct tt_credentials credentials;
  struct tt_member members[NRANKS];
  struct tt_watch *watches[NRANKS];
};

static void group_open(struct group *group, int nhosts)
{
  struct tt_address nowhere = {0}, loopback = {.len = sizeof loopback.v4};
  *group = (struct group){.nhosts = nhosts};
  loopback.v4.sin_family = AF_INET;
  loopback.v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  assert_int_equal(tt_listener_open(&group->local_listener, &nowhere), tuttiSuccess);
  assert_int_equal(tt_listener_open(&group->ip_listener, &loopback), tuttiSuccess);
  assert_int_equal(tt_settings_load(&group->settings), tuttiSuccess);
  for (int rank = 0; rank < NRANKS; rank++) {
    struct tt_member *member = &group->members[rank];
    member->pid = getpid();
    member->start = tt_process_start(getpid());
    member->pid_namespace = tt_pid_namespace();
    member->host_index = rank * nhosts / NRANKS;
    snprintf(member->host_name, sizeof member->host_name, "node-%c", 'a' + member->host_index);
    member->local = *tt_listener_address(group->local_listener);
    member->control = *tt_listener_address(group->ip_listener);
  }
}

static void group_close(struct group *group)
{
  tt_listener_close(group->ip_listener);
  tt_listener_close(group->local_listener);
}

static tuttiResult_t create_one(struct group *group, int rank)
{
  struct tt_watch_spec spec = {.nranks = NRANKS,
                               .rank = rank,
                               .members = group->members,
                               .credentials = &group->credentials,
                               .settings = &group->settings,
                               .ip_listener = group->nhosts > 1 ? group->ip_listener : NULL,
                               .local_listener = group->local_listener,
                               .label = "threads",
                               .deadline_ns = tt_now_ns() + 20000 * MS};
  return tt_watch_create(&group->watches[rank], &spec);
}

/* All ranks on this thread; stops at the first error. */
static tuttiResult_t create_all(struct group *group)
{
  tuttiResult_t result = tuttiSuccess;
  group->credentials.epoch++;
  for (int rank = 0; rank < NRANKS && result == tuttiSuccess; rank++) result = create_one(group, rank);
  if (result != tuttiSuccess) return result;
  int ready = 0;
  while (ready < NRANKS && (result == tuttiSuccess || result == tuttiInProgress)) {
    ready = 0;
    for (int rank = 0; rank < NRANKS; rank++) {
      result = tt_watch_poll(group->watches[rank]);
      ready += result == tuttiSuccess;
      if (result != tuttiSuccess && result != tuttiInProgress) break;
    }
    if (ready < NRANKS) tt_sleep_ns(MS / 5);
  }
  return result;
}

static void destroy_all(struct group *group, int farewell)
{
  for (int rank = 0; rank < NRANKS; rank++) {
    if (group->watches[rank] && farewell) tt_watch_leave(group->watches[rank], 0);
    tt_watch_destroy(group->watches[rank]);
    group->watches[rank] = NULL;
  }
}

/* ---- nothing is left behind ---- */

static void rounds(int nhosts, int n)
{
  struct group group;
  struct census before = {0}, after;
  group_open(&group, nhosts);
  for (int round = 0; round < n; round++) {
    assert_int_equal(create_all(&group), tuttiSuccess);
    destroy_all(&group, round % 2);
    if (round == n / 10) census_take(&before);
  }
  assert_true(census_same(&before, &after, 256));
  assert_int_equal(after.memfds, 0);
  group_close(&group);
}

static void three_hundred_rounds_of_create_and_destroy_leave_nothing(void **state)
{
  (void)state;
  rounds(1, 200);
  rounds(4, 100);
}

static void watches_destroyed_half_built_leave_nothing(void **state)
{
  (void)state;
  struct group group;
  struct census before, after;
  group_open(&group, 2);
  census_take(&before);
  for (int round = 0; round < 40; round++) {
    group.credentials.epoch++;
    for (int rank = round % NRANKS; rank < NRANKS; rank++) assert_int_equal(create_one(&group, rank), tuttiSuccess);
    for (int polls = 0; polls < round; polls++)
      for (int rank = round % NRANKS; rank < NRANKS; rank++) tt_watch_poll(group.watches[rank]);
    destroy_all(&group, 0);
  }
  /* The listener may still show out who came too late; it keeps 656 bytes, however many rounds there are. */
  assert_true(census_same(&before, &after, 1024));
  assert_int_equal(after.memfds, 0);
  group_close(&group);
}

/* The n-th allocation fails, for every n until none does. */
static void every_failing_allocation_is_an_error_and_leaves_nothing(void **state)
{
  (void)state;
  struct group group;
  struct census now;
  group_open(&group, 2);
  tuttiResult_t result = tuttiInternalError;
  int n = 0;
  while (result != tuttiSuccess && n < 1000) {
    n++;
    tt_alloc_fail_at(n);
    result = create_all(&group);
    int untouched = atomic_load(&tt_process.alloc_countdown) > 0;
    tt_alloc_fail_at(0);
    destroy_all(&group, 0);
    if (result == tuttiSuccess && !untouched) result = tuttiInternalError; /* it failed where one tries again */
    assert_true(result == tuttiSuccess || result == tuttiSystemError || result == tuttiInternalError);
    census_take(&now);
    assert_int_equal(now.memfds, 0);
    if (untouched) break;
  }
  assert_in_range(n, 10, 999);
  assert_int_equal(result, tuttiSuccess);
  group_close(&group);
}

/* ---- threads ---- */

struct runner {
  pthread_t thread;
  struct group *group;
  int rank;
  struct tt_failure failure;
};

/* Fifty calls in step with the others, then every rank records a failure of its own. */
static void *run(void *argument)
{
  struct runner *runner = argument;
  struct tt_watch *watch = runner->group->watches[runner->rank];
  struct tt_call call = {.collective = TT_ALL_REDUCE, .type = tuttiFloat, .root = -1};
  for (call.op = 1; call.op <= 50; call.op++) {
    call.count = call.op * 7;
    uint64_t since = tt_now_ns();
    tt_watch_publish(watch, &call);
    for (int i = 0; i < 20; i++) tt_watch_compare(watch, &call, since);
    tt_watch_finish(watch, call.op);
  }
  tt_watch_fail(watch, tuttiSystemError, runner->rank, 51, "out of luck");
  while (!atomic_load_explicit(tt_watch_failed(watch), memory_order_relaxed)) tt_sleep_ns(MS);
  runner->failure = *tt_watch_failure(watch);
  return NULL;
}

static void threads_call_and_fail(int nhosts)
{
  struct group group;
  struct runner runners[NRANKS];
  group_open(&group, nhosts);
  assert_int_equal(create_all(&group), tuttiSuccess);
  for (int rank = 0; rank < NRANKS; rank++) {
    runners[rank] = (struct runner){.group = &group, .rank = rank};
    assert_int_equal(pthread_create(&runners[rank].thread, NULL, run, &runners[rank]), 0);
  }
  for (int rank = 0; rank < NRANKS; rank++) pthread_join(runners[rank].thread, NULL);
  for (int rank = 0; rank < NRANKS; rank++) {
    const struct tt_failure *failure = &runners[rank].failure;
    assert_int_equal(failure->code, tuttiSystemError);
    assert_int_equal(failure->culprit, failure->detector);
    assert_memory_equal(failure->sentence, "out of luck (threads, 20", 24);
    /* ranks of a host agree; hosts that failed at the same time need not */
    for (int other = 0; other < rank; other++)
      if (group.members[other].host_index == group.members[rank].host_index)
        assert_int_equal(failure->detector, runners[other].failure.detector);
  }
  destroy_all(&group, 1);
  group_close(&group);
}

static void ranks_as_threads_agree_on_the_first_failure(void **state)
{
  (void)state;
  for (int round = 0; round < 10; round++) threads_call_and_fail(1 + round % 3);
}

static void several_communicators_of_one_process_do_not_disturb_each_other(void **state)
{
  (void)state;
  struct group one, two;
  group_open(&one, 2);
  group_open(&two, 1);
  two.credentials.job[0] = 1;
  assert_int_equal(create_all(&one), tuttiSuccess);
  assert_int_equal(create_all(&two), tuttiSuccess);
  tt_watch_fail(one.watches[0], tuttiRemoteError, 1, 0, "one failed");
  for (int i = 0; i < 20000 && !atomic_load(tt_watch_failed(one.watches[3])); i++) tt_sleep_ns(MS);
  for (int rank = 0; rank < NRANKS; rank++) {
    assert_int_equal(atomic_load(tt_watch_failed(one.watches[rank])), 1);
    assert_int_equal(atomic_load(tt_watch_failed(two.watches[rank])), 0);
  }
  destroy_all(&one, 0);
  tt_sleep_ns(50 * MS);
  for (int rank = 0; rank < NRANKS; rank++) assert_int_equal(atomic_load(tt_watch_failed(two.watches[rank])), 0);
  destroy_all(&two, 1);
  group_close(&one);
  group_close(&two);
}

/* While nobody looks for the cause, because the process does not run, or here because the service may not, the time
 * that is given to it does not pass. */
static void a_lost_connection_is_told_when_its_cause_was_looked_for(void **state)
{
  (void)state;
  struct group group;
  tuttiResult_t result;
  group_open(&group, 1);
  assert_int_equal(create_all(&group), tuttiSuccess);
  tt_service_lock();
  assert_int_equal(tt_watch_suspect(group.watches[1], 2, 3, "it hung up"), tuttiInProgress);
  tt_sleep_ns(700 * MS);
  assert_int_equal(tt_watch_suspect(group.watches[1], 2, 3, "it hung up"), tuttiInProgress);
  tt_service_unlock();
  while ((result = tt_watch_suspect(group.watches[1], 2, 3, "it hung up")) == tuttiInProgress) tt_sleep_ns(MS);
  assert_int_equal(result, tuttiRemoteError);
  assert_non_null(strstr(tt_last_sentence(), "lost connection to rank 2 (pid "));
  assert_non_null(strstr(tt_last_sentence(), "it hung up"));
  destroy_all(&group, 1);
  group_close(&group);
}

int main(void)
{
  alarm(100);
  tt_watch_destroy(NULL);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(three_hundred_rounds_of_create_and_destroy_leave_nothing),
      cmocka_unit_test(watches_destroyed_half_built_leave_nothing),
      cmocka_unit_test(every_failing_allocation_is_an_error_and_leaves_nothing),
      cmocka_unit_test(ranks_as_threads_agree_on_the_first_failure),
      cmocka_unit_test(several_communicators_of_one_process_do_not_disturb_each_other),
      cmocka_unit_test(a_lost_connection_is_told_when_its_cause_was_looked_for),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
