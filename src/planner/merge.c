/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies that decide which tensors go together. Positions are those of the queue: the paper's layer L is position 0,
 * its layer 1 the last. */
#include <math.h>
#include <string.h>

#include "planner/private.h"

tuttiResult_t tt_fusion_plan_start(struct tt_fusion_plan *plan, const struct tt_queue *queue)
{
  struct tt_fusion_plan made = {.ntensors = queue->n};
  made.order = tt_alloc((size_t)queue->n, sizeof *made.order);
  made.groups = tt_alloc((size_t)queue->n, sizeof *made.groups);
  if (!made.order || !made.groups) {
    tt_fusion_plan_destroy(&made);
    return tt_fail(tuttiSystemError, "no memory for a plan of %d tensors: give the process more", (int)queue->n);
  }
  memcpy(made.order, queue->order, (size_t)queue->n * sizeof *made.order);
  *plan = made;
  return tuttiSuccess;
}

void tt_fusion_plan_group_add(struct tt_fusion_plan *plan, const struct tt_queue *queue, int32_t end)
{
  int32_t first = plan->ngroups ? plan->groups[plan->ngroups - 1].first + plan->groups[plan->ngroups - 1].n : 0;
  uint64_t bytes = queue->before[end] - queue->before[first];
  plan->groups[plan->ngroups++] =
      (struct tt_fusion_group){.first = first, .n = end - first, .bytes = bytes, .slice_bytes = bytes};
}

/* The tensor at this position may not be in one group with the one before it. */
static int is_other_type(const struct tt_queue *queue, int32_t position)
{
  return tt_queue_type(queue, position) != tt_queue_type(queue, position - 1);
}

static void wfbp(struct tt_fusion_plan *plan, const struct tt_queue *queue)
{
  for (int32_t i = 0; i < queue->n; i++) tt_fusion_plan_group_add(plan, queue, i + 1);
}

static void single(struct tt_fusion_plan *plan, const struct tt_queue *queue)
{
  for (int32_t i = 1; i < queue->n; i++)
    if (is_other_type(queue, i)) tt_fusion_plan_group_add(plan, queue, i);
  tt_fusion_plan_group_add(plan, queue, queue->n);
}

static void threshold(struct tt_fusion_plan *plan, const struct tt_queue *queue, const struct tt_policy *policy)
{
  uint64_t limit = policy->first_bytes ? policy->first_bytes : policy->bytes;
  int32_t first = 0;
  for (int32_t i = 0; i < queue->n; i++) {
    int is_last = i + 1 == queue->n || is_other_type(queue, i + 1);
    if (!is_last && queue->before[i + 1] - queue->before[first] < limit) continue;
    tt_fusion_plan_group_add(plan, queue, i + 1);
    first = i + 1;
    limit = policy->bytes;
  }
}

static void horovod(struct tt_fusion_plan *plan, const struct tt_queue *queue, uint64_t most,
                    const struct tt_message_cost *cost)
{
  double free_us = 0;
  for (int32_t first = 0, end; first < queue->n; first = end) {
    double start_us = fmax(free_us, queue->ready_us[first]);
    for (end = first + 1; end < queue->n; end++)
      if (queue->ready_us[end] > start_us || queue->before[end + 1] - queue->before[first] > most ||
          is_other_type(queue, end))
        break;
    tt_fusion_plan_group_add(plan, queue, end);
    free_us = start_us + tt_message_us(cost, queue->before[end] - queue->before[first]);
  }
}

/* The saving of one message less: for a straight line, its a. */
static double startup_us(const struct tt_message_cost *cost, uint64_t one, uint64_t other)
{
  if (cost->n == 1) return cost->pieces[0].a_us;
  return tt_message_us(cost, one) + tt_message_us(cost, other) - tt_message_us(cost, one + other);
}

/* Algorithm 1 of Shi and Chu: from the last layer on, a layer is merged into the one before it if that is ready
 * before the layer's message would have got through its start-up:
 *
 *   end of backward of l - 1, less begin of the message of l, < a
 *
 * which the paper writes with tau_b[l-2], the begin of backward of l - 2. As printed there is no such value for l = 2:
 * here it is the end of backward, as in the authors' own program; and the loop of line 9 leaves out tau_b[1]: with 0 in
 * its place layers 3 and 2 would always be merged. The paper's procedure computes all begins again after each merge; as
 * a merge changes none before it, one pass does. For a cost that is no straight line, a is the saving of one message
 * less. */
