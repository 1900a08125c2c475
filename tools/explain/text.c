/* SPDX-License-Identifier: BSD-3-Clause */
/* The long explanation. */
#include "explain/text_private.h"

#include <string.h>

#include "base/text.h"
#include "explain/eta_private.h"
#include "tuner/cache.h"
#include "tuner/choice.h"
#include "tuner/explain.h"

/* ---- head and table ---- */

static void head_print(const struct tt_explained *e, FILE *out)
{
  char size[TT_BYTES_TEXT_BYTES], us[TT_US_BYTES], name[TT_CHOICE_TEXT_BYTES], why[512];
  const struct tt_cluster *cluster = e->tuning->cluster;
  const struct tt_candidate *chosen = tt_explained_candidate(e, &e->choice);
  int32_t nnodes = cluster->topology->nnodes;
  int is_narrowed = e->wire_type != e->call->type;
  fprintf(out, "%s of %s%s, %s%s%s%s, on %d rank%s of %d node%s with %d core%s for the ranks of each%s\n",
          tt_kinds[e->collective].name, tt_bytes_text(e->call->count * tt_type_size(e->call->type), size),
          tt_kinds[e->collective].is_shared ? " a rank" : "", tt_type_name(e->call->type),
          is_narrowed ? " as " : "", is_narrowed ? tt_type_name(e->wire_type) : "",
          tt_kinds[e->collective].reduces ? ", sum" : "", (int)e->tuning->nranks,
          e->tuning->nranks == 1 ? "" : "s", (int)nnodes, nnodes == 1 ? "" : "s", (int)cluster->cores,
          cluster->cores == 1 ? "" : "s", e->settings->deterministic ? ", deterministic" : "");
  tt_explained_reason(e, why, sizeof why);
  fprintf(out, "choice: %s in blocks of %s: %s us predicted in %s memory; %s\n", tt_choice_text(&e->choice, name),
          tt_bytes_text(e->choice.block_bytes, size), tt_us_text(chosen->predicted.us, us),
          tt_memory_names[e->tuning->memory], why);
  int32_t share = (e->tuning->nranks + nnodes - 1) / nnodes;
  if (share > cluster->cores)
    fprintf(out, "caution: on a node %d ranks share %d core%s, and wait for their turns: that is not predicted\n",
            (int)share, (int)cluster->cores, cluster->cores == 1 ? "" : "s");
}

/* Measured operations took so much longer, or less, than they are played that the factor says little about others. */
static int is_unsure(const struct tt_predicted *predicted)
{
  return predicted->factor > 4 || predicted->factor < 0.25;
}

/* The whole vector goes in one segment: longer blocks are the same. */
static int is_whole(const struct tt_explained *e, const struct tt_choice *choice)
{
  int32_t root = tt_kinds[e->collective].has_root ? 0 : -1;
  return (uint64_t)tt_choice_shape(choice, e->tuning, 0, root).nblocks * choice->block_bytes >= e->bytes;
}

/* The choice itself or a cheaper candidate is the same for so short a vector. */
static int is_repeat(const struct tt_explained *e, int c)
{
  const struct tt_choice *one = &e->candidates[c].choice, *other = &e->choice;
  if (tt_choices_same(one, other) || !is_whole(e, one)) return 0;
  for (int k = -1; k < c; k++, other = &e->candidates[k].choice)
    if (tt_choices_same_but_block(one, other) && is_whole(e, other)) return 1;
  return 0;
}

/* The width of the longest name. */
static int names_width(const struct tt_explained *e)
{
  char name[TT_CHOICE_TEXT_BYTES];
  int width = 9;
  for (int c = 0; c < e->n; c++) {
    int len = (int)strlen(tt_choice_text(&e->candidates[c].choice, name));
    if (len > width) width = len;
  }
  return width;
}

