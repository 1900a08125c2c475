/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the lines that lines.c describes. */
#include <errno.h>
#include <string.h>

#include "base/scan.h"
#include "profile/lines.h"

#define WANTED_BYTES 320
#define DIGITS_OF(number) #number
#define DIGITS(number) DIGITS_OF(number)
#define VERSION DIGITS(TT_PROFILE_VERSION)

struct reader {
  struct tt_scan scan;
  unsigned words_seen;
  int has_ended;       /* there was a line `end` */
  struct tt_profile profile;
};

/* ---- values ---- */

static void text_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *at)
{
  size_t room = key->value == TT_VALUE_TEXT ? TT_PROFILE_TEXT : TT_PROFILE_NAME, len = strlen(scan->token);
  if (len >= room || (key->value == TT_VALUE_NAME && !len)) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "%s of at most %zu characters", room == TT_PROFILE_NAME ? "a name" : "a text",
             room - 1);
    tt_scan_wrong(scan, wanted);
  } else memcpy(at, scan->token, len + 1);
  tt_scan_next(scan);
}

static void count_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *at)
{
  int32_t count = (int32_t)tt_scan_whole(scan, "a whole number", (uint64_t)key->low, (uint64_t)key->high);
  memcpy(at, &count, sizeof count);
}

static void size_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *at)
{
  int is_limit = key->value == TT_VALUE_LIMIT, is_open = is_limit && strcmp(scan->token, "inf") == 0;
  uint64_t value = UINT64_MAX;
  if (is_open) tt_scan_next(scan);
  else
    value = tt_scan_bytes(scan, is_limit ? "a whole number of bytes up to 2^60, as 100, 64K, 1.5M or 2GiB, or inf"
                                         : "a whole number of bytes up to 2^60, as 100, 64K, 1.5M or 2GiB",
                          0, TT_PROFILE_BYTES);
  memcpy(at, &value, sizeof value);
}

static void block_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *at)
{
  uint32_t block = (uint32_t)tt_scan_bytes(scan, "a whole number of bytes from 1 to 1G", (uint64_t)key->low,
                                           (uint64_t)key->high);
  memcpy(at, &block, sizeof block);
}

static void number_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *at)
{
  double value = tt_scan_number(scan, "a number", key->low, key->high);
  memcpy(at, &value, sizeof value);
}

static void wrong_name(struct tt_scan *scan, const struct tt_profile_key *key)
{
  char wanted[WANTED_BYTES] = "one of ";
  const size_t begin = strlen(wanted);
  size_t used = begin;
  const char *name;
  for (int32_t index = 0; (name = tt_profile_name(key->value, index)) && used < sizeof wanted; index++)
    if (name[0])
      used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%s", used > begin ? ", " : "", name);
  tt_scan_wrong(scan, wanted);
}

/* One of the names of a kind of value. */
static void named_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *at)
{
  int32_t index = 0;
  const char *name = tt_profile_name(key->value, 0);
  while (name && (!name[0] || strcmp(scan->token, name) != 0)) name = tt_profile_name(key->value, ++index);
  if (!name) wrong_name(scan, key);
  memcpy(at, &index, sizeof index);
  tt_scan_next(scan);
}

static void value_parse(struct tt_scan *scan, const struct tt_profile_key *key, char *item)
{
  static void (*const parsers[])(struct tt_scan *, const struct tt_profile_key *, char *) = {
      [TT_VALUE_TEXT] = text_parse,   [TT_VALUE_NAME] = text_parse,   [TT_VALUE_LABEL] = text_parse,
      [TT_VALUE_COUNT] = count_parse,
      [TT_VALUE_SIZE] = size_parse,   [TT_VALUE_LIMIT] = size_parse,  [TT_VALUE_BLOCK] = block_parse,
      [TT_VALUE_NUMBER] = number_parse, [TT_VALUE_KIND] = named_parse, [TT_VALUE_TYPE] = named_parse,
      [TT_VALUE_OP] = named_parse,    [TT_VALUE_LEVEL] = named_parse, [TT_VALUE_COLLECTIVE] = named_parse,
      [TT_VALUE_MEMORY] = named_parse,
  };
  if (!tt_scan_has_word(scan)) {
    char wanted[64];
    snprintf(wanted, sizeof wanted, "a value for '%s'", key->name);
    tt_scan_wrong(scan, wanted);
  }
  if (!scan->failed) parsers[key->value](scan, key, item + key->offset);
}

/* ---- lines ---- */

