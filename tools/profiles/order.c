/* SPDX-License-Identifier: BSD-3-Clause */
#include "profiles/order_private.h"

#include <stdlib.h>

static int pointers_compare(const void *a, const void *b, void *context)
{
  const void *const *left = a, *const *right = b;
  const enum tt_profile_word *word = context;
  return tt_profile_compare(*left, *right, *word);
}

const void **tt_profile_order(const struct tt_profile *profile, enum tt_profile_word word, int32_t *n)
{
  const char *items = tt_profile_items(profile, word, n);
  const void **order = tt_alloc((size_t)*n, sizeof *order);
  if (!order) {
    tt_fail(tuttiSystemError, "no memory to print a profile: give the process more");
    return NULL;
  }
  for (int32_t i = 0; i < *n; i++) order[i] = items + (size_t)i * tt_profile_lines[word].size;
  if (*n) qsort_r(order, (size_t)*n, sizeof *order, pointers_compare, &word);
  return order;
}

const char *tt_size_text(uint64_t bytes, char *text)
{
  static const char suffixes[] = " KMG";
  int s = 0;
  if (bytes == UINT64_MAX) return "inf";
  for (; bytes && bytes % 1024 == 0 && s < 3; s++) bytes /= 1024;
  snprintf(text, TT_SIZE_TEXT, s ? "%llu%c" : "%llu", (unsigned long long)bytes, suffixes[s]);
  return text;
}

void tt_number_print(double value, FILE *out)
{
  char text[32];
  for (int precision = 6; precision <= 17; precision++) {
    snprintf(text, sizeof text, "%.*g", precision, value);
    if (strtod(text, NULL) == value) break;
  }
  fprintf(out, "%s", text);
}
