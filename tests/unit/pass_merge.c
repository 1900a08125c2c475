/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schedule_text.h"

static void merge(struct tt_schedule *schedule, const void *argument)
{
  (void)argument;
  tt_pass_merge(schedule);
}

#define HEAD(scratch) "all_reduce ranks 8 rank 1 blocks 4 scratch " scratch "\n"

static void becomes(const char *before, const char *after)
{
  schedule_text_becomes(merge, NULL, before, after);
}

static void stays(const char *text)
{
  becomes(text, text);
}

static void a_chain_becomes_one_step(void **state)
{
  (void)state;
  becomes(HEAD("2") "reduce [0,2) msg:0 + in:0 -> scratch:0\n"
                    "reduce [0,2) scratch:0 + msg:2 -> scratch:0\n"
                    "reduce [0,2) scratch:0 + msg:3 -> out:0\n",
          HEAD("0") "reduce [0,2) msg:0 + in:0 + msg:2 + msg:3 -> out:0\n");
}

static void a_chain_in_out_becomes_one_step(void **state)
{
  (void)state;
  becomes(HEAD("0") "reduce [3,5) msg:0 + in:3 -> out:3\n"
                    "reduce [3,5) out:3 + msg:2 -> out:3\n"
                    "reduce [3,5) out:3 + msg:3 -> out:3\n",
          HEAD("0") "reduce [3,5) msg:0 + in:3 + msg:2 + msg:3 -> out:3\n");
}

static void two_chains_side_by_side_become_two_steps(void **state)
{
  (void)state;
  becomes(HEAD("6") "reduce [0,1) in:0 + scratch:0 -> scratch:4\n"
                    "reduce [1,2) in:1 + scratch:1 -> scratch:5\n"
                    "reduce [0,1) scratch:4 + scratch:2 -> out:0\n"
                    "reduce [1,2) scratch:5 + scratch:3 -> out:1\n",
          HEAD("4") "reduce [0,1) in:0 + scratch:0 + scratch:2 -> out:0\n"
                    "reduce [1,2) in:1 + scratch:1 + scratch:3 -> out:1\n");
}

static void another_tree_is_not_made(void **state)
{
  (void)state;
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> scratch:0\n"
                  "reduce [0,1) msg:0 + scratch:0 -> out:0\n");
}

static void what_somebody_else_reads_stays(void **state)
{
  (void)state;
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> scratch:0\n"
                  "send [0,1) scratch:0 -> rank 4\n"
                  "reduce [0,1) scratch:0 + msg:3 -> out:0\n");
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + msg:3 -> out:0\n"
                  "send [0,1) scratch:0 -> rank 4\n");
  stays(HEAD("2") "reduce [0,2) in:0 + msg:2 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + msg:3 -> out:0\n");
}

static void what_is_left_in_out_stays(void **state)
{
  (void)state;
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> out:0\n"
                  "reduce [0,1) out:0 + msg:3 -> scratch:0\n"
                  "send [0,1) scratch:0 -> rank 4\n");
}

static void a_source_that_is_overwritten_is_read_before(void **state)
{
  (void)state;
  stays(HEAD("2") "recv [0,1) msg:0 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + in:0 -> scratch:1\n"
                  "recv [0,1) msg:0 -> scratch:0\n"
                  "reduce [0,1) scratch:1 + scratch:0 -> out:0\n");
}

/* The first source of a chain that was made in place lies where its result was. */
static void what_was_summed_in_place_is_read_before_it_is_overwritten(void **state)
{
  (void)state;
  becomes(HEAD("5") "recv [0,1) msg:0 -> scratch:0\n"
                    "reduce [0,1) scratch:0 + scratch:2 -> scratch:0\n"
                    "reduce [0,1) scratch:0 + scratch:3 -> scratch:1\n"
                    "copy [0,1) in:0 -> scratch:0\n"
                    "reduce [0,1) scratch:1 + scratch:4 -> out:0\n",
          HEAD("5") "recv [0,1) msg:0 -> scratch:0\n"
                    "reduce [0,1) scratch:0 + scratch:2 + scratch:3 -> scratch:1\n"
                    "copy [0,1) in:0 -> scratch:0\n"
                    "reduce [0,1) scratch:1 + scratch:4 -> out:0\n");
}

static void every_source_of_a_chain_is_read_before_it_is_overwritten(void **state)
{
  (void)state;
  becomes(HEAD("5") "reduce [0,1) scratch:1 + scratch:2 -> scratch:0\n"
                    "reduce [0,1) scratch:0 + scratch:3 -> scratch:0\n"
                    "copy [0,1) in:0 -> scratch:2\n"
                    "reduce [0,1) scratch:0 + scratch:4 -> out:0\n",
          HEAD("5") "reduce [0,1) scratch:1 + scratch:2 + scratch:3 -> scratch:0\n"
                    "copy [0,1) in:0 -> scratch:2\n"
                    "reduce [0,1) scratch:0 + scratch:4 -> out:0\n");
}

