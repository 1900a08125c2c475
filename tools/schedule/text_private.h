/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules as text, both ways. */
#ifndef TT_SCHEDULE_TEXT_H
#define TT_SCHEDULE_TEXT_H

#include <stdio.h>

#include "sched/sched.h"

/* Writes the schedule as text, one step a line after a header line, e.g.
 *   schedule all_reduce ranks 2 rank 1 blocks 2 scratch 0 steps 4
 *     0  send    [0,1)  in:0 -> rank 0
 *     1  reduce  [1,2)  msg:0 + in:1 -> out:1
 *     2  send    [1,2)  out:1 -> rank 0
 *     3  recv    [0,1)  msg:0 -> out:0
 * root, radix and channel are shown where they are set. tt_schedule_parse reads the same text back; the initialised
 * (or zeroed) schedule gets the shape of the header, and keeps what it has if the text is wrong, which is
 * tuttiInvalidArgument naming line and reason. Printing what was parsed gives the same text. */
tuttiResult_t tt_schedule_print(const struct tt_schedule *schedule, FILE *out);
tuttiResult_t tt_schedule_parse(struct tt_schedule *schedule, FILE *in);

/* "send", "recv", "pass" (a message goes on), "copy" or "reduce". */
const char *tt_step_word(const struct tt_step *step, const struct tt_operand *sources);

#endif
