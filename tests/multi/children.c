/* SPDX-License-Identifier: BSD-3-Clause */
/* A communicator falls into parts, each of which shrinks it to itself; several children of one parent are made at once,
 * some by the calling thread and some by the progress thread; options and the table of algorithms are inherited. Ranks
 * are threads of one process. */
#include "comm/comm.h"
#include "ranks.h"
#include "tuner/tuner.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

enum { NRANKS = 5, LIMIT_S = 60 };

static int in_two_parts(const struct ranks *self)
{
  static int first[2] = {0, 1}, second[3] = {2, 3, 4};
  int is_first = self->rank < 2;
  tuttiComm_t comm, part;
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommShrink(comm, is_first ? second : first, is_first ? 3 : 2, &part, NULL, TUTTI_SHRINK_ABORT) ==
              tuttiSuccess);
  tuttiCommDestroy(comm);
  if (comm_try(self, part, is_first ? 2 : 3)) return 1;
  RANKS_CHECK(tuttiCommDestroy(part) == tuttiSuccess);
  return 0;
}

static void a_parent_may_fall_into_several_parts(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(NRANKS, in_two_parts, NULL, LIMIT_S), 0);
}

static int ready(const struct ranks *self, tuttiComm_t comm)
{
  tuttiResult_t result;
  do RANKS_CHECK(tuttiCommGetAsyncError(comm, &result) == tuttiSuccess);
  while (result == tuttiInProgress);
  RANKS_CHECK(result == tuttiSuccess);
  return 0;
}

static int many_children(const struct ranks *self)
{
  tuttiConfig_t later = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm, children[4];
  later.blocking = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  for (int round = 0; round < 5; round++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int c = 0; c < 4; c++)
      RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &children[c], c % 2 ? &later : NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiInProgress);
    for (int c = 0; c < 4; c++) {
      if (ready(self, children[c]) || comm_try(self, children[c], NRANKS)) return 1;
      RANKS_CHECK(tuttiCommDestroy(children[c]) == tuttiSuccess);
    }
  }
  if (comm_try(self, comm, NRANKS)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void children_are_made_side_by_side_by_two_threads(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(NRANKS, many_children, NULL, LIMIT_S), 0);
}

/* Children and grandchildren without a config of their own. */
static int as_the_parent(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm, child, grandchild;
  config.blocking = 0;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, NRANKS, self->id, self->rank, &config) == tuttiInProgress);
  if (ready(self, comm)) return 1;
  RANKS_CHECK(tuttiCommSplit(comm, 0, 0, &child, NULL) == tuttiInProgress);
  if (ready(self, child)) return 1;
  RANKS_CHECK(tuttiCommSplit(child, 0, 0, &grandchild, NULL) == tuttiInProgress);
  if (ready(self, grandchild) || comm_try(self, grandchild, NRANKS)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grandchild) == tuttiSuccess);
  config.blocking = 1;
  RANKS_CHECK(tuttiCommSplit(child, 0, 0, &grandchild, &config) == tuttiSuccess);
  if (comm_try(self, grandchild, NRANKS)) return 1;
  RANKS_CHECK(tuttiCommDestroy(grandchild) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_child_without_options_waits_as_its_parent_does(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(NRANKS, as_the_parent, NULL, LIMIT_S), 0);
}

/* *is: the child has the parent's table. */
static int is_marked(const struct ranks *self, tuttiComm_t parent, int color, int key, int deterministic, int *is)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t child;
  config.deterministic = deterministic;
  RANKS_CHECK(tuttiCommSplit(parent, color, key, &child, &config) == tuttiSuccess);
  *is = tt_comm_table(child)->rows[TT_ALL_REDUCE][0].up_to_bytes == 7;
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  return 0;
}

/* The parent's table is not the one that prices make: sums of up to 7 bytes go as those of 1 GiB. */
static int with_a_table(const struct ranks *self)
{
  tuttiComm_t comm;
  int is = -1;
  RANKS_CHECK(tuttiCommInitRank(&comm, NRANKS, self->id, self->rank) == tuttiSuccess);
  struct tt_table marked = *tt_comm_table(comm);
  struct tt_table_row *rows = marked.rows[TT_ALL_REDUCE];
  rows[0] = (struct tt_table_row){7, *tt_table_choice(&marked, TT_ALL_REDUCE, (uint64_t)1 << 30)};
  rows[1] = (struct tt_table_row){UINT64_MAX, rows[0].choice};
  RANKS_CHECK(comm_try(self, comm, NRANKS) == 0);
  tt_comm_table_set(comm, &marked);
  if (is_marked(self, comm, 0, 0, TUTTI_CONFIG_UNDEF_INT, &is)) return 1;
  RANKS_CHECK(is == 1);
  if (is_marked(self, comm, 0, self->rank, 0, &is)) return 1;
  RANKS_CHECK(is == 1);
  if (is_marked(self, comm, 0, -self->rank, TUTTI_CONFIG_UNDEF_INT, &is)) return 1;
  RANKS_CHECK(is == 0);
  if (is_marked(self, comm, self->rank == 3, 0, TUTTI_CONFIG_UNDEF_INT, &is)) return 1;
  RANKS_CHECK(is == 0);
  if (is_marked(self, comm, 0, 0, 1, &is)) return 1;
  RANKS_CHECK(is == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_child_of_the_same_ranks_in_order_and_settings_has_the_parents_table(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(NRANKS, with_a_table, NULL, LIMIT_S), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_parent_may_fall_into_several_parts),
      cmocka_unit_test(children_are_made_side_by_side_by_two_threads),
      cmocka_unit_test(a_child_without_options_waits_as_its_parent_does),
      cmocka_unit_test(a_child_of_the_same_ranks_in_order_and_settings_has_the_parents_table),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
