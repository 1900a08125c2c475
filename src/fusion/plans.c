/* SPDX-License-Identifier: BSD-3-Clause */
/* The choice of the plan in use: the plan of the policy or, with auto, the fastest of the measured plans. */
#include <string.h>

#include "fusion/private.h"

#define CODED_TYPE 0x100 /* messages have coded tensors only, or none; */
#define CODEC_TYPE 0x200 /* of those only some with a codec, or without one */

/* ---- using a plan ---- */

void tt_fusion_missing_count(const struct config *config, struct shared *shared)
{
  const struct plan *plan = shared->planned.plan;
  for (int32_t g = 0; g < plan->fusion.ngroups; g++) shared->missing[g] = plan->fusion.groups[g].n;
  for (int i = 0; i < config->n; i++)
    if (shared->gradients[i].ready > shared->finished) shared->missing[plan->cuts[i].group]--;
  shared->ncomplete = 0;
  for (int32_t g = 0; g < plan->fusion.ngroups; g++)
    if (shared->missing[g] == 0) shared->complete[shared->ncomplete++] = g;
}

static void progress_free(struct engine *engine)
{
  tt_free(engine->messages);
  tt_free(engine->is_in);
  tt_free(engine->begun);
  tt_free(engine->ring.messages);
}

/* The engine's part of the plan's messages. Without memory for it there is none, and the fusion ends. */
static tuttiResult_t progress_make(struct engine *engine, const struct config *config, const struct plan *plan)
{
  progress_free(engine);
  engine->messages = tt_alloc((size_t)plan->nmessages, sizeof *engine->messages);
  engine->is_in = tt_alloc((size_t)plan->nparts, sizeof *engine->is_in);
  engine->begun = tt_alloc((size_t)plan->nmessages, sizeof *engine->begun);
  engine->ring.messages = tt_alloc((size_t)plan->nmessages, sizeof *engine->ring.messages);
  if (engine->messages && engine->is_in && engine->begun && engine->ring.messages)
    return tt_fusion_order_plan(engine, config, plan);
  return tt_fail(tuttiSystemError, "out of memory for %d messages of a step", plan->nmessages);
}

/* Plays the plan by the newest numbers, with its messages in the order that they always had. */
static tuttiResult_t plan_expect(const struct engine *engine, const struct plan *plan, struct tt_played *expected)
{
  return tt_fusion_plan_play_as(expected, &plan->fusion, &plan->played, &engine->known.model, &engine->known.cost);
}

/* *planned is the information for users about the present plan. It becomes that about this plan, which may be the
 * present one. */
static tuttiResult_t planned_make(const struct engine *engine, const struct plan *plan, struct planned *planned)
{
  tuttiResult_t result = plan_expect(engine, plan, &planned->expected);
  planned->plan = plan;
  planned->is_measured = engine->agreements > 0;
  if (result == tuttiSuccess && planned->is_measured)
    result = tt_fusion_bound(&engine->known.model, &engine->known.cost, &planned->bound_us);
  if (plan == engine->used || result != tuttiSuccess) return result;
  planned->plans++;
  planned->step = engine->agreements ? engine->step + 1 : 0;
  planned->sent = tt_alloc((size_t)plan->nmessages, sizeof *planned->sent);
  if (planned->sent) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "out of memory for %d messages of a step", plan->nmessages);
}

/* Uses the plan from the next step on. If there is no memory for it, the present plan stays in use, but the fusion
 * ends. */
static tuttiResult_t plan_use(struct tuttiFusion *fusion, struct plan *plan)
{
  struct engine *engine = &fusion->engine;
  struct shared *shared = &fusion->shared;
  struct planned now = shared->planned, gone;
  now.expected = (struct tt_played){.nmessages = 0};
  tuttiResult_t result = planned_make(engine, plan, &now);
  if (result == tuttiSuccess && plan != engine->used) result = progress_make(engine, &fusion->config, plan);
  if (result == tuttiSuccess) {
    pthread_mutex_lock(&shared->mutex);
    gone = shared->planned;
    shared->planned = now;
    tt_fusion_missing_count(&fusion->config, shared);
    pthread_mutex_unlock(&shared->mutex);
    tt_fusion_plans_hold(&engine->used, plan);
    tt_fusion_order_price(engine);
  } else {
    gone = now;
  }
  tt_played_destroy(&gone.expected);
  if (gone.sent != shared->planned.sent) tt_free(gone.sent);
  return result;
}

