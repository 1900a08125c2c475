/* SPDX-License-Identifier: BSD-3-Clause */
/* The thread that moves data while nobody looks, one a process. */
#include <limits.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "state.h"

#define LOOK_NS 5000000 /* at least this often, for what only time brings */

static struct {
  pthread_mutex_t mutex;
  pthread_t thread;
  long users;
  int32_t pid; /* a forked child has none of its parent's */
  _Atomic int is_ending;
} engine = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void wait_for_tick(uint32_t seen, uint64_t until_ns)
{
  uint64_t now = fake_now_ns(), ns = until_ns > now ? until_ns - now : 0;
  if (ns > LOOK_NS) ns = LOOK_NS;
  struct timespec wait = {.tv_nsec = (long)ns};
  if (ns > 0) syscall(SYS_futex, &fake_segment->ticks, FUTEX_WAIT, seen, &wait, NULL, 0);
}

static void *run(void *unused)
{
  (void)unused;
  while (!atomic_load(&engine.is_ending)) {
    fake_lock();
    uint32_t seen = atomic_load(&fake_segment->ticks);
    uint64_t due = fake_work(INT_MAX), now = fake_now_ns();
    fake_tell();
    fake_unlock();
    wait_for_tick(seen, due > now ? due : UINT64_MAX); /* what was due and was not done waits for somebody else */
  }
  return NULL;
}

void fake_engine_start(void)
{
  sigset_t all, before;
  pthread_mutex_lock(&engine.mutex);
  if (engine.pid != getpid()) engine.users = 0;
  if (engine.users++ == 0) {
    engine.pid = getpid();
    atomic_store(&engine.is_ending, 0);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    if (pthread_create(&engine.thread, NULL, run, NULL) != 0) abort();
    pthread_sigmask(SIG_SETMASK, &before, NULL);
  }
  pthread_mutex_unlock(&engine.mutex);
}

void fake_engine_stop(void)
{
  pthread_mutex_lock(&engine.mutex);
  if (engine.pid == getpid() && --engine.users == 0) {
    atomic_store(&engine.is_ending, 1);
    fake_poke();
    pthread_join(engine.thread, NULL);
  }
  pthread_mutex_unlock(&engine.mutex);
}
