/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads the lines that lines.c describes. */
#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/settings.h"
#include "profile/lines.h"

#define TOKEN_BYTES 128
#define WANTED_BYTES 320
#define DIGITS_OF(number) #number
#define DIGITS(number) DIGITS_OF(number)
#define VERSION DIGITS(TT_PROFILE_VERSION)
#define NAME_SHOWN 120 /* of the text's name, so that the rest of a sentence has room */

enum what { END_OF_TEXT, END_OF_LINE, WORD, QUOTED };

struct reader {
  FILE *in;
  const char *name;
  int line;
  tuttiResult_t failed; /* the first error is kept; after it nothing is read */
  enum what what;
  char token[TOKEN_BYTES];
  unsigned words_seen;
  int has_ended;       /* there was a line `end` */
  struct tt_profile profile;
};

static void wrong(struct reader *r, const char *wanted)
{
  const char *const ends[] = {"the end of the text", "the end of the line"};
  if (r->failed) return;
  r->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d: wanted %s, not '%s'", NAME_SHOWN, r->name, r->line, wanted,
                      r->what < WORD ? ends[r->what] : r->token);
}

/* The next character; a comment counts as the end of its line. */
static int character(struct reader *r)
{
  int c = getc(r->in);
  if (c == '#')
    while (c != '\n' && c != EOF) c = getc(r->in);
  return c;
}

static int token_add(struct reader *r, size_t *n, int c)
{
  int is_fine = c >= ' ' && c != 0x7f;
  r->token[(*n)++] = is_fine ? (char)c : '?';
  r->token[*n] = 0;
  if (!is_fine) wrong(r, "text without control characters");
  if (*n + 1 == TOKEN_BYTES) wrong(r, "a word of at most 126 characters");
  return !r->failed;
}

static void quoted_read(struct reader *r)
{
  size_t n = 0;
  int c = getc(r->in);
  while (c != '"' && c != '\n' && c != EOF && token_add(r, &n, c)) c = getc(r->in);
  if (c != '"') {
    wrong(r, "a double quote at the end of a text");
    return;
  }
  c = getc(r->in);
  if (c != EOF) ungetc(c, r->in);
  if (c != EOF && c != '#' && !isspace(c)) wrong(r, "a blank behind the quote that ends a text");
}

/* Reads the next token. */
static void next(struct reader *r)
{
  size_t n = 0;
  int c;
  if (r->failed) return;
  if (r->what == END_OF_LINE) r->line++;
  r->token[0] = 0;
  do c = character(r);
  while (c == ' ' || c == '\t' || c == '\r');
  r->what = c == EOF ? END_OF_TEXT : c == '\n' ? END_OF_LINE : c == '"' ? QUOTED : WORD;
  if (c == '"') quoted_read(r);
  while (r->what == WORD && token_add(r, &n, c)) {
    c = getc(r->in);
    if (c == '"') wrong(r, "a word without quotes, or a text that is all within them");
    if (c == EOF || c == '#' || isspace(c)) break;
  }
  if (r->what == WORD && c != EOF) ungetc(c, r->in);
  if (ferror(r->in) && !r->failed)
    r->failed = tt_fail(tuttiInvalidArgument, "%.*s cannot be read: %s", NAME_SHOWN, r->name, strerror(errno));
}

static int took(struct reader *r, const char *text)
{
  if (r->failed || r->what != WORD || strcmp(r->token, text) != 0) return 0;
  next(r);
  return 1;
}

static void expect(struct reader *r, const char *text, const char *wanted)
{
  if (!took(r, text)) wrong(r, wanted);
}

/* ---- values ---- */

static void text_parse(struct reader *r, const struct tt_profile_key *key, char *at)
{
  size_t room = key->value == TT_VALUE_TEXT ? TT_PROFILE_TEXT : TT_PROFILE_NAME, len = strlen(r->token);
  char wanted[64];
  snprintf(wanted, sizeof wanted, "%s of at most %zu characters", room == TT_PROFILE_NAME ? "a name" : "a text",
           room - 1);
  if (len >= room || (key->value == TT_VALUE_NAME && !len)) wrong(r, wanted);
  else memcpy(at, r->token, len + 1);
}

