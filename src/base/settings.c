/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/settings.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/log.h"
#include "base/process.h"

extern char **environ;

enum kind { INT, CHOICE, TEXT };

struct row {
  enum kind kind;
  size_t offset;
  const char *name;
  int64_t value, low, high;
  const char *text; /* default of TEXT, choices of CHOICE, unit of INT */
  const char *help, *subject;
};

static const struct row rows[] = {
#define TT_INT(field, name, value, low, high, unit, help) \
  {INT, offsetof(struct tt_settings, field), name, value, low, high, unit, help, TT_SUBJECT},
#define TT_CHOICE(field, name, value, choices, help) \
  {CHOICE, offsetof(struct tt_settings, field), name, value, 0, 0, choices, help, TT_SUBJECT},
#define TT_TEXT(field, name, value, help) \
  {TEXT, offsetof(struct tt_settings, field), name, 0, 0, 0, value, help, TT_SUBJECT},
#include "base/settings.def"
#undef TT_INT
#undef TT_CHOICE
#undef TT_TEXT
};

#define ROWS (sizeof rows / sizeof rows[0])

const char *tt_env(const char *name)
{
  const char *value = getenv(name);
  return value && *value ? value : NULL;
}

/* The index-th choice of "a|b|c" and its length; NULL after the last. */
static const char *choice_at(const char *choices, int index, size_t *len)
{
  while (index-- > 0) {
    choices = strchr(choices, '|');
    if (!choices) return NULL;
    choices++;
  }
  *len = strcspn(choices, "|");
  return choices;
}

static tuttiResult_t choice_parse(const struct row *row, const char *text, int *out)
{
  size_t len;
  for (int i = 0;; i++) {
    const char *choice = choice_at(row->text, i, &len);
    if (!choice) break;
    if (strlen(text) == len && strncasecmp(choice, text, len) == 0) {
      *out = i;
      return tuttiSuccess;
    }
  }
  return tt_fail(tuttiInvalidArgument, "%s is \"%s\": set it to one of %s", row->name, text,
                 row->text);
}

#define DIGITS_MOST 10000000000000000000u /* 19 digits */
#define TENS_MOST 1000000 /* no text in an environment has more digits */

/* digits * 10^tens; digits end in no zero. */
struct decimal {
  uint64_t digits;
  int tens;
};

/* Reads the exponent at *text, if there is one, and moves *text past it. */
static int exponent_read(const char **text)
{
  const char *at = *text;
  int tens = 0, is_negative = 0;
  if (*at != 'e' && *at != 'E') return 0;
  at++;
  if (*at == '+' || *at == '-') is_negative = *at++ == '-';
  if (!isdigit((unsigned char)*at)) return 0;
  for (; isdigit((unsigned char)*at); at++)
    if (tens < TENS_MOST) tens = 10 * tens + (*at - '0');
  *text = at;
  return is_negative ? -tens : tens;
}

/* Reads a number; returns the text after it, or NULL: there is none, or it has too many digits for a word. */
static const char *decimal_read(struct decimal *number, const char *text)
{
  int zeros = 0, has_point = 0; /* zeros: places after the last digit that is not 0 */
  *number = (struct decimal){0, 0};
  if (!isdigit((unsigned char)*text)) return NULL;
  for (; isdigit((unsigned char)*text) || (*text == '.' && !has_point && isdigit((unsigned char)text[1])); text++) {
    if (*text == '.') {
      has_point = 1;
      continue;
    }
    number->tens -= has_point;
    zeros++;
    for (; *text != '0' && zeros; zeros--) {
      if (number->digits >= DIGITS_MOST / 10) return NULL;
      number->digits *= 10;
    }
    if (*text != '0') number->digits += (uint64_t)(*text - '0');
  }
  number->tens += zeros + exponent_read(&text);
  return text;
}

