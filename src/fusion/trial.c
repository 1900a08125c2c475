/* SPDX-License-Identifier: BSD-3-Clause */
#include "fusion/trial_private.h"

/* docs/results/2026-11-23-constants-of-trials.md has what each of these costs, and what other values would. */
#define AGREES_FIRST 3
#define AGREES_EVERY 50
#define RESTS_GROW 4 /* times as many steps until the next try */
#define RESTS_MOST 800
#define AGES 1.01 /* factor of the known time at each agreement that is slower, as machines have slow phases */
#define SLOW_MOST 4 /* after this many slower agreements in a row the plan is slower: others may be faster now */

double tt_trial_us(const float *sorted, int n)
{
  return n ? (double)sorted[n / 4] : 0;
}

static void rests(struct tt_trial *trial, uint64_t step, uint64_t steps)
{
  trial->rest = steps < RESTS_MOST ? steps : RESTS_MOST;
  trial->next_step = step + trial->rest;
}

/* Takes a measurement of the plan that stays, which is not on trial. */
static void measured(struct tt_trial *trial, uint64_t step, double us)
{
  if (trial->us <= 0 || us <= AGES * trial->us) {
    trial->us = us;
    trial->nslow = 0;
    return;
  }
  if (trial->nslow == 0 || us < trial->slow_us) trial->slow_us = us;
  trial->us *= AGES;
  if (++trial->nslow < SLOW_MOST) return;
  if (trial->us < trial->slow_us) trial->us = trial->slow_us;
  trial->nslow = 0;
  if (trial->next_step > step) trial->next_step = step;
}

/* Many messages may cost more than is known of them, which says nothing about a plan of few. */
static void doubts(struct tt_trial *trial, double us)
{
  if (trial->doubt <= 0 || trial->promise_messages < trial->doubt_messages)
    trial->doubt_messages = trial->promise_messages;
  if (us > trial->doubt * trial->promise_us) trial->doubt = us / trial->promise_us;
}

enum tt_verdict tt_trial_ends(struct tt_trial *trial, uint64_t step, double us)
{
  enum tt_try what = trial->what;
  if (us <= 0) return TT_NOT_TRIED;
  if (what == TT_TRY_NOTHING) {
    measured(trial, step, us);
    return TT_NOT_TRIED;
  }
  trial->what = TT_TRY_NOTHING;
  trial->has_failed = us > trial->gain * trial->kept_us;
  trial->us = trial->has_failed ? trial->kept_us : us;
  if (trial->has_failed) {
    if (what == TT_TRY_PROMISED) doubts(trial, us);
    return TT_TRIED_IN_VAIN;
  }
  trial->nslow = 0;
  trial->doubt = what == TT_TRY_PROMISED ? 0 : trial->kept_us / trial->kept_promise_us;
  trial->doubt_messages = 0;
  rests(trial, step, TT_TRIAL_STEPS);
  return TT_TRIED_WELL;
}

/* Promises may be too long, for example if ranks wait for one that is later than they are. Then the promise of the plan
 * that stays is too long as well, and the two promises are compared, until the worth of one was measured. */
static enum tt_try chosen(const struct tt_trial *trial, const struct tt_promises *promises, int may_be_old)
{
  int is_doubted = trial->doubt > 0 && 2 * promises->messages >= trial->doubt_messages;
  double worth = is_doubted ? trial->doubt * promises->new_us : promises->new_us;
  double us = is_doubted || promises->now_us < trial->us ? trial->us : promises->now_us;
  if (promises->new_us < TT_TRIAL_GAIN * promises->now_us && worth < TT_TRIAL_GAIN * us) return TT_TRY_PROMISED;
  if (promises->is_simpler && promises->new_us <= promises->now_us && worth <= us) return TT_TRY_PROMISED;
  if (promises->has_beaten && may_be_old && !trial->tried[TT_TRY_BEATEN]) return TT_TRY_BEATEN;
  return promises->has_plain && may_be_old && !trial->tried[TT_TRY_PLAIN] ? TT_TRY_PLAIN : TT_TRY_NOTHING;
}

enum tt_try tt_trial_begins(struct tt_trial *trial, uint64_t step, const struct tt_promises *promises)
{
  int is_due = step >= trial->next_step, failed = trial->has_failed;
  trial->has_failed = 0;
  if (trial->what != TT_TRY_NOTHING || trial->us <= 0) return TT_TRY_NOTHING;
  if (is_due && !failed) {
    trial->doubt = 0;
    for (int k = 0; k < TT_TRIES; k++) trial->tried[k] = 0;
  }
  enum tt_try what = chosen(trial, promises, is_due || failed);
  if (what == TT_TRY_NOTHING) {
    if (failed) rests(trial, step, trial->rest ? RESTS_GROW * trial->rest : TT_TRIAL_STEPS);
    return what;
  }
  trial->what = what;
  trial->tried[what] = 1; /* not read for promised plans: doubt holds them back */
  trial->kept_us = trial->us;
  trial->kept_promise_us = promises->now_us;
  trial->promise_us = promises->new_us;
  trial->promise_messages = promises->messages;
  trial->gain = what == TT_TRY_PROMISED && promises->is_simpler ? 1 : TT_TRIAL_GAIN;
  return what;
}

void tt_trial_forget(struct tt_trial *trial, uint64_t step)
{
  *trial = (struct tt_trial){.next_step = step + TT_TRIAL_STEPS};
}

uint64_t tt_trial_next(const struct tt_trial *trial, uint64_t step)
{
  uint64_t most = trial->what ? TT_TRIAL_STEPS : AGREES_EVERY;
  if (!step) return AGREES_FIRST;
  return step + (step < most ? step : most);
}
