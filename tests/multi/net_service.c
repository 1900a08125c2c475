/* SPDX-License-Identifier: BSD-3-Clause */
/* The service thread: its life, its lock, watchers, timers, and a forked child. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "census.h"
#include "net/net.h"
#include "slow.h"

#define MS 1000000u

/* Waits until *word is at least `wanted`; the process's alarm is the limit. */
static void wait_for(_Atomic int *word, int wanted)
{
  while (atomic_load(word) < wanted) tt_sleep_ns(MS / 5);
}

static void many_rounds_of_hold_and_release_leave_nothing(void **state)
{
  (void)state;
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  tt_service_release();
  int before = census_descriptors(), running = census_threads();
  for (int i = 0; i < (IS_SLOW ? 1000 : 10000); i++) {
    assert_int_equal(tt_service_hold(), tuttiSuccess);
    tt_service_release();
  }
  assert_int_equal(census_descriptors(), before);
  assert_int_equal(census_threads(), running);
}

static void *hold_often(void *argument)
{
  (void)argument;
  for (int i = 0; i < 500; i++) {
    assert_int_equal(tt_service_hold(), tuttiSuccess);
    tt_service_lock();
    tt_service_unlock();
    tt_service_release();
  }
  return NULL;
}

static void threads_may_hold_and_release_at_once(void **state)
{
  (void)state;
  int before = census_descriptors(), running = census_threads();
  pthread_t others[4];
  for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&others[i], NULL, hold_often, NULL), 0);
  for (int i = 0; i < 4; i++) pthread_join(others[i], NULL);
  assert_int_equal(census_descriptors(), before);
  assert_int_equal(census_threads(), running);
}

/* A watched eventfd that counts its callbacks. */
struct bell {
  struct tt_watcher watcher; /* first */
  struct bell *other;        /* freed by the first callback, if not NULL */
  pthread_t thread;
  sigset_t blocked;
  char name[16];
  _Atomic int rung;
};

static struct bell *bell_make(void (*ready)(struct tt_watcher *, uint32_t))
{
  struct bell *bell = calloc(1, sizeof *bell);
  assert_non_null(bell);
  bell->watcher.fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  bell->watcher.ready = ready;
  return bell;
}

static void bell_ring(const struct bell *bell)
{
  uint64_t one = 1;
  assert_int_equal(write(bell->watcher.fd, &one, sizeof one), sizeof one);
}

static void bell_free(struct bell *bell)
{
  tt_watcher_remove(&bell->watcher);
  close(bell->watcher.fd);
  memset(bell, 0xee, sizeof *bell);
  free(bell);
}

static void note(struct tt_watcher *watcher, uint32_t events)
{
  struct bell *bell = (struct bell *)(void *)watcher;
  uint64_t count;
  assert_true(events & EPOLLIN);
  assert_int_equal(read(watcher->fd, &count, sizeof count), sizeof count);
  bell->thread = pthread_self();
  pthread_sigmask(SIG_SETMASK, NULL, &bell->blocked);
  pthread_getname_np(pthread_self(), bell->name, sizeof bell->name);
  atomic_fetch_add(&bell->rung, 1);
}

static void callbacks_run_in_a_thread_that_takes_no_signals(void **state)
{
  (void)state;
  struct bell *bell = bell_make(note);
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  assert_int_equal(tt_watcher_add(&bell->watcher, EPOLLIN), tuttiSuccess);
  bell_ring(bell);
  wait_for(&bell->rung, 1);
  assert_int_equal(pthread_equal(bell->thread, pthread_self()), 0);
  assert_string_equal(bell->name, "tutti-service");
  for (int i = 1; i < 32; i++)
    if (i != SIGKILL && i != SIGSTOP) assert_int_equal(sigismember(&bell->blocked, i), 1);
  bell_free(bell);
  tt_service_release();
}

static void watchers_can_be_changed_and_added_again(void **state)
{
  (void)state;
  struct bell *bell = bell_make(note), *second = bell_make(note);
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  tt_watcher_remove(&bell->watcher);
  assert_int_equal(tt_watcher_add(&bell->watcher, 0), tuttiSuccess);
  assert_int_equal(tt_watcher_add(&second->watcher, EPOLLIN), tuttiSuccess);
  bell_ring(bell);
  bell_ring(second);
  wait_for(&second->rung, 1);
  assert_int_equal(atomic_load(&bell->rung), 0);
  assert_int_equal(tt_watcher_change(&bell->watcher, EPOLLIN), tuttiSuccess);
  wait_for(&bell->rung, 1);
  tt_watcher_remove(&bell->watcher);
  tt_watcher_remove(&bell->watcher);
  assert_int_equal(tt_watcher_change(&bell->watcher, EPOLLIN), tuttiInternalError);
  assert_int_equal(tt_watcher_add(&bell->watcher, EPOLLIN), tuttiSuccess);
  assert_int_equal(tt_watcher_add(&bell->watcher, EPOLLIN), tuttiInternalError);
  bell_ring(bell);
  wait_for(&bell->rung, 2);
  bell_free(bell);
  bell_free(second);
  tt_service_release();
}

