/* SPDX-License-Identifier: BSD-3-Clause */
/* Several messages in flight: by hand, by the message, and beside one at a time.
 * Labels: serial, planner. */
#include <math.h>
#include <stdlib.h>

#include "chance.h"
#include "nets.h"
#include "planner/private.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* Only one at a time; a message takes 10 + bytes. */
static struct drawn *net_here(int32_t n, const double *backward, const uint64_t *bytes)
{
  static struct drawn d;
  net_make(&d, n, backward, bytes, NULL);
  d.cost = tt_message_cost_line(10, 1);
  d.cost.free = 1;
  d.cost.channels = 8;
  return &d;
}

struct wanted {
  int32_t layer;
  double start_us, end_us;
};

/* All messages of the plan that the policy makes. */
static void messages_are(const char *policy, const struct wanted *wanted, int n, const struct drawn *d)
{
  struct tt_fusion_plan plan = plan_of(policy, d);
  struct tt_played played;
  assert_int_equal(tt_fusion_plan_play(&played, &plan, &d->net, &d->cost), tuttiSuccess);
  assert_int_equal(played.nmessages, n);
  for (int m = 0; m < n; m++) {
    const struct tt_played_message *message = &played.messages[m];
    if (plan.members[plan.groups[message->group].first] + 1 != wanted[m].layer ||
        message->start_us != wanted[m].start_us || message->end_us != wanted[m].end_us)
      fail_msg("%s: message %d is of layer %d, from %g to %g", policy, m + 1,
               (int)plan.members[plan.groups[message->group].first] + 1, message->start_us, message->end_us);
  }
  assert_true(played.messages_end_us == wanted[n - 1].end_us);
  tt_played_destroy(&played);
  tt_fusion_plan_destroy(&plan);
}

#define MESSAGES(d, policy, ...) \
  messages_are(policy, (const struct wanted[]){__VA_ARGS__}, \
               (int)(sizeof(const struct wanted[]){__VA_ARGS__} / sizeof(struct wanted)), d)

/* Four slices of 5 of 20 bytes. Links carry 15 bytes in the time of a slice, and that is the credit. */
static void slices_in_flight_do_by_hand_what_the_rule_says(void **state)
{
  const double backward[] = {0};
  const uint64_t bytes[] = {20};
  struct drawn *d = net_here(1, backward, bytes);
  (void)state;
  assert_int_equal(tt_flight_credit(&d->cost, 5), 15);
  MESSAGES(d, "p3:5", {1, 0, 15}, {1, 0, 20}, {1, 0, 25}, {1, 15, 30});
  MESSAGES(d, "fifo:5", {1, 0, 15}, {1, 0, 20}, {1, 0, 25}, {1, 15, 30});
  MESSAGES(d, "p3:5,16", {1, 0, 15}, {1, 0, 20}, {1, 0, 25}, {1, 0, 30});
  MESSAGES(d, "p3:5,0", {1, 0, 15}, {1, 15, 30}, {1, 30, 45}, {1, 45, 60});
  MESSAGES(d, "p3:5,5", {1, 0, 15}, {1, 15, 30}, {1, 30, 45}, {1, 45, 60});
  MESSAGES(d, "p3:5,6", {1, 0, 15}, {1, 0, 20}, {1, 15, 30}, {1, 20, 35});
  MESSAGES(d, "p3:5,10", {1, 0, 15}, {1, 0, 20}, {1, 15, 30}, {1, 20, 35});
  MESSAGES(d, "p3:5,11", {1, 0, 15}, {1, 0, 20}, {1, 0, 25}, {1, 15, 30});
  d->cost.channels = 2; /* the other two wait for one */
  MESSAGES(d, "p3:5", {1, 0, 15}, {1, 0, 20}, {1, 15, 30}, {1, 20, 35});
  d->cost.channels = 1;
  assert_int_equal(tt_flight_credit(&d->cost, 5), 0);
  MESSAGES(d, "p3:5,1M", {1, 0, 15}, {1, 15, 30}, {1, 30, 45}, {1, 45, 60});
  MESSAGES(d, "wfbp", {1, 0, 30});
}

