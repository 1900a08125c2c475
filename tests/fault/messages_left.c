/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that destroys its communicator is missed by who still waits for a message of it, whoever else that one waits
 * for. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { NRANKS = 4, LIMIT_MS = 2500 }; /* 5 times what is promised */

static long now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Rank 0 waits for all; rank 2 has left, the others are late. */
static int one_left(const struct ranks *self)
{
  const struct timespec late = {3, 0};
  tuttiComm_t comm;
  int got[NRANKS] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) {
    long before = now_ms();
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int r = 1; r < NRANKS; r++)
      RANKS_CHECK(tuttiRecv(&got[r], 1, tuttiInt, r, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiRemoteError);
    RANKS_CHECK(now_ms() - before < LIMIT_MS);
    RANKS_CHECK(strstr(tuttiGetLastError(comm), "rank 2 (pid ") && strstr(tuttiGetLastError(comm), "left"));
  } else if (self->rank != 2) nanosleep(&late, NULL);
  tuttiCommDestroy(comm);
  return 0;
}

static void a_rank_that_left_is_missed_behind_late_ones(void **state)
{
  (void)state;
  setenv("TUTTI_TRANSPORTS", "shm", 1); /* a tcp connection that is closed tells by itself */
  assert_int_equal(ranks_run_processes(NRANKS, one_left, NULL, 30), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_left_is_missed_behind_late_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
