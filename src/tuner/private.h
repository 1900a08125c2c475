/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the time of choices at any size, and its calibration. */
#ifndef TT_TUNER_PRIVATE_H
#define TT_TUNER_PRIVATE_H

#include "tuner/tuner.h"

/* ---- stand_in.c: a cluster in place of another one -------------------------------------- */

/* Ranks with their order and groups, and the tuning that is theirs: with transports, cores and prices of that for which
 * they stand. It points into itself. */
struct tt_stand_in {
  struct tt_topology topology;
  struct tt_arrangement arrangement;
  struct tt_cluster cluster;
  struct tt_tuning tuning; /* no ranks: it was destroyed */
};

/* Every so manieth rank of each of the first nodes. Destroy it also after errors. Errors: tuttiSystemError: no
 * memory. */
tuttiResult_t tt_stand_in_some(struct tt_stand_in *stand_in, const struct tt_tuning *tuning, int32_t nnodes,
                               int32_t every);

/* So many ranks in blocks over nodes, as near each other as the nearest there. Likewise. */
tuttiResult_t tt_stand_in_blocks(struct tt_stand_in *stand_in, const struct tt_tuning *tuning, int32_t nranks,
                                 int32_t nnodes);
void tt_stand_in_destroy(struct tt_stand_in *stand_in);

/* ---- cost_curve.c: a choice at all sizes ---------------------------------------------- */

#define TT_COST_CURVE_SIZES 12

/* The time of one segment, by the bytes in a share of it; from this also that of many, whatever the length of
 * blocks. */
struct tt_cost_curve {
  const struct tt_tuning *tuning;
  int32_t nblocks;
  int32_t n;      /* sizes that were played */
  int is_of_some; /* 1: some ranks were played, for all would take too long */
  struct tt_cost_point {
    double bytes, us, busy_us;
  } at[TT_COST_CURVE_SIZES]; /* in ascending order */
};

/* For all sizes and all blocks up to block_bytes. tuning outlives the curve. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_cost_curve_make(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                 const struct tt_tuning *tuning, uint32_t block_bytes);

/* Only for operations of so many bytes in that block, but played exactly: 1 to TT_COST_CURVE_SIZES ascending sizes. */
tuttiResult_t tt_cost_curve_make_at(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                    const struct tt_tuning *tuning, uint32_t block_bytes, const uint64_t *bytes, int n);

/* The time of an operation with `bytes` in a share and blocks of block_bytes. More than 0. */
double tt_cost_curve_us(const struct tt_cost_curve *curve, uint32_t block_bytes, uint64_t bytes);

/* ---- calibration.c: measured over played times, by choice and size class ------------- */

/* The ratios of some choices of one collective, by the anchors of the prices' profile, or of the shipped one. An anchor
 * counts if the kind of memory (else malloc's) and the transport are the same, and the ranks are on one node or on
 * several, and oversubscribed (more than the cores they may use) or not, as here; of several numbers of ranks the
 * nearest counts. A choice without measurements has the median of the others' ratios, and far from the measured number
 * of ranks all ratios come near it. */
struct tt_calibration;

/* Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_calibration_make(struct tt_calibration **calibration, int collective,
                                  const struct tt_choice *choices, int n, const struct tt_tuning *tuning);
void tt_calibration_destroy(struct tt_calibration *calibration); /* NULL is allowed */

/* 1 if anchors of the tuning's kind of memory count for it, not those of malloc's in their place. */
int tt_calibration_has_memory(int collective, const struct tt_tuning *tuning);

/* Blocks other than its own with which this choice was measured in the cluster whose anchors count, into blocks[most];
 * how many. */
int tt_calibration_blocks(uint32_t *blocks, int most, const struct tt_choice *choice, const struct tt_tuning *tuning);

/* The ratio of a choice whose algorithm, middle and radix are among those given (else 1), whatever its block. lines:
 * those of the anchors between whose sizes it lies, 0: none. */
double tt_calibration_ratio(const struct tt_calibration *calibration, const struct tt_choice *choice, uint64_t bytes,
                            int32_t lines[2]);

/* The line of the prices' profile about floats of this size class in such a cluster and memory; NULL: there is none. */
const struct tt_profile_learnt *tt_calibration_learnt(int collective, uint64_t bytes, const struct tt_tuning *tuning);

/* 1 if this is the choice. */
int tt_calibration_is(const struct tt_profile_learnt *learnt, const struct tt_choice *choice);

/* ---- costs.c ---------------------------------------------------------------------------- */

#define TT_COSTS (TT_CHOICES + TT_TABLE_ROWS)

struct tt_costs {
  const struct tt_tuning *tuning;
  int n, ncandidates; /* the candidates are the first ones */
  struct tt_choice choices[TT_COSTS];
  int32_t nblocks[TT_COSTS]; /* of a segment */
  int curve_of[TT_COSTS];
  uint32_t longest[TT_COSTS];           /* block of the choices that share a curve */
  struct tt_cost_curve curves[TT_COSTS]; /* tuning is NULL: not made */
  struct tt_calibration *calibration;    /* NULL: not made */
};

/* Takes over what was played for the other kind of memory, with a tuning that is the same else and outlives both: plays
 * do not depend on it. Before the first price. */
void tt_costs_share(struct tt_costs *costs, const struct tt_costs *of);

#endif
