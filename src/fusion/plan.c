/* SPDX-License-Identifier: BSD-3-Clause */
/* From a plan to messages: the pieces of tensors in each message. */
#include <stdlib.h>
#include <string.h>

#include "fusion/private.h"

/* A plan whose messages are being cut. */
struct cutting {
  const struct config *config;
  const struct plan *plan;
  struct message *messages;  /* NULL: messages and parts are only counted */
  struct part *parts;
  int32_t *layout;           /* as the plan's members, but forward order backwards in each group */
  int32_t *place;            /* of each group: place in it of the tensor that is cut next */
  uint64_t *first;           /* likewise: element of that tensor that is cut next */
  uint64_t *left;            /* likewise: bytes of played messages that were too short for the next unit */
  int64_t nmessages, nparts; /* so far */
};

static const struct tensor *tensor_at(const struct cutting *c, int32_t g)
{
  return &c->config->tensors[c->layout[c->plan->fusion.groups[g].first + c->place[g]]];
}

/* Adds a part of so many units of the tensor of group g that is cut next. Returns its elements. */
static uint64_t part_add(struct cutting *c, int32_t g, uint64_t units, size_t at)
{
  const struct tensor *tensor = tensor_at(c, g);
  uint64_t *first = &c->first[g], left = tensor->count - *first, take = left;
  if (units < (left + tensor->unit - 1) / tensor->unit) take = units * tensor->unit;
  if (c->messages)
    c->parts[c->nparts] =
        (struct part){.tensor = (int32_t)(tensor - c->config->tensors), .first = *first, .count = take, .at = at};
  c->nparts++;
  *first += take;
  if (*first == tensor->count) {
    c->place[g]--;
    *first = 0;
  }
  return take;
}

/* Units of the tensor of group g that is cut next which go into a message of so many bytes on the wire. A unit goes
 * into a message of its own, however long it is. */
static uint64_t units_fit(const struct cutting *c, int32_t g, const struct message *message, uint64_t bytes)
{
  const struct tensor *tensor = tensor_at(c, g);
  uint64_t unit_bytes = tensor->unit * (uint64_t)tensor->element;
  uint64_t most = tensor->is_coded ? UINT64_MAX : c->config->buffer_bytes / 2;
  uint64_t fit = (bytes - message->wire_bytes) / tensor->wire_unit, room = (most - message->bytes) / unit_bytes;
  if (message->bytes > most) room = 0;
  if (!room && !message->count) room = 1;
  return fit < room ? fit : room;
}

/* Adds a message: the next elements of a group, up to `bytes` bytes on the wire, and tensors without elements that come
 * next. They are in forward order, in which tensors mostly lie in memory and are needed. Takes its bytes from *bytes.
 * 0: no unit is as short as that. */
static int message_add(struct cutting *c, int64_t played, uint64_t *bytes)
{
  int32_t g = c->plan->played.messages[played].group;
  const struct tensor *first = tensor_at(c, g);
  struct message message = {.group = g,
                            .type = first->type,
                            .is_coded = first->is_coded,
                            .first_part = (int)c->nparts,
                            .played = (int32_t)played};
  while (c->place[g] >= 0) {
    const struct tensor *tensor = tensor_at(c, g);
    uint64_t units = tensor->count ? units_fit(c, g, &message, *bytes) : 0;
    if (tensor->count && !units) break;
    uint64_t count = part_add(c, g, units, message.bytes);
    message.count += count;
    message.bytes += count * (size_t)tensor->element;
    message.wire_bytes += (count + tensor->unit - 1) / tensor->unit * tensor->wire_unit;
    message.nparts++;
  }
  if (!message.nparts) return 0;
  if (c->messages) c->messages[c->nmessages] = message;
  c->nmessages++;
  *bytes -= message.wire_bytes;
  return 1;
}

static int backwards(const void *a, const void *b)
{
  int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
  return (x < y) - (x > y);
}

static void layout_make(struct cutting *c)
{
  const struct tt_fusion_plan *fusion = &c->plan->fusion;
  memcpy(c->layout, fusion->members, (size_t)c->config->n * sizeof *c->layout);
  for (int32_t g = 0; g < fusion->ngroups; g++)
    qsort(c->layout + fusion->groups[g].first, (size_t)fusion->groups[g].n, sizeof *c->layout, backwards);
}

