/* SPDX-License-Identifier: BSD-3-Clause */
/* The break points: at half powers of two from 8 bytes to 1 GiB, and a change only where it is worth it. */
#include <string.h>

#include "tuner/private.h"
#include "tuner/rules.h"

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
static int choose(const struct field *field, int last, uint64_t bytes)
{
  int best = 0;
  double least = us_of(field, 0, bytes);
  for (int c = 1; c < field->n; c++) {
    double us = us_of(field, c, bytes);
    if (us >= least) continue;
    best = c;
    least = us;
  }
  return last >= 0 && least >= WORTH * us_of(field, last, bytes) ? last : best;
}

static void rows_make(struct tt_table_row *rows, const struct field *field)
{
  int nrows = 0, last = -1;
  for (uint64_t bytes = 8; bytes <= (uint64_t)1 << 30; bytes += (bytes & (bytes - 1)) ? bytes / 3 : bytes / 2) {
    int c = field->n == 1 ? 0 : choose(field, last, bytes);
    if (c != last && nrows < TT_TABLE_ROWS) {
      rows[nrows++].choice = field->choices[c];
      last = c;
    }
    rows[nrows - 1].up_to_bytes = bytes;
  }
  rows[nrows - 1].up_to_bytes = UINT64_MAX;
}

static tuttiResult_t collective_make(struct tt_table_row *rows, const struct tt_choice *choices, int n,
                                     const struct tt_tuning *tuning)
{
  struct field *field = tt_alloc(1, sizeof *field);
  tuttiResult_t result = tuttiSuccess;
  if (!field) return tt_fail(tuttiSystemError, "no memory for the prices of %d choices: give the process more", n);
  field->choices = choices;
  field->n = n;
  if (n > 1) result = curves_make(field, tuning);
  if (n > 1 && result == tuttiSuccess)
    result = tt_factors_make(&field->factors, tt_algos[choices[0].algo].collective, choices, n, tuning);
  if (result == tuttiSuccess) rows_make(rows, field);
  for (int c = 0; c < field->ncurves; c++) tt_cost_curve_destroy(&field->curves[c]);
  tt_factors_destroy(field->factors);
  tt_free(field);
  return result;
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
    if (result == tuttiSuccess) result = collective_make(table->rows[collective], choices, n, tuning);
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
