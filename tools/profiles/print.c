/* SPDX-License-Identifier: BSD-3-Clause */
#include <errno.h>
#include <string.h>

#include "base/scan.h"
#include "profiles/order_private.h"
#include "profiles/profiles.h"

/* Characters that a text cannot hold are replaced by similar ones. */
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
  char text[TT_SIZE_TEXT];
  switch (key->value) {
    case TT_VALUE_TEXT:
    case TT_VALUE_NAME:
    case TT_VALUE_LABEL:
      text_print(at, out);
      return;
    case TT_VALUE_SIZE:
    case TT_VALUE_LIMIT:
      memcpy(&size, at, sizeof size);
      fprintf(out, "%s", tt_size_text(size, text));
      return;
    case TT_VALUE_BLOCK:
      memcpy(&block, at, sizeof block);
      fprintf(out, "%s", tt_size_text(block, text));
      return;
    case TT_VALUE_NUMBER:
      memcpy(&number, at, sizeof number);
      tt_number_print(number, out);
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

static tuttiResult_t lines_print(const struct tt_profile *profile, enum tt_profile_word word, FILE *out)
{
  const struct tt_profile_line *line = &tt_profile_lines[word];
  int32_t n;
  const void **order = tt_profile_order(profile, word, &n);
  if (!order) return tuttiSystemError;
  if (n || !line->size) fprintf(out, "\n# %s\n", line->comment);
  if (!line->size) line_print(line, profile, out);
  for (int32_t i = 0; i < n; i++) line_print(line, order[i], out);
  tt_free(order);
  return tuttiSuccess;
}

tuttiResult_t tt_profile_print(const struct tt_profile *profile, FILE *out)
{
  struct tt_plain plain;
  tuttiResult_t result = tuttiSuccess;
  if (!tt_plain_begin(&plain)) return tuttiSystemError;
  fprintf(out, "tutti profile %d\n"
               "# What was measured on a machine: times in us, slopes in us per MiB, sizes in bytes (K, M, G: powers "
               "of 1,024).\n", TT_PROFILE_VERSION);
  for (int w = 0; w < TT_PROFILE_WORDS && !result; w++) result = lines_print(profile, (enum tt_profile_word)w, out);
  fprintf(out, "\nend\n");
  tt_plain_end(&plain);
  if (!result && ferror(out)) result = tt_fail(tuttiSystemError, "cannot write a profile: %s", strerror(errno));
  return result;
}
