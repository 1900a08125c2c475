/* SPDX-License-Identifier: BSD-3-Clause */
/* One iteration as planned. */
#include <math.h>

#include "planner/private.h"

/* ---- messages ---- */

struct sending {
  struct tt_stage *stage;
  const struct tt_fusion_plan *plan;
  const struct tt_queue *queue;
  const double *ready_us; /* of each of the plan's members */
  const uint64_t *before; /* bytes of all members before this one */
  struct tt_flight flight;
  double now_us;   /* the next message may begin from here on */
  int32_t nheap;   /* groups that are ready */
  int32_t arrived; /* groups that were ever ready */
};

static double ready_us_of(const struct sending *s, int32_t g)
{
  const struct tt_fusion_group *group = &s->plan->groups[g];
  return s->ready_us[group->first + group->n - 1];
}

static uint64_t slices_of(const struct tt_fusion_group *group)
{
  return group->bytes ? (group->bytes + group->slice_bytes - 1) / group->slice_bytes : 1;
}

/* The slice that has the last byte of the i-th of the plan's members. */
static uint64_t slice_of(const struct sending *s, const struct tt_fusion_group *group, int32_t i)
{
  uint64_t end = s->before[group->first + group->n] - s->before[i];
  return end ? (end - 1) / group->slice_bytes : 0;
}

/* Sends the next slice, of so many bytes; tensors that end in it are done. Returns how long it takes. */
static double slice_send(struct sending *s, int32_t g, uint64_t bytes)
{
  const struct tt_fusion_group *group = &s->plan->groups[g];
  struct tt_stage *stage = s->stage;
  uint64_t slice = stage->sent[g]++;
  double begin_us = s->now_us, end_us = tt_flight_begin(&s->flight, begin_us, bytes);
  s->now_us = s->flight.next_us;
  if (stage->messages)
    stage->messages[stage->nmessages] = (struct tt_played_message){.group = g,
                                                                   .offset = slice * group->slice_bytes,
                                                                   .bytes = bytes,
                                                                   .start_us = begin_us,
                                                                   .end_us = end_us};
  stage->nmessages++;
  for (int32_t *i = &stage->at[g]; *i >= group->first && slice_of(s, group, *i) <= slice; (*i)--)
    stage->done_us[s->plan->members[*i]] = end_us;
  return end_us - begin_us;
}

/* The end of the k-th slice from now on, where each ends slice_us after it began, and begins at the end of another. */
static double steady_end_us(const struct tt_flight *flight, uint64_t k, double slice_us)
{
  uint64_t each = (uint64_t)flight->n + 1, before = k % each;
  double us = flight->next_us;
  if (before) us = flight->ends_us[(flight->first + (int32_t)before - 1) % TT_FLIGHT_MOST];
  return us + slice_us * (double)(k / each + 1);
}

/* Sends many equal slices at once, all of which begin before until_us: as long as each ends slice_us after it began,
 * all is as it was, only later. */
static void steady_send(struct sending *s, int32_t g, uint64_t most, double until_us, double slice_us)
{
  const struct tt_fusion_group *group = &s->plan->groups[g];
  struct tt_flight *flight = &s->flight;
  uint64_t each = (uint64_t)flight->n + 1, rounds = most / each, first = s->stage->sent[g];
  if (slice_us > 0 && (until_us - s->now_us) / slice_us < (double)rounds + 1) {
    double before = (until_us - s->now_us) / slice_us - (each > 1);
    rounds = before < 1 ? 0 : (uint64_t)before;
  }
  s->stage->sent[g] += rounds * each;
  s->stage->nmessages += (int64_t)(rounds * each);
  for (int32_t *i = &s->stage->at[g]; *i >= group->first; (*i)--) {
    uint64_t slice = slice_of(s, group, *i);
    if (slice >= s->stage->sent[g]) break;
    s->stage->done_us[s->plan->members[*i]] = steady_end_us(flight, slice - first, slice_us);
  }
  double later_us = slice_us * (double)rounds;
  for (int32_t k = 0; k < flight->n; k++) flight->ends_us[(flight->first + k) % TT_FLIGHT_MOST] += later_us;
  flight->links_us += later_us;
  flight->end_us += later_us;
  flight->next_us += later_us;
  s->now_us = flight->next_us;
}

/* Sends slices of a group until it has ended, or the next message may begin at or after until_us. 1: it has ended. */
static int group_send(struct sending *s, int32_t g, double until_us)
{
  const struct tt_fusion_group *group = &s->plan->groups[g];
  uint64_t full = slices_of(group) - 1, *sent = &s->stage->sent[g];
  double before_us = -1;
  if (*sent < full && !s->plan->credit && !s->stage->messages) {
    s->flight.next_us = s->now_us; /* nothing is in flight */
    steady_send(s, g, full - *sent, until_us, tt_message_us(s->flight.cost, group->slice_bytes));
    if (s->now_us >= until_us) return 0;
  }
  for (int32_t steady = 0, inflight = -1; *sent < full;) {
    double slice_us = slice_send(s, g, group->slice_bytes);
    if (s->now_us >= until_us) return 0;
    steady = s->flight.n == inflight && fabs(slice_us - before_us) <= 1e-12 * slice_us ? steady + 1 : 0;
    inflight = s->flight.n;
    before_us = slice_us;
    if (steady <= inflight || s->stage->messages) continue;
    steady_send(s, g, full - *sent, until_us, slice_us);
    if (s->now_us >= until_us) return 0;
    steady = 0;
  }
  slice_send(s, g, group->bytes - full * group->slice_bytes);
  return 1;
}

