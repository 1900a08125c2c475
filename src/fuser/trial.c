/* SPDX-License-Identifier: BSD-3-Clause */
#include "fuser/trial.h"

#define AGREES_EVERY 50
#define RESTS_MOST 800

int tt_trial_decide(struct tt_trial *trial, uint64_t step, double iteration_us, int by_priority)
{
  if (iteration_us <= 0) return 0;
  int stays = trial->is_on && iteration_us < TT_TRIAL_GAIN * trial->before_us;
  if (trial->is_on) {
    trial->rest = stays || !trial->rest ? TT_TRIAL_STEPS : 4 * trial->rest;
    if (trial->rest > RESTS_MOST) trial->rest = RESTS_MOST;
    trial->next_step = step + trial->rest;
  } else if (step < trial->next_step || !(trial->is_other || by_priority)) {
    return 0;
  }
  trial->before_us = iteration_us;
  trial->is_on = !trial->is_on;
  if (stays) return 0;
  trial->is_other = !trial->is_other;
  return 1;
}

uint64_t tt_trial_next(const struct tt_trial *trial, uint64_t step)
{
  if (step < 6) return step + 3;
  if (step < 20) return step < 10 ? 10 : 20;
  return trial->is_on ? step + TT_TRIAL_STEPS : (step / AGREES_EVERY + 1) * AGREES_EVERY;
}
