/* SPDX-License-Identifier: BSD-3-Clause */
/* Reads layer tables. */
#include "plan/layers_private.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/scan.h"

#define LINE_BYTES 1024
#define COLUMNS 64
#define MOST_PARAMS ((uint64_t)1 << 44)
#define MOST_US 1e12
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* of a file in UTF-8, by some programs */

enum column { INDEX, PARAMS, BACKWARD, FORWARD, WANTED };
static const char *const columns[WANTED] = {"layer_index", "params", "bwd_time_us", "fwd_time_us"};

struct reader {
  FILE *in;
  const char *name;
  int line;
  char text[LINE_BYTES];
  char *fields[COLUMNS];
  int nfields, nheads;
  int at[WANTED]; /* which field */
  struct tt_layers layers;
  struct tt_tensor *tensors;
  double *backward_us;
};

static tuttiResult_t wrong(const struct reader *r, const char *wanted, const char *got)
{
  return tt_fail(tuttiInvalidArgument, "%.120s, line %d: wanted %s, not '%.60s'", r->name, r->line, wanted, got);
}

/* The field at *at without blanks and quotes around it; *at becomes the next one, or NULL: there is none. */
static char *field_cut(char **at)
{
  char *from = *at + strspn(*at, " \t"), *to = from, *field = from;
  int is_quoted = *from == '"';
  from += is_quoted;
  while (*from && (is_quoted || *from != ',')) {
    if (is_quoted && *from == '"') is_quoted = *++from == '"';
    if (*from && (is_quoted || *from != ',')) *to++ = *from++;
  }
  *at = *from ? from + 1 : NULL;
  while (to > field && strchr(" \t", to[-1])) to--;
  *to = 0;
  return field;
}

/* The next line that is not empty, cut at its commas; nfields 0: there is none. */
static tuttiResult_t line_read(struct reader *r)
{
  r->nfields = 0;
  do {
    r->line++;
    if (!fgets(r->text, sizeof r->text, r->in) && !ferror(r->in)) return tuttiSuccess;
    if (ferror(r->in)) return tt_fail(tuttiInvalidArgument, "%.120s cannot be read: %s", r->name, strerror(errno));
    size_t len = strlen(r->text);
    if (len + 1 == sizeof r->text && r->text[len - 1] != '\n')
      return wrong(r, "a line of at most 1,022 characters", "a longer one");
    while (len && strchr("\r\n \t", r->text[len - 1])) r->text[--len] = 0;
  } while (!r->text[0]);
  char *at = r->text;
  if (r->line == 1 && strncmp(at, BYTE_ORDER_MARK, strlen(BYTE_ORDER_MARK)) == 0) at += strlen(BYTE_ORDER_MARK);
  for (; at; r->nfields++) {
    if (r->nfields == COLUMNS) return wrong(r, "at most 64 columns", "more");
    r->fields[r->nfields] = field_cut(&at);
  }
  return tuttiSuccess;
}

/* As they stand in the table, as far as they go. */
static const char *fields_join(const struct reader *r, char *text, size_t size)
{
  size_t used = 0;
  for (int f = 0; f < r->nfields && used < size; f++)
    used += (size_t)snprintf(text + used, size - used, "%s%s", f ? "," : "", r->fields[f]);
  return text;
}

static tuttiResult_t head_read(struct reader *r)
{
  tuttiResult_t result = line_read(r);
  for (int c = 0; c < WANTED && result == tuttiSuccess; c++) {
    int at = 0;
    while (at < r->nfields && strcmp(r->fields[at], columns[c]) != 0) at++;
    r->at[c] = at;
    if (at < r->nfields) continue;
    char wanted[96], got[96];
    snprintf(wanted, sizeof wanted, "names of columns, among them %s", columns[c]);
    return wrong(r, wanted, r->nfields ? fields_join(r, got, sizeof got) : "the end of the text");
  }
  r->nheads = r->nfields;
  return result;
}

static tuttiResult_t whole_read(const struct reader *r, enum column column, uint64_t *number)
{
  const char *text = r->fields[r->at[column]], *end = text;
  char wanted[96];
  *number = tt_digits(&end, MOST_PARAMS);
  if (end > text && !*end && *number <= MOST_PARAMS) return tuttiSuccess;
  snprintf(wanted, sizeof wanted, "a whole number from 0 to 2^44 for %s", columns[column]);
  return wrong(r, wanted, text);
}

