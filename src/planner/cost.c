/* SPDX-License-Identifier: BSD-3-Clause */
/* The cost of a message. */
#include <math.h>

#include "planner/plan.h"

#define ROUNDING_US 1e-3 /* so far a time of 0 between two points may be below 0 */

static int is_time(double us)
{
  return isfinite(us) && us >= -ROUNDING_US;
}

int tt_message_cost_is_right(const struct tt_message_cost *cost)
{
  int is_right = cost->n >= 1 && cost->n <= TT_COST_PIECES && cost->pieces[0].from == 0 && is_time(cost->byte_us) &&
                 cost->free >= 0 && cost->free <= 1;
  for (int32_t k = 0; is_right && k < cost->n; k++) {
    const struct tt_message_cost_piece *piece = &cost->pieces[k];
    int is_last = k + 1 == cost->n;
    uint64_t last = is_last ? piece->from : piece[1].from - 1;
    is_right = (is_last || piece[1].from > piece->from) && (!is_last || piece->b_us_per_byte >= 0) &&
               isfinite(piece->b_us_per_byte) && is_time(piece->a_us + piece->b_us_per_byte * (double)piece->from) &&
               is_time(piece->a_us + piece->b_us_per_byte * (double)last);
  }
  return is_right;
}

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
