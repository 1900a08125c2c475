/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/explain.h"

#include <stdlib.h>
#include <string.h>

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

const char *tt_bytes_text(uint64_t bytes, char text[TT_BYTES_TEXT_BYTES])
{
  static const char *const units[] = {"B", "KiB", "MiB", "GiB"};
  double value = (double)bytes;
  int unit = 0;
  while (unit < 3 && value >= 1024) {
    value /= 1024;
    unit++;
  }
  snprintf(text, TT_BYTES_TEXT_BYTES, "%.4g %s", value, units[unit]);
  return text;
}

const char *tt_us_text(double us, char text[TT_US_BYTES])
{
  snprintf(text, TT_US_BYTES, "%.*f", us < 10 ? 3 : us < 100 ? 2 : us < 1000 ? 1 : 0, us);
  return text;
}

/* ---- candidates ---- */

struct candidate {
  struct tt_choice choice;
  struct tt_predicted predicted;
};

struct explained {
  FILE *out;
  const struct tt_call *call;
  int collective, wire_type;
  uint64_t bytes; /* of a share, as they travel */
  const struct tt_settings *settings;
  const struct tt_tuning *tuning; /* by which choices are made */
  struct tt_tuning tuned;         /* of the type, with factors: for predictions */
  struct tt_prices prices;
  struct tt_factors *factors;
  struct tt_wishes wishes;
  const struct tt_rules *rules;
  const struct tt_rule *rule; /* that decides; NULL: none does */
  struct tt_table table;
  struct tt_choice choice;
  struct candidate candidates[TT_CHOICES + 1]; /* the cheapest first; one may be a rule's */
  int n;
};

static int is_dearer(const void *a, const void *b)
{
  const struct candidate *left = a, *right = b;
  return (left->predicted.us > right->predicted.us) - (left->predicted.us < right->predicted.us);
}

static int choices_same(const struct tt_choice *a, const struct tt_choice *b)
{
  return a->algo == b->algo && a->middle == b->middle && a->radix == b->radix && a->block_bytes == b->block_bytes;
}

/* Predicts all choices there are, and the one that was made if it is none of these. */
static tuttiResult_t candidates_find(struct explained *e)
{
  struct tt_choice choices[TT_CHOICES + 1];
  int is_there = 0;
  tuttiResult_t result = tt_choices_find(choices, &e->n, e->collective, e->settings, e->tuning);
  if (result != tuttiSuccess) return result;
  for (int c = 0; c < e->n; c++) is_there |= choices_same(&choices[c], &e->choice);
  if (!is_there) choices[e->n++] = e->choice;
  result = tt_factors_make(&e->factors, e->collective, choices, e->n < TT_CHOICES ? e->n : TT_CHOICES, e->tuning);
  e->tuned.factors = e->factors;
  for (int c = 0; c < e->n && result == tuttiSuccess; c++) {
    e->candidates[c].choice = choices[c];
    result = tt_predict(&e->candidates[c].predicted, &choices[c], &e->tuned, e->bytes);
  }
  if (result == tuttiSuccess) qsort(e->candidates, (size_t)e->n, sizeof e->candidates[0], is_dearer);
  return result;
}

static tuttiResult_t rule_find(struct explained *e)
{
  struct tt_rule_place place;
  if (e->wishes.of[e->collective].source || !e->rules->n) return tuttiSuccess;
  tuttiResult_t result = tt_rule_place_find(&place, e->tuning);
  for (int32_t k = 0; k < e->rules->n && result == tuttiSuccess && !e->rule; k++) {
    const struct tt_rule *rule = &e->rules->rule[k];
    if (tt_rule_matches(rule, e->collective, &place) && rule->bytes.from <= e->bytes && e->bytes <= rule->bytes.to)
      e->rule = rule;
  }
  return result;
}

static const struct candidate *candidate_of(const struct explained *e, const struct tt_choice *choice)
{
  int c = 0;
  while (!choices_same(&e->candidates[c].choice, choice)) c++;
  return &e->candidates[c];
}

