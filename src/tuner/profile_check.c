/* SPDX-License-Identifier: BSD-3-Clause */
/* What a profile says of algorithms and transports that are not there. */
#include <errno.h>
#include <string.h>

#include "tuner/profile_lines.h"
#include "tuner/wish.h"

#define LIST_BYTES 320

struct check {
  const struct tt_profile *profile;
  const char *const *transports;
  FILE *out;
  int32_t n;
};

static void transport_check(struct check *c, int32_t line, const char *name)
{
  char list[LIST_BYTES] = "";
  size_t used = 0;
  for (int t = 0; c->transports[t]; t++) {
    if (strcmp(c->transports[t], name) == 0) return;
    if (used < sizeof list)
      used += (size_t)snprintf(list + used, sizeof list - used, "%s%s", t ? ", " : "", c->transports[t]);
  }
  fprintf(c->out, "%s, line %d: there is no transport \"%s\": there are %s\n", c->profile->name, (int)line, name, list);
  c->n++;
}

/* NAME or NAME+MIDDLE. */
static void algorithm_check(struct check *c, const struct tt_profile_anchor *anchor)
{
  char name[TT_PROFILE_NAME], list[LIST_BYTES];
  size_t len = strcspn(anchor->algo, "+");
  snprintf(name, sizeof name, "%.*s", (int)len, anchor->algo);
  const struct tt_algo *algo = tt_algo_find(anchor->collective, name);
  const char *collective = tt_kinds[anchor->collective].name, *why = NULL;
  if (algo) {
    struct tt_wish wish = {.algo = (uint8_t)(algo - tt_algos), .middle = -1};
    why = tt_wish_rest(&wish, anchor->algo + len, list, sizeof list);
    if (!why) return;
    fprintf(c->out, "%s, line %d: of \"%s\": %s\n", c->profile->name, (int)anchor->line, anchor->algo, why);
  } else {
    tt_wish_names(anchor->collective, list, sizeof list);
    fprintf(c->out, "%s, line %d: %s has no algorithm \"%s\": it has %s\n", c->profile->name, (int)anchor->line,
            collective, name, list);
  }
  c->n++;
}

tuttiResult_t tt_profile_check(const struct tt_profile *profile, const char *const *transports, FILE *out, int *n)
{
  struct check c = {.profile = profile, .transports = transports, .out = out};
  for (int32_t i = 0; i < profile->nlinks; i++)
    transport_check(&c, profile->links[i].line, profile->links[i].flow.transport);
  for (int32_t i = 0; i < profile->npoints; i++)
    transport_check(&c, profile->points[i].line, profile->points[i].flow.transport);
  for (int32_t i = 0; i < profile->nanchors; i++) {
    transport_check(&c, profile->anchors[i].line, profile->anchors[i].transport);
    algorithm_check(&c, &profile->anchors[i]);
  }
  if (ferror(out)) return tt_fail(tuttiSystemError, "cannot write what is wrong with a profile: %s", strerror(errno));
  *n = c.n;
  return tuttiSuccess;
}
