/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sched/sched.h"

static const struct tt_shape shape = {.nranks = 4, .rank = 1, .nblocks = 8, .root = -1};
static const struct tt_blocks all = {0, 8};

/* One step that must be refused with this reason. */
struct refusal {
  const char *reason;
  struct tt_step step;
  struct tt_operand sources[3];
  int32_t peers[3];
};

#define ONE .nsrc = 1, .nblocks = 1
#define TO_OUT .dst = {TT_OUT, 0, 0}

static const struct refusal refusals[] = {
  {"blocks [7,9) are not among the 8", {.first = 7, .nsrc = 1, .nblocks = 2, TO_OUT}, {{TT_IN, 1, 0}}, {0}},
  {"blocks [-1,0) are not among the 8", {.first = -1, ONE, TO_OUT}, {{TT_IN, 1, 0}}, {0}},
  {"are not among the 8", {.nsrc = 1, .nblocks = -1, TO_OUT}, {{TT_IN, 1, 0}}, {0}},
  {"0 sources: a step has 1 to 16", {.nblocks = 1, TO_OUT}, {{TT_IN, 1, 0}}, {0}},
  {"17 sources: a step has 1 to 16", {.nblocks = 1, .nsrc = 17, TO_OUT}, {{TT_IN, 1, 0}}, {0}},
  {"a source lies at [8,9), outside of [0,8)", {ONE, TO_OUT}, {{TT_IN, 1, 8}}, {0}},
  {"a source lies at [-1,0)", {ONE, TO_OUT}, {{TT_SCRATCH, 0, -1}}, {0}},
  {"the destination lies at [9,10)", {ONE, .dst = {TT_OUT, 0, 9}}, {{TT_IN, 1, 0}}, {0}},
  {"the result goes nowhere", {ONE}, {{TT_IN, 1, 0}}, {0}},
  {"neither OUT nor SCRATCH", {ONE, .dst = {TT_IN, 0, 0}}, {{TT_OUT, 0, 0}}, {0}},
  {"neither OUT nor SCRATCH", {ONE, .dst = {TT_MESSAGE, 0, 0}}, {{TT_OUT, 0, 0}}, {0}},
  {"raw is said of sources", {ONE, .dst = {TT_OUT, 1, 0}}, {{TT_IN, 1, 0}}, {0}},
  {"IN is always raw", {ONE, TO_OUT}, {{TT_IN, 0, 0}}, {0}},
  {"raw is neither 0 nor 1", {ONE, TO_OUT}, {{TT_OUT, 2, 0}}, {0}},
  {"source 0 has no place", {ONE, TO_OUT}, {{TT_NOWHERE, 0, 0}}, {0}},
  {"rank 4 is none of the 4", {ONE, TO_OUT}, {{TT_MESSAGE, 0, 4}}, {0}},
  {"a message to or from itself", {ONE, TO_OUT}, {{TT_MESSAGE, 0, 1}}, {0}},
  {"rank -1 is none of the 4", {ONE, .nto = 1}, {{TT_IN, 1, 0}}, {-1}},
  {"a message to or from itself", {ONE, .nto = 2}, {{TT_IN, 1, 0}}, {0, 1}},
  {"two messages to rank 2", {ONE, .nto = 3}, {{TT_IN, 1, 0}}, {2, 0, 2}},
  {"two messages from rank 2", {.nblocks = 1, .nsrc = 2, TO_OUT}, {{TT_MESSAGE, 1, 2}, {TT_MESSAGE, 1, 2}}, {0}},
  {"final on a step that combines nothing", {ONE, .is_final = 1, TO_OUT}, {{TT_IN, 1, 0}}, {0}},
  {"overlaps a source", {.nblocks = 2, .nsrc = 1, TO_OUT}, {{TT_OUT, 0, 1}}, {0}},
  {"overlaps a source", {.nblocks = 2, .nsrc = 1, TO_OUT}, {{TT_IN, 1, 1}}, {0}},
};

static void a_wrong_step_is_refused_with_its_reason(void **state)
{
  (void)state;
  for (size_t k = 0; k < sizeof refusals / sizeof refusals[0]; k++) {
    struct tt_schedule s;
    tt_schedule_init(&s, &shape);
    tt_add(&s, &refusals[k].step, refusals[k].sources, refusals[k].peers);
    assert_int_equal(s.error, tuttiInternalError);
    assert_int_equal(s.nsteps, 0);
    if (!strstr(tt_last_sentence(), refusals[k].reason))
      fail_msg("wanted \"%s\" in \"%s\"", refusals[k].reason, tt_last_sentence());
    tt_schedule_destroy(&s);
  }
}

static void the_first_error_stays_and_nothing_is_appended_after_it(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_copy(&s, all, tt_in(0), tt_out(0));
  tt_send(&s, all, tt_out(0), 9);
  assert_non_null(strstr(tt_last_sentence(), "rank 1 of 4, step 1: rank 9 is none of the 4 ranks"));
  tt_copy(&s, all, tt_in(0), tt_out(0));
  tt_send(&s, all, tt_out(0), 1);
  assert_non_null(strstr(tt_last_sentence(), "rank 9"));
  assert_int_equal(s.nsteps, 1);
  assert_int_equal(s.error, tuttiInternalError);
  tt_schedule_destroy(&s);
}