static void candidates_print(const struct tt_explained *e, FILE *out)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES], us[3][TT_US_BYTES];
  int width = names_width(e), unsure = 0;
  fprintf(out, "\n  %-*s %10s %10s %6s %10s %10s %10s %7s\n", width, "algorithm", "block", "us", "ratio", "latency",
          "bandwidth", "reduction", "factor");
  for (int c = 0; c < e->n; c++) {
    const struct tt_predicted *p = &e->candidates[c].predicted;
    int is_chosen = tt_choices_same(&e->candidates[c].choice, &e->choice);
    if (is_repeat(e, c)) continue;
    fprintf(out, "%c %-*s %10s %10s %6.2f", is_chosen ? '*' : ' ', width,
            tt_choice_text(&e->candidates[c].choice, name), tt_bytes_text(e->candidates[c].choice.block_bytes, size),
            tt_us_text(p->us, us[0]), p->us / e->candidates[0].predicted.us);
    fprintf(out, " %10s %10s %10s %7.2f%s%s\n", tt_us_text(p->latency_us, us[0]), tt_us_text(p->bandwidth_us, us[1]),
            tt_us_text(p->reduction_us, us[2]), p->factor, p->is_played ? "" : " ~", is_unsure(p) ? " ?" : "");
    unsure += is_unsure(p);
  }
  fprintf(out, "*: chosen. us = factor (latency + bandwidth + reduction), factor: measured / played, by anchors.\n");
  if (unsure) fprintf(out, "?: the factor is far from 1, so the time is a guess; `tutti tune` measures here.\n");
  for (int c = 0; c < e->n; c++)
    if (!e->candidates[c].predicted.is_played) {
      fprintf(out, "~: only some ranks were played; what all take grows from that as the algorithm claims.\n");
      break;
    }
}

/* ---- those that were not to be chosen ---- */

static int is_candidate(const struct tt_explained *e, int algo)
{
  for (int c = 0; c < e->n; c++)
    if (e->candidates[c].choice.algo == algo) return 1;
  return 0;
}

/* The candidate that is the same schedule; NULL: there is none. */
static const char *duplicate_of(const struct tt_explained *e, const struct tt_choice *choice)
{
  for (int c = 0; c < e->n; c++)
    if (tt_choices_duplicate(choice, &e->candidates[c].choice, e->tuning))
      return tt_algos[e->candidates[c].choice.algo].name;
  return NULL;
}

/* Why the algorithm is none; it may be written to text[size]. */
static const char *why_not(const struct tt_explained *e, int algo, char *text, size_t size)
{
  struct tt_algo_filter filter = {.algo = (uint8_t)algo, .middle = -1};
  struct tt_choice plain = {.algo = (uint8_t)algo, .middle = -1, .radix = (uint16_t)e->settings->radix};
  const char *why = tt_choice_illegal(&plain, e->settings, e->tuning);
  if (why) return why;
  if (!tt_algo_filter_allows(&e->filters.of[e->collective], &filter)) return "TUTTI_ALGO excludes it";
  if (tt_choice_slow(algo, e->tuning)) return "with so many ranks it is priced only where TUTTI_ALGO names it";
  const char *duplicate = duplicate_of(e, &plain);
  snprintf(text, size, "with so many ranks it is the same schedule as %s", duplicate ? duplicate : "another one");
  return text;
}

static void others_print(const struct tt_explained *e, FILE *out)
{
  char why[128];
  int n = 0;
  for (int a = 0; a < tt_algo_count; a++) {
    if (tt_algos[a].collective != e->collective || is_candidate(e, a)) continue;
    if (!n++) fprintf(out, "\nnot to be chosen:\n");
    fprintf(out, "  %-22s %s\n", tt_algos[a].name, why_not(e, a, why, sizeof why));
  }
  if (!e->rule) return;
  char name[TT_CHOICE_TEXT_BYTES], us[TT_US_BYTES];
  const struct tt_candidate *best = e->candidates;
  if (tt_choices_same(&best->choice, &e->choice)) return;
  fprintf(out, "\noverruled by %s, line %d: %s, %s us\n", e->rules->name, (int)e->rule->line,
          tt_choice_text(&best->choice, name), tt_us_text(best->predicted.us, us));
}

