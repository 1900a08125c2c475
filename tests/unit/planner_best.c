/* SPDX-License-Identifier: BSD-3-Clause */
/* The best plans: by brute force, and beside all others.
 * Labels: serial, planner. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"
#include "nets.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- optimal ---- */

/* The shortest iteration of all 2^(n - 1) ways to cut the order of backward. */
static double brute_us(const struct drawn *d)
{
  int32_t n = d->net.n;
  double best_us = HUGE_VAL;
  for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
    double end_us = 0;
    uint64_t bytes = 0;
    for (int32_t l = n - 1; l >= 0; l--) {
      bytes += d->tensors[l].bytes;
      if (l && !(cuts >> (l - 1) & 1)) continue;
      end_us = fmax(end_us, d->tensors[l].ready_us) + tt_message_us(&d->cost, bytes);
      bytes = 0;
    }
    best_us = fmin(best_us, fmax(end_us, d->net.backward_us) + net_forward_us(d));
  }
  return best_us;
}

static void optimal_equals_brute_force(void **state)
{
  static struct drawn d;
  uint64_t chance = 6;
  int beats_mgwfbp = 0, has_pieces = 0, rounds = IS_SLOW ? 400 : 5000;
  (void)state;
  for (int round = 0; round < rounds; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 10));
    cost_draw(&d, &chance);
    double us = us_of("optimal", &d);
    assert_true(us == brute_us(&d));
    beats_mgwfbp += us < us_of("mgwfbp", &d);
    has_pieces += d.cost.n > 1;
  }
  assert_true(beats_mgwfbp > rounds / 20 && has_pieces > rounds / 5); /* so the networks are such that it matters */
}

/* ---- several types ---- */

/* What the messages of the tensors from `first` down to `last` take, one of each type after the other. */
static double typed_us(const struct drawn *d, int32_t first, int32_t last)
{
  double us = 0;
  for (int32_t type = 0; type < 3; type++) {
    uint64_t bytes = 0;
    int n = 0;
    for (int32_t l = first; l >= last; l--) {
      if (d->tensors[l].type != type) continue;
      bytes += d->tensors[l].bytes;
      n++;
    }
    if (n) us += tt_message_us(&d->cost, bytes);
  }
  return us;
}

/* As brute_us; none of a run's messages begins before all of it is ready. */
static double typed_brute_us(const struct drawn *d)
{
  int32_t n = d->net.n;
  double best_us = HUGE_VAL;
  for (uint32_t cuts = 0; cuts < 1u << (n - 1); cuts++) {
    double end_us = 0;
    int32_t first = n - 1;
    for (int32_t l = n - 1; l >= 0; l--) {
      if (l && !(cuts >> (l - 1) & 1)) continue;
      end_us = fmax(end_us, d->tensors[l].ready_us) + typed_us(d, first, l);
      first = l - 1;
    }
    best_us = fmin(best_us, fmax(end_us, d->net.backward_us) + net_forward_us(d));
  }
  return best_us;
}

static void tensors_of_several_types_take_a_message_each_and_no_more(void **state)
{
  static struct drawn d;
  uint64_t chance = 16;
  int beats = 0, rounds = IS_SLOW ? 100 : 2000;
  (void)state;
  for (int round = 0; round < rounds; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 10));
    cost_draw(&d, &chance);
    int32_t ntypes = 0, is_there[3] = {0};
    for (int32_t l = 0; l < d.net.n; l++) d.tensors[l].type = (int32_t)below(&chance, 3);
    for (int32_t l = 0; l < d.net.n; l++) ntypes += !is_there[d.tensors[l].type]++;
    struct tt_fusion_plan single = plan_of("single", &d);
    assert_int_equal(single.ngroups, ntypes);
    tt_fusion_plan_destroy(&single);
    double us = us_of("optimal", &d), brute_us = typed_brute_us(&d);
    assert_true(us <= brute_us && us_of("auto", &d) <= us);
    beats += us < brute_us;
  }
  assert_true(beats < rounds / 2); /* by types that are ready before the rest of their run */
}