/* Computes number * 2^twos. 0: the result is not whole, or not less than INT64_MAX. */
static int whole_make(uint64_t *whole, struct decimal number, int twos)
{
  const uint64_t most = (uint64_t)INT64_MAX - 1;
  uint64_t value = number.digits;
  *whole = 0;
  if (!value) return 1;
  twos += number.tens; /* 10 = 2 * 5 */
  for (int t = number.tens; t < 0; t++) {
    if (value % 5) return 0;
    value /= 5;
  }
  for (int t = number.tens; t > 0; t--) {
    if (value > most / 5) return 0;
    value *= 5;
  }
  for (; twos < 0; twos++) {
    if (value % 2) return 0;
    value /= 2;
  }
  if (twos > 62 || value > most >> twos) return 0;
  *whole = value << twos;
  return 1;
}

int tt_bytes_read(const char **text, uint64_t *bytes)
{
  static const char suffixes[] = "KMG";
  struct decimal number;
  const char *end = decimal_read(&number, *text);
  if (!end) return 0;
  const char *suffix = *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
  uint64_t whole;
  if (!whole_make(&whole, number, suffix ? 10 * (int)(suffix - suffixes + 1) : 0)) return 0;
  if (suffix) end += end[1] == 'i' && end[2] == 'B' ? 3 : 1;
  else if (*end == 'B') end++;
  *bytes = whole;
  *text = end;
  return 1;
}

/* Reads a number, of bytes with a suffix; returns the text after it, or NULL: it is no number. */
static const char *number_read(const char *text, int is_bytes, int64_t *value)
{
  char *end;
  uint64_t bytes;
  if (is_bytes) {
    if (!tt_bytes_read(&text, &bytes)) return NULL;
    *value = (int64_t)bytes;
    return text;
  }
  errno = 0;
  *value = strtoll(text, &end, 10);
  return errno || end == text ? NULL : end;
}

static tuttiResult_t int_parse(const struct row *row, const char *text, int64_t *out)
{
  int64_t value;
  int is_bytes = strcmp(row->text, "bytes") == 0;
  const char *end = number_read(text, is_bytes, &value);
  if (!end || *end || value < row->low || value > row->high)
    return tt_fail(tuttiInvalidArgument, "%s is \"%s\": set it to a whole number of %s from %lld to %lld%s",
                   row->name, text, row->text, (long long)row->low, (long long)row->high,
                   !is_bytes ? "" : row->high >> 31 ? ", as 4096, 64K, 1.5M or 2GiB" : ", as 4096, 64K or 128KiB");
  *out = value;
  return tuttiSuccess;
}

static tuttiResult_t row_load(const struct row *row, char *at)
{
  const char *text = tt_env(row->name);
  switch (row->kind) {
  case INT:
    *(int64_t *)(void *)at = row->value;
    return text ? int_parse(row, text, (int64_t *)(void *)at) : tuttiSuccess;
  case CHOICE:
    *(int *)(void *)at = (int)row->value;
    return text ? choice_parse(row, text, (int *)(void *)at) : tuttiSuccess;
  default:
    break;
  }
  if (!text) text = row->text;
  if (strlen(text) >= TT_SETTING_TEXT_BYTES)
    return tt_fail(tuttiInvalidArgument, "%s has %zu bytes: at most %d are allowed", row->name,
                   strlen(text), TT_SETTING_TEXT_BYTES - 1);
  strcpy(at, text);
  return tuttiSuccess;
}

tuttiResult_t tt_settings_load(struct tt_settings *settings)
{
  struct tt_settings loaded = {0};
  for (size_t i = 0; i < ROWS; i++) {
    tuttiResult_t result = row_load(&rows[i], (char *)&loaded + rows[i].offset);
    if (result != tuttiSuccess) return result;
  }
  if (loaded.radix == 1)
    return tt_fail(tuttiInvalidArgument,
                   "TUTTI_RADIX is \"1\": set it to 0, or to a whole number of ranks from 2 to 65535");
  *settings = loaded;
  tt_settings_warn_unknown();
  return tuttiSuccess;
}

