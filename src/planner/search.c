/* SPDX-License-Identifier: BSD-3-Clause */
/* Auto: groups, slices and priority together.
 *
 * Sent as they come, the groups of `optimal` cannot be beaten. By priority the same question has no such recurrence,
 * because each message depends on all that were sent before. So the search plays plans: the groups of all policies with
 * slices of many lengths, and then, from the best of these and from those of `optimal` on, small changes as long as one
 * helps. The cost of messages is never known to a percent, and a search for the shortest favours costs that are too
 * low: so in the end, among plans that are nearly as short, one with few messages is taken. Plays are counted, not
 * timed, so that all ranks find the same.
 * Where ready times have a spread, what counts of a play is the mean that spread.c finds. */
#include <math.h>
#include <string.h>

#include "planner/private.h"

#define SLICE_LEAST 2048u   /* elements */
#define WORK_LADDER 100000  /* for plays of other policies' groups */
#define WORK_CHANGES 100000 /* for changes to them; a unit is 10 to 20 ns */
#define WORK_FEWER 30000    /* for plays that save messages */
#define WORK_GROUP 8        /* of a group; of a tensor 1 */
#define LOSS_MOST 1.01      /* an iteration may become so much longer by fewer messages */

struct search {
  const struct tt_queue *queue;
  const struct tt_message_cost *cost;
  struct tt_moves moves;
  struct tt_stage stage;
  struct tt_fusion_plan best; /* of all */
  double best_us;
  uint64_t best_slice;
  struct tt_fusion_plan urgent; /* by priority */
  double urgent_us;
  uint64_t urgent_slice; /* elements; 0: whole groups */
  struct tt_fusion_plan trial;  /* groups of it and of all above are of whatever types */
  struct tt_fusion_plan sent;   /* one of them in groups of one type, if there are several */
  struct tt_fusion_plan merged; /* groups of optimal */
  double merged_us;             /* sent as they come */
  double others_us;             /* the shortest of other policies: the result must not be longer */
  int64_t work_left;
};

static void plan_copy(struct tt_fusion_plan *to, const struct tt_fusion_plan *from)
{
  to->ngroups = from->ngroups;
  to->by_priority = from->by_priority;
  to->credit = from->credit;
  memcpy(to->groups, from->groups, (size_t)from->ngroups * sizeof *to->groups);
}

static void sent_slice(const struct search *s, struct tt_fusion_plan *plan, uint64_t slice)
{
  if (plan->by_priority) tt_fusion_plan_slice(plan, s->queue, s->cost, slice ? slice : UINT64_MAX);
}

/* The plan as it is sent: in groups of one type and, by priority, in slices of so many elements (0: whole groups). */
static struct tt_fusion_plan *sent_as(struct search *s, struct tt_fusion_plan *plan, uint64_t slice)
{
  struct tt_fusion_plan *sent = plan;
  if (s->queue->ntypes > 1) {
    sent = &s->sent;
    plan_copy(sent, plan);
    tt_fusion_plan_part(sent, s->queue);
  }
  sent_slice(s, sent, slice);
  return sent;
}

/* The iteration; where ready times have a spread, the mean of those with tensors on time, early and late. */
static double plan_us(struct search *s, const struct tt_fusion_plan *plan)
{
  double us = tt_stage_play(&s->stage, plan, s->queue, s->cost);
  s->work_left -= s->moves.n * (s->queue->n + (int64_t)plan->ngroups * WORK_GROUP);
  return tt_moves_mean(&s->moves, us, &s->stage, plan, s->cost);
}

/* No plan with these messages has a shorter iteration. */
static double least_us(const struct search *s, const struct tt_fusion_plan *plan)
{
  double us = s->queue->net->tensors[plan->members[plan->groups[0].n - 1]].ready_us;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    const struct tt_fusion_group *group = &plan->groups[g];
    uint64_t full = group->bytes > group->slice_bytes ? (group->bytes - 1) / group->slice_bytes : 0;
    if (full) us += (double)full * tt_message_held_us(s->cost, group->slice_bytes);
    us += tt_message_held_us(s->cost, group->bytes - full * group->slice_bytes);
  }
  return us;
}

