/* SPDX-License-Identifier: BSD-3-Clause */
/* The model of perf/replay: where nothing varies it has the planner's numbers, where computation varies no policy has
 * shorter steps than the bound, a slow rank is waited for as it is by hand, and Horovod's groups are those of the step.
 * Labels: planner, serial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "model.h"
#include "nets.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#define NETS 200

static const char *const by_priority[] = {"p3:1", "p3:7", "p3:50,100", "p3"};
#define BY_PRIORITY ((int)(sizeof by_priority / sizeof by_priority[0]))

static struct layer layers[NET_MOST];

static struct network network_of(const struct drawn *d)
{
  for (int32_t l = 0; l < d->net.n; l++) {
    double later_us = l + 1 < d->net.n ? d->tensors[l + 1].ready_us : 0;
    layers[l] = (struct layer){.count = d->tensors[l].count,
                               .backward_us = d->tensors[l].ready_us - later_us,
                               .forward_us = d->tensors[l].forward_us};
  }
  return (struct network){.n = d->net.n, .layers = layers};
}

/* The mean step; policy NULL: the bound. */
static double step_us(const struct drawn *d, const struct variation *v, const char *policy, int nranks, int round,
                      int steps)
{
  struct network network = network_of(d);
  struct model model;
  struct player player = {.is_bound = !policy};
  double us = -1;
  assert_int_equal(model_make(&model, &network, v, &d->cost, nranks), tuttiSuccess);
  if (policy) assert_int_equal(tt_policy_parse(&player.policy, policy), tuttiSuccess);
  assert_int_equal(model_plan(&model, &player, round), tuttiSuccess);
  assert_int_equal(model_play(&model, &player, round, steps, &us), tuttiSuccess);
  tt_fusion_plan_destroy(&player.plan);
  model_destroy(&model);
  return us;
}

static void without_variation_steps_are_as_the_planner_plays_them(void **state)
{
  (void)state;
  struct variation none = {.seed = 1};
  uint64_t chance = 1;
  for (int k = 0; k < NETS; k++) {
    struct drawn d;
    double bound;
    int nranks = 1 + k % 5, steps = 1 + k % 3;
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 30));
    cost_draw(&d, &chance);
    assert_int_equal(tt_fusion_bound(&d.net, &d.cost, &bound), tuttiSuccess);
    assert_true(fabs(step_us(&d, &none, NULL, nranks, 1, steps) - bound) <= 1e-9 * bound);
    for (int p = 0; p < BY_PRIORITY; p++) {
      double us = us_of(by_priority[p], &d);
      assert_true(fabs(step_us(&d, &none, by_priority[p], nranks, 1, steps) - us) <= 1e-9 * us);
    }
    for (int p = 0; p < MERGING; p++)
      assert_true(step_us(&d, &none, merging[p], nranks, 1, steps) <= us_of(merging[p], &d));
  }
}

static void no_policy_has_shorter_steps_than_the_bound(void **state)
{
  (void)state;
  double lengths[] = {0.25, 1, 4};
  uint64_t chance = 2;
  for (int k = 0; k < NETS; k++) {
    struct drawn d;
    struct variation v = {.seed = (uint64_t)k, .jitter = 0.5, .slow_rank = 1, .slow_factor = k % 2 ? 2 : 0,
                          .nlengths = k % 3 ? 3 : 0, .lengths = lengths};
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 30));
    cost_draw(&d, &chance);
    overlap_draw(&d, &chance);
    double bound = step_us(&d, &v, NULL, 3, 1, 4) * (1 - 1e-11);
    for (int p = 0; p < BY_PRIORITY; p++) assert_true(bound <= step_us(&d, &v, by_priority[p], 3, 1, 4));
    for (int p = 0; p < MERGING; p++) assert_true(bound <= step_us(&d, &v, merging[p], 3, 1, 4));
    assert_true(bound <= step_us(&d, &v, "auto", 3, 1, 4));
  }
}

