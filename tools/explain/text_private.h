/* SPDX-License-Identifier: BSD-3-Clause */
/* A choice explained at length, in words and numbers. Pure. */
#ifndef TT_EXPLAIN_TEXT_H
#define TT_EXPLAIN_TEXT_H

#include <stdio.h>

#include "base/call.h"
#include "tuner/tuner.h"

/* Prints the choice for a call (of which collective, type, count and the wire type of its form count), every algorithm
 * with its predicted time and of what that consists, or why it was not to be chosen, from where prices came, where the
 * choice changes, and for all-reduce between nodes where ring and hierarchical cost the same. The prices are those for
 * float, by which choices are made; the times are of the call's type.
 * Errors: as tt_table_make; tuttiSystemError: it cannot be written. */
tuttiResult_t tt_explain_print(FILE *out, const struct tt_call *call, const struct tt_settings *settings,
                               const struct tt_tuning *tuning);

#endif
