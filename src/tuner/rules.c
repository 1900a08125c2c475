/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/rules.h"

#include <errno.h>
#include <string.h>

#include "base/scan.h"

#define SENTENCE_PART 300
#define RANKS_MOST ((uint64_t)1 << 60)

/* ---- reading ---- */

struct reader {
  struct tt_scan scan;
  struct tt_rules made;
  int32_t room;
};

/* A whole number with K, M, G, KiB, ... where it is a size; *text moves past it. 0: it is none. */
static int limit_read(const char **text, int is_size, uint64_t *value)
{
  const char *begin = *text;
  if (is_size) return tt_bytes_read(text, value);
  *value = tt_digits(text, RANKS_MOST);
  return *text > begin && *value <= RANKS_MOST;
}

/* N, FROM..TO or FROM..inf; `least`: what numbers begin with. */
static struct tt_limits range_read(struct reader *r, const char *key)
{
  struct tt_limits range = {0, 0};
  int is_size = strcmp(key, "bytes") == 0, least = !is_size;
  const char *text = r->scan.token;
  int is_fine = limit_read(&text, is_size, &range.from);
  range.to = range.from;
  if (is_fine && strcmp(text, "..inf") == 0) {
    range.to = UINT64_MAX;
    text += 5;
  } else if (is_fine && text[0] == '.' && text[1] == '.') {
    text += 2;
    is_fine = limit_read(&text, is_size, &range.to);
  }
  if (!is_fine || *text || range.from < (uint64_t)least)
    tt_scan_wrong(&r->scan, is_size ? "bytes as N, FROM..TO or FROM..inf, with K, M or G if you like"
                                    : "N, FROM..TO or FROM..inf, from 1 on");
  else if (range.to < range.from) tt_scan_wrong(&r->scan, "a range whose end is not below its begin");
  tt_scan_next(&r->scan);
  return range;
}

static void keys_read(struct reader *r, struct tt_rule *rule)
{
  static const char *const names[] = {"ranks", "nodes", "ppn", "bytes"};
  struct tt_limits *const ranges[] = {&rule->ranks, &rule->nodes, &rule->ppn, &rule->bytes};
  int seen[4] = {0};
  for (int k = 0; k < 4; k++) *ranges[k] = (struct tt_limits){0, UINT64_MAX};
  while (!r->scan.failed && !tt_scan_took(&r->scan, "->")) {
    int k = 0;
    while (k < 4 && !tt_scan_is(&r->scan, names[k])) k++;
    if (k == 4) tt_scan_wrong(&r->scan, "one of ranks, nodes, ppn, bytes, or ->");
    else if (seen[k]++) tt_scan_wrong(&r->scan, "each key once");
    if (r->scan.failed) return;
    tt_scan_next(&r->scan);
    *ranges[k] = range_read(r, names[k]);
  }
}

static void algo_read(struct reader *r, struct tt_rule *rule)
{
  char name[TT_TOKEN_BYTES], why[SENTENCE_PART + 60], list[SENTENCE_PART];
  const char *token = r->scan.token;
  size_t len = strcspn(token, "+/");
  snprintf(name, sizeof name, "%.*s", (int)len, token);
  const struct tt_algo *algo = tt_algo_find(rule->collective, name);
  if (!algo) {
    tt_algo_filter_names(rule->collective, list, sizeof list);
    snprintf(why, sizeof why, "an algorithm of %s, one of %s", tt_kinds[rule->collective].name, list);
    tt_scan_wrong(&r->scan, why);
    return;
  }
  rule->choice = (struct tt_algo_filter){.algo = (uint8_t)(algo - tt_algos), .middle = -1};
  const char *reason = tt_algo_filter_rest(&rule->choice, token + len, why, sizeof why);
  if (reason) tt_scan_fail(&r->scan, r->scan.line, "%s", reason);
  tt_scan_next(&r->scan);
}

static void parameters_read(struct reader *r, struct tt_rule *rule)
{
  struct tt_scan *scan = &r->scan;
  while (tt_scan_has_word(scan)) {
    int is_radix = tt_scan_is(scan, "radix");
    if ((!is_radix && !tt_scan_is(scan, "block")) || (is_radix ? rule->choice.radix : rule->block_bytes)) {
      tt_scan_wrong(scan, "radix N or block SIZE, each once, or the end of the line");
      return;
    }
    if (is_radix && !tt_algos[rule->choice.algo].has_radix)
      tt_scan_wrong(scan, "an algorithm that has one in front of a radix");
    tt_scan_next(scan);
    if (is_radix) rule->choice.radix = (uint16_t)tt_scan_whole(scan, "a radix", 2, UINT16_MAX);
    else rule->block_bytes = (uint32_t)tt_scan_bytes(scan, "a block from 1 byte to 1 GiB", 1, 1u << 30);
  }
}

