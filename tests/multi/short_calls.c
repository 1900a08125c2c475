/* SPDX-License-Identifier: BSD-3-Clause */
/* Short calls run at once, but a rank that is late, or a lack of slots, hands them over to the general way in the midst
 * of it: results are exact wherever that happens.
 * Labels: plain. */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "ranks.h"
#include "schedule/schedule.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { MAX_COUNT = 2040, CALLS = 40, MOST_RANKS = 6 };

static uint32_t random_next(uint32_t *state)
{
  *state = *state * 1664525u + 1013904223u;
  return *state >> 8;
}

static void be_late(uint32_t *own)
{
  uint32_t r = random_next(own) % 16;
  const struct timespec late = {0, r == 0 ? 3000000 : r == 1 ? 1200000 : 100000};
  if (r < 3) nanosleep(&late, NULL);
}

/* Call i, with values that show a block of another call or place. */
static int all_reduce_once(const struct ranks *self, tuttiComm_t comm, int i, size_t count)
{
  static int in[MAX_COUNT * 8], out[MAX_COUNT * 8];
  int sum = 0;
  for (int r = 0; r < self->nranks; r++) sum += r + 1;
  for (size_t k = 0; k < count; k++) in[k] = (self->rank + 1) * ((int)k + 7 * i);
  int *to = i % 3 ? out : in;
  RANKS_CHECK(tuttiAllReduce(in, to, count, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess);
  for (size_t k = 0; k < count; k++) RANKS_CHECK(to[k] == sum * ((int)k + 7 * i));
  return 0;
}

static int from_root_once(const struct ranks *self, tuttiComm_t comm, int i, size_t count)
{
  static int data[MAX_COUNT * 8];
  int root = i % self->nranks;
  for (size_t k = 0; k < count; k++) data[k] = self->rank == root ? (int)k + i : -1;
  RANKS_CHECK(tuttiBcast(data, count, tuttiInt, root, comm, NULL) == tuttiSuccess);
  for (size_t k = 0; k < count; k++) RANKS_CHECK(data[k] == (int)k + i);
  for (size_t k = 0; k < count; k++) data[k] = self->rank;
  RANKS_CHECK(tuttiReduce(data, data, count, tuttiInt, tuttiMax, root, comm, NULL) == tuttiSuccess);
  for (size_t k = 0; self->rank == root && k < count; k++) RANKS_CHECK(data[k] == self->nranks - 1);
  return 0;
}

static int calls(const struct ranks *self)
{
  tuttiComm_t comm;
  uint32_t all = 5, own = 77 + (uint32_t)self->rank;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int i = 0; i < CALLS; i++) {
    uint32_t r = random_next(&all);
    size_t count = r % 4 == 0 ? r % 9 : r % 4 == 1 ? 8 * MAX_COUNT : 1 + r % MAX_COUNT;
    be_late(&own);
    if (all_reduce_once(self, comm, i, count)) return 1;
    be_late(&own);
    if (from_root_once(self, comm, i, count)) return 1;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void late_ranks_do_no_harm(void **state)
{
  (void)state;
  const char *name;
  for (int a = 0; (name = tt_algorithm_name("all_reduce", a)); a++)
    for (int nranks = 2; nranks <= MOST_RANKS; nranks += 1 + a % 2) {
      if (nranks == 2 && strstr(name, "hierarchical")) continue; /* not legal */
      setenv("TUTTI_ALGO", name, 1);
      assert_int_equal(ranks_run_processes(nranks, calls, NULL, 40), 0);
    }
  unsetenv("TUTTI_ALGO");
}

/* Of the peers of one step some have their message when there is no slot for the next; or all ranks have more to send
 * than they have slots before they take anything. */
static void few_slots_do_no_harm(void **state)
{
  (void)state;
  setenv("TUTTI_SHM_SLOTS", "4", 1);
  setenv("TUTTI_SHM_SLOT_BYTES", "4096", 1);
  for (int nranks = 3; nranks <= MOST_RANKS; nranks++) {
    setenv("TUTTI_ALGO", "one_shot;broadcast:star;reduce:star", 1);
    assert_int_equal(ranks_run_processes(nranks, calls, NULL, 40), 0);
    setenv("TUTTI_ALGO", "direct;broadcast:star;reduce:star", 1);
    assert_int_equal(ranks_run_processes(nranks, calls, NULL, 40), 0);
  }
}

int main(void)
{
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  const struct CMUnitTest tests[] = {cmocka_unit_test(late_ranks_do_no_harm), cmocka_unit_test(few_slots_do_no_harm)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