/* ---- beside all others ---- */

static void optimal_is_never_behind_other_merges_nor_auto_behind_anything(void **state)
{
  static const char *const usual[] = {"p3:40000", "p3"}, *const others[] = {"p3:2048", "p3:8192", "p3:16384"};
  static struct drawn d;
  uint64_t chance = 7;
  int beats = 0, rounds = IS_SLOW ? 10 : 150;
  (void)state;
  for (int round = 0; round < rounds; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 200));
    cost_draw(&d, &chance);
    for (int32_t l = 0; l < d.net.n && round % 2; l++) { /* so that slices of 8,192 elements matter */
      d.tensors[l].count *= 1000;
      d.tensors[l].bytes *= 1000;
    }
    for (int32_t k = 0; k < d.cost.n && round % 2; k++) d.cost.pieces[k].b_us_per_byte /= 1024;
    double optimal = us_of("optimal", &d), best = us_of("auto", &d);
    assert_true(best <= optimal);
    beats += best < optimal;
    for (size_t p = 0; p < MERGING; p++) assert_true(optimal <= us_of(merging[p], &d));
    for (size_t p = 0; p < 2; p++) assert_true(best <= us_of(usual[p], &d));
    for (size_t p = 0; p < 3; p++) assert_true(best <= 1.01 * us_of(others[p], &d));
    struct tt_policy given = {.kind = TT_POLICY_AUTO, .slice = 777};
    struct tt_fusion_plan plan;
    assert_int_equal(tt_fusion_plan_make(&plan, &given, &d.net, &d.cost), tuttiSuccess);
    assert_true(played_us(&plan, &d) <= us_of("p3:777", &d));
    tt_fusion_plan_destroy(&plan);
  }
  assert_true(beats > rounds / 4);
}

/* VGG-19, where backward, forward and messages take about the same: the finer the slices of its large layer, the
 * shorter, but hardly. Start-ups are next to nothing, and a few messages as good as hundreds. */
static void auto_takes_few_messages_where_many_gain_next_to_nothing(void **state)
{
  static const uint64_t hundreds[] = {
      1, 5, 9, 18, 37, 74, 74, 74, 148, 295, 295, 295, 295, 295, 295, 295, 12846, 2098, 512};
  static const double backward[] = {
      1732, 11567, 5112, 8694, 4035, 7258, 7258, 7258, 3497, 6540, 6540, 6540, 1706, 1706, 1706, 1706, 439, 154,
      112};
  static const double forward[] = {
      1653, 5672, 2507, 4264, 1979, 3559, 3559, 3559, 1715, 3207, 3207, 3207, 836, 836, 836, 836, 215, 75, 55};
  static struct drawn d;
  uint64_t bytes[19];
  struct tt_played played = {.nmessages = 0};
  (void)state;
  for (int l = 0; l < 19; l++) bytes[l] = 400 * hundreds[l];
  net_make(&d, 19, backward, bytes, forward);
  for (int l = 0; l < 19; l++) d.tensors[l].count = 100 * hundreds[l];
  d.cost = tt_message_cost_line(30, 0.01281);
  struct tt_fusion_plan plan = plan_of("auto", &d);
  assert_int_equal(tt_fusion_plan_play(&played, &plan, &d.net, &d.cost), tuttiSuccess);
  double fine_us = us_of("p3:2048", &d), bound_us;
  assert_int_equal(tt_fusion_bound(&d.net, &d.cost, &bound_us), tuttiSuccess);
  print_message("%d messages: %.4f of p3:2048, %.4f of the bound\n", (int)played.nmessages,
                played.iteration_us / fine_us, played.iteration_us / bound_us);
  assert_true(played.iteration_us <= 1.01 * fine_us && played.iteration_us < 1.02 * bound_us);
  assert_true(played.nmessages <= 100);
  tt_played_destroy(&played);
  tt_fusion_plan_destroy(&plan);
}