/* Plays the trial, cut into slices of so many elements (0: whole groups), by priority. 1: it is the best so far. */
static int trial_play(struct search *s, uint64_t slice)
{
  s->trial.by_priority = 1;
  const struct tt_fusion_plan *sent = sent_as(s, &s->trial, slice);
  s->work_left -= (int64_t)sent->ngroups * (WORK_GROUP / 4);
  if (least_us(s, sent) >= s->urgent_us) return 0;
  s->work_left -= s->queue->n + (int64_t)sent->ngroups * WORK_GROUP;
  double us = plan_us(s, sent);
  if (us >= s->urgent_us) return 0;
  plan_copy(&s->urgent, &s->trial);
  s->urgent_us = us;
  s->urgent_slice = slice;
  return 1;
}

/* ---- groups of other policies ---- */

static uint64_t elements_most(const struct search *s)
{
  uint64_t most = 0;
  for (int32_t g = 0; g < s->trial.ngroups; g++) {
    uint64_t elements = 0;
    for (int32_t i = 0; i < s->trial.groups[g].n; i++) {
      const struct tt_tensor *tensor = &s->queue->net->tensors[s->queue->order[s->trial.groups[g].first + i]];
      elements += tensor->count * (tensor->grain ? tensor->grain : 1);
    }
    if (elements > most) most = elements;
  }
  return most;
}

/* Tries the groups of the trial whole and in slices of the usual lengths; `given`: one more, or 0. */
static void usual_slices_try(struct search *s, uint64_t given)
{
  const uint64_t others[] = {40000, TT_P3_SLICE, given};
  uint64_t most = elements_most(s);
  trial_play(s, 0);
  for (int k = 0; k < 3; k++)
    if (others[k] && others[k] < most) trial_play(s, others[k]);
}

/* Tries also slices of many more lengths. */
static void slices_try(struct search *s, uint64_t given)
{
  uint64_t most = elements_most(s);
  usual_slices_try(s, given);
  for (uint64_t slice = SLICE_LEAST; slice < most; slice *= 2) trial_play(s, slice);
}

static void policies_try(struct search *s, const struct tt_policy *asked)
{
  static const struct tt_policy policies[] = {{.kind = TT_POLICY_SINGLE}, {.kind = TT_POLICY_MGWFBP}};
  struct tt_policy threshold = {.kind = TT_POLICY_THRESHOLD};
  const uint64_t total = s->queue->before[s->queue->n];
  plan_copy(&s->trial, &s->merged);
  slices_try(s, asked->slice);
  for (int k = 0; k < 2; k++) {
    tt_fusion_plan_merge(&s->trial, &policies[k], s->queue, s->cost);
    slices_try(s, asked->slice);
  }
  for (uint64_t bytes = total / 2; bytes > 16384 && s->work_left > 0; bytes /= 2) {
    threshold.bytes = bytes;
    tt_fusion_plan_merge(&s->trial, &threshold, s->queue, s->cost);
    slices_try(s, asked->slice);
  }
}

/* ---- changes ---- */

/* Takes the best by priority into the trial but with group g beginning `by` positions later; 0: it cannot. */
static int boundary_move(struct search *s, int32_t g, int32_t by)
{
  struct tt_fusion_group *group = s->trial.groups + g;
  const uint64_t *before = s->queue->before;
  if (g < 1 || g >= s->urgent.ngroups) return 0;
  plan_copy(&s->trial, &s->urgent);
  int32_t first = group->first + by, end = group->first + group->n;
  if (first <= group[-1].first || first >= end) return 0;
  group[-1].n = first - group[-1].first;
  group[-1].bytes = before[first] - before[group[-1].first];
  *group = (struct tt_fusion_group){.first = first, .n = end - first, .bytes = before[end] - before[first]};
  return 1;
}

