/* SPDX-License-Identifier: BSD-3-Clause */
/* What the constants of auto's trials cost (src/fusion/trial.c), simulated: training loops on a machine with slow
 * phases and iterations that vary. Prints for each case by how many percent the steps took longer than if each had been
 * by the plan that is best then, and how often in 1,000 steps ranks agreed and plans changed. tests/bench/trials_sweep
 * builds it with one constant after the other changed. */
#include <stdio.h>
#include <stdlib.h>

#include "chance.h"
#include "fusion/trial_private.h"

#define STEPS 4000
#define SEEDS 300
#define VARIES 0.06 /* iterations take up to this part more */

enum { NONE = -1, FIRST, PLAIN, PROMISED, PLANS };

struct scenario {
  double us[PLANS], promise_us; /* what steps take by each plan; what PROMISED promises, 0: there is no such plan */
  double then_us[PLANS];        /* what they take from the middle on; 0: as before */
};

static const struct scenario scenarios[] = {
    {{100, 110}, 0, {0}},          /* the first plan is the best */
    {{105, 100}, 0, {0}},          /* that without priority is */
    {{100, 130, 80}, 80, {0}},     /* one that promises more keeps it */
    {{100, 130, 110}, 80, {0}},    /* or does not */
    {{100, 110}, 0, {120, 100}},   /* the first plan becomes slower than the one without priority */
};

struct loop {
  const struct scenario *scenario;
  struct tt_trial trial;
  int now, kept, beaten;
  long agreements, changes;
};

static int agree(struct loop *loop, uint64_t step, double us)
{
  int was = loop->now;
  double promise_us = loop->scenario->promise_us;
  enum tt_verdict verdict = tt_trial_ends(&loop->trial, step, us);
  if (verdict == TT_TRIED_WELL) loop->beaten = loop->kept;
  if (verdict == TT_TRIED_IN_VAIN) loop->now = loop->kept;
  struct tt_promises promises = {.now_us = loop->now == PROMISED ? promise_us : 100,
                                 .new_us = promise_us > 0 ? promise_us : 100,
                                 .has_beaten = loop->beaten != NONE,
                                 .has_plain = loop->now != PLAIN && loop->beaten != PLAIN};
  enum tt_try what = tt_trial_begins(&loop->trial, step, &promises);
  if (what != TT_TRY_NOTHING) {
    loop->kept = loop->now;
    loop->now = what == TT_TRY_PLAIN ? PLAIN : what == TT_TRY_BEATEN ? loop->beaten : PROMISED;
  }
  loop->changes += loop->now != was;
  return loop->now != was;
}

static int by_length(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* As a fusion judges: the lower quartile of the last steps. */
static double judged(const double *recent, int n)
{
  double sorted[TT_TRIAL_STEPS];
  if (n > TT_TRIAL_STEPS) n = TT_TRIAL_STEPS;
  for (int k = 0; k < n; k++) sorted[k] = recent[k];
  qsort(sorted, (size_t)n, sizeof *sorted, by_length);
  return n ? sorted[n / 4] : 0;
}

/* Adds what all steps took to *us, and what they would have by the best plan to *best_us. */
static void loop_run(struct loop *loop, uint64_t seed, double *us, double *best_us)
{
  const struct scenario *scenario = loop->scenario;
  uint64_t next = tt_trial_next(&loop->trial, 0), phase = 0;
  double factor = 1, recent[TT_TRIAL_STEPS];
  int n = 0, nplans = scenario->promise_us > 0 ? PLANS : PROMISED;
  for (uint64_t step = 1; step <= STEPS; step++) {
    const double *plans_us = step > STEPS / 2 && scenario->then_us[0] > 0 ? scenario->then_us : scenario->us;
    double least_us = plans_us[0];
    for (int p = 1; p < nplans; p++) least_us = plans_us[p] < least_us ? plans_us[p] : least_us;
    if (phase-- == 0) {
      phase = below(&seed, 25);
      factor = below(&seed, 3) ? 1 : 1 + (double)below(&seed, 1000) / 1000;
    }
    double more = factor * (1 + VARIES * (double)below(&seed, 1000) / 1000);
    recent[n++ % TT_TRIAL_STEPS] = plans_us[loop->now] * more;
    *us += plans_us[loop->now] * more;
    *best_us += least_us * more;
    if (step < next) continue;
    if (++loop->agreements > 1 && agree(loop, step, judged(recent, n))) n = 0;
    next = tt_trial_next(&loop->trial, step);
  }
}

int main(void)
{
  long agreements = 0, changes = 0;
  int n = (int)(sizeof scenarios / sizeof *scenarios);
  for (int k = 0; k < n; k++) {
    double us = 0, best_us = 0;
    for (uint64_t seed = 1; seed <= SEEDS; seed++) {
      struct loop loop = {.scenario = &scenarios[k], .beaten = NONE};
      loop_run(&loop, seed, &us, &best_us);
      agreements += loop.agreements;
      changes += loop.changes;
    }
    printf("%6.2f |", 100 * (us / best_us - 1));
  }
  double thousands = (double)n * SEEDS * STEPS / 1000;
  printf(" %6.1f | %6.1f\n", (double)agreements / thousands, (double)changes / thousands);
  return 0;
}
