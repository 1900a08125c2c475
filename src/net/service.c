/* SPDX-License-Identifier: BSD-3-Clause */
/* The service thread. The `service` object, with its lock, is made once and kept until the
 * process ends; a `run` (thread, epoll, eventfd) exists between the first hold and the
 * last release. Epoll events carry a watcher's id, never its address. The id is looked up under
 * the lock, so a watcher that was removed since epoll_wait is not found. */
#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "net/private.h"

#define BUCKETS 64
#define BATCH 32
#define YIELD_NS 100000u
#define WAKE_ID 0 /* watchers have ids from 1 */

struct run {
  pthread_t thread;
  int epoll, wake;
  _Atomic int stop;
  int orphan; /* the thread is not joined and frees this itself; written before stop */
};

struct service {
  pthread_mutex_t lock; /* recursive */
  _Atomic int waiters;  /* threads that want the lock while the service thread is busy */
  int holders;
  struct run *run; /* NULL: there are no holders */
  uint64_t next_id;
  struct tt_watcher *watchers[BUCKETS];
  struct tt_timer *timers;
  uint64_t timer_changes; /* changes of that list so far */
  struct tt_listener *listeners;
};

/* How many times this thread holds the lock. */
static _Thread_local int depth;

static int forked(void)
{
  return atomic_load_explicit(&tt_process.forked, memory_order_relaxed);
}

static struct service *service_create(void)
{
  struct service *service = tt_alloc(1, sizeof *service);
  if (!service) return NULL;
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_RECURSIVE);
  pthread_mutex_init(&service->lock, &attributes);
  pthread_mutexattr_destroy(&attributes);
  return service;
}

static struct service *service_get(void)
{
  pthread_mutex_lock(&tt_process.mutex);
  if (!tt_process.service) tt_process.service = service_create();
  struct service *service = tt_process.service;
  pthread_mutex_unlock(&tt_process.mutex);
  return service;
}

void tt_service_lock(void)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return;
  if (pthread_mutex_trylock(&service->lock) != 0) {
    atomic_fetch_add(&service->waiters, 1);
    pthread_mutex_lock(&service->lock);
    atomic_fetch_sub(&service->waiters, 1);
  }
  depth++;
}

int tt_service_try_lock(int ms)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return 0;
  while (pthread_mutex_trylock(&service->lock) != 0) {
    if (ms-- <= 0) return 0;
    tt_sleep_ns(1000000);
  }
  depth++;
  return 1;
}

void tt_service_unlock(void)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return;
  depth--;
  pthread_mutex_unlock(&service->lock);
}

struct tt_listener **tt_service_listeners(void)
{
  struct service *service = tt_process.service;
  return &service->listeners;
}

static void wake(const struct run *run)
{
  uint64_t one = 1;
  ssize_t n = write(run->wake, &one, sizeof one);
  (void)n; /* if the eventfd is full, the thread is awake anyway */
}

/* ---- the thread ---- */

static void dispatch(struct service *service, uint64_t id, uint32_t events)
{
  struct tt_watcher *watcher = service->watchers[id % BUCKETS];
  while (watcher && watcher->id != id) watcher = watcher->next;
  if (watcher) watcher->ready(watcher, events);
}

/* Fires due timers; if a callback changed the list, the search starts anew. */
static void fire_due(struct service *service)
{
  uint64_t now = tt_now_ns();
  for (struct tt_timer *timer = service->timers; timer;) {
    if (timer->due_ns > now) {
      timer = timer->next;
      continue;
    }
    timer->due_ns += timer->period_ns;
    if (timer->due_ns <= now) timer->due_ns = now + timer->period_ns;
    uint64_t changes = service->timer_changes;
    timer->fire(timer);
    timer = changes == service->timer_changes ? timer->next : service->timers;
  }
}

/* Milliseconds to the next timer, rounded up; -1: none. */
static int wait_ms(const struct service *service)
{
  uint64_t due = UINT64_MAX, now = tt_now_ns();
  for (const struct tt_timer *timer = service->timers; timer; timer = timer->next)
    if (timer->due_ns < due) due = timer->due_ns;
  if (due == UINT64_MAX) return -1;
  if (due <= now) return 0;
  uint64_t ms = (due - now + 999999) / 1000000;
  return ms > 60000 ? 60000 : (int)ms;
}

/* Mutexes are not fair: without the yields a busy loop would keep all other threads out. If many threads want the
 * cores, one yield takes long enough. */
static void lock_after_others(struct service *service)
{
  uint64_t until_ns = atomic_load(&service->waiters) > 0 ? tt_now_ns() + YIELD_NS : 0;
  while (atomic_load(&service->waiters) > 0 && tt_now_ns() < until_ns) sched_yield();
  tt_service_lock();
}

static void turn(struct service *service, struct run *run, const struct epoll_event *events, int n)
{
  for (int i = 0; i < n && !atomic_load(&run->stop); i++) {
    uint64_t count;
    if (events[i].data.u64 == WAKE_ID) {
      ssize_t got = read(run->wake, &count, sizeof count);
      (void)got;
      continue;
    }
    lock_after_others(service);
    if (!atomic_load(&run->stop)) dispatch(service, events[i].data.u64, events[i].events);
    tt_service_unlock();
  }
}

static void run_free(struct run *run)
{
  if (run->epoll >= 0) close(run->epoll);
  if (run->wake >= 0) close(run->wake);
  tt_free(run);
}

