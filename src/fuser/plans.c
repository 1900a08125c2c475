/* SPDX-License-Identifier: BSD-3-Clause */
/* From a plan to messages: which pieces of which tensors each one has. */
#include <stdlib.h>
#include <string.h>

#include "fuser/private.h"

/* What is being built; it replaces what the fuser has when all of it is there. */
struct made {
  struct tt_fusion_plan plan;
  struct tt_played played;
  struct message *messages;
  struct part *parts;
  int32_t *ring;
  int32_t *layout;           /* as plan.order, but forward order backwards in each group */
  int32_t *missing, *place;  /* of each group: place in it of the tensor that is cut next */
  uint64_t *first;           /* of each group: element of that tensor that is cut next */
  int64_t nmessages, nparts; /* so far; arrays may be NULL: only counted */
};

static void made_free(struct made *made)
{
  tt_fusion_plan_destroy(&made->plan);
  tt_played_destroy(&made->played);
  tt_free(made->messages);
  tt_free(made->parts);
  tt_free(made->ring);
  tt_free(made->missing);
  tt_free(made->layout);
  tt_free(made->place);
  tt_free(made->first);
}

static const struct tensor *tensor_at(const struct made *made, const struct tuttiFusion *fuser, int32_t g)
{
  return &fuser->tensors[made->layout[made->plan.groups[g].first + made->place[g]]];
}

/* Adds a part of up to `count` elements of the tensor of group g that is cut next; how many. */
static uint64_t part_add(struct made *made, const struct tuttiFusion *fuser, int32_t g, uint64_t count, size_t at)
{
  const struct tensor *tensor = tensor_at(made, fuser, g);
  uint64_t *first = &made->first[g], left = tensor->count - *first, take = left < count ? left : count;
  if (made->parts)
    made->parts[made->nparts] =
        (struct part){.tensor = (int32_t)(tensor - fuser->tensors), .first = *first, .count = take, .at = at};
  made->nparts++;
  *first += take;
  if (*first == tensor->count) {
    made->place[g]--;
    *first = 0;
  }
  return take;
}

/* The next elements of one type of a group, up to so many bytes on the wire, and tensors without elements that come
 * then, in forward order: as they mostly lie in memory, and what is needed first is sent first. How many bytes. */
static uint64_t message_add(struct made *made, const struct tuttiFusion *fuser, int64_t played, uint64_t bytes)
{
  int32_t g = made->played.messages[played].group;
  const struct tensor *first = tensor_at(made, fuser, g);
  uint64_t most = fuser->buffer_bytes / 2 / (uint64_t)first->element, count = bytes / (uint64_t)first->wire_element;
  struct message message = {
      .group = g, .type = first->type, .first_part = (int)made->nparts, .played = (int32_t)played};
  if (count > most) count = most;
  if (count == 0 && bytes) count = 1; /* of another group of types the plan may have cut within an element */
  while (made->place[g] >= 0 && tensor_at(made, fuser, g)->type == first->type) {
    if (message.count == count && tensor_at(made, fuser, g)->count) break;
    message.count += part_add(made, fuser, g, count - message.count, message.count * (size_t)first->element);
    message.nparts++;
  }
  message.bytes = message.count * (size_t)first->element;
  message.wire_bytes = message.count * (uint64_t)first->wire_element;
  if (made->messages) made->messages[made->nmessages] = message;
  made->nmessages++;
  return message.wire_bytes;
}

/* Forward order backwards, types one after the other. */
struct placed {
  int32_t tensor, type;
};

static int backwards(const void *a, const void *b)
{
  const struct placed *x = a, *y = b;
  if (x->type != y->type) return (x->type > y->type) - (x->type < y->type);
  return (x->tensor < y->tensor) - (x->tensor > y->tensor);
}

static tuttiResult_t layout_make(struct made *made, const struct tuttiFusion *fuser)
{
  struct placed *placed = tt_alloc((size_t)fuser->n, sizeof *placed);
  if (!placed) return tt_fail(tuttiSystemError, "out of memory for a plan of %d tensors", fuser->n);
  for (int32_t i = 0; i < fuser->n; i++) {
    int32_t tensor = made->plan.order[i];
    placed[i] = (struct placed){tensor, fuser->tensors[tensor].type};
  }
  for (int32_t g = 0; g < made->plan.ngroups; g++)
    qsort(placed + made->plan.groups[g].first, (size_t)made->plan.groups[g].n, sizeof *placed, backwards);
  for (int32_t i = 0; i < fuser->n; i++) made->layout[i] = placed[i].tensor;
  tt_free(placed);
  return tuttiSuccess;
}

