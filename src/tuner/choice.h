/* SPDX-License-Identifier: BSD-3-Clause */
/* The candidates, for callers that also report illegal choices. Pure. */
#ifndef TT_CHOICE_H
#define TT_CHOICE_H

#include "tuner/tuner.h"
#include "tuner/algo_filter.h"

/* NULL if the choice is legal for these ranks and settings, else why not. */
const char *tt_choice_illegal(const struct tt_choice *choice, const struct tt_settings *settings,
                              const struct tt_tuning *tuning);

/* 1: the algorithm takes too long to price, so it is chosen only if TUTTI_ALGO names it. */
int tt_choice_slow(int algo, const struct tt_tuning *tuning);

/* 1 if both are the same schedule with so many ranks, as binary_blocks and halving_doubling are with a power of two:
 * the steps of at most DUPLICATE_RANKS ranks are compared. 0 also if there is no memory for it. */
int tt_choices_duplicate(const struct tt_choice *a, const struct tt_choice *b, const struct tt_tuning *tuning);
#define DUPLICATE_RANKS 16

/* The longest block sent at once by default. */
uint32_t tt_choice_block(int collective, const struct tt_settings *settings, const struct tt_tuning *tuning);

/* Radices other than an algorithm's own that are tried if none is set, ascending, and how many of them, from the first
 * on, suit this choice: neither 2 nor the number of ranks, which are rows of their own. */
extern const uint16_t tt_choice_radix[];
int tt_choice_radices(const struct tt_choice *choice, int32_t nranks);

#endif
