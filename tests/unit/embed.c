/* SPDX-License-Identifier: BSD-3-Clause */
/* One schedule inside another: where its ranks, blocks, places, slots and channels go, what is cut, what is refused.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/proof_private.h"

/* Rank 2 of 3 and 4 blocks, in rank 5 of 6 and 10 blocks. */
static const int32_t ranks[] = {1, 4, 5};
static const struct tt_shape small = {TT_ALL_REDUCE, 3, 2, 4, -1, 0, -1, NULL};
static const struct tt_shape large = {TT_ALL_REDUCE, 6, 5, 10, -1, 0, -1, NULL};
static const struct tt_embedding plain = {.ranks = ranks, .first = 3, .in = TT_IN, .out = TT_OUT};

static void both_init(struct tt_schedule *inner, struct tt_schedule *outer)
{
  tt_schedule_init(inner, &small);
  tt_schedule_init(outer, &large);
}

static void both_destroy(struct tt_schedule *inner, struct tt_schedule *outer)
{
  tt_schedule_destroy(inner);
  tt_schedule_destroy(outer);
}

static struct tt_operand source(const struct tt_schedule *schedule, int32_t step, int32_t k)
{
  return schedule->operands[schedule->steps[step].src + k];
}

static void assert_operand(struct tt_operand operand, int place, int32_t at)
{
  assert_int_equal(operand.place, place);
  assert_int_equal(operand.at, at);
}

static void assert_blocks(const struct tt_schedule *schedule, int32_t step, int32_t first, int32_t nblocks)
{
  assert_true(step < schedule->nsteps);
  assert_int_equal(schedule->steps[step].first, first);
  assert_int_equal(schedule->steps[step].nblocks, nblocks);
}

static void ranks_blocks_slots_and_channels_are_moved(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  struct tt_embedding map = plain;
  struct tt_step step = {.first = 1, .nblocks = 2, .channel = 1, .nsrc = 3, .nto = 2, .dst = {TT_OUT, 1}};
  map.slot = 7;
  map.channel = 4;
  both_init(&inner, &outer);
  tt_add(&inner, &step, (const struct tt_operand[]){tt_message(1), tt_in(1), tt_scratch(2)}, (const int32_t[]){0, 1});
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, 0);
  assert_int_equal(outer.nsteps, 1);
  assert_blocks(&outer, 0, 4, 2);
  assert_int_equal(outer.steps[0].channel, 5);
  assert_operand(outer.steps[0].dst, TT_OUT, 4);
  assert_operand(source(&outer, 0, 0), TT_MESSAGE, 4);
  assert_operand(source(&outer, 0, 1), TT_IN, 4);
  assert_operand(source(&outer, 0, 2), TT_SCRATCH, 9);
  assert_int_equal(outer.peers[0], 1);
  assert_int_equal(outer.peers[1], 4);
  assert_int_equal(outer.nslots, 11);
  both_destroy(&inner, &outer);
}

static void in_and_out_become_other_places(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  struct tt_embedding map = plain;
  map.in = TT_OUT;
  map.out = TT_SCRATCH;
  map.out_slot = 20;
  both_init(&inner, &outer);
  tt_copy(&inner, (struct tt_blocks){1, 3}, tt_in(1), tt_out(1));
  tt_embed(&outer, &inner, &map);
  map = (struct tt_embedding){.ranks = ranks, .in = TT_SCRATCH, .out = TT_OUT, .in_slot = 30};
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, 0);
  assert_int_equal(outer.nsteps, 2);
  assert_operand(source(&outer, 0, 0), TT_OUT, 4);
  assert_operand(outer.steps[0].dst, TT_SCRATCH, 21);
  assert_operand(source(&outer, 1, 0), TT_SCRATCH, 31);
  assert_operand(outer.steps[1].dst, TT_OUT, 1);
  both_destroy(&inner, &outer);
}

static void without_a_map_of_ranks_they_are_the_same(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  struct tt_shape shape = large;
  struct tt_embedding map = {.first = 6, .in = TT_IN, .out = TT_OUT};
  shape.nblocks = 2;
  tt_schedule_init(&inner, &shape);
  tt_schedule_init(&outer, &large);
  tt_send(&inner, (struct tt_blocks){0, 2}, tt_in(0), 3);
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, 0);
  assert_blocks(&outer, 0, 6, 2);
  assert_int_equal(outer.peers[0], 3);
  both_destroy(&inner, &outer);
}