/* A whole number at *text up to `most`; more if it is larger. *text moves behind it; it stays where there is none. */
static uint64_t digits(const char **text, uint64_t most)
{
  uint64_t value = 0;
  for (; isdigit((unsigned char)**text); (*text)++)
    if (value <= most) value = 10 * value + (uint64_t)(**text - '0');
  return value;
}

static void count_parse(struct reader *r, const struct tt_profile_key *key, char *at)
{
  const char *text = r->token;
  uint64_t value = digits(&text, (uint64_t)key->high);
  int32_t count = (int32_t)value;
  char wanted[64];
  snprintf(wanted, sizeof wanted, "a whole number from %.0f to %.0f", key->low, key->high);
  if (text == r->token || *text || value < (uint64_t)key->low || value > (uint64_t)key->high) wrong(r, wanted);
  memcpy(at, &count, sizeof count);
}

/* Bytes up to TT_PROFILE_BYTES; UINT64_MAX if they are more or it is no such number. */
static uint64_t size_of(const char *text)
{
  uint64_t value;
  return tt_bytes_read(&text, &value) && !*text && value <= TT_PROFILE_BYTES ? value : UINT64_MAX;
}

static void size_parse(struct reader *r, const struct tt_profile_key *key, char *at)
{
  uint64_t value = size_of(r->token);
  int is_limit = key->value == TT_VALUE_LIMIT;
  if (value == UINT64_MAX && !(is_limit && strcmp(r->token, "inf") == 0))
    wrong(r, is_limit ? "a whole number of bytes up to 2^60, as 100, 64K, 1.5M or 1e6, or inf"
                      : "a whole number of bytes up to 2^60, as 100, 64K, 1.5M or 1e6");
  memcpy(at, &value, sizeof value);
}

static void block_parse(struct reader *r, const struct tt_profile_key *key, char *at)
{
  uint64_t value = size_of(r->token);
  uint32_t block = (uint32_t)value;
  if (value < (uint64_t)key->low || value > (uint64_t)key->high) wrong(r, "a whole number of bytes from 1 to 1G");
  memcpy(at, &block, sizeof block);
}

static void number_parse(struct reader *r, const struct tt_profile_key *key, char *at)
{
  char *end = r->token, wanted[64];
  double value = 0;
  /* strtod knows more than decimal numbers. */
  if (strspn(r->token, "0123456789.eE+-") == strlen(r->token)) value = strtod(r->token, &end);
  snprintf(wanted, sizeof wanted, "a number from %g to %g", key->low, key->high);
  if (end == r->token || *end || !(value >= key->low && value <= key->high) || r->token[0] == '-') wrong(r, wanted);
  memcpy(at, &value, sizeof value);
}

/* One of the names of a kind of value. */
static void named_parse(struct reader *r, const struct tt_profile_key *key, char *at)
{
  char wanted[WANTED_BYTES] = "one of ";
  const size_t begin = strlen(wanted);
  size_t used = begin;
  int32_t index = 0;
  const char *name = tt_profile_name(key->value, 0);
  for (; name && (!name[0] || strcmp(r->token, name) != 0); name = tt_profile_name(key->value, ++index))
    if (name[0] && used < sizeof wanted)
      used += (size_t)snprintf(wanted + used, sizeof wanted - used, "%s%s", used > begin ? ", " : "", name);
  if (!name) wrong(r, wanted);
  memcpy(at, &index, sizeof index);
}

static void value_parse(struct reader *r, const struct tt_profile_key *key, char *item)
{
  static void (*const parsers[])(struct reader *, const struct tt_profile_key *, char *) = {
      [TT_VALUE_TEXT] = text_parse,   [TT_VALUE_NAME] = text_parse,   [TT_VALUE_LABEL] = text_parse,
      [TT_VALUE_COUNT] = count_parse,
      [TT_VALUE_SIZE] = size_parse,   [TT_VALUE_LIMIT] = size_parse,  [TT_VALUE_BLOCK] = block_parse,
      [TT_VALUE_NUMBER] = number_parse, [TT_VALUE_KIND] = named_parse, [TT_VALUE_TYPE] = named_parse,
      [TT_VALUE_OP] = named_parse,    [TT_VALUE_LEVEL] = named_parse, [TT_VALUE_COLLECTIVE] = named_parse,
  };
  char wanted[64];
  snprintf(wanted, sizeof wanted, "a value for '%s'", key->name);
  if (r->what < WORD) wrong(r, wanted);
  if (!r->failed) parsers[key->value](r, key, item + key->offset);
  next(r);
}

