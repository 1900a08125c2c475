/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuner/algo_filter.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES 64
#define REASON_BYTES 400

/* NCCL's words for hardware that Tutti does not use. */
static const char *const foreign[] = {"collnetdirect", "collnetchain", "nvls", "nvlstree", "pat"};
#define FOREIGN (sizeof foreign / sizeof foreign[0])

static const char *const trees[] = {"double_tree", "binary_tree", "knomial", "binomial"};
#define TREES (sizeof trees / sizeof trees[0])

void tt_algo_filter_names(int collective, char *list, size_t size)
{
  size_t used = 0;
  list[0] = 0;
  for (int a = 0; a < tt_algo_count && used < size; a++) {
    if (tt_algos[a].collective != collective) continue;
    int n = snprintf(list + used, size - used, "%s%s", used ? ", " : "", tt_algos[a].name);
    used += n > 0 ? (size_t)n : 0;
  }
}

int tt_algo_filter_allows(const struct tt_algo_filter_list *list, const struct tt_algo_filter *one)
{
  if (!list->source) return 1;
  for (int w = 0; w < list->n; w++) {
    const struct tt_algo_filter *filter = &list->filter[w];
    if (filter->algo == one->algo && (filter->middle < 0 || filter->middle == one->middle) &&
        (!filter->radix || filter->radix == one->radix))
      return !list->is_inverse;
  }
  return list->is_inverse;
}

/* ---- [+MIDDLE][/RADIX] ---- */

static const char *middle_read(struct tt_algo_filter *filter, const char *name, char *sentence, size_t size)
{
  const struct tt_algo *algo = &tt_algos[filter->algo], *middle = tt_algo_find(TT_ALL_REDUCE, name);
  if (!algo->has_middle)
    snprintf(sentence, size, "%s %s runs no other algorithm among leaders: leave \"+%s\" out",
             tt_kinds[algo->collective].name, algo->name, name);
  else if (!middle) {
    int n = snprintf(sentence, size, "there is no all_reduce \"%s\" to run among the leaders: take one of ", name);
    if (n > 0 && (size_t)n < size) tt_algo_filter_names(TT_ALL_REDUCE, sentence + n, size - (size_t)n);
  } else {
    filter->middle = (int8_t)(middle - tt_algos);
    return NULL;
  }
  return sentence;
}

static const char *radix_read(struct tt_algo_filter *filter, const char *text, char *sentence, size_t size)
{
  const struct tt_algo *algo = &tt_algos[filter->algo];
  char *end = NULL;
  long radix = isdigit((unsigned char)*text) ? strtol(text, &end, 10) : 0;
  if (!algo->has_radix)
    snprintf(sentence, size, "%s %s has no radix: leave \"/%s\" out", tt_kinds[algo->collective].name, algo->name,
             text);
  else if (radix < 2 || radix > UINT16_MAX || *end)
    snprintf(sentence, size, "\"/%s\" is no radix: wanted a number from 2 to %d", text, UINT16_MAX);
  else {
    filter->radix = (uint16_t)radix;
    return NULL;
  }
  return sentence;
}

const char *tt_algo_filter_rest(struct tt_algo_filter *filter, const char *text, char *sentence, size_t size)
{
  char middle[NAME_BYTES];
  size_t len = strcspn(text, "/");
  const char *why = NULL;
  if (*text == '+' && len <= sizeof middle) {
    memcpy(middle, text + 1, len - 1);
    middle[len - 1] = 0;
    why = middle_read(filter, middle, sentence, size);
    text += len;
  }
  if (!why && *text == '/') return radix_read(filter, text + 1, sentence, size);
  if (!why && *text) {
    snprintf(sentence, size, "\"%.60s\" is not [+MIDDLE][/RADIX]", text);
    return sentence;
  }
  return why;
}

/* ---- the list ---- */

struct reader {
  const char *text, *at;
  struct tt_filters *made;
  struct tt_algo_filter_list part[TT_COLLECTIVES]; /* the filters of the current part */
  int collective;                           /* of the part; TT_NO_COLLECTIVE: all that have such names */
  int is_inverse;
  int nforeign;                             /* words of the part that were left out */
};

static tuttiResult_t malformed(const struct reader *r)
{
  char names[TT_KIND_NAMES_BYTES];
  return tt_fail(tuttiInvalidArgument,
                 "TUTTI_ALGO is \"%s\": wanted [COLLECTIVE:]NAME[+MIDDLE][/RADIX], more names behind ',', '^' in front "
                 "for all but these, and more parts behind ';', with COLLECTIVE one of %s",
                 r->text, tt_kind_names(names, sizeof names));
}

static tuttiResult_t unknown(const struct reader *r, const char *name)
{
  char list[REASON_BYTES];
  int is_all = r->collective == TT_NO_COLLECTIVE;
  tt_algo_filter_names(is_all ? TT_ALL_REDUCE : r->collective, list, sizeof list);
  return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO is \"%s\", but %s has %s algorithm \"%s\": set it to one of %s%s, "
                 "or leave it empty", r->text, is_all ? "no collective" : tt_kinds[r->collective].name,
                 is_all ? "an" : "no", name, list, is_all ? " or those of other collectives (`tutti info`)" : "");
}