static void a_step_over_the_end_becomes_two(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  struct tt_embedding map = plain;
  struct tt_step step = {.first = 3, .nblocks = 3, .nsrc = 2, .nto = 1, .dst = {TT_OUT, 3}};
  map.slot = 2;
  both_init(&inner, &outer);
  tt_add(&inner, &step, (const struct tt_operand[]){tt_in(3), tt_scratch(1)}, (const int32_t[]){0});
  tt_recv(&inner, (struct tt_blocks){2, 2}, 0, tt_out(2));
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, 0);
  assert_int_equal(outer.nsteps, 3);
  assert_blocks(&outer, 0, 6, 1);
  assert_operand(source(&outer, 0, 0), TT_IN, 6);
  assert_operand(source(&outer, 0, 1), TT_SCRATCH, 3);
  assert_operand(outer.steps[0].dst, TT_OUT, 6);
  assert_blocks(&outer, 1, 3, 2);
  assert_operand(source(&outer, 1, 0), TT_IN, 3);
  assert_operand(source(&outer, 1, 1), TT_SCRATCH, 4);
  assert_operand(outer.steps[1].dst, TT_OUT, 3);
  assert_int_equal(outer.steps[1].nto, 1);
  assert_int_equal(outer.npeers, 2);
  assert_blocks(&outer, 2, 5, 2);
  both_destroy(&inner, &outer);
}

static void with_as_many_blocks_in_both_it_stays_one(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  struct tt_shape shape = small;
  struct tt_embedding map = plain;
  shape.nblocks = large.nblocks;
  map.first = 0;
  tt_schedule_init(&inner, &shape);
  tt_schedule_init(&outer, &large);
  tt_send(&inner, (struct tt_blocks){8, 5}, tt_in(8), 0);
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, 0);
  assert_int_equal(outer.nsteps, 1);
  assert_blocks(&outer, 0, 8, 5);
  both_destroy(&inner, &outer);
}

static void what_is_there_already_is_not_copied(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  struct tt_embedding map = plain;
  struct tt_step step = {.first = 0, .nblocks = 4, .nsrc = 1, .nto = 1, .dst = {TT_OUT, 0}};
  map.in = TT_OUT;
  both_init(&inner, &outer);
  tt_copy(&inner, (struct tt_blocks){0, 4}, tt_in(0), tt_out(0));
  tt_add(&inner, &step, (const struct tt_operand[]){tt_in(0)}, (const int32_t[]){1});
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, 0);
  assert_int_equal(outer.nsteps, 1);
  assert_operand(source(&outer, 0, 0), TT_OUT, 3);
  assert_int_equal(outer.steps[0].dst.place, TT_NOWHERE);
  assert_int_equal(outer.peers[0], 4);
  both_destroy(&inner, &outer);
}

/* ---- refusals -------------------------------------------------------------------- */

static void assert_refused(const struct tt_shape *shape, const struct tt_step *step, struct tt_embedding map,
                           const char *reason)
{
  struct tt_schedule inner, outer;
  tt_schedule_init(&inner, shape);
  tt_schedule_init(&outer, &large);
  tt_add(&inner, step, (const struct tt_operand[]){tt_in(step->first)}, (const int32_t[]){0});
  assert_int_equal(inner.error, 0);
  tt_embed(&outer, &inner, &map);
  assert_int_equal(outer.error, tuttiInternalError);
  assert_int_equal(outer.nsteps, 0);
  if (!strstr(tt_last_sentence(), reason)) fail_msg("wanted \"%s\" in \"%s\"", reason, tt_last_sentence());
  both_destroy(&inner, &outer);
}

static void what_does_not_fit_is_refused_with_its_reason(void **state)
{
  (void)state;
  const struct tt_shape to_all = {TT_ALL_TO_ALL, 3, 2, 1, -1, 0, -1, NULL};
  struct tt_step step = {.first = 0, .nblocks = 2, .channel = 200, .nsrc = 1, .nto = 1};
  struct tt_step other = {.first = 0, .nblocks = 1, .nsrc = 1, .dst = {TT_OUT, 2}};
  struct tt_embedding map = plain;
  map.first = 7;
  assert_refused(&small, &step, map, "its blocks do not fit");
  map.first = -1;
  assert_refused(&small, &step, map, "its blocks do not fit");
  map = plain;
  map.in = TT_MESSAGE;
  assert_refused(&small, &step, map, "its IN is none of");
  map = plain;
  map.out = TT_IN;
  assert_refused(&small, &step, map, "its OUT none of");
  map = plain;
  map.channel = 56;
  assert_refused(&small, &step, map, "256 channels");
  map = plain;
  map.ranks = (const int32_t[]){1, 5, 4};
  assert_refused(&small, &step, map, "another rank's");
  map.ranks = (const int32_t[]){6, 4, 5};
  assert_refused(&small, &step, map, "rank 6 is none of the 6 ranks");
  assert_refused(&to_all, &other, plain, "names another block");
}