static void a_result_may_lie_just_on_a_source(void **state)
{
  (void)state;
  becomes(HEAD("2") "reduce [0,2) in:0 + msg:2 -> scratch:0\n"
                    "reduce [0,2) scratch:0 + msg:3 -> out:0\n",
          HEAD("0") "reduce [0,2) in:0 + msg:2 + msg:3 -> out:0\n");
}

static void takes_stay_in_the_order_of_the_program(void **state)
{
  (void)state;
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> scratch:0\n"
                  "recv [1,2) msg:3 -> out:1\n"
                  "reduce [0,1) scratch:0 + msg:4 -> out:0\n");
}

static void a_step_takes_one_message_of_a_rank_on_one_channel(void **state)
{
  (void)state;
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + msg:2 -> out:0\n");
  stays(HEAD("1") "reduce [0,1) in:0 + msg:2 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + msg:3 -> out:0 channel 1\n");
}

static void a_step_has_one_source_in_in(void **state)
{
  (void)state;
  stays("reduce_scatter ranks 4 rank 1 blocks 1 scratch 2\n"
        "reduce [1,2) scratch:0 + in:1 -> scratch:1\n"
        "reduce [1,2) scratch:1 + in:1 -> out:1\n");
}

/* Both ranks of an exchange would wait until the other has taken what it sent. */
static void no_message_waits_for_a_send(void **state)
{
  (void)state;
  stays(HEAD("3") "send [0,1) scratch:0 -> rank 0\n"
                  "reduce [0,1) msg:0 + scratch:0 -> scratch:2\n"
                  "reduce [0,1) scratch:2 + scratch:1 -> scratch:0\n");
  becomes(HEAD("3") "send [0,1) scratch:0 -> rank 0\n"
                    "reduce [0,1) msg:0 + scratch:0 -> scratch:2\n"
                    "reduce [0,1) scratch:2 + scratch:1 -> out:0\n",
          HEAD("2") "send [0,1) scratch:0 -> rank 0\n"
                    "reduce [0,1) msg:0 + scratch:0 + scratch:1 -> out:0\n");
}

/* A step waits for all that are TT_WINDOW before it, on other ranks, too, and on channels side by side sooner. */
static void no_message_is_taken_much_later(void **state)
{
  (void)state;
  struct tt_schedule s;
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 200, .rank = 0, .nblocks = 200, .root = -1};
  tt_schedule_init(&s, &shape);
  for (int32_t peer = 1; peer < 200; peer++) {
    tt_send(&s, (struct tt_blocks){peer, 1}, tt_in(peer), peer);
    tt_reduce2(&s, (struct tt_blocks){0, 1}, peer == 1 ? tt_in(0) : tt_out(0), tt_message(peer), tt_out(0));
  }
  tt_pass_merge(&s);
  assert_int_equal(s.error, tuttiSuccess);
  int32_t sends = 0, sources = 1, together = TT_WINDOW / 16 + 1;
  for (int32_t i = 0; i < s.nsteps; i++) {
    sends += s.steps[i].nto;
    sources += s.steps[i].nsrc - 1;
    assert_in_range(s.steps[i].nsrc, 1, together + 1);
  }
  assert_int_equal(sends, 199);
  assert_int_equal(sources, 200);
  assert_int_equal(s.nsteps, 199 + (199 + together - 1) / together);
  tt_schedule_destroy(&s);
}

static void a_chain_ends_at_the_most_sources(void **state)
{
  (void)state;
  struct tt_schedule s;
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 3000, .rank = 0, .nblocks = 1, .root = -1};
  tt_schedule_init(&s, &shape);
  for (int32_t peer = 1; peer < 3000; peer++)
    tt_reduce2(&s, (struct tt_blocks){0, 1}, peer == 1 ? tt_in(0) : tt_out(0), tt_message(peer), tt_out(0));
  tt_pass_merge(&s);
  assert_int_equal(s.error, tuttiSuccess);
  assert_int_equal(s.nsteps, 3);
  assert_int_equal(s.steps[0].nsrc, TT_MAX_SOURCES);
  assert_int_equal(s.steps[1].nsrc, TT_MAX_SOURCES);
  for (int32_t peer = 1, k = 0; k < s.noperands; k++)
    if (s.operands[k].place == TT_MESSAGE) assert_int_equal(s.operands[k].at, peer++);
  tt_schedule_destroy(&s);
}

