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

#define MAX_STEPS 200

static const struct tt_shape shape = {.collective = TT_ALL_REDUCE, .nranks = 4, .rank = 1, .nblocks = 8, .root = -1};
static const struct tt_blocks one = {0, 1};

static void step_waits(const struct tt_schedule *s, int32_t i, uint64_t finished, uint64_t started)
{
  struct tt_order order[MAX_STEPS];
  assert_int_equal(s->error, tuttiSuccess);
  tt_order_derive(s, order);
  assert_int_equal(order[i].finished, finished);
  assert_int_equal(order[i].started, started);
}

static void a_reader_waits_for_the_writer_and_a_writer_for_readers(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_recv(&s, one, 0, tt_scratch(0));
  tt_copy(&s, one, tt_scratch(0), tt_scratch(1));
  tt_copy(&s, one, tt_scratch(0), tt_scratch(2));
  tt_recv(&s, one, 2, tt_scratch(0));
  step_waits(&s, 0, 0, 0);
  step_waits(&s, 1, 1, 0);
  step_waits(&s, 2, 2, 0);     /* not for the other reader */
  step_waits(&s, 3, 1 | 2 | 4, 0);
  tt_schedule_destroy(&s);
}

static void in_and_out_are_one_place_since_a_call_may_be_in_place(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_send(&s, (struct tt_blocks){2, 3}, tt_in(2), 0);
  tt_send(&s, (struct tt_blocks){2, 3}, tt_in(2), 2);
  tt_recv(&s, (struct tt_blocks){4, 1}, 3, tt_out(4));
  tt_recv(&s, (struct tt_blocks){5, 1}, 2, tt_out(5));
  step_waits(&s, 1, 0, 0); /* two readers */
  step_waits(&s, 2, 1 | 2, 0);
  step_waits(&s, 3, 0, 0); /* block 5 is nobody's */
  tt_schedule_destroy(&s);
}

static void in_and_out_of_all_to_all_are_two_places(void **state)
{
  (void)state;
  struct tt_schedule s;
  struct tt_shape apart = {.collective = TT_ALL_TO_ALL, .nranks = 4, .rank = 1, .nblocks = 1, .root = -1};
  tt_schedule_init(&s, &apart);
  tt_send(&s, (struct tt_blocks){2, 1}, tt_in(2), 2);
  tt_recv(&s, (struct tt_blocks){2, 1}, 2, tt_out(2));
  step_waits(&s, 1, 0, 0);
  tt_schedule_destroy(&s);
}

static void a_span_over_the_end_touches_the_start(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_recv(&s, (struct tt_blocks){6, 3}, 0, tt_out(6));
  tt_send(&s, (struct tt_blocks){0, 1}, tt_out(0), 2);
  tt_send(&s, (struct tt_blocks){1, 5}, tt_in(1), 3);
  tt_recv(&s, (struct tt_blocks){7, 2}, 2, tt_out(7));
  step_waits(&s, 1, 1, 0);
  step_waits(&s, 2, 0, 0);
  step_waits(&s, 3, 2 | 4, 0);
  tt_schedule_destroy(&s);
}

static void scratch_slots_are_other_places_than_blocks(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  tt_recv(&s, (struct tt_blocks){0, 8}, 0, tt_scratch(0));
  tt_recv(&s, (struct tt_blocks){0, 8}, 2, tt_out(0));
  tt_copy(&s, one, tt_scratch(8), tt_scratch(9));
  tt_copy(&s, one, tt_scratch(7), tt_scratch(10));
  step_waits(&s, 1, 0, 0);
  step_waits(&s, 2, 0, 0);
  step_waits(&s, 3, 4, 0);
  tt_schedule_destroy(&s);
}

static void messages_keep_their_order_per_peer_channel_and_direction(void **state)
{
  (void)state;
  struct tt_schedule s;
  static const int32_t both[2] = {2, 0};
  struct tt_operand from = tt_in(4);
  struct tt_step multi = {.first = 4, .nblocks = 1, .nsrc = 1, .nto = 2};
  struct tt_step other = {.first = 4, .nblocks = 1, .nsrc = 1, .nto = 2, .channel = 1};
  tt_schedule_init(&s, &shape);
  tt_send(&s, one, tt_in(0), 0);
  tt_recv(&s, (struct tt_blocks){1, 1}, 0, tt_out(1));
  tt_send(&s, (struct tt_blocks){2, 1}, tt_in(2), 2);
  tt_add(&s, &multi, &from, both);
  tt_add(&s, &other, &from, both);
  tt_reduce2(&s, (struct tt_blocks){5, 1}, tt_message(0), tt_message(2), tt_out(5));
  step_waits(&s, 1, 0, 0); /* other direction */
  step_waits(&s, 2, 0, 0); /* other peer */
  step_waits(&s, 3, 0, 1 | 4);
  step_waits(&s, 4, 0, 0); /* other channel */
  step_waits(&s, 5, 0, 8);
  tt_schedule_destroy(&s);
}

