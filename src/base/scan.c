/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/settings.h"

#define WANTED_BYTES 160
#define DELETE 0x7f

/* ---- locale ---- */

int tt_plain_begin(struct tt_plain *plain)
{
  plain->own = newlocale(LC_ALL_MASK, "C", (locale_t)0);
  if (plain->own) plain->before = uselocale(plain->own);
  else tt_fail(tuttiSystemError, "no memory to read or print numbers: give the process more");
  return plain->own != (locale_t)0;
}

void tt_plain_end(struct tt_plain *plain)
{
  uselocale(plain->before);
  freelocale(plain->own);
}

int tt_number_read(const char *text, const char **end, double *number)
{
  struct tt_plain plain;
  char *after;
  const char *digit = text + (text[0] == '.');
  if (*digit < '0' || *digit > '9') return 0;
  if (text[0] == '0' && (text[1] == 'x' || text[1] == 'X')) return 0;
  if (!tt_plain_begin(&plain)) return 0;
  *number = strtod(text, &after);
  tt_plain_end(&plain);
  *end = after;
  return *after == 0 || *after == ',';
}

/* ---- errors ---- */

void tt_scan_fail(struct tt_scan *scan, int32_t line, const char *format, ...)
{
  char sentence[TT_SENTENCE_BYTES];
  va_list arguments;
  if (scan->failed) return;
  va_start(arguments, format);
  vsnprintf(sentence, sizeof sentence, format, arguments);
  va_end(arguments);
  scan->failed = tt_fail(tuttiInvalidArgument, "%.*s, line %d: %s", TT_SOURCE_SHOWN, scan->source, (int)line, sentence);
}

void tt_scan_wrong(struct tt_scan *scan, const char *wanted)
{
  static const char *const ends[] = {"the end of the text", "the end of the line"};
  tt_scan_fail(scan, scan->line, "wanted %s, not '%s'", wanted, scan->what < TT_WORD ? ends[scan->what] : scan->token);
}

/* ---- tokens ---- */

/* The next character. `scan->back` and not ungetc, which locks the stream: long texts are read when jobs start. */
static int character(struct tt_scan *scan)
{
  int c = scan->back;
  scan->back = EOF;
  return c != EOF ? c : getc_unlocked(scan->in);
}

/* Adds a character to the token. Control characters become DELETE and are reported once the word is whole. 0: there is
 * no room for more. */
static int token_add(struct tt_scan *scan, size_t *n, int c)
{
  int is_control = c < ' ' || c == DELETE, has_room;
  scan->token[(*n)++] = (char)(is_control ? DELETE : c);
  scan->token[*n] = 0;
  has_room = *n + 1 < TT_TOKEN_BYTES;
  if (is_control || !has_room) scan->is_odd = 1;
  return has_room;
}

static void token_check(struct tt_scan *scan)
{
  if (!scan->is_odd) return;
  char *at = strchr(scan->token, DELETE);
  for (char *next = at; next; next = strchr(next, DELETE)) *next = '?';
  tt_scan_wrong(scan, at ? "text without control characters" : "a word of at most 126 characters");
}

static int is_mark(const struct tt_scan *scan, int c)
{
  return scan->marks[0] && c && strchr(scan->marks, c) != NULL;
}

static void quoted_read(struct tt_scan *scan)
{
  size_t n = 0;
  int c = character(scan);
  while (c != '"' && c != '\n' && c != EOF && token_add(scan, &n, c)) c = character(scan);
  if (c != '"') {
    token_check(scan);
    tt_scan_wrong(scan, "a double quote at the end of a text");
    return;
  }
  c = scan->back = character(scan);
  if (c != EOF && c != '#' && !isspace(c) && !is_mark(scan, c))
    tt_scan_wrong(scan, "a blank behind the quote that ends a text");
}

static void word_read(struct tt_scan *scan, int c)
{
  size_t n = 0;
  int is_alone = is_mark(scan, c);
  while (token_add(scan, &n, c)) {
    if (is_alone) return;
    c = character(scan);
    if (c == '"') {
      token_check(scan);
      tt_scan_wrong(scan, "a word without quotes, or a text that is all within them");
      return;
    }
    if (c == EOF || c == '#' || isspace(c) || is_mark(scan, c)) break;
  }
  scan->back = c;
}

