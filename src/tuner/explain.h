/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an algorithm is chosen, in words and numbers. Pure. */
#ifndef TT_EXPLAIN_H
#define TT_EXPLAIN_H

#include "base/call.h"
#include "tuner/rules.h"
#include "tuner/algo_filter.h"

/* The decision about a call, made at a communicator's creation. */
struct tt_decision {
  const struct tt_call *call;
  const struct tt_choice *choice;
  const struct tt_rules *rules; /* of TUTTI_TABLE; n is 0 where there is none */
};

struct tt_candidate {
  struct tt_choice choice;
  struct tt_predicted predicted;
};

/* A decision with all its candidates. */
struct tt_explained {
  const struct tt_call *call;
  int collective, wire_type;
  uint64_t bytes; /* of a share, as they travel */
  const struct tt_settings *settings;
  const struct tt_tuning *tuning; /* by which choices are made */
  struct tt_tuning tuned;         /* with the prices of the type: for predictions */
  struct tt_prices prices;
  struct tt_costs *costs;
  struct tt_filters filters;
  const struct tt_rules *rules;
  const struct tt_rule *rule; /* the one that decides; NULL: none does */
  struct tt_choice choice;
  struct tt_candidate candidates[TT_CHOICES + 1]; /* the cheapest first; one may be a rule's */
  int n;
};

/* Predicts all candidates. The decision's call and rules, the settings and the tuning outlive the object.
 * Errors: tuttiInvalidArgument: TUTTI_ALGO; tuttiSystemError: no memory. */
tuttiResult_t tt_explained_make(struct tt_explained **explained, const struct tt_decision *decision,
                                const struct tt_settings *settings, const struct tt_tuning *tuning);
void tt_explained_destroy(struct tt_explained *explained); /* NULL is allowed */

/* The candidate that is this choice, which must be one of them. */
const struct tt_candidate *tt_explained_candidate(const struct tt_explained *explained, const struct tt_choice *choice);

/* Writes why the choice was made, cut at size. */
void tt_explained_reason(const struct tt_explained *explained, char *text, size_t size);

/* Writes the time predicted for the choice in the tuning's kind of memory, why it was made, and the times of a few
 * others, the cheapest first: "ring in blocks of 128 KiB, predicted 31.2 us by prices of malloc memory, the cheapest;
 * others: circulant 33.1 us, direct 52 us", cut at size. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_explain_short(char *text, size_t size, const struct tt_decision *decision,
                               const struct tt_settings *settings, const struct tt_tuning *tuning);

#define TT_CHOICE_TEXT_BYTES 64

/* "hierarchical+ring/3"; returns text. */
const char *tt_choice_text(const struct tt_choice *choice, char text[TT_CHOICE_TEXT_BYTES]);

#endif