static void mgwfbp(struct tt_fusion_plan *plan, const struct tt_queue *queue, const struct tt_message_cost *cost)
{
  double begin_us = queue->ready_us[0]; /* of the message of position i, with those merged into it */
  int32_t first = 0;
  for (int32_t i = 0; i < queue->n; i++) {
    uint64_t bytes = queue->before[i + 1] - queue->before[first];
    if (i + 1 == queue->n) break;
    double a_us = startup_us(cost, bytes, queue->before[i + 2] - queue->before[i + 1]);
    if (queue->ready_us[i + 1] - begin_us < a_us && !is_other_type(queue, i + 1)) {
      begin_us = fmax(begin_us, queue->ready_us[i + 1]);
      continue;
    }
    tt_fusion_plan_group_add(plan, queue, i + 1);
    begin_us = fmax(begin_us + tt_message_us(cost, bytes), queue->ready_us[i + 1]);
    first = i + 1;
  }
  tt_fusion_plan_group_add(plan, queue, queue->n);
}

/* No message takes less than a shorter one. */
static int is_rising(const struct tt_message_cost *cost)
{
  for (int32_t k = 0; k < cost->n; k++) {
    const struct tt_message_cost_piece *piece = &cost->pieces[k];
    if (piece->b_us_per_byte < 0) return 0;
    double before_us = k ? piece[-1].a_us + piece[-1].b_us_per_byte * (double)piece->from : 0;
    if (before_us > tt_message_us(cost, piece->from)) return 0;
  }
  return 1;
}

/* The earliest end of a last message of positions j .. i, over all j; *pick: the j. rises: the result of is_rising. */
static double end_find(const struct tt_queue *queue, const struct tt_message_cost *cost, int rises, int32_t i,
                       int32_t *pick)
{
  const double *end_us = queue->scratch;
  const struct tt_message_cost_piece *piece = cost->pieces, *last = cost->pieces + cost->n - 1;
  double best_us = HUGE_VAL, ready_us = queue->ready_us[i];
  for (int32_t j = i; j >= 0; j--) {
    uint64_t bytes = queue->before[i + 1] - queue->before[j];
    while (piece < last && piece[1].from <= bytes) piece++;
    double start_us = j && end_us[j - 1] > ready_us ? end_us[j - 1] : ready_us;
    double message_us = piece->a_us + piece->b_us_per_byte * (double)(int64_t)bytes;
    if (start_us + message_us <= best_us) {
      best_us = start_us + message_us;
      *pick = j;
    } else if (rises && ready_us + message_us > best_us) {
      break; /* longer ones end later still */
    }
    if (j && is_other_type(queue, j)) break;
  }
  return best_us;
}

/* E(i) = min over j <= i of max(E(j - 1), R(i)) + T(p_j + .. + p_i): the earliest end of the messages of positions 0 ..
 * i. It holds for every T, as a message that starts later never ends earlier. */
static void optimal(struct tt_fusion_plan *plan, const struct tt_queue *queue, const struct tt_message_cost *cost)
{
  int32_t *firsts = queue->picks, *behind = queue->picks, rises = is_rising(cost);
  for (int32_t i = 0; i < queue->n; i++) queue->scratch[i] = end_find(queue, cost, rises, i, &firsts[i]);
  /* From the end to the front, turning "first of the group that ends here" into "end of the group that begins here". */
  for (int32_t end = queue->n; end > 0;) {
    int32_t first = firsts[end - 1];
    behind[first] = end;
    end = first;
  }
  for (int32_t first = 0; first < queue->n;) {
    int32_t end = behind[first];
    tt_fusion_plan_group_add(plan, queue, end);
    first = end;
  }
}

void tt_fusion_plan_merge(struct tt_fusion_plan *plan, const struct tt_policy *policy, const struct tt_queue *queue,
                          const struct tt_message_cost *cost)
{
  plan->ngroups = 0;
  plan->by_priority = 0;
  plan->credit = 0;
  switch (policy->kind) {
  case TT_POLICY_SINGLE: single(plan, queue); break;
  case TT_POLICY_THRESHOLD: threshold(plan, queue, policy); break;
  case TT_POLICY_HOROVOD: horovod(plan, queue, policy->bytes, cost); break;
  case TT_POLICY_MGWFBP: mgwfbp(plan, queue, cost); break;
  case TT_POLICY_OPTIMAL: optimal(plan, queue, cost); break;
  default: wfbp(plan, queue);
  }
}

/* Bytes of an element of the group; 1 if it has none. */
static uint64_t element_of(const struct tt_queue *queue, const struct tt_fusion_group *group)
{
  for (int32_t i = group->first; i < group->first + group->n; i++) {
    const struct tt_tensor *tensor = &queue->net->tensors[queue->order[i]];
    if (tensor->bytes) return tensor->bytes / tensor->count;
  }
  return 1;
}

void tt_fusion_plan_slice(struct tt_fusion_plan *plan, const struct tt_queue *queue,
                          const struct tt_message_cost *cost, uint64_t elements)
{
  uint64_t longest = 0;
  plan->by_priority = 1;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    struct tt_fusion_group *group = &plan->groups[g];
    uint64_t element = element_of(queue, group);
    group->slice_bytes = elements < group->bytes / element ? elements * element : group->bytes;
    if (group->slice_bytes > longest) longest = group->slice_bytes;
  }
  plan->credit = tt_flight_credit(cost, longest);
}
