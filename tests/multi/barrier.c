/* SPDX-License-Identifier: BSD-3-Clause */
/* No rank leaves a barrier before all have come to it: called alone, on streams, in groups, between other calls.
 * Labels: processes. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define ROUNDS 60
#define LIMIT_S 60

/* In memory that all ranks share: how many ranks have come to each barrier. */
static _Atomic int *come;

enum { ALONE, ON_STREAM, IN_GROUP, GROUPED_ON_STREAM, WAYS };

/* One rank is late for each barrier. All buffers lie in x. */
static int meet(const struct ranks *self, tuttiComm_t comm, tuttiStream_t stream, int k)
{
  int right = (self->rank + 1) % self->nranks, left = (self->rank + self->nranks - 1) % self->nranks;
  int way = k % WAYS, x[3] = {1, self->rank, -1};
  tuttiStream_t on = way == ON_STREAM || way == GROUPED_ON_STREAM ? stream : NULL;
  if (k / WAYS % self->nranks == self->rank) usleep(2000);
  atomic_fetch_add(&come[k], 1);
  if (way == IN_GROUP || way == GROUPED_ON_STREAM) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(&x[0], &x[0], 1, tuttiInt, tuttiSum, comm, on) == tuttiSuccess);
    RANKS_CHECK(tuttiBarrier(comm, on) == tuttiSuccess && tuttiBarrier(comm, on) == tuttiSuccess);
    RANKS_CHECK(tuttiSend(&x[1], 1, tuttiInt, right, comm, on) == tuttiSuccess);
    RANKS_CHECK(tuttiRecv(&x[2], 1, tuttiInt, left, comm, on) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  } else {
    RANKS_CHECK(tuttiBarrier(comm, on) == tuttiSuccess);
  }
  if (on) RANKS_CHECK(tuttiStreamSynchronize(on) == tuttiSuccess);
  RANKS_CHECK(atomic_load(&come[k]) == self->nranks);
  if (way == IN_GROUP || way == GROUPED_ON_STREAM) RANKS_CHECK(x[0] == self->nranks && x[2] == left);
  return 0;
}

static int meet_body(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  tuttiStream_t stream;
  come = self->argument;
  config.wire_type = tuttiHalf; /* a byte has none */
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int k = 0; k < ROUNDS; k++) RANKS_CHECK(meet(self, comm, stream, k) == 0);
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommFinalize(comm) == tuttiSuccess && tuttiBarrier(comm, NULL) == tuttiInvalidUsage);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void no_rank_leaves_before_all_have_come(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int nranks = 1; nranks <= 5; nranks++)
    for (int t = 0; ranks_transports(t); t++) {
      setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
      assert_int_equal(ranks_run_processes(nranks, meet_body, ranks_shared(ROUNDS * sizeof *come), LIMIT_S), 0);
    }
}

static void a_barrier_of_nobody_is_refused(void **state)
{
  (void)state;
  assert_int_equal(tuttiBarrier(NULL, NULL), tuttiInvalidArgument);
  assert_true(says("comm is NULL"));
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(no_rank_leaves_before_all_have_come),
      cmocka_unit_test(a_barrier_of_nobody_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
