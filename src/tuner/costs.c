/* SPDX-License-Identifier: BSD-3-Clause */
/* The price of a choice: the play of the schedule that runs, times measured / played. */
#include <math.h>

#include "tuner/private.h"

static int32_t nblocks_of(const struct tt_choice *choice, const struct tt_tuning *tuning)
{
  int has_root = tt_kinds[tt_algos[choice->algo].collective].has_root;
  return tt_choice_shape(choice, tuning, 0, has_root ? 0 : -1).nblocks;
}

/* Choices that differ only in the length of blocks share the curve of the first one. */
static void curves_share(struct tt_costs *costs)
{
  for (int c = 0; c < costs->n; c++) {
    int first = 0;
    while (!tt_choices_same_but_block(&costs->choices[first], &costs->choices[c])) first++;
    costs->curve_of[c] = first;
    costs->nblocks[c] = first < c ? costs->nblocks[first] : nblocks_of(&costs->choices[c], costs->tuning);
    if (costs->choices[c].block_bytes > costs->longest[first]) costs->longest[first] = costs->choices[c].block_bytes;
  }
}

tuttiResult_t tt_costs_make(struct tt_costs **out, int collective, const struct tt_settings *settings,
                            const struct tt_tuning *tuning, const struct tt_choice *more, int nmore)
{
  struct tt_costs *costs = tt_alloc(1, sizeof *costs);
  if (!costs) return tt_fail(tuttiSystemError, "no memory for the prices of choices: give the process more");
  costs->tuning = tuning;
  tuttiResult_t result = tt_choices_find(costs->choices, &costs->n, collective, settings, tuning);
  costs->ncandidates = costs->n;
  for (int k = 0; k < nmore && result == tuttiSuccess; k++)
    if (tt_costs_find(costs, &more[k]) < 0) costs->choices[costs->n++] = more[k];
  if (result == tuttiSuccess) curves_share(costs);
  if (result == tuttiSuccess) *out = costs;
  else tt_costs_destroy(costs);
  return result;
}

void tt_costs_destroy(struct tt_costs *costs)
{
  if (!costs) return;
  for (int c = 0; c < costs->n; c++) tt_cost_curve_destroy(&costs->curves[c]);
  tt_factors_destroy(costs->factors);
  tt_free(costs);
}

int tt_costs_find(const struct tt_costs *costs, const struct tt_choice *choice)
{
  int c = 0;
  while (c < costs->n && !tt_choices_same(&costs->choices[c], choice)) c++;
  return c < costs->n ? c : -1;
}

/* Makes the factors before the first one is asked for: nothing is played where there is no choice. */
static tuttiResult_t factor_find(struct tt_costs *costs, int c, uint64_t bytes, int32_t lines[2], double *factor)
{
  const struct tt_choice *choice = &costs->choices[c];
  int collective = tt_algos[choice->algo].collective, n = costs->n < TT_CHOICES ? costs->n : TT_CHOICES;
  tuttiResult_t result = tuttiSuccess;
  if (!costs->factors) result = tt_factors_make(&costs->factors, collective, costs->choices, n, costs->tuning);
  *factor = tt_factor(costs->factors, choice, bytes, lines);
  return result;
}

tuttiResult_t tt_costs_us(struct tt_costs *costs, int c, uint64_t bytes, double *us)
{
  const struct tt_choice *choice = &costs->choices[c];
  struct tt_cost_curve *curve = &costs->curves[costs->curve_of[c]];
  int32_t lines[2];
  double factor;
  tuttiResult_t result = tuttiSuccess;
  if (!curve->tuning) result = tt_cost_curve_make(curve, choice, costs->tuning, costs->longest[costs->curve_of[c]]);
  if (result != tuttiSuccess) tt_cost_curve_destroy(curve);
  else result = factor_find(costs, c, bytes, lines, &factor);
  if (result == tuttiSuccess) *us = factor * tt_cost_curve_us(curve, choice->block_bytes, bytes);
  return result;
}

/* ---- the parts of a price ---- */

/* Plays the choice at this size and these prices. Estimates have no prices: one will do. */
static tuttiResult_t us_find(double *us, struct tt_cost_curve *curve, const struct tt_choice *choice,
                             const struct tt_tuning *priced, uint64_t bytes)
{
  tuttiResult_t result = tuttiSuccess;
  if (!curve->estimate) result = tt_cost_curve_make_at(curve, choice, priced, choice->block_bytes, &bytes, 1);
  if (result == tuttiSuccess) *us = tt_cost_curve_us(curve, choice->block_bytes, bytes);
  return result;
}

tuttiResult_t tt_costs_split(struct tt_costs *costs, int c, uint64_t bytes, struct tt_predicted *predicted)
{
  const struct tt_choice *choice = &costs->choices[c];
  struct tt_prices prices = *costs->tuning->prices;
  struct tt_tuning priced = *costs->tuning;
  struct tt_cost_curve curve = {.n = 0};
  double all = 0, sent = 0, begun = 0;
  int32_t lines[2];
  if (bytes < 1) bytes = 1;
  priced.prices = &prices;
  tuttiResult_t result = us_find(&all, &curve, choice, &priced, bytes);
  prices.links.gamma_us_per_mib = 0;
  if (result == tuttiSuccess) result = us_find(&sent, &curve, choice, &priced, bytes);
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    struct tt_curve *link = &prices.links.link[kind];
    double overhead_us = link->overhead_us;
    *link = tt_curve_line(link->part[0].alpha_us, 0);
    link->overhead_us = overhead_us;
  }
  if (result == tuttiSuccess) result = us_find(&begun, &curve, choice, &priced, bytes);
  struct tt_predicted made = {.is_played = curve.n > 0, .latency_us = fmin(begun, all)};
  tt_cost_curve_destroy(&curve);
  if (result == tuttiSuccess) result = factor_find(costs, c, bytes, lines, &made.factor);
  if (result != tuttiSuccess) return result;
  made.bandwidth_us = fmax(fmin(sent, all) - made.latency_us, 0);
  made.reduction_us = all - made.latency_us - made.bandwidth_us;
  made.anchor_line = lines[0];
  made.anchor_line2 = lines[1];
  made.us = made.factor * all;
  *predicted = made;
  return tuttiSuccess;
}