static void a_wrong_shape_is_an_error_from_the_start(void **state)
{
  (void)state;
  static const struct tt_shape wrong[] = {{.nranks = 0, .rank = 0, .nblocks = 1},
                                          {.nranks = 2, .rank = 2, .nblocks = 1},
                                          {.nranks = 2, .rank = -1, .nblocks = 1},
                                          {.nranks = 2, .rank = 0, .nblocks = 0}};
  for (int k = 0; k < 4; k++) {
    struct tt_schedule s;
    tt_schedule_init(&s, &wrong[k]);
    assert_int_equal(s.error, tuttiInternalError);
    tt_copy(&s, (struct tt_blocks){0, 1}, tt_in(0), tt_out(0));
    assert_int_equal(s.nsteps, 0);
    tt_schedule_destroy(&s);
  }
}

static void no_blocks_append_nothing(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_send(&s, (struct tt_blocks){3, 0}, tt_in(3), 0);
  tt_reduce2(&s, (struct tt_blocks){0, 0}, tt_in(0), tt_message(2), tt_out(0), 1);
  assert_int_equal(s.error, tuttiSuccess);
  assert_int_equal(s.nsteps, 0);
  tt_schedule_destroy(&s);
}

static void the_builder_keeps_steps_and_counts_their_cost(void **state)
{
  (void)state;
  struct tt_schedule s;
  struct tt_cost cost;
  static const int32_t peers[3] = {0, 2, 3};
  struct tt_operand from = tt_in(2);
  struct tt_step many = {.first = 2, .nblocks = 3, .channel = 5, .nsrc = 1, .nto = 3, .src = 99, .to = 99};
  tt_schedule_init(&s, &shape);
  for (int k = 0; k < 100; k++) tt_add(&s, &many, &from, peers);
  tt_reduce2(&s, (struct tt_blocks){4, 2}, tt_raw(tt_message(0)), tt_in(4), tt_scratch(7), 1);
  assert_int_equal(s.error, tuttiSuccess);
  assert_int_equal(s.nsteps, 101);
  assert_int_equal(s.nslots, 9);
  assert_int_equal(s.steps[57].src, 57);
  assert_int_equal(s.steps[57].to, 3 * 57);
  assert_int_equal(s.steps[57].channel, 5);
  assert_int_equal(s.peers[3 * 57 + 2], 3);
  assert_int_equal(s.operands[100].place, TT_MESSAGE);
  assert_int_equal(s.operands[100].raw, 1);
  assert_int_equal(s.operands[101].at, 4);
  tt_schedule_cost(&s, &cost);
  assert_int_equal(cost.messages, 300);
  assert_int_equal(cost.blocks, 900);
  assert_int_equal(cost.reductions, 2);
  assert_int_equal(cost.slots, 9);
  tt_schedule_destroy(&s);
  tt_schedule_destroy(&s);
  tt_schedule_destroy(NULL);
}

static void a_failed_allocation_is_a_sticky_system_error(void **state)
{
  (void)state;
  for (long n = 1; n <= 3; n++) {
    struct tt_schedule s;
    tt_schedule_init(&s, &shape);
    tt_alloc_fail_at(n);
    tt_send(&s, all, tt_in(0), 0);
    assert_int_equal(s.error, tuttiSystemError);
    tt_alloc_fail_at(0);
    tt_send(&s, all, tt_in(0), 0);
    assert_int_equal(s.nsteps, 0);
    tt_schedule_destroy(&s);
  }
}

static void blocks_cover_the_vector_and_differ_by_one_element(void **state)
{
  (void)state;
  static const size_t counts[] = {0, 1, 2, 7, 64, 1000, 1001, (size_t)5 << 32};
  for (size_t c = 0; c < sizeof counts / sizeof counts[0]; c++)
    for (int32_t n = 1; n < 70; n++) {
      size_t at = 0;
      for (int32_t b = 0; b < n; b++) {
        size_t length = tt_blocks_count(counts[c], n, b, 1);
        assert_int_equal(tt_block_start(counts[c], n, b), at);
        assert_int_equal(length, counts[c] / (size_t)n + ((size_t)b < counts[c] % (size_t)n));
        at += length;
      }
      assert_int_equal(at, counts[c]);
      assert_int_equal(tt_blocks_count(counts[c], n, 0, n), counts[c]);
    }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_wrong_step_is_refused_with_its_reason),
    cmocka_unit_test(the_first_error_stays_and_nothing_is_appended_after_it),
    cmocka_unit_test(a_wrong_shape_is_an_error_from_the_start),
    cmocka_unit_test(no_blocks_append_nothing),
    cmocka_unit_test(the_builder_keeps_steps_and_counts_their_cost),
    cmocka_unit_test(a_failed_allocation_is_a_sticky_system_error),
    cmocka_unit_test(blocks_cover_the_vector_and_differ_by_one_element),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1); /* most errors here are wanted */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
