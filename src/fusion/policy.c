/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies by their names. */
#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fusion/private.h"

enum argument { NONE, BYTES, BYTES_PAIR, ELEMENTS };

static const struct {
  const char *name;
  enum argument argument;
} policies[TT_POLICIES] = {
    [TT_POLICY_WFBP] = {"wfbp", NONE},           [TT_POLICY_SINGLE] = {"single", NONE},
    [TT_POLICY_THRESHOLD] = {"threshold", BYTES_PAIR}, [TT_POLICY_HOROVOD] = {"horovod", BYTES},
    [TT_POLICY_MGWFBP] = {"mgwfbp", NONE},       [TT_POLICY_OPTIMAL] = {"optimal", NONE},
    [TT_POLICY_P3] = {"p3", ELEMENTS},           [TT_POLICY_AUTO] = {"auto", NONE},
};

static tuttiResult_t wrong(const char *text)
{
  return tt_fail(tuttiInvalidArgument, "there is no policy \"%.40s\": take wfbp, single, threshold:BYTES[,FIRST], "
                 "horovod:BYTES, mgwfbp, optimal, p3[:PARAMETERS] or auto; BYTES may end in K, M or G", text);
}

/* A whole number, with a suffix where that is allowed; what is behind it, or NULL: it is none. */
static const char *number_read(const char *at, int has_suffix, uint64_t *number)
{
  static const char suffixes[] = "KMG";
  char *end;
  if (!isdigit((unsigned char)*at)) return NULL;
  errno = 0;
  unsigned long long value = strtoull(at, &end, 10);
  const char *suffix = has_suffix && *end ? strchr(suffixes, toupper((unsigned char)*end)) : NULL;
  int shift = suffix ? 10 * (int)(suffix - suffixes + 1) : 0;
  if (errno || value > (uint64_t)LLONG_MAX >> shift) return NULL;
  *number = (uint64_t)value << shift;
  return end + (suffix != NULL);
}

tuttiResult_t tt_policy_parse(struct tt_policy *policy, const char *text)
{
  size_t len = strcspn(text, ":");
  int kind = 0;
  while (kind < TT_POLICIES && (strlen(policies[kind].name) != len || strncmp(policies[kind].name, text, len) != 0))
    kind++;
  if (kind == TT_POLICIES) return wrong(text);
  enum argument argument = policies[kind].argument;
  struct tt_policy made = {.kind = (enum tt_policy_kind)kind};
  const char *at = text + len;
  if (!*at && kind == TT_POLICY_P3) made.slice = TT_P3_SLICE;
  else if (*at || argument != NONE) {
    at = argument == NONE || !*at ? NULL : number_read(at + 1, argument != ELEMENTS,
                                                       argument == ELEMENTS ? &made.slice : &made.bytes);
    if (at && *at == ',' && argument == BYTES_PAIR) at = number_read(at + 1, 1, &made.first_bytes);
    if (!at || *at || (argument == ELEMENTS && !made.slice)) return wrong(text);
  }
  *policy = made;
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_plan_make(struct tt_fusion_plan *plan, const struct tt_policy *policy, const struct tt_net *net,
                           const struct tt_message_cost *cost)
{
  struct tt_queue queue = {.n = 0};
  struct tt_fusion_plan made = {.ntensors = 0};
  uint64_t slice = policy->slice || policy->kind != TT_POLICY_P3 ? policy->slice : TT_P3_SLICE;
  tuttiResult_t result = tt_queue_make(&queue, net);
  if (result == tuttiSuccess) result = tt_fusion_plan_start(&made, &queue);
  if (result == tuttiSuccess && policy->kind == TT_POLICY_AUTO) {
    result = tt_fusion_plan_search(&made, policy, &queue, cost);
  } else if (result == tuttiSuccess) {
    tt_fusion_plan_merge(&made, policy, &queue, cost);
    if (slice) tt_fusion_plan_slice(&made, &queue, slice);
  }
  if (result == tuttiSuccess) *plan = made;
  else tt_fusion_plan_destroy(&made);
  tt_queue_destroy(&queue);
  return result;
}

void tt_fusion_plan_destroy(struct tt_fusion_plan *plan)
{
  if (!plan) return;
  tt_free(plan->order);
  tt_free(plan->groups);
}
