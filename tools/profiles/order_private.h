/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the order of lines and the form of numbers, as they are printed. */
#ifndef TT_PROFILE_ORDER_H
#define TT_PROFILE_ORDER_H

#include "profile/lines.h"

/* The lines of a word, sorted, for tt_free. NULL: no memory, as was said. */
const void **tt_profile_order(const struct tt_profile *profile, enum tt_profile_word word, int32_t *n);

/* "100", "2K", "3M"; "inf" for UINT64_MAX. `text` has room for TT_SIZE_TEXT. */
#define TT_SIZE_TEXT 24
const char *tt_size_text(uint64_t bytes, char *text);

/* Writes a short decimal number that reads back as `value`. */
void tt_number_print(double value, FILE *out);

#endif
