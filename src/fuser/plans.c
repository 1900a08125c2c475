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

/* Messages of made->plan, in this order; NULL: in that of the present times and costs. */
static tuttiResult_t made_build(struct made *made, const struct tuttiFusion *fuser, const struct tt_played *order)
{
  tuttiResult_t result = tt_fusion_plan_play_as(&made->played, &made->plan, order, &fuser->net, &fuser->cost);
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

static tuttiResult_t made_plan(struct made *made, const struct tuttiFusion *fuser, const struct tt_policy *policy)
{
  tuttiResult_t result = tt_fusion_plan_make(&made->plan, policy, &fuser->net, &fuser->cost);
  return result == tuttiSuccess ? made_build(made, fuser, NULL) : result;
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

/* Tensors are ready in the same order. */
static int same_queues(const struct tuttiFusion *fuser, const struct tt_fusion_plan *a, const struct tt_fusion_plan *b)
{
  return memcmp(a->order, b->order, (size_t)fuser->n * sizeof *a->order) == 0;
}

void tt_fuser_as_sent_free(struct as_sent *sent)
{
  tt_fusion_plan_destroy(&sent->plan);
  tt_played_destroy(&sent->played);
  memset(sent, 0, sizeof *sent);
}

/* What was made takes the place of the present plan, which is left in *then if that is not NULL. */
static void made_use(struct tuttiFusion *fuser, struct made *made, struct as_sent *then)
{
  pthread_mutex_lock(&fuser->mutex);
  if (then) {
    tt_fuser_as_sent_free(then);
    *then = (struct as_sent){fuser->plan, fuser->played};
    memset(&fuser->plan, 0, sizeof fuser->plan);
    memset(&fuser->played, 0, sizeof fuser->played);
  }
  predicted_set(fuser, &made->played);
  fuser->is_measured = fuser->agreements > 0;
  made_take(fuser, made);
  pthread_mutex_unlock(&fuser->mutex);
  *made = (struct made){.layout = made->layout, .place = made->place, .first = made->first};
}

/* The present plan stays, and is expected to go as `now`. */
static void now_use(struct tuttiFusion *fuser, struct tt_played *now)
{
  struct tt_played then = fuser->played;
  pthread_mutex_lock(&fuser->mutex);
  predicted_set(fuser, now);
  fuser->played = *now;
  fuser->is_measured = fuser->agreements > 0;
  pthread_mutex_unlock(&fuser->mutex);
  *now = then;
}

/* The plan of this policy is used; if it is the present one, that stays. */
static tuttiResult_t plan_make(struct tuttiFusion *fuser, const struct tt_policy *policy)
{
  struct made made = {.nmessages = 0};
  tuttiResult_t result = made_plan(&made, fuser, policy);
  int is_same = result == tuttiSuccess && fuser->plans && same_queues(fuser, &made.plan, &fuser->plan) &&
                same_plans(&made.plan, &fuser->plan) && same_orders(&made.played, &fuser->played);
  if (is_same) now_use(fuser, &made.played);
  else if (result == tuttiSuccess) made_use(fuser, &made, NULL);
  made_free(&made);
  return result;
}

/* ---- auto: plans are tried ---- */

/* What is done at an agreement. */
struct trying {
  struct made made;      /* of the present times and costs */
  struct as_sent *stays; /* the plan that stays; NULL: the present one */
  struct as_sent *goes;  /* where the present one goes if another one is used; NULL: it is dropped */
  struct tt_played now;  /* the plan that stays, by the present times and costs, in the order it has */
};

/* This plan is used, in the order it had; *sent has none then. */
static tuttiResult_t plan_again(struct tuttiFusion *fuser, struct as_sent *sent, struct as_sent *then)
{
  struct made made = {.plan = sent->plan};
  tuttiResult_t result = made_build(&made, fuser, &sent->played);
  if (result == tuttiSuccess) {
    tt_played_destroy(&sent->played);
    memset(sent, 0, sizeof *sent);
    made_use(fuser, &made, then);
  } else {
    memset(&made.plan, 0, sizeof made.plan);
  }
  made_free(&made);
  return result;
}

static tuttiResult_t stay(struct tuttiFusion *fuser, struct trying *t)
{
  if (t->stays) return plan_again(fuser, t->stays, t->goes);
  now_use(fuser, &t->now);
  return tuttiSuccess;
}

static tuttiResult_t another_use(struct tuttiFusion *fuser, struct trying *t, enum tt_try what)
{
  const struct tt_policy plain = {.kind = TT_POLICY_OPTIMAL};
  struct made made = {.nmessages = 0};
  if (what == TT_TRY_BEATEN) return plan_again(fuser, &fuser->beaten, t->goes);
  if (what == TT_TRY_PROMISED) {
    made_use(fuser, &t->made, t->goes);
    return tuttiSuccess;
  }
  tuttiResult_t result = made_plan(&made, fuser, &plain);
  if (result == tuttiSuccess) made_use(fuser, &made, t->goes);
  made_free(&made);
  return result;
}

/* Ends a trial. */
static void verdict_take(struct tuttiFusion *fuser, struct trying *t, double iteration_us)
{
  enum tt_try what = fuser->trial.what;
  enum tt_verdict verdict = tt_trial_ends(&fuser->trial, fuser->engine_step, iteration_us);
  if (verdict != TT_NOT_TRIED && fuser->rank == 0)
    tt_log(TT_LOG_INFO, "fusion: step %llu: the plan on trial takes %.0f us, %s",
           (unsigned long long)fuser->engine_step, iteration_us,
           verdict == TT_TRIED_WELL ? "and is better" : "the one before it was better");
  t->stays = NULL;
  t->goes = &fuser->kept;
  if (verdict == TT_TRIED_IN_VAIN) {
    t->stays = &fuser->kept;
    t->goes = what == TT_TRY_BEATEN ? &fuser->beaten : NULL;
  } else if (verdict == TT_TRIED_WELL) {
    tt_fuser_as_sent_free(&fuser->beaten);
    fuser->beaten = fuser->kept;
    memset(&fuser->kept, 0, sizeof fuser->kept);
  }
}

static void try_tell(const struct tuttiFusion *fuser, const struct tt_promises *promises, enum tt_try what)
{
  static const char *const tried[TT_TRIES] = {"no other plan", "one that promises more, or as much in fewer messages",
                                              "the one that was beaten", "the best one without priority"};
  if (fuser->rank == 0)
    tt_log(TT_LOG_INFO, "fusion: step %llu: the plan takes %.0f us (%.0f by these costs), a new one of %lld messages "
           "promises %.0f; tried is %s", (unsigned long long)fuser->engine_step, fuser->trial.us, promises->now_us,
           (long long)promises->messages, promises->new_us, tried[what]);
}

static tuttiResult_t plan_try(struct tuttiFusion *fuser, struct trying *t)
{
  int is_back = t->goes == &fuser->beaten; /* the beaten one, which is still in use, was tried in vain */
  const struct tt_fusion_plan *beaten = is_back ? &fuser->plan : &fuser->beaten.plan;
  const struct tt_fusion_plan *stays = t->stays ? &t->stays->plan : &fuser->plan;
  const struct tt_played *order = t->stays ? &t->stays->played : &fuser->played;
  if (!same_queues(fuser, &t->made.plan, stays)) { /* its groups may be ready in another order now */
    if (fuser->rank == 0)
      tt_log(TT_LOG_INFO, "fusion: step %llu: tensors are ready in another order: a new plan",
             (unsigned long long)fuser->engine_step);
    tt_trial_forget(&fuser->trial, fuser->engine_step);
    made_use(fuser, &t->made, NULL);
    return tuttiSuccess;
  }
  tuttiResult_t result = tt_fusion_plan_play_as(&t->now, stays, order, &fuser->net, &fuser->cost);
  if (result != tuttiSuccess) return result;
  int is_usable = beaten->ngroups && same_queues(fuser, &t->made.plan, beaten);
  struct tt_promises promises = {.now_us = t->now.iteration_us,
                                 .new_us = t->made.played.iteration_us,
                                 .messages = t->made.played.nmessages,
                                 .is_simpler = 2 * t->made.played.nmessages <= t->now.nmessages,
                                 .has_beaten = is_usable && !is_back,
                                 .has_plain = stays->by_priority && !(is_usable && !beaten->by_priority)};
  if (is_back && stays->by_priority && !fuser->plan.by_priority)
    t->goes = NULL; /* it is dropped: the next time, the best one of then is tried */
  enum tt_try what = tt_trial_begins(&fuser->trial, fuser->engine_step, &promises);
  try_tell(fuser, &promises, what);
  return what == TT_TRY_NOTHING ? stay(fuser, t) : another_use(fuser, t, what);
}

/* Tensors that are ready within this part of an iteration keep their order: if two changed places at every agreement,
 * no plan would be in use for long enough to be tried. */
#define ORDER_PART 0.005

static void order_keep(struct tuttiFusion *fuser, double iteration_us)
{
  double most_us = iteration_us > fuser->net.backward_us ? iteration_us : fuser->net.backward_us;
  double within_us = ORDER_PART * most_us, latest_us = -1;
  pthread_mutex_lock(&fuser->mutex);
  for (int i = 0; i < fuser->n; i++) {
    double *ready_us = &fuser->facts[fuser->plan.order[i]].ready_us;
    if (*ready_us <= latest_us && *ready_us > latest_us - within_us) *ready_us = latest_us + 0.001;
    if (*ready_us > latest_us) latest_us = *ready_us;
  }
  if (fuser->net.backward_us < latest_us) fuser->net.backward_us = latest_us;
  pthread_mutex_unlock(&fuser->mutex);
}

tuttiResult_t tt_fuser_plan_renew(struct tuttiFusion *fuser, double iteration_us)
{
  struct trying trying = {.stays = NULL};
  order_keep(fuser, iteration_us);
  if (fuser->policy.kind != TT_POLICY_AUTO || !fuser->is_measured) return plan_make(fuser, &fuser->policy);
  verdict_take(fuser, &trying, iteration_us);
  tuttiResult_t result = made_plan(&trying.made, fuser, &fuser->policy);
  if (result == tuttiSuccess) result = plan_try(fuser, &trying);
  made_free(&trying.made);
  tt_played_destroy(&trying.now);
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
