/* SPDX-License-Identifier: BSD-3-Clause */
/* What auto does at agreements, without ranks: plans are told what iterations by them take. */
#include "chance.h"
#include "fuser/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define TENSORS 4

/* By priority the first layer, which is ready last, overtakes the last one, which is long. */
static void fuser_make(struct tuttiFusion *f, struct tensor *tensors, struct tt_tensor *facts)
{
  static const uint64_t counts[TENSORS] = {1000, 20000, 20000, 800000};
  memset(f, 0, sizeof *f);
  memset(tensors, 0, TENSORS * sizeof *tensors);
  f->n = TENSORS;
  f->tensors = tensors;
  f->facts = facts;
  f->buffer_bytes = 64 << 20;
  f->engine_step = 1;
  f->cost = tt_message_cost_line(30, 0.001);
  assert_int_equal(tt_policy_parse(&f->policy, "auto"), tuttiSuccess);
  pthread_mutex_init(&f->mutex, NULL);
  for (int i = 0; i < TENSORS; i++) {
    tensors[i].count = counts[i];
    tensors[i].element = tensors[i].wire_element = 4;
    tensors[i].bytes = 4 * counts[i];
    tensors[i].type = tuttiFloat32;
  }
  assert_int_equal(tt_fuser_plan_first(f), tuttiSuccess);
  for (int i = 0; i < TENSORS; i++) {
    facts[i].ready_us = 500 * (TENSORS - i);
    facts[i].forward_us = 500;
  }
  f->net.backward_us = 500 * TENSORS;
}

static void fuser_end(struct tuttiFusion *f)
{
  tt_fuser_plan_free(f);
  tt_fuser_as_sent_free(&f->kept);
  tt_fuser_as_sent_free(&f->beaten);
  pthread_mutex_destroy(&f->mutex);
}

/* An agreement, at which iterations by the plan in use took us[by priority]. */
static void agree(struct tuttiFusion *f, const double us[2])
{
  f->agreements++;
  assert_int_equal(tt_fuser_plan_renew(f, us[f->plan.by_priority]), tuttiSuccess);
  f->engine_step = tt_trial_next(&f->trial, f->engine_step);
}

/* That is the beaten one, or the best that there is now: not one after the other. */
static void a_plan_without_priority_is_tried_once_at_a_time(void **state)
{
  static struct tuttiFusion f;
  struct tensor tensors[TENSORS];
  struct tt_tensor facts[TENSORS];
  static const double plain[2] = {80, 100}, urgent[2] = {100, 60};
  int tried = 0, was_plain = 0;
  (void)state;
  fuser_make(&f, tensors, facts);
  for (f.engine_step = 3; f.engine_step < 20;) agree(&f, plain); /* wins, and is beaten then */
  while (f.engine_step < 10000) {
    agree(&f, urgent);
    assert_false(was_plain && !f.plan.by_priority);
    was_plain = !f.plan.by_priority;
    tried += was_plain;
  }
  assert_in_range(tried, 10000 / 800, 30);
  fuser_end(&f);
}

/* Threads that push, or ranks that push in other orders. */
static void tensors_that_change_places_all_the_time_hinder_no_trial(void **state)
{
  static struct tuttiFusion f;
  struct tensor tensors[TENSORS];
  struct tt_tensor facts[TENSORS];
  static const double urgent[2] = {100, 60};
  int tried = 0;
  (void)state;
  fuser_make(&f, tensors, facts);
  f.engine_step = 3;
  for (int n = 0; n < 200; n++) {
    facts[1].ready_us = 1500;
    facts[2].ready_us = n % 2 ? 1500.1 : 1499.9;
    agree(&f, urgent);
    tried += !f.plan.by_priority;
  }
  assert_in_range(tried, 5, 30);
  assert_in_range(f.plans, 2, 80);
  fuser_end(&f);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors_that_change_places_all_the_time_hinder_no_trial),
      cmocka_unit_test(a_plan_without_priority_is_tried_once_at_a_time),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