/* ---- lines ---- */

/* "one of the keys flows, ways": those that are not there yet. */
static void missing_text(const struct tt_profile_line *line, unsigned seen, char *text, size_t size)
{
  size_t begin = (size_t)snprintf(text, size, "one of the keys "), used = begin;
  for (int k = 0; k < line->nkeys && used < size; k++)
    if (!(seen & 1u << k))
      used += (size_t)snprintf(text + used, size - used, "%s%s", used > begin ? ", " : "", line->keys[k].name);
}

/* Behind the word: pairs up to the end of the line. */
static void keys_parse(struct reader *r, const struct tt_profile_line *line, char *item)
{
  unsigned seen = 0, all = (1u << line->nkeys) - 1;
  char wanted[WANTED_BYTES];
  while (!r->failed && r->what >= WORD) {
    int k = 0;
    while (k < line->nkeys && (r->what != WORD || strcmp(r->token, line->keys[k].name) != 0)) k++;
    missing_text(line, seen, wanted, sizeof wanted);
    if (k == line->nkeys) wrong(r, seen == all ? "the end of the line" : wanted);
    else if (seen & 1u << k) wrong(r, "each key once");
    if (r->failed) return;
    next(r);
    value_parse(r, &line->keys[k], item);
    seen |= 1u << k;
  }
  missing_text(line, seen, wanted, sizeof wanted);
  if (seen != all) wrong(r, wanted + strlen("one of "));
}

/* What no key can say of itself. */
static void item_check(struct reader *r, enum tt_profile_word word, const void *item, int number)
{
  const struct tt_profile_link *link = item;
  const struct tt_profile_point *point = item;
  const struct tt_profile_anchor *anchor = item;
  const char *what = NULL;
  if (r->failed) return;
  if (word == TT_WORD_LINK && link->from >= link->to) what = "from must be less than to";
  if (word == TT_WORD_POINT && !(point->low_us <= point->us && point->us <= point->high_us))
    what = "low_us must not be above us, nor us above high_us";
  if (word == TT_WORD_ANCHOR && anchor->nnodes > anchor->nranks) what = "there must not be more nodes than ranks";
  if (what) r->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d: %s", NAME_SHOWN, r->name, number, what);
}

static void item_parse(struct reader *r, enum tt_profile_word word)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  union {
    struct tt_profile_measured measured;
    struct tt_profile_link link;
    struct tt_profile_point point;
    struct tt_profile_reduce reduce;
    struct tt_profile_anchor anchor;
  } item;
  int32_t number = r->line;
  memset(&item, 0, sizeof item);
  keys_parse(r, line, (char *)&item);
  memcpy((char *)&item + line->line, &number, sizeof number);
  item_check(r, word, &item, number);
  if (r->failed) return;
  if (word == TT_WORD_MEASURED) r->failed = tt_profile_add_measured(&r->profile, &item.measured);
  if (word == TT_WORD_LINK) r->failed = tt_profile_add_link(&r->profile, &item.link);
  if (word == TT_WORD_POINT) r->failed = tt_profile_add_point(&r->profile, &item.point);
  if (word == TT_WORD_REDUCE) r->failed = tt_profile_add_reduce(&r->profile, &item.reduce);
  if (word == TT_WORD_ANCHOR) r->failed = tt_profile_add_anchor(&r->profile, &item.anchor);
}

