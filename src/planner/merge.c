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
  made.members = tt_alloc((size_t)queue->n, sizeof *made.members);
  made.groups = tt_alloc((size_t)queue->n, sizeof *made.groups);
  if (!made.order || !made.members || !made.groups) {
    tt_fusion_plan_destroy(&made);
    return tt_fail(tuttiSystemError, "no memory for a plan of %d tensors: give the process more", (int)queue->n);
  }
  memcpy(made.order, queue->order, (size_t)queue->n * sizeof *made.order);
  memcpy(made.members, queue->order, (size_t)queue->n * sizeof *made.members);
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

/* ---- runs: positions that go together, in one message of each type ---- */

static void run_start(const struct tt_queue *queue)
{
  for (int32_t t = 0; t < queue->ntypes; t++) queue->parts[t] = (struct tt_part){.type = queue->parts[t].type};
}

static uint64_t bytes_at(const struct tt_queue *queue, int32_t position)
{
  return queue->before[position + 1] - queue->before[position];
}

/* Adds a position; returns what the messages of the run take. */
static double run_add(const struct tt_queue *queue, const struct tt_message_cost *cost, int32_t position)
{
  const struct tt_message_cost_piece *pieces = cost->pieces;
  struct tt_part *part = &queue->parts[queue->types[position]];
  part->bytes += bytes_at(queue, position);
  while (part->piece < cost->n - 1 && pieces[part->piece + 1].from <= part->bytes) part->piece++;
  part->us = pieces[part->piece].a_us + pieces[part->piece].b_us_per_byte * (double)(int64_t)part->bytes;
  part->n++;
  double us = queue->parts[0].us;
  for (int32_t t = 1; t < queue->ntypes; t++) us += queue->parts[t].us;
  return us;
}

/* Makes groups of a run; *g: the number of the group behind them, then of the first of them. From the end to the front,
 * so the type that is ready last is the last group. */
static void run_part(struct tt_fusion_plan *plan, const struct tt_queue *queue, int32_t first, int32_t n, int32_t *g)
{
  int32_t end = first + n;
  run_start(queue);
  for (int32_t i = first; i < first + n; i++) {
    struct tt_part *part = &queue->parts[queue->types[i]];
    part->bytes += bytes_at(queue, i);
    part->n++;
  }
  for (int32_t i = first + n - 1; i >= first; i--) {
    struct tt_part *part = &queue->parts[queue->types[i]];
    if (!part->end) {
      part->end = end;
      end -= part->n;
      plan->groups[--*g] = (struct tt_fusion_group){
          .first = end, .n = part->n, .bytes = part->bytes, .slice_bytes = part->bytes};
    }
    plan->members[--part->end] = queue->order[i];
  }
}

/* How many types a run has. */
static int32_t run_types(const struct tt_queue *queue, int32_t first, int32_t n)
{
  int32_t types = 0;
  run_start(queue);
  for (int32_t i = first; i < first + n; i++) types += !queue->parts[queue->types[i]].n++;
  return types;
}

void tt_fusion_plan_part(struct tt_fusion_plan *plan, const struct tt_queue *queue)
{
  int32_t total = 0;
  if (queue->ntypes == 1) return;
  for (int32_t r = 0; r < plan->ngroups; r++) total += run_types(queue, plan->groups[r].first, plan->groups[r].n);
  int32_t g = total;
  for (int32_t r = plan->ngroups - 1; r >= 0; r--) /* the groups of those before need no more than r places */
    run_part(plan, queue, plan->groups[r].first, plan->groups[r].n, &g);
  plan->ngroups = total;
}

/* ---- policies ---- */

static void wfbp(struct tt_fusion_plan *plan, const struct tt_queue *queue)
{
  for (int32_t i = 0; i < queue->n; i++) tt_fusion_plan_group_add(plan, queue, i + 1);
}

static void single(struct tt_fusion_plan *plan, const struct tt_queue *queue)
{
  tt_fusion_plan_group_add(plan, queue, queue->n);
}

