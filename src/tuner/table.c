/* SPDX-License-Identifier: BSD-3-Clause */
/* The break points: at half powers of two from 8 bytes to 1 GiB, and a change only where it is worth it; and the arms
 * of the learner between them. */
#include <string.h>

#include "tuner/private.h"
#include "tuner/rules.h"

#define NEAR_ENOUGH 2.0 /* an arm's price over that of the best one, at most */
#define WORTH 0.97 /* a new choice takes less than this part of the time of the one that stood */

/* The cost curves of all choices; those that differ only in the length of blocks share one. */
struct field {
  const struct tt_choice *choices;
  int n, ncurves;
  int curve_of[TT_CHOICES];
  struct tt_cost_curve curves[TT_CHOICES];
  struct tt_factors *factors;
};

static int is_same_curve(const struct tt_choice *a, const struct tt_choice *b)
{
  return a->algo == b->algo && a->middle == b->middle && a->radix == b->radix;
}

static tuttiResult_t curves_make(struct field *field, const struct tt_tuning *tuning)
{
  tuttiResult_t result = tuttiSuccess;
  for (int c = 0; c < field->n && result == tuttiSuccess; c++) {
    uint32_t longest = field->choices[c].block_bytes;
    int first = 0;
    while (!is_same_curve(&field->choices[first], &field->choices[c])) first++;
    field->curve_of[c] = first < c ? field->curve_of[first] : field->ncurves;
    if (first < c) continue;
    for (int d = c; d < field->n; d++)
      if (is_same_curve(&field->choices[d], &field->choices[c]) && field->choices[d].block_bytes > longest)
        longest = field->choices[d].block_bytes;
    result = tt_cost_curve_make(&field->curves[field->ncurves++], &field->choices[c], tuning, longest);
  }
  return result;
}

static double us_of(const struct field *field, int c, uint64_t bytes)
{
  int32_t lines[2];
  return tt_factor(field->factors, &field->choices[c], bytes, lines) *
         tt_cost_curve_us(&field->curves[field->curve_of[c]], field->choices[c].block_bytes, bytes);
}

/* The cheapest; `last` if that is hardly worse. */
static int choose(const double *us, int n, int last)
{
  int best = 0;
  for (int c = 1; c < n; c++)
    if (us[c] < us[best]) best = c;
  return last >= 0 && us[best] >= WORTH * us[last] ? last : best;
}

/* 1 if a message of so many bytes goes the same way by both: in one segment, however long blocks may be. */
static int is_same_way(const struct field *field, int a, int b, uint64_t bytes)
{
  const struct tt_choice *one = &field->choices[a], *other = &field->choices[b];
  uint64_t nblocks = (uint64_t)field->curves[field->curve_of[a]].nblocks;
  return is_same_curve(one, other) && bytes <= nblocks * one->block_bytes && bytes <= nblocks * other->block_bytes;
}

/* The cheapest one that is no arm yet and goes another way than those; -1: none is near enough. */
static int arm_next(const struct field *field, const double *us, const int *arms, int narms, uint64_t bytes)
{
  int next = -1, best = choose(us, field->n, -1);
  for (int c = 0; c < field->n; c++) {
    int is_new = us[c] <= NEAR_ENOUGH * us[best] && (next < 0 || us[c] < us[next]);
    for (int a = 0; a < narms && is_new; a++) is_new = arms[a] != c && !is_same_way(field, arms[a], c, bytes);
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

static void arms_add(struct tt_arms *arms, int size_class, const struct field *field, const double *us, int first)
{
  int narms = 0, numbered = 0, taken[TT_LEARN_ARMS];
  for (int c = first; c >= 0 && narms < TT_LEARN_ARMS; narms++) {
    taken[narms] = c;
    c = arm_next(field, us, taken, narms + 1, tt_size_class_bytes(size_class));
  }
  for (int a = 0; a < narms && narms > 1; a++) {
    uint8_t number = arm_number(arms, &field->choices[taken[a]]);
    if (!number && !a) return;
    if (number) arms->of[size_class][numbered++] = number;
  }
}

/* Sizes are the last ones of the size classes. */
static void rows_make(struct tt_table_row *rows, struct tt_arms *arms, const struct field *field)
{
  int nrows = 0, last = -1, size_class = 0;
  for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes += (bytes & (bytes - 1)) ? bytes / 3 : bytes / 2) {
    double us[TT_CHOICES] = {0};
    for (int c = 0; c < field->n && field->n > 1; c++) us[c] = us_of(field, c, bytes);
    int c = choose(us, field->n, last);
    if (c != last && nrows < TT_TABLE_ROWS) {
      rows[nrows++].choice = field->choices[c];
      last = c;
    }
    rows[nrows - 1].up_to_bytes = bytes;
    if (arms && size_class < TT_SIZE_CLASSES) arms_add(arms, size_class, field, us, last);
    size_class++;
  }
  rows[nrows - 1].up_to_bytes = UINT64_MAX;
}

/* arms: NULL: nothing is to be learnt. */
static tuttiResult_t collective_make(struct tt_table_row *rows, struct tt_arms *arms, const struct tt_choice *choices,
                                     int n, const struct tt_tuning *tuning)
{
  struct field *field = tt_alloc(1, sizeof *field);
  tuttiResult_t result = tuttiSuccess;
  if (!field) return tt_fail(tuttiSystemError, "no memory for the prices of %d choices: give the process more", n);
  field->choices = choices;
  field->n = n;
  if (n > 1) result = curves_make(field, tuning);
  if (n > 1 && result == tuttiSuccess)
    result = tt_factors_make(&field->factors, tt_algos[choices[0].algo].collective, choices, n, tuning);
  if (result == tuttiSuccess) rows_make(rows, n > 1 ? arms : NULL, field);
  for (int c = 0; c < field->ncurves; c++) tt_cost_curve_destroy(&field->curves[c]);
  tt_factors_destroy(field->factors);
  tt_free(field);
  return result;
}

/* NULL: nothing is learnt. */
static struct tt_arms *arms_of(struct tt_table *table, int collective, const struct tt_filters *filters,
                               const struct tt_settings *settings)
{
  int row = tt_arms_row(collective);
  int is_learnt = settings->learn != TT_LEARN_OFF && !settings->deterministic && !settings->table[0];
  return row < 0 || !is_learnt || filters->of[collective].source ? NULL : &table->arms[row];
}

/* The model's rows of all collectives, cut at the limits of the rules where TUTTI_ALGO says nothing. */
static tuttiResult_t table_fill(struct tt_table *table, const struct tt_rules *rules, const struct tt_filters *filters,
                                const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  tuttiResult_t result = tuttiSuccess;
  for (int collective = 0; collective < TT_COLLECTIVES && result == tuttiSuccess; collective++) {
    struct tt_choice choices[TT_CHOICES];
    int n = 0;
    if (!tt_kinds[collective].name) continue;
    result = tt_choices_find(choices, &n, collective, settings, tuning);
    struct tt_arms *arms = arms_of(table, collective, filters, settings);
    if (result == tuttiSuccess) result = collective_make(table->rows[collective], arms, choices, n, tuning);
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
