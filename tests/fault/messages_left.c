/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that destroys its communicator is missed by who still waits for a message of it, whoever else that one waits
 * for. */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { NRANKS = 4 };

/* Rank 0 waits for all; rank 2 has left, the others are late. */
static int one_left(const struct ranks *self)
{
  _Atomic int *told = self->argument;
  tuttiComm_t comm;
  int got[NRANKS] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int r = 1; r < NRANKS; r++)
      RANKS_CHECK(tuttiRecv(&got[r], 1, tuttiInt, r, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiRemoteError);
    RANKS_CHECK(strstr(tuttiGetLastError(comm), "rank 2 (pid ") && strstr(tuttiGetLastError(comm), "left"));
    atomic_store(told, 1);
  }
  while (self->rank % 2 && !atomic_load(told)) usleep(1000);
  tuttiCommDestroy(comm);
  return 0;
}

static void a_rank_that_left_is_missed_behind_late_ones(void **state)
{
  (void)state;
  setenv("TUTTI_TRANSPORTS", "shm", 1); /* a tcp connection that is closed tells by itself */
  assert_int_equal(ranks_run_processes(NRANKS, one_left, ranks_shared(sizeof(_Atomic int)), 30), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(a_rank_that_left_is_missed_behind_late_ones)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