static void threshold(struct tt_fusion_plan *plan, const struct tt_queue *queue, const struct tt_policy *policy)
{
  uint64_t limit = policy->first_bytes ? policy->first_bytes : policy->bytes;
  int32_t first = 0;
  for (int32_t i = 0; i < queue->n; i++) {
    if (i + 1 < queue->n && queue->before[i + 1] - queue->before[first] < limit) continue;
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
    run_start(queue);
    free_us = start_us + run_add(queue, cost, first);
    for (end = first + 1; end < queue->n; end++) {
      if (queue->ready_us[end] > start_us || queue->before[end + 1] - queue->before[first] > most) break;
      free_us = start_us + run_add(queue, cost, end);
    }
    tt_fusion_plan_group_add(plan, queue, end);
  }
}

/* The saving of one message less if the position joins the run: for a straight line, its a; 0 if the run has no
 * message of its type. */
static double startup_us(const struct tt_queue *queue, const struct tt_message_cost *cost, int32_t position)
{
  const struct tt_part *part = &queue->parts[queue->types[position]];
  uint64_t bytes = bytes_at(queue, position);
  if (!part->n) return 0;
  if (cost->n == 1) return cost->pieces[0].a_us;
  return part->us + tt_message_us(cost, bytes) - tt_message_us(cost, part->bytes + bytes);
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
  run_start(queue);
  for (int32_t i = 0; i + 1 < queue->n; i++) {
    double message_us = run_add(queue, cost, i);
    if (queue->ready_us[i + 1] - begin_us < startup_us(queue, cost, i + 1)) {
      begin_us = fmax(begin_us, queue->ready_us[i + 1]);
      continue;
    }
    tt_fusion_plan_group_add(plan, queue, i + 1);
    begin_us = fmax(begin_us + message_us, queue->ready_us[i + 1]);
    run_start(queue);
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
  double best_us = HUGE_VAL, ready_us = queue->ready_us[i];
  run_start(queue);
  for (int32_t j = i; j >= 0; j--) {
    double start_us = j && end_us[j - 1] > ready_us ? end_us[j - 1] : ready_us;
    double message_us = run_add(queue, cost, j);
    if (start_us + message_us <= best_us) {
      best_us = start_us + message_us;
      *pick = j;
    } else if (rises && ready_us + message_us > best_us) {
      break; /* longer ones end later still */
    }
  }
  return best_us;
}

/* E(i) = min over j <= i of max(E(j - 1), R(i)) + T(p_j + .. + p_i): the earliest end of the messages of positions 0 ..
 * i. It holds for every T, as a message that starts later never ends earlier. T of a run of several types is the time
 * of a message of each, one after the other; that of a type which is ready earlier may begin earlier, so the play may
 * be shorter. */
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

/* The first tensor of the group that has elements; NULL: none has. */
static const struct tt_tensor *first_of(const struct tt_queue *queue, const struct tt_fusion_plan *plan,
                                        const struct tt_fusion_group *group)
{
  for (int32_t i = group->first; i < group->first + group->n; i++) {
    const struct tt_tensor *tensor = &queue->net->tensors[plan->members[i]];
    if (tensor->bytes) return tensor;
  }
  return NULL;
}

void tt_fusion_plan_slice(struct tt_fusion_plan *plan, const struct tt_queue *queue,
                          const struct tt_message_cost *cost, uint64_t elements)
{
  uint64_t longest = 0;
  plan->by_priority = 1;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    struct tt_fusion_group *group = &plan->groups[g];
    const struct tt_tensor *tensor = first_of(queue, plan, group);
    uint64_t element = tensor ? tensor->bytes / tensor->count : 1, grain = tensor && tensor->grain ? tensor->grain : 1;
    uint64_t grains = elements < grain ? 1 : elements / grain;
    group->slice_bytes = grains < group->bytes / element ? grains * element : group->bytes;
    if (group->slice_bytes > longest) longest = group->slice_bytes;
  }
  plan->credit = tt_flight_credit(cost, longest);
}
