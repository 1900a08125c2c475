/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines through measured points (fit.c). */
#ifndef TT_FIT_H
#define TT_FIT_H

#include "profile/profile.h"

/* Fits 1 to TT_CURVE_PARTS lines to the n points, all of one flow and in ascending order of their sizes, and writes
 * them as links (flow, from, to, alpha, beta, points, error; overhead 0, line 0) to links[TT_CURVE_PARTS]. *nlinks
 * says how many. Errors count relative to the time, so that short messages weigh as much as long ones; a few points
 * that are far off do not matter (Theil-Sen in each part); parts are as few as the data justify (break points by
 * dynamic programming, number by BIC). alpha and beta are not negative, and times do not fall from one part to the
 * next. n >= 1. Pure and without randomness. */
void tt_fit(struct tt_profile_link *links, int32_t *nlinks, const struct tt_profile_point *points, int32_t n);

#endif