static int covers(const struct tt_limits *a, const struct tt_limits *b)
{
  return a->from <= b->from && a->to >= b->to;
}

static void cover_check(struct reader *r, const struct tt_rule *rule)
{
  for (int32_t k = 0; k < r->made.n && !r->scan.failed; k++) {
    const struct tt_rule *before = &r->made.rule[k];
    if (before->collective != rule->collective || !covers(&before->ranks, &rule->ranks) ||
        !covers(&before->nodes, &rule->nodes) || !covers(&before->ppn, &rule->ppn) ||
        !covers(&before->bytes, &rule->bytes))
      continue;
    tt_scan_fail(&r->scan, rule->line, "this rule can never match, as line %d covers it: put it in front of that, or "
                 "leave it out", (int)before->line);
  }
}

static void rule_add(struct reader *r, const struct tt_rule *rule)
{
  if (r->scan.failed) return;
  if (r->made.n == TT_RULES) {
    tt_scan_fail(&r->scan, rule->line, "wanted at most %d rules", TT_RULES);
    return;
  }
  if (r->made.n == r->room) {
    int32_t room = r->room ? 2 * r->room : 16;
    struct tt_rule *bigger = tt_alloc((size_t)room, sizeof *bigger);
    if (!bigger) {
      r->scan.failed = tt_fail(tuttiSystemError, "out of memory for the rules of %s", r->made.name);
      return;
    }
    if (r->made.n) memcpy(bigger, r->made.rule, (size_t)r->made.n * sizeof *bigger);
    tt_free(r->made.rule);
    r->made.rule = bigger;
    r->room = room;
  }
  r->made.rule[r->made.n++] = *rule;
}

static void line_parse(struct reader *r)
{
  struct tt_rule rule = {.line = r->scan.line, .collective = tt_kind_find(r->scan.token)};
  if (rule.collective == TT_NO_COLLECTIVE) {
    char names[TT_KIND_NAMES_BYTES], wanted[TT_KIND_NAMES_BYTES + 8];
    snprintf(wanted, sizeof wanted, "one of %s", tt_kind_names(names, sizeof names));
    tt_scan_wrong(&r->scan, wanted);
  }
  tt_scan_next(&r->scan);
  keys_read(r, &rule);
  if (!r->scan.failed) algo_read(r, &rule);
  parameters_read(r, &rule);
  cover_check(r, &rule);
  rule_add(r, &rule);
}

tuttiResult_t tt_rules_parse(struct tt_rules *rules, FILE *in, const char *name)
{
  struct reader r = {.room = 0};
  char source[TT_SOURCE_SHOWN + 1];
  snprintf(r.made.name, sizeof r.made.name, "%s", name);
  snprintf(source, sizeof source, "TUTTI_TABLE: %s", name);
  tt_scan_begin(&r.scan, in, source, "");
  while (tt_scan_line(&r.scan)) line_parse(&r);
  if (tt_scan_end(&r.scan) != tuttiSuccess) tt_free(r.made.rule);
  else *rules = r.made;
  return r.scan.failed;
}

tuttiResult_t tt_rules_load(struct tt_rules *rules, const char *path)
{
  FILE *in = fopen(path, "re");
  if (!in)
    return tt_fail(tuttiInvalidArgument, "TUTTI_TABLE: the table file %.*s cannot be opened: %s", TT_RULES_NAME,
                   path, strerror(errno));
  tuttiResult_t result = tt_rules_parse(rules, in, path);
  fclose(in);
  return result;
}

void tt_rules_destroy(struct tt_rules *rules)
{
  if (!rules) return;
  tt_free(rules->rule);
  *rules = (struct tt_rules){.rule = NULL};
}

/* ---- what they say of a communicator ---- */

static int is_in(const struct tt_limits *range, int64_t value)
{
  return (uint64_t)value >= range->from && (uint64_t)value <= range->to;
}

int tt_rule_matches(const struct tt_rule *rule, int collective, const struct tt_rule_place *place)
{
  return rule->collective == collective && is_in(&rule->ranks, place->nranks) && is_in(&rule->nodes, place->nnodes) &&
         is_in(&rule->ppn, place->ppn);
}

struct tt_choice tt_rule_choice(const struct tt_rule *rule, const struct tt_settings *settings,
                                const struct tt_tuning *tuning)
{
  return (struct tt_choice){
      .algo = rule->choice.algo,
      .middle = rule->choice.middle,
      .radix = rule->choice.radix ? rule->choice.radix : (uint16_t)settings->radix,
      .block_bytes = rule->block_bytes ? rule->block_bytes : tt_choice_block(rule->collective, settings, tuning)};
}

