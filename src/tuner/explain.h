/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an algorithm is chosen, in words and numbers. Pure. */
#ifndef TT_EXPLAIN_H
#define TT_EXPLAIN_H

#include <stdio.h>

#include "base/call.h"
#include "tuner/rules.h"

/* Prints the choice for a call (of which collective, type, count and the wire type of its form count), every algorithm
 * with its predicted time and of what that consists, or why it was not to be chosen, from where prices came, where the
 * choice changes, and for all-reduce between nodes where ring and hierarchical cost the same. The prices are those for
 * float, by which choices are made; the times are of the call's type.
 * Errors: as tt_table_make; tuttiSystemError: it cannot be written. */
tuttiResult_t tt_explain_print(FILE *out, const struct tt_call *call, const struct tt_settings *settings,
                               const struct tt_tuning *tuning);

/* What was decided at a communicator's creation about a call. */
struct tt_decision {
  const struct tt_call *call;
  const struct tt_choice *choice;
  const struct tt_rules *rules; /* of TUTTI_TABLE; n is 0 where there is none */
};

/* Writes the time predicted for the choice, why it was made, and the times of a few others, the cheapest first: "ring,
 * predicted 31.2 us, the cheapest; others: circulant 33.1 us, direct 52 us", cut at size. Errors: tuttiSystemError: no
 * memory. */
tuttiResult_t tt_explain_short(char *text, size_t size, const struct tt_decision *decision,
                               const struct tt_settings *settings, const struct tt_tuning *tuning);

#define TT_CHOICE_TEXT_BYTES 64
#define TT_BYTES_TEXT_BYTES 24
#define TT_US_BYTES 24

/* "hierarchical+ring/3"; returns text. */
const char *tt_choice_text(const struct tt_choice *choice, char text[TT_CHOICE_TEXT_BYTES]);

/* "1 MiB", "1.41 KiB", "100 B"; returns text. */
const char *tt_bytes_text(uint64_t bytes, char text[TT_BYTES_TEXT_BYTES]);

/* A time for a person, in four digits: "0.525", "31.24", "1203"; returns text. */
const char *tt_us_text(double us, char text[TT_US_BYTES]);

#endif
