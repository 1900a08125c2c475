/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: what builder, order and verifier ask about one step. */
#ifndef TT_SCHED_STEP_H
#define TT_SCHED_STEP_H

#include "sched/sched.h"

#define TT_REASON_BYTES 256

/* A range of blocks or slots on one line: IN and OUT (one place, since a call may be
 * in place) are 0 .. nblocks - 1, SCRATCH follows. Empty where there is no memory. */
struct tt_range {
  int64_t start, end;
};

struct tt_range tt_step_range(const struct tt_schedule *schedule, const struct tt_step *step,
                              struct tt_operand operand);

static inline int tt_ranges_meet(struct tt_range a, struct tt_range b)
{
  return a.start < b.end && b.start < a.end;
}

/* What can be said about a step alone: 1 if it is well formed, else 0 and the reason
 * (TT_REASON_BYTES). */
int tt_step_check(const struct tt_schedule *schedule, const struct tt_step *step,
                  const struct tt_operand *sources, const int32_t *peers, char *reason);

/* Slots up to the end of the step's last scratch span. */
int32_t tt_step_slots(const struct tt_step *step, const struct tt_operand *sources);

#endif
