/* SPDX-License-Identifier: BSD-3-Clause */
/* Finds lines of a profile about algorithms and transports that do not exist. */
#include <errno.h>
#include <string.h>

#include "profiles/profiles.h"
#include "transport/transport.h"
#include "tuner/algo_filter.h"

#define LIST_BYTES 320
#define SENTENCE_BYTES 640

struct check {
  const struct tt_profile *profile;
  FILE *out;
  int is_verbose;
  int32_t n;
  int32_t first, last, alike;    /* lines, and how many, of which the sentence below holds; alike 0: none yet */
  char sentence[SENTENCE_BYTES]; /* what is wrong */
};

/* Tells of the lines that are alike. */
static void alike_tell(struct check *c)
{
  if (c->alike == 1) fprintf(c->out, "%s, line %d: %s\n", c->profile->name, (int)c->first, c->sentence);
  else if (c->alike)
    fprintf(c->out, "%s, %d lines from %d to %d: %s\n", c->profile->name, (int)c->alike, (int)c->first, (int)c->last,
            c->sentence);
  c->alike = 0;
}

/* Lines of which the same is to be said follow one another: a profile that was read is sorted. */
static void complain(struct check *c, int32_t line, const char *sentence)
{
  if (c->is_verbose || strcmp(c->sentence, sentence) != 0) alike_tell(c);
  snprintf(c->sentence, sizeof c->sentence, "%s", sentence);
  if (!c->alike++) c->first = c->last = line;
  if (line < c->first) c->first = line;
  if (line > c->last) c->last = line;
  c->n++;
}

static void transport_check(struct check *c, int32_t line, const char *name)
{
  char list[LIST_BYTES] = "", sentence[SENTENCE_BYTES];
  size_t used = 0;
  for (int t = 0; tt_transports[t]; t++) {
    if (strcmp(tt_transports[t]->name, name) == 0) return;
    if (used < sizeof list) used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", t ? ", " : "",
                                                tt_transports[t]->name);
  }
  snprintf(sentence, sizeof sentence, "there is no transport \"%s\": there are %s", name, list);
  complain(c, line, sentence);
}

/* NAME or NAME+MIDDLE. */
static void algorithm_check(struct check *c, const struct tt_profile_anchor *anchor)
{
  char name[TT_PROFILE_NAME], list[LIST_BYTES], sentence[SENTENCE_BYTES];
  size_t len = strcspn(anchor->algo, "+");
  snprintf(name, sizeof name, "%.*s", (int)len, anchor->algo);
  const struct tt_algo *algo = tt_algo_find(anchor->collective, name);
  if (algo) {
    struct tt_algo_filter filter = {.algo = (uint8_t)(algo - tt_algos), .middle = -1};
    const char *why = tt_algo_filter_rest(&filter, anchor->algo + len, list, sizeof list);
    if (!why) return;
    snprintf(sentence, sizeof sentence, "of \"%s\": %s", anchor->algo, why);
  } else {
    tt_algo_filter_names(anchor->collective, list, sizeof list);
    snprintf(sentence, sizeof sentence, "%s has no algorithm \"%s\": it has %s", tt_kinds[anchor->collective].name,
             name, list);
  }
  complain(c, anchor->line, sentence);
}

tuttiResult_t tt_profile_check(const struct tt_profile *profile, int is_verbose, FILE *out, int *n)
{
  struct check c = {.profile = profile, .out = out, .is_verbose = is_verbose};
  for (int32_t i = 0; i < profile->nlinks; i++)
    transport_check(&c, profile->links[i].line, profile->links[i].flow.transport);
  for (int32_t i = 0; i < profile->npoints; i++)
    transport_check(&c, profile->points[i].line, profile->points[i].flow.transport);
  for (int32_t i = 0; i < profile->nanchors; i++)
    transport_check(&c, profile->anchors[i].line, profile->anchors[i].transport);
  for (int32_t i = 0; i < profile->nanchors; i++) algorithm_check(&c, &profile->anchors[i]);
  for (int32_t i = 0; i < profile->nlearnt; i++) {
    transport_check(&c, profile->learnt[i].is.line, profile->learnt[i].is.transport);
    algorithm_check(&c, &profile->learnt[i].is);
  }
  alike_tell(&c);
  if (ferror(out)) return tt_fail(tuttiSystemError, "cannot write what is wrong with a profile: %s", strerror(errno));
  *n = c.n;
  return tuttiSuccess;
}
