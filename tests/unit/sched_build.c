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
#include "schedule/proof_private.h"

static const struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 4, .rank = 1, .nblocks = 8, .root = -1};
static const struct tt_blocks all = {0, 8};

/* One step that must be refused with this reason. */
struct refusal {
  const char *reason;
  struct tt_step step;
  struct tt_operand sources[3];
  int32_t peers[3];
};

#define ONE .nsrc = 1, .nblocks = 1
#define TO_OUT .dst = {TT_OUT, 0}

static const struct refusal refusals[] = {
  {"blocks [8,9) are not among the 8", {.first = 8, ONE, TO_OUT}, {{TT_IN, 0}}, {0}},
  {"blocks [0,9) are not among the 8", {.nsrc = 1, .nblocks = 9, TO_OUT}, {{TT_IN, 0}}, {0}},
  {"blocks [-1,0) are not among the 8", {.first = -1, ONE, TO_OUT}, {{TT_IN, 0}}, {0}},
  {"are not among the 8", {.nsrc = 1, .nblocks = -1, TO_OUT}, {{TT_IN, 0}}, {0}},
  {"0 sources: a step has 1 to 1024", {.nblocks = 1, TO_OUT}, {{TT_IN, 0}}, {0}},
  {"1025 sources: a step has 1 to 1024", {.nblocks = 1, .nsrc = 1025, TO_OUT}, {{TT_IN, 0}}, {0}},
  {"a source lies at [8,9), outside of [0,8)", {ONE, TO_OUT}, {{TT_IN, 8}}, {0}},
  {"a source lies at slots [-1,0)", {ONE, TO_OUT}, {{TT_SCRATCH, -1}}, {0}},
  {"a source is block 1, where the step is about block 0", {ONE, TO_OUT}, {{TT_IN, 1}}, {0}},
  {"the destination lies at [9,10)", {ONE, .dst = {TT_OUT, 9}}, {{TT_MESSAGE, 0}}, {0}},
  {"the destination is block 3, where the step is about block 2", {.first = 2, ONE, .dst = {TT_OUT, 3}},
   {{TT_IN, 2}}, {0}},
  {"the result goes nowhere", {ONE}, {{TT_IN, 0}}, {0}},
  {"neither OUT nor SCRATCH", {ONE, .dst = {TT_IN, 0}}, {{TT_OUT, 0}}, {0}},
  {"neither OUT nor SCRATCH", {ONE, .dst = {TT_MESSAGE, 0}}, {{TT_OUT, 0}}, {0}},
  {"two sources are IN", {.nblocks = 1, .nsrc = 2, TO_OUT}, {{TT_IN, 0}, {TT_IN, 0}}, {0}},
  {"source 0 has no place", {ONE, TO_OUT}, {{TT_NOWHERE, 0}}, {0}},
  {"rank 4 is none of the 4", {ONE, TO_OUT}, {{TT_MESSAGE, 4}}, {0}},
  {"a message to or from itself", {ONE, TO_OUT}, {{TT_MESSAGE, 1}}, {0}},
  {"rank -1 is none of the 4", {ONE, .nto = 1}, {{TT_IN, 0}}, {-1}},
  {"a message to or from itself", {ONE, .nto = 2}, {{TT_IN, 0}}, {0, 1}},
  {"two messages to rank 2", {ONE, .nto = 3}, {{TT_IN, 0}}, {2, 0, 2}},
  {"two messages from rank 2", {.nblocks = 1, .nsrc = 2, TO_OUT}, {{TT_MESSAGE, 2}, {TT_MESSAGE, 2}}, {0}},
  {"overlaps a source", {.nblocks = 2, .nsrc = 1, .dst = {TT_SCRATCH, 0}}, {{TT_SCRATCH, 1}}, {0}},
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
  static const struct tt_shape wrong[] = {
    {.collective = TT_ALL_REDUCE, .nranks = 0, .rank = 0, .nblocks = 1},
    {.collective = TT_ALL_REDUCE, .nranks = 2, .rank = 2, .nblocks = 1},
    {.collective = TT_ALL_REDUCE, .nranks = 2, .rank = -1, .nblocks = 1},
    {.collective = TT_ALL_REDUCE, .nranks = 2, .rank = 0, .nblocks = 0},
    {.collective = TT_NO_COLLECTIVE, .nranks = 2, .rank = 0, .nblocks = 1},
    {.collective = TT_PAIRS, .nranks = 2, .rank = 0, .nblocks = 1},
    {.collective = TT_COLLECTIVES, .nranks = 2, .rank = 0, .nblocks = 1},
    {.collective = TT_BROADCAST, .nranks = 2, .rank = 0, .nblocks = 1, .root = 2},
    {.collective = TT_BROADCAST, .nranks = 2, .rank = 0, .nblocks = 1, .root = -1},
    {.collective = TT_ALL_GATHER, .nranks = 65536, .rank = 0, .nblocks = 32768},
  };
  for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
    struct tt_schedule s;
    tt_schedule_init(&s, &wrong[k]);
    assert_int_equal(s.error, tuttiInternalError);
    tt_copy(&s, (struct tt_blocks){0, 1}, tt_in(0), tt_out(0));
    assert_int_equal(s.nsteps, 0);
    tt_schedule_destroy(&s);
  }
}

