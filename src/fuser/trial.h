/* SPDX-License-Identifier: BSD-3-Clause */
/* Two plans measured beside each other. What is predicted of sending by priority leans on how messages overtake, and is
 * the least sure: where auto sends so, the best that is sent as it comes (the other) is tried, and the quicker one
 * stays. As machines have slow phases, the one that is not in use is tried again and again, each time that changes
 * nothing after four times as many steps. Pure: all ranks decide alike of what they agreed on. */
#ifndef TT_FUSER_TRIAL_H
#define TT_FUSER_TRIAL_H

#include <stdint.h>

#define TT_TRIAL_STEPS 10  /* of one plan, and of the one before it (less at first): the quickest of these count */
#define TT_TRIAL_GAIN 0.99 /* the part of the time before that is worth a change */

struct tt_trial { /* zeroed */
  int is_other;             /* which of the two is in use */
  int is_on;                /* it is tried */
  uint64_t next_step, rest; /* when one is tried again; steps from the last decision to then */
  double before_us;         /* an iteration as it was measured before the trial */
};

/* At an agreement at the end of `step`: an iteration takes iteration_us (0: not known), by a plan with priority or
 * without. 1: is_other has changed: that plan is to be used from the next step on, whatever it promises. */
int tt_trial_decide(struct tt_trial *trial, uint64_t step, double iteration_us, int by_priority);

/* The step at whose end ranks agree next, after an agreement at the end of `step`, 0 at first. */
uint64_t tt_trial_next(const struct tt_trial *trial, uint64_t step);

#endif