/* Leaves its data unread, so that it is called again and again. */
static void insist(struct tt_watcher *watcher, uint32_t events)
{
  (void)events;
  struct bell *bell = (struct bell *)(void *)watcher;
  atomic_fetch_add(&bell->rung, 1);
}

static void removed_watchers_may_be_freed_at_once(void **state)
{
  (void)state;
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  for (int i = 0; i < (IS_SLOW ? 500 : 2000); i++) {
    struct bell *bell = bell_make(insist);
    bell_ring(bell);
    assert_int_equal(tt_watcher_add(&bell->watcher, EPOLLIN), tuttiSuccess);
    if (i % 4) wait_for(&bell->rung, i % 4);
    bell_free(bell);
  }
  tt_service_release();
}

static void never(struct tt_watcher *watcher, uint32_t events)
{
  (void)watcher, (void)events;
  abort();
}

static void many_watchers_are_told_apart(void **state)
{
  (void)state;
  enum { MANY = 300 };
  struct bell *bells[MANY];
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  for (int i = 0; i < MANY; i++) {
    bells[i] = bell_make(i % 100 ? never : note);
    assert_int_equal(tt_watcher_add(&bells[i]->watcher, EPOLLIN), tuttiSuccess);
  }
  for (int i = 0; i < MANY; i += 100) {
    bell_ring(bells[i]);
    wait_for(&bells[i]->rung, 1);
  }
  for (int i = 0; i < MANY; i++) bell_free(bells[i]);
  tt_service_release();
}

static _Atomic int survivors;

static void kill_other(struct tt_watcher *watcher, uint32_t events)
{
  (void)events;
  struct bell *bell = (struct bell *)(void *)watcher;
  bell_free(bell->other);
  bell_free(bell);
  atomic_fetch_add(&survivors, 1);
}

static void what_a_callback_frees_is_not_called_by_the_same_round(void **state)
{
  (void)state;
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  for (int i = 0; i < 500; i++) {
    struct bell *a = bell_make(kill_other), *b = bell_make(kill_other);
    a->other = b;
    b->other = a;
    bell_ring(a);
    bell_ring(b);
    tt_service_lock(); /* both are in one batch */
    assert_int_equal(tt_watcher_add(&a->watcher, EPOLLIN), tuttiSuccess);
    assert_int_equal(tt_watcher_add(&b->watcher, EPOLLIN), tuttiSuccess);
    tt_service_unlock();
    wait_for(&survivors, i + 1);
  }
  tt_service_lock();
  assert_int_equal(atomic_load(&survivors), 500);
  tt_service_unlock();
  tt_service_release();
}

/* A timer that counts, and stops itself at `most`. */
struct clock {
  struct tt_timer timer; /* first */
  int most;
  _Atomic int ticks;
};

static void tick(struct tt_timer *timer)
{
  struct clock *clock = (struct clock *)(void *)timer;
  if (atomic_fetch_add(&clock->ticks, 1) + 1 == clock->most) tt_timer_remove(timer);
}

static void timers_fire_until_they_are_removed(void **state)
{
  (void)state;
  struct clock slow = {.timer = {.period_ns = 3600000u * (uint64_t)MS, .fire = tick}};
  struct clock three = {.timer = {.period_ns = MS, .fire = tick}, .most = 3};
  struct clock fast = {.timer = {.period_ns = MS, .fire = tick}};
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  tt_timer_add(&slow.timer);
  tt_sleep_ns(20 * MS); /* the thread sleeps for an hour now */
  tt_timer_add(&three.timer);
  tt_timer_add(&fast.timer);
  wait_for(&fast.ticks, 10);
  tt_timer_remove(&fast.timer);
  int ticks = atomic_load(&fast.ticks);
  tt_sleep_ns(20 * MS);
  assert_int_equal(atomic_load(&fast.ticks), ticks);
  assert_int_equal(atomic_load(&three.ticks), 3);
  assert_int_equal(atomic_load(&slow.ticks), 0);
  tt_timer_remove(&slow.timer);
  tt_timer_remove(&slow.timer);
  tt_service_release();
}

static void a_timer_never_fires_before_its_time(void **state)
{
  (void)state;
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  for (int i = 0; i < 5; i++) {
    struct clock once = {.timer = {.period_ns = 7 * MS, .fire = tick}, .most = 1};
    uint64_t start = tt_now_ns();
    tt_timer_add(&once.timer);
    wait_for(&once.ticks, 1);
    assert_true(tt_now_ns() - start >= 7 * MS);
    tt_timer_remove(&once.timer);
  }
  tt_service_release();
}

static int shared_word; /* not atomic: the lock alone guards it */

static void increment(struct tt_timer *timer)
{
  shared_word++;
  tick(timer);
}

static void the_lock_keeps_callbacks_out(void **state)
{
  (void)state;
  struct clock fast = {.timer = {.period_ns = MS, .fire = increment}};
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  tt_timer_add(&fast.timer);
  for (int i = 0; i < 20; i++) {
    tt_service_lock();
    tt_service_lock();
    int before = ++shared_word;
    tt_sleep_ns(3 * MS);
    tt_service_unlock();
    assert_int_equal(shared_word, before);
    tt_service_unlock();
    tt_sleep_ns(MS);
  }
  wait_for(&fast.ticks, 1);
  tt_timer_remove(&fast.timer);
  tt_service_release();
}

