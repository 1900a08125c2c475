/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules written by hand in tests: the text form of sched.h, without what can be counted. The first line is the
 * header without "schedule" and "steps", the others are steps without numbers:
 *   all_reduce ranks 2 rank 1 blocks 2 scratch 0
 *   send [0,1) in:0 -> rank 0 */
#ifndef SCHEDULE_TEXT_H
#define SCHEDULE_TEXT_H

#include "sched/sched.h"

/* Into a schedule that is initialised, or zero; fails the test if the text is wrong. */
void schedule_text_read(struct tt_schedule *schedule, const char *text);

/* The schedule in the full text form; to be given to free(). */
char *schedule_text_write(const struct tt_schedule *schedule);

/* A pass turns `before` into what `after` says, both as above. */
typedef void (*schedule_pass_fn)(struct tt_schedule *schedule, const void *argument);
void schedule_text_becomes(schedule_pass_fn pass, const void *argument, const char *before, const char *after);

#endif