static tuttiResult_t plan_make(const struct tuttiFusion *fusion, const struct tt_policy *policy, struct plan **plan)
{
  return tt_fusion_plans_make(plan, &fusion->config, policy, &fusion->engine.known);
}

/* ---- the plan of a policy ---- */

/* True if tensors are ready in the same order. */
static int same_queues(const struct tt_fusion_plan *a, const struct tt_fusion_plan *b)
{
  return memcmp(a->order, b->order, (size_t)a->ntensors * sizeof *a->order) == 0;
}

static int same_plans(const struct plan *a, const struct plan *b)
{
  const struct tt_fusion_group *x = a->fusion.groups, *y = b->fusion.groups;
  const struct tt_played_message *m = a->played.messages, *n = b->played.messages;
  int is_same = same_queues(&a->fusion, &b->fusion) && a->fusion.by_priority == b->fusion.by_priority &&
                a->fusion.ngroups == b->fusion.ngroups && a->played.nmessages == b->played.nmessages;
  is_same = is_same && !memcmp(a->fusion.members, b->fusion.members, (size_t)a->fusion.ntensors * sizeof(int32_t));
  for (int32_t g = 0; is_same && g < a->fusion.ngroups; g++)
    is_same = x[g].n == y[g].n && x[g].slice_bytes == y[g].slice_bytes;
  for (int64_t k = 0; is_same && k < a->played.nmessages; k++)
    is_same = m[k].group == n[k].group && m[k].bytes == n[k].bytes;
  return is_same;
}

/* Uses the plan of this policy; if it is the same as the present one, that stays. */
static tuttiResult_t policy_use(struct tuttiFusion *fusion, const struct tt_policy *policy)
{
  struct plan *made = NULL, *used = fusion->engine.used;
  tuttiResult_t result = plan_make(fusion, policy, &made);
  if (result == tuttiSuccess) result = plan_use(fusion, used && same_plans(made, used) ? used : made);
  tt_fusion_plans_hold(&made, NULL);
  return result;
}

/* ---- auto: plans are tried ---- */

/* Ends a trial; returns the plan that stays. */
static struct plan *trial_end(struct tuttiFusion *fusion, double iteration_us)
{
  struct engine *engine = &fusion->engine;
  enum tt_verdict verdict = tt_trial_ends(&engine->trial, engine->step, iteration_us);
  if (verdict != TT_NOT_TRIED && fusion->config.rank == 0)
    tt_log(TT_LOG_INFO, "fusion: step %llu: the plan on trial takes %.0f us, %s", (unsigned long long)engine->step,
           iteration_us, verdict == TT_TRIED_WELL ? "and is better" : "the one before it was better");
  if (verdict == TT_TRIED_WELL) tt_fusion_plans_hold(&engine->beaten, engine->kept);
  return verdict == TT_TRIED_IN_VAIN ? engine->kept : engine->used;
}

static void trial_tell(const struct tuttiFusion *fusion, const struct tt_promises *promises, enum tt_try what)
{
  static const char *const tried[TT_TRIES] = {"no other plan", "one that promises more, or as much in fewer messages",
                                              "the one that was beaten", "the best one without priority"};
  if (fusion->config.rank == 0)
    tt_log(TT_LOG_INFO, "fusion: step %llu: the plan takes %.0f us (%.0f by these costs), a new one of %lld messages "
           "promises %.0f; tried is %s", (unsigned long long)fusion->engine.step, fusion->engine.trial.us,
           promises->now_us, (long long)promises->messages, promises->new_us, tried[what]);
}

/* True if the beaten plan, which is still in use, was tried in vain. */
static int is_back(const struct engine *engine, const struct plan *stays)
{
  return engine->used != stays && engine->used == engine->beaten;
}

