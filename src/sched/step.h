/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: facts about one step for builder, order and verifier. */
#ifndef TT_SCHED_STEP_H
#define TT_SCHED_STEP_H

#include "sched/sched.h"

#define TT_REASON_BYTES 256

/* A range of blocks or slots. IN and OUT are one place where they may be the same memory. len 0: no memory. */
struct tt_range {
  enum tt_place place;
  int32_t start, len; /* IN, OUT: goes on at 0 after the last block */
};

struct tt_range tt_step_range(const struct tt_schedule *schedule, const struct tt_step *step,
                              struct tt_operand operand);

static inline int tt_ranges_meet(struct tt_range a, struct tt_range b, int32_t blocks)
{
  if (a.place != b.place || !a.len || !b.len) return 0;
  int64_t behind = (int64_t)b.start - a.start;
  if (a.place == TT_SCRATCH) return behind < a.len && -behind < b.len;
  if (behind < 0) behind += blocks;
  return behind < a.len || (behind && blocks - behind < b.len);
}

/* Checks a step alone: 1 if it is well formed, else 0 and the reason (TT_REASON_BYTES). */
int tt_step_check(const struct tt_schedule *schedule, const struct tt_step *step,
                  const struct tt_operand *sources, const int32_t *peers, char *reason);

/* Slots up to the end of the step's last scratch span. */
int32_t tt_step_slots(const struct tt_step *step, const struct tt_operand *sources);

#endif
