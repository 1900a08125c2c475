/* SPDX-License-Identifier: BSD-3-Clause */
/* The time of one choice at one size, and its parts. */
#include <math.h>

#include "tuner/private.h"

/* The cost curve of this choice at the prices as they are now. Estimates have no prices: one will do. */
static tuttiResult_t us_find(double *us, struct tt_cost_curve *curve, const struct tt_choice *choice,
                             const struct tt_tuning *priced, uint64_t bytes)
{
  tuttiResult_t result = tuttiSuccess;
  if (!curve->estimate) result = tt_cost_curve_make_at(curve, choice, priced, choice->block_bytes, &bytes, 1);
  if (result == tuttiSuccess) *us = tt_cost_curve_us(curve, choice->block_bytes, bytes);
  return result;
}

tuttiResult_t tt_predict(struct tt_predicted *predicted, const struct tt_choice *choice, const struct tt_tuning *tuning,
                         uint64_t bytes)
{
  struct tt_prices prices = *tuning->prices;
  struct tt_tuning priced = *tuning;
  struct tt_cost_curve curve = {.n = 0};
  struct tt_predicted made = {.factor = 1};
  double all = 0, sent = 0, begun = 0;
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
  made.is_played = curve.n > 0;
  tt_cost_curve_destroy(&curve);
  if (result != tuttiSuccess) return result;
  made.latency_us = fmin(begun, all);
  made.bandwidth_us = fmax(fmin(sent, all) - made.latency_us, 0);
  made.reduction_us = all - made.latency_us - made.bandwidth_us;
  int32_t lines[2];
  made.factor = tt_factor(tuning->factors, choice, bytes, lines);
  made.anchor_line = lines[0];
  made.anchor_line2 = lines[1];
  made.us = made.factor * all;
  *predicted = made;
  return tuttiSuccess;
}