/* Adds an algorithm of one collective. */
static tuttiResult_t filter_add(struct reader *r, const struct tt_algo *algo, const char *rest)
{
  char sentence[REASON_BYTES];
  struct tt_algo_filter_list *list = &r->part[algo->collective];
  struct tt_algo_filter filter = {.algo = (uint8_t)(algo - tt_algos), .middle = -1};
  const char *why = tt_algo_filter_rest(&filter, rest, sentence, sizeof sentence);
  for (int w = 0; !why && w < list->n; w++)
    if (memcmp(&list->filter[w], &filter, sizeof filter) == 0) return tuttiSuccess;
  if (!why && list->n == TT_FILTERS) why = "so many names are not needed: name each once";
  if (why) return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO is \"%s\": %s", r->text, why);
  list->filter[list->n++] = filter;
  return tuttiSuccess;
}

static tuttiResult_t named_add(struct reader *r, const char *name, const char *rest, int *found)
{
  tuttiResult_t result = tuttiSuccess;
  for (int c = 0; c < TT_COLLECTIVES && result == tuttiSuccess; c++) {
    if (r->collective != TT_NO_COLLECTIVE && r->collective != c) continue;
    const struct tt_algo *algo = tt_algo_find(c, name);
    if (!algo) continue;
    *found = 1;
    result = filter_add(r, algo, rest);
  }
  return result;
}

static tuttiResult_t name_take(struct reader *r, const char *name, const char *rest)
{
  int found = 0;
  tuttiResult_t result = tuttiSuccess;
  for (unsigned f = 0; f < FOREIGN; f++) {
    if (!tt_same_name(foreign[f], name)) continue;
    r->made->ignored |= 1u << f;
    r->nforeign++;
    return tuttiSuccess;
  }
  if (!tt_same_name("tree", name)) result = named_add(r, name, rest, &found);
  else {
    if (*rest)
      return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO is \"%s\": tree stands for several algorithms and takes no "
                     "\"%s\": name one of them", r->text, rest);
    for (unsigned t = 0; t < TREES && result == tuttiSuccess; t++) result = named_add(r, trees[t], rest, &found);
  }
  if (result == tuttiSuccess && !found) return unknown(r, name);
  return result;
}

/* NAME[+MIDDLE][/RADIX] */
static tuttiResult_t name_read(struct reader *r)
{
  char name[NAME_BYTES], rest[NAME_BYTES];
  size_t len = strcspn(r->at, "+/,;"), behind = strcspn(r->at + len, ",;");
  if (!len || len >= sizeof name || behind >= sizeof rest) return malformed(r);
  memcpy(name, r->at, len);
  memcpy(rest, r->at + len, behind);
  name[len] = rest[behind] = 0;
  r->at += len + behind;
  return name_take(r, name, rest);
}

/* Reads COLLECTIVE: and '^', if they are there. */
static tuttiResult_t part_begin(struct reader *r)
{
  char name[NAME_BYTES];
  size_t colon = strcspn(r->at, ":;");
  memset(r->part, 0, sizeof r->part);
  r->nforeign = 0;
  r->collective = TT_NO_COLLECTIVE;
  if (r->at[colon] == ':') {
    if (colon >= sizeof name) return malformed(r);
    memcpy(name, r->at, colon);
    name[colon] = 0;
    r->collective = tt_kind_find(name);
    if (r->collective == TT_NO_COLLECTIVE) return malformed(r);
    r->at += colon + 1;
  }
  r->is_inverse = *r->at == '^';
  r->at += r->is_inverse;
  return tuttiSuccess;
}

/* Keeps the filters of the part, but a part for all does not count for a collective that has its own. */
static tuttiResult_t part_end(struct reader *r)
{
  int source = r->collective == TT_NO_COLLECTIVE ? 1 : 2, names = 0;
  for (int c = 0; c < TT_COLLECTIVES; c++) {
    struct tt_algo_filter_list *list = &r->made->of[c];
    names += r->part[c].n;
    if (!r->part[c].n && (source == 1 || r->collective != c)) continue;
    if (list->source == source)
      return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO is \"%s\": two parts are about %s: make them one, with ',' "
                     "between its names", r->text, tt_kinds[c].name);
    if (list->source > source) continue;
    *list = r->part[c];
    list->source = source;
    list->is_inverse = r->is_inverse;
  }
  if (names || r->is_inverse || !r->nforeign) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "TUTTI_ALGO is \"%s\": of a part nothing is left, as there is no hardware for "
                 "NCCL's collnet, nvls and pat: name ring, tree or another algorithm, or leave it empty", r->text);
}

tuttiResult_t tt_filters_parse(struct tt_filters *filters, const char *text)
{
  struct reader r = {.text = text, .at = text, .made = filters};
  memset(filters, 0, sizeof *filters);
  while (*r.at) {
    tuttiResult_t result = part_begin(&r);
    while (result == tuttiSuccess) {
      result = name_read(&r);
      if (result != tuttiSuccess || *r.at != ',') break;
      r.at++;
    }
    if (result == tuttiSuccess) result = part_end(&r);
    if (result != tuttiSuccess) return result;
    if (*r.at == ';') r.at++;
  }
  return tuttiSuccess;
}

void tt_filters_warn(const struct tt_filters *filters)
{
  for (unsigned f = 0; f < FOREIGN; f++)
    if (filters->ignored >> f & 1)
      tt_log(TT_LOG_WARN, "TUTTI_ALGO names %s, which needs hardware that Tutti does not use: it is left out",
             foreign[f]);
}
