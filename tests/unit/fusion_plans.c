/* SPDX-License-Identifier: BSD-3-Clause */
/* What auto does at agreements, without ranks: plans are told what iterations by them take. */
#include <math.h>

#include "chance.h"
#include "fusion/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define TENSORS 4
#define MESSAGES 4096

/* The arrays of a fusion. */
struct owned {
  struct tensor tensors[TENSORS];
  struct gradient gradients[TENSORS];
  int32_t missing[TENSORS];
  struct tt_tensor facts[TENSORS];
};

/* By priority the first layer, which is ready last, overtakes the last one, which is long. */
static void fusion_make(struct tuttiFusion *f, struct owned *owned)
{
  static const uint64_t counts[TENSORS] = {1000, 20000, 20000, 800000};
  memset(f, 0, sizeof *f);
  memset(owned, 0, sizeof *owned);
  f->config.n = TENSORS;
  f->config.tensors = owned->tensors;
  f->config.buffer_bytes = 64 << 20;
  f->shared.gradients = owned->gradients;
  f->shared.missing = owned->missing;
  f->engine.known.facts = owned->facts;
  f->engine.known.cost = tt_message_cost_line(30, 0.001);
  f->engine.step = 1;
  assert_int_equal(tt_policy_parse(&f->config.policy, "auto"), tuttiSuccess);
  pthread_mutex_init(&f->shared.mutex, NULL);
  for (int i = 0; i < TENSORS; i++) {
    struct tensor *tensor = &owned->tensors[i];
    tensor->count = counts[i];
    tensor->element = 4;
    tensor->unit = 1;
    tensor->wire_unit = 4;
    tensor->bytes = 4 * counts[i];
    tensor->type = tuttiFloat32;
  }
  assert_int_equal(tt_fusion_plans_first(f), tuttiSuccess);
  for (int i = 0; i < TENSORS; i++) {
    owned->facts[i].ready_us = 500 * (TENSORS - i);
    owned->facts[i].forward_us = 500;
  }
  f->engine.known.model.backward_us = 500 * TENSORS;
}

static void fusion_end(struct tuttiFusion *f)
{
  tt_fusion_plans_free(f);
  tt_fusion_rounds_free(&f->engine);
  pthread_mutex_destroy(&f->shared.mutex);
  memset(f, 0, sizeof *f); /* a plan that is still held is a leak */
}

/* An agreement, at which iterations by the plan in use took us[by priority]. */
static void agree(struct tuttiFusion *f, const double us[2])
{
  f->engine.agreements++;
  assert_int_equal(tt_fusion_plans_renew(f, us[f->engine.used->fusion.by_priority]), tuttiSuccess);
  f->engine.step = tt_trial_next(&f->engine.trial, f->engine.step);
}

/* That is the beaten one, or the best that there is now: not one after the other. */
static void a_plan_without_priority_is_tried_once_at_a_time(void **state)
{
  static struct tuttiFusion f;
  struct owned owned;
  static const double plain[2] = {80, 100}, urgent[2] = {100, 60};
  int tried = 0, was_plain = 0;
  (void)state;
  fusion_make(&f, &owned);
  for (f.engine.step = 3; f.engine.step < 20;) agree(&f, plain); /* wins, and is beaten then */
  while (f.engine.step < 10000) {
    agree(&f, urgent);
    assert_false(was_plain && !f.engine.used->fusion.by_priority);
    was_plain = !f.engine.used->fusion.by_priority;
    tried += was_plain;
  }
  assert_in_range(tried, 10000 / 800, 30);
  fusion_end(&f);
}

/* What is sent as it comes is not what was beaten long ago, but the best by the present costs. */
static void without_priority_the_best_of_now_is_tried(void **state)
{
  static struct tuttiFusion f;
  struct owned owned;
  static const double plain[2] = {80, 100}, urgent[2] = {100, 60};
  const struct tt_policy optimal = {.kind = TT_POLICY_OPTIMAL};
  struct tt_fusion_plan best;
  int tried = 0;
  (void)state;
  fusion_make(&f, &owned);
  for (f.engine.step = 3; f.engine.step < 20;) agree(&f, plain);
  while (!f.engine.beaten || f.engine.beaten->fusion.by_priority) agree(&f, urgent);
  f.engine.known.cost = tt_message_cost_line(100000, 0.001);
  assert_int_equal(tt_fusion_plan_make(&best, &optimal, &f.engine.known.model, &f.engine.known.cost), tuttiSuccess);
  assert_int_not_equal(best.ngroups, f.engine.beaten->fusion.ngroups);
  while (f.engine.step < 10000) {
    agree(&f, urgent);
    tried += f.engine.trial.what == TT_TRY_PLAIN && f.engine.used->fusion.ngroups == best.ngroups;
  }
  assert_in_range(tried, 2, 30);
  tt_fusion_plan_destroy(&best);
  fusion_end(&f);
}

/* Threads that push, or ranks that push in other orders. */
static void tensors_that_change_places_all_the_time_hinder_no_trial(void **state)
{
  static struct tuttiFusion f;
  struct owned owned;
  static const double urgent[2] = {100, 60};
  int tried = 0;
  (void)state;
  fusion_make(&f, &owned);
  f.engine.step = 3;
  for (int n = 0; n < 200; n++) {
    owned.facts[1].ready_us = 1500;
    owned.facts[2].ready_us = n % 2 ? 1500.1 : 1499.9;
    agree(&f, urgent);
    tried += !f.engine.used->fusion.by_priority;
  }
  assert_in_range(tried, 5, 30);
  assert_in_range(f.shared.planned.plans, 2, 80);
  fusion_end(&f);
}

