/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive-and-reduce (or receive-and-copy) as one step. pass_private.h says when a message may be taken later. */
#include <string.h>

#include "sched/pass_private.h"

/* The operand by which step `reader` reads what the receive i wrote. */
static int32_t operand_of(const struct tt_insight *insight, int32_t i)
{
  const struct tt_step *reader = &insight->schedule->steps[insight->reader[i]];
  for (int32_t k = reader->src; k < reader->src + reader->nsrc; k++)
    if (insight->maker[k] == i) return k;
  return -1;
}

/* The step receives a message into scratch. */
static int is_receive(const struct tt_schedule *s, const struct tt_step *step)
{
  return step->nsrc == 1 && !step->nto && s->operands[step->src].place == TT_MESSAGE && step->dst.place == TT_SCRATCH;
}

static int has_receives(const struct tt_schedule *s)
{
  int32_t i = 0;
  while (i < s->nsteps && !is_receive(s, &s->steps[i])) i++;
  return i < s->nsteps;
}

/* The step receives a message into scratch, which only one operand of a step that keeps its result reads. */
static int is_candidate(const struct tt_insight *insight, int32_t i)
{
  const struct tt_schedule *s = insight->schedule;
  if (!is_receive(s, &s->steps[i])) return 0;
  return insight->nreads[i] == 1 && s->steps[insight->reader[i]].nto == 0;
}

/* The reader takes no other message from that rank, and none on another channel. */
static int can_take(const struct tt_schedule *s, const struct tt_step *reader, int32_t from, uint8_t channel)
{
  for (int32_t k = reader->src; k < reader->src + reader->nsrc; k++)
    if (s->operands[k].place == TT_MESSAGE && (s->operands[k].at == from || reader->channel != channel)) return 0;
  return 1;
}

/* Receive i becomes part of its reader if it can; `next` is the first step after it that takes a message. */
static int is_fused(struct tt_schedule *s, struct tt_insight *insight, int32_t i, int32_t next, int32_t *parts)
{
  if (!is_candidate(insight, i)) return 0;
  const struct tt_step *step = &s->steps[i];
  int32_t reader = insight->reader[i], operand = operand_of(insight, i), from = s->operands[step->src].at;
  if (operand < 0 || next < reader || !can_take(s, &s->steps[reader], from, step->channel)) return 0;
  if (!tt_insight_may_wait(insight, i, reader, reader - i - 1 - parts[reader])) return 0;
  s->operands[operand] = tt_message(from);
  s->steps[reader].channel = step->channel;
  parts[reader]++;
  return 1;
}

/* Goes from the last step to the first, so that the messages taken between a receive and its reader are decided before.
 * parts: by step, how many receives became part of it; -1: the step is such a receive. */
static void steps_fuse(struct tt_schedule *s, struct tt_insight *insight, int32_t *parts)
{
  int32_t next = s->nsteps;
  for (int32_t i = s->nsteps - 1; i >= 0; i--) {
    if (insight->takes[i + 1] == insight->takes[i]) continue;
    int is_part = is_fused(s, insight, i, next, parts);
    next = is_part ? insight->reader[i] : i;
    if (is_part) parts[i] = -1;
  }
}

void tt_pass_fuse(struct tt_schedule *schedule)
{
  struct tt_insight insight;
  struct tt_schedule made;
  if (!schedule->keep && !has_receives(schedule)) return;
  if (!tt_insight_make(&insight, schedule)) return;
  tt_schedule_init(&made, &schedule->shape);
  int32_t *parts = tt_alloc((size_t)schedule->nsteps, sizeof *parts);
  if (!parts) made.error = tt_fail(tuttiSystemError, "no memory for a pass: give the process more");
  if (parts) steps_fuse(schedule, &insight, parts);
  for (int32_t i = 0; parts && i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    if (parts[i] >= 0)
      tt_add(&made, step, schedule->operands + step->src, step->nto ? schedule->peers + step->to : NULL);
  }
  tt_free(parts);
  tt_insight_free(&insight);
  tt_pass_replace(schedule, &made);
}