/* ---- where numbers came from ---- */

/* The kind of memory that the anchor of that line was measured in. */
static const char *memory_of(const struct tt_profile *profile, int32_t line)
{
  int32_t i = 0;
  while (i + 1 < profile->nanchors && profile->anchors[i].line != line) i++;
  return tt_memory_names[profile->anchors[i].memory];
}

static void anchors_print(const struct tt_explained *e, FILE *out)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES];
  const struct tt_profile *profile = e->tuning->prices->profile ? e->tuning->prices->profile : tt_profile_shipped();
  int n = 0;
  for (int c = 0; profile && c < e->n; c++) {
    const struct tt_predicted *p = &e->candidates[c].predicted;
    if (!p->anchor_line || is_repeat(e, c)) continue;
    if (!n++) fprintf(out, "factors came from, in %s memory:\n", memory_of(profile, p->anchor_line));
    fprintf(out, "  %-*s %8s  %s line %d", names_width(e), tt_choice_text(&e->candidates[c].choice, name),
            tt_bytes_text(e->candidates[c].choice.block_bytes, size), profile->name, (int)p->anchor_line);
    if (p->anchor_line2 && p->anchor_line2 != p->anchor_line) fprintf(out, " and line %d", (int)p->anchor_line2);
    fputc('\n', out);
  }
  if (!n) fprintf(out, "factors: nothing like this was measured, so they are 1\n");
}

static void origins_print(const struct tt_explained *e, FILE *out)
{
  char text[256], busy[TT_SENTENCE_BYTES];
  const struct tt_prices *prices = &e->prices;
  fprintf(out, "\nprices came from:\n");
  if (prices->profile && tt_profile_busy_text(prices->profile, busy)[0]) fprintf(out, "  note: %s\n", busy);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    if (!e->tuning->cluster->transport[kind]) continue;
    const struct tt_curve_part *part = prices->links.link[kind].part;
    tt_origin_text(&prices->origin[kind], text, sizeof text);
    fprintf(out, "  %s\n    a short message %.3g us, and %.4g us a MiB", text, part->alpha_us,
            part->beta_us_per_mib);
    for (int p = 1; p < prices->links.link[kind].nparts; p++)
      fprintf(out, "; over %s %.4g us a MiB", tt_bytes_text(part[p - 1].up_to_bytes, text), part[p].beta_us_per_mib);
    if (kind == TT_LINK_NET) fprintf(out, ": %.3g Gbit/s", tt_curve_gbits(&prices->links.link[kind]));
    if (prices->origin[kind].points)
      fprintf(out, "; within %.3g %% of what was measured", prices->origin[kind].error_percent);
    fputc('\n', out);
    if (kind == TT_LINK_NET && prices->origin[kind].profile == tt_profile_shipped())
      fprintf(out, "    another network: --link GBITS,US, or a profile of `tutti tune` in a job of several hosts\n");
  }
  tt_origin_text(&prices->gamma_origin, text, sizeof text);
  if (tt_kinds[e->collective].reduces)
    fprintf(out, "  %s\n    %.4g us a MiB\n", text, prices->links.gamma_us_per_mib);
  anchors_print(e, out);
}

/* Those for more than `from` bytes, cut at `to`. */
static void rows_print(const struct tt_table_row *row, uint64_t from, uint64_t to, FILE *out)
{
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES];
  for (int is_last = 0; !is_last; row++) {
    uint64_t up_to = row->up_to_bytes < to ? row->up_to_bytes : to;
    is_last = up_to == to;
    if (up_to <= from) continue;
    fprintf(out, "  %-6s %-10s %s in blocks of ", up_to == UINT64_MAX ? "beyond" : "up to",
            up_to == UINT64_MAX ? "" : tt_bytes_text(up_to, size), tt_choice_text(&row->choice, name));
    fprintf(out, "%s\n", tt_bytes_text(row->choice.block_bytes, size));
  }
}