/* Why it is the choice. */
static void reason_text(const struct explained *e, char *text, size_t size)
{
  if (e->rule) snprintf(text, size, "%s, line %d, says so", e->rules->name, (int)e->rule->line);
  else if (e->wishes.of[e->collective].source)
    snprintf(text, size, "TUTTI_ALGO=%s restricts it", e->settings->algo);
  else if (choices_same(&e->candidates[0].choice, &e->choice)) snprintf(text, size, "the cheapest");
  else if (e->wire_type != tuttiFloat32) snprintf(text, size, "it is made as for float");
  else snprintf(text, size, "it stands until another one is clearly faster");
}

/* All but what is printed. */
static tuttiResult_t explained_make(struct explained *e, const struct tt_call *call,
                                    const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  e->call = call;
  e->collective = call->collective;
  e->wire_type = tt_call_wire_type(call);
  e->bytes = call->count * tt_type_size(e->wire_type);
  e->settings = settings;
  e->tuning = tuning;
  e->prices = *tuning->prices;
  if (tt_kinds[e->collective].reduces) tt_prices_combine(&e->prices, e->wire_type);
  e->tuned = *tuning;
  e->tuned.prices = &e->prices;
  return tt_wishes_parse(&e->wishes, settings->algo);
}

static struct explained *explained_alloc(void)
{
  struct explained *e = tt_alloc(1, sizeof *e);
  if (!e) tt_fail(tuttiSystemError, "no memory to explain a choice: give the process more");
  return e;
}

static void explained_free(struct explained *e)
{
  tt_factors_destroy(e->factors);
  tt_free(e);
}

/* ---- head and table ---- */

static void head_print(const struct explained *e)
{
  char size[TT_BYTES_TEXT_BYTES], us[TT_US_BYTES], name[TT_CHOICE_TEXT_BYTES], why[512];
  const struct tt_world *world = e->tuning->world;
  const struct candidate *chosen = candidate_of(e, &e->choice);
  int32_t nnodes = world->topology->nnodes;
  int is_narrowed = e->wire_type != e->call->type;
  fprintf(e->out, "%s of %s%s, %s%s%s%s, on %d rank%s of %d node%s with %d core%s for the ranks of each%s\n",
          tt_kinds[e->collective].name, tt_bytes_text(e->call->count * tt_type_size(e->call->type), size),
          tt_kinds[e->collective].is_shared ? " a rank" : "", tt_type_name(e->call->type),
          is_narrowed ? " as " : "", is_narrowed ? tt_type_name(e->wire_type) : "",
          tt_kinds[e->collective].reduces ? ", sum" : "", (int)e->tuning->nranks,
          e->tuning->nranks == 1 ? "" : "s", (int)nnodes, nnodes == 1 ? "" : "s", (int)world->cores,
          world->cores == 1 ? "" : "s", e->settings->deterministic ? ", deterministic" : "");
  reason_text(e, why, sizeof why);
  fprintf(e->out, "choice: %s in blocks of %s: %s us predicted; %s\n", tt_choice_text(&e->choice, name),
          tt_bytes_text(e->choice.block_bytes, size), tt_us_text(chosen->predicted.us, us), why);
}

static int is_same_but_block(const struct tt_choice *a, const struct tt_choice *b)
{
  return a->algo == b->algo && a->middle == b->middle && a->radix == b->radix;
}

/* The whole vector goes in one segment: longer blocks are the same. */
static int is_whole(const struct explained *e, const struct tt_choice *choice)
{
  int32_t root = tt_kinds[e->collective].has_root ? 0 : -1;
  return (uint64_t)tt_choice_shape(choice, e->tuning, 0, root).nblocks * choice->block_bytes >= e->bytes;
}

/* The choice itself or a cheaper candidate is the same for so short a vector. */
static int is_repeat(const struct explained *e, int c)
{
  const struct tt_choice *one = &e->candidates[c].choice, *other = &e->choice;
  if (choices_same(one, other) || !is_whole(e, one)) return 0;
  for (int k = -1; k < c; k++, other = &e->candidates[k].choice)
    if (is_same_but_block(one, other) && is_whole(e, other)) return 1;
  return 0;
}

/* Of the longest name. */
static int names_width(const struct explained *e)
{
  char name[TT_CHOICE_TEXT_BYTES];
  int width = 9;
  for (int c = 0; c < e->n; c++) {
    int len = (int)strlen(tt_choice_text(&e->candidates[c].choice, name));
    if (len > width) width = len;
  }
  return width;
}

