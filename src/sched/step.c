/* SPDX-License-Identifier: BSD-3-Clause */
#include "sched/step.h"

#include <stdarg.h>

struct tt_range tt_step_range(const struct tt_schedule *schedule, const struct tt_step *step,
                              struct tt_operand operand)
{
  enum tt_place place = operand.place;
  if (place == TT_NOWHERE || place == TT_MESSAGE) return (struct tt_range){TT_NOWHERE, 0, 0};
  if (place == TT_OUT && !tt_kinds[schedule->shape.collective].is_apart) place = TT_IN;
  return (struct tt_range){place, operand.at, step->nblocks};
}

__attribute__((format(printf, 2, 3))) static int refuse(char *reason, const char *format, ...)
{
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(reason, TT_REASON_BYTES, format, arguments);
  va_end(arguments);
  return 0;
}

static int scratch_check(const struct tt_step *step, struct tt_operand operand, const char *what, char *reason)
{
  int64_t end = (int64_t)operand.at + step->nblocks;
  if (operand.at < 0 || end > INT32_MAX)
    return refuse(reason, "%s lies at slots [%d,%lld)", what, (int)operand.at, (long long)end);
  return 1;
}

static int span_check(const struct tt_schedule *schedule, const struct tt_step *step,
                      struct tt_operand operand, const char *what, char *reason)
{
  const struct tt_shape *shape = &schedule->shape;
  const struct tt_kind *kind = &tt_kinds[shape->collective];
  int32_t start, end, blocks = tt_shape_blocks(shape);
  if (operand.place == TT_SCRATCH) return scratch_check(step, operand, what, reason);
  tt_cover_range(shape, operand.place == TT_IN ? kind->in : kind->out, &start, &end);
  int64_t last = (int64_t)operand.at + step->nblocks;
  int is_whole = start == 0 && end == blocks;
  if (operand.at < start || operand.at >= end || (!is_whole && last > end))
    return refuse(reason, "%s lies at [%d,%lld), outside of [%d,%d)", what, (int)operand.at, (long long)last,
                  (int)start, (int)end);
  if ((operand.at - step->first) % shape->nblocks)
    return refuse(reason, "%s is block %d, where the step is about block %d", what, (int)operand.at,
                  (int)step->first);
  return 1;
}

static int peer_check(const struct tt_schedule *schedule, int32_t peer, char *reason)
{
  if (peer < 0 || peer >= schedule->shape.nranks)
    return refuse(reason, "rank %d is none of the %d ranks", (int)peer, (int)schedule->shape.nranks);
  if (peer == schedule->shape.rank)
    return refuse(reason, "a message to or from itself: use a copy");
  return 1;
}

/* A source may be the destination but not merely overlap it, because the step runs in pieces. */
static int overlap_check(const struct tt_schedule *schedule, const struct tt_step *step,
                         struct tt_operand source, char *reason)
{
  struct tt_range from = tt_step_range(schedule, step, source);
  struct tt_range to = tt_step_range(schedule, step, step->dst);
  if (tt_ranges_meet(from, to, tt_shape_blocks(&schedule->shape)) && from.start != to.start)
    return refuse(reason, "the destination overlaps a source without being equal to it");
  return 1;
}

static int sources_check(const struct tt_schedule *schedule, const struct tt_step *step,
                         const struct tt_operand *sources, char *reason)
{
  int ins = 0;
  int32_t highest = -1; /* rank so far: ranks mostly ascend, and then none comes twice */
  for (int k = 0; k < step->nsrc; k++) {
    struct tt_operand source = sources[k];
    if (source.place == TT_IN && ins++) return refuse(reason, "two sources are IN");
    if (source.place < TT_IN || source.place > TT_MESSAGE)
      return refuse(reason, "source %d has no place", k);
    if (source.place != TT_MESSAGE) {
      if (!span_check(schedule, step, source, "a source", reason)) return 0;
      if (!overlap_check(schedule, step, source, reason)) return 0;
      continue;
    }
    if (!peer_check(schedule, source.at, reason)) return 0;
    for (int j = 0; j < k && source.at <= highest; j++)
      if (sources[j].place == TT_MESSAGE && sources[j].at == source.at)
        return refuse(reason, "two messages from rank %d in one step", (int)source.at);
    if (source.at > highest) highest = source.at;
  }
  return 1;
}

static int destinations_check(const struct tt_schedule *schedule, const struct tt_step *step,
                              const int32_t *peers, char *reason)
{
  struct tt_operand dst = step->dst;
  int32_t highest = -1;
  if (dst.place == TT_NOWHERE && step->nto == 0) return refuse(reason, "the result goes nowhere");
  if (dst.place == TT_IN || dst.place > TT_SCRATCH)
    return refuse(reason, "the destination is neither OUT nor SCRATCH");
  if (dst.place != TT_NOWHERE && !span_check(schedule, step, dst, "the destination", reason)) return 0;
  for (int k = 0; k < step->nto; k++) {
    if (!peer_check(schedule, peers[k], reason)) return 0;
    for (int j = 0; j < k && peers[k] <= highest; j++)
      if (peers[j] == peers[k]) return refuse(reason, "two messages to rank %d in one step", (int)peers[k]);
    if (peers[k] > highest) highest = peers[k];
  }
  return 1;
}

int tt_step_check(const struct tt_schedule *schedule, const struct tt_step *step,
                  const struct tt_operand *sources, const int32_t *peers, char *reason)
{
  int32_t blocks = tt_shape_blocks(&schedule->shape);
  if (step->first < 0 || step->first >= blocks || step->nblocks <= 0 || step->nblocks > blocks)
    return refuse(reason, "blocks [%d,%lld) are not among the %d blocks", (int)step->first,
                  (long long)step->first + step->nblocks, (int)blocks);
  if (step->nsrc < 1 || step->nsrc > TT_MAX_SOURCES)
    return refuse(reason, "%d sources: a step has 1 to %d", (int)step->nsrc, TT_MAX_SOURCES);
  if (step->nsrc > 1 && !tt_kinds[schedule->shape.collective].reduces)
    return refuse(reason, "combines %d sources in a collective that reduces nothing", (int)step->nsrc);
  return sources_check(schedule, step, sources, reason) &&
         destinations_check(schedule, step, peers, reason);
}

int32_t tt_step_slots(const struct tt_step *step, const struct tt_operand *sources)
{
  int32_t slots = step->dst.place == TT_SCRATCH ? step->dst.at + step->nblocks : 0;
  for (int k = 0; k < step->nsrc; k++)
    if (sources[k].place == TT_SCRATCH && sources[k].at + step->nblocks > slots)
      slots = sources[k].at + step->nblocks;
  return slots;
}
