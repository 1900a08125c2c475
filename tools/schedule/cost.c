/* SPDX-License-Identifier: BSD-3-Clause */
#include "schedule/proof_private.h"

void tt_schedule_cost(const struct tt_schedule *schedule, struct tt_cost *cost)
{
  struct tt_cost sum = {.slots = schedule->nslots};
  for (int32_t i = 0; i < schedule->nsteps; i++) {
    const struct tt_step *step = &schedule->steps[i];
    sum.messages += step->nto;
    sum.blocks += (int64_t)step->nto * step->nblocks;
    sum.reductions += (int64_t)(step->nsrc - 1) * step->nblocks;
  }
  *cost = sum;
}