static void candidates_print(const struct explained *e)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES], us[3][TT_US_BYTES];
  int width = names_width(e);
  fprintf(e->out, "\n  %-*s %10s %10s %6s %10s %10s %10s %7s\n", width, "algorithm", "block", "us", "ratio", "latency",
          "bandwidth", "reduction", "factor");
  for (int c = 0; c < e->n; c++) {
    const struct tt_predicted *p = &e->candidates[c].predicted;
    int is_chosen = choices_same(&e->candidates[c].choice, &e->choice);
    if (is_repeat(e, c)) continue;
    fprintf(e->out, "%c %-*s %10s %10s %6.2f", is_chosen ? '*' : ' ', width,
            tt_choice_text(&e->candidates[c].choice, name), tt_bytes_text(e->candidates[c].choice.block_bytes, size),
            tt_us_text(p->us, us[0]), p->us / e->candidates[0].predicted.us);
    fprintf(e->out, " %10s %10s %10s %7.2f%s\n", tt_us_text(p->latency_us, us[0]), tt_us_text(p->bandwidth_us, us[1]),
            tt_us_text(p->reduction_us, us[2]), p->factor, p->is_played ? "" : " ~");
  }
  fprintf(e->out, "*: chosen. us = factor (latency + bandwidth + reduction), factor: measured / played, by anchors.\n");
  for (int c = 0; c < e->n; c++)
    if (!e->candidates[c].predicted.is_played) {
      fprintf(e->out, "~: too much to be played; from the rounds and bytes that the algorithm claims.\n");
      break;
    }
}

/* ---- those that were not to be chosen ---- */

static int is_candidate(const struct explained *e, int algo)
{
  for (int c = 0; c < e->n; c++)
    if (e->candidates[c].choice.algo == algo) return 1;
  return 0;
}

/* The candidate that is the same schedule; NULL: there is none. */
static const char *twin_of(const struct explained *e, const struct tt_choice *choice)
{
  for (int c = 0; c < e->n; c++)
    if (tt_choices_twins(choice, &e->candidates[c].choice, e->tuning))
      return tt_algos[e->candidates[c].choice.algo].name;
  return NULL;
}

/* Why the algorithm is none; it may be written to text[size]. */
static const char *why_not(const struct explained *e, int algo, char *text, size_t size)
{
  struct tt_wish wish = {.algo = (uint8_t)algo, .middle = -1};
  struct tt_choice plain = {.algo = (uint8_t)algo, .middle = -1, .radix = (uint16_t)e->settings->radix};
  const char *why = tt_choice_illegal(&plain, e->settings, e->tuning);
  if (why) return why;
  if (!tt_wish_allows(&e->wishes.of[e->collective], &wish)) return "TUTTI_ALGO excludes it";
  if (tt_choice_slow(algo, e->tuning)) return "with so many ranks it is priced only where TUTTI_ALGO names it";
  const char *twin = twin_of(e, &plain);
  snprintf(text, size, "with so many ranks it is the same schedule as %s", twin ? twin : "another one");
  return text;
}

static void others_print(const struct explained *e)
{
  char why[128];
  int n = 0;
  for (int a = 0; a < tt_algo_count; a++) {
    if (tt_algos[a].collective != e->collective || is_candidate(e, a)) continue;
    if (!n++) fprintf(e->out, "\nnot to be chosen:\n");
    fprintf(e->out, "  %-22s %s\n", tt_algos[a].name, why_not(e, a, why, sizeof why));
  }
  if (!e->rule) return;
  char name[TT_CHOICE_TEXT_BYTES], us[TT_US_BYTES];
  const struct candidate *best = e->candidates;
  if (choices_same(&best->choice, &e->choice)) return;
  fprintf(e->out, "\noverruled by %s, line %d: %s, %s us\n", e->rules->name, (int)e->rule->line,
          tt_choice_text(&best->choice, name), tt_us_text(best->predicted.us, us));
}

/* ---- where numbers came from ---- */