/* Compares the new plan and the beaten one with the plan that stays, by the present times and costs, and on
 * average over ready times that have a spread. */
static tuttiResult_t promises_make(const struct engine *engine, const struct plan *stays, const struct plan *made,
                                   struct tt_promises *promises)
{
  const struct plan *beaten = engine->beaten;
  int is_usable = beaten && same_queues(&made->fusion, &beaten->fusion);
  struct tt_played now = {.nmessages = 0};
  double now_us = 0, new_us = made->played.iteration_us;
  tuttiResult_t result = plan_expect(engine, stays, &now);
  now_us = now.iteration_us;
  if (result == tuttiSuccess)
    result = tt_fusion_plan_mean(&now_us, &stays->fusion, &engine->known.model, &engine->known.cost);
  if (result == tuttiSuccess)
    result = tt_fusion_plan_mean(&new_us, &made->fusion, &engine->known.model, &engine->known.cost);
  *promises = (struct tt_promises){.now_us = now_us,
                                   .new_us = new_us,
                                   .messages = made->played.nmessages,
                                   .is_simpler = 2 * made->played.nmessages <= now.nmessages,
                                   .has_beaten = is_usable && !is_back(engine, stays),
                                   .has_plain =
                                       stays->fusion.by_priority && !(is_usable && !beaten->fusion.by_priority)};
  tt_played_destroy(&now);
  return result;
}

/* Uses the plan that is to be tried now and keeps the one that stays. If none is to be tried, uses the one that
 * stays. */
static tuttiResult_t trial_begin(struct tuttiFusion *fusion, struct plan *stays, struct plan *made)
{
  static const struct tt_policy plain = {.kind = TT_POLICY_OPTIMAL};
  struct engine *engine = &fusion->engine;
  struct tt_promises promises;
  struct plan *best = NULL;
  tuttiResult_t result = promises_make(engine, stays, made, &promises);
  if (result != tuttiSuccess) return result;
  if (is_back(engine, stays) && stays->fusion.by_priority && !engine->used->fusion.by_priority)
    tt_fusion_plans_hold(&engine->beaten, NULL); /* next time the plan that is best then is tried */
  enum tt_try what = tt_trial_begins(&engine->trial, engine->step, &promises);
  trial_tell(fusion, &promises, what);
  if (what == TT_TRY_NOTHING) return plan_use(fusion, stays);
  tt_fusion_plans_hold(&engine->kept, stays);
  if (what == TT_TRY_BEATEN) return plan_use(fusion, engine->beaten);
  if (what == TT_TRY_PROMISED) return plan_use(fusion, made);
  result = plan_make(fusion, &plain, &best);
  if (result == tuttiSuccess) result = plan_use(fusion, best);
  tt_fusion_plans_hold(&best, NULL);
  return result;
}

static tuttiResult_t auto_use(struct tuttiFusion *fusion, double iteration_us)
{
  struct engine *engine = &fusion->engine;
  struct plan *stays = trial_end(fusion, iteration_us), *made = NULL;
  tuttiResult_t result = plan_make(fusion, &fusion->config.policy, &made);
  if (result == tuttiSuccess && same_queues(&made->fusion, &stays->fusion)) {
    result = trial_begin(fusion, stays, made);
  } else if (result == tuttiSuccess) { /* its groups may be ready in another order now */
    if (fusion->config.rank == 0)
      tt_log(TT_LOG_INFO, "fusion: step %llu: tensors are ready in another order: a new plan",
             (unsigned long long)engine->step);
    tt_trial_forget(&engine->trial, engine->step);
    if (engine->used == engine->beaten) tt_fusion_plans_hold(&engine->beaten, NULL); /* there will be no verdict */
    result = plan_use(fusion, made);
  }
  tt_fusion_plans_hold(&made, NULL);
  return result;
}

/* ---- from time to time ---- */

/* Tensors that are ready within this part of an iteration keep their order: if two changed places at every agreement,
 * no plan would be in use for long enough to be tried. */
#define ORDER_PART 0.005