static void neighbouring_sends_of_a_span_become_one(void **state)
{
  (void)state;
  becomes(HEAD("0") "send [0,4) in:0 -> rank 0\n"
                    "send [0,4) in:0 -> rank 2, rank 3\n"
                    "send [0,4) in:0 -> rank 4\n"
                    "recv [0,4) msg:0 -> out:0\n"
                    "send [0,4) out:0 -> rank 5\n"
                    "send [0,4) out:0 -> rank 6\n",
          HEAD("0") "send [0,4) in:0 -> rank 0, rank 2, rank 3, rank 4\n"
                    "recv [0,4) msg:0 -> out:0\n"
                    "send [0,4) out:0 -> rank 5, rank 6\n");
}

static void sends_of_other_spans_places_and_channels_stay(void **state)
{
  (void)state;
  stays(HEAD("1") "send [0,1) in:0 -> rank 0\n"
                  "send [0,2) in:0 -> rank 2\n"
                  "send [1,2) in:1 -> rank 3\n"
                  "send [1,2) scratch:0 -> rank 4\n"
                  "send [1,2) scratch:0 -> rank 5 channel 1\n"
                  "send [1,2) scratch:0 -> rank 5 channel 2\n");
  stays(HEAD("0") "send [0,1) in:0 -> rank 0, rank 2\n"
                  "send [0,1) in:0 -> rank 2\n");
  stays(HEAD("0") "send [0,1) in:0 -> rank 0\n"
                  "copy [1,2) in:1 -> out:1\n"
                  "send [0,1) in:0 -> rank 2\n");
}

/* The executor sends only what lies in one place. */
static void nothing_becomes_a_step_that_keeps_and_sends(void **state)
{
  (void)state;
  stays(HEAD("0") "reduce [0,1) in:0 + msg:0 -> out:0\n"
                  "send [0,1) out:0 -> rank 2\n"
                  "copy [1,2) in:1 -> out:1\n"
                  "send [1,2) out:1 -> rank 2\n");
}

static void slots_that_nobody_uses_go(void **state)
{
  (void)state;
  becomes(HEAD("8") "recv [0,2) msg:0 -> scratch:3\n"
                    "recv [1,2) msg:2 -> scratch:7\n"
                    "send [0,2) scratch:3 -> rank 4\n"
                    "send [1,2) scratch:7 -> rank 5\n",
          HEAD("3") "recv [0,2) msg:0 -> scratch:0\n"
                    "recv [1,2) msg:2 -> scratch:2\n"
                    "send [0,2) scratch:0 -> rank 4\n"
                    "send [1,2) scratch:2 -> rank 5\n");
}

static void a_part_of_a_schedule_is_refused(void **state)
{
  (void)state;
  struct tt_schedule s;
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 2, .rank = 0, .nblocks = 1, .root = -1};
  tt_schedule_init(&s, &shape);
  s.keep = 1;
  for (int k = 0; k < 3; k++) tt_send(&s, (struct tt_blocks){0, 1}, tt_in(0), 1);
  tt_pass_merge(&s);
  assert_int_equal(s.error, tuttiInternalError);
  tt_schedule_destroy(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_chain_becomes_one_step),
      cmocka_unit_test(a_chain_in_out_becomes_one_step),
      cmocka_unit_test(two_chains_side_by_side_become_two_steps),
      cmocka_unit_test(another_tree_is_not_made),
      cmocka_unit_test(what_somebody_else_reads_stays),
      cmocka_unit_test(what_is_left_in_out_stays),
      cmocka_unit_test(a_source_that_is_overwritten_is_read_before),
      cmocka_unit_test(what_was_summed_in_place_is_read_before_it_is_overwritten),
      cmocka_unit_test(every_source_of_a_chain_is_read_before_it_is_overwritten),
      cmocka_unit_test(a_result_may_lie_just_on_a_source),
      cmocka_unit_test(takes_stay_in_the_order_of_the_program),
      cmocka_unit_test(a_step_takes_one_message_of_a_rank_on_one_channel),
      cmocka_unit_test(a_step_has_one_source_in_in),
      cmocka_unit_test(no_message_waits_for_a_send),
      cmocka_unit_test(no_message_is_taken_much_later),
      cmocka_unit_test(a_chain_ends_at_the_most_sources),
      cmocka_unit_test(neighbouring_sends_of_a_span_become_one),
      cmocka_unit_test(sends_of_other_spans_places_and_channels_stay),
      cmocka_unit_test(nothing_becomes_a_step_that_keeps_and_sends),
      cmocka_unit_test(slots_that_nobody_uses_go),
      cmocka_unit_test(a_part_of_a_schedule_is_refused),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
