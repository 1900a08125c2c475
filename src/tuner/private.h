/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: what choices take at any size, and how anchors correct that. */
#ifndef TT_TUNER_PRIVATE_H
#define TT_TUNER_PRIVATE_H

#include "tuner/tuner.h"

/* ---- outline.c: what an algorithm claims, with prices by kind of link ---------------- */

/* What some ranks do, by what lies between them and their peers. */
struct tt_outline;

/* Errors: tuttiSystemError: no memory. What generate says. */
tuttiResult_t tt_outline_make(struct tt_outline **outline, const struct tt_choice *choice,
                              const struct tt_tuning *tuning);
void tt_outline_destroy(struct tt_outline *outline);

/* One segment with `bytes` in a share: how long it takes, and of that how long what is busiest is occupied. */
double tt_outline_us(const struct tt_outline *outline, const struct tt_prices *prices, double bytes, double *busy_us);

/* ---- course.c: a choice at all sizes ---------------------------------------------- */

#define TT_COURSE_SIZES 12

/* What one segment takes, by the bytes in a share of it; so also what many do, whatever the length of blocks. */
struct tt_course {
  const struct tt_tuning *tuning;
  int32_t nblocks;
  int32_t n; /* sizes that were played; 0: too much for that */
  struct tt_moment {
    double bytes, us, busy_us;
  } at[TT_COURSE_SIZES]; /* in ascending order */
  struct tt_outline *outline; /* n is 0 */
};

/* For all sizes and all blocks up to block_bytes. tuning outlives the course; destroy it also after errors. Errors:
 * tuttiSystemError: no memory. */
tuttiResult_t tt_course_make(struct tt_course *course, const struct tt_choice *choice, const struct tt_tuning *tuning,
                             uint32_t block_bytes);

/* Only for operations of so many bytes in that block, but played exactly: 1 to TT_COURSE_SIZES ascending sizes. */
tuttiResult_t tt_course_make_at(struct tt_course *course, const struct tt_choice *choice,
                                const struct tt_tuning *tuning, uint32_t block_bytes, const uint64_t *bytes, int n);
void tt_course_destroy(struct tt_course *course);

/* An operation with `bytes` in a share and blocks of block_bytes. More than 0. */
double tt_course_us(const struct tt_course *course, uint32_t block_bytes, uint64_t bytes);

#endif
