/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds and the order of messages: frames and results that no rank can have sent are refused.
 * Labels: serial. */
#include "fusion/round_private.h"
#include "fusion/sequence_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define WORDS TT_SEQUENCE_WORDS(70) /* more than one of bits */

static void refused(struct tt_fusion_round *round, int n, uint64_t number, uint64_t phase, uint64_t step)
{
  uint64_t frame[TT_ROUND_PART + WORDS] = {number, phase, step};
  struct tt_fusion_round before = *round;
  assert_int_equal(tt_round_take(round, n, frame), tuttiInternalError);
  assert_memory_equal(&before, round, sizeof before);
}

static void taken(struct tt_fusion_round *round, int n, uint64_t number, uint64_t phase, uint64_t step)
{
  uint64_t frame[TT_ROUND_PART + WORDS] = {number, phase, step};
  assert_int_equal(tt_round_take(round, n, frame), tuttiSuccess);
}

/* Rank 0 of 4: two phases, and a call. */
static void frames_that_no_rank_sends_are_refused(void **state)
{
  struct tt_fusion_round round;
  uint64_t part[WORDS] = {0}, frame[TT_ROUND_PART + WORDS];
  int n;
  (void)state;
  assert_int_equal(tt_round_make(&round, 4, 0, WORDS), tuttiSuccess);
  refused(&round, 0, 0, 0, 1); /* of a round before the first one */
  refused(&round, 0, 1, 0, 0); /* steps count from 1 */
  refused(&round, 0, 1, 1, 1); /* that phase comes from another rank */
  refused(&round, 0, 2, 0, 1); /* of a round after the next one */
  refused(&round, 0, 2, UINT64_MAX, 1);
  taken(&round, 1, 1, UINT64_MAX, 7);
  refused(&round, 0, 1, 0, 8); /* a round is in one step */
  taken(&round, 0, 1, 0, 7);
  refused(&round, 0, 1, 0, 7); /* twice */
  tt_round_join(&round, 7, part);
  while (tt_round_send(&round, frame, &n)) continue;
  refused(&round, 0, 1, 0, 7); /* it was added already */
  refused(&round, 1, 1, 1, 8);
  refused(&round, 1, 0, 1, 7);
  taken(&round, 0, 0, UINT64_MAX, 6); /* a call may come late */
  taken(&round, 0, 2, 0, 8);
  taken(&round, 1, 1, 1, 7);
  assert_true(tt_round_ends(&round));
  refused(&round, 1, 1, 1, 7); /* it is over */
  tt_round_destroy(&round);
}

/* 4 messages on 2 channels: no rank is more than a message of each channel ahead. */
static void results_that_no_ranks_have_are_refused(void **state)
{
  static const uint64_t wrong[] = {3, 4, 5, (uint64_t)1 << 31, (uint64_t)1 << 32, UINT64_MAX};
  static const int32_t groups[] = {0, 1, 2, 3};
  static const uint64_t bytes[] = {1, 1, 1, 1};
  struct tt_sequence_plan plan = {.nmessages = 4, .ngroups = 4, .nchannels = 2, .groups = groups, .bytes = bytes};
  struct tt_sequence order;
  struct tt_sequence_begin what;
  uint64_t part[WORDS] = {0}, result[WORDS] = {0};
  (void)state;
  assert_int_equal(tt_sequence_make(&order, &plan), tuttiSuccess);
  tt_sequence_start(&order, 1);
  tt_sequence_tell(&order, part);
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    result[0] = wrong[k];
    assert_int_equal(tt_sequence_decide(&order, result), tuttiInternalError);
  }
  result[0] = 2;
  assert_int_equal(tt_sequence_decide(&order, result), tuttiSuccess);
  assert_false(tt_sequence_next(&order, &what)); /* it owes both, and nothing is ready */
  for (result[0] = 0; result[0] < 5; result[0] += result[0] ? 2 : 1) /* fewer, and more while it owes them */
    assert_int_equal(tt_sequence_decide(&order, result), tuttiInternalError);
  tt_sequence_destroy(&order);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(frames_that_no_rank_sends_are_refused),
      cmocka_unit_test(results_that_no_ranks_have_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
