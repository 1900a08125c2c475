/* SPDX-License-Identifier: BSD-3-Clause */
/* The algorithms: one file each, one row for each collective and name in table.c. Pure generators.
 *
 * A generator writes plain steps: one reduction or one message a step. A message is received where it is needed, or
 * taken by the reduction that needs it. Merging, fusing, channels and the order of the ranks on the wire are passes
 * (sched.h). */
#ifndef TT_ALGOS_H
#define TT_ALGOS_H

#include "sched/sched.h"

#define TT_RADIX_RANKS INT32_MAX /* radix: as many as there are ranks */

struct tt_algo {
  const char *name;     /* for --algo and TUTTI_ALGO */
  int collective;       /* enum tt_collective */
  int32_t radix;        /* the shape->radix that this name fixes; 0: none */
  uint8_t has_radix;    /* the algorithm uses shape->radix */
  uint8_t has_middle;   /* the algorithm uses shape->middle */
  uint8_t has_one_tree; /* every element is combined by one tree, the same for all rows of the collective with this
                           flag: legal where the bits must not depend on size or place */
  /* Appends the steps of shape->rank to the empty schedule. */
  void (*generate)(struct tt_schedule *schedule, const struct tt_shape *shape);
  /* The cost that the file's head claims for shape->rank; a test checks it exactly, without passes. */
  void (*claim)(const struct tt_shape *shape, struct tt_cost *cost);
  /* The best number of blocks of a share for this number of ranks. */
  int32_t (*blocks)(const struct tt_shape *shape);
  /* The number of ranks that are left after the others have folded, that is, given them their vectors. NULL function:
   * none fold. */
  int32_t (*folded)(const struct tt_shape *shape);
  /* Returns NULL if the shape is legal, else the reason why not. NULL function: always legal. */
  const char *(*illegal)(const struct tt_shape *shape);
};

extern const struct tt_algo tt_algos[];
extern const int tt_algo_count;

/* The row of that name (as tt_same_name compares) and collective, or NULL. */
const struct tt_algo *tt_algo_find(int collective, const char *name);

/* Sets the fields that the row fixes: collective, radix, nblocks. The caller has set shape->nranks, rank, root, radix,
 * middle and groups. */
void tt_algo_shape(const struct tt_algo *algo, struct tt_shape *shape);

/* Writes the schedule that communicators run, and that is priced and proved, into the empty schedule: generated, then
 * merged and fused. Ranks have the numbers of the wire. deterministic: nothing is merged, because a merged step rounds
 * at other places. Errors: schedule->error. */
void tt_algo_schedule(const struct tt_algo *algo, struct tt_schedule *schedule, const struct tt_shape *shape,
                      int deterministic);

#endif
