/* SPDX-License-Identifier: BSD-3-Clause */
/* Some ranks of many are played, and what all take follows from that.
 * Labels: plain, planner. */
#include <math.h>
#include <string.h>

#include "sim/sim.h"
#include "tuned.h"
#include "tuner/private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static void row_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  tt_algo_schedule(context, schedule, shape, 0);
}

static int of_some; /* choices of which only some ranks are played */

/* Blocks without elements are not sent: sizes begin where there are none. With one_shot each rank sends to each other
 * one, so node ports decide, which some ranks of a node fill less; among many ranks it is never near the best. */
static void check_some(const struct tuned *s, const struct tt_choice *choice)
{
  const struct tt_algo *algo = &tt_algos[choice->algo];
  const struct tt_kind *kind = &tt_kinds[algo->collective];
  struct tt_shape shape = tt_choice_shape_priced(choice, &s->tuning, 0);
  struct tt_cost_curve curve;
  if (strcmp(algo->name, "one_shot") == 0) return;
  for (size_t count = (size_t)shape.nblocks; count <= 1 << 20; count *= 32) {
    struct tt_sim_result got;
    uint64_t bytes = count * 4;
    struct tt_sim_play play = {.shape = shape, .generate = row_generate, .context = (void *)(uintptr_t)algo,
                               .is_whole = 1, .count = count, .element_bytes = 4, .prices = &s->prices.links,
                               .topology = &s->topology, .order = kind->is_shared ? NULL : s->arrangement.order};
    assert_int_equal(tt_cost_curve_make_at(&curve, choice, &s->tuning, 1 << 24, &bytes, 1), tuttiSuccess);
    if (!curve.is_of_some) return;
    assert_int_equal(tt_simulate(&play, &got), tuttiSuccess);
    double ratio = curve.at[0].us / got.time_us;
    if (!(ratio > 0.3 && ratio < 2))
      fail_msg("%s %s of %d ranks, %llu bytes: %g us by some ranks, %g us by all", kind->name, algo->name,
               (int)s->tuning.nranks, (unsigned long long)bytes, curve.at[0].us, got.time_us);
  }
  of_some++;
}

static void some_ranks_take_about_what_all_take(void **state)
{
  (void)state;
  const int sizes[][2] = {{1, 40}, {1, 64}, {36, 1}, {8, 6}, {5, 13}};
  struct tt_settings settings = {.lanes = 4};
  for (size_t k = 0; k < sizeof sizes / sizeof sizes[0]; k++) {
    struct tuned s;
    tuned_make(&s, sizes[k][0] * sizes[k][1], sizes[k][0], "shm");
    of_some = 0;
    for (int collective = 0; collective < TT_COLLECTIVES; collective++) {
      struct tt_choice choices[TT_CHOICES];
      int n = 0;
      if (tt_kinds[collective].name)
        assert_int_equal(tt_choices_find(choices, &n, collective, &settings, &s.tuning), tuttiSuccess);
      for (int c = 0; c < n; c++) check_some(&s, &choices[c]);
    }
    assert_true(of_some > 0);
    tuned_destroy(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(some_ranks_take_about_what_all_take),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
