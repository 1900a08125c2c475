/* SPDX-License-Identifier: BSD-3-Clause */
/* The learner: which of a few algorithms is the quickest for the calls of one shape, by their measured times. Pure.
 *
 * A shape is all calls of a communicator that are alike for a choice: collective, wire type, size class, kind of
 * memory. Each rank has one learner for it and tells it the time of its calls, one after the other. The learner says by
 * which *arm* the next call goes: a candidate, of which arm 0 has the best price. Ranks agree because an arm depends on
 * nothing but the number of the call and on facts that all ranks have been told alike. They exchange these facts
 * between two calls whose number all know, in one all-reduce of TT_LEARN_FACTS numbers by the maximum.
 *
 * Agreed and local. `agreed` is equal on all ranks between the same two calls, and is computed with integers alone, so
 * compilers and processors that differ do no harm. `local` has the measurements of one rank; they may be lacking or
 * differ as they like, and only change the facts that the rank tells. A call without a time (0) is one that is not to
 * count, because the process did something else meanwhile; it has its place in the order of calls all the same.
 *
 * Times. Let cost be the time from the last rank's arrival to the end. A rank's time is the cost, plus its wait for
 * later ranks. In a loop of calls all ranks have the same period, so a slower arm adds as much to each rank's time,
 * however long that rank waits. Where ranks arrive together, the slowest rank counts. So the excess of an arm is
 * (max over ranks of its time - max of the incumbent's time) / (min over ranks of the incumbent's time).
 *
 * Ready. The first call by an arm needs a plan and connections, which may take longer than many calls. So each rank
 * makes arms ready meanwhile, in the order of their prices, and an arm is tried when that is done on all ranks.
 *
 * Groups. Ranks that wait for each other run ahead by turns, most of all where they share cores: of two or three calls
 * in a row one may take next to nothing on a rank, and the others as much longer, so that the median of single calls is
 * far from their mean, which is what a job pays. So calls count in groups of 6, which have a whole number of such
 * turns, by their mean; and of several groups by the median, as outliers are rare.
 *
 * 1. First, 60 calls: their time is taken, and nothing is tried.
 * 2. Race: one challenger after the other, in the order of their prices, then by increasing excess. One of which
 *    nothing is known is looked at in two calls first, then in four of which two count: if it is far slower, three
 *    times, it goes out; three more looks that find it near enough, and it is tried in *visits* of 8 calls, then of 20,
 *    among the incumbent's. Looks and visits have drawn places in equal slots, so that no rhythm of the caller falls on
 *    one of them. Two calls just behind a change of arm are not counted: caches and waits are those of the other arm. A
 *    visit is held beside as many calls of the incumbent just before it. At the end of each *period* ranks exchange
 *    mean and standard error of this challenger's visits. It goes out when it is not better by 2 %, and becomes the
 *    incumbent when it is better by 1 %, both by 4 standard errors, or more after few visits. An incumbent that has
 *    been a challenger and is beaten goes out, so races end. After 128 exchanges for one challenger, or 128 visits if
 *    they have taken half a second, the means decide.
 * 3. Settled: no more trials. Each 2,048 calls or more, and each 50 ms or more, ranks exchange the time of some. If
 *    that has changed by 5 %, twice running, the race begins again with all arms. If its result is the same arm, it
 *    takes twice as many calls until the next comparison, up to 32,768. The race begins again also if times change by a
 *    fifth while it goes on, at most twice.
 *
 * Budget. The cost of a trial is what the visits' calls take longer than the incumbent's, with all that the change of
 * arms costs; the clock, 0.2 us for a call that is timed, as two ranks may share a core; and the exchanges, whose time
 * is the minimum over ranks, as the others wait for the last one. In 1,000 calls it is at most 1 % of the incumbent's
 * time: 5 thousandths of a call are granted for each call, 1.5 calls may be spent at once, and what was spent is booked
 * by what has been measured; the rest is left for errors of that. If an arm is more than 4 times as slow as the
 * incumbent, a look at it costs more than the budget; so do, rarely, visits of an arm that a few calls have shown in
 * too good a light.
 *
 * Time. A period is 1,500 times as long as an exchange takes, but has at least 80 calls and at most 32,000. So calls of
 * milliseconds need no more of them than the budget demands, and short ones pay for few exchanges.
 *
 * Cheap. Few calls are told: in a race those near a visit, when it is settled 6 of 32 at most, 384 in 50 ms. For the
 * calls between tt_learn_quiet says that they need nothing, and tt_learn_skip that they have been made.
 *
 * Not noticed: an arm that becomes quicker while the settled one stays as it is. If the calls of an arm change after
 * 20 in a row, it is measured wrongly until it is the incumbent. The one before it then challenges it. This happens
 * where ranks share cores (docs/results/2026-11-24-cost-of-learning.md). Visits that are long enough are not held: they
 * are slow at first, and any 1,000 calls may pay no more than 10. */
#ifndef TT_LEARN_H
#define TT_LEARN_H

#include <stdint.h>

/* Choices of TUTTI_LEARN. A communicator has none but the last three in its settings. */
enum tt_learn_setting { TT_LEARN_CONFIG, TT_LEARN_OFF, TT_LEARN_ON, TT_LEARN_FREEZE };

