/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/rules.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define LINE_BYTES 1024
#define TOKEN_BYTES 80
#define SENTENCE_PART 300

/* ---- reading ---- */

struct reader {
  FILE *in;
  int32_t line;
  char text[LINE_BYTES], *at; /* the line */
  char token[TOKEN_BYTES];    /* "" at its end */
  struct tt_rules made;
  int32_t room;
  tuttiResult_t failed; /* the first error is kept; after it nothing is read */
};

static void wrong(struct reader *r, const char *wanted)
{
  const char *quote = r->token[0] ? "'" : "";
  if (r->failed) return;
  r->failed = tt_fail(tuttiInvalidArgument, "TUTTI_TABLE: %s, line %d: wanted %s, not %s%s%s", r->made.name,
                      (int)r->line, wanted, quote, r->token[0] ? r->token : "the end of the line", quote);
}

static void next(struct reader *r)
{
  r->at += strspn(r->at, " \t\r");
  size_t len = strcspn(r->at, " \t\r");
  if (len >= sizeof r->token) {
    snprintf(r->token, sizeof r->token, "%.40s...", r->at);
    wrong(r, "words of less than 80 characters");
    return;
  }
  memcpy(r->token, r->at, len);
  r->token[len] = 0;
  r->at += len;
}

static int took(struct reader *r, const char *word)
{
  if (r->failed || strcmp(r->token, word) != 0) return 0;
  next(r);
  return 1;
}

/* A whole number with K, M, G, KiB, ... where it is a size; *text moves behind it. 0: it is none. */
static int number_read(const char **text, int is_size, uint64_t *value)
{
  char *end;
  if (is_size) return tt_bytes_read(text, value);
  if (!isdigit((unsigned char)**text)) return 0;
  errno = 0;
  *value = strtoull(*text, &end, 10);
  *text = end;
  return !errno && *value <= INT64_MAX;
}

/* N, FROM..TO or FROM..inf; `least`: what numbers begin with. */
static struct tt_limits range_read(struct reader *r, const char *key)
{
  struct tt_limits range = {0, 0};
  int is_size = strcmp(key, "bytes") == 0, least = !is_size;
  const char *text = r->token;
  int is_fine = number_read(&text, is_size, &range.from);
  range.to = range.from;
  if (is_fine && strcmp(text, "..inf") == 0) {
    range.to = UINT64_MAX;
    text += 5;
  } else if (is_fine && text[0] == '.' && text[1] == '.') {
    text += 2;
    is_fine = number_read(&text, is_size, &range.to);
  }
  if (!is_fine || *text || range.from < (uint64_t)least)
    wrong(r, is_size ? "bytes as N, FROM..TO or FROM..inf, with K, M or G if you like"
                     : "N, FROM..TO or FROM..inf, from 1 on");
  else if (range.to < range.from) wrong(r, "a range whose end is not below its begin");
  else next(r);
  return range;
}

static void keys_read(struct reader *r, struct tt_rule *rule)
{
  static const char *const names[] = {"ranks", "nodes", "ppn", "bytes"};
  struct tt_limits *const ranges[] = {&rule->ranks, &rule->nodes, &rule->ppn, &rule->bytes};
  int seen[4] = {0};
  for (int k = 0; k < 4; k++) *ranges[k] = (struct tt_limits){0, UINT64_MAX};
  while (!r->failed && !took(r, "->")) {
    int k = 0;
    while (k < 4 && strcmp(r->token, names[k]) != 0) k++;
    if (k == 4) wrong(r, "one of ranks, nodes, ppn, bytes, or ->");
    else if (seen[k]++) wrong(r, "each key once");
    if (r->failed) return;
    next(r);
    *ranges[k] = range_read(r, names[k]);
  }
}

static void algo_read(struct reader *r, struct tt_rule *rule)
{
  char name[TOKEN_BYTES], why[SENTENCE_PART + 60], list[SENTENCE_PART];
  size_t len = strcspn(r->token, "+/");
  memcpy(name, r->token, len);
  name[len] = 0;
  const struct tt_algo *algo = tt_algo_find(rule->collective, name);
  if (!algo) {
    tt_algo_filter_names(rule->collective, list, sizeof list);
    snprintf(why, sizeof why, "an algorithm of %s, one of %s", tt_kinds[rule->collective].name, list);
    wrong(r, why);
    return;
  }
  rule->choice = (struct tt_algo_filter){.algo = (uint8_t)(algo - tt_algos), .middle = -1};
  const char *reason = r->failed ? NULL : tt_algo_filter_rest(&rule->choice, r->token + len, why, sizeof why);
  if (reason) r->failed = tt_fail(tuttiInvalidArgument, "%s, line %d: %s", r->made.name, (int)r->line, reason);
  next(r);
}

