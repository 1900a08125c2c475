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

static void order(struct tt_schedule *schedule, const void *argument)
{
  tt_pass_order(schedule, argument);
}

static void ranks_are_renumbered_wherever_they_stand(void **state)
{
  (void)state;
  static const int32_t to[] = {3, 0, 2, 1};
  schedule_text_becomes(order, to, "reduce ranks 4 rank 1 blocks 2 root 0 scratch 1\n"
                                   "reduce [0,1) in:0 + msg:2 + msg:3 -> scratch:0\n"
                                   "send [0,1) scratch:0 -> rank 0, rank 2 channel 1\n"
                                   "send [1,2) in:1 -> rank 3\n",
                        "reduce ranks 4 rank 0 blocks 2 root 3 scratch 1\n"
                        "reduce [0,1) in:0 + msg:2 + msg:1 -> scratch:0\n"
                        "send [0,1) scratch:0 -> rank 3, rank 2 channel 1\n"
                        "send [1,2) in:1 -> rank 1\n");
}

static void is_refused(const char *text, const int32_t *to, const char *reason)
{
  struct tt_schedule s = {.error = tuttiSuccess};
  schedule_text_read(&s, text);
  tt_pass_order(&s, to);
  assert_int_equal(s.error, tuttiInternalError);
  if (!strstr(tt_last_sentence(), reason)) fail_msg("wanted '%s' in '%s'", reason, tt_last_sentence());
  tt_schedule_destroy(&s);
}

static void shares_and_what_is_no_permutation_are_refused(void **state)
{
  (void)state;
  static const int32_t good[] = {1, 0}, twice[] = {1, 1}, high[] = {0, 2}, low[] = {-1, 0};
  static const char sum[] = "all_reduce ranks 2 rank 0 blocks 1 scratch 0\nsend [0,1) in:0 -> rank 1\n";
  is_refused("all_gather ranks 2 rank 0 blocks 1 scratch 0\nsend [0,1) in:0 -> rank 1\n", good, "share of its own");
  is_refused(sum, twice, "does not name each");
  is_refused(sum, high, "does not name each");
  is_refused(sum, low, "does not name each");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_are_renumbered_wherever_they_stand),
      cmocka_unit_test(shares_and_what_is_no_permutation_are_refused),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