/* Fails with "one of the keys flows, ways", the keys that are not there yet; at the end without "one of". */
static void wrong_key(struct tt_scan *scan, const struct tt_profile_line *line, unsigned seen, int is_end)
{
  char text[WANTED_BYTES] = "one of the keys ";
  size_t begin = strlen(text), used = begin;
  for (int k = 0; k < line->nkeys && used < sizeof text; k++)
    if (!(seen & 1u << k))
      used += (size_t)snprintf(text + used, sizeof text - used, "%s%s", used > begin ? ", " : "", line->keys[k].name);
  int is_full = used == begin;
  tt_scan_wrong(scan, is_full ? "the end of the line" : is_end ? text + strlen("one of ") : text);
}

/* Reads the pairs after the word up to the end of the line. */
static void keys_parse(struct tt_scan *scan, const struct tt_profile_line *line, char *item)
{
  unsigned seen = 0, all = (1u << line->nkeys) - 1;
  int next = 0; /* keys come in any order, but mostly in that of the table */
  while (tt_scan_has_word(scan)) {
    int k = next, tried = 0;
    while (tried < line->nkeys && !tt_scan_is(scan, line->keys[k].name)) tried++, k = (k + 1) % line->nkeys;
    next = (k + 1) % line->nkeys;
    if (tried == line->nkeys) wrong_key(scan, line, seen, 0);
    else if (seen & 1u << k) tt_scan_wrong(scan, "each key once");
    if (scan->failed) return;
    tt_scan_next(scan);
    value_parse(scan, &line->keys[k], item);
    seen |= 1u << k;
  }
  if (seen != all) wrong_key(scan, line, seen, 1);
}

/* Checks that keys of one line agree with each other. */
static void item_check(struct tt_scan *scan, enum tt_profile_word word, const void *item, int32_t number)
{
  const struct tt_profile_link *link = item;
  const struct tt_profile_point *point = item;
  const struct tt_profile_anchor *anchor = item;
  const char *what = NULL;
  if (scan->failed) return;
  if (word == TT_PROFILE_LINK && link->from >= link->to) what = "from must be less than to";
  if (word == TT_PROFILE_POINT && !(point->low_us <= point->us && point->us <= point->high_us))
    what = "low_us must not be above us, nor us above high_us";
  if (word == TT_PROFILE_ANCHOR && anchor->nnodes > anchor->nranks) what = "there must not be more nodes than ranks";
  if (what) tt_scan_fail(scan, number, "%s", what);
}

static void item_parse(struct reader *r, enum tt_profile_word word)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  union {
    struct tt_profile_measured measured;
    struct tt_profile_missing missing;
    struct tt_profile_link link;
    struct tt_profile_point point;
    struct tt_profile_reduce reduce;
    struct tt_profile_anchor anchor;
    struct tt_profile_learnt learnt;
  } item;
  struct tt_scan *scan = &r->scan;
  int32_t number = scan->line;
  memset(&item, 0, sizeof item);
  keys_parse(scan, line, (char *)&item);
  memcpy((char *)&item + line->line, &number, sizeof number);
  item_check(scan, word, &item, number);
  if (scan->failed) return;
  if (word == TT_PROFILE_MEASURED) scan->failed = tt_profile_add_measured(&r->profile, &item.measured);
  if (word == TT_PROFILE_MISSING) scan->failed = tt_profile_add_missing(&r->profile, &item.missing);
  if (word == TT_PROFILE_LINK) scan->failed = tt_profile_add_link(&r->profile, &item.link);
  if (word == TT_PROFILE_POINT) scan->failed = tt_profile_add_point(&r->profile, &item.point);
  if (word == TT_PROFILE_REDUCE) scan->failed = tt_profile_add_reduce(&r->profile, &item.reduce);
  if (word == TT_PROFILE_ANCHOR) scan->failed = tt_profile_add_anchor(&r->profile, &item.anchor);
  if (word == TT_PROFILE_LEARNT) scan->failed = tt_profile_add_learnt(&r->profile, &item.learnt);
}

static void line_parse(struct reader *r)
{
  struct tt_scan *scan = &r->scan;
  int w = 0;
  if (r->has_ended) tt_scan_wrong(scan, "nothing behind 'end'");
  if (tt_scan_took(scan, "end")) {
    r->has_ended = 1;
    tt_scan_line_end(scan);
    return;
  }
  while (w < TT_PROFILE_WORDS && !tt_scan_is(scan, tt_profile_lines[w].word)) w++;
  if (w == TT_PROFILE_WORDS) {
    tt_scan_wrong(scan, "machine, measured, missing, link, point, reduce, anchor, learnt or end");
    return;
  }
  if (!tt_profile_lines[w].size && r->words_seen & 1u << w) tt_scan_wrong(scan, "one such line only");
  r->words_seen |= 1u << w;
  tt_scan_next(scan);
  if (tt_profile_lines[w].size) item_parse(r, (enum tt_profile_word)w);
  else keys_parse(scan, &tt_profile_lines[w], (char *)&r->profile);
}