/* What of IN and OUT is not there cannot be named; what is there can, also over the end. */
static void a_step_names_only_what_is_there(void **state)
{
  (void)state;
  static const struct {
    int collective;
    struct tt_step step;
    struct tt_operand source;
    int is_right;
  } cases[] = {
    {TT_ALL_REDUCE, {.first = 7, .nblocks = 3, .nsrc = 1, .dst = {TT_OUT, 7}}, {TT_IN, 7}, 1},
    {TT_ALL_GATHER, {.first = 3, .nblocks = 1, .nsrc = 1, .dst = {TT_OUT, 3}}, {TT_IN, 3}, 1},
    {TT_ALL_GATHER, {.first = 3, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 3}}, {TT_IN, 3}, 0},
    {TT_ALL_GATHER, {.first = 1, .nblocks = 1, .nsrc = 1, .dst = {TT_OUT, 1}}, {TT_IN, 1}, 0},
    {TT_ALL_GATHER, {.first = 7, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 7}}, {TT_MESSAGE, 0}, 1},
    {TT_REDUCE_SCATTER, {.first = 2, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 2}}, {TT_IN, 2}, 1},
    {TT_REDUCE_SCATTER, {.first = 4, .nblocks = 1, .nsrc = 1, .dst = {TT_OUT, 4}}, {TT_IN, 4}, 0},
    {TT_ALL_TO_ALL, {.first = 2, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 6}}, {TT_IN, 2}, 1},
    {TT_ALL_TO_ALL, {.first = 2, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 5}}, {TT_IN, 2}, 0},
    {TT_BROADCAST, {.nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 0}}, {TT_IN, 0}, 0},
    {TT_SCATTER, {.first = 2, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 2}}, {TT_MESSAGE, 0}, 1},
    {TT_GATHER, {.first = 2, .nblocks = 2, .nsrc = 1, .dst = {TT_OUT, 2}}, {TT_IN, 2}, 0},
  };
  for (size_t k = 0; k < sizeof cases / sizeof cases[0]; k++) {
    struct tt_schedule s;
    struct tt_shape of = {.collective = cases[k].collective, .nranks = 4, .rank = 1, .root = 0};
    of.nblocks = tt_kinds[of.collective].is_shared ? 2 : 8;
    tt_schedule_init(&s, &of);
    tt_add(&s, &cases[k].step, &cases[k].source, NULL);
    if ((s.error == tuttiSuccess) != cases[k].is_right) fail_msg("case %zu: %s", k, tt_last_sentence());
    tt_schedule_destroy(&s);
  }
}

