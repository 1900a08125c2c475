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

#endif
