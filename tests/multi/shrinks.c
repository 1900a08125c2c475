/* SPDX-License-Identifier: BSD-3-Clause */
/* Shrinks of one communicator, one after the other: to other ranks, and again to the same ones. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60 /* a shrink in which ranks do not meet takes five minutes */

/* The ranks of comm are `members`: each says who it is. */
static int has(const struct ranks *self, tuttiComm_t comm, const int *members, int n)
{
  int all[16] = {0}, count;
  RANKS_CHECK(tuttiCommCount(comm, &count) == tuttiSuccess && count == n);
  RANKS_CHECK(tuttiAllGather(&self->rank, all, 1, tuttiInt32, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(memcmp(all, members, (size_t)n * sizeof *members) == 0);
  return 0;
}

static void run(const char *transports, int nranks, ranks_body body)
{
  struct meeting *meeting = meeting_make(nranks);
  assert_non_null(meeting);
  setenv("TUTTI_TRANSPORTS", transports, 1);
  assert_int_equal(ranks_run_processes(nranks, body, meeting, LIMIT_S), 0);
  meeting_free(meeting);
}

/* Ranks 0, 1 and 3 go on without 2 and then ranks 0 and 2 without 1 and 3: the second shrink is the first one of rank
 * 2. Then all ranks but 3 that have shrunk once, twice or not at all. */
static int each_counts_body(const struct ranks *self)
{
  static const int first[] = {0, 1, 3}, second[] = {0, 2}, third[] = {0, 1, 2};
  int one[] = {2}, two[] = {3, 1}, two_again[] = {1, 3}, three[] = {3}, r = self->rank;
  struct meeting *meeting = self->argument;
  tuttiComm_t comm, child;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, r) == tuttiSuccess);
  if (r != 2) {
    RANKS_CHECK(tuttiCommShrink(comm, one, 1, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    if (has(self, child, first, 3)) return 1;
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  }
  if (r == 0 || r == 2) {
    RANKS_CHECK(tuttiCommShrink(comm, r ? two : two_again, 2, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    if (has(self, child, second, 2)) return 1;
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  }
  if (r != 3) {
    RANKS_CHECK(tuttiCommShrink(comm, three, 1, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    if (has(self, child, third, 3)) return 1;
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  }
  RANKS_CHECK(meeting_wait(meeting) && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void shrinks_to_other_ranks_do_not_count(void **state)
{
  (void)state;
  run("shm", 4, each_counts_body);
  run("tcp", 4, each_counts_body);
}

static int without(const struct ranks *self, tuttiComm_t comm, int *exclude, int n)
{
  tuttiComm_t child;
  for (int i = 0; i < n; i++)
    if (exclude[i] == self->rank) return 0;
  RANKS_CHECK(tuttiCommShrink(comm, exclude, n, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
  return tuttiCommDestroy(child) != tuttiSuccess;
}

/* To all 16 sets that ranks 0 and 1 are in, one without rank 1, and the first one again: then rank 0 has seen one set
 * more than rank 1, and twice as many as the others. */
static int many_sets_body(const struct ranks *self)
{
  int exclude[6];
  struct meeting *meeting = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int set = 0; set < 16; set++) {
    int n = 0;
    for (int r = 2; r < 6; r++)
      if (set >> (r - 2) & 1) exclude[n++] = r;
    if (without(self, comm, exclude, n)) return 1;
  }
  exclude[0] = 1;
  if (without(self, comm, exclude, 1) || without(self, comm, exclude, 0)) return 1;
  RANKS_CHECK(meeting_wait(meeting) && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void no_set_of_ranks_is_forgotten(void **state)
{
  (void)state;
  run("shm", 6, many_sets_body);
}

/* Rank 1 has no descriptor free in the first try, and all ranks try again. */
static int tries_again_body(const struct ranks *self)
{
  static const int left[] = {0, 1};
  int exclude[] = {2};
  struct rlimit limit, none;
  tuttiComm_t comm, child = NULL;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 2) {
    RANKS_CHECK(meeting_wait(self->argument));
    return tuttiCommDestroy(comm) != tuttiSuccess;
  }
  RANKS_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
  none = (struct rlimit){3, limit.rlim_max};
  if (self->rank == 1) setrlimit(RLIMIT_NOFILE, &none);
  RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &child, NULL, TUTTI_SHRINK_DEFAULT) != tuttiSuccess && !child);
  setrlimit(RLIMIT_NOFILE, &limit);
  RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
  if (has(self, child, left, 2)) return 1;
  RANKS_CHECK(meeting_wait(self->argument));
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_shrink_that_failed_can_be_tried_again(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  run("shm", 3, tries_again_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shrinks_to_other_ranks_do_not_count),
      cmocka_unit_test(no_set_of_ranks_is_forgotten),
      cmocka_unit_test(a_shrink_that_failed_can_be_tried_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
