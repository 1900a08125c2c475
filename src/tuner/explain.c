/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/explain.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text.h"
#include "tuner/private.h"

#define SHORT_OTHERS 3

/* ---- words ---- */

const char *tt_choice_text(const struct tt_choice *choice, char text[TT_CHOICE_TEXT_BYTES])
{
  char radix[8] = "";
  int has_middle = choice->middle >= 0;
  if (choice->radix && tt_algos[choice->algo].has_radix) snprintf(radix, sizeof radix, "/%d", choice->radix);
  snprintf(text, TT_CHOICE_TEXT_BYTES, "%s%s%s%s", tt_algos[choice->algo].name, has_middle ? "+" : "",
           has_middle ? tt_algos[choice->middle].name : "", radix);
  return text;
}

/* ---- candidates ---- */

static int is_dearer(const void *a, const void *b)
{
  const struct tt_candidate *left = a, *right = b;
  return (left->predicted.us > right->predicted.us) - (left->predicted.us < right->predicted.us);
}

/* Predicts all candidates, and the choice that was made if it is none of these. */
static tuttiResult_t candidates_find(struct tt_explained *e)
{
  tuttiResult_t result = tt_costs_make(&e->costs, e->collective, e->settings, &e->tuned, &e->choice, 1);
  if (result != tuttiSuccess) return result;
  e->n = e->costs->n;
  for (int c = 0; c < e->n && result == tuttiSuccess; c++) {
    e->candidates[c].choice = e->costs->choices[c];
    result = tt_costs_split(e->costs, c, e->bytes, &e->candidates[c].predicted);
  }
  if (result == tuttiSuccess) qsort(e->candidates, (size_t)e->n, sizeof e->candidates[0], is_dearer);
  return result;
}

static tuttiResult_t rule_find(struct tt_explained *e)
{
  struct tt_rule_place place;
  if (e->filters.of[e->collective].source || !e->rules->n) return tuttiSuccess;
  tuttiResult_t result = tt_rule_place_find(&place, e->tuning);
  for (int32_t k = 0; k < e->rules->n && result == tuttiSuccess && !e->rule; k++) {
    const struct tt_rule *rule = &e->rules->rule[k];
    if (tt_rule_matches(rule, e->collective, &place) && rule->bytes.from <= e->bytes && e->bytes <= rule->bytes.to)
      e->rule = rule;
  }
  return result;
}

const struct tt_candidate *tt_explained_candidate(const struct tt_explained *e, const struct tt_choice *choice)
{
  int c = 0;
  while (!tt_choices_same(&e->candidates[c].choice, choice)) c++;
  return &e->candidates[c];
}

void tt_explained_reason(const struct tt_explained *e, char *text, size_t size)
{
  const struct tt_profile_learnt *learnt = tt_calibration_learnt(e->collective, e->bytes, e->tuning);
  if (e->rule) snprintf(text, size, "%s, line %d, says so", e->rules->name, (int)e->rule->line);
  else if (e->filters.of[e->collective].source)
    snprintf(text, size, "TUTTI_ALGO=%s restricts it", e->settings->algo);
  else if (learnt && tt_calibration_is(learnt, &e->choice))
    snprintf(text, size, "%s, line %d: jobs have learnt it", e->tuning->prices->profile->name, (int)learnt->is.line);
  else if (tt_choices_same(&e->candidates[0].choice, &e->choice)) snprintf(text, size, "the cheapest");
  else if (e->wire_type != tuttiFloat32) snprintf(text, size, "it is made as for float");
  else snprintf(text, size, "it is that of smaller sizes: another one has to be 3 %% cheaper");
}

/* Fills in all that needs no search. */
static void explained_fill(struct tt_explained *e, const struct tt_decision *decision,
                           const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  const struct tt_call *call = decision->call;
  e->call = call;
  e->choice = *decision->choice;
  e->rules = decision->rules;
  e->collective = call->collective;
  e->wire_type = tt_call_wire_type(call);
  e->bytes = call->count * tt_type_size(e->wire_type);
  e->settings = settings;
  e->tuning = tuning;
  e->prices = *tuning->prices;
  if (tt_kinds[e->collective].reduces) tt_prices_combine(&e->prices, e->wire_type);
  e->tuned = *tuning;
  e->tuned.prices = &e->prices;
}

tuttiResult_t tt_explained_make(struct tt_explained **explained, const struct tt_decision *decision,
                                const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  struct tt_explained *e = tt_alloc(1, sizeof *e);
  if (!e) return tt_fail(tuttiSystemError, "no memory to explain a choice: give the process more");
  explained_fill(e, decision, settings, tuning);
  tuttiResult_t result = tt_filters_parse(&e->filters, settings->algo);
  if (result == tuttiSuccess) result = rule_find(e);
  if (result == tuttiSuccess) result = candidates_find(e);
  if (result == tuttiSuccess) *explained = e;
  else tt_explained_destroy(e);
  return result;
}

void tt_explained_destroy(struct tt_explained *explained)
{
  if (!explained) return;
  tt_costs_destroy(explained->costs);
  tt_free(explained);
}

/* ---- in a line ---- */

/* The candidate is the choice, or differs from that or from a cheaper candidate only in its block. */
static int is_block_of_another(const struct tt_explained *e, int c)
{
  const struct tt_choice *other = &e->choice;
  for (int k = -1; k < c; k++, other = &e->candidates[k].choice)
    if (tt_choices_same_but_block(&e->candidates[c].choice, other)) return 1;
  return 0;
}

static void short_write(const struct tt_explained *e, char *text, size_t size)
{
  char name[TT_CHOICE_TEXT_BYTES], block[TT_BYTES_TEXT_BYTES], us[TT_US_BYTES], why[160];
  int others = 0;
  tt_explained_reason(e, why, sizeof why);
  size_t used = (size_t)snprintf(text, size, "%s in blocks of %s, predicted %s us by prices of %s memory, %s",
                                 tt_choice_text(&e->choice, name), tt_bytes_text(e->choice.block_bytes, block),
                                 tt_us_text(tt_explained_candidate(e, &e->choice)->predicted.us, us),
                                 tt_memory_names[e->tuning->memory], why);
  for (int c = 0; c < e->n && others < SHORT_OTHERS && used < size; c++) {
    if (is_block_of_another(e, c)) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s %s us", others++ ? ", " : "; others: ",
                             tt_choice_text(&e->candidates[c].choice, name),
                             tt_us_text(e->candidates[c].predicted.us, us));
  }
}

tuttiResult_t tt_explain_short(char *text, size_t size, const struct tt_decision *decision,
                               const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  struct tt_explained *e;
  tuttiResult_t result = tt_explained_make(&e, decision, settings, tuning);
  if (result != tuttiSuccess) return result;
  short_write(e, text, size);
  tt_explained_destroy(e);
  return result;
}
