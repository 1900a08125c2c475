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

/* kind: that of the name; TT_POLICIES: it is none. */
static tuttiResult_t wrong(const char *text, int kind)
{
  static const char *const examples[TT_POLICIES] = {[TT_POLICY_THRESHOLD] = "threshold:25M or threshold:25M,1M",
                                                    [TT_POLICY_HOROVOD] = "horovod:64M"};
  if (kind < TT_POLICIES && examples[kind])
    return tt_fail(tuttiInvalidArgument, "policy \"%.40s\" %s: give the BYTES up to which tensors go together, as %s",
                   text, strchr(text, ':') ? "has no number that makes sense" : "lacks its BYTES", examples[kind]);
  return tt_fail(tuttiInvalidArgument, "there is no policy \"%.40s\": take wfbp, single, threshold:BYTES[,FIRST], "
                 "horovod:BYTES, mgwfbp, optimal, p3[:PARAMETERS] or auto; BYTES may end in K, M or G", text);
}

/* A whole number, of bytes with a suffix; *at moves behind it. 0: it is none. */
static int number_read(const char **at, int is_bytes, uint64_t *number)
{
  char *end;
  if (is_bytes) return tt_bytes_read(at, number);
  if (!isdigit((unsigned char)**at)) return 0;
  errno = 0;
  *number = strtoull(*at, &end, 10);
  *at = end;
  return !errno && *number <= LLONG_MAX;
}

/* What is behind the name. 0: it makes no sense. */
static int arguments_read(struct tt_policy *made, const char *at, enum argument argument)
{
  uint64_t *number = argument == ELEMENTS ? &made->slice : &made->bytes;
  if (!*at && made->kind == TT_POLICY_P3) made->slice = TT_P3_SLICE;
  if (!*at) return argument == NONE || made->slice;
  if (argument == NONE) return 0;
  at++;
  if (!number_read(&at, argument != ELEMENTS, number)) return 0;
  if (*at == ',' && argument == BYTES_PAIR) {
    at++;
    if (!number_read(&at, 1, &made->first_bytes)) return 0;
  }
  return !*at && (argument != ELEMENTS || made->slice);
}

tuttiResult_t tt_policy_parse(struct tt_policy *policy, const char *text)
{
  size_t len = strcspn(text, ":");
  int kind = 0;
  while (kind < TT_POLICIES && (strlen(policies[kind].name) != len || strncmp(policies[kind].name, text, len) != 0))
    kind++;
  if (kind == TT_POLICIES) return wrong(text, kind);
  struct tt_policy made = {.kind = (enum tt_policy_kind)kind};
  if (!arguments_read(&made, text + len, policies[kind].argument)) return wrong(text, kind);
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