/* ---- the whole text ---- */

static void lines_parse(struct reader *r)
{
  static const char first[] = "'tutti profile " VERSION "' first";
  struct tt_scan *scan = &r->scan;
  tt_scan_line(scan);
  tt_scan_expect(scan, "tutti", first);
  tt_scan_expect(scan, "profile", first);
  tt_scan_expect(scan, VERSION, "version " VERSION ": measure anew with tutti tune");
  tt_scan_line_end(scan);
  while (tt_scan_line(scan)) line_parse(r);
  if (!(r->words_seen & 1u << TT_PROFILE_MACHINE)) tt_scan_wrong(scan, "a line 'machine'");
}

static int32_t line_of(const struct tt_profile_line *line, const char *item)
{
  int32_t number;
  memcpy(&number, item + line->line, sizeof number);
  return number;
}

/* Checks that no two of the sorted lines are about the same. */
static void doubles_check(struct reader *r, enum tt_profile_word word)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  int32_t n;
  const char *items = tt_profile_items(&r->profile, word, &n);
  for (int32_t i = 1; i < n && !r->scan.failed; i++) {
    const char *item = items + (size_t)i * line->size, *before = item - line->size;
    int32_t a = line_of(line, before), b = line_of(line, item);
    if (tt_profile_compare(before, item, word) == 0)
      tt_scan_fail(&r->scan, a > b ? a : b, "it says what line %d says already: keep one of them",
                   (int)(a > b ? b : a));
  }
}

static double time_at(const struct tt_profile_link *link, uint64_t bytes)
{
  return link->alpha_us + (double)bytes / (1 << 20) * link->beta_us_per_mib;
}

#define FALL_ALLOWED 0.999 /* numbers are rounded */

static void wrong_link(struct reader *r, const struct tt_profile_link *link, const char *what)
{
  tt_scan_fail(&r->scan, link->line, "%s: the lines of one kind, transport, interface, flows and ways follow one "
               "another from 0 to inf", what);
}

/* Checks that sorted links of one flow have no gaps. (If the text was cut off, the caller's error says so instead.) */
static void links_check(struct reader *r)
{
  int32_t nparts = 0;
  for (int32_t i = 0; i < r->profile.nlinks && !r->scan.failed; i++) {
    const struct tt_profile_link *link = &r->profile.links[i], *before = link - 1;
    int is_first = i == 0 || !tt_flow_same(&before->flow, &link->flow);
    int is_last = i + 1 == r->profile.nlinks || !tt_flow_same(&link->flow, &link[1].flow);
    uint64_t from = is_first ? 0 : before->to;
    nparts = is_first ? 1 : nparts + 1;
    if (link->from > from) wrong_link(r, link, is_first ? "it must begin at 0" : "there is a gap below from");
    else if (link->from < from) wrong_link(r, link, "it overlaps the line below it");
    else if (is_last && link->to != UINT64_MAX && r->has_ended)
      wrong_link(r, link, "it is the last and must end at inf");
    else if (nparts > TT_CURVE_PARTS) wrong_link(r, link, "there are more than 4 lines");
    else if (!is_first && time_at(link, from) < FALL_ALLOWED * time_at(before, from))
      wrong_link(r, link, "at from it takes less time than by the line below it");
  }
}

tuttiResult_t tt_profile_parse(struct tt_profile *profile, FILE *in, const char *name)
{
  struct reader r = {.words_seen = 0};
  struct tt_scan *scan = &r.scan;
  snprintf(r.profile.name, sizeof r.profile.name, "%s", name);
  tt_scan_begin(scan, in, name, "");
  lines_parse(&r);
  if (!scan->failed) tt_profile_sort(&r.profile);
  for (int w = TT_PROFILE_MEASURED; w < TT_PROFILE_WORDS && !scan->failed; w++)
    doubles_check(&r, (enum tt_profile_word)w);
  links_check(&r);
  if (!r.has_ended)
    tt_scan_wrong(scan, "a line 'end': the text is cut off; measure anew, or write that line if nothing is lost");
  if (tt_scan_end(scan) != tuttiSuccess) tt_profile_destroy(&r.profile);
  else *profile = r.profile;
  return scan->failed;
}

tuttiResult_t tt_profile_load(struct tt_profile *profile, const char *path)
{
  FILE *in = fopen(path, "re");
  if (!in)
    return tt_fail(tuttiInvalidArgument, "the profile %.*s cannot be opened: %s", TT_SOURCE_SHOWN, path,
                   strerror(errno));
  tuttiResult_t result = tt_profile_parse(profile, in, path);
  fclose(in);
  return result;
}