static void *run_main(void *argument)
{
  struct run *run = argument;
  struct service *service = tt_process.service;
  struct epoll_event events[BATCH];
  while (!atomic_load(&run->stop)) {
    lock_after_others(service);
    if (!atomic_load(&run->stop)) fire_due(service);
    int ms = wait_ms(service);
    tt_service_unlock();
    int n = epoll_wait(run->epoll, events, BATCH, ms);
    turn(service, run, events, n);
  }
  if (run->orphan) {
    tt_service_lock(); /* the releasing thread may still be waking this one */
    tt_service_unlock();
    run_free(run);
  }
  return NULL;
}

/* ---- hold and release ---- */

/* Under the lock, so that the thread sees a whole service. */
static tuttiResult_t run_start(struct service *service)
{
  struct run *run = tt_alloc(1, sizeof *run);
  if (!run) return tt_fail(tuttiSystemError, "out of memory for the service thread");
  run->epoll = epoll_create1(EPOLL_CLOEXEC);
  run->wake = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  struct epoll_event event = {.events = EPOLLIN, .data.u64 = WAKE_ID};
  int error = 0;
  if (run->epoll < 0 || run->wake < 0 ||
      epoll_ctl(run->epoll, EPOLL_CTL_ADD, run->wake, &event) != 0)
    error = errno;
  if (!error) error = tt_thread_start(&run->thread, "tutti-service", run_main, run);
  if (error) {
    run_free(run);
    return tt_fail(tuttiSystemError,
                   "the service thread does not start: %s (see `ulimit -n` and `ulimit -u`)",
                   strerror(error));
  }
  service->run = run;
  return tuttiSuccess;
}

tuttiResult_t tt_service_hold(void)
{
  tt_process_enter();
  if (forked())
    return tt_fail(tuttiInvalidUsage, "a forked child cannot use the library: call exec first, or "
                                      "start the process some other way");
  struct service *service = service_get();
  if (!service) return tt_fail(tuttiSystemError, "out of memory for the service thread");
  tuttiResult_t result = tuttiSuccess;
  tt_service_lock();
  if (!service->run) result = run_start(service);
  if (result == tuttiSuccess) service->holders++;
  tt_service_unlock();
  return result;
}

void tt_service_release(void)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return;
  tt_service_lock();
  struct run *run = NULL;
  int join = depth == 1; /* else the thread may need the lock that our caller holds */
  if (service->holders > 0 && --service->holders == 0) {
    run = service->run;
    service->run = NULL;
    run->orphan = !join;
    if (!join) pthread_detach(run->thread);
    atomic_store(&run->stop, 1);
    wake(run);
  }
  tt_service_unlock();
  if (!run || !join) return;
  pthread_join(run->thread, NULL);
  run_free(run);
}

/* ---- watchers and timers ---- */

tuttiResult_t tt_watcher_add(struct tt_watcher *watcher, uint32_t events)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return tt_fail(tuttiInternalError, "a watcher needs the service to be held");
  tuttiResult_t result = tuttiSuccess;
  tt_service_lock();
  uint64_t id = ++service->next_id;
  struct epoll_event event = {.events = events, .data.u64 = id};
  if (!service->run || watcher->id) {
    result = tt_fail(tuttiInternalError, "a watcher was added twice, or without the service");
  } else if (epoll_ctl(service->run->epoll, EPOLL_CTL_ADD, watcher->fd, &event) != 0) {
    result = tt_fail(tuttiSystemError, "epoll_ctl: %s (descriptor %d; see fs.epoll.max_user_watches)",
                     strerror(errno), watcher->fd);
  } else {
    watcher->id = id;
    watcher->next = service->watchers[id % BUCKETS];
    service->watchers[id % BUCKETS] = watcher;
  }
  tt_service_unlock();
  return result;
}

tuttiResult_t tt_watcher_change(struct tt_watcher *watcher, uint32_t events)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return tt_fail(tuttiInternalError, "a watcher needs the service to be held");
  tuttiResult_t result = tuttiSuccess;
  tt_service_lock();
  struct epoll_event event = {.events = events, .data.u64 = watcher->id};
  if (!service->run || !watcher->id)
    result = tt_fail(tuttiInternalError, "a watcher that was not added cannot be changed");
  else if (epoll_ctl(service->run->epoll, EPOLL_CTL_MOD, watcher->fd, &event) != 0)
    result = tt_fail(tuttiSystemError, "epoll_ctl: %s (descriptor %d)", strerror(errno), watcher->fd);
  tt_service_unlock();
  return result;
}

void tt_watcher_remove(struct tt_watcher *watcher)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return;
  tt_service_lock();
  if (watcher->id) {
    struct tt_watcher **at = &service->watchers[watcher->id % BUCKETS];
    while (*at && *at != watcher) at = &(*at)->next;
    if (*at) *at = watcher->next;
    if (service->run) epoll_ctl(service->run->epoll, EPOLL_CTL_DEL, watcher->fd, NULL);
    watcher->id = 0;
    watcher->next = NULL;
  }
  tt_service_unlock();
}

static void timer_unlink(struct service *service, const struct tt_timer *timer)
{
  struct tt_timer **at = &service->timers;
  while (*at && *at != timer) at = &(*at)->next;
  if (*at) *at = timer->next;
  service->timer_changes++;
}

void tt_timer_add(struct tt_timer *timer)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return;
  tt_service_lock();
  timer_unlink(service, timer);
  timer->due_ns = tt_now_ns() + timer->period_ns;
  timer->next = service->timers;
  service->timers = timer;
  /* The thread computes its wait after its callbacks, so a timer added there needs no wake-up. */
  if (service->run && !pthread_equal(service->run->thread, pthread_self())) wake(service->run);
  tt_service_unlock();
}

void tt_timer_remove(struct tt_timer *timer)
{
  struct service *service = forked() ? NULL : tt_process.service;
  if (!service) return;
  tt_service_lock();
  timer_unlink(service, timer);
  tt_service_unlock();
}