static void parameters_read(struct reader *r, struct tt_rule *rule)
{
  while (!r->failed && r->token[0]) {
    uint64_t value = 0;
    int is_radix = strcmp(r->token, "radix") == 0;
    if ((!is_radix && strcmp(r->token, "block") != 0) || (is_radix ? rule->choice.radix : rule->block_bytes)) {
      wrong(r, "radix N or block SIZE, each once, or the end of the line");
      return;
    }
    if (is_radix && !tt_algos[rule->choice.algo].has_radix) wrong(r, "an algorithm that has one in front of a radix");
    next(r);
    const char *text = r->token;
    if (!number_read(&text, !is_radix, &value) || *text) value = 0;
    if (is_radix && (value < 2 || value > UINT16_MAX)) wrong(r, "a radix from 2 to 65535");
    if (!is_radix && (value < 1 || value > 1u << 30)) wrong(r, "a block from 1 byte to 1 GiB");
    if (is_radix) rule->choice.radix = (uint16_t)value;
    else rule->block_bytes = (uint32_t)value;
    next(r);
  }
}

static int covers(const struct tt_limits *a, const struct tt_limits *b)
{
  return a->from <= b->from && a->to >= b->to;
}

static void cover_check(struct reader *r, const struct tt_rule *rule)
{
  for (int32_t k = 0; k < r->made.n && !r->failed; k++) {
    const struct tt_rule *before = &r->made.rule[k];
    if (before->collective != rule->collective || !covers(&before->ranks, &rule->ranks) ||
        !covers(&before->nodes, &rule->nodes) || !covers(&before->ppn, &rule->ppn) ||
        !covers(&before->bytes, &rule->bytes))
      continue;
    r->failed = tt_fail(tuttiInvalidArgument, "%s, line %d: this rule can never match, as line %d covers it: put it in "
                        "front of that, or leave it out", r->made.name, (int)rule->line, (int)before->line);
  }
}

static void rule_add(struct reader *r, const struct tt_rule *rule)
{
  if (r->failed) return;
  if (r->made.n == TT_RULES) {
    r->failed = tt_fail(tuttiInvalidArgument, "%s, line %d: wanted at most %d rules", r->made.name, (int)r->line,
                        TT_RULES);
    return;
  }
  if (r->made.n == r->room) {
    int32_t room = r->room ? 2 * r->room : 16;
    struct tt_rule *bigger = tt_alloc((size_t)room, sizeof *bigger);
    if (!bigger) {
      r->failed = tt_fail(tuttiSystemError, "out of memory for the rules of %s", r->made.name);
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
  struct tt_rule rule = {.line = r->line};
  r->at = r->text;
  next(r);
  if (r->failed || !r->token[0]) return;
  rule.collective = tt_kind_find(r->token);
  if (rule.collective == TT_NO_COLLECTIVE)
    wrong(r, "all_reduce, reduce, broadcast, reduce_scatter, all_gather, all_to_all, gather or scatter");
  if (!r->failed) next(r);
  keys_read(r, &rule);
  if (!r->failed) algo_read(r, &rule);
  parameters_read(r, &rule);
  cover_check(r, &rule);
  rule_add(r, &rule);
}

/* Takes the next line without its comment; 0 at the end. */
static int line_read(struct reader *r)
{
  if (r->failed || !fgets(r->text, sizeof r->text, r->in)) return 0;
  r->line++;
  r->token[0] = 0;
  size_t len = strlen(r->text);
  if (len && r->text[len - 1] == '\n') r->text[--len] = 0;
  else if (!feof(r->in)) wrong(r, "text, in lines of less than 1,023 characters");
  r->text[strcspn(r->text, "#")] = 0;
  for (char *c = r->text; *c; c++)
    if ((unsigned char)*c < ' ' && *c != '\t' && *c != '\r') wrong(r, "text without control characters");
  return 1;
}

tuttiResult_t tt_rules_parse(struct tt_rules *rules, FILE *in, const char *name)
{
  struct reader r = {.in = in};
  snprintf(r.made.name, sizeof r.made.name, "%s", name);
  while (line_read(&r)) line_parse(&r);
  if (ferror(in) && !r.failed)
    r.failed = tt_fail(tuttiInvalidArgument, "TUTTI_TABLE: %s cannot be read: %s", r.made.name, strerror(errno));
  if (r.failed) tt_free(r.made.rule);
  else *rules = r.made;
  return r.failed;
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