static void order_of(const struct tt_played *played, int32_t *groups, int64_t *n)
{
  *n = played->nmessages;
  assert_in_range(*n, 2, MESSAGES);
  for (int64_t m = 0; m < *n; m++) groups[m] = played->messages[m].group;
}

static int has_order(const struct tt_played *played, const int32_t *groups, int64_t n)
{
  int same = played->nmessages == n;
  for (int64_t m = 0; same && m < n; m++) same = played->messages[m].group == groups[m];
  return same;
}

/* What was measured of a plan was measured of that order: whatever messages cost now, it stays and comes back as it
 * was. */
static void a_plan_keeps_the_order_of_its_messages(void **state)
{
  static struct tuttiFusion f;
  struct owned owned;
  static const double urgent[2] = {100, 60};
  int32_t groups[MESSAGES];
  int64_t n;
  int left = 0, came = 0, was = 1;
  struct tt_played anew;
  (void)state;
  fusion_make(&f, &owned);
  for (f.engine.step = 3; f.engine.step < 200 || !f.engine.used->fusion.by_priority;) agree(&f, urgent);
  const struct plan *plan = f.engine.used;
  const struct known *known = &f.engine.known;
  order_of(&plan->played, groups, &n);
  f.engine.known.cost = tt_message_cost_line(60, 0.0005);
  assert_int_equal(tt_fusion_plan_play(&anew, &plan->fusion, &known->model, &known->cost), tuttiSuccess);
  assert_false(has_order(&anew, groups, n)); /* what it would be in */
  tt_played_destroy(&anew);
  for (int k = 0; k < 50; k++) {
    assert_int_equal(tt_fusion_plans_renew(&f, was ? 60 : 100), tuttiSuccess);
    f.engine.step = tt_trial_next(&f.engine.trial, f.engine.step);
    int is = has_order(&f.shared.planned.expected, groups, n);
    assert_int_equal(is, f.engine.used == plan);
    assert_int_equal(is, has_order(&f.engine.used->played, groups, n));
    left += was && !is;
    came += is && !was;
    was = is;
  }
  assert_in_range(left, 2, 25);
  assert_in_range(came, left - 1, left);
  fusion_end(&f);
}

/* What a round costs decides what it is hidden behind, and when a rank waits for others rather than for the links. */
static void a_plan_that_stays_has_the_newest_cost_of_a_round(void **state)
{
  static struct tuttiFusion f;
  struct owned owned;
  static const double us[2] = {100, 100};
  (void)state;
  fusion_make(&f, &owned);
  assert_int_equal(tt_policy_parse(&f.config.policy, "wfbp"), tuttiSuccess);
  for (f.engine.step = 3; f.engine.step < 10;) agree(&f, us);
  const struct plan *used = f.engine.used;
  assert_int_equal(f.engine.ordering.order.worth_bytes, 1 << 17); /* 30 + 131 is more than 4 times 30 */
  assert_int_equal(f.engine.ordering.waits_ns, 200000);
  f.engine.known.cost = tt_message_cost_line(10000, 0.001);
  agree(&f, us);
  assert_ptr_equal(f.engine.used, used);
  assert_int_equal(f.engine.ordering.order.worth_bytes, 1 << 25);
  assert_int_equal(f.engine.ordering.waits_ns, 20000128); /* of twice 64 bytes */
  fusion_end(&f);
}

/* Half the fusion buffer has room for a sixth of all tensors: their play has the messages that are sent, each with its
 * start-up. Tensors that are coded where they lie need no room. */
static void single_is_planned_as_the_messages_that_it_is(void **state)
{
  static struct tuttiFusion f;
  struct owned owned;
  const struct tt_policy single = {.kind = TT_POLICY_SINGLE};
  struct plan *plan = NULL;
  uint64_t all = 0;
  (void)state;
  fusion_make(&f, &owned);
  for (int i = 0; i < TENSORS; i++) all += owned.tensors[i].bytes;
  f.config.buffer_bytes = 2 * ((all / 6 + 4) & ~(uint64_t)3);
  for (int is_coded = 0; is_coded < 2; is_coded++) {
    for (int i = 0; i < TENSORS; i++) owned.tensors[i].is_coded = is_coded;
    assert_int_equal(tt_fusion_plans_make(&plan, &f.config, &single, &f.engine.known), tuttiSuccess);
    assert_int_equal(plan->fusion.ngroups, 1);
    assert_int_equal(plan->nmessages, is_coded ? 1 : 6);
    assert_int_equal(plan->played.nmessages, plan->nmessages);
    double us = f.engine.known.model.backward_us;
    for (int32_t m = 0; m < plan->nmessages; m++) {
      assert_int_equal(plan->messages[m].bytes, plan->played.messages[m].bytes);
      us += tt_message_us(&f.engine.known.cost, plan->messages[m].bytes);
    }
    assert_true(fabs(plan->played.messages_end_us - us) < 1e-6);
    tt_fusion_plans_hold(&plan, NULL);
  }
  fusion_end(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_that_change_places_all_the_time_hinder_no_trial),
      cmocka_unit_test(a_plan_keeps_the_order_of_its_messages),
      cmocka_unit_test(without_priority_the_best_of_now_is_tried),
      cmocka_unit_test(a_plan_without_priority_is_tried_once_at_a_time),
      cmocka_unit_test(single_is_planned_as_the_messages_that_it_is),
      cmocka_unit_test(a_plan_that_stays_has_the_newest_cost_of_a_round),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
