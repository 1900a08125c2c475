/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans are measured one after the other, and the better one stays. A plan promises the time of its play. The cost of
 * messages while everything else goes on, and the way they overtake each other, are known only when the messages have
 * been sent. So a plan is tried: the plan before it is kept, and comes back if it was faster. Three plans are tried:
 * one that promises more, the plan that was beaten last, and, if auto sends by priority, the best plan that sends
 * messages as they come. Machines have slow phases, so all these are tried again and again: after each trial that
 * changes nothing, the next one comes after four times as many steps, or as soon as the plan that stays was slower at
 * four agreements in a row. Pure: all ranks decide alike, from the numbers on which they agreed. */
#ifndef TT_FUSION_TRIAL_H
#define TT_FUSION_TRIAL_H

#include <stdint.h>

#define TT_TRIAL_STEPS 10  /* steps of a trial, and of the plan before it (fewer at first) */
#define TT_TRIAL_GAIN 0.99 /* a change is worth it below this part of the time before */

enum tt_try {
  TT_TRY_NOTHING,
  TT_TRY_PROMISED, /* the plan made from the present times and costs */
  TT_TRY_BEATEN,   /* the plan in use before the present one */
  TT_TRY_PLAIN,    /* the best plan without priority */
  TT_TRIES
};

struct tt_trial { /* zeroed */
  enum tt_try what;    /* the plan in use is tried as this, and another plan is kept */
  int has_failed;      /* 1: the kept plan has just come back */
  int tried[TT_TRIES]; /* 1: not tried again before next_step */
  double us;           /* measured time of an iteration by the plan that stays; 0: not known */
  double slow_us;      /* shortest time at the last `nslow` agreements, which were all slower */
  int nslow;
  double kept_us, kept_promise_us, promise_us, gain; /* of the trial */
  double doubt;        /* factor of promises, after one was tried in vain; 0: promises count as they are */
  int64_t promise_messages, doubt_messages; /* of the trial; doubt concerns plans with at least half as
                                               many as the fewest of those that caused it */
  uint64_t next_step, rest; /* the step of the next try; steps from the last decision until then */
};

/* The facts about plans at an agreement. */
struct tt_promises {
  double now_us;   /* an iteration by the plan that stays, played with the present times and costs */
  double new_us;   /* an iteration by the plan made from these */
  int64_t messages; /* of the new plan */
  int is_simpler;  /* 1: it has at most half as many messages as the plan that stays */
  int has_beaten;  /* 1: there is a beaten plan that can be used */
  int has_plain;   /* 1: the plan that stays is by priority, and so is the beaten one, or there is none */
};

enum tt_verdict {
  TT_NOT_TRIED, /* or not for long enough: the plan in use stays, or stays on trial */
  TT_TRIED_WELL, /* the plan in use stays: it has beaten the kept one */
  TT_TRIED_IN_VAIN, /* the kept plan stays */
};

/* Returns the time by which a plan is judged, of n iterations by it, the shortest first; 0: there are none. The
 * lower quartile counts: the median would follow slow phases of the machine, and the shortest is but the luckiest if
 * iterations vary. */
double tt_trial_us(const float *sorted, int n);

/* The first call at an agreement at the end of `step`. us: time of an iteration by the plan in use (0: not known). */
enum tt_verdict tt_trial_ends(struct tt_trial *trial, uint64_t step, double us);

/* The next call. Returns the kind of plan to try from the next step on; the plan that stays must be kept then. */
enum tt_try tt_trial_begins(struct tt_trial *trial, uint64_t step, const struct tt_promises *promises);

/* Forgets all measurements, because times have changed too much. */
void tt_trial_forget(struct tt_trial *trial, uint64_t step);

/* The step at whose end ranks agree next, after an agreement at the end of `step`, 0 at first: after as many steps
 * again, but soon in a trial, and not too late without one. */
uint64_t tt_trial_next(const struct tt_trial *trial, uint64_t step);

#endif