static void order_keep(struct engine *engine, double iteration_us)
{
  struct known *known = &engine->known;
  const struct tt_fusion_plan *fusion = &engine->used->fusion;
  double most_us = iteration_us > known->model.backward_us ? iteration_us : known->model.backward_us;
  double within_us = ORDER_PART * most_us, latest_us = -1;
  for (int i = 0; i < fusion->ntensors; i++) {
    double *ready_us = &known->facts[fusion->order[i]].ready_us;
    if (*ready_us <= latest_us && *ready_us > latest_us - within_us) *ready_us = latest_us + 0.001;
    if (*ready_us > latest_us) latest_us = *ready_us;
  }
  if (known->model.backward_us < latest_us) known->model.backward_us = latest_us;
}

tuttiResult_t tt_fusion_plans_renew(struct tuttiFusion *fusion, double iteration_us)
{
  int may_try = fusion->config.policy.kind == TT_POLICY_AUTO && fusion->shared.planned.is_measured;
  order_keep(&fusion->engine, iteration_us);
  return may_try ? auto_use(fusion, iteration_us) : policy_use(fusion, &fusion->config.policy);
}

/* The lengths of tensors as they travel. */
static void lengths_take(const struct config *config, struct known *known)
{
  for (int i = 0; i < config->n; i++) {
    const struct tensor *tensor = &config->tensors[i];
    uint64_t units = (tensor->count + tensor->unit - 1) / tensor->unit;
    known->facts[i].count = units;
    known->facts[i].bytes = units * tensor->wire_unit;
    known->facts[i].type = tensor->type | (tensor->is_coded ? CODED_TYPE : 0) | (tensor->has_codec ? CODEC_TYPE : 0);
    known->facts[i].grain = (uint32_t)tensor->unit;
  }
}

/* The policy while only sizes are known. */
static struct tt_policy policy_first(const struct config *config)
{
  if (config->policy.kind != TT_POLICY_AUTO) return config->policy;
  return (struct tt_policy){.kind = TT_POLICY_THRESHOLD, .bytes = (uint64_t)25 << 20, .first_bytes = 1 << 20};
}

/* Plans for a backward pass from the last layer to the first, a microsecond each: only that order counts. */
tuttiResult_t tt_fusion_plans_first(struct tuttiFusion *fusion)
{
  const struct config *config = &fusion->config;
  struct known *known = &fusion->engine.known;
  const struct tt_policy policy = policy_first(config);
  for (int i = 0; i < config->n; i++) known->facts[i] = (struct tt_tensor){.ready_us = config->n - 1 - i};
  lengths_take(config, known);
  known->model = (struct tt_model){.n = config->n, .tensors = known->facts, .backward_us = config->n - 1};
  return policy_use(fusion, &policy);
}

tuttiResult_t tt_fusion_plans_again(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  const struct tt_policy policy = engine->agreements ? fusion->config.policy : policy_first(&fusion->config);
  struct plan *made = NULL;
  tt_fusion_plans_hold(&engine->kept, NULL);
  tt_fusion_plans_hold(&engine->beaten, NULL);
  lengths_take(&fusion->config, &engine->known);
  tuttiResult_t result = plan_make(fusion, &policy, &made);
  if (result == tuttiSuccess) result = plan_use(fusion, made);
  tt_fusion_plans_hold(&made, NULL);
  pthread_mutex_lock(&fusion->shared.mutex);
  fusion->shared.planned.step = engine->step;
  pthread_mutex_unlock(&fusion->shared.mutex);
  tt_trial_forget(&engine->trial, engine->step - 1);
  engine->agree_step = tt_trial_next(&engine->trial, engine->step - 1);
  return result;
}

void tt_fusion_plans_free(struct tuttiFusion *fusion)
{
  struct engine *engine = &fusion->engine;
  tt_fusion_plans_hold(&engine->used, NULL);
  tt_fusion_plans_hold(&engine->kept, NULL);
  tt_fusion_plans_hold(&engine->beaten, NULL);
  progress_free(engine);
  tt_played_destroy(&fusion->shared.planned.expected);
  tt_free(fusion->shared.planned.sent);
}
