/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies by their names. */
#include <string.h>

#include "planner/private.h"

enum argument { NONE, BYTES, BYTES_PAIR, ELEMENTS };

static const struct {
  const char *name;
  enum argument argument;
  const char *example;
} policies[TT_POLICIES] = {
    [TT_POLICY_WFBP] = {"wfbp", NONE, "wfbp"},
    [TT_POLICY_SINGLE] = {"single", NONE, "single"},
    [TT_POLICY_THRESHOLD] = {"threshold", BYTES_PAIR, "threshold:25M or threshold:25M,1M"},
    [TT_POLICY_HOROVOD] = {"horovod", BYTES, "horovod:128M"},
    [TT_POLICY_MGWFBP] = {"mgwfbp", NONE, "mgwfbp"},
    [TT_POLICY_OPTIMAL] = {"optimal", NONE, "optimal"},
    [TT_POLICY_P3] = {"p3", ELEMENTS, "p3, p3:50000 or p3:50000,1M"},
    [TT_POLICY_FIFO] = {"fifo", ELEMENTS, "fifo, fifo:50000 or fifo:50000,1M"},
    [TT_POLICY_AUTO] = {"auto", NONE, "auto"},
};

struct reader {
  const char *text, *at; /* at: the rest to read */
  const char *example;
};

/* Reads the number that the help calls `part`, behind ':' or ','. 0: it is none from `low` on; the error is set. */
static int part_read(struct reader *r, const char *part, uint64_t low, uint64_t *number)
{
  const char *begin = *r->at ? ++r->at : r->at;
  if (tt_bytes_read(&r->at, number) && *number >= low && (!*r->at || *r->at == ',')) return 1;
  tt_fail(tuttiInvalidArgument, "policy \"%.40s\": %s is \"%.40s\": give a whole number from %d to %lld, such as "
          "50000, 64K, 1.5M or 2GiB, as in %s", r->text, part, begin, (int)low, (long long)INT64_MAX - 1, r->example);
  return 0;
}

/* Reads the arguments behind the name. 0: they make no sense; the error is set. */
static int arguments_read(struct reader *r, struct tt_policy *made, enum argument argument)
{
  if (argument == ELEMENTS && !*r->at) made->slice = TT_P3_SLICE;
  else if (argument == ELEMENTS && !part_read(r, "PARAMETERS", 1, &made->slice)) return 0;
  if ((argument == BYTES || argument == BYTES_PAIR) && !part_read(r, "BYTES", 0, &made->bytes)) return 0;
  if (argument == BYTES_PAIR && *r->at && !part_read(r, "FIRST", 0, &made->first_bytes)) return 0;
  made->has_credit = argument == ELEMENTS && *r->at;
  if (made->has_credit && !part_read(r, "CREDIT", 0, &made->credit)) return 0;
  if (!*r->at) return 1;
  tt_fail(tuttiInvalidArgument, "policy \"%.40s\": \"%.40s\" is too much: give %s", r->text, r->at, r->example);
  return 0;
}

tuttiResult_t tt_policy_parse(struct tt_policy *policy, const char *text)
{
  size_t len = strcspn(text, ":");
  int kind = 0;
  while (kind < TT_POLICIES && (strlen(policies[kind].name) != len || strncmp(policies[kind].name, text, len) != 0))
    kind++;
  if (kind == TT_POLICIES)
    return tt_fail(tuttiInvalidArgument, "there is no policy \"%.40s\" (TUTTI_FUSION_POLICY, config.policy, or an "
                   "option of the program): take wfbp, single, threshold:BYTES[,FIRST], horovod:BYTES, mgwfbp, "
                   "optimal, p3[:PARAMETERS[,CREDIT]], fifo[:PARAMETERS[,CREDIT]] or auto", text);
  struct tt_policy made = {.kind = (enum tt_policy_kind)kind};
  struct reader r = {text, text + len, policies[kind].example};
  if (!arguments_read(&r, &made, policies[kind].argument)) return tuttiInvalidArgument;
  *policy = made;
  return tuttiSuccess;
}

tuttiResult_t tt_fusion_plan_make(struct tt_fusion_plan *plan, const struct tt_policy *policy,
                                  const struct tt_model *net, const struct tt_message_cost *cost)
{
  struct tt_queue queue = {.n = 0};
  struct tt_fusion_plan made = {.ntensors = 0};
  int is_sliced = policy->kind == TT_POLICY_P3 || policy->kind == TT_POLICY_FIFO;
  uint64_t slice = policy->slice || !is_sliced ? policy->slice : TT_P3_SLICE;
  tuttiResult_t result = tt_queue_make(&queue, net);
  if (result == tuttiSuccess) result = tt_fusion_plan_start(&made, &queue);
  if (result == tuttiSuccess && policy->kind == TT_POLICY_AUTO) {
    result = tt_fusion_plan_search(&made, policy, &queue, cost);
  } else if (result == tuttiSuccess) {
    tt_fusion_plan_merge(&made, policy, &queue, cost);
    tt_fusion_plan_part(&made, &queue);
    if (slice) tt_fusion_plan_slice(&made, &queue, cost, slice);
    if (policy->has_credit) made.credit = policy->credit;
    made.by_priority &= policy->kind != TT_POLICY_FIFO;
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
  tt_free(plan->members);
  tt_free(plan->groups);
}
