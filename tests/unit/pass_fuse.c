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

static void fuse(struct tt_schedule *schedule, const void *argument)
{
  (void)argument;
  tt_pass_fuse(schedule);
}

static void merge_and_fuse(struct tt_schedule *schedule, const void *argument)
{
  (void)argument;
  tt_pass_merge(schedule);
  tt_pass_fuse(schedule);
}

#define HEAD(scratch) "all_reduce ranks 8 rank 1 blocks 4 scratch " scratch "\n"

static void becomes(const char *before, const char *after)
{
  schedule_text_becomes(fuse, NULL, before, after);
}

static void stays(const char *text)
{
  becomes(text, text);
}

static void receive_and_reduce_become_one_step(void **state)
{
  (void)state;
  becomes(HEAD("3") "send [0,1) in:0 -> rank 3\n"
                    "recv [1,2) msg:3 -> scratch:1\n"
                    "reduce [1,2) in:1 + scratch:1 -> out:1\n"
                    "send [1,2) out:1 -> rank 3\n"
                    "recv [2,4) msg:3 -> scratch:1\n"
                    "copy [2,4) scratch:1 -> out:2\n"
                    "recv [0,1) msg:3 -> scratch:0\n"
                    "send [0,1) scratch:0 -> rank 4\n",
          HEAD("1") "send [0,1) in:0 -> rank 3\n"
                    "reduce [1,2) in:1 + msg:3 -> out:1\n"
                    "send [1,2) out:1 -> rank 3\n"
                    "recv [2,4) msg:3 -> out:2\n"
                    "recv [0,1) msg:3 -> scratch:0\n"
                    "send [0,1) scratch:0 -> rank 4\n");
}

static void the_channel_goes_along(void **state)
{
  (void)state;
  becomes(HEAD("1") "recv [0,1) msg:3 -> scratch:0 channel 7\n"
                    "reduce [0,1) in:0 + scratch:0 -> out:0\n",
          HEAD("0") "reduce [0,1) in:0 + msg:3 -> out:0 channel 7\n");
}

static void messages_of_one_step_are_taken_together(void **state)
{
  (void)state;
  becomes(HEAD("3") "recv [0,1) msg:2 -> scratch:0\n"
                    "recv [0,1) msg:3 -> scratch:1\n"
                    "recv [0,1) msg:4 -> scratch:2\n"
                    "reduce [0,1) in:0 + scratch:0 + scratch:1 + scratch:2 -> out:0\n",
          HEAD("0") "reduce [0,1) in:0 + msg:2 + msg:3 + msg:4 -> out:0\n");
  /* the last one stays, so the ones before it would overtake it */
  stays(HEAD("3") "recv [0,1) msg:2 -> scratch:0\n"
                  "recv [0,1) msg:3 -> scratch:1\n"
                  "recv [0,1) msg:4 -> scratch:2\n"
                  "reduce [0,1) in:0 + scratch:0 + scratch:1 + scratch:2 -> out:0\n"
                  "send [0,1) scratch:2 -> rank 5\n");
}

static void receives_ahead_are_taken_one_after_the_other(void **state)
{
  (void)state;
  becomes(HEAD("2") "recv [0,1) msg:2 -> scratch:0\n"
                    "recv [0,1) msg:3 -> scratch:1\n"
                    "reduce [0,1) in:0 + scratch:0 -> out:0\n"
                    "reduce [0,1) out:0 + scratch:1 -> out:0\n",
          HEAD("0") "reduce [0,1) in:0 + msg:2 -> out:0\n"
                    "reduce [0,1) out:0 + msg:3 -> out:0\n");
}

static void merge_and_fuse_go_together(void **state)
{
  (void)state;
  schedule_text_becomes(merge_and_fuse, NULL,
                        HEAD("2") "recv [0,1) msg:2 -> scratch:0\n"
                                  "recv [0,1) msg:3 -> scratch:1\n"
                                  "reduce [0,1) in:0 + scratch:0 -> out:0\n"
                                  "reduce [0,1) out:0 + scratch:1 -> out:0\n",
                        HEAD("0") "reduce [0,1) in:0 + msg:2 + msg:3 -> out:0\n");
}

static void takes_stay_in_the_order_of_the_program(void **state)
{
  (void)state;
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "recv [1,2) msg:2 -> out:1\n"
                  "reduce [0,1) in:0 + scratch:0 -> out:0\n");
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "recv [1,2) msg:3 -> out:1\n"
                  "reduce [0,1) in:0 + scratch:0 -> out:0\n");
}

static void a_step_takes_one_message_of_a_rank_on_one_channel(void **state)
{
  (void)state;
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "reduce [0,1) in:0 + scratch:0 + msg:2 -> out:0\n");
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "reduce [0,1) in:0 + scratch:0 + msg:3 -> out:0 channel 1\n");
  becomes(HEAD("2") "recv [0,1) msg:2 -> scratch:0\n"
                    "recv [0,1) msg:2 -> scratch:1\n"
                    "reduce [0,1) in:0 + scratch:0 + scratch:1 -> out:0\n",
          HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                    "reduce [0,1) in:0 + scratch:0 + msg:2 -> out:0\n");
}