/* The same with groups g - 1 and g as one. */
static int groups_join(struct search *s, int32_t g)
{
  struct tt_fusion_group *group = s->trial.groups + g;
  if (g < 1 || g >= s->urgent.ngroups) return 0;
  plan_copy(&s->trial, &s->urgent);
  group[-1].n += group->n;
  group[-1].bytes += group->bytes;
  memmove(group, group + 1, (size_t)(--s->trial.ngroups - g) * sizeof *group);
  return 1;
}

/* The same with the first `n` tensors of group g as a group of their own. */
static int group_split(struct search *s, int32_t g, int32_t n)
{
  struct tt_fusion_group *group = s->trial.groups + g;
  const uint64_t *before = s->queue->before;
  if (g >= s->urgent.ngroups || n < 1 || n >= s->urgent.groups[g].n) return 0;
  plan_copy(&s->trial, &s->urgent);
  memmove(group + 1, group, (size_t)(s->trial.ngroups++ - g) * sizeof *group);
  int32_t first = group->first + n, end = group->first + group->n;
  group[0].n = n;
  group[0].bytes = before[first] - before[group->first];
  group[1] = (struct tt_fusion_group){.first = first, .n = end - first, .bytes = before[end] - before[first]};
  return 1;
}

/* Tries every change at one group; 1: one helped. */
static int group_change(struct search *s, int32_t g)
{
  int helped = 0;
  uint64_t slice = s->urgent_slice;
  helped |= groups_join(s, g) && trial_play(s, slice);
  for (int32_t by = 1; by <= 4; by *= 4) {
    helped |= boundary_move(s, g, by) && trial_play(s, slice);
    helped |= boundary_move(s, g, -by) && trial_play(s, slice);
  }
  if (g >= s->urgent.ngroups) return helped;
  int32_t n = s->urgent.groups[g].n;
  helped |= group_split(s, g, n / 2) && trial_play(s, slice);
  if (n > 2) helped |= group_split(s, g, n - 1) && trial_play(s, slice);
  if (n > 3) helped |= group_split(s, g, 1) && trial_play(s, slice);
  return helped;
}

static int slices_change(struct search *s)
{
  int helped = 0;
  uint64_t slice = s->urgent_slice ? s->urgent_slice : elements_most(s);
  const uint64_t tries[] = {slice / 2, slice / 4 * 3, slice / 3 * 4, slice * 2, 0};
  for (int k = 0; k < 5; k++) {
    if (tries[k] < SLICE_LEAST && k < 4) continue;
    plan_copy(&s->trial, &s->urgent);
    helped |= trial_play(s, tries[k]);
  }
  return helped;
}

/* Begins with the last group, for which forward waits most. */
static void changes_try(struct search *s)
{
  for (int helped = 1; helped && s->work_left > 0;) {
    helped = slices_change(s);
    for (int32_t g = s->urgent.ngroups - 1; g >= 0 && s->work_left > 0; g--)
      if (g < s->urgent.ngroups) helped |= group_change(s, g);
  }
}

/* ---- fewer messages ---- */

static int64_t messages_of(const struct tt_fusion_plan *plan)
{
  int64_t n = 0;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    const struct tt_fusion_group *group = &plan->groups[g];
    n += group->bytes > group->slice_bytes ? (int64_t)((group->bytes - 1) / group->slice_bytes + 1) : 1;
  }
  return n;
}

/* The trial, in slices of so many elements (0: whole groups), takes the place of the best plan if it has fewer messages
 * and is not longer than the limit. */
static int fewer_take(struct search *s, uint64_t slice, double limit_us)
{
  int64_t most = messages_of(sent_as(s, &s->best, s->best_slice));
  const struct tt_fusion_plan *sent = sent_as(s, &s->trial, slice);
  s->work_left -= (int64_t)sent->ngroups * (WORK_GROUP / 4);
  if (messages_of(sent) >= most) return 0;
  s->work_left -= s->queue->n + (int64_t)sent->ngroups * WORK_GROUP;
  double us = plan_us(s, sent);
  if (us > limit_us) return 0;
  plan_copy(&s->best, &s->trial);
  s->best_us = us;
  s->best_slice = slice;
  return 1;
}

