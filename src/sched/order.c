/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/step.h"

/* Sources in memory that are remembered for a step; if it has more, all are looked up. */
enum { FEW = 3 };

/* The places that one step touches, kept for the last TT_WINDOW steps. A word has bit n % 64 for each block, slot or
 * rank n of a set: sets whose words have no bit in common do not meet, and most pairs of steps need no longer look. */
struct touch {
  const struct tt_step *step;
  uint64_t writes_word, reads_word, to_word, from_word;
  struct tt_range write;
  struct tt_range reads[FEW];
  int nreads; /* sources in memory */
  int takes;  /* sources that are messages */
  int32_t from; /* the rank of the first message */
};

static uint64_t word_of(int32_t n)
{
  return 1ull << ((uint32_t)n % 64);
}

static uint64_t word_of_range(struct tt_range range, int32_t blocks)
{
  if (!range.len) return 0;
  int goes_round = range.place != TT_SCRATCH && range.len > blocks - range.start;
  if ((uint32_t)range.len >= 64 || goes_round) return ~0ull;
  uint64_t ones = (1ull << range.len) - 1;
  uint32_t by = (uint32_t)range.start % 64;
  return by ? ones << by | ones >> (64 - by) : ones;
}

static struct touch touch_of(const struct tt_schedule *schedule, int32_t i, int32_t blocks)
{
  const struct tt_step *step = &schedule->steps[i];
  struct touch touch = {.step = step, .write = tt_step_range(schedule, step, step->dst)};
  touch.writes_word = word_of_range(touch.write, blocks);
  for (int k = 0; k < step->nsrc; k++) {
    struct tt_operand source = schedule->operands[step->src + k];
    if (source.place == TT_MESSAGE) {
      if (touch.takes++ == 0) touch.from = source.at;
      touch.from_word |= word_of(source.at);
    } else {
      struct tt_range range = tt_step_range(schedule, step, source);
      touch.reads_word |= word_of_range(range, blocks);
      if (touch.nreads < FEW) touch.reads[touch.nreads] = range;
      touch.nreads++;
    }
  }
  for (int k = 0; k < step->nto; k++) touch.to_word |= word_of(schedule->peers[step->to + k]);
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
  if (!(a->to_word & b->to_word) && !(a->from_word & b->from_word)) return 0;
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

static int places_meet(const struct tt_schedule *schedule, const struct touch *a, const struct touch *b, int32_t blocks)
{
  if (!(a->writes_word & (b->writes_word | b->reads_word)) && !(a->reads_word & b->writes_word)) return 0;
  return tt_ranges_meet(a->write, b->write, blocks) || reads_meet(schedule, a, b->write, blocks) ||
         reads_meet(schedule, b, a->write, blocks);
}

void tt_order_derive(const struct tt_schedule *schedule, struct tt_order *order)
{
  struct touch recent[TT_WINDOW];
  int32_t blocks = tt_shape_blocks(&schedule->shape);
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    struct touch *now = &recent[i % TT_WINDOW];
    *now = touch_of(schedule, i, blocks);
    order[i] = (struct tt_order){0, 0};
    for (int32_t k = 0; k < TT_WINDOW - 1 && k < i; k++) {
      const struct touch *before = &recent[(i - 1 - k) % TT_WINDOW];
      if (places_meet(schedule, before, now, blocks)) order[i].finished |= 1ull << k;
      if (same_channel(schedule, before, now)) order[i].started |= 1ull << k;
    }
  }
}