/* Slices of an element follow each other as bytes of the bound do, but for one element before each layer. */
static void the_bound_is_reached_where_messages_are_free(void **state)
{
  (void)state;
  uint64_t chance = 3;
  for (int k = 0; k < NETS; k++) {
    struct drawn d;
    struct variation v = {.seed = (uint64_t)k, .jitter = 0.5, .slow_rank = 1, .slow_factor = 2};
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 30));
    d.cost = tt_message_cost_line(0, 0.25);
    double bound = step_us(&d, &v, NULL, 3, 1, 1);
    assert_true(step_us(&d, &v, "p3:1", 3, 1, 1) <= (bound + 3) * (1 + 1e-11));
  }
}

/* Rank 1 takes twice as long: its tensors are ready 2 and 6 after it has begun, messages take 4 each, so that they end
 * at 6 and 10; then its forwards of 6 and 2. Rank 0 ends at 14, and waits in the next step. */
static void a_slow_rank_is_waited_for_as_it_is_by_hand(void **state)
{
  (void)state;
  const double backward[] = {2, 1}, forward[] = {3, 1};
  const uint64_t bytes[] = {4, 4};
  struct drawn d;
  struct variation v = {.slow_rank = 1, .slow_factor = 2};
  net_make(&d, 2, backward, bytes, forward);
  for (int l = 0; l < 2; l++) d.tensors[l].count = 1;
  d.cost = tt_message_cost_line(2, 0.5);
  assert_true(step_us(&d, &v, "wfbp", 2, 1, 1) == 18);
  assert_true(step_us(&d, &v, "wfbp", 2, 1, 5) == 18);
  assert_true(step_us(&d, &v, "single", 2, 1, 1) == 6 + 6 + 8);
  v.slow_rank = 0; /* the first of three */
  assert_true(step_us(&d, &v, "wfbp", 3, 1, 5) == 18);
  v.slow_rank = 2; /* there is none */
  assert_true(step_us(&d, &v, "wfbp", 2, 1, 1) == 5 + 4 + 4);
}

/* As a rank would wait. */
static double forward_end_us(const struct tt_fusion_plan *plan, const struct drawn *d)
{
  struct tt_played played;
  assert_int_equal(tt_fusion_plan_play(&played, plan, &d->net, &d->cost), tuttiSuccess);
  double now_us = d->net.backward_us;
  for (int32_t l = 0; l < d->net.n; l++) now_us = fmax(now_us, played.done_us[l]) + d->tensors[l].forward_us;
  tt_played_destroy(&played);
  return now_us;
}

static void horovod_groups_what_is_ready_in_the_very_step(void **state)
{
  (void)state;
  double lengths[] = {1, 8};
  uint64_t chance = 4;
  int nothers = 0;
  for (int k = 0; k < NETS; k++) {
    struct drawn d, longer;
    struct variation v = {.seed = (uint64_t)k, .nlengths = 2, .lengths = lengths};
    net_draw(&d, &chance, 10);
    d.cost = tt_message_cost_line(40, 1);
    double factor = variation_factor(&v, variation_step(1, 1), 0, 0, BACKWARD);
    longer = d;
    longer.net.tensors = longer.tensors;
    longer.net.backward_us *= factor;
    for (int32_t l = 0; l < d.net.n; l++) {
      longer.tensors[l].ready_us *= factor;
      longer.tensors[l].forward_us *= factor;
    }
    struct tt_fusion_plan its = plan_of("horovod:1M", &longer), other = plan_of("horovod:1M", &d);
    double us = step_us(&d, &v, "horovod:1M", 2, 1, 1);
    assert_true(us == forward_end_us(&its, &longer));
    nothers += us != forward_end_us(&other, &longer);
    tt_fusion_plan_destroy(&its);
    tt_fusion_plan_destroy(&other);
  }
  assert_true(nothers > NETS / 10);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(without_variation_steps_are_as_the_planner_plays_them),
      cmocka_unit_test(no_policy_has_shorter_steps_than_the_bound),
      cmocka_unit_test(the_bound_is_reached_where_messages_are_free),
      cmocka_unit_test(a_slow_rank_is_waited_for_as_it_is_by_hand),
      cmocka_unit_test(horovod_groups_what_is_ready_in_the_very_step),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
