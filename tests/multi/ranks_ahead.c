/* SPDX-License-Identifier: BSD-3-Clause */
/* Where a collective needs only some ranks' parts, the others go on: however far they are ahead of a late rank, that
 * is no mismatch.
 * Labels: processes. */
#include <stdlib.h>
#include <time.h>

#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { NRANKS = 4, CALLS = 60 }; /* more calls than the ranks' rings of published ones hold */

static int reduce(const struct ranks *self, tuttiComm_t comm)
{
  for (int i = 0; i < CALLS; i++) {
    int mine = self->rank + i, sum = -1;
    RANKS_CHECK(tuttiReduce(&mine, &sum, 1, tuttiInt, tuttiSum, 0, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(sum == (self->rank ? -1 : NRANKS * i + NRANKS * (NRANKS - 1) / 2));
  }
  return 0;
}

static int gather(const struct ranks *self, tuttiComm_t comm)
{
  for (int i = 0; i < CALLS; i++) {
    int mine = self->rank + i, all[NRANKS] = {0};
    RANKS_CHECK(tuttiGather(&mine, all, 1, tuttiInt, 0, comm, NULL) == tuttiSuccess);
    for (int r = 0; r < NRANKS; r++) RANKS_CHECK(all[r] == (self->rank ? 0 : r + i));
  }
  return 0;
}

static int broadcast(const struct ranks *self, tuttiComm_t comm)
{
  for (int i = 0; i < CALLS; i++) {
    int x = self->rank ? -1 : i;
    RANKS_CHECK(tuttiBcast(&x, 1, tuttiInt, 0, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(x == i);
  }
  return 0;
}

static int one_is_late(const struct ranks *self)
{
  const struct timespec late = {1, 600000000};
  int (*const bodies[])(const struct ranks *, tuttiComm_t) = {reduce, gather, broadcast};
  tuttiComm_t comm;
  int x = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  for (int which = 0; which < 3; which++) {
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, NULL) == tuttiSuccess);
    if (self->rank == 1 + which % 2) nanosleep(&late, NULL);
    if (bodies[which](self, comm)) return 1;
  }
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* On both transports at once: these ranks mostly wait. */
static void ranks_far_ahead_of_a_late_one_are_no_mismatch(void **state)
{
  static const char *const transports[] = {"shm", "tcp"};
  int pids[2][NRANKS];
  (void)state;
  for (int t = 0; t < 2; t++) {
    setenv("TUTTI_TRANSPORTS", transports[t], 1);
    assert_int_equal(ranks_start(NRANKS, one_is_late, NULL, pids[t]), 0);
  }
  for (int t = 0; t < 2; t++)
    for (int r = 0; r < NRANKS; r++) assert_int_equal(ranks_wait(pids[t][r], 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_far_ahead_of_a_late_one_are_no_mismatch)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
