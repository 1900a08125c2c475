/* SPDX-License-Identifier: BSD-3-Clause */
/* What a start of many ranks costs, in counts: ranks as threads of this process, whose service thread has the root.
 * Labels: processes. */
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "meeting.h"
#include "ranks.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 48 };

static _Atomic long root_bytes; /* sent by the service thread, in whole messages: by the root and little else */

static int is_service(void)
{
  char name[16] = "";
  pthread_getname_np(pthread_self(), name, sizeof name);
  return strcmp(name, "tutti-service") == 0;
}

/* Instead of the C library's. */
ssize_t sendmsg(int fd, const struct msghdr *message, int flags)
{
  ssize_t n = syscall(SYS_sendmsg, fd, message, flags);
  if (n > 0 && is_service()) atomic_fetch_add(&root_bytes, n);
  return n;
}

static _Atomic long looks; /* at sockets, by ranks */

/* Likewise. */
ssize_t recv(int fd, void *data, size_t len, int flags)
{
  if (!is_service()) atomic_fetch_add(&looks, 1);
  return syscall(SYS_recvfrom, fd, data, len, flags, NULL, NULL);
}

static int join(const struct ranks *self)
{
  tuttiComm_t comm;
  float x = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x == (float)self->nranks);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Every rank is told of every other where it is and how it can be reached, and gets one table. */
static void the_root_sends_each_rank_less_than_1_KiB_for_each_other_and_one_table(void **state)
{
  (void)state;
  atomic_store(&root_bytes, 0);
  assert_int_equal(ranks_run_threads(RANKS, join, NULL, 120), 0);
  long sent = atomic_load(&root_bytes);
  print_message("%d ranks: %ld bytes left the root, %ld for each pair of ranks\n", RANKS, sent, sent / RANKS / RANKS);
  assert_true(sent > 0);
  assert_true(sent < RANKS * (RANKS * 1024L + 8192));
}

/* Each rank has both ends of its connection to the root, its memory, and what is on its way. */
static void a_soft_limit_of_descriptors_does_not_limit_the_ranks(void **state)
{
  (void)state;
  struct rlimit limit, low;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  if (limit.rlim_max < 16 * RANKS) skip();
  low = (struct rlimit){2 * RANKS, limit.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &low), 0);
  assert_int_equal(ranks_run_threads(RANKS, join, NULL, 120), 0);
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &low), 0);
  assert_true(low.rlim_cur > 2 * RANKS && low.rlim_max == limit.rlim_max);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

/* ---- who waits sleeps ---- */

enum { WAITING = 8, LATE_MS = 1000 };

static int join_late(const struct ranks *self)
{
  if (self->rank == WAITING - 1) usleep(LATE_MS * 1000);
  return join(self);
}

/* 50 ms are the longest sleep, and 5 of the one rank that serves the status page; looks when something comes are beside
 * that. Each came to 40 in a second; to 2,000 when it looked after a millisecond at the latest. */
static void ranks_that_wait_for_one_that_is_late_sleep(void **state)
{
  (void)state;
  long began_ms = meeting_now_ms();
  atomic_store(&looks, 0);
  assert_int_equal(ranks_run_threads(WAITING, join_late, NULL, 120), 0);
  long looked = atomic_load(&looks) / WAITING, allowed = 400 + (meeting_now_ms() - began_ms) / 10;
  print_message("each rank looked %ld times, %ld are allowed\n", looked, allowed);
  assert_true(looked < allowed);
}

/* ---- who waits in a call, too, where many share a core ---- */

enum { CROWD = 16 };

static _Atomic long naps, waited_ms;

/* Instead of the C library's. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
  if (!is_service()) atomic_fetch_add(&naps, 1);
  return (int)syscall(SYS_nanosleep, time, left);
}

static int reduce_late(const struct ranks *self)
{
  tuttiComm_t comm;
  float x = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  if (self->rank == 0) {
    atomic_store(&naps, 0);
    atomic_store(&waited_ms, -meeting_now_ms());
    usleep(1500000);
    atomic_fetch_add(&waited_ms, meeting_now_ms());
  }
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Sleeps grow with what was waited so far, up to a millisecond for each rank of a core. */
static void the_more_ranks_share_a_core_the_longer_are_their_sleeps(void **state)
{
  (void)state;
  cpu_set_t all, one;
  assert_int_equal(sched_getaffinity(0, sizeof all, &all), 0);
  CPU_ZERO(&one);
  CPU_SET((size_t)sched_getcpu(), &one);
  assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
  assert_int_equal(ranks_run_threads(CROWD, reduce_late, NULL, 120), 0);
  assert_int_equal(sched_setaffinity(0, sizeof all, &all), 0);
  long slept = atomic_load(&naps) / (CROWD - 1), allowed = atomic_load(&waited_ms) / 3;
  print_message("each rank slept %ld times in %ld ms, %ld are allowed\n", slept, atomic_load(&waited_ms), allowed);
  assert_true(slept < allowed);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_root_sends_each_rank_less_than_1_KiB_for_each_other_and_one_table),
      cmocka_unit_test(a_soft_limit_of_descriptors_does_not_limit_the_ranks),
      cmocka_unit_test(ranks_that_wait_for_one_that_is_late_sleep),
      cmocka_unit_test(the_more_ranks_share_a_core_the_longer_are_their_sleeps),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