static void let_go(struct tt_watcher *watcher, uint32_t events)
{
  (void)events;
  struct bell *bell = (struct bell *)(void *)watcher;
  tt_watcher_remove(watcher);
  tt_service_release();
  atomic_fetch_add(&bell->rung, 1);
}

static void the_last_release_may_be_in_a_callback(void **state)
{
  (void)state;
  int before = census_descriptors(), running = census_threads();
  for (int i = 0; i < 200; i++) {
    struct bell *bell = bell_make(let_go);
    assert_int_equal(tt_service_hold(), tuttiSuccess);
    assert_int_equal(tt_watcher_add(&bell->watcher, EPOLLIN), tuttiSuccess);
    bell_ring(bell);
    wait_for(&bell->rung, 1);
    bell_free(bell);
  }
  while (census_threads() > running || census_descriptors() > before) tt_sleep_ns(MS);
}

static void the_last_release_may_be_under_the_lock(void **state)
{
  (void)state;
  int before = census_descriptors(), running = census_threads();
  for (int i = 0; i < 100; i++) {
    struct clock fast = {.timer = {.period_ns = MS, .fire = tick}};
    assert_int_equal(tt_service_hold(), tuttiSuccess);
    tt_timer_add(&fast.timer);
    if (i % 2) wait_for(&fast.ticks, 1);
    tt_service_lock();
    if (i % 2) tt_sleep_ns(3 * MS); /* the thread waits for the lock now */
    tt_timer_remove(&fast.timer);
    tt_service_release();
    tt_service_unlock();
  }
  while (census_threads() > running || census_descriptors() > before) tt_sleep_ns(MS);
}

/* Returns 0 if all that a forked child may call neither hangs nor works. */
static int child_run(struct bell *bell)
{
  alarm(10);
  struct clock clock = {.timer = {.period_ns = MS, .fire = tick}};
  if (tt_service_hold() != tuttiInvalidUsage) return 1;
  tt_service_lock();
  tt_watcher_remove(&bell->watcher);
  tt_timer_add(&clock.timer);
  tt_timer_remove(&clock.timer);
  if (tt_watcher_add(&bell->watcher, EPOLLIN) == tuttiSuccess) return 2;
  if (tt_watcher_change(&bell->watcher, 0) == tuttiSuccess) return 3;
  tt_service_unlock();
  tt_service_release();
  return 0;
}

static void a_forked_child_neither_hangs_nor_disturbs_its_parent(void **state)
{
  (void)state;
  struct bell *bell = bell_make(note), *busy = bell_make(insist);
  assert_int_equal(tt_service_hold(), tuttiSuccess);
  assert_int_equal(tt_watcher_add(&bell->watcher, EPOLLIN), tuttiSuccess);
  assert_int_equal(tt_watcher_add(&busy->watcher, EPOLLIN), tuttiSuccess);
  bell_ring(busy); /* so that the fork often happens while the thread holds the lock */
  for (int i = 0; i < 20; i++) {
    pid_t child = fork();
    if (child == 0) _exit(child_run(bell));
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    bell_ring(bell);
    wait_for(&bell->rung, i + 1);
  }
  bell_free(bell);
  bell_free(busy);
  tt_service_release();
}

static void failed_allocations_are_errors_without_a_leak(void **state)
{
  (void)state;
  int before = census_descriptors(), running = census_threads(), n = 1;
  for (;; n++) {
    tt_alloc_fail_at(n);
    tuttiResult_t result = tt_service_hold();
    tt_alloc_fail_at(0);
    if (result == tuttiSuccess) break;
    assert_int_equal(result, tuttiSystemError);
  }
  tt_service_release();
  assert_true(n > 1);
  assert_int_equal(census_descriptors(), before);
  assert_int_equal(census_threads(), running);
}

int main(void)
{
  alarm(280);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(many_rounds_of_hold_and_release_leave_nothing),
      cmocka_unit_test(threads_may_hold_and_release_at_once),
      cmocka_unit_test(callbacks_run_in_a_thread_that_takes_no_signals),
      cmocka_unit_test(watchers_can_be_changed_and_added_again),
      cmocka_unit_test(removed_watchers_may_be_freed_at_once),
      cmocka_unit_test(many_watchers_are_told_apart),
      cmocka_unit_test(what_a_callback_frees_is_not_called_by_the_same_round),
      cmocka_unit_test(timers_fire_until_they_are_removed),
      cmocka_unit_test(a_timer_never_fires_before_its_time),
      cmocka_unit_test(the_lock_keeps_callbacks_out),
      cmocka_unit_test(the_last_release_may_be_in_a_callback),
      cmocka_unit_test(the_last_release_may_be_under_the_lock),
      cmocka_unit_test(a_forked_child_neither_hangs_nor_disturbs_its_parent),
      cmocka_unit_test(failed_allocations_are_errors_without_a_leak),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
