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

#endif