static void anchors_print(const struct explained *e)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES];
  const struct tt_profile *profile = e->tuning->prices->profile ? e->tuning->prices->profile : tt_profile_shipped();
  int n = 0;
  for (int c = 0; profile && c < e->n; c++) {
    const struct tt_predicted *p = &e->candidates[c].predicted;
    if (!p->anchor_line || is_repeat(e, c)) continue;
    if (!n++) fprintf(e->out, "factors came from:\n");
    fprintf(e->out, "  %-*s %8s  %s line %d", names_width(e), tt_choice_text(&e->candidates[c].choice, name),
            tt_bytes_text(e->candidates[c].choice.block_bytes, size), profile->name, (int)p->anchor_line);
    if (p->anchor_line2 && p->anchor_line2 != p->anchor_line) fprintf(e->out, " and line %d", (int)p->anchor_line2);
    fputc('\n', e->out);
  }
  if (!n) fprintf(e->out, "factors: nothing like this was measured, so they are 1\n");
}

static void origins_print(const struct explained *e)
{
  char text[256];
  const struct tt_prices *prices = &e->prices;
  fprintf(e->out, "\nprices came from:\n");
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    if (!e->tuning->world->transport[kind]) continue;
    const struct tt_curve_part *part = prices->links.link[kind].part;
    tt_origin_text(&prices->origin[kind], text, sizeof text);
    fprintf(e->out, "  %s\n    a short message %.3g us, and %.4g us a MiB", text, part->alpha_us,
            part->beta_us_per_mib);
    for (int p = 1; p < prices->links.link[kind].nparts; p++)
      fprintf(e->out, "; over %s %.4g us a MiB", tt_bytes_text(part[p - 1].up_to_bytes, text), part[p].beta_us_per_mib);
    if (prices->origin[kind].points)
      fprintf(e->out, "; within %.3g %% of what was measured", prices->origin[kind].error_percent);
    fputc('\n', e->out);
  }
  tt_origin_text(&prices->gamma_origin, text, sizeof text);
  if (tt_kinds[e->collective].reduces)
    fprintf(e->out, "  %s\n    %.4g us a MiB\n", text, prices->links.gamma_us_per_mib);
  anchors_print(e);
}

static void sizes_print(const struct explained *e)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES];
  fprintf(e->out, "\nchoices by size%s:\n", e->wire_type == e->call->type ? "" : ", of what travels");
  for (const struct tt_table_row *row = e->table.rows[e->collective];; row++) {
    int is_last = row->up_to_bytes == UINT64_MAX;
    fprintf(e->out, "  %-6s %-10s %s in blocks of ", is_last ? "beyond" : "up to",
            is_last ? "" : tt_bytes_text(row->up_to_bytes, size), tt_choice_text(&row->choice, name));
    fprintf(e->out, "%s\n", tt_bytes_text(row->choice.block_bytes, size));
    if (is_last) return;
  }
}

/* ---- eta ---- */

/* Time of ring less that of hierarchical; result is set on an error. */
static double lead_us(const struct explained *e, const struct tt_choice *ring, const struct tt_choice *levels,
                      uint64_t bytes, tuttiResult_t *result)
{
  struct tt_predicted one = {.us = 0}, other = {.us = 0};
  if (*result == tuttiSuccess) *result = tt_predict(&one, ring, &e->tuned, bytes);
  if (*result == tuttiSuccess) *result = tt_predict(&other, levels, &e->tuned, bytes);
  return one.us - other.us;
}

/* Between two sizes at which it has not the same sign. */
static uint64_t crossing_find(const struct explained *e, const struct tt_choice *ring, const struct tt_choice *levels,
                              uint64_t low, tuttiResult_t *result)
{
  uint64_t high = 4 * low;
  int sign = lead_us(e, ring, levels, low, result) > 0;
  while (high - low > low / 32 + 1 && *result == tuttiSuccess) {
    uint64_t middle = low + (high - low) / 2;
    if ((lead_us(e, ring, levels, middle, result) > 0) == sign) low = middle;
    else high = middle;
  }
  return high;
}

#define ETA_FROM 8u
#define ETA_TO (1u << 30)

/* Jia et al. choose hierarchical below a size eta and ring above it: with a for what a message of no bytes takes and b
 * for each byte, eta = (a_r - a_h) / (b_h - b_r), the size at which both take the same. Here times are no straight
 * lines, so that size is searched for, and there may be several. */