/* All messages of the play: those cut that are longer than half the fusion buffer, or of several types. */
static void messages_cut(struct made *made, const struct tuttiFusion *fuser)
{
  made->nmessages = made->nparts = 0;
  for (int32_t g = 0; g < made->plan.ngroups; g++) {
    made->missing[g] = made->plan.groups[g].n;
    made->place[g] = made->plan.groups[g].n - 1;
    made->first[g] = 0;
  }
  for (int64_t m = 0; m < made->played.nmessages; m++) {
    const struct tt_played_message *played = &made->played.messages[m];
    int is_last = played->offset + played->bytes == made->plan.groups[played->group].bytes;
    uint64_t left = played->bytes, sent;
    while (made->place[played->group] >= 0 && (left || is_last)) {
      sent = message_add(made, fuser, m, left);
      left -= sent < left ? sent : left;
    }
  }
}

static tuttiResult_t made_build(struct made *made, const struct tuttiFusion *fuser, const struct tt_policy *policy)
{
  tuttiResult_t result = tt_fusion_plan_make(&made->plan, policy, &fuser->net, &fuser->cost);
  if (result == tuttiSuccess) result = tt_fusion_plan_play(&made->played, &made->plan, &fuser->net, &fuser->cost);
  if (result != tuttiSuccess) return result;
  size_t ngroups = (size_t)made->plan.ngroups;
  made->missing = tt_alloc(ngroups, sizeof *made->missing);
  made->place = tt_alloc(ngroups, sizeof *made->place);
  made->first = tt_alloc(ngroups, sizeof *made->first);
  made->layout = tt_alloc((size_t)fuser->n, sizeof *made->layout);
  if (made->missing && made->place && made->first && made->layout) {
    result = layout_make(made, fuser);
    if (result != tuttiSuccess) return result;
    messages_cut(made, fuser);
    made->messages = tt_alloc((size_t)made->nmessages, sizeof *made->messages);
    made->parts = tt_alloc((size_t)made->nparts, sizeof *made->parts);
    made->ring = tt_alloc((size_t)made->nmessages, sizeof *made->ring);
  }
  if (!made->messages || !made->parts || !made->ring)
    return tt_fail(tuttiSystemError, "out of memory for a plan of %d tensors", fuser->n);
  messages_cut(made, fuser);
  return tuttiSuccess;
}


void tt_fuser_missing_count(struct tuttiFusion *fuser)
{
  for (int32_t g = 0; g < fuser->plan.ngroups; g++) fuser->missing[g] = fuser->plan.groups[g].n;
  for (int i = 0; i < fuser->n; i++)
    if (fuser->tensors[i].ready >= fuser->engine_step) fuser->missing[fuser->tensors[i].group]--;
}

/* Under the mutex. */
static void made_take(struct tuttiFusion *fuser, const struct made *made)
{
  tt_fuser_plan_free(fuser);
  fuser->plan = made->plan;
  fuser->played = made->played;
  fuser->messages = made->messages;
  fuser->nmessages = (int32_t)made->nmessages;
  fuser->parts = made->parts;
  fuser->ring = made->ring;
  fuser->ring_first = fuser->in_ring = 0;
  fuser->missing = made->missing;
  fuser->plans++;
  fuser->planned_step = fuser->agreements ? fuser->engine_step + 1 : 0;
  for (int i = 0; i < fuser->n; i++) fuser->tensors[i].nparts = 0;
  for (int64_t p = 0; p < made->nparts; p++) fuser->tensors[made->parts[p].tensor].nparts++;
  for (int32_t g = 0; g < made->plan.ngroups; g++)
    for (int32_t k = 0; k < made->plan.groups[g].n; k++)
      fuser->tensors[made->plan.order[made->plan.groups[g].first + k]].group = g;
  tt_fuser_missing_count(fuser);
}

static void predicted_set(struct tuttiFusion *fuser, const struct tt_played *played)
{
  fuser->predicted_us = played->iteration_us;
  fuser->predicted_exposed_us = played->exposed_us;
}

static int same_orders(const struct tt_played *a, const struct tt_played *b)
{
  if (a->nmessages != b->nmessages) return 0;
  for (int64_t m = 0; m < a->nmessages; m++)
    if (a->messages[m].group != b->messages[m].group || a->messages[m].bytes != b->messages[m].bytes) return 0;
  return 1;
}

static int same_plans(const struct tt_fusion_plan *a, const struct tt_fusion_plan *b)
{
  if (a->ngroups != b->ngroups) return 0;
  for (int32_t g = 0; g < a->ngroups; g++)
    if (a->groups[g].n != b->groups[g].n || a->groups[g].slice_bytes != b->groups[g].slice_bytes) return 0;
  return a->by_priority == b->by_priority;
}

