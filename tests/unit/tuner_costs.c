/* SPDX-License-Identifier: BSD-3-Clause */
/* The one price of a choice: it is the play of the schedule that runs, and messages of a fusion have the same.
 * Labels: plain, planner. */
#include <math.h>
#include <string.h>

#include "planner/price.h"
#include "sim/sim.h"
#include "tuned.h"
#include "tuner/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void final_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  tt_algo_schedule(context, schedule, shape, 0);
}

static void plain_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  ((const struct tt_algo *)context)->generate(schedule, shape);
}

static double played_us(const struct tuned *s, const struct tt_choice *choice, tt_generate_fn generate, size_t count)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct tt_sim_result got;
  struct tt_sim_play play = {.shape = tt_choice_shape(choice, &s->tuning, 0, kind->has_root ? 0 : -1),
                             .generate = generate, .context = (void *)(uintptr_t)algo, .is_whole = 1, .count = count,
                             .element_bytes = 4, .prices = &s->prices.links, .topology = &s->topology,
                             .order = kind->is_shared ? NULL : s->arrangement.order};
  assert_int_equal(tt_simulate(&play, &got), tuttiSuccess);
  return got.time_us;
}

static int rewritten; /* choices that take another time without passes */

static void check_final(const struct tuned *s, const struct tt_choice *choice)
{
  const uint64_t bytes = 24000;
  struct tt_cost_curve curve;
  assert_int_equal(tt_cost_curve_make_at(&curve, choice, &s->tuning, choice->block_bytes, &bytes, 1), tuttiSuccess);
  double runs = played_us(s, choice, final_generate, bytes / 4);
  if (curve.at[0].us != runs)
    fail_msg("%s %s of %d ranks is priced at %g us, runs in %g", tt_kinds[tt_algos[choice->algo].collective].name,
             tt_algos[choice->algo].name, (int)s->tuning.nranks, curve.at[0].us, runs);
  rewritten += runs != played_us(s, choice, plain_generate, bytes / 4);
}

static void the_schedule_that_runs_is_priced(void **state)
{
  (void)state;
  struct tuned s;
  struct tt_settings settings = {.lanes = 4};
  tuned_make(&s, 6, 2, "shm");
  for (int collective = 0; collective < TT_COLLECTIVES; collective++) {
    struct tt_choice choices[TT_CHOICES];
    int n = 0;
    if (!tt_kinds[collective].name) continue;
    assert_int_equal(tt_choices_find(choices, &n, collective, &settings, &s.tuning), tuttiSuccess);
    for (int c = 0; c < n; c++) check_final(&s, &choices[c]);
  }
  assert_true(rewritten > 0);
  tuned_destroy(&s);
}

/* Messages of a fusion cost what their all-reduces do, but no less a byte than the longest. */
static void messages_have_the_price_of_the_choice(void **state)
{
  (void)state;
  struct tuned s;
  struct tt_settings settings = {.lanes = 4};
  struct tt_message_cost cost;
  struct tt_table *table = tt_alloc(1, sizeof *table);
  struct tt_costs *costs;
  double us, last_us;
  tuned_make(&s, 6, 2, "shm");
  assert_int_equal(tt_table_make(table, &settings, &s.tuning), tuttiSuccess);
  assert_int_equal(tt_message_cost_price(&cost, table, &settings, &s.tuning), tuttiSuccess);
  assert_int_equal(tt_costs_make(&costs, TT_ALL_REDUCE, &settings, &s.tuning, NULL, 0), tuttiSuccess);
  int c = tt_costs_find(costs, tt_table_choice(table, TT_ALL_REDUCE, 1 << 30));
  assert_int_equal(tt_costs_us(costs, c, 1 << 30, &last_us), tuttiSuccess);
  for (uint64_t bytes = 64; bytes <= 1 << 30; bytes *= 2) {
    c = tt_costs_find(costs, tt_table_choice(table, TT_ALL_REDUCE, bytes));
    assert_int_equal(tt_costs_us(costs, c, bytes, &us), tuttiSuccess);
    double least_us = last_us / (1 << 30) * (double)bytes;
    assert_true(fabs(tt_message_us(&cost, bytes) / fmax(us, least_us) - 1) < 1e-9);
  }
  tt_costs_destroy(costs);
  tt_free(table);
  tuned_destroy(&s);
}

/* Jobs have learnt another choice than the table has: a fusion's communicators go by that, so its price counts. The
 * time that they have learnt does not, as waits are in it. */
static void a_message_that_was_learnt_has_the_price_of_its_choice(void **state)
{
  (void)state;
  struct tuned s;
  struct tt_settings settings = {.lanes = 4};
  struct tt_message_cost cost;
  struct tt_choice choices[TT_CHOICES];
  struct tt_table *table = tt_alloc(1, sizeof *table);
  int n;
  tuned_make(&s, 6, 2, "shm");
  assert_int_equal(tt_table_make(table, &settings, &s.tuning), tuttiSuccess);
  assert_int_equal(tt_choices_find(choices, &n, TT_ALL_REDUCE, &settings, &s.tuning), tuttiSuccess);
  int is_first = tt_choices_same(&choices[0], tt_table_choice(table, TT_ALL_REDUCE, 4096));
  table->learnt[table->nlearnt++] = (struct tt_learnt){.collective = TT_ALL_REDUCE,
                                                       .width = 2,
                                                       .ns = 7777777,
                                                       .size_class = (uint8_t)tt_size_class(4096),
                                                       .choice = choices[is_first]};
  assert_int_equal(tt_message_cost_price(&cost, table, &settings, &s.tuning), tuttiSuccess);
  struct tt_costs *costs;
  double us = 0;
  assert_int_equal(tt_costs_make(&costs, TT_ALL_REDUCE, &settings, &s.tuning, &choices[is_first], 1), tuttiSuccess);
  assert_int_equal(tt_costs_us(costs, tt_costs_find(costs, &choices[is_first]), 4096, &us), tuttiSuccess);
  assert_true(fabs(tt_message_us(&cost, 4096) / us - 1) < 1e-9);
  tt_costs_destroy(costs);
  tt_free(table);
  tuned_destroy(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_schedule_that_runs_is_priced),
      cmocka_unit_test(messages_have_the_price_of_the_choice),
      cmocka_unit_test(a_message_that_was_learnt_has_the_price_of_its_choice),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