/* A message keeps the links for half of its start-up: for 10 of 15. */
static void what_holds_the_links_does_not_overlap(void **state)
{
  const double backward[] = {0};
  const uint64_t bytes[] = {20};
  struct drawn *d = net_here(1, backward, bytes);
  (void)state;
  d->cost.free = 0.5;
  assert_true(tt_message_held_us(&d->cost, 5) == 10);
  assert_int_equal(tt_flight_credit(&d->cost, 5), 8);
  assert_int_equal(tt_flight_credit(&d->cost, 2), 4); /* 2 times 12 / 7 */
  MESSAGES(d, "p3:5", {1, 0, 15}, {1, 0, 25}, {1, 15, 35}, {1, 25, 45});
  d->cost.free = 0; /* nothing is gained, whatever the credit */
  assert_int_equal(tt_flight_credit(&d->cost, 5), 0);
  MESSAGES(d, "p3:5,10", {1, 0, 15}, {1, 0, 30}, {1, 15, 45}, {1, 30, 60});
}

/* Layer 2, of 60 bytes, is ready at 0, layer 1 at 12: it waits for one of the two slices of 10 that are in flight at
 * most. At 35 it has ended, and the credit of 20 is used up until 45. */
static void what_is_urgent_waits_for_no_more_than_the_credit_and_a_message(void **state)
{
  const double backward[] = {12, 0};
  const uint64_t bytes[] = {5, 60};
  struct drawn *d = net_here(2, backward, bytes);
  (void)state;
  assert_int_equal(tt_flight_credit(&d->cost, 10), 20);
  MESSAGES(d, "p3:10", {2, 0, 20}, {2, 0, 30}, {1, 20, 35}, {2, 20, 45}, {2, 30, 55}, {2, 45, 65}, {2, 55, 75});
  MESSAGES(d, "fifo:10", {2, 0, 20}, {2, 0, 30}, {2, 20, 40}, {2, 30, 50}, {2, 40, 60}, {2, 50, 70}, {1, 60, 75});
}

/* Links are held one message after the other. */
static void messages_of_all_lengths_overlap(void **state)
{
  const double backward[] = {0, 0, 0};
  const uint64_t bytes[] = {4, 30, 30};
  struct drawn *d = net_here(3, backward, bytes);
  (void)state;
  assert_int_equal(tt_flight_credit(&d->cost, 30), 40);
  MESSAGES(d, "p3:30", {1, 0, 14}, {2, 0, 44}, {3, 0, 74});
  MESSAGES(d, "p3:30,20", {1, 0, 14}, {2, 0, 44}, {3, 44, 84});
  MESSAGES(d, "p3:30,0", {1, 0, 14}, {2, 14, 54}, {3, 54, 94});
}

/* Equal slices take alpha + beta bytes, as if they were one message. */
static void the_credit_hides_all_start_ups_but_one(void **state)
{
  uint64_t chance = 11;
  (void)state;
  for (int round = 0; round < 300; round++) {
    const double backward[] = {0};
    double beta = (double)(1 + below(&chance, 4)), alpha = beta * (double)(1 + below(&chance, 100));
    uint64_t slice = 1 + below(&chance, 200), bytes = slice * (1 + below(&chance, 5000));
    struct tt_flight flight;
    struct drawn *d = net_here(1, backward, &bytes);
    d->cost = tt_message_cost_line(alpha, beta);
    d->cost.free = 1;
    d->cost.channels = TT_FLIGHT_MOST;
    uint64_t credit = tt_flight_credit(&d->cost, slice);
    assert_int_equal(credit, (double)slice + alpha / beta);
    if ((credit + slice - 1) / slice > TT_FLIGHT_MOST) continue;
    tt_flight_start(&flight, &d->cost, credit);
    for (uint64_t sent = 0; sent < bytes; sent += slice) tt_flight_begin(&flight, flight.next_us, slice);
    assert_true(flight.end_us == alpha + beta * (double)bytes);
    assert_true(flight.total < credit);
  }
}