/* Both ranks of an exchange would wait until the other has taken what it sent. */
static void no_message_waits_for_a_send(void **state)
{
  (void)state;
  stays(HEAD("1") "send [0,1) in:0 -> rank 0\n"
                  "recv [0,1) msg:0 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + in:0 -> out:0\n");
  stays(HEAD("1") "copy [0,1) in:0 -> out:0\n"
                  "send [0,1) out:0 -> rank 0\n"
                  "recv [0,1) msg:0 -> scratch:0\n"
                  "reduce [0,1) scratch:0 + out:0 -> out:0\n");
  stays(HEAD("2") "send [0,1) scratch:0 -> rank 0\n"
                  "recv [0,1) msg:0 -> scratch:1\n"
                  "copy [0,1) in:0 -> scratch:0\n"
                  "reduce [0,1) scratch:1 + scratch:0 -> out:0\n");
  becomes(HEAD("2") "copy [0,1) in:0 -> scratch:0\n"
                    "send [0,1) scratch:0 -> rank 0\n"
                    "recv [0,1) msg:0 -> scratch:1\n"
                    "reduce [0,1) scratch:1 + scratch:0 -> out:0\n",
          HEAD("1") "copy [0,1) in:0 -> scratch:0\n"
                    "send [0,1) scratch:0 -> rank 0\n"
                    "reduce [0,1) msg:0 + scratch:0 -> out:0\n");
}

static struct tt_schedule with_sends_between(int32_t before, int32_t between)
{
  struct tt_schedule s;
  struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 200, .rank = 0, .nblocks = 200, .root = -1};
  tt_schedule_init(&s, &shape);
  for (int32_t k = 1; k <= before + between; k++) {
    if (k == before + 1) tt_recv(&s, (struct tt_blocks){0, 1}, 199, tt_scratch(0));
    tt_send(&s, (struct tt_blocks){k, 1}, tt_in(k), k);
  }
  tt_reduce2(&s, (struct tt_blocks){0, 1}, tt_in(0), tt_scratch(0), tt_out(0));
  tt_pass_fuse(&s);
  assert_int_equal(s.error, tuttiSuccess);
  return s;
}

/* A step waits for all that are TT_WINDOW before it, on other ranks, too, and on channels side by side sooner. */
static void no_message_is_taken_much_later(void **state)
{
  (void)state;
  for (int32_t sends = 1; sends < 150; sends++) {
    struct tt_schedule s = with_sends_between(0, sends);
    assert_int_equal(s.nsteps, sends + (sends <= TT_WINDOW / 16 ? 1 : 2));
    assert_int_equal(s.nslots, sends <= TT_WINDOW / 16 ? 0 : 1);
    tt_schedule_destroy(&s);
  }
}

static void what_somebody_else_reads_stays(void **state)
{
  (void)state;
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "reduce [0,1) in:0 + scratch:0 -> out:0\n"
                  "send [0,1) scratch:0 -> rank 3\n");
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "reduce [0,1) in:0 + scratch:0 + scratch:0 -> out:0\n");
  stays(HEAD("2") "recv [0,2) msg:2 -> scratch:0\n"
                  "reduce [0,1) in:0 + scratch:0 -> out:0\n");
  stays("reduce_scatter ranks 4 rank 1 blocks 1 scratch 6\n"
        "recv [0,2) msg:2 -> scratch:0\n"
        "copy [0,1) in:0 -> scratch:0\n"
        "reduce [0,2) scratch:0 + scratch:2 -> scratch:4\n");
  stays("gather ranks 8 rank 0 blocks 1 root 0 scratch 2\n"
        "recv [0,1) msg:2 -> scratch:0\n"
        "recv [1,2) msg:3 -> scratch:1\n"
        "copy [0,2) scratch:0 -> out:0\n");
}

/* The executor sends only what lies in one place. */
static void nothing_becomes_a_step_that_passes_on(void **state)
{
  (void)state;
  stays(HEAD("1") "recv [0,1) msg:2 -> scratch:0\n"
                  "send [0,1) scratch:0 -> rank 3, rank 4\n");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(receive_and_reduce_become_one_step),
      cmocka_unit_test(the_channel_goes_along),
      cmocka_unit_test(messages_of_one_step_are_taken_together),
      cmocka_unit_test(receives_ahead_are_taken_one_after_the_other),
      cmocka_unit_test(merge_and_fuse_go_together),
      cmocka_unit_test(takes_stay_in_the_order_of_the_program),
      cmocka_unit_test(a_step_takes_one_message_of_a_rank_on_one_channel),
      cmocka_unit_test(no_message_waits_for_a_send),
      cmocka_unit_test(no_message_is_taken_much_later),
      cmocka_unit_test(what_somebody_else_reads_stays),
      cmocka_unit_test(nothing_becomes_a_step_that_passes_on),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
