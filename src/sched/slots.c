/* SPDX-License-Identifier: BSD-3-Clause */
/* The shares that scratch slots hold. */
#include "sched/sched.h"

/* Returns 0 if one of the slots of the span holds another share already. */
static int span_note(const struct tt_schedule *schedule, const struct tt_step *step, struct tt_operand operand,
                     int32_t *share)
{
  int32_t nblocks = tt_shape_blocks(&schedule->shape);
  if (operand.place != TT_SCRATCH) return 1;
  for (int32_t x = 0; x < step->nblocks; x++) {
    int32_t *held = &share[operand.at + x], block = (int32_t)(((int64_t)step->first + x) % nblocks);
    if (*held >= 0 && *held != block) return 0;
    *held = block;
  }
  return 1;
}

int tt_slot_shares(const struct tt_schedule *schedule, int32_t *share)
{
  for (int32_t slot = 0; slot < schedule->nslots; slot++) share[slot] = -1;
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    if (!span_note(schedule, step, step->dst, share)) return 0;
    for (int32_t k = step->src; k < step->src + step->nsrc; k++)
      if (!span_note(schedule, step, schedule->operands[k], share)) return 0;
  }
  return 1;
}
