/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/step.h"

/* What one step touches; kept for the last TT_WINDOW steps. */
struct touch {
  const struct tt_step *step;
  struct tt_range write;
  struct tt_range reads[TT_MAX_SOURCES];
};

static void touch_fill(struct touch *touch, const struct tt_schedule *schedule, int32_t i)
{
  const struct tt_step *step = &schedule->steps[i];
  touch->step = step;
  touch->write = tt_step_range(schedule, step, step->dst);
  for (int k = 0; k < step->nsrc; k++)
    touch->reads[k] = tt_step_range(schedule, step, schedule->operands[step->src + k]);
}

static int reads_meet(const struct touch *touch, struct tt_range write)
{
  for (int k = 0; k < touch->step->nsrc; k++)
    if (tt_ranges_meet(touch->reads[k], write)) return 1;
  return 0;
}

static int same_place(const struct touch *a, const struct touch *b)
{
  return tt_ranges_meet(a->write, b->write) || reads_meet(a, b->write) || reads_meet(b, a->write);
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
    touch_fill(now, schedule, i);
    order[i] = (struct tt_order){0, 0};
    for (int32_t k = 0; k < TT_WINDOW - 1 && k < i; k++) {
      const struct touch *before = &recent[(i - 1 - k) % TT_WINDOW];
      if (same_place(before, now)) order[i].finished |= 1ull << k;
      if (same_channel(schedule, before->step, now->step)) order[i].started |= 1ull << k;
    }
  }
}
