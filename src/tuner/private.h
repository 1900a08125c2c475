/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the time of choices at any size, and its correction by anchors. */
#ifndef TT_TUNER_PRIVATE_H
#define TT_TUNER_PRIVATE_H

#include "tuner/tuner.h"

/* ---- estimate.c: what an algorithm claims, with prices by kind of link ---------------- */

/* The work of some ranks, by the kinds of link to their peers. */
struct tt_estimate;

/* Errors: tuttiSystemError: no memory. Also the errors of generate. */
tuttiResult_t tt_estimate_make(struct tt_estimate **estimate, const struct tt_choice *choice,
                               const struct tt_tuning *tuning);
void tt_estimate_destroy(struct tt_estimate *estimate);

/* The time of one segment with `bytes` in a share. *busy_us: how long the busiest port or processor is occupied. */
double tt_estimate_us(const struct tt_estimate *estimate, const struct tt_prices *prices, double bytes,
                      double *busy_us);

/* ---- cost_curve.c: a choice at all sizes ---------------------------------------------- */

#define TT_COST_CURVE_SIZES 12

/* The time of one segment, by the bytes in a share of it; from this also that of many, whatever the length of
 * blocks. */
struct tt_cost_curve {
  const struct tt_tuning *tuning;
  int32_t nblocks;
  int32_t n; /* sizes that were played; 0: too much for that */
  struct tt_cost_point {
    double bytes, us, busy_us;
  } at[TT_COST_CURVE_SIZES]; /* in ascending order */
  struct tt_estimate *estimate; /* n is 0 */
};

/* For all sizes and all blocks up to block_bytes. tuning outlives the curve; destroy it also after errors. Errors:
 * tuttiSystemError: no memory. */
tuttiResult_t tt_cost_curve_make(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                 const struct tt_tuning *tuning, uint32_t block_bytes);

/* Only for operations of so many bytes in that block, but played exactly: 1 to TT_COST_CURVE_SIZES ascending sizes. */
tuttiResult_t tt_cost_curve_make_at(struct tt_cost_curve *curve, const struct tt_choice *choice,
                                    const struct tt_tuning *tuning, uint32_t block_bytes, const uint64_t *bytes, int n);
void tt_cost_curve_destroy(struct tt_cost_curve *curve);

/* The time of an operation with `bytes` in a share and blocks of block_bytes. More than 0. */
double tt_cost_curve_us(const struct tt_cost_curve *curve, uint32_t block_bytes, uint64_t bytes);

/* ---- factors.c: measured over played times --------------------------------------------- */

/* The factors of some choices of one collective, at the sizes of the anchors of the prices' profile, or of the shipped
 * one. An anchor counts if the transport is the same, and the ranks are on one node or on several, and oversubscribed
 * (more than the cores they may use) or not, as here; between two numbers of ranks factors are interpolated, also
 * between two sizes, both on logarithms. A choice without measurements has the median of the others' factors, and far
 * beyond the measured numbers of ranks all factors come near it. */
struct tt_factors;

/* Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_factors_make(struct tt_factors **factors, int collective, const struct tt_choice *choices, int n,
                              const struct tt_tuning *tuning);
void tt_factors_destroy(struct tt_factors *factors); /* NULL is allowed */

/* Blocks other than its own with which this choice was measured in the clusters whose anchors count, into blocks[most];
 * how many. */
int tt_factors_blocks(uint32_t *blocks, int most, const struct tt_choice *choice, const struct tt_tuning *tuning);

/* The factor of a choice whose algorithm, middle and radix are among those given (else 1), whatever its block. lines:
 * those of the anchors between whose sizes it lies, 0: none. factors may be NULL. */
double tt_factor(const struct tt_factors *factors, const struct tt_choice *choice, uint64_t bytes, int32_t lines[2]);

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
  struct tt_factors *factors;            /* NULL: not made */
};

#endif