static void messages_save(struct search *s)
{
  double limit_us = fmin(LOSS_MOST * s->best_us, s->others_us);
  int64_t most = messages_of(sent_as(s, &s->best, s->best_slice));
  if (s->merged_us <= limit_us && messages_of(sent_as(s, &s->merged, 0)) <= most) {
    plan_copy(&s->best, &s->merged);
    s->best_us = s->merged_us;
    return;
  }
  if (!s->best.by_priority) return;
  plan_copy(&s->trial, &s->best);
  fewer_take(s, 0, limit_us);
  for (int is_fewer = 1; is_fewer && s->best_slice && s->work_left > 0;) {
    plan_copy(&s->trial, &s->best);
    is_fewer = fewer_take(s, 2 * s->best_slice, limit_us);
  }
  for (int32_t g = s->best.ngroups - 1; g > 0 && s->work_left > 0; g--) {
    plan_copy(&s->urgent, &s->best);
    if (groups_join(s, g)) fewer_take(s, s->best_slice, limit_us);
  }
}

/* ---- all ---- */

static tuttiResult_t search_start(struct search *s)
{
  tuttiResult_t result = tt_stage_make(&s->stage, s->queue->n);
  if (result == tuttiSuccess) result = tt_fusion_plan_start(&s->urgent, s->queue);
  if (result == tuttiSuccess) result = tt_fusion_plan_start(&s->trial, s->queue);
  if (result == tuttiSuccess) result = tt_fusion_plan_start(&s->sent, s->queue);
  if (result == tuttiSuccess) result = tt_fusion_plan_start(&s->merged, s->queue);
  return result;
}

static void best_keep(struct search *s)
{
  if (s->urgent_us >= s->best_us) return;
  plan_copy(&s->best, &s->urgent);
  s->best_us = s->urgent_us;
  s->best_slice = s->urgent_slice;
}

static void search_run(struct search *s, const struct tt_policy *asked)
{
  const struct tt_policy optimal = {.kind = TT_POLICY_OPTIMAL}, alone = {.kind = TT_POLICY_WFBP};
  tt_fusion_plan_merge(&s->merged, &optimal, s->queue, s->cost);
  plan_copy(&s->best, &s->merged);
  s->merged_us = s->best_us = plan_us(s, sent_as(s, &s->best, 0));
  s->urgent_us = HUGE_VAL;
  s->work_left = WORK_LADDER;
  tt_fusion_plan_merge(&s->trial, &alone, s->queue, s->cost); /* p3, regardless of its work */
  usual_slices_try(s, asked->slice);
  s->others_us = fmin(s->merged_us, s->urgent_us);
  slices_try(s, asked->slice);
  policies_try(s, asked);
  s->work_left = WORK_CHANGES / 2;
  changes_try(s);
  best_keep(s);
  s->urgent_us = HUGE_VAL; /* once more from optimal's groups: another local optimum */
  s->work_left = WORK_CHANGES / 2;
  plan_copy(&s->trial, &s->merged);
  trial_play(s, 0);
  changes_try(s);
  best_keep(s);
  s->work_left = WORK_FEWER;
  messages_save(s);
  tt_fusion_plan_part(&s->best, s->queue);
  sent_slice(s, &s->best, s->best_slice);
}

tuttiResult_t tt_fusion_plan_search(struct tt_fusion_plan *plan, const struct tt_policy *policy,
                                    const struct tt_queue *queue, const struct tt_message_cost *cost)
{
  struct search s = {.queue = queue, .cost = cost, .best = *plan};
  tuttiResult_t result = search_start(&s);
  if (result == tuttiSuccess) result = tt_moves_make(&s.moves, queue);
  if (result == tuttiSuccess) {
    search_run(&s, policy);
    *plan = s.best;
  }
  tt_moves_destroy(&s.moves);
  tt_stage_destroy(&s.stage);
  tt_fusion_plan_destroy(&s.urgent);
  tt_fusion_plan_destroy(&s.trial);
  tt_fusion_plan_destroy(&s.sent);
  tt_fusion_plan_destroy(&s.merged);
  return result;
}