#define TT_LEARN_ARMS 6
#define TT_LEARN_FACTS 9
#define TT_LEARN_GROUP 6 /* calls of which the mean is taken: divisible by 2 and by 3 */
#define TT_LEARN_GROUPS 3 /* of which the median is taken */

enum tt_learn_state { TT_LEARN_FIRST, TT_LEARN_RACE, TT_LEARN_SETTLED };

struct tt_learn_race {
  uint8_t challenger;
  uint8_t stage;    /* of the challenger: how long visits are (learn.c) */
  uint8_t looks;    /* single calls that were far too slow */
  uint8_t nears;    /* and those that were not */
  uint8_t visits;   /* in this period */
  uint16_t slot;    /* calls from the beginning of a slot to the next one */
  uint16_t begin;   /* where the visit begins in the present slot */
  uint16_t periods; /* that had visits of this challenger */
  uint16_t n;       /* visits on this stage */
  uint32_t waited;  /* calls until it was ready */
  int64_t tried_ns; /* since it has been ready */
  int32_t upper_ppm; /* excess that a visit will hardly pass */
  int32_t edge_ppm;  /* what a call next to a change of arms takes longer */
};

struct tt_learn_agreed {
  uint32_t at, calls; /* in this period: so far, and until the exchange */
  uint32_t periods;   /* so far */
  uint32_t rest;      /* calls of a period when it is settled, more if they are short */
  uint16_t since;     /* calls since the arm changed */
  uint8_t state, narms;
  uint8_t incumbent;  /* the quickest arm as far as is known */
  uint8_t before;     /* the incumbent when the trial began */
  uint8_t live;       /* bit by arm: not out */
  uint8_t known;      /* bit by arm: known_ppm is of this trial */
  uint8_t crowned;    /* bit by arm: it has won as a challenger */
  uint8_t ready;      /* that many arms, the first ones, are ready on all ranks */
  uint8_t moved;      /* exchanges running at which the incumbent's time was not the reference */
  uint8_t again;      /* how often this race began again */
  uint8_t is_steady;  /* the reference is of a settled period */
  int32_t known_ppm[TT_LEARN_ARMS]; /* excess over the incumbent, as last measured */
  int32_t credit;     /* what a trial may cost by now, in thousandths of a call's time */
  int64_t exchange_ns; /* time of an exchange */
  int64_t reference_ns; /* the incumbent's time; 0: not known */
  struct tt_learn_race race;
};

struct tt_learn_local {
  float means[TT_LEARN_GROUPS]; /* of groups that are not yet taken for a median */
  float group, edge; /* sums of the times of a group and of calls next to a change, so far */
  uint8_t ngroup, nedge, nmeans;
  uint8_t ready; /* likewise, here */
  float exchange; /* time of the last exchange */
  float spread;   /* usual difference */
  float last;     /* median of the incumbent before the visit */
  float usual;    /* of the incumbent, followed slowly: far more or less is not believed */
  float arm, incumbent, square; /* sums over n visits: medians, those of the incumbent, squares of their difference */
  uint32_t n;
  float edges;    /* sum of nedges medians */
  uint32_t nedges;
  float steady;   /* sum of nsteady medians of the incumbent in this period */
  uint32_t nsteady;
};

struct tt_learn {
  struct tt_learn_agreed agreed;
  struct tt_learn_local local;
};
_Static_assert(sizeof(struct tt_learn) <= 256, "a shape takes at most 256 bytes");

enum tt_learned { TT_LEARNED_NOTHING, TT_LEARNED_ANOTHER, TT_LEARNED_SETTLED, TT_LEARNED_DRIFT };

/* narms: 1 to TT_LEARN_ARMS. With one arm nothing is measured or exchanged. */
void tt_learn_init(struct tt_learn *learn, int narms);

/* The same for a job that takes over what another one has learnt: arm 0 is settled, and takes that long (0: not known).
 * If that differs by a fifth here, twice running, the trial begins as after a drift. */
void tt_learn_resume(struct tt_learn *learn, int narms, int64_t ns);

/* The arm of the next call. */
int tt_learn_arm(const struct tt_learn *learn);

/* 1 if the time of the next call is wanted. */
int tt_learn_is_timed(const struct tt_learn *learn);

/* The first arm that this rank has to make ready, -1: none; and that this is done. An arm is not tried before it is
 * ready on all ranks. */
int tt_learn_unready(const struct tt_learn *learn);
void tt_learn_ready(struct tt_learn *learn);

/* The next call is over and took so long here; 0: not known, or not to be counted. 1 if the ranks exchange facts before
 * the call after it. */
int tt_learn_step(struct tt_learn *learn, uint64_t ns);

/* How many of the next calls go by the same arm, need no time, and are not the last one before an exchange; and tells
 * the learner that so many of these are over. */
uint32_t tt_learn_quiet(const struct tt_learn *learn);
void tt_learn_skip(struct tt_learn *learn, uint32_t calls);

/* The exchange before the next call took so long here. */
void tt_learn_exchanged(struct tt_learn *learn, uint64_t ns);

/* The facts of this rank. */
void tt_learn_tell(const struct tt_learn *learn, int64_t facts[TT_LEARN_FACTS]);

/* Takes the maxima over all ranks. The result: nothing to tell, another arm is the incumbent, it is settled (whatever
 * the incumbent is now), or times have changed and all arms are tried again. */
enum tt_learned tt_learn_agree(struct tt_learn *learn, const int64_t told[TT_LEARN_FACTS]);

#endif