static tuttiResult_t time_read(const struct reader *r, enum column column, double *us)
{
  const char *text = r->fields[r->at[column]];
  char *end, wanted[96];
  double value = strtod(text, &end);
  if (end > text && !*end && value >= 0 && value <= MOST_US) {
    *us = value;
    return tuttiSuccess;
  }
  snprintf(wanted, sizeof wanted, "microseconds from 0 to 1e12 for %s", columns[column]);
  return wrong(r, wanted, text);
}

static tuttiResult_t layer_read(struct reader *r)
{
  int32_t n = r->layers.net.n;
  uint64_t index = 0, params = 0;
  char wanted[96];
  double forward_us = 0;
  if (r->nfields != r->nheads) {
    snprintf(wanted, sizeof wanted, "%d fields, as in the first line", r->nheads);
    char got[32];
    snprintf(got, sizeof got, "%d", r->nfields);
    return wrong(r, wanted, got);
  }
  if (n == TT_PLAN_TENSORS) return wrong(r, "at most 16,384 layers", r->fields[r->at[INDEX]]);
  tuttiResult_t result = whole_read(r, INDEX, &index);
  if (result == tuttiSuccess && index != (uint64_t)n + 1) {
    snprintf(wanted, sizeof wanted, "layer_index %d, as layers are in forward order", (int)n + 1);
    result = wrong(r, wanted, r->fields[r->at[INDEX]]);
  }
  if (result == tuttiSuccess) result = whole_read(r, PARAMS, &params);
  if (result == tuttiSuccess) result = time_read(r, BACKWARD, &r->backward_us[n]);
  if (result == tuttiSuccess) result = time_read(r, FORWARD, &forward_us);
  if (result != tuttiSuccess) return result;
  r->tensors[n] = (struct tt_tensor){.count = params, .bytes = 4 * params, .forward_us = forward_us};
  r->layers.forward_us += forward_us;
  r->layers.net.n++;
  return tuttiSuccess;
}

static tuttiResult_t all_read(struct reader *r)
{
  tuttiResult_t result = head_read(r);
  while (result == tuttiSuccess) {
    result = line_read(r);
    if (result != tuttiSuccess || !r->nfields) break;
    result = layer_read(r);
  }
  if (result == tuttiSuccess && !r->layers.net.n) result = wrong(r, "a layer", "the end of the text");
  double now_us = 0;
  for (int32_t l = r->layers.net.n - 1; l >= 0 && result == tuttiSuccess; l--)
    r->tensors[l].ready_us = now_us += r->backward_us[l];
  r->layers.net.backward_us = now_us;
  r->layers.net.tensors = r->tensors;
  return result;
}

tuttiResult_t tt_layers_parse(struct tt_layers *layers, FILE *in, const char *name)
{
  tuttiResult_t result = tuttiSystemError;
  struct reader *r = tt_alloc(1, sizeof *r);
  if (!r) return tt_fail(result, "no memory to read %.120s: give the process more", name);
  r->in = in;
  r->name = name;
  r->tensors = tt_alloc(TT_PLAN_TENSORS, sizeof *r->tensors);
  r->backward_us = tt_alloc(TT_PLAN_TENSORS, sizeof *r->backward_us);
  if (r->tensors && r->backward_us) result = all_read(r);
  else tt_fail(result, "no memory to read %.120s: give the process more", name);
  if (result == tuttiSuccess) *layers = r->layers;
  else tt_free(r->tensors);
  tt_free(r->backward_us);
  tt_free(r);
  return result;
}

tuttiResult_t tt_layers_load(struct tt_layers *layers, const char *path)
{
  FILE *in = fopen(path, "re");
  if (!in) return tt_fail(tuttiInvalidArgument, "%.120s cannot be read: %s", path, strerror(errno));
  tuttiResult_t result = tt_layers_parse(layers, in, path);
  fclose(in);
  return result;
}

void tt_layers_destroy(struct tt_layers *layers)
{
  if (layers) tt_free((void *)(uintptr_t)layers->net.tensors);
}
