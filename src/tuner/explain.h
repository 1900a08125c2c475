/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an algorithm is chosen, in words and numbers. Pure. */
#ifndef TT_EXPLAIN_H
#define TT_EXPLAIN_H

#include <stdio.h>

#include "tuner/tuner.h"

/* Prints the choice for a share of `bytes`, every algorithm with its predicted time and of what that consists, or why
 * it was not to be chosen, from where prices came, where the choice changes, and for all-reduce where ring and
 * hierarchical cost the same. Errors: as tt_table_make; tuttiSystemError: it cannot be written. */
tuttiResult_t tt_explain_print(FILE *out, int collective, uint64_t bytes, const struct tt_settings *settings,
                               const struct tt_tuning *tuning);

/* Writes the time predicted for `choice` and those of a few others, the cheapest first: "ring, predicted 31.2 us;
 * others: circulant 33.1 us, direct 52 us", cut at size. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_explain_short(char *text, size_t size, const struct tt_choice *choice, uint64_t bytes,
                               const struct tt_settings *settings, const struct tt_tuning *tuning);

#endif
