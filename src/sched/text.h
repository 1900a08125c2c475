/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the words that print.c writes and parse.c reads. */
#ifndef TT_SCHED_TEXT_H
#define TT_SCHED_TEXT_H

#include "sched/sched.h"

/* "send", "recv", "pass" (a message goes on), "copy" or "reduce". */
const char *tt_step_word(const struct tt_step *step, const struct tt_operand *sources);

#endif
