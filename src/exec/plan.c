/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "exec/private.h"

static int32_t link_find(struct tt_plan *plan, int32_t peer, int32_t channel)
{
  for (int32_t i = 0; i < plan->nlinks; i++)
    if (plan->links[i].peer == peer && plan->links[i].channel == channel) return i;
  plan->links[plan->nlinks] = (struct plan_link){peer, channel};
  if (channel >= plan->nchannels) plan->nchannels = channel + 1;
  return plan->nlinks++;
}

/* True if the step either stores its result, or sends one span as it lies. */
static int can_run(const struct tt_schedule *schedule, const struct tt_step *step)
{
  if (step->nto == 0) return 1;
  return step->dst.place == TT_NOWHERE && step->nsrc == 1 && schedule->operands[step->src].place != TT_MESSAGE;
}

static tuttiResult_t number_links(struct tt_plan *plan)
{
  const struct tt_schedule *schedule = &plan->schedule;
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    if (!can_run(schedule, step))
      return tt_fail(tuttiInternalError, "step %d sends what it makes: this executor sends only what lies in one place",
                     i);
    for (int32_t k = step->src; k < step->src + step->nsrc; k++)
      if (schedule->operands[k].place == TT_MESSAGE)
        plan->source_link[k] = link_find(plan, schedule->operands[k].at, step->channel);
    for (int32_t k = step->to; k < step->to + step->nto; k++)
      plan->peer_link[k] = link_find(plan, schedule->peers[k], step->channel);
  }
  return tuttiSuccess;
}

static int goes_over(const struct tt_plan *plan, const struct tt_step *step, struct tt_operand operand)
{
  return (operand.place == TT_IN || operand.place == TT_OUT) && operand.at > plan->nblocks - step->nblocks;
}

/* Marks the plain steps: there is one share, and no span goes over the end, nor do the blocks that only give a step its
 * length. */
static void find_plain(struct tt_plan *plan)
{
  const struct tt_schedule *schedule = &plan->schedule;
  for (int32_t i = 0; i < schedule->nsteps && plan->nshares == 1; i++) {
    const struct tt_step *step = &schedule->steps[i];
    struct plan_step *more = &plan->steps[i];
    more->is_plain = step->first <= plan->nblocks - step->nblocks && !goes_over(plan, step, step->dst);
    for (int k = 0; k < step->nsrc; k++)
      if (goes_over(plan, step, schedule->operands[step->src + k])) more->is_plain = 0;
  }
}

static tuttiResult_t find_sources(struct tt_plan *plan)
{
  const struct tt_schedule *schedule = &plan->schedule;
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    struct plan_step *more = &plan->steps[i];
    more->own_source = -1;
    more->touches = step->dst.place == TT_OUT ? TOUCHES_OUT : 0;
    for (int k = 0; k < step->nsrc; k++) {
      uint8_t place = schedule->operands[step->src + k].place;
      if (place != TT_IN && place != TT_OUT) continue;
      if (more->own_source >= 0)
        return tt_fail(tuttiInternalError,
                       "step %d reads IN or OUT twice: this executor converts one source of a step at most", i);
      more->own_source = (int16_t)k;
      more->touches |= place == TT_IN ? TOUCHES_IN : TOUCHES_OUT;
    }
  }
  return tuttiSuccess;
}

/* Finds the parts of IN and OUT that exist. */
static void find_shares(struct tt_plan *plan)
{
  const struct tt_shape *shape = &plan->schedule.shape;
  const struct tt_kind *kind = &tt_kinds[shape->collective];
  int32_t start, end;
  plan->nblocks = tt_shape_blocks(shape);
  plan->nshares = plan->nblocks / shape->nblocks;
  tt_cover_range(shape, kind->in, &start, &end);
  plan->in_share = start / shape->nblocks;
  tt_cover_range(shape, kind->out, &start, &end);
  plan->out_share = start / shape->nblocks;
  plan->out_is_there = end > start;
}

/* Finds the shares that the slots hold. Returns 0 if there is no memory. */
static int find_slot_shares(struct tt_plan *plan)
{
  if (plan->nshares == 1 || plan->schedule.shape.nblocks != 1 || !plan->schedule.nslots) return 1;
  plan->slot_share = tt_alloc((size_t)plan->schedule.nslots, sizeof *plan->slot_share);
  if (!plan->slot_share) return 0;
  if (tt_slot_shares(&plan->schedule, plan->slot_share)) return 1;
  tt_free(plan->slot_share);
  plan->slot_share = NULL;
  return 1;
}