/* ---- what no plan can beat ---- */

static double bound_of(const struct drawn *d)
{
  double us;
  assert_int_equal(tt_fusion_bound(&d->net, &d->cost, &us), tuttiSuccess);
  return us;
}

static void no_plan_is_shorter_than_the_bound(void **state)
{
  static struct drawn d;
  uint64_t chance = 9;
  int reached = 0, rounds = IS_SLOW ? 20 : 400;
  (void)state;
  for (int round = 0; round < rounds; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 60));
    cost_draw(&d, &chance);
    double bound = bound_of(&d), best = us_of("auto", &d);
    assert_true(bound <= best && bound >= (d.net.backward_us + net_forward_us(&d)) * (1 - 1e-11));
    for (size_t p = 0; p < MERGING; p++) assert_true(bound <= us_of(merging[p], &d));
    assert_true(bound <= us_of("p3:1", &d));
    reached += best <= bound * (1 + 1e-11);
  }
  assert_true(reached > rounds / 10);
}

/* Where messages cost nothing but their bytes, single elements by priority are at most one of them above it. */
static void slices_of_one_element_reach_the_bound_where_messages_are_free(void **state)
{
  static struct drawn d;
  uint64_t chance = 10;
  (void)state;
  for (int round = 0; round < 100; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 60));
    d.cost = tt_message_cost_line(0, 3);
    double bound = bound_of(&d), us = us_of("p3:1", &d);
    assert_true(bound <= us && us <= (bound + 3 * 8) * (1 + 1e-11));
  }
}

/* ---- ready times with a spread ---- */

/* The mean iteration of a plan where tensors are ready at other times by these parts of their spread. */
static double mean_us(const struct tt_fusion_plan *plan, const struct drawn *d, const double *parts, int n)
{
  static struct drawn moved;
  double sum_us = 0;
  for (int k = 0; k < n; k++) {
    double now_us = 0;
    moved = *d;
    moved.net.tensors = moved.tensors;
    for (int32_t i = 0; i < d->net.n; i++) {
      struct tt_tensor *tensor = &moved.tensors[plan->order[i]];
      now_us = tensor->ready_us = fmax(now_us, tensor->ready_us + parts[k] * tensor->spread_us);
    }
    moved.net.backward_us = now_us;
    sum_us += played_us(plan, &moved);
  }
  return sum_us / n;
}

/* Long layers, so that they are cut into slices, and ready times that vary by a tenth. */
static void spread_draw(struct drawn *d, uint64_t *chance)
{
  net_draw(d, chance, 2 + (int32_t)below(chance, 20));
  for (int32_t l = 0; l < d->net.n; l++) {
    d->tensors[l].count *= 1024;
    d->tensors[l].bytes *= 1024;
    d->tensors[l].spread_us = d->tensors[l].ready_us / 8;
  }
  d->cost = tt_message_cost_line((double)below(chance, 4), 0.0001 * (double)(1 + below(chance, 8)));
}

/* On average no plan of optimal or p3 is better, and plans that were made without the spread are worse. */
static void plans_for_ready_times_with_a_spread_bear_it(void **state)
{
  static const double moves[] = {0, -1, 1, 2}, others[] = {-1, -0.5, 0, 0.5, 1, 1.5, 2};
  static struct drawn d, certain;
  uint64_t chance = 12;
  double borne_us = 0, else_us = 0;
  (void)state;
  for (int round = 0; round < 300; round++) {
    spread_draw(&d, &chance);
    certain = d;
    certain.net.tensors = certain.tensors;
    for (int32_t l = 0; l < d.net.n; l++) certain.tensors[l].spread_us = 0;
    struct tt_fusion_plan plan = plan_of("auto", &d), plain = plan_of("auto", &certain);
    struct tt_fusion_plan optimal = plan_of("optimal", &d), p3 = plan_of("p3", &d);
    double us = mean_us(&plan, &d, moves, 4) * (1 - 1e-11), told_us = played_us(&plan, &d);
    assert_int_equal(tt_fusion_plan_mean(&told_us, &plan, &d.net, &d.cost), tuttiSuccess);
    assert_true(told_us >= us && told_us * (1 - 2e-11) <= us);
    assert_true(us <= mean_us(&optimal, &d, moves, 4) && us <= mean_us(&p3, &d, moves, 4));
    borne_us += mean_us(&plan, &d, others, 7);
    else_us += mean_us(&plain, &d, others, 7);
    tt_fusion_plan_destroy(&plan);
    tt_fusion_plan_destroy(&plain);
    tt_fusion_plan_destroy(&optimal);
    tt_fusion_plan_destroy(&p3);
  }
  print_message("with the spread / without: %.4f\n", borne_us / else_us);
  assert_true(borne_us < 0.999 * else_us);
}