static tuttiResult_t eta_print(const struct explained *e)
{
  const struct tt_choice *ring = NULL, *levels = NULL;
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES];
  tuttiResult_t result = tuttiSuccess;
  for (int c = e->n - 1; c >= 0; c--) {
    const struct tt_algo *algo = &tt_algos[e->candidates[c].choice.algo];
    if (algo == tt_algo_find(TT_ALL_REDUCE, "ring")) ring = &e->candidates[c].choice;
    if (algo->has_middle) levels = &e->candidates[c].choice;
  }
  if (e->collective != TT_ALL_REDUCE || e->tuning->world->topology->nnodes == 1) return result;
  fprintf(e->out, "\nring or hierarchical (eta of Jia et al. is the size at which both take the same):\n");
  if (!ring || !levels) {
    fprintf(e->out, "  one of them is not to be chosen\n");
    return result;
  }
  int leads = lead_us(e, ring, levels, ETA_FROM, &result) > 0;
  for (uint64_t bytes = ETA_FROM; bytes < ETA_TO && result == tuttiSuccess; bytes *= 4) {
    int is = lead_us(e, ring, levels, 4 * bytes, &result) > 0;
    if (is == leads || result != tuttiSuccess) continue;
    fprintf(e->out, "  %s is faster up to %s\n", leads ? tt_choice_text(levels, name) : "ring",
            tt_bytes_text(crossing_find(e, ring, levels, bytes, &result), size));
    leads = is;
  }
  fprintf(e->out, "  %s is faster up to 1 GiB\n", leads ? tt_choice_text(levels, name) : "ring");
  return result;
}

/* ---- all ---- */

/* Makes the choice as a communicator would. */
static tuttiResult_t choice_make(struct explained *e)
{
  tuttiResult_t result = tt_table_make(&e->table, e->settings, e->tuning);
  if (result != tuttiSuccess) return result;
  e->choice = *tt_table_choice(&e->table, e->collective, e->bytes);
  return candidates_find(e);
}

tuttiResult_t tt_explain_print(FILE *out, const struct tt_call *call, const struct tt_settings *settings,
                               const struct tt_tuning *tuning)
{
  struct tt_rules rules = {.n = 0};
  struct explained *e = explained_alloc();
  if (!e) return tuttiSystemError;
  e->out = out;
  e->rules = &rules;
  tuttiResult_t result = explained_make(e, call, settings, tuning);
  if (result == tuttiSuccess && settings->table[0]) result = tt_rules_load(&rules, settings->table);
  if (result == tuttiSuccess) result = rule_find(e);
  if (result == tuttiSuccess) result = choice_make(e);
  if (result == tuttiSuccess) {
    head_print(e);
    candidates_print(e);
    others_print(e);
    origins_print(e);
    sizes_print(e);
    result = eta_print(e);
  }
  if (result == tuttiSuccess && ferror(out)) result = tt_fail(tuttiSystemError, "the explanation cannot be written");
  tt_rules_destroy(&rules);
  explained_free(e);
  return result;
}

/* It is the choice, or differs from that or from a cheaper candidate only in its block. */
static int is_block_of_another(const struct explained *e, int c)
{
  const struct tt_choice *other = &e->choice;
  for (int k = -1; k < c; k++, other = &e->candidates[k].choice)
    if (is_same_but_block(&e->candidates[c].choice, other)) return 1;
  return 0;
}

static void short_write(const struct explained *e, char *text, size_t size)
{
  char name[TT_CHOICE_TEXT_BYTES], us[TT_US_BYTES], why[160];
  int others = 0;
  reason_text(e, why, sizeof why);
  size_t used = (size_t)snprintf(text, size, "%s, predicted %s us, %s", tt_choice_text(&e->choice, name),
                                 tt_us_text(candidate_of(e, &e->choice)->predicted.us, us), why);
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
  struct explained *e = explained_alloc();
  if (!e) return tuttiSystemError;
  e->rules = decision->rules;
  tuttiResult_t result = explained_make(e, decision->call, settings, tuning);
  e->choice = *decision->choice;
  if (result == tuttiSuccess) result = rule_find(e);
  if (result == tuttiSuccess) result = candidates_find(e);
  if (result == tuttiSuccess) short_write(e, text, size);
  explained_free(e);
  return result;
}