static double stage_us(const struct tt_fusion_plan *plan, const struct drawn *d)
{
  struct tt_queue queue;
  struct tt_stage stage;
  assert_int_equal(tt_queue_make(&queue, &d->net), tuttiSuccess);
  assert_int_equal(tt_stage_make(&stage, d->net.n), tuttiSuccess);
  double us = tt_stage_play(&stage, plan, &queue, &d->cost);
  tt_stage_destroy(&stage);
  tt_queue_destroy(&queue);
  return us;
}

/* A play that keeps no messages takes many equal slices at once. */
static void a_play_by_the_round_is_one_by_the_message(void **state)
{
  static const char *const policies[] = {"p3:1", "p3:3", "p3:2,17", "p3:5,1K", "fifo:2", "fifo:7,100", "p3:11,0",
                                         "single", "threshold:300,20"};
  static struct drawn d;
  uint64_t chance = 12;
  int overlaps = 0;
  (void)state;
  for (int round = 0; round < (IS_SLOW ? 30 : 400); round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 12));
    cost_draw(&d, &chance);
    overlap_draw(&d, &chance);
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) {
      struct tt_fusion_plan plan = plan_of(policies[p], &d);
      if (plan.ngroups < d.net.n) { /* tensors end in the middle of groups */
        plan.by_priority = 1;
        plan.credit = 8 * below(&chance, 10);
        for (int32_t g = 0; g < plan.ngroups; g++)
          if (plan.groups[g].bytes > 8) plan.groups[g].slice_bytes = 4 * (1 + below(&chance, 8));
      }
      assert_true(stage_us(&plan, &d) == played_us(&plan, &d));
      overlaps += plan.credit > 4 && d.cost.channels > 1;
      tt_fusion_plan_destroy(&plan);
    }
  }
  assert_true(overlaps > 100);
}

/* More channels, and more of a start-up free, never hurt slices that go in one order. */
static void nothing_beats_the_bound_and_overlap_does_not_hurt(void **state)
{
  static const char *const policies[] = {"p3:1", "p3:20", "p3:4,64", "p3:9,1M", "fifo:5", "fifo:20,1M", "auto"};
  static struct drawn d;
  uint64_t chance = 13;
  int gains = 0;
  (void)state;
  for (int round = 0; round < (IS_SLOW ? 20 : 300); round++) {
    double bound;
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 30));
    cost_draw(&d, &chance);
    d.cost.free = 0.25 * (double)below(&chance, 5);
    d.cost.channels = 1 + (int32_t)below(&chance, 8);
    assert_int_equal(tt_fusion_bound(&d.net, &d.cost, &bound), tuttiSuccess);
    for (size_t p = 0; p < sizeof policies / sizeof policies[0]; p++) assert_true(bound <= us_of(policies[p], &d));
    for (size_t p = 0; p < MERGING; p++) assert_true(bound <= us_of(merging[p], &d));
    double many = us_of("fifo:5", &d), one = us_of("fifo:5,0", &d);
    assert_true(many <= one * (1 + 1e-12));
    assert_true(us_of("auto", &d) <= us_of("p3:40000", &d) && us_of("auto", &d) <= us_of("optimal", &d));
    gains += many < one;
  }
  assert_true(gains > 10);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(slices_in_flight_do_by_hand_what_the_rule_says),
      cmocka_unit_test(what_holds_the_links_does_not_overlap),
      cmocka_unit_test(what_is_urgent_waits_for_no_more_than_the_credit_and_a_message),
      cmocka_unit_test(messages_of_all_lengths_overlap),
      cmocka_unit_test(the_credit_hides_all_start_ups_but_one),
      cmocka_unit_test(a_play_by_the_round_is_one_by_the_message),
      cmocka_unit_test(nothing_beats_the_bound_and_overlap_does_not_hurt),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
