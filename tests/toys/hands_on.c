/* SPDX-License-Identifier: BSD-3-Clause */
/* The toy collective (tests/toys/run) through its public function: each rank has what the one before it had for it,
 * exactly, on every transport; who calls something else is told. */
#include "ranks.h"

#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 20001

static int32_t element(int rank, size_t i, int round)
{
  return (int32_t)(i * 64) + rank * 8 + round;
}

static int body(const struct ranks *self)
{
  static const size_t counts[] = {1, 7, 1000, MOST};
  static int32_t in[5 * MOST], out[MOST + 1];
  size_t own = (size_t)self->rank;
  int before = (self->rank + self->nranks - 1) % self->nranks;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int round = 0; round < 8; round++) {
    size_t count = counts[round % 4];
    int is_in_place = round >= 4;
    int32_t *result = is_in_place ? in + own * count : out;
    for (size_t i = 0; i < (size_t)self->nranks * count; i++) in[i] = element(self->rank, i, round);
    for (size_t i = 0; i <= count; i++) out[i] = -1;
    RANKS_CHECK(tuttiHandOn(in, result, count, tuttiInt32, comm, NULL) == tuttiSuccess);
    for (size_t i = 0; i < count; i++) RANKS_CHECK(result[i] == element(before, own * count + i, round));
    RANKS_CHECK(out[count] == -1);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int others(const struct ranks *self)
{
  int32_t in[4] = {1, 2, 3, 4}, out[4];
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  tuttiResult_t result = self->rank == 1 ? tuttiAllGather(in, out, 1, tuttiInt32, comm, NULL)
                                         : tuttiHandOn(in, out, 1, tuttiInt32, comm, NULL);
  while (result == tuttiSuccess) result = tuttiHandOn(in, out, 1, tuttiInt32, comm, NULL); /* till it hears of it */
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "HandOn") && strstr(tuttiGetLastError(comm), "AllGather"));
  tuttiCommAbort(comm);
  return 0;
}

static void on_all(int fewest, int most, ranks_body run)
{
  for (int k = 0; ranks_transports(k); k++)
    for (int nranks = fewest; nranks <= most; nranks++) {
      setenv("TUTTI_TRANSPORTS", ranks_transports(k), 1);
      assert_int_equal(ranks_run_processes(nranks, run, NULL, 60), 0);
    }
}

static void each_rank_gets_what_the_one_before_it_has_for_it(void **state)
{
  (void)state;
  on_all(1, 5, body);
}

static void another_call_is_a_mismatch_on_all_ranks(void **state)
{
  (void)state;
  on_all(4, 4, others);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_rank_gets_what_the_one_before_it_has_for_it),
      cmocka_unit_test(another_call_is_a_mismatch_on_all_ranks),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
