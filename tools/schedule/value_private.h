/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: what a block may hold during a proof.
 *
 * Ranks are numbered here in the order in which operands stand. A value is one rank's contribution, or an ordered
 * combination of values. Equal values have equal numbers, so two ranks with the same number hold the same expression
 * tree and therefore the same bits. 0 is "nothing was written here". */
#ifndef TT_SCHEDULE_VALUE_H
#define TT_SCHEDULE_VALUE_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

struct tt_values;

/* The contributions of ranks 0 .. nranks - 1 are there from the start. NULL: no memory. */
struct tt_values *tt_values_create(int32_t nranks);
void tt_values_destroy(struct tt_values *values);

int32_t tt_value_of_rank(int32_t rank);

/* How many contributions it holds, and the lowest rank among them. */
int32_t tt_value_count(const struct tt_values *values, int32_t value);
int32_t tt_value_lowest(const struct tt_values *values, int32_t value);

/* A hash of its expression tree: equal trees have equal hashes, in any proof. */
uint64_t tt_value_hash(const struct tt_values *values, int32_t value);

/* The lowest rank whose contribution it lacks. */
int32_t tt_value_lacks(const struct tt_values *values, int32_t value);

/* Writes the combination of nparts >= 2 values, first to last, to *combined. If rank
 * *twice is in two of them: tuttiInternalError. tuttiSystemError: no memory. */
tuttiResult_t tt_value_combine(struct tt_values *values, const int32_t *parts, int32_t nparts,
                               int32_t *combined, int32_t *twice);

#endif
