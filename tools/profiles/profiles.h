/* SPDX-License-Identifier: BSD-3-Clause */
/* Profiles written, shown and checked (tutti tune, tutti profile). */
#ifndef TT_TOOLS_PROFILE_H
#define TT_TOOLS_PROFILE_H

#include <stdio.h>

#include "profile/profile.h"

/* Writes it in one form, sorted, with comments that explain the lines: reading that gives an equal profile, and
 * printing that the same text. (Double quotes in texts become single ones, and control characters '?'.)
 * Errors: tuttiSystemError: it cannot be written, or no memory. */
tuttiResult_t tt_profile_print(const struct tt_profile *profile, FILE *out);

/* Writes tables in which a person finds the numbers: latency, GB/s and error of each flow, GB/s of the kernels, how
 * many anchors each algorithm has. Errors: as tt_profile_print. */
tuttiResult_t tt_profile_show(const struct tt_profile *profile, FILE *out);

/* Writes the line a + b m of each algorithm, with its errors, for every number of ranks and place in which it was
 * measured with three sizes or more. Errors: as tt_profile_print. */
tuttiResult_t tt_profile_allreduce_show(const struct tt_profile *profile, FILE *out);

/* Writes what is in the cache of this host, with the days on which it was measured: corrections of links, and choices
 * that jobs have learnt. Errors: tuttiInvalidUsage: there is no cache; as tt_profile_print. */
tuttiResult_t tt_profile_cache_show(const struct tt_settings *settings, FILE *out);

/* Adds to an empty profile the built-in one, with its links corrected by the cache of this host, and the choices that
 * jobs have learnt and the cache keeps; of several for one shape the newest. Errors: tuttiInvalidUsage: nothing in the
 * cache counts here. tuttiSystemError: no memory. */
tuttiResult_t tt_profile_from_cache(struct tt_profile *profile, const struct tt_settings *settings);

/* Writes a sentence to `out`, "FILE, 9 lines from 12 to 20: ...", or if is_verbose one for each line, about algorithms
 * and transports that are not there, and how many such lines there were to *n. Errors: tuttiSystemError: it cannot be
 * written. */
tuttiResult_t tt_profile_check(const struct tt_profile *profile, int is_verbose, FILE *out, int *n);

#endif