tuttiResult_t tt_rule_place_find(struct tt_rule_place *place, const struct tt_tuning *tuning)
{
  const struct tt_topology *topology = tuning->cluster->topology;
  int32_t most = 0, *ranks = tt_alloc((size_t)topology->nnodes, sizeof *ranks);
  if (!ranks) return tt_fail(tuttiSystemError, "no memory to count the ranks of %d nodes", (int)topology->nnodes);
  for (int32_t r = 0; r < topology->nranks; r++)
    if (++ranks[topology->node[r]] > most) most = ranks[topology->node[r]];
  tt_free(ranks);
  *place = (struct tt_rule_place){tuning->nranks, topology->nnodes, most};
  return tuttiSuccess;
}

static tuttiResult_t legal_check(const struct tt_rules *rules, const struct tt_rule *rule,
                                 const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  struct tt_choice choice = tt_rule_choice(rule, settings, tuning);
  const char *why = tt_choice_illegal(&choice, settings, tuning);
  if (!why) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "TUTTI_TABLE: %s, line %d: %s is not legal for %s of %d ranks: %s", rules->name,
                 (int)rule->line, tt_algos[choice.algo].name, tt_kinds[rule->collective].name, (int)tuning->nranks,
                 why);
}

/* The first matching rule that is about this size, or NULL. *to is cut at the last size with the same answer. */
static const struct tt_rule *rule_at(const struct tt_rule *const *matching, int n, uint64_t bytes, uint64_t *to)
{
  for (int k = 0; k < n; k++) {
    const struct tt_limits *range = &matching[k]->bytes;
    if (range->from <= bytes && bytes <= range->to) {
      if (range->to < *to) *to = range->to;
      return matching[k];
    }
    if (range->from > bytes && range->from - 1 < *to) *to = range->from - 1;
  }
  return NULL;
}

struct cutter {
  struct tt_table_row rows[TT_TABLE_ROWS];
  int n;
};

/* 0: too many. */
static int row_add(struct cutter *cutter, uint64_t to, const struct tt_choice *choice)
{
  struct tt_table_row *last = cutter->n ? &cutter->rows[cutter->n - 1] : NULL;
  if (last && tt_choices_same(&last->choice, choice)) last->up_to_bytes = to;
  else if (cutter->n == TT_TABLE_ROWS) return 0;
  else cutter->rows[cutter->n++] = (struct tt_table_row){to, *choice};
  return 1;
}

/* Finds the rules about the collective at this place; all of them must be legal. */
static tuttiResult_t matching_find(const struct tt_rule **matching, int *n, const struct tt_rules *rules,
                                   int collective, const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  struct tt_rule_place place;
  tuttiResult_t result = tt_rule_place_find(&place, tuning);
  for (int32_t k = 0; k < rules->n && result == tuttiSuccess; k++) {
    if (!tt_rule_matches(&rules->rule[k], collective, &place)) continue;
    result = legal_check(rules, &rules->rule[k], settings, tuning);
    matching[(*n)++] = &rules->rule[k];
  }
  return result;
}

tuttiResult_t tt_rules_apply(const struct tt_rules *rules, struct tt_table_row *rows, int collective,
                             const struct tt_settings *settings, const struct tt_tuning *tuning)
{
  const struct tt_rule *matching[TT_RULES];
  struct cutter cutter = {.n = 0};
  int n = 0;
  tuttiResult_t result = tuttiSuccess;
  if (rules->n) result = matching_find(matching, &n, rules, collective, settings, tuning);
  if (result != tuttiSuccess || !n) return result;
  const struct tt_table_row *row = rows;
  for (uint64_t at = 0, to = 0; to < UINT64_MAX; at = to + 1) {
    while (at > row->up_to_bytes) row++;
    to = UINT64_MAX;
    const struct tt_rule *rule = rule_at(matching, n, at, &to);
    if (!rule && row->up_to_bytes < to) to = row->up_to_bytes;
    struct tt_choice choice = rule ? tt_rule_choice(rule, settings, tuning) : row->choice;
    if (!row_add(&cutter, to, &choice))
      return tt_fail(tuttiInvalidArgument, "%s: with it %s of %d ranks has more than %d ranges of sizes: give it fewer "
                     "rules", rules->name, tt_kinds[collective].name, (int)tuning->nranks, TT_TABLE_ROWS);
  }
  memcpy(rows, cutter.rows, sizeof cutter.rows);
  return tuttiSuccess;
}
