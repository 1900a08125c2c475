/* SPDX-License-Identifier: BSD-3-Clause */
/* What may be chosen, for those who also tell of what may not. Pure. */
#ifndef TT_CHOICE_H
#define TT_CHOICE_H

#include "tuner/tuner.h"
#include "tuner/wish.h"

/* NULL if the choice is legal for these ranks and settings, else why not. */
const char *tt_choice_illegal(const struct tt_choice *choice, const struct tt_settings *settings,
                              const struct tt_tuning *tuning);

/* The longest block sent at once, where nothing else is said. */
uint32_t tt_choice_block(int collective, const struct tt_settings *settings, const struct tt_tuning *tuning);

/* Radices beside an algorithm's own that are tried where nobody has set one, ascending; of these the first so many for
 * this choice: not as many as there are ranks, nor 2, which are rows of their own. */
extern const uint16_t tt_choice_radix[];
int tt_choice_radices(const struct tt_choice *choice, int32_t nranks);

#endif
