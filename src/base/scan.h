/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads texts of words in lines: topologies, profiles, tables of rules, schedules. Any number of blanks separates
 * words; a comment goes from # to the end of the line; a word in double quotes may have blanks and #.
 *
 * All errors have one form, "SOURCE, line N: wanted WHAT, not 'WORD'". The first one is kept, and after it nothing is
 * read or taken. So a parser checks `failed` only before it acts on the values it has read. */
#ifndef TT_BASE_SCAN_H
#define TT_BASE_SCAN_H

#include <locale.h>
#include <stdint.h>
#include <stdio.h>

#include "tutti.h"

#define TT_TOKEN_BYTES 128
#define TT_SOURCE_SHOWN 200 /* of the source's name, so that the rest of a sentence has room */

/* Gives the calling thread decimal points, whatever locale the program has set, until tt_plain_end. 0: no memory, which
 * is logged; then there is nothing to end. */
struct tt_plain {
  locale_t own, before;
};
int tt_plain_begin(struct tt_plain *plain);
void tt_plain_end(struct tt_plain *plain);

/* Reads a number that a comma or the end follows: digits, possibly with a decimal point and an exponent, whatever the
 * locale. *end is what follows it. 0: there is none. */
int tt_number_read(const char *text, const char **end, double *number);

enum tt_token { TT_END_OF_TEXT, TT_END_OF_LINE, TT_WORD, TT_QUOTED };

struct tt_scan {
  FILE *in;
  const char *source; /* name of the text in sentences */
  const char *marks;  /* characters that are words by themselves */
  int back;           /* a character that was read behind the token; EOF: none */
  int is_odd;         /* the token has control characters, or no room for more */
  int32_t line;
  tuttiResult_t failed;
  enum tt_token what;         /* kind of `token` */
  char token[TT_TOKEN_BYTES]; /* the next one, not taken yet; "" at an end */
  struct tt_plain plain;
};

/* Reads the first token. `source` and `marks` must live until tt_scan_end, which returns `failed`. In between the
 * calling thread has decimal points. */
void tt_scan_begin(struct tt_scan *scan, FILE *in, const char *source, const char *marks);
tuttiResult_t tt_scan_end(struct tt_scan *scan);

/* Takes the token and reads the next one. */
void tt_scan_next(struct tt_scan *scan);

static inline int tt_scan_has_word(const struct tt_scan *scan) /* or a text in quotes; else the line ends */
{
  return !scan->failed && scan->what >= TT_WORD;
}

int tt_scan_is(const struct tt_scan *scan, const char *word);

/* If the word is the next one, takes it and returns 1. */
int tt_scan_took(struct tt_scan *scan, const char *word);

/* Takes the word, which must be the next one. */
void tt_scan_expect(struct tt_scan *scan, const char *word, const char *wanted);

/* The line must end here. */
void tt_scan_line_end(struct tt_scan *scan);

/* Skips ends of lines up to the next word; 0: there is none. */
int tt_scan_line(struct tt_scan *scan);

/* ---- values: the next word is taken; if it is no such value, the error is "wanted NOUN from LOW to HIGH", and LOW is
 * returned ---- */

/* Digits only. */
uint64_t tt_scan_whole(struct tt_scan *scan, const char *noun, uint64_t low, uint64_t high);

/* Digits, possibly with a decimal point and an exponent; low >= 0. */
double tt_scan_number(struct tt_scan *scan, const char *noun, double low, double high);

/* Bytes, as 4096, 64K, 1.5M or 2GiB (tt_bytes_read); `wanted` is the whole phrase of the error. */
uint64_t tt_scan_bytes(struct tt_scan *scan, const char *wanted, uint64_t low, uint64_t high);

/* The whole number at *text, or a value above `most` if it is larger; moves *text past the number if there is one.
 * `most` is at most 2^60. */
uint64_t tt_digits(const char **text, uint64_t most);

/* ---- errors ---- */

/* Fails with "wanted WANTED, not 'WORD'", where WORD is the next token. */
void tt_scan_wrong(struct tt_scan *scan, const char *wanted);

/* Fails with "SOURCE, line N: " followed by the formatted text. */
void tt_scan_fail(struct tt_scan *scan, int32_t line, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