/* ---- the next group ---- */

static void heap_add(struct sending *s, int32_t g)
{
  const int32_t *urgency = s->stage->urgency;
  int32_t *heap = s->stage->heap, at = s->nheap++;
  for (; at && urgency[heap[(at - 1) / 2]] > urgency[g]; at = (at - 1) / 2) heap[at] = heap[(at - 1) / 2];
  heap[at] = g;
}

static void heap_drop(struct sending *s)
{
  const int32_t *urgency = s->stage->urgency;
  int32_t *heap = s->stage->heap, at = 0, g = heap[--s->nheap];
  for (int32_t child = 1; child < s->nheap; at = child, child = 2 * at + 1) {
    if (child + 1 < s->nheap && urgency[heap[child + 1]] < urgency[heap[child]]) child++;
    if (urgency[heap[child]] >= urgency[g]) break;
    heap[at] = heap[child];
  }
  heap[at] = g;
}

static void urgency_find(struct tt_stage *stage, const struct tt_fusion_plan *plan)
{
  for (int32_t g = 0; g < plan->ngroups; g++) {
    const int32_t *tensor = plan->members + plan->groups[g].first;
    stage->urgency[g] = tensor[0];
    for (int32_t k = 1; k < plan->groups[g].n; k++)
      if (tensor[k] < stage->urgency[g]) stage->urgency[g] = tensor[k];
  }
}

static void by_priority_send(struct sending *s)
{
  urgency_find(s->stage, s->plan);
  while (s->nheap || s->arrived < s->plan->ngroups) {
    if (!s->nheap) s->now_us = fmax(s->now_us, ready_us_of(s, s->arrived));
    while (s->arrived < s->plan->ngroups && ready_us_of(s, s->arrived) <= s->now_us) heap_add(s, s->arrived++);
    double until_us = s->arrived < s->plan->ngroups ? ready_us_of(s, s->arrived) : HUGE_VAL;
    if (group_send(s, s->stage->heap[0], until_us)) heap_drop(s);
  }
}

static void as_it_comes_send(struct sending *s)
{
  for (int32_t g = 0; g < s->plan->ngroups; g++) {
    s->now_us = fmax(s->now_us, ready_us_of(s, g));
    group_send(s, g, HUGE_VAL);
  }
}

/* Sends each message when it is ready and may begin. */
static void in_order_send(struct sending *s, const struct tt_played *order)
{
  for (int64_t m = 0; m < order->nmessages; m++) {
    const struct tt_played_message *message = &order->messages[m];
    s->now_us = fmax(s->now_us, ready_us_of(s, message->group));
    slice_send(s, message->group, message->bytes);
  }
}

/* ---- iteration ---- */

/* Returns when forward has ended. starts_us: when that of each layer begins; NULL: not wanted. */
static double forward_run(const struct tt_fusion_plan *plan, const struct tt_model *net, const double *done_us,
                          double messages_end_us, double *starts_us)
{
  double now_us = plan->by_priority ? net->backward_us : fmax(net->backward_us, messages_end_us);
  for (int32_t l = 0; l < net->n; l++) {
    if (plan->by_priority && done_us[l] > now_us) now_us = done_us[l];
    if (starts_us) starts_us[l] = now_us;
    now_us += net->tensors[l].forward_us;
  }
  return now_us;
}

/* Members of a plan of one type are as in the queue. */
static void members_take(struct sending *s)
{
  const struct tt_queue *queue = s->queue;
  struct tt_stage *stage = s->stage;
  s->ready_us = queue->ready_us;
  s->before = queue->before;
  if (queue->ntypes == 1) return;
  for (int32_t i = 0; i < queue->n; i++) {
    const struct tt_tensor *tensor = &queue->net->tensors[s->plan->members[i]];
    stage->ready_us[i] = tensor->ready_us;
    stage->before[i + 1] = stage->before[i] + tensor->bytes;
  }
  s->ready_us = stage->ready_us;
  s->before = stage->before;
}

/* order: NULL: the plan's; returns when the last message has ended. */
static double messages_send(struct sending *s, const struct tt_message_cost *cost, const struct tt_played *order)
{
  tt_flight_start(&s->flight, cost, s->plan->credit);
  members_take(s);
  s->stage->nmessages = 0;
  s->now_us = 0;
  for (int32_t g = 0; g < s->plan->ngroups; g++) {
    s->stage->sent[g] = 0;
    s->stage->at[g] = s->plan->groups[g].first + s->plan->groups[g].n - 1;
  }
  if (order) in_order_send(s, order);
  else if (s->plan->by_priority) by_priority_send(s);
  else as_it_comes_send(s);
  return s->flight.end_us;
}

