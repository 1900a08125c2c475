/* SPDX-License-Identifier: BSD-3-Clause */
#include "planner/price.h"

#define LEAST 64u
#define MOST (1u << 30)
#define FLOAT_WIDTH 2 /* as in struct tt_learnt */

/* Messages of gradients follow each other, and a train of short ones carries no more bytes a second than the longest
 * message does: caches and buffers that make a single one look faster than that are full. */
static void train_bound(const uint64_t *bytes, double *us, int32_t n)
{
  double us_per_byte = us[n - 1] / (double)bytes[n - 1];
  for (int32_t i = 0; i < n; i++)
    if (us[i] < us_per_byte * (double)bytes[i]) us[i] = us_per_byte * (double)bytes[i];
}

/* The choice by which float sums of this size go: that of earlier jobs, or of the table. */
static const struct tt_choice *choice_find(const struct tt_table *table, uint64_t bytes)
{
  for (int64_t k = 0; k < table->nlearnt; k++) {
    const struct tt_learnt *learnt = &table->learnt[k];
    if (learnt->collective == TT_ALL_REDUCE && learnt->width == FLOAT_WIDTH &&
        learnt->size_class == tt_size_class(bytes))
      return &learnt->choice;
  }
  return tt_table_choice(table, TT_ALL_REDUCE, bytes);
}

/* Times that jobs have learnt are not prices: waits for late ranks are in them. */
static tuttiResult_t us_find(const struct tt_table *table, struct tt_costs *costs, uint64_t bytes, double *us)
{
  int c = tt_costs_find(costs, choice_find(table, bytes));
  if (c < 0) c = tt_costs_find(costs, tt_table_choice(table, TT_ALL_REDUCE, bytes));
  return tt_costs_us(costs, c, bytes, us);
}

static tuttiResult_t points_find(struct tt_message_cost *cost, const struct tt_table *table, struct tt_costs *costs)
{
  uint64_t bytes[TT_COST_PIECES - 1];
  double us[TT_COST_PIECES - 1];
  int32_t n = 0;
  for (uint64_t size = LEAST; size <= MOST; size *= 2, n++) {
    tuttiResult_t result = us_find(table, costs, size, &us[n]);
    if (result != tuttiSuccess) return result;
    bytes[n] = size;
  }
  train_bound(bytes, us, n);
  *cost = tt_message_cost_points(bytes, us, n);
  return tuttiSuccess;
}

tuttiResult_t tt_message_cost_price(struct tt_message_cost *cost, const struct tt_table *table,
                                    const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  const struct tt_table_row *rows = table->rows[TT_ALL_REDUCE];
  struct tt_choice chosen[TT_TABLE_ROWS];
  struct tt_costs *costs = NULL;
  int n = 0;
  do {
    chosen[n] = rows[n].choice;
  } while (rows[n++].up_to_bytes != UINT64_MAX);
  tuttiResult_t result = tt_costs_make(&costs, TT_ALL_REDUCE, settings, tuning, chosen, n);
  if (result == tuttiSuccess) result = points_find(cost, table, costs);
  tt_costs_destroy(costs);
  return result;
}