/* ---- speed and memory ---- */

/* Whatever they are asked for, plans are made of the same numbers, so they are the same on all ranks. */
static void plans_of_the_same_numbers_are_the_same(void **state)
{
  static struct drawn d;
  char one[4096], other[4096];
  uint64_t chance = 8;
  (void)state;
  for (int round = 0; round < 20; round++) {
    net_draw(&d, &chance, 1 + (int32_t)below(&chance, 200));
    cost_draw(&d, &chance);
    struct tt_fusion_plan first = plan_of("auto", &d), second = plan_of("auto", &d);
    groups_text(one, sizeof one, &first);
    groups_text(other, sizeof other, &second);
    assert_string_equal(one, other);
    assert_int_equal(first.by_priority, second.by_priority);
    for (int32_t g = 0; g < first.ngroups; g++)
      assert_int_equal(first.groups[g].slice_bytes, second.groups[g].slice_bytes);
    tt_fusion_plan_destroy(&first);
    tt_fusion_plan_destroy(&second);
  }
}

static void a_failed_allocation_is_an_error(void **state)
{
  const double backward[] = {2, 1, 1};
  const uint64_t bytes[] = {1, 1, 1};
  static struct drawn drawn, *d = &drawn;
  const struct tt_policy policy = {.kind = TT_POLICY_AUTO};
  struct tt_fusion_plan plan;
  struct tt_played played;
  long n = 1;
  (void)state;
  net_make(d, 3, backward, bytes, NULL);
  d->cost = tt_message_cost_line(2, 1);
  d->tensors[0].spread_us = 1;
  tuttiResult_t result = tuttiSystemError;
  for (; result != tuttiSuccess; n++) {
    tt_alloc_fail_at(n);
    result = tt_fusion_plan_make(&plan, &policy, &d->net, &d->cost);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_true(n > 10);
  for (result = tuttiSystemError, n = 1; result != tuttiSuccess; n++) {
    tt_alloc_fail_at(n);
    result = tt_fusion_plan_play(&played, &plan, &d->net, &d->cost);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_true(n > 10);
  double us = played.iteration_us;
  for (result = tuttiSystemError, n = 1; result != tuttiSuccess; n++) {
    tt_alloc_fail_at(n);
    result = tt_fusion_plan_mean(&us, &plan, &d->net, &d->cost);
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_true(n > 10);
  tt_alloc_fail_at(0);
  tt_played_destroy(&played);
  tt_fusion_plan_destroy(&plan);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(optimal_equals_brute_force),
      cmocka_unit_test(tensors_of_several_types_take_a_message_each_and_no_more),
      cmocka_unit_test(optimal_is_never_behind_other_merges_nor_auto_behind_anything),
      cmocka_unit_test(auto_takes_few_messages_where_many_gain_next_to_nothing),
      cmocka_unit_test(no_plan_is_shorter_than_the_bound),
      cmocka_unit_test(slices_of_one_element_reach_the_bound_where_messages_are_free),
      cmocka_unit_test(plans_for_ready_times_with_a_spread_bear_it),
      cmocka_unit_test(plans_of_the_same_numbers_are_the_same),
      cmocka_unit_test(a_failed_allocation_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