/* Chooses the steps with a shortcut: one span to one peer, or one message to a span. */
static void choose_actions(struct tt_plan *plan)
{
  const struct tt_schedule *schedule = &plan->schedule;
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    struct plan_step *more = &plan->steps[i];
    int takes = step->nsrc == 1 && plan->source_link[step->src] >= 0;
    if (takes && step->nto == 0) {
      more->action = ACTION_RECV;
      more->link = plan->source_link[step->src];
    } else if (!takes && step->nto == 1 && step->dst.place == TT_NOWHERE) {
      more->action = ACTION_SEND;
      more->link = plan->peer_link[step->to];
    }
  }
}

static tuttiResult_t order_steps(struct tt_plan *plan)
{
  struct tt_order *order = tt_alloc((size_t)plan->schedule.nsteps, sizeof *order);
  if (!order) return tt_fail(tuttiSystemError, "out of memory for a plan");
  tt_order_derive(&plan->schedule, order);
  /* Links take bytes for good, so "handed over" and "finished" are the same moment. */
  for (int32_t i = 0; i < plan->schedule.nsteps; i++) plan->steps[i].wait = order[i].finished | order[i].started;
  tt_free(order);
  return tuttiSuccess;
}

static int arrays_make(struct tt_plan *plan)
{
  size_t nsteps = (size_t)plan->schedule.nsteps, noperands = (size_t)plan->schedule.noperands;
  size_t npeers = (size_t)plan->schedule.npeers;
  plan->steps = tt_alloc(nsteps, sizeof *plan->steps);
  plan->source_link = tt_alloc(noperands + npeers, sizeof *plan->source_link);
  plan->links = tt_alloc(noperands + npeers, sizeof *plan->links);
  if (!plan->steps || !plan->source_link || !plan->links) return 0;
  plan->peer_link = plan->source_link + noperands;
  for (size_t k = 0; k < noperands; k++) plan->source_link[k] = -1;
  return 1;
}

tuttiResult_t tt_plan_create(struct tt_plan **out, struct tt_schedule *schedule)
{
  if (schedule->error != tuttiSuccess) return schedule->error;
  struct tt_plan *plan = tt_alloc(1, sizeof *plan);
  if (!plan) return tt_fail(tuttiSystemError, "out of memory for a plan");
  plan->schedule = *schedule;
  memset(schedule, 0, sizeof *schedule);
  plan->nchannels = 1;
  tuttiResult_t result = tuttiSuccess;
  if (!arrays_make(plan))
    result = tt_fail(tuttiSystemError, "out of memory for a plan of %d steps", plan->schedule.nsteps);
  if (result == tuttiSuccess) result = number_links(plan);
  if (result == tuttiSuccess) result = find_sources(plan);
  if (result == tuttiSuccess) result = order_steps(plan);
  if (result != tuttiSuccess) {
    tt_plan_destroy(plan);
    return result;
  }
  find_shares(plan);
  find_plain(plan);
  choose_actions(plan);
  if (!find_slot_shares(plan) || !tt_quick_make(plan)) {
    tt_plan_destroy(plan);
    return tt_fail(tuttiSystemError, "out of memory for a plan");
  }
  *out = plan;
  return tuttiSuccess;
}

tuttiResult_t tt_plan_prepare(struct tt_exec *exec, const struct tt_plan *plan, uint64_t bytes, size_t block_bytes)
{
  uint64_t segment = (uint64_t)plan->schedule.shape.nblocks * block_bytes, nsegments = (bytes + segment - 1) / segment;
  int lanes = exec->lanes / plan->nchannels, nlanes = nsegments < (uint64_t)lanes ? (int)nsegments : lanes;
  tuttiResult_t result = tuttiSuccess;
  for (int s = 0; s < nlanes; s++)
    for (int32_t l = 0; l < plan->nlinks && result == tuttiSuccess; l++)
      result = tt_exec_prepare(exec, plan->links[l].peer, s * plan->nchannels + plan->links[l].channel);
  return result;
}

void tt_plan_destroy(struct tt_plan *plan)
{
  if (!plan) return;
  tt_schedule_destroy(&plan->schedule);
  tt_quick_destroy(plan->quick);
  tt_free(plan->steps);
  tt_free(plan->source_link);
  tt_free(plan->slot_share);
  tt_free(plan->links);
  tt_free(plan);
}
