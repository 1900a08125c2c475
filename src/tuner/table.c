/* SPDX-License-Identifier: BSD-3-Clause */
/* The break points: at half powers of two from 8 bytes to 1 GiB, and a change only where it is worth it; and the arms
 * of the learner between them. */
#include <string.h>

#include "tuner/private.h"
#include "tuner/rules.h"

#define NEAR_ENOUGH 2.0 /* an arm's price over that of the best one, at most */
#define WORTH 0.97 /* a new choice takes less than this part of the time of the one that stood */

/* The cheapest; `last` if that is hardly worse. */
static int choose(const double *us, int n, int last)
{
  int best = 0;
  for (int c = 1; c < n; c++)
    if (us[c] < us[best]) best = c;
  return last >= 0 && us[best] >= WORTH * us[last] ? last : best;
}

/* 1 if a message of so many bytes goes the same way by both: in one segment, however long blocks may be. */
static int is_same_way(const struct tt_costs *costs, int a, int b, uint64_t bytes)
{
  const struct tt_choice *one = &costs->choices[a], *other = &costs->choices[b];
  uint64_t nblocks = (uint64_t)costs->nblocks[a];
  return tt_choices_same_but_block(one, other) && bytes <= nblocks * one->block_bytes &&
         bytes <= nblocks * other->block_bytes;
}

/* The cheapest one that is no arm yet and goes another way than those; -1: none is near enough. */
static int arm_next(const struct tt_costs *costs, const double *us, const int *arms, int narms, uint64_t bytes)
{
  int next = -1, best = choose(us, costs->n, -1);
  for (int c = 0; c < costs->n; c++) {
    int is_new = us[c] <= NEAR_ENOUGH * us[best] && (next < 0 || us[c] < us[next]);
    for (int a = 0; a < narms && is_new; a++) is_new = arms[a] != c && !is_same_way(costs, arms[a], c, bytes);
    if (is_new) next = c;
  }
  return next;
}

/* Its number, from 1 on, among the choices of the arms; 0: there is no room. */
static uint8_t arm_number(struct tt_arms *arms, const struct tt_choice *choice)
{
  int c = 0;
  while (c < arms->n && !tt_choices_same(&arms->choices[c], choice)) c++;
  if (c == TT_ARM_CHOICES) return 0;
  if (c == arms->n) arms->choices[arms->n++] = *choice;
  return (uint8_t)(c + 1);
}

static void arms_add(struct tt_arms *arms, int size_class, const struct tt_costs *costs, const double *us, int first)
{
  int narms = 0, numbered = 0, taken[TT_LEARN_ARMS];
  for (int c = first; c >= 0 && narms < TT_LEARN_ARMS; narms++) {
    taken[narms] = c;
    c = arm_next(costs, us, taken, narms + 1, tt_size_class_bytes(size_class));
  }
  for (int a = 0; a < narms && narms > 1; a++) {
    uint8_t number = arm_number(arms, &costs->choices[taken[a]]);
    if (!number && !a) return;
    if (number) arms->of[size_class][numbered++] = number;
  }
}

/* The candidate that jobs have learnt, if its price is near enough, so that a line of another machine does no harm; -1:
 * there is none. */
static int learnt_find(const struct tt_costs *costs, const double *us, int collective, uint64_t bytes)
{
  const struct tt_profile_learnt *learnt = tt_calibration_learnt(collective, bytes, costs->tuning);
  int c = 0;
  if (!learnt) return -1;
  while (c < costs->n && !tt_calibration_is(learnt, &costs->choices[c])) c++;
  return c < costs->n && us[c] <= NEAR_ENOUGH * us[choose(us, costs->n, -1)] ? c : -1;
}