static void sizes_print(const struct tt_explained *e, const struct tt_table *table, FILE *out)
{
  int is_tutti = e->tuning->memory == TT_MEMORY_TUTTI && tt_table_has_tutti(table, e->collective);
  fprintf(out, "\nchoices by size%s in %s memory:\n", e->wire_type == e->call->type ? "" : ", of what travels",
          tt_memory_names[e->tuning->memory]);
  rows_print(table->rows[e->collective], 0, is_tutti ? TT_MEMORY_ALIKE : UINT64_MAX, out);
  if (is_tutti) rows_print(table->tutti_rows[tt_arms_row(e->collective)], TT_MEMORY_ALIKE, UINT64_MAX, out);
}

/* ---- what jobs have learnt ---- */

/* Prints what jobs of so many ranks and nodes have learnt; they may have had other settings or transports. */
static void learnt_print(const struct tt_explained *e, FILE *out)
{
  struct tt_cache cache;
  char name[TT_CHOICE_TEXT_BYTES], size[TT_BYTES_TEXT_BYTES], us[TT_US_BYTES];
  int n = 0, width = __builtin_ctzll(tt_type_size(e->wire_type)), size_class = tt_size_class(e->bytes);
  tt_cache_load(&cache, e->settings);
  for (int k = cache.nlearnt - 1; k >= 0; k--) {
    const struct tt_cache_learnt *line = &cache.learnt[k];
    const struct tt_learnt *learnt = &line->learnt;
    if (line->ranks != e->tuning->nranks || line->nodes != e->tuning->cluster->topology->nnodes) continue;
    if (learnt->collective != e->collective || learnt->width != width || learnt->size_class != size_class) continue;
    if (learnt->memory != (int)e->tuning->memory) continue;
    if (!n++) fprintf(out, "\nlearnt by jobs here (TUTTI_LEARN):\n");
    fprintf(out, "  %s in blocks of %s: %s us, on %s\n",
            tt_choice_text(&learnt->choice, name), tt_bytes_text(learnt->choice.block_bytes, size),
            tt_us_text((double)learnt->ns / 1e3, us), line->date);
  }
}

/* ---- all ---- */

/* Makes the choice as a communicator would. */
static tuttiResult_t all_print(FILE *out, struct tt_decision *decision, const struct tt_settings *settings,
                               const struct tt_tuning *tuning, struct tt_table *table)
{
  struct tt_explained *e;
  const struct tt_call *call = decision->call;
  tuttiResult_t result = tt_table_make(table, settings, tuning);
  if (result != tuttiSuccess) return result;
  uint64_t bytes = call->count * tt_type_size(tt_call_wire_type(call));
  decision->choice = tt_table_choice_in(table, tuning->memory, call->collective, bytes);
  result = tt_explained_make(&e, decision, settings, tuning);
  if (result != tuttiSuccess) return result;
  head_print(e, out);
  candidates_print(e, out);
  others_print(e, out);
  origins_print(e, out);
  sizes_print(e, table, out);
  learnt_print(e, out);
  result = tt_explain_eta(out, e);
  tt_explained_destroy(e);
  if (result == tuttiSuccess && ferror(out)) result = tt_fail(tuttiSystemError, "the explanation cannot be written");
  return result;
}

tuttiResult_t tt_explain_print(FILE *out, const struct tt_call *call, const struct tt_settings *settings,
                               const struct tt_tuning *tuning)
{
  struct tt_rules rules = {.n = 0};
  struct tt_decision decision = {.call = call, .rules = &rules};
  struct tt_table *table = tt_alloc(1, sizeof *table);
  if (!table) return tt_fail(tuttiSystemError, "no memory to explain a choice: give the process more");
  tuttiResult_t result = settings->table[0] ? tt_rules_load(&rules, settings->table) : tuttiSuccess;
  if (result == tuttiSuccess) result = all_print(out, &decision, settings, tuning, table);
  tt_rules_destroy(&rules);
  tt_free(table);
  return result;
}