static void line_parse(struct reader *r)
{
  int w = 0;
  if (r->has_ended) wrong(r, "nothing behind 'end'");
  if (took(r, "end")) {
    r->has_ended = 1;
    if (r->what >= WORD) wrong(r, "the end of the line");
    return;
  }
  while (w < TT_PROFILE_WORDS && (r->what != WORD || strcmp(r->token, tt_profile_lines[w].word) != 0)) w++;
  if (w == TT_PROFILE_WORDS) {
    wrong(r, "machine, measured, link, point, reduce, anchor or end");
    return;
  }
  if (!tt_profile_lines[w].size && r->words_seen & 1u << w) wrong(r, "one such line only");
  r->words_seen |= 1u << w;
  next(r);
  if (tt_profile_lines[w].size) item_parse(r, (enum tt_profile_word)w);
  else keys_parse(r, &tt_profile_lines[w], (char *)&r->profile);
}

/* ---- the whole text ---- */

static void lines_parse(struct reader *r)
{
  static const char first[] = "'tutti profile " VERSION "' first";
  r->what = WORD;
  next(r);
  while (!r->failed && r->what == END_OF_LINE) next(r);
  expect(r, "tutti", first);
  expect(r, "profile", first);
  expect(r, VERSION, "version " VERSION ": measure anew with tutti tune");
  if (r->what >= WORD) wrong(r, "the end of the line");
  while (!r->failed && r->what != END_OF_TEXT)
    if (r->what == END_OF_LINE) next(r);
    else line_parse(r);
  if (!(r->words_seen & 1u << TT_WORD_MACHINE)) wrong(r, "a line 'machine'");
}

static int32_t line_of(const struct tt_profile_line *line, const char *item)
{
  int32_t number;
  memcpy(&number, item + line->line, sizeof number);
  return number;
}

/* Of sorted lines. */
static void doubles_check(struct reader *r, enum tt_profile_word word)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  int32_t n;
  const char *items = tt_profile_items(&r->profile, word, &n);
  for (int32_t i = 1; i < n && !r->failed; i++) {
    const char *item = items + (size_t)i * line->size, *before = item - line->size;
    int32_t a = line_of(line, before), b = line_of(line, item);
    if (tt_profile_compare(before, item, word) == 0)
      r->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d says what line %d says already: keep one of them",
                          NAME_SHOWN, r->name, (int)(a > b ? a : b), (int)(a > b ? b : a));
  }
}

static double time_at(const struct tt_profile_link *link, uint64_t bytes)
{
  return link->alpha_us + (double)bytes / (1 << 20) * link->beta_us_per_mib;
}

#define FALL_ALLOWED 0.999 /* numbers are rounded */

static void wrong_link(struct reader *r, const struct tt_profile_link *link, const char *what)
{
  r->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d: %s: the lines of one kind, transport, interface, flows and "
                      "ways follow one another from 0 to inf", NAME_SHOWN, r->name, (int)link->line, what);
}

/* Of sorted links: those of a flow are without gaps. (One whose end was cut off is told as that.) */
static void links_check(struct reader *r)
{
  int32_t nparts = 0;
  for (int32_t i = 0; i < r->profile.nlinks && !r->failed; i++) {
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
  struct reader r = {.in = in, .name = name, .line = 1};
  snprintf(r.profile.name, sizeof r.profile.name, "%s", name);
  struct tt_plain plain;
  if (!tt_plain_begin(&plain)) return tuttiSystemError;
  lines_parse(&r);
  tt_plain_end(&plain);
  if (!r.failed) tt_profile_sort(&r.profile);
  for (int w = TT_WORD_MEASURED; w < TT_PROFILE_WORDS && !r.failed; w++) doubles_check(&r, (enum tt_profile_word)w);
  links_check(&r);
  if (!r.has_ended) wrong(&r, "a line 'end': the text is cut off; measure anew, or write that line if nothing is lost");
  if (r.failed) tt_profile_destroy(&r.profile);
  else *profile = r.profile;
  return r.failed;
}

tuttiResult_t tt_profile_load(struct tt_profile *profile, const char *path)
{
  FILE *in = fopen(path, "re");
  if (!in)
    return tt_fail(tuttiInvalidArgument, "the profile %.*s cannot be opened: %s", NAME_SHOWN, path, strerror(errno));
  tuttiResult_t result = tt_profile_parse(profile, in, path);
  fclose(in);
  return result;
}