/* Sizes are the last ones of the size classes. arms: NULL: nothing is to be learnt. */
static tuttiResult_t rows_make(struct tt_table_row *rows, struct tt_arms *arms, struct tt_costs *costs)
{
  int nrows = 0, last = -1, size_class = 0, is_open = costs->n > 1;
  for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes += (bytes & (bytes - 1)) ? bytes / 3 : bytes / 2) {
    double us[TT_CHOICES] = {0};
    tuttiResult_t result = tuttiSuccess;
    for (int c = 0; c < costs->n && is_open && result == tuttiSuccess; c++)
      result = tt_costs_us(costs, c, bytes, &us[c]);
    if (result != tuttiSuccess) return result;
    int c = is_open ? learnt_find(costs, us, tt_algos[costs->choices[0].algo].collective, bytes) : -1;
    if (c < 0) c = choose(us, costs->n, last);
    if (c != last && nrows < TT_TABLE_ROWS) {
      rows[nrows++].choice = costs->choices[c];
      last = c;
    }
    rows[nrows - 1].up_to_bytes = bytes;
    if (arms && is_open && size_class < TT_SIZE_CLASSES) arms_add(arms, size_class, costs, us, last);
    size_class++;
  }
  rows[nrows - 1].up_to_bytes = UINT64_MAX;
  return tuttiSuccess;
}

/* 1: settings leave the choice to prices, and ranks of such a collective can agree on more than that. */
static int is_free(int collective, const struct tt_filters *filters, const struct tt_settings *settings)
{
  return tt_arms_row(collective) >= 0 && !settings->deterministic && !settings->table[0] &&
         !filters->of[collective].source;
}

/* The model's rows of a collective in malloc's memory and, if is_open, in memory of tuttiMemAlloc where that was
 * measured. */
static tuttiResult_t collective_fill(struct tt_table *table, int collective, int is_open,
                                     const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  int row = tt_arms_row(collective), learns = is_open && settings->learn != TT_LEARN_OFF;
  struct tt_costs *costs = NULL, *tutti = NULL;
  struct tt_tuning in_malloc = *tuning, in_tutti = *tuning;
  in_malloc.memory = TT_MEMORY_MALLOC;
  in_tutti.memory = TT_MEMORY_TUTTI;
  tuttiResult_t result = tt_costs_make(&costs, collective, settings, &in_malloc, NULL, 0);
  if (result == tuttiSuccess)
    result = rows_make(table->rows[collective], learns ? &table->arms[TT_MEMORY_MALLOC][row] : NULL, costs);
  if (result == tuttiSuccess && is_open && tt_calibration_has_memory(collective, &in_tutti))
    result = tt_costs_make(&tutti, collective, settings, &in_tutti, NULL, 0);
  if (tutti) tt_costs_share(tutti, costs);
  if (tutti)
    result = rows_make(table->tutti_rows[row], learns ? &table->arms[TT_MEMORY_TUTTI][row] : NULL, tutti);
  tt_costs_destroy(costs);
  tt_costs_destroy(tutti);
  return result;
}

/* The model's rows of all collectives, cut at the limits of the rules where TUTTI_ALGO says nothing. */
static tuttiResult_t table_fill(struct tt_table *table, const struct tt_rules *rules, const struct tt_filters *filters,
                                const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  tuttiResult_t result = tuttiSuccess;
  for (int collective = 0; collective < TT_COLLECTIVES && result == tuttiSuccess; collective++) {
    if (!tt_kinds[collective].name) continue;
    result = collective_fill(table, collective, is_free(collective, filters, settings), settings, tuning);
    if (result == tuttiSuccess && !filters->of[collective].source)
      result = tt_rules_apply(rules, table->rows[collective], collective, settings, tuning);
  }
  return result;
}

tuttiResult_t tt_table_make(struct tt_table *table, const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  struct tt_rules rules = {.n = 0};
  struct tt_filters filters;
  memset(table, 0, sizeof *table);
  tuttiResult_t result = tt_filters_parse(&filters, settings->algo);
  if (result == tuttiSuccess) tt_filters_warn(&filters);
  if (result == tuttiSuccess && settings->table[0]) result = tt_rules_load(&rules, settings->table);
  if (result == tuttiSuccess) result = table_fill(table, &rules, &filters, settings, tuning);
  tt_rules_destroy(&rules);
  return result;
}