/* Variables that are no settings: `tutti run` sets them for its children, and the Python package reads the last one. */
static int is_internal(const char *name, size_t len)
{
  return (len > 13 && memcmp(name, "TUTTI_LAUNCH_", 13) == 0) || (len == 13 && memcmp(name, "TUTTI_LIBRARY", 13) == 0);
}

static int is_known(const char *name, size_t len)
{
  for (size_t i = 0; i < ROWS; i++)
    if (strlen(rows[i].name) == len && memcmp(rows[i].name, name, len) == 0) return 1;
  return is_internal(name, len);
}

#define NAME_MOST 40

/* Letters to insert, take out or replace to make one text of the other; at most NAME_MOST long. */
static size_t distance(const char *a, size_t n, const char *b, size_t m)
{
  size_t row[NAME_MOST + 1];
  for (size_t j = 0; j <= m; j++) row[j] = j;
  for (size_t i = 1; i <= n; i++) {
    size_t before = row[0]; /* of the last row, one to the left */
    row[0] = i;
    for (size_t j = 1; j <= m; j++) {
      size_t least = before + (a[i - 1] != b[j - 1]);
      if (row[j] + 1 < least) least = row[j] + 1;
      if (row[j - 1] + 1 < least) least = row[j - 1] + 1;
      before = row[j];
      row[j] = least;
    }
  }
  return row[m];
}

/* The setting that was probably meant, NULL if none is alike. A name without its unit is as near as one letter. */
static const char *setting_meant(const char *name, size_t len)
{
  const char *meant = NULL;
  size_t nearest = len / 3;
  for (size_t i = 0; i < ROWS && len > 2 && len <= NAME_MOST; i++) {
    const char *own = rows[i].name + strlen("TUTTI_");
    size_t own_len = strlen(own), shorter = len < own_len ? len : own_len;
    size_t letters = memcmp(own, name, shorter) == 0 ? 1 : distance(name, len, own, own_len);
    if (letters > nearest || (meant && letters == nearest)) continue;
    nearest = letters;
    meant = rows[i].name;
  }
  return meant;
}

void tt_settings_warn_unknown(void)
{
  const char *of_nccl = NULL;
  int is_interface = !tt_env("TUTTI_SOCKET_IFNAME") && tt_env("NCCL_SOCKET_IFNAME");
  if (atomic_exchange(&tt_process.unknown_warned, 1)) return;
  for (char **entry = environ; entry && *entry; entry++) {
    size_t len = strcspn(*entry, "=");
    if (len > 5 && memcmp(*entry, "NCCL_", 5) == 0 && memcmp(*entry, "NCCL_TESTS_", len < 11 ? len : 11) != 0)
      of_nccl = *entry;
    if (len <= 6 || memcmp(*entry, "TUTTI_", 6) != 0 || is_known(*entry, len)) continue;
    const char *meant = setting_meant(*entry + 6, len - 6);
    tt_log(TT_LOG_WARN, "%.*s is not a setting of this version: %s%s%s`tutti info` lists them", (int)len, *entry,
           meant ? "did you mean " : "", meant ? meant : "", meant ? "? " : "");
  }
  if (is_interface) tt_log(TT_LOG_WARN, "NCCL_SOCKET_IFNAME is set and has no effect here: set TUTTI_SOCKET_IFNAME");
  else if (of_nccl)
    tt_log(TT_LOG_INFO, "%.*s is set, and variables of NCCL have no effect here: docs/settings.md has those of Tutti",
           (int)strcspn(of_nccl, "="), of_nccl);
}