void tt_scan_next(struct tt_scan *scan)
{
  int c;
  if (scan->failed) return;
  if (scan->what == TT_END_OF_LINE) scan->line++;
  scan->token[0] = 0;
  scan->is_odd = 0;
  do c = character(scan);
  while (c == ' ' || c == '\t' || c == '\r');
  if (c == '#') /* a comment counts as the end of its line */
    while (c != '\n' && c != EOF) c = character(scan);
  scan->what = c == EOF ? TT_END_OF_TEXT : c == '\n' ? TT_END_OF_LINE : c == '"' ? TT_QUOTED : TT_WORD;
  if (scan->what == TT_QUOTED) quoted_read(scan);
  if (scan->what == TT_WORD) word_read(scan, c);
  token_check(scan);
  if (ferror_unlocked(scan->in) && !scan->failed)
    scan->failed = tt_fail(tuttiInvalidArgument, "%.*s cannot be read: %s", TT_SOURCE_SHOWN, scan->source,
                           strerror(errno));
}

void tt_scan_begin(struct tt_scan *scan, FILE *in, const char *source, const char *marks)
{
  *scan = (struct tt_scan){.in = in, .source = source, .marks = marks, .back = EOF, .line = 1, .what = TT_WORD};
  if (!tt_plain_begin(&scan->plain)) scan->failed = tuttiSystemError;
  tt_scan_next(scan);
}

tuttiResult_t tt_scan_end(struct tt_scan *scan)
{
  if (scan->plain.own) tt_plain_end(&scan->plain);
  return scan->failed;
}

int tt_scan_is(const struct tt_scan *scan, const char *word)
{
  return !scan->failed && scan->what == TT_WORD && scan->token[0] == word[0] && strcmp(scan->token, word) == 0;
}

int tt_scan_took(struct tt_scan *scan, const char *word)
{
  if (!tt_scan_is(scan, word)) return 0;
  tt_scan_next(scan);
  return 1;
}

void tt_scan_expect(struct tt_scan *scan, const char *word, const char *wanted)
{
  if (!tt_scan_took(scan, word)) tt_scan_wrong(scan, wanted);
}

void tt_scan_line_end(struct tt_scan *scan)
{
  if (tt_scan_has_word(scan)) tt_scan_wrong(scan, "the end of the line");
}

int tt_scan_line(struct tt_scan *scan)
{
  while (!scan->failed && scan->what == TT_END_OF_LINE) tt_scan_next(scan);
  return tt_scan_has_word(scan);
}

/* ---- values ---- */

uint64_t tt_digits(const char **text, uint64_t most)
{
  uint64_t value = 0;
  for (; isdigit((unsigned char)**text); (*text)++)
    if (value <= most) value = 10 * value + (uint64_t)(**text - '0');
  return value;
}

uint64_t tt_scan_whole(struct tt_scan *scan, const char *noun, uint64_t low, uint64_t high)
{
  const char *text = scan->token;
  uint64_t value = tt_digits(&text, high);
  char wanted[WANTED_BYTES];
  if (text == scan->token || *text || value < low || value > high) {
    snprintf(wanted, sizeof wanted, "%s from %llu to %llu", noun, (unsigned long long)low, (unsigned long long)high);
    tt_scan_wrong(scan, wanted);
  }
  tt_scan_next(scan);
  return scan->failed ? low : value;
}

double tt_scan_number(struct tt_scan *scan, const char *noun, double low, double high)
{
  char *end = scan->token, wanted[WANTED_BYTES];
  double value = 0;
  /* strtod also accepts other texts than decimal numbers. */
  if (strspn(scan->token, "0123456789.eE+-") == strlen(scan->token)) value = strtod(scan->token, &end);
  if (end == scan->token || *end || !(value >= low && value <= high) || scan->token[0] == '-') {
    snprintf(wanted, sizeof wanted, "%s from %g to %g", noun, low, high);
    tt_scan_wrong(scan, wanted);
  }
  tt_scan_next(scan);
  return scan->failed ? low : value;
}

uint64_t tt_scan_bytes(struct tt_scan *scan, const char *wanted, uint64_t low, uint64_t high)
{
  const char *text = scan->token;
  uint64_t value = 0;
  if (!tt_bytes_read(&text, &value) || *text || value < low || value > high) tt_scan_wrong(scan, wanted);
  tt_scan_next(scan);
  return scan->failed ? low : value;
}
