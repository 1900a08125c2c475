/* SPDX-License-Identifier: BSD-3-Clause */
/* Shrinks of one communicator, one after the other: to other ranks, again to the same ones, and with unlike lists.
 * Labels: processes. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "comm/creation_private.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60
#define LONG_MS 7000 /* unlike lists have been told by then */

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

struct meetings {
  struct meeting *all, *told; /* without rank 1 */
};

/* Ranks 2 and 4 go on with all, rank 3 without 4. Rank 1 is to be in both sets, but waits for rank 0, which comes when
 * the others have been told. What ranks 0, 2 and 3 showed before, in a shrink that took a while, is forgotten. */
static int unlike_body(const struct ranks *self)
{
  static const int all[] = {0, 1, 2, 3, 4};
  const struct meetings *meetings = self->argument;
  int before[] = {1, 4}, exclude[] = {4}, others[] = {2, 3, 4}, r = self->rank;
  tuttiComm_t comm, child = NULL;
  if (strcmp(getenv("TUTTI_TRANSPORTS"), "tcp") == 0) setenv("TUTTI_HOSTID", r % 2 ? "odd" : "even", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, r) == tuttiSuccess);
  if (r == 2) usleep(300000);
  if (without(self, comm, before, 2)) return 1;
  if (r >= 2) {
    tuttiResult_t result = tuttiCommShrink(comm, exclude, r == 3, &child, NULL, TUTTI_SHRINK_DEFAULT);
    RANKS_CHECK(result == tuttiInvalidUsage && !child);
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "rank 2 (pid "));
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), " shrinks the communicator with rank 4, rank 3 (pid "));
  }
  if (r != 1) RANKS_CHECK(meeting_wait(meetings->told));
  if (without(self, comm, others, 3)) return 1;
  if (r != 4) {
    RANKS_CHECK(tuttiCommShrink(comm, exclude, 1, &child, NULL, TUTTI_SHRINK_DEFAULT) == tuttiSuccess);
    if (has(self, child, all, 4)) return 1;
    RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  }
  if (has(self, comm, all, 5)) return 1;
  RANKS_CHECK(meeting_wait(meetings->all) && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void ranks_with_unlike_lists_are_told_and_can_shrink_again(void **state)
{
  static const char *const transports[] = {"shm", "tcp"};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; t < 2; t++) {
    struct meetings meetings = {meeting_make(5), meeting_make(4)};
    assert_true(meetings.all && meetings.told);
    setenv("TUTTI_TRANSPORTS", transports[t], 1);
    assert_int_equal(ranks_run_processes(5, unlike_body, &meetings, LIMIT_S), 0);
    meeting_free(meetings.all);
    meeting_free(meetings.told);
  }
}

/* The sets of ranks, as bits, to which each one shrinks, one after the other, or ranks 5 and 6 at once. */
enum { SLOW = 4, PATIENT = 7 };
static const unsigned patient_sets[PATIENT][4] = {
    {0x11, 0x03}, {0x03}, {0x1c}, {0x18, 0x1c, 0x68}, {0x18, 0x1c, 0x11, 0x70}, {0x70, 0x68}, {0x68, 0x70}};

static int excluded_by(unsigned set, int *exclude)
{
  int n = 0;
  for (int r = 0; r < PATIENT; r++)
    if (!(set >> r & 1)) exclude[n++] = r;
  return n;
}

/* Has done its part, and the others are ready, but the last word comes late. */
static int shrink_slowly(const struct ranks *self, tuttiComm_t comm, unsigned set, tuttiComm_t *child)
{
  int exclude[PATIENT];
  const struct tt_comm_spec spec = {.parent = comm, .settings = &comm->facts.settings, .device = -1, .exclude = exclude,
                                    .nexclude = excluded_by(set, exclude)};
  tuttiResult_t result = tt_comm_create(child, &spec);
  RANKS_CHECK(result == tuttiSuccess);
  while ((*child)->life.creation->stage < AGREEING) RANKS_CHECK(tt_comm_create_poll(*child) == tuttiInProgress);
  result = tt_comm_create_poll(*child);
  for (long until = meeting_now_ms() + LONG_MS; result == tuttiInProgress && meeting_now_ms() < until; usleep(1000))
    RANKS_CHECK(tt_child_look(*child) == tuttiSuccess);
  while (result == tuttiInProgress) result = tt_comm_create_poll(*child);
  RANKS_CHECK(result == tuttiSuccess);
  return 0;
}

static int patient_body(const struct ranks *self)
{
  const unsigned *sets = patient_sets[self->rank];
  tuttiComm_t comm, children[4] = {NULL};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank >= 5) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int s = 0; s < 4 && sets[s]; s++) {
    int exclude[PATIENT], n = excluded_by(sets[s], exclude);
    if (self->rank == SLOW && s == 0) {
      if (shrink_slowly(self, comm, sets[s], &children[s])) return 1;
      continue;
    }
    tuttiResult_t result = tuttiCommShrink(comm, exclude, n, &children[s], NULL, TUTTI_SHRINK_DEFAULT);
    RANKS_CHECK(result == tuttiSuccess);
  }
  if (self->rank >= 5) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int s = 0; s < 4 && sets[s]; s++) RANKS_CHECK(children[s] && tuttiCommDestroy(children[s]) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(self->argument) && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* All wait for rank 4, which is the slowest: ranks 2 and 3 while it is in its first set without 2, and rank 3 was in
 * that; rank 1 while rank 0 is in a set without it; ranks 5 and 6 in two sets at once, in another order. */
static void shrinks_that_wait_long_for_others_are_left_alone(void **state)
{
  (void)state;
  run("shm", PATIENT, patient_body);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shrinks_to_other_ranks_do_not_count),
      cmocka_unit_test(no_set_of_ranks_is_forgotten),
      cmocka_unit_test(ranks_with_unlike_lists_are_told_and_can_shrink_again),
      cmocka_unit_test(shrinks_that_wait_long_for_others_are_left_alone),
      cmocka_unit_test(a_shrink_that_failed_can_be_tried_again),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
