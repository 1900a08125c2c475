/* SPDX-License-Identifier: BSD-3-Clause */
/* What a transport or a device knows of memory of tuttiMemAlloc must not outlive it: freed and allocated again, it lies
 * at the same address on other pages, and calls still have exact results.
 * Labels: processes. */
#include <stdlib.h>

#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <cmocka.h>

enum { RANKS = 2, COUNT = 1 << 17, ROUNDS = 8, LIMIT_S = 60 };

static int calls(const struct ranks *self, tuttiComm_t comm, int round, int *in, int *out)
{
  int sum = 0, root = round % self->nranks, next = (self->rank + 1) % self->nranks;
  int before = (self->rank + self->nranks - 1) % self->nranks;
  for (int r = 0; r < self->nranks; r++) sum += r + 1;
  for (int k = 0; k < COUNT; k++) in[k] = (self->rank + 1) * (k + 7 * round);
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int k = 0; k < COUNT; k++) RANKS_CHECK(out[k] == sum * (k + 7 * round));
  RANKS_CHECK(tuttiBroadcast(in, out, COUNT, tuttiInt, root, comm, NULL) == tuttiSuccess);
  for (int k = 0; k < COUNT; k++) RANKS_CHECK(out[k] == (root + 1) * (k + 7 * round));
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiSend(in, COUNT, tuttiInt, next, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiRecv(out, COUNT, tuttiInt, before, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int k = 0; k < COUNT; k++) RANKS_CHECK(out[k] == (before + 1) * (k + 7 * round));
  return 0;
}

static int body(const struct ranks *self)
{
  tuttiComm_t comm;
  void *first_in = NULL, *first_out = NULL, *in, *out;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int round = 0; round < ROUNDS; round++) {
    RANKS_CHECK(tuttiMemAlloc(&in, COUNT * sizeof(int)) == tuttiSuccess);
    RANKS_CHECK(tuttiMemAlloc(&out, COUNT * sizeof(int)) == tuttiSuccess);
    if (round == 0) first_in = in, first_out = out;
    RANKS_CHECK(in == first_in && out == first_out); /* else this shows nothing */
    if (calls(self, comm, round, in, out)) return 1;
    RANKS_CHECK(tuttiMemFree(in) == tuttiSuccess);
    RANKS_CHECK(tuttiMemFree(out) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void memory_that_comes_back_on_other_pages_is_not_taken_for_the_old(void **state)
{
  (void)state;
  setenv("TUTTI_SHM_DIRECT_BYTES", "65536", 1);
  setenv("TUTTI_IB_DIRECT_BYTES", "65536", 1);
  for (int n = 0; ranks_transports(n); n++) {
    const char *transport = ranks_transports(n);
    setenv("TUTTI_TRANSPORTS", transport, 1);
    if (ranks_run_processes(RANKS, body, NULL, LIMIT_S)) fail_msg("over %s", transport);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_that_comes_back_on_other_pages_is_not_taken_for_the_old),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