static void errors_of_either_stay(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  both_init(&inner, &outer);
  inner.error = tuttiSystemError;
  tt_embed(&outer, &inner, &plain);
  assert_int_equal(outer.error, tuttiSystemError);
  inner.error = tuttiSuccess;
  tt_send(&inner, (struct tt_blocks){0, 1}, tt_in(0), 0);
  tt_embed(&outer, &inner, &plain);
  assert_int_equal(outer.error, tuttiSystemError);
  assert_int_equal(outer.nsteps, 0);
  both_destroy(&inner, &outer);
}

static void a_schedule_of_which_steps_are_only_counted_is_refused(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  both_init(&inner, &outer);
  inner.keep = 1;
  tt_send(&inner, (struct tt_blocks){0, 1}, tt_in(0), 0);
  tt_send(&inner, (struct tt_blocks){1, 1}, tt_in(1), 0);
  tt_embed(&outer, &inner, &plain);
  assert_int_equal(outer.error, tuttiInternalError);
  assert_non_null(strstr(tt_last_sentence(), "not all of its steps"));
  both_destroy(&inner, &outer);
}

static void no_memory_is_an_error(void **state)
{
  (void)state;
  struct tt_schedule inner, outer;
  both_init(&inner, &outer);
  tt_send(&inner, (struct tt_blocks){0, 1}, tt_in(0), 0);
  for (long n = 1; n <= 4; n++) { /* the peers, and the three arrays of the larger one */
    tt_schedule_destroy(&outer);
    tt_schedule_init(&outer, &large);
    tt_alloc_fail_at(n);
    tt_embed(&outer, &inner, &plain);
    tt_alloc_fail_at(0);
    assert_int_equal(outer.error, tuttiSystemError);
  }
  both_destroy(&inner, &outer);
}

/* ---- an algorithm on some of the ranks and blocks --------------------------------- */

/* An all-reduce of each of three parts of the vector, one after the other. */
static void generate_mixed(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  const struct tt_algo *algo = context;
  struct tt_shape part = {.nranks = 6, .rank = shape->rank, .nblocks = 4, .root = -1, .middle = -1};
  const int32_t starts[] = {3, 0, 7}, lengths[] = {4, 3, 3};
  for (int k = 0; k < 3; k++) {
    struct tt_schedule inner;
    tt_algo_shape(algo, &part);
    part.nblocks = lengths[k];
    tt_schedule_init(&inner, &part);
    algo->generate(&inner, &part);
    tt_embed(schedule, &inner, &(struct tt_embedding){.first = starts[k], .in = TT_IN, .out = TT_OUT});
    tt_schedule_destroy(&inner);
  }
}

static void an_all_reduce_of_each_part_is_one_of_the_whole(void **state)
{
  (void)state;
  struct tt_shape shape = large;
  for (int a = 0; a < tt_algo_count; a++) {
    struct tt_proof proof = {0};
    if (tt_algos[a].collective != TT_ALL_REDUCE) continue;
    if (tt_verify(&shape, generate_mixed, (void *)(uintptr_t)&tt_algos[a], &proof))
      fail_msg("%s: %s", tt_algos[a].name, proof.complaint);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(ranks_blocks_slots_and_channels_are_moved),
      cmocka_unit_test(in_and_out_become_other_places),
      cmocka_unit_test(without_a_map_of_ranks_they_are_the_same),
      cmocka_unit_test(a_step_over_the_end_becomes_two),
      cmocka_unit_test(with_as_many_blocks_in_both_it_stays_one),
      cmocka_unit_test(what_is_there_already_is_not_copied),
      cmocka_unit_test(what_does_not_fit_is_refused_with_its_reason),
      cmocka_unit_test(errors_of_either_stay),
      cmocka_unit_test(a_schedule_of_which_steps_are_only_counted_is_refused),
      cmocka_unit_test(no_memory_is_an_error),
      cmocka_unit_test(an_all_reduce_of_each_part_is_one_of_the_whole),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
