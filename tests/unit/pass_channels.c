/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "schedule_text.h"

static void channels(struct tt_schedule *schedule, const void *argument)
{
  tt_pass_channels(schedule, *(const int32_t *)argument);
}

static void becomes(int32_t nchannels, const char *before, const char *after)
{
  schedule_text_becomes(channels, &nchannels, before, after);
}

static void every_step_is_cut_into_runs(void **state)
{
  (void)state;
  becomes(2, "all_reduce ranks 3 rank 1 blocks 4 scratch 2\n"
             "send [0,1) in:0 -> rank 2, rank 0\n"
             "recv [1,3) msg:0 -> scratch:0\n"
             "reduce [1,3) scratch:0 + in:1 -> out:1\n"
             "copy [3,4) in:3 -> out:3\n",
          "all_reduce ranks 3 rank 1 blocks 8 scratch 4\n"
          "send [0,1) in:0 -> rank 2, rank 0\n"
          "send [1,2) in:1 -> rank 2, rank 0 channel 1\n"
          "recv [2,4) msg:0 -> scratch:0\n"
          "recv [4,6) msg:0 -> scratch:2 channel 1\n"
          "reduce [2,4) scratch:0 + in:2 -> out:2\n"
          "reduce [4,6) scratch:2 + in:4 -> out:4 channel 1\n"
          "copy [6,7) in:6 -> out:6\n"
          "copy [7,8) in:7 -> out:7 channel 1\n");
}

static void a_span_over_the_end_goes_on_at_the_start(void **state)
{
  (void)state;
  becomes(3, "all_reduce ranks 2 rank 0 blocks 4 scratch 0\n"
             "send [3,5) in:3 -> rank 1\n",
          "all_reduce ranks 2 rank 0 blocks 12 scratch 0\n"
          "send [9,11) in:9 -> rank 1\n"
          "send [11,13) in:11 -> rank 1 channel 1\n"
          "send [1,3) in:1 -> rank 1 channel 2\n");
}

static void shares_stay_where_they_are(void **state)
{
  (void)state;
  becomes(2, "all_to_all ranks 3 rank 1 blocks 2 scratch 0\n"
             "copy [2,4) in:2 -> out:2\n"
             "recv [0,2) msg:0 -> out:4\n",
          "all_to_all ranks 3 rank 1 blocks 4 scratch 0\n"
          "copy [4,6) in:4 -> out:4\n"
          "copy [6,8) in:6 -> out:6 channel 1\n"
          "recv [0,2) msg:0 -> out:8\n"
          "recv [2,4) msg:0 -> out:10 channel 1\n");
}

static void one_channel_changes_nothing(void **state)
{
  (void)state;
  static const char text[] = "gather ranks 8 rank 0 blocks 1 root 0 scratch 2\n"
                             "recv [1,2) msg:2 -> scratch:0\n"
                             "recv [2,3) msg:3 -> scratch:1\n"
                             "copy [1,3) scratch:0 -> out:1\n";
  becomes(1, text, text);
}

static void is_refused(int32_t nchannels, const char *text, const char *reason)
{
  struct tt_schedule s = {.error = tuttiSuccess};
  schedule_text_read(&s, text);
  tt_pass_channels(&s, nchannels);
  assert_int_equal(s.error, tuttiInternalError);
  if (!strstr(tt_last_sentence(), reason)) fail_msg("wanted '%s' in '%s'", reason, tt_last_sentence());
  tt_schedule_destroy(&s);
}

static void what_cannot_be_cut_is_refused(void **state)
{
  (void)state;
  static const char plain[] = "all_reduce ranks 2 rank 0 blocks 1 scratch 0\nsend [0,1) in:0 -> rank 1\n";
  is_refused(2, "all_reduce ranks 2 rank 0 blocks 1 scratch 0\nsend [0,1) in:0 -> rank 1 channel 1\n", "on channel 1");
  is_refused(2, "gather ranks 8 rank 0 blocks 1 root 0 scratch 2\n"
                "recv [1,2) msg:2 -> scratch:0\n"
                "recv [2,3) msg:3 -> scratch:1\n"
                "copy [1,3) scratch:0 -> out:1\n", "step 0 keeps in scratch is read in part");
  is_refused(0, plain, "0 channels");
  is_refused(257, plain, "257 channels");
  is_refused(2, "all_reduce ranks 2 rank 0 blocks 1073741824 scratch 0\n"
                "send [0,1) in:0 -> rank 1\n", "too many blocks");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_step_is_cut_into_runs),
      cmocka_unit_test(a_span_over_the_end_goes_on_at_the_start),
      cmocka_unit_test(shares_stay_where_they_are),
      cmocka_unit_test(one_channel_changes_nothing),
      cmocka_unit_test(what_cannot_be_cut_is_refused),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
