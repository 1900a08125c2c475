/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans measured one after the other: the better one stays. A plan promises what it was played with; what messages cost
 * while everything else goes on, and how they overtake each other, is known by having done it. So a plan is tried: the
 * one before it is kept, and comes back if it was quicker. Tried are plans that promise more, the one that was beaten
 * last, and, where auto sends by priority, the best that is sent as it comes. As machines have slow phases, all these
 * are tried again and again, each time that changes nothing after four times as many steps, or as soon as the plan that
 * stays was slower at four agreements in a row. Pure: all ranks decide alike of what they agreed on. */
#ifndef TT_FUSION_TRIAL_H
#define TT_FUSION_TRIAL_H

#include <stdint.h>

#define TT_TRIAL_STEPS 10  /* of one plan, and of the one before it (less at first): the quickest of these count */
#define TT_TRIAL_GAIN 0.99 /* the part of the time before that is worth a change */

enum tt_try {
  TT_TRY_NOTHING,
  TT_TRY_PROMISED, /* the plan that is made of the present times and costs */
  TT_TRY_BEATEN,   /* the one that was in use before the one that is */
  TT_TRY_PLAIN,    /* the best one without priority */
  TT_TRIES
};

struct tt_trial { /* zeroed */
  enum tt_try what;    /* the plan in use is tried as that, and another one is kept */
  int has_failed;      /* the kept one has just come back */
  int tried[TT_TRIES]; /* these are not tried again before next_step */
  double us;           /* an iteration by the plan that stays, as it was measured; 0: not known */
  double slow_us;      /* the least of the last `nslow` agreements, in which it took longer */
  int nslow;
  double kept_us, kept_promise_us, promise_us, gain; /* of the trial */
  double doubt;        /* promises count as so many times longer, after one that was measured in vain; 0: as they are */
  int64_t promise_messages, doubt_messages; /* of the trial; doubt is of plans of at least half as many as
                                               the fewest of those that gave rise to it */
  uint64_t next_step, rest; /* when to try again; steps from the last decision to then */
};

/* What is known of plans at an agreement. */
struct tt_promises {
  double now_us;   /* an iteration by the plan that stays, played with the present times and costs */
  double new_us;   /* by the one that is made of these */
  int64_t messages; /* which it has */
  int is_simpler;  /* at most half as many as the plan that stays */
  int has_beaten;  /* there is one that can be used */
  int has_plain;   /* the plan that stays is by priority, and the one that was beaten is, too, or there is none */
};

enum tt_verdict {
  TT_NOT_TRIED, /* or not long enough to say: the plan in use stays, or stays on trial */
  TT_TRIED_WELL, /* the plan in use stays, and has beaten the kept one */
  TT_TRIED_IN_VAIN, /* the kept one stays */
};

/* First at an agreement at the end of `step`: an iteration takes us by the plan in use (0: not known). */
enum tt_verdict tt_trial_ends(struct tt_trial *trial, uint64_t step, double us);

/* After that: what is to be used from the next step on, if anything else; the plan that stays is to be kept then. */
enum tt_try tt_trial_begins(struct tt_trial *trial, uint64_t step, const struct tt_promises *promises);

/* Times have changed so much that what was measured says nothing any more. */
void tt_trial_forget(struct tt_trial *trial, uint64_t step);

/* The step at whose end ranks agree next, after an agreement at the end of `step`, 0 at first. */
uint64_t tt_trial_next(const struct tt_trial *trial, uint64_t step);

#endif
