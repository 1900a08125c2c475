/* SPDX-License-Identifier: BSD-3-Clause */
/* Cuts every block into as many blocks as there are channels, and every step into as many steps: channel c has the c-th
 * run of the blocks of the span. So each step is on the wire on all channels at once, and a message becomes one message
 * a channel.
 *
 * One channel may read a place that another one wrote: the order derived from the places holds for all. A span of
 * scratch is packed, so its runs must be read as they were written: a schedule that reads a part of a span of scratch
 * cannot be cut. The window holds TT_WINDOW / nchannels steps of the old schedule. */
#include "sched/pass_private.h"

enum { CHANNELS_MAX = UINT8_MAX + 1 };

static struct tt_operand run_of(struct tt_operand operand, int64_t nchannels, int64_t offset, int64_t blocks)
{
  int64_t at = operand.at * nchannels + offset;
  if (operand.place == TT_NOWHERE || operand.place == TT_MESSAGE) return operand;
  return (struct tt_operand){operand.place, (int32_t)(operand.place == TT_SCRATCH ? at : at % blocks)};
}

/* Adds the run of step i that goes to a channel. */
static void run_add(struct tt_schedule *made, const struct tt_schedule *s, int32_t i, int32_t channel)
{
  const struct tt_step *old = &s->steps[i];
  struct tt_operand sources[TT_MAX_SOURCES];
  struct tt_step step = *old;
  int64_t nchannels = made->shape.nblocks / s->shape.nblocks, blocks = tt_shape_blocks(&made->shape);
  int64_t offset = (int64_t)channel * old->nblocks;
  for (int k = 0; k < old->nsrc; k++) sources[k] = run_of(s->operands[old->src + k], nchannels, offset, blocks);
  step.first = (int32_t)((old->first * nchannels + offset) % blocks);
  step.dst = run_of(old->dst, nchannels, offset, blocks);
  step.channel = (uint8_t)channel;
  tt_add(made, &step, sources, old->nto ? s->peers + old->to : NULL);
}

static tuttiResult_t numbers_check(const struct tt_schedule *s, int32_t nchannels)
{
  if (nchannels < 1 || nchannels > CHANNELS_MAX)
    return tt_fail(tuttiInternalError, "no schedule on %d channels: 1 to %d", (int)nchannels, CHANNELS_MAX);
  if ((int64_t)nchannels * tt_shape_blocks(&s->shape) > INT32_MAX || (int64_t)nchannels * s->nslots > INT32_MAX)
    return tt_fail(tuttiInternalError, "too many blocks for %d channels", (int)nchannels);
  return tuttiSuccess;
}

static tuttiResult_t steps_check(const struct tt_schedule *s, const struct tt_insight *insight)
{
  for (int32_t i = 0; i < s->nsteps; i++) {
    if (s->steps[i].channel)
      return tt_fail(tuttiInternalError, "step %d is on channel %d: it cannot be spread over channels", (int)i,
                     (int)s->steps[i].channel);
    if (s->steps[i].dst.place == TT_SCRATCH && !insight->is_exact[i])
      return tt_fail(tuttiInternalError, "what step %d keeps in scratch is read in part: it cannot be spread over "
                     "channels", (int)i);
  }
  return tuttiSuccess;
}

void tt_pass_channels(struct tt_schedule *schedule, int32_t nchannels)
{
  struct tt_insight insight;
  struct tt_schedule made;
  if (nchannels == 1 || schedule->error) return;
  schedule->error = numbers_check(schedule, nchannels); /* first, as the insight takes memory for every block */
  if (schedule->error || !tt_insight_make(&insight, schedule)) return;
  schedule->error = steps_check(schedule, &insight);
  tt_insight_free(&insight);
  if (schedule->error) return;
  struct tt_shape shape = schedule->shape;
  shape.nblocks *= nchannels;
  tt_schedule_init(&made, &shape);
  for (int32_t i = 0; i < schedule->nsteps; i++)
    for (int32_t channel = 0; channel < nchannels; channel++) run_add(&made, schedule, i, channel);
  tt_pass_replace(schedule, &made);
}
