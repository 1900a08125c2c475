/* SPDX-License-Identifier: BSD-3-Clause */
/* The verdict on a communicator: the whole sentence for each state of its ranks. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "status/status.h"

#define NRANKS 4
#define SECOND 1000000000u

struct looks {
  struct tt_rank_status ranks[2][NRANKS];
  struct tt_comm_status before, now;
};

static struct tt_call call_of(uint64_t op, int collective)
{
  return (struct tt_call){.op = op, .count = 8, .collective = (uint8_t)collective, .type = tuttiFloat32, .root = -1};
}

/* All ranks are in all-reduce 5, for four seconds, and run. */
static struct looks *looks_make(void)
{
  static struct looks looks;
  memset(&looks, 0, sizeof looks);
  for (int r = 0; r < NRANKS; r++) {
    struct tt_rank_status *rank = &looks.ranks[1][r];
    *rank = (struct tt_rank_status){.rank = r, .pid = 100 + r, .host = "a", .seen = TT_SEEN_HERE,
                                    .thread = {.state = 'R'},
                                    .entered = 5, .finished = 4, .call = call_of(5, TT_ALL_REDUCE), .is_inside = 1,
                                    .age_ns = 4 * SECOND, .waits_for = -1, .unlike = -1, .nalike = NRANKS};
    looks.ranks[0][r] = *rank;
  }
  looks.before = looks.now = (struct tt_comm_status){.nranks = NRANKS, .nhosts = 1};
  looks.before.ranks = looks.ranks[0];
  looks.now.ranks = looks.ranks[1];
  return &looks;
}

static void says(const struct looks *looks, int is_bad, const char *wanted)
{
  char text[TT_JUDGED_BYTES];
  assert_int_equal(tt_status_judge(&looks->before, &looks->now, text), is_bad);
  assert_string_equal(text, wanted);
}

/* The rank has not entered call 5. */
static void make_late(struct looks *looks, int rank)
{
  for (int i = 0; i < 2; i++) {
    struct tt_rank_status *late = &looks->ranks[i][rank];
    late->entered = late->finished = 4;
    late->call.op = 4;
    late->is_inside = 0;
    late->next = call_of(5, TT_ALL_REDUCE);
    late->next_ns = 41 * (uint64_t)SECOND;
  }
}

static void all_are_inside(void **state)
{
  (void)state;
  struct looks *looks = looks_make();
  says(looks, 0, "all 4 ranks are in AllReduce #5 (count 8, float, sum) for 4.0 s and no bytes move");
  looks->now.ranks[2].moves = 1;
  says(looks, 0, "all 4 ranks are in AllReduce #5 (count 8, float, sum) and bytes move");
  looks->now.ranks[1].seen = TT_SEEN_NOT;
  says(looks, 0, "all 3 ranks that can be seen from here are in AllReduce #5 (count 8, float, sum) and bytes move");
  looks = looks_make();
  for (int i = 0; i < 2; i++) looks->ranks[i][0].finished = 5, looks->ranks[i][0].is_inside = 0;
  says(looks, 0, "3 of 4 ranks are still in AllReduce #5 (count 8, float, sum) for 4.0 s and no bytes move");
}

static void late_ranks_are_named(void **state)
{
  (void)state;
  struct looks *looks = looks_make();
  make_late(looks, 3);
  looks->now.ranks[3].thread = (struct tt_main_thread){'S', "futex (futex_wait_queue)"};
  says(looks, 1, "rank 3 (pid 103 on a) has not entered AllReduce #5 (count 8, float, sum) for 41 s; it is alive, its "
                 "main thread sleeps in futex (futex_wait_queue)");
  make_late(looks, 1);
  says(looks, 1, "rank 1 (pid 101 on a) and rank 3 (pid 103 on a) have not entered AllReduce #5 (count 8, float, sum) "
                 "for 41 s; of rank 1: it is alive, its main thread is running");
  looks->now.ranks[0].finished = 5; /* calls go on: nobody is late for long */
  looks->now.ranks[0].is_inside = 0;
  says(looks, 0, "calls go on: rank 0 ended 1 of them while it was watched, and is after AllReduce #5 (count 8, float, "
                 "sum)");
}