double tt_stage_play(struct tt_stage *stage, const struct tt_fusion_plan *plan, const struct tt_queue *queue,
                     const struct tt_message_cost *cost)
{
  struct sending s = {.stage = stage, .plan = plan, .queue = queue};
  double messages_end_us = messages_send(&s, cost, NULL);
  return forward_run(plan, queue->net, stage->done_us, messages_end_us, NULL);
}

tuttiResult_t tt_stage_make(struct tt_stage *stage, int32_t n)
{
  struct tt_stage made = {.heap = tt_alloc((size_t)n, sizeof *made.heap)};
  made.urgency = tt_alloc((size_t)n, sizeof *made.urgency);
  made.at = tt_alloc((size_t)n, sizeof *made.at);
  made.sent = tt_alloc((size_t)n, sizeof *made.sent);
  made.done_us = tt_alloc((size_t)n, sizeof *made.done_us);
  made.ready_us = tt_alloc((size_t)n, sizeof *made.ready_us);
  made.before = tt_alloc((size_t)n + 1, sizeof *made.before);
  if (!made.heap || !made.urgency || !made.at || !made.sent || !made.done_us || !made.ready_us || !made.before) {
    tt_stage_destroy(&made);
    return tt_fail(tuttiSystemError, "no memory to play a plan of %d tensors: give the process more", (int)n);
  }
  *stage = made;
  return tuttiSuccess;
}

void tt_stage_destroy(struct tt_stage *stage)
{
  tt_free(stage->heap);
  tt_free(stage->urgency);
  tt_free(stage->at);
  tt_free(stage->sent);
  tt_free(stage->done_us);
  tt_free(stage->ready_us);
  tt_free(stage->before);
}

/* ---- with all that happens ---- */

static tuttiResult_t messages_count(int64_t *n, const struct tt_fusion_plan *plan)
{
  *n = 0;
  for (int32_t g = 0; g < plan->ngroups; g++) {
    uint64_t slices = slices_of(&plan->groups[g]);
    if (slices > TT_PLAY_MESSAGES - (uint64_t)*n)
      return tt_fail(tuttiInvalidUsage, "a group of %llu bytes in slices of %llu makes more than %d messages: make "
                     "slices longer", (unsigned long long)plan->groups[g].bytes,
                     (unsigned long long)plan->groups[g].slice_bytes, TT_PLAY_MESSAGES);
    *n += (int64_t)slices;
  }
  return tuttiSuccess;
}

static void played_fill(struct tt_played *played, struct sending *s, const struct tt_message_cost *cost,
                        const struct tt_played *order)
{
  const struct tt_model *net = s->queue->net;
  double forward_us = 0;
  s->stage->messages = played->messages;
  played->messages_end_us = messages_send(s, cost, order);
  played->iteration_us = forward_run(s->plan, net, s->stage->done_us, played->messages_end_us, played->forward_us);
  for (int32_t l = 0; l < net->n; l++) {
    played->done_us[l] = s->stage->done_us[l];
    forward_us += net->tensors[l].forward_us;
  }
  played->exposed_us = fmax(0, played->iteration_us - (net->backward_us + forward_us));
}

tuttiResult_t tt_fusion_plan_play_as(struct tt_played *played, const struct tt_fusion_plan *plan,
                                     const struct tt_played *order, const struct tt_model *net,
                                     const struct tt_message_cost *cost)
{
  struct tt_played made = {.nmessages = 0};
  struct tt_queue queue = {.n = 0};
  struct tt_stage stage = {.heap = NULL};
  tuttiResult_t result = messages_count(&made.nmessages, plan);
  if (result == tuttiSuccess) result = tt_queue_make(&queue, net);
  if (result == tuttiSuccess) result = tt_stage_make(&stage, net->n);
  if (result == tuttiSuccess) {
    made.messages = tt_alloc((size_t)made.nmessages, sizeof *made.messages);
    made.done_us = tt_alloc((size_t)net->n, sizeof *made.done_us);
    made.forward_us = tt_alloc((size_t)net->n, sizeof *made.forward_us);
    if (!made.messages || !made.done_us || !made.forward_us)
      result = tt_fail(tuttiSystemError, "no memory to play %lld messages: give the process more",
                       (long long)made.nmessages);
  }
  if (result == tuttiSuccess) {
    struct sending s = {.stage = &stage, .plan = plan, .queue = &queue};
    played_fill(&made, &s, cost, order);
    *played = made;
  } else {
    tt_played_destroy(&made);
  }
  tt_stage_destroy(&stage);
  tt_queue_destroy(&queue);
  return result;
}

tuttiResult_t tt_fusion_plan_play(struct tt_played *played, const struct tt_fusion_plan *plan,
                                  const struct tt_model *net, const struct tt_message_cost *cost)
{
  return tt_fusion_plan_play_as(played, plan, NULL, net, cost);
}

void tt_played_destroy(struct tt_played *played)
{
  if (!played) return;
  tt_free(played->messages);
  tt_free(played->done_us);
  tt_free(played->forward_us);
}