static void only_sums_have_several_sources(void **state)
{
  (void)state;
  struct tt_schedule s;
  struct tt_shape of = {.collective = TT_BROADCAST, .nranks = 4, .rank = 1, .nblocks = 1, .root = 0};
  tt_schedule_init(&s, &of);
  tt_reduce2(&s, (struct tt_blocks){0, 1}, tt_message(0), tt_message(2), tt_out(0));
  assert_int_equal(s.error, tuttiInternalError);
  assert_non_null(strstr(tt_last_sentence(), "combines 2 sources in a collective that reduces nothing"));
  tt_schedule_destroy(&s);
}

/* For plays of very many ranks: a part of the steps is kept, all are counted. */
static void steps_that_are_not_kept_are_counted(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  s.keep_from = 3;
  s.keep = 2;
  for (int32_t k = 0; k < 8; k++) tt_recv(&s, (struct tt_blocks){k, 1}, 0, tt_scratch(k));
  assert_int_equal(s.total, 8);
  assert_int_equal(s.nsteps, 2);
  assert_int_equal(s.steps[0].first, 3);
  assert_int_equal(s.steps[1].first, 4);
  assert_int_equal(s.nslots, 8);
  tt_schedule_destroy(&s);
}

static void collectives_are_found_by_name(void **state)
{
  (void)state;
  assert_int_equal(tt_kind_find("all_reduce"), TT_ALL_REDUCE);
  assert_int_equal(tt_kind_find("allreduce"), TT_ALL_REDUCE);
  assert_int_equal(tt_kind_find("reduce_scatter"), TT_REDUCE_SCATTER);
  assert_int_equal(tt_kind_find("reduce-scatter"), TT_REDUCE_SCATTER);
  assert_int_equal(tt_kind_find("alltoall"), TT_ALL_TO_ALL);
  assert_int_equal(tt_kind_find("All-to_all"), TT_ALL_TO_ALL);
  assert_int_equal(tt_kind_find("all reduce"), TT_NO_COLLECTIVE);
  assert_int_equal(tt_kind_find("all"), TT_NO_COLLECTIVE);
  assert_int_equal(tt_kind_find("gathers"), TT_NO_COLLECTIVE);
  assert_int_equal(tt_kind_find(""), TT_NO_COLLECTIVE);
  assert_int_equal(tt_kind_find("-"), TT_NO_COLLECTIVE);
}

static void no_blocks_append_nothing(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_send(&s, (struct tt_blocks){3, 0}, tt_in(3), 0);
  tt_reduce2(&s, (struct tt_blocks){0, 0}, tt_in(0), tt_message(2), tt_out(0));
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
  tt_reduce2(&s, (struct tt_blocks){4, 2}, tt_message(0), tt_in(4), tt_scratch(7));
  assert_int_equal(s.error, tuttiSuccess);
  assert_int_equal(s.nsteps, 101);
  assert_int_equal(s.nslots, 9);
  assert_int_equal(s.steps[57].src, 57);
  assert_int_equal(s.steps[57].to, 3 * 57);
  assert_int_equal(s.steps[57].channel, 5);
  assert_int_equal(s.peers[3 * 57 + 2], 3);
  assert_int_equal(s.operands[100].place, TT_MESSAGE);
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
    cmocka_unit_test(a_step_names_only_what_is_there),
    cmocka_unit_test(only_sums_have_several_sources),
    cmocka_unit_test(steps_that_are_not_kept_are_counted),
    cmocka_unit_test(collectives_are_found_by_name),
    cmocka_unit_test(no_blocks_append_nothing),
    cmocka_unit_test(the_builder_keeps_steps_and_counts_their_cost),
    cmocka_unit_test(a_failed_allocation_is_a_sticky_system_error),
    cmocka_unit_test(blocks_cover_the_vector_and_differ_by_one_element),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1); /* most errors here are wanted */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
