/* SPDX-License-Identifier: BSD-3-Clause */
#include "planner/price.h"

#define LEAST 64u
#define MOST (1u << 30)

/* Messages of gradients follow each other, and a train of short ones carries no more bytes a second than the longest
 * message does: caches and buffers that make a single one look faster than that are full. */
static void train_bound(const uint64_t *bytes, double *us, int32_t n)
{
  double us_per_byte = us[n - 1] / (double)bytes[n - 1];
  for (int32_t i = 0; i < n; i++)
    if (us[i] < us_per_byte * (double)bytes[i]) us[i] = us_per_byte * (double)bytes[i];
}

/* tuning->factors corrects as the table was made. */
static tuttiResult_t points_find(struct tt_message_cost *cost, const struct tt_table *table,
                                 const struct tt_tuning *tuning)
{
  uint64_t bytes[TT_COST_PIECES - 1];
  double us[TT_COST_PIECES - 1];
  int32_t n = 0;
  for (uint64_t size = LEAST; size <= MOST; size *= 2, n++) {
    struct tt_predicted predicted;
    tuttiResult_t result = tt_predict(&predicted, tt_table_choice(table, TT_ALL_REDUCE, size), tuning, size);
    if (result != tuttiSuccess) return result;
    bytes[n] = size;
    us[n] = predicted.us;
  }
  train_bound(bytes, us, n);
  *cost = tt_message_cost_points(bytes, us, n);
  return tuttiSuccess;
}

tuttiResult_t tt_message_cost_price(struct tt_message_cost *cost, const struct tt_settings *settings,
                                    const struct tt_tuning *tuning)
{
  struct tt_choice choices[TT_CHOICES];
  struct tt_factors *factors = NULL;
  struct tt_tuning tuned = *tuning;
  int n = 0;
  struct tt_table *table = tt_alloc(1, sizeof *table);
  if (!table) return tt_fail(tuttiSystemError, "no memory for the prices of messages: give the process more");
  tuttiResult_t result = tt_table_make(table, settings, tuning);
  if (result == tuttiSuccess) result = tt_choices_find(choices, &n, TT_ALL_REDUCE, settings, tuning);
  if (result == tuttiSuccess) result = tt_factors_make(&factors, TT_ALL_REDUCE, choices, n, tuning);
  tuned.factors = factors;
  if (result == tuttiSuccess) result = points_find(cost, table, &tuned);
  tt_factors_destroy(factors);
  tt_free(table);
  return result;
}
