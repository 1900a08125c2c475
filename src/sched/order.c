/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/step.h"

/* What one step writes, kept for the last TT_WINDOW steps; what it reads is looked up. */
struct touch {
  const struct tt_step *step;
  struct tt_range write;
};

static int reads_meet(const struct tt_schedule *schedule, const struct tt_step *step, struct tt_range write)
{
  int32_t blocks = tt_shape_blocks(&schedule->shape);
  for (int k = 0; write.len && k < step->nsrc; k++) {
    struct tt_operand source = schedule->operands[step->src + k];
    if (source.place != TT_MESSAGE && tt_ranges_meet(tt_step_range(schedule, step, source), write, blocks)) return 1;
  }
  return 0;
}

static int same_place(const struct tt_schedule *schedule, const struct touch *a, const struct touch *b)
{
  return tt_ranges_meet(a->write, b->write, tt_shape_blocks(&schedule->shape)) ||
         reads_meet(schedule, a->step, b->write) || reads_meet(schedule, b->step, a->write);
}

static int sends_to(const struct tt_schedule *schedule, const struct tt_step *step, int32_t peer)
{
  for (int k = 0; k < step->nto; k++)
    if (schedule->peers[step->to + k] == peer) return 1;
  return 0;
}

static int takes_from(const struct tt_schedule *schedule, const struct tt_step *step, int32_t peer)
{
  for (int k = 0; k < step->nsrc; k++) {
    const struct tt_operand *source = &schedule->operands[step->src + k];
    if (source->place == TT_MESSAGE && source->at == peer) return 1;
  }
  return 0;
}

static int same_channel(const struct tt_schedule *schedule, const struct tt_step *a, const struct tt_step *b)
{
  if (a->channel != b->channel) return 0;
  for (int k = 0; k < b->nto; k++)
    if (sends_to(schedule, a, schedule->peers[b->to + k])) return 1;
  for (int k = 0; k < b->nsrc; k++) {
    const struct tt_operand *source = &schedule->operands[b->src + k];
    if (source->place == TT_MESSAGE && takes_from(schedule, a, source->at)) return 1;
  }
  return 0;
}

void tt_order_derive(const struct tt_schedule *schedule, struct tt_order *order)
{
  struct touch recent[TT_WINDOW];
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    struct touch *now = &recent[i % TT_WINDOW];
    now->step = &schedule->steps[i];
    now->write = tt_step_range(schedule, now->step, now->step->dst);
    order[i] = (struct tt_order){0, 0};
    for (int32_t k = 0; k < TT_WINDOW - 1 && k < i; k++) {
      const struct touch *before = &recent[(i - 1 - k) % TT_WINDOW];
      if (same_place(schedule, before, now)) order[i].finished |= 1ull << k;
      if (same_channel(schedule, before->step, now->step)) order[i].started |= 1ull << k;
    }
  }
}