static void row_list(struct tt_listing *listing, const struct row *row, const char *at)
{
  static const char *const keys[] = {"value", "source", "meaning", "range", "on all ranks", "subject"};
  char value[TT_SETTING_TEXT_BYTES] = "", range[96] = "";
  size_t len = 0;
  if (row->kind == INT) {
    snprintf(value, sizeof value, "%lld", (long long)*(const int64_t *)(const void *)at);
    snprintf(range, sizeof range, "%s%s%lld..%lld", row->text, *row->text ? ", " : "", (long long)row->low,
             (long long)row->high);
  } else if (row->kind == CHOICE) {
    const char *choice = choice_at(row->text, *(const int *)(const void *)at, &len);
    snprintf(value, sizeof value, "%.*s", (int)len, choice);
    snprintf(range, sizeof range, "%s", row->text);
  } else snprintf(value, sizeof value, "%s", at);
  int same = row->help[0] == '=';
  const char *const values[] = {value, tt_env(row->name) ? "environment" : "default", row->help + same, range,
                                same ? "yes" : "no", row->subject};
  const char *quote = row->kind == TEXT ? "\"" : "";
  if (listing->json) tt_listing_object(listing, row->name, 6, keys, values);
  else
    fprintf(listing->out, "  %-22s = %s%s%s%*s %-11s %s%s%s%s%s\n", row->name, quote, value, quote,
            (int)(strlen(value) + 2 * strlen(quote) < 12 ? 12 - strlen(value) - 2 * strlen(quote) : 0), "", values[1],
            values[2], *range ? " [" : "", range, *range ? "]" : "", same ? "; on all ranks" : "");
}

void tt_settings_list(struct tt_listing *listing, const struct tt_settings *settings)
{
  const char *subject = NULL;
  for (int is_set = 1; is_set >= 0; is_set--)
    for (size_t i = 0; i < ROWS; i++) {
      if ((tt_env(rows[i].name) != NULL) != is_set) continue;
      const char *own = is_set ? "set in the environment" : rows[i].subject;
      if (!subject || (!listing->json && strcmp(subject, own) != 0)) tt_listing_section(listing, "settings", own);
      subject = own;
      row_list(listing, &rows[i], (const char *)settings + rows[i].offset);
    }
}

/* Continues the hash with the value of a row. */
static uint64_t row_hash(uint64_t hash, const struct row *row, const struct tt_settings *settings)
{
  static const size_t sizes[] = {[INT] = sizeof(int64_t), [CHOICE] = sizeof(int)};
  const unsigned char *at = (const unsigned char *)settings + row->offset;
  size_t len = row->kind == TEXT ? strlen((const char *)at) + 1 : sizes[row->kind];
  for (size_t k = 0; k < len; k++) hash = (hash ^ at[k]) * 0x100000001b3u;
  return hash;
}

#define HASH_BEGIN 0xcbf29ce484222325u

uint64_t tt_settings_wire_hash(const struct tt_settings *settings)
{
  uint64_t hash = HASH_BEGIN;
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].help[0] == '=') hash = row_hash(hash, &rows[i], settings);
  return hash;
}

void tt_settings_wire_marks(const struct tt_settings *settings, uint8_t marks[TT_SETTINGS_MARKS])
{
  int place = 0;
  memset(marks, 0, TT_SETTINGS_MARKS);
  for (size_t i = 0; i < ROWS; i++)
    if (rows[i].help[0] == '=')
      marks[place++ % TT_SETTINGS_MARKS] ^= (uint8_t)(row_hash(HASH_BEGIN, &rows[i], settings) >> 56);
}

const char *tt_settings_unlike_text(const uint8_t a[TT_SETTINGS_MARKS], const uint8_t b[TT_SETTINGS_MARKS], char *text,
                                    size_t size)
{
  int place = 0;
  size_t used = 0;
  text[0] = 0;
  for (size_t i = 0; i < ROWS; i++) {
    if (rows[i].help[0] != '=') continue;
    int mark = place++ % TT_SETTINGS_MARKS;
    if (a[mark] == b[mark] || used >= size) continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used ? ", " : "", rows[i].name);
  }
  return text;
}
