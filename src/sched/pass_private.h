/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the facts about a schedule that passes need before they rewrite it.
 *
 * Delaying a message may stop other ranks, whose schedules a pass does not see. So a message of step i is taken by a
 * later step j instead only if
 *  - no step between them takes a message, unless it goes into j too: messages are taken in the order of the program;
 *  - few other steps lie between them;
 *  - j waits, directly or not, for no send that i did not wait for: two ranks that exchange, each sending before it
 *    takes, would otherwise wait for each other. (The same holds for steps that wait until i has read its sources.)
 * Then j waits at most for messages that stand earlier in the program, and for sends that are far back. If a schedule
 * runs to its end when each rank takes its messages strictly in the order of its program, in half the window, it also
 * does when single messages are moved so, in a window that is larger by those few steps. If one step takes several
 * messages, all must be able to come, which the proofs of the rows of tt_algos show. */
#ifndef TT_SCHED_PASS_H
#define TT_SCHED_PASS_H

#include "sched/step.h"

/* A place is a block of IN, a block of OUT (the same where they may be the same memory) or a slot, all numbered on one
 * line. Steps that write or read are given by number; -1: none. */
struct tt_insight {
  const struct tt_schedule *schedule;
  int32_t blocks;
  size_t nplaces;
  int32_t *maker;    /* by operand: the step that wrote exactly the span that the operand reads; else -1 */
  int32_t *nreads;   /* by step: operands that read some of what it wrote */
  int32_t *reader;   /* by step: the last step with such an operand */
  uint8_t *is_exact; /* by step: all its readers read exactly the span that it wrote */
  int has_waits;     /* the next two are filled (on first use) */
  struct tt_order *order;
  uint64_t *waits;   /* by step: as in tt_order, but for all steps that it waits for, directly or not */
  int32_t *takes;    /* [nsteps + 1]: how many steps before each take messages */
  int32_t *sends;    /* [nsteps + 1]: how many steps before each send */
};

/* Analyses the schedule. 0: an error, which is in schedule->error; nothing is left to free then. */
int tt_insight_make(struct tt_insight *insight, struct tt_schedule *schedule);
void tt_insight_free(struct tt_insight *insight);

/* The x-th place of a range. */
static inline size_t tt_insight_place(const struct tt_insight *insight, struct tt_range range, int32_t x)
{
  size_t blocks = (size_t)insight->blocks, at = (size_t)range.start + (size_t)x;
  if (range.place == TT_SCRATCH) return 2 * blocks + at;
  if (at >= blocks) at -= blocks;
  return range.place == TT_OUT ? blocks + at : at;
}

static inline int tt_same_operand(struct tt_operand a, struct tt_operand b)
{
  return a.place == b.place && a.at == b.at;
}

/* True if the messages of step i, and the steps that wait for it, may wait for step j > i, by the last two rules above.
 * `others`: steps between them that do not go into j. */
int tt_insight_may_wait(struct tt_insight *insight, int32_t i, int32_t j, int32_t others);

/* Replaces the schedule by `made`, without slots that no step uses; an error of `made` is passed on. */
void tt_pass_replace(struct tt_schedule *schedule, struct tt_schedule *made);

#endif