static void nothing_reaches_back_further_than_the_window(void **state)
{
  (void)state;
  struct tt_schedule s;
  tt_schedule_init(&s, &shape);
  for (int k = 0; k < 70; k++) tt_copy(&s, one, tt_in(0), tt_scratch(0));
  step_waits(&s, 3, 7, 0);
  step_waits(&s, 63, UINT64_MAX >> 1, 0);
  step_waits(&s, 69, UINT64_MAX >> 1, 0);
  tt_schedule_destroy(&s);
}

/* ---- the same from the words of sched.h, place by place ---------------------------- */

static uint32_t random_below(uint64_t *seed, uint32_t limit)
{
  *seed = *seed * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*seed >> 33) % limit;
}

/* Blocks from `first` on, or any slots. */
static struct tt_operand random_operand(uint64_t *seed, int32_t first, int is_source)
{
  switch (random_below(seed, 3)) {
  case 0: return is_source ? tt_in(first) : tt_out(first);
  case 1: return tt_out(first);
  default: return tt_scratch((int32_t)random_below(seed, 6));
  }
}

/* Appends a random step; one that the builder would refuse is left out. */
static void random_step(struct tt_schedule *s, uint64_t *seed)
{
  static const int32_t others[3] = {0, 2, 3};
  struct tt_operand sources[6];
  int32_t peers[3];
  struct tt_step step = {.first = (int32_t)random_below(seed, 8), .nblocks = 1 + (int32_t)random_below(seed, 3)};
  step.channel = (uint8_t)random_below(seed, 2);
  step.nsrc = (uint16_t)(1 + random_below(seed, random_below(seed, 4) ? 3 : 6));
  for (int k = 0; k < step.nsrc; k++)
    sources[k] = k < 3 && random_below(seed, 2) ? tt_message(others[k]) : random_operand(seed, step.first, 1);
  step.dst = random_operand(seed, step.first, 0);
  uint32_t first = random_below(seed, 3);
  step.nto = (uint16_t)random_below(seed, 3);
  for (uint32_t k = 0; k < step.nto; k++) peers[k] = others[(first + k) % 3];
  tt_add(s, &step, sources, peers);
  s->error = tuttiSuccess;
}

/* What a step does to each place and each line; places 0..7 IN and OUT, 8..15 scratch;
 * lines (to or from) x 4 ranks x 2 channels. */
struct deeds {
  uint8_t reads[16], writes[16], lines[16];
};

static void note(struct deeds *deeds, uint8_t *what, const struct tt_step *step, struct tt_operand operand)
{
  if (operand.place == TT_MESSAGE) {
    deeds->lines[8 + operand.at * 2 + step->channel] = 1;
    return;
  }
  for (int32_t x = 0; x < step->nblocks; x++)
    what[operand.place == TT_SCRATCH ? 8 + operand.at + x : (operand.at + x) % 8] = 1;
}

static struct deeds deeds_of(const struct tt_schedule *s, int32_t i)
{
  const struct tt_step *step = &s->steps[i];
  struct deeds deeds = {{0}, {0}, {0}};
  for (int k = 0; k < step->nsrc; k++) note(&deeds, deeds.reads, step, s->operands[step->src + k]);
  note(&deeds, deeds.writes, step, step->dst);
  for (int k = 0; k < step->nto; k++) deeds.lines[s->peers[step->to + k] * 2 + step->channel] = 1;
  return deeds;
}

static void compare(const struct tt_schedule *s, const struct tt_order *order, int32_t i)
{
  struct deeds now = deeds_of(s, i);
  for (int32_t k = 0; k < 63 && k < i; k++) {
    struct deeds before = deeds_of(s, i - 1 - k);
    int place = 0, line = 0;
    for (int p = 0; p < 16; p++) {
      place |= (now.writes[p] && (before.reads[p] || before.writes[p])) || (now.reads[p] && before.writes[p]);
      line |= now.lines[p] && before.lines[p];
    }
    assert_int_equal(order[i].finished >> k & 1, place);
    assert_int_equal(order[i].started >> k & 1, line);
  }
}

static void the_order_is_what_the_rule_says_for_random_programs(void **state)
{
  (void)state;
  uint64_t seed = 20090917;
  for (int round = 0; round < 10; round++) {
    struct tt_order order[MAX_STEPS];
    struct tt_schedule s;
    tt_schedule_init(&s, &shape);
    for (int k = 0; k < MAX_STEPS; k++) random_step(&s, &seed);
    assert_true(s.nsteps > MAX_STEPS / 3);
    tt_order_derive(&s, order);
    for (int32_t i = 0; i < s.nsteps; i++) compare(&s, order, i);
    tt_schedule_destroy(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_reader_waits_for_the_writer_and_a_writer_for_readers),
    cmocka_unit_test(in_and_out_are_one_place_since_a_call_may_be_in_place),
    cmocka_unit_test(in_and_out_of_all_to_all_are_two_places),
    cmocka_unit_test(a_span_over_the_end_touches_the_start),
    cmocka_unit_test(scratch_slots_are_other_places_than_blocks),
    cmocka_unit_test(messages_keep_their_order_per_peer_channel_and_direction),
    cmocka_unit_test(nothing_reaches_back_further_than_the_window),
    cmocka_unit_test(the_order_is_what_the_rule_says_for_random_programs),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1); /* random steps that are refused are no news */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
