/* SPDX-License-Identifier: BSD-3-Clause */
/* Receive-and-reduce (or receive-and-copy) as one step. pass.h says when a message may be taken later. */
#include <string.h>

#include "sched/pass.h"

/* The operand by which step `reader` reads what the receive i wrote. */
static int32_t operand_of(const struct tt_insight *insight, int32_t i)
{
  const struct tt_step *reader = &insight->schedule->steps[insight->reader[i]];
  for (int32_t k = reader->src; k < reader->src + reader->nsrc; k++)
    if (insight->maker[k] == i) return k;
  return -1;
}

/* A message into scratch, all of which one operand of a step that keeps its result reads, and nobody else. */
static int is_candidate(const struct tt_insight *insight, int32_t i)
{
  const struct tt_schedule *s = insight->schedule;
  const struct tt_step *step = &s->steps[i];
  if (step->nsrc != 1 || step->nto || s->operands[step->src].place != TT_MESSAGE || step->dst.place != TT_SCRATCH)
    return 0;
  return insight->nreads[i] == 1 && insight->is_exact[i] && s->steps[insight->reader[i]].nto == 0;
}

/* The reader takes no other message from that rank, and none on another channel. */
static int can_take(const struct tt_schedule *s, const struct tt_step *reader, int32_t from, uint8_t channel)
{
  for (int32_t k = reader->src; k < reader->src + reader->nsrc; k++)
    if (s->operands[k].place == TT_MESSAGE && (s->operands[k].at == from || reader->channel != channel)) return 0;
  return 1;
}

/* From the last step to the first, so that what is taken between a receive and its reader is decided before. */
static void steps_fuse(struct tt_schedule *s, struct tt_insight *insight, uint8_t *is_gone)
{
  int32_t next = s->nsteps; /* the first step behind i that takes a message, as things stand */
  for (int32_t i = s->nsteps - 1; i >= 0; i--) {
    const struct tt_step *step = &s->steps[i];
    int takes = insight->takes[i + 1] > insight->takes[i];
    if (takes && is_candidate(insight, i)) {
      int32_t reader = insight->reader[i], operand = operand_of(insight, i), from = s->operands[step->src].at;
      if (operand >= 0 && next >= reader && can_take(s, &s->steps[reader], from, step->channel) &&
          !tt_insight_waits_more(insight, i, reader)) {
        s->operands[operand] = tt_message(from);
        s->steps[reader].channel = step->channel;
        is_gone[i] = 1;
        takes = 0;
        next = reader;
      }
    }
    if (takes) next = i;
  }
}

void tt_pass_fuse(struct tt_schedule *schedule)
{
  struct tt_insight insight;
  struct tt_schedule made;
  if (!tt_insight_make(&insight, schedule)) return;
  tt_schedule_init(&made, &schedule->shape);
  uint8_t *is_gone = tt_alloc((size_t)schedule->nsteps, 1);
  if (!is_gone) made.error = tt_fail(tuttiSystemError, "no memory for a pass: give the process more");
  if (is_gone) steps_fuse(schedule, &insight, is_gone);
  for (int32_t i = 0; is_gone && i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    if (!is_gone[i]) tt_add(&made, step, schedule->operands + step->src, schedule->peers + step->to);
  }
  tt_free(is_gone);
  tt_insight_free(&insight);
  tt_pass_replace(schedule, &made);
}
