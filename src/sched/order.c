/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/step.h"

/* Sources in memory that are remembered for a step; if it has more, all are looked up. */
enum { FEW = 3 };

/* The places that one step touches, kept for the last TT_WINDOW steps. */
struct touch {
  const struct tt_step *step;
  struct tt_range write;
  struct tt_range reads[FEW];
  int nreads; /* sources in memory */
  int takes;  /* sources that are messages */
  int32_t from; /* the rank of the first message */
};

static struct touch touch_of(const struct tt_schedule *schedule, int32_t i)
{
  const struct tt_step *step = &schedule->steps[i];
  struct touch touch = {.step = step, .write = tt_step_range(schedule, step, step->dst)};
  for (int k = 0; k < step->nsrc; k++) {
    struct tt_operand source = schedule->operands[step->src + k];
    if (source.place == TT_MESSAGE) {
      if (touch.takes++ == 0) touch.from = source.at;
    } else {
      if (touch.nreads < FEW) touch.reads[touch.nreads] = tt_step_range(schedule, step, source);
      touch.nreads++;
    }
  }
  return touch;
}

/* Looks up all sources, one by one. */
static int sources_meet(const struct tt_schedule *schedule, const struct tt_step *step, struct tt_range write,
                        int32_t blocks)
{
  for (int k = 0; k < step->nsrc; k++)
    if (tt_ranges_meet(tt_step_range(schedule, step, schedule->operands[step->src + k]), write, blocks)) return 1;
  return 0;
}

static int reads_meet(const struct tt_schedule *schedule, const struct touch *touch, struct tt_range write,
                      int32_t blocks)
{
  if (!write.len) return 0;
  if (touch->nreads > FEW) return sources_meet(schedule, touch->step, write, blocks);
  for (int k = 0; k < touch->nreads; k++)
    if (tt_ranges_meet(touch->reads[k], write, blocks)) return 1;
  return 0;
}

static int sends_to(const struct tt_schedule *schedule, const struct tt_step *step, int32_t peer)
{
  for (int k = 0; k < step->nto; k++)
    if (schedule->peers[step->to + k] == peer) return 1;
  return 0;
}

static int takes_from(const struct tt_schedule *schedule, const struct touch *touch, int32_t peer)
{
  if (touch->takes <= 1) return touch->takes && touch->from == peer;
  for (int k = 0; k < touch->step->nsrc; k++) {
    const struct tt_operand *source = &schedule->operands[touch->step->src + k];
    if (source->place == TT_MESSAGE && source->at == peer) return 1;
  }
  return 0;
}

static int same_channel(const struct tt_schedule *schedule, const struct touch *a, const struct touch *b)
{
  if (a->step->channel != b->step->channel) return 0;
  for (int k = 0; a->step->nto && k < b->step->nto; k++)
    if (sends_to(schedule, a->step, schedule->peers[b->step->to + k])) return 1;
  if (!a->takes || !b->takes) return 0;
  if (b->takes == 1) return takes_from(schedule, a, b->from);
  for (int k = 0; k < b->step->nsrc; k++) {
    const struct tt_operand *source = &schedule->operands[b->step->src + k];
    if (source->place == TT_MESSAGE && takes_from(schedule, a, source->at)) return 1;
  }
  return 0;
}

void tt_order_derive(const struct tt_schedule *schedule, struct tt_order *order)
{
  struct touch recent[TT_WINDOW];
  int32_t blocks = tt_shape_blocks(&schedule->shape);
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    struct touch *now = &recent[i % TT_WINDOW];
    *now = touch_of(schedule, i);
    order[i] = (struct tt_order){0, 0};
    for (int32_t k = 0; k < TT_WINDOW - 1 && k < i; k++) {
      const struct touch *before = &recent[(i - 1 - k) % TT_WINDOW];
      if (tt_ranges_meet(before->write, now->write, blocks) || reads_meet(schedule, before, now->write, blocks) ||
          reads_meet(schedule, now, before->write, blocks))
        order[i].finished |= 1ull << k;
      if (same_channel(schedule, before, now)) order[i].started |= 1ull << k;
    }
  }
}
