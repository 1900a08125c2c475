/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "tuner/profile_lines.h"

/* A short decimal number that reads back as `value`. */
static void number_print(double value, FILE *out)
{
  char text[32];
  for (int precision = 6; precision <= 17; precision++) {
    snprintf(text, sizeof text, "%.*g", precision, value);
    if (strtod(text, NULL) == value) break;
  }
  fprintf(out, "%s", text);
}

static void size_print(uint64_t bytes, FILE *out)
{
  static const char suffixes[] = " KMG";
  int s = 0;
  for (; bytes && bytes % 1024 == 0 && s < 3; s++) bytes /= 1024;
  fprintf(out, "%llu", (unsigned long long)bytes);
  if (s) putc(suffixes[s], out);
}

/* What a text cannot hold becomes something like it. */
static void text_print(const char *text, FILE *out)
{
  int is_word = text[0] && !strpbrk(text, " #");
  if (!is_word) putc('"', out);
  for (; *text; text++)
    if (*text == '"') putc('\'', out);
    else putc((unsigned char)*text < ' ' || *text == 0x7f ? '?' : *text, out);
  if (!is_word) putc('"', out);
}

static void value_print(const struct tt_profile_key *key, const char *item, FILE *out)
{
  const char *at = item + key->offset;
  uint64_t size;
  uint32_t block;
  int32_t count;
  double number;
  switch (key->value) {
    case TT_VALUE_TEXT:
    case TT_VALUE_NAME:
      text_print(at, out);
      return;
    case TT_VALUE_SIZE:
    case TT_VALUE_LIMIT:
      memcpy(&size, at, sizeof size);
      if (size == UINT64_MAX) fprintf(out, "inf");
      else size_print(size, out);
      return;
    case TT_VALUE_BLOCK:
      memcpy(&block, at, sizeof block);
      size_print(block, out);
      return;
    case TT_VALUE_NUMBER:
      memcpy(&number, at, sizeof number);
      number_print(number, out);
      return;
    default:
      memcpy(&count, at, sizeof count);
      if (key->value == TT_VALUE_COUNT) fprintf(out, "%d", (int)count);
      else fprintf(out, "%s", tt_profile_name(key->value, count));
  }
}

static void line_print(const struct tt_profile_line *line, const void *item, FILE *out)
{
  fprintf(out, "%s", line->word);
  for (int k = 0; k < line->nkeys; k++) {
    fprintf(out, " %s ", line->keys[k].name);
    value_print(&line->keys[k], item, out);
  }
  putc('\n', out);
}

static int pointers_compare(const void *a, const void *b, void *context)
{
  const void *const *left = a, *const *right = b;
  const enum tt_profile_word *word = context;
  return tt_profile_compare(*left, *right, *word);
}

/* Sorted; `order` has room for all lines of one word. */
static void lines_print(const struct tt_profile *profile, enum tt_profile_word word, const void **order, FILE *out)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  int32_t n;
  const char *items = tt_profile_items(profile, word, &n);
  for (int32_t i = 0; i < n; i++) order[i] = items + (size_t)i * line->size;
  if (n) qsort_r(order, (size_t)n, sizeof *order, pointers_compare, &word);
  if (n || !line->size) fprintf(out, "\n# %s\n", line->comment);
  if (!line->size) line_print(line, profile, out);
  for (int32_t i = 0; i < n; i++) line_print(line, order[i], out);
}

tuttiResult_t tt_profile_print(const struct tt_profile *profile, FILE *out)
{
  int32_t most = 0, n;
  for (int w = 0; w < TT_PROFILE_WORDS; w++) {
    tt_profile_items(profile, w, &n);
    if (n > most) most = n;
  }
  const void **order = tt_alloc((size_t)most, sizeof *order);
  locale_t plain = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* decimal points, see profile_parse.c */
  int has_all = order && plain;
  if (has_all) {
    locale_t before = uselocale(plain);
    fprintf(out, "tutti profile %d\n"
                 "# What was measured on a machine: times in us, slopes in us per MiB, sizes in bytes (K, M, G: powers "
                 "of 1,024).\n", TT_PROFILE_VERSION);
    for (int w = 0; w < TT_PROFILE_WORDS; w++) lines_print(profile, w, order, out);
    uselocale(before);
  }
  if (plain) freelocale(plain);
  tt_free(order);
  if (!has_all) return tt_fail(tuttiSystemError, "no memory to print a profile: give the process more");
  if (ferror(out)) return tt_fail(tuttiSystemError, "cannot write a profile: %s", strerror(errno));
  return tuttiSuccess;
}