/* Cuts the messages of the play. One with a unit that is longer than half the fusion buffer becomes several. */
static void messages_cut(struct cutting *c)
{
  const struct tt_fusion_plan *fusion = &c->plan->fusion;
  c->nmessages = c->nparts = 0;
  for (int32_t g = 0; g < fusion->ngroups; g++) {
    c->place[g] = fusion->groups[g].n - 1;
    c->first[g] = c->left[g] = 0;
  }
  for (int64_t m = 0; m < c->plan->played.nmessages; m++) {
    const struct tt_played_message *played = &c->plan->played.messages[m];
    int is_last = played->offset + played->bytes == fusion->groups[played->group].bytes;
    uint64_t *left = &c->left[played->group];
    *left += played->bytes;
    while (c->place[played->group] >= 0 && (*left || is_last) && message_add(c, m, left)) continue;
  }
}

static void cuts_find(struct cut *cuts, const struct tt_fusion_plan *fusion, const struct cutting *c)
{
  for (int32_t g = 0; g < fusion->ngroups; g++)
    for (int32_t k = 0; k < fusion->groups[g].n; k++) cuts[fusion->members[fusion->groups[g].first + k]].group = g;
  for (int64_t p = 0; p < c->nparts; p++) cuts[c->parts[p].tensor].nparts++;
}

/* Makes messages, parts and cuts of a plan that has groups and a play. */
static tuttiResult_t messages_make(struct plan *plan, struct cutting *c)
{
  struct cut *cuts = tt_alloc((size_t)c->config->n, sizeof *cuts);
  plan->cuts = cuts;
  c->layout = tt_alloc((size_t)c->config->n, sizeof *c->layout);
  c->place = tt_alloc((size_t)plan->fusion.ngroups, sizeof *c->place);
  c->first = tt_alloc((size_t)plan->fusion.ngroups, sizeof *c->first);
  c->left = tt_alloc((size_t)plan->fusion.ngroups, sizeof *c->left);
  if (cuts && c->layout && c->place && c->first && c->left) {
    layout_make(c);
    messages_cut(c);
    plan->messages = c->messages = tt_alloc((size_t)c->nmessages, sizeof *c->messages);
    plan->parts = c->parts = tt_alloc((size_t)c->nparts, sizeof *c->parts);
  }
  if (!c->messages || !c->parts)
    return tt_fail(tuttiSystemError, "out of memory for a plan of %d tensors", c->config->n);
  messages_cut(c);
  cuts_find(cuts, &plan->fusion, c);
  plan->nmessages = (int32_t)c->nmessages;
  plan->nparts = (int32_t)c->nparts;
  return tuttiSuccess;
}

/* Groups go in slices that have room in half the fusion buffer, which the play then knows. Coded ones need no room. */
static void slices_limit(struct tt_fusion_plan *fusion, const struct config *config)
{
  for (int32_t g = 0; g < fusion->ngroups; g++) {
    struct tt_fusion_group *group = &fusion->groups[g];
    const struct tensor *tensor = &config->tensors[fusion->members[group->first]];
    uint64_t units = config->buffer_bytes / 2 / (tensor->unit * (uint64_t)tensor->element);
    uint64_t most = (units ? units : 1) * tensor->wire_unit;
    if (!tensor->is_coded && group->slice_bytes > most) group->slice_bytes = most;
  }
}

tuttiResult_t tt_fusion_plans_make(struct plan **plan, const struct config *config, const struct tt_policy *policy,
                                   const struct known *known)
{
  struct plan *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "out of memory for a plan of %d tensors", config->n);
  struct cutting cutting = {.config = config, .plan = made};
  made->refs = 1;
  tuttiResult_t result = tt_fusion_plan_make(&made->fusion, policy, &known->model, &known->cost);
  if (result == tuttiSuccess) slices_limit(&made->fusion, config);
  if (result == tuttiSuccess) result = tt_fusion_plan_play(&made->played, &made->fusion, &known->model, &known->cost);
  if (result == tuttiSuccess) result = messages_make(made, &cutting);
  tt_free(cutting.layout);
  tt_free(cutting.place);
  tt_free(cutting.first);
  tt_free(cutting.left);
  if (result == tuttiSuccess) *plan = made;
  else tt_fusion_plans_hold(&made, NULL);
  return result;
}

void tt_fusion_plans_hold(struct plan **holder, struct plan *plan)
{
  struct plan *before = *holder;
  if (plan) plan->refs++;
  *holder = plan;
  if (!before || --before->refs > 0) return;
  tt_fusion_plan_destroy(&before->fusion);
  tt_played_destroy(&before->played);
  tt_free((void *)before->messages);
  tt_free((void *)before->parts);
  tt_free((void *)before->cuts);
  tt_free(before);
}
