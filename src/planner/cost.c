/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of a message. */
#include "planner/plan.h"

struct tt_message_cost tt_message_cost_line(double a_us, double b_us_per_byte)
{
  struct tt_message_cost cost = {.n = 1, .pieces = {{0, a_us, b_us_per_byte}}, .byte_us = b_us_per_byte};
  return cost;
}

struct tt_message_cost tt_message_cost_points(const uint64_t *bytes, const double *us, int32_t n)
{
  struct tt_message_cost cost = tt_message_cost_line(us[0], 0);
  if (n > TT_COST_PIECES - 1) n = TT_COST_PIECES - 1;
  cost.byte_us = us[0] / (double)bytes[0];
  for (int32_t k = 1; k < n; k++)
    if (us[k] < cost.byte_us * (double)bytes[k]) cost.byte_us = us[k] / (double)bytes[k];
  for (int32_t k = 0; k + 1 < n; k++) {
    double slope = (us[k + 1] - us[k]) / (double)(bytes[k + 1] - bytes[k]);
    cost.pieces[cost.n++] = (struct tt_message_cost_piece){bytes[k], us[k] - slope * (double)bytes[k], slope};
  }
  if (n > 1 && cost.pieces[cost.n - 1].b_us_per_byte < 0)
    cost.pieces[cost.n++] = (struct tt_message_cost_piece){bytes[n - 1], us[n - 1], 0};
  return cost;
}

double tt_message_us(const struct tt_message_cost *cost, uint64_t bytes)
{
  int32_t low = 0, high = cost->n; /* the piece is `low`, or one behind it and before `high` */
  while (high - low > 1) {
    int32_t middle = (low + high) / 2;
    if (cost->pieces[middle].from <= bytes) low = middle;
    else high = middle;
  }
  return cost->pieces[low].a_us + cost->pieces[low].b_us_per_byte * (double)bytes;
}