static void ranks_that_have_all_left_make_no_calls(void **state)
{
  (void)state;
  struct looks *looks = looks_make();
  for (int r = 0; r < NRANKS; r++) {
    looks->now.ranks[r].finished = 5;
    looks->now.ranks[r].is_inside = 0;
    looks->now.ranks[r].gone = tt_gone_make(5, 0, 0);
  }
  looks->now.ranks[0].age_ns = 0;
  says(looks, 0, "all 4 ranks have left; the last call was AllReduce #5 (count 8, float, sum)");
  looks->now.ranks[2].gone = 0;
  says(looks, 0, "calls go on: rank 2 ended 1 of them while it was watched, and is after AllReduce #5 (count 8, float, "
                 "sum)");
}

static void processes_that_end_or_stop_are_named(void **state)
{
  (void)state;
  struct looks *looks = looks_make();
  looks->now.ranks[2].thread.state = 'T';
  says(looks, 1, "rank 2 (pid 102 on a) is in AllReduce #5 (count 8, float, sum): it is stopped (state T), and `kill "
                 "-CONT 102` lets it go on");
  looks->now.ranks[3].thread.state = 't';
  says(looks, 1, "rank 2 (pid 102 on a) is in AllReduce #5 (count 8, float, sum): it is stopped (state T), and `kill "
                 "-CONT 102` lets it go on; 1 more is stopped, too");
  looks->now.ranks[1].thread.state = 'X';
  says(looks, 1, "rank 1 (pid 101 on a) has ended without saying farewell");
  looks->now.ranks[1].gone = tt_gone_make(5, 0, 0);
  looks->now.ranks[2].thread.state = 'R';
  says(looks, 1, "rank 3 (pid 103 on a) is in AllReduce #5 (count 8, float, sum): it is held by a debugger (state t)");
  looks->now.ranks[3].lost = tt_lost_make(1, TT_LOST_DEAD); /* the others go on without it */
  looks->now.ranks[3].thread.state = 'X';
  says(looks, 0, "all 2 ranks are in AllReduce #5 (count 8, float, sum) for 4.0 s and no bytes move");
  looks->now.has_failed = 1;
  strcpy(looks->now.failure.sentence, "rank 1 died");
  says(looks, 1, "the communicator has failed: rank 1 died");
  looks->now.goes_on = 1;
  says(looks, 0, "all 2 ranks are in AllReduce #5 (count 8, float, sum) for 4.0 s and no bytes move");
}

static void another_call_is_named(void **state)
{
  (void)state;
  struct looks *looks = looks_make();
  for (int r = 0; r < NRANKS; r++) {
    struct tt_rank_status *rank = &looks->now.ranks[r];
    rank->nalike = r == 2 ? 1 : 3;
    rank->unlike = r == 2 ? 0 : 2;
    rank->other = call_of(5, r == 2 ? TT_ALL_REDUCE : TT_REDUCE);
  }
  looks->now.ranks[2].call = call_of(5, TT_REDUCE);
  says(looks, 1, "rank 2 (pid 102 on a) is in Reduce #5 (count 8, float, sum) where the others are in AllReduce #5 "
                 "(count 8, float, sum)");
}

static void a_missing_message_is_named(void **state)
{
  (void)state;
  struct looks *looks = looks_make();
  for (int i = 0; i < 2; i++)
    for (int r = 0; r < NRANKS; r++) looks->ranks[i][r].finished = 5, looks->ranks[i][r].is_inside = 0;
  looks->now.ranks[0].waits_for = 1;
  looks->now.ranks[1].waits_for = 2; /* it waits itself */
  looks->now.ranks[1].sends = 1;
  says(looks, 1, "rank 1 (pid 101 on a) waits for rank 2 (pid 102 on a) to receive its message; of that one: it is "
                 "alive, its main thread is running");
}

static void ages_are_short(void **state)
{
  (void)state;
  char text[TT_AGE_BYTES];
  assert_string_equal(tt_age_text(SECOND / 5, text), "0.2 s");
  assert_string_equal(tt_age_text(41 * (uint64_t)SECOND, text), "41 s");
  assert_string_equal(tt_age_text(600 * (uint64_t)SECOND, text), "10 min");
  assert_string_equal(tt_age_text(36000 * (uint64_t)SECOND, text), "10 h");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_are_inside),
      cmocka_unit_test(late_ranks_are_named),
      cmocka_unit_test(ranks_that_have_all_left_make_no_calls),
      cmocka_unit_test(processes_that_end_or_stop_are_named),
      cmocka_unit_test(another_call_is_named),
      cmocka_unit_test(a_missing_message_is_named),
      cmocka_unit_test(ages_are_short),
  };
  return cmocka_run_group_tests_name("unit.status", tests, NULL, NULL);
}