/* Whether what was made takes the place of the present plan, which is played with the present times; that can be done
 * while tensors are ready in the order of then. */
static tuttiResult_t made_judge(const struct tuttiFusion *fuser, const struct made *made, struct tt_played *now,
                                int *is_better)
{
  if (memcmp(made->plan.order, fuser->plan.order, (size_t)fuser->n * sizeof *made->plan.order) != 0)
    return tuttiSuccess;
  tuttiResult_t result = tt_fusion_plan_play(now, &fuser->plan, &fuser->net, &fuser->cost);
  if (result != tuttiSuccess) return result;
  int is_shorter = made->played.iteration_us < GAIN * now->iteration_us;
  int is_simpler = made->played.iteration_us <= now->iteration_us && made->played.nmessages < now->nmessages;
  *is_better = !same_plans(&made->plan, &fuser->plan) || !same_orders(&made->played, &fuser->played);
  if (fuser->policy.kind == TT_POLICY_AUTO && fuser->is_measured && !fuser->is_forced)
    *is_better &= is_shorter || is_simpler;
  *is_better |= !same_orders(now, &fuser->played); /* messages are in the order of then */
  return tuttiSuccess;
}

/* What made holds is used or freed; else the present plan is expected to go as `now`. */
static void made_settle(struct tuttiFusion *fuser, struct made *made, struct tt_played *now, int is_better)
{
  struct tt_played then = fuser->played;
  pthread_mutex_lock(&fuser->mutex);
  predicted_set(fuser, is_better ? &made->played : now);
  if (!is_better) {
    fuser->played = *now;
    *now = then;
  }
  fuser->is_measured = fuser->agreements > 0;
  if (is_better) made_take(fuser, made);
  pthread_mutex_unlock(&fuser->mutex);
  if (is_better) *made = (struct made){.layout = made->layout, .place = made->place, .first = made->first};
  made_free(made);
}

static tuttiResult_t plan_make(struct tuttiFusion *fuser, const struct tt_policy *policy)
{
  struct made made = {.nmessages = 0};
  struct tt_played now = {.nmessages = 0};
  int is_better = 1;
  tuttiResult_t result = made_build(&made, fuser, policy);
  if (result == tuttiSuccess && fuser->plans) result = made_judge(fuser, &made, &now, &is_better);
  if (result == tuttiSuccess) made_settle(fuser, &made, &now, is_better);
  else made_free(&made);
  tt_played_destroy(&now);
  return result;
}

tuttiResult_t tt_fuser_plan_renew(struct tuttiFusion *fuser)
{
  struct tt_policy policy = fuser->policy;
  if (fuser->trial.is_other) policy.kind = TT_POLICY_OPTIMAL;
  tuttiResult_t result = plan_make(fuser, &policy);
  fuser->is_forced = 0;
  return result;
}

void tt_fuser_plan_free(struct tuttiFusion *fuser)
{
  tt_fusion_plan_destroy(&fuser->plan);
  tt_played_destroy(&fuser->played);
  tt_free(fuser->messages);
  tt_free(fuser->parts);
  tt_free(fuser->ring);
  tt_free(fuser->missing);
  memset(&fuser->plan, 0, sizeof fuser->plan);
  memset(&fuser->played, 0, sizeof fuser->played);
  fuser->messages = NULL;
  fuser->parts = NULL;
  fuser->ring = NULL;
  fuser->missing = NULL;
}

/* Backward from the last layer to the first, a microsecond each: only the order of that counts. The plan knows of one
 * type: those of a group are messages of their own, one after the other. */
tuttiResult_t tt_fuser_plan_first(struct tuttiFusion *fuser)
{
  struct tt_policy policy = fuser->policy;
  if (policy.kind == TT_POLICY_AUTO)
    policy = (struct tt_policy){.kind = TT_POLICY_THRESHOLD, .bytes = (uint64_t)25 << 20, .first_bytes = 1 << 20};
  for (int i = 0; i < fuser->n; i++) {
    const struct tensor *tensor = &fuser->tensors[i];
    fuser->facts[i] = (struct tt_tensor){.count = tensor->count,
                                         .bytes = tensor->count * (uint64_t)tensor->wire_element,
                                         .ready_us = fuser->n - 1 - i};
  }
  fuser->net = (struct tt_net){.n = fuser->n, .tensors = fuser->facts, .backward_us = fuser->n - 1};
  return plan_make(fuser, &policy);
}
