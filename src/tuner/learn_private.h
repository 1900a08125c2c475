/* SPDX-License-Identifier: BSD-3-Clause */
/* The inside of the learner: the order of calls and decisions are learn.c, measurements of a rank learn_times.c. */
#ifndef TT_TUNER_LEARN_PRIVATE_H
#define TT_TUNER_LEARN_PRIVATE_H

#include "tuner/learn.h"

#define SKIP 2          /* calls behind a change of arm that do not count */
#define FEWEST 4        /* visits that decide, also whether times have changed */

/* Visits: calls that do not count, then groups of those that do. The mean of a group counts, and the median of several
 * groups. Differences to the incumbent are cut off at so many times its time, or at USUAL_MOST usual ones, so that no
 * few of them outweigh all others. */
enum tt_learn_stage { LOOK, LONG_LOOK, COARSE, FINE };
struct tt_learn_stage_rule {
  uint8_t skip, group, groups; /* calls, calls of a group, groups */
  float cut;
};
extern const struct tt_learn_stage_rule tt_learn_stages[];

enum tt_learn_fact {
  ARM,
  INCUMBENT,
  LEAST_INCUMBENT, /* negative, like all whose minimum is wanted */
  ERROR,
  VISITS,
  STEADY,
  EDGES,
  READY,
  EXCHANGE /* likewise: the last rank waits for none */
};

/* 1 if the next call is by the challenger. */
int tt_learn_is_visit(const struct tt_learn_agreed *agreed);

/* The next call, whose time counts, took so long. */
void tt_learn_sample(struct tt_learn *learn, float ns);

/* A visit is over; and so are the calls behind a change that do not count. */
void tt_learn_visit_end(struct tt_learn *learn);
void tt_learn_edge_end(struct tt_learn_local *local);

/* A challenger or a stage begins. */
void tt_learn_samples_forget(struct tt_learn_local *local);

#endif
