/* SPDX-License-Identifier: BSD-3-Clause */
/* How a rank waits: the more ranks share its core, the more rarely it wakes and looks at the calls of all others.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "exec/exec.h"

#define WAIT_NS 200000000u

static uint64_t shortest_ns; /* sleep that was asked for */

/* Instead of the C library's. */
int nanosleep(const struct timespec *time, struct timespec *left)
{
  uint64_t ns = (uint64_t)time->tv_sec * 1000000000u + (uint64_t)time->tv_nsec;
  if (ns < shortest_ns) shortest_ns = ns;
  return (int)syscall(SYS_nanosleep, time, left);
}

static void looks_and_sleeps_are_as_rare_as_ranks_share_a_core(void **state)
{
  static const int crowds[] = {0, 1, 2, 16, 200};
  (void)state;
  for (int k = 0; k < 5; k++) {
    struct tt_waiter waiter;
    uint64_t began_ns = tt_now_ns(), looks = 0, each_ns = crowds[k] > 1 ? (uint64_t)crowds[k] * 1000000 : 1000000;
    uint64_t least_ns = (uint64_t)crowds[k] * 50000;
    shortest_ns = UINT64_MAX;
    tt_waiter_init(&waiter, crowds[k]);
    while (tt_now_ns() < began_ns + WAIT_NS || !looks || shortest_ns == UINT64_MAX)
      looks += (uint64_t)tt_waiter_pause(&waiter, 0);
    assert_true(looks * each_ns <= tt_now_ns() - began_ns);
    assert_true(shortest_ns >= least_ns);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(looks_and_sleeps_are_as_rare_as_ranks_share_a_core),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
