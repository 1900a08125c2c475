/* SPDX-License-Identifier: BSD-3-Clause */
/* The price of a choice: the play of the schedule that runs, times measured / played. */
#include <math.h>

#include "tuner/private.h"

/* Choices that differ only in the length of blocks share the curve of the first one. */
static void curves_share(struct tt_costs *costs)
{
  for (int c = 0; c < costs->n; c++) {
    int first = 0;
    while (!tt_choices_same_but_block(&costs->choices[first], &costs->choices[c])) first++;
    costs->curve_of[c] = first;
    costs->nblocks[c] = tt_choice_shape_priced(&costs->choices[first], costs->tuning, 0).nblocks;
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
  tt_calibration_destroy(costs->calibration);
  tt_free(costs);
}

int tt_costs_find(const struct tt_costs *costs, const struct tt_choice *choice)
{
  int c = 0;
  while (c < costs->n && !tt_choices_same(&costs->choices[c], choice)) c++;
  return c < costs->n ? c : -1;
}

void tt_costs_share(struct tt_costs *costs, const struct tt_costs *of)
{
  for (int c = 0; c < costs->n; c++) {
    int other = 0;
    while (other < of->n && !tt_choices_same_but_block(&of->choices[other], &costs->choices[c])) other++;
    if (costs->curve_of[c] == c && other < of->n && of->longest[other] >= costs->longest[c])
      costs->curves[c] = of->curves[other];
  }
}

/* Makes the calibration before the first ratio is asked for: nothing is played where there is no choice. */
static tuttiResult_t ratio_find(struct tt_costs *costs, int c, uint64_t bytes, int32_t lines[2], double *ratio)
{
  const struct tt_choice *choice = &costs->choices[c];
  int collective = tt_algos[choice->algo].collective, n = costs->n < TT_CHOICES ? costs->n : TT_CHOICES;
  tuttiResult_t result = tuttiSuccess;
  if (!costs->calibration)
    result = tt_calibration_make(&costs->calibration, collective, costs->choices, n, costs->tuning);
  if (result == tuttiSuccess) *ratio = tt_calibration_ratio(costs->calibration, choice, bytes, lines);
  return result;
}

/* The price as it is played, before it is calibrated. */
static tuttiResult_t played_find(struct tt_costs *costs, int c, uint64_t bytes, double *us)
{
  const struct tt_choice *choice = &costs->choices[c];
  int first = costs->curve_of[c];
  struct tt_cost_curve *curve = &costs->curves[first];
  tuttiResult_t result = tuttiSuccess;
  if (!curve->tuning) result = tt_cost_curve_make(curve, choice, costs->tuning, costs->longest[first]);
  if (result == tuttiSuccess) *us = tt_cost_curve_us(curve, choice->block_bytes, bytes);
  else curve->tuning = NULL;
  return result;
}

tuttiResult_t tt_costs_us(struct tt_costs *costs, int c, uint64_t bytes, double *us)
{
  int32_t lines[2];
  double played = 0, ratio;
  tuttiResult_t result = played_find(costs, c, bytes, &played);
  if (result == tuttiSuccess) result = ratio_find(costs, c, bytes, lines, &ratio);
  if (result == tuttiSuccess) *us = ratio * played;
  return result;
}

/* ---- the parts of a price ---- */

/* Plays the choice at this size and these prices. */
static tuttiResult_t us_find(double *us, const struct tt_choice *choice, const struct tt_tuning *priced, uint64_t bytes)
{
  struct tt_cost_curve curve;
  tuttiResult_t result = tt_cost_curve_make_at(&curve, choice, priced, choice->block_bytes, &bytes, 1);
  if (result == tuttiSuccess) *us = tt_cost_curve_us(&curve, choice->block_bytes, bytes);
  return result;
}

/* Plays it with all prices, without that of combining, and with bytes that cost nothing. */
static tuttiResult_t parts_play(struct tt_predicted *made, const struct tt_choice *choice,
                                const struct tt_tuning *tuning, uint64_t bytes)
{
  struct tt_prices prices = *tuning->prices;
  struct tt_tuning priced = *tuning;
  double all = 0, sent = 0, begun = 0;
  priced.prices = &prices;
  tuttiResult_t result = us_find(&all, choice, &priced, bytes);
  prices.links.gamma_us_per_mib = 0;
  if (result == tuttiSuccess) result = us_find(&sent, choice, &priced, bytes);
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    struct tt_curve *link = &prices.links.link[kind];
    double overhead_us = link->overhead_us;
    *link = tt_curve_line(link->part[0].alpha_us, 0);
    link->overhead_us = overhead_us;
  }
  if (result == tuttiSuccess) result = us_find(&begun, choice, &priced, bytes);
  made->latency_us = fmin(begun, all);
  made->bandwidth_us = fmax(fmin(sent, all) - made->latency_us, 0);
  made->reduction_us = all - made->latency_us - made->bandwidth_us;
  return result;
}

tuttiResult_t tt_costs_split(struct tt_costs *costs, int c, uint64_t bytes, struct tt_predicted *predicted)
{
  struct tt_predicted made = {.us = 0};
  double played = 0;
  int32_t lines[2];
  if (bytes < 1) bytes = 1;
  tuttiResult_t result = played_find(costs, c, bytes, &played);
  if (result == tuttiSuccess) result = parts_play(&made, &costs->choices[c], costs->tuning, bytes);
  if (result == tuttiSuccess) result = ratio_find(costs, c, bytes, lines, &made.factor);
  if (result != tuttiSuccess) return result;
  double part = played / (made.latency_us + made.bandwidth_us + made.reduction_us);
  made.latency_us *= part;
  made.bandwidth_us *= part;
  made.reduction_us *= part;
  made.anchor_line = lines[0];
  made.anchor_line2 = lines[1];
  made.is_played = !costs->curves[costs->curve_of[c]].is_of_some;
  made.us = made.factor * played;
  *predicted = made;
  return tuttiSuccess;
}
