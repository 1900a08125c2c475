/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the ranks of a test meet between communicators: a barrier and fresh unique ids, in memory that all
 * processes (or threads) of the test share. */
#ifndef MEETING_H
#define MEETING_H

#include <stdatomic.h>

#include "tutti.h"

#define MEETING_LIMIT_S 60

struct meeting {
  long members;
  _Atomic long arrived;
  _Atomic int broken;
  tuttiUniqueId id;
};

/* In fresh shared memory; NULL if there is none. */
struct meeting *meeting_make(int members);
void meeting_free(struct meeting *meeting);

/* All members have come here: 1; 0 if one has not within MEETING_LIMIT_S (for all calls from then on). */
int meeting_wait(struct meeting *meeting);

/* One member makes an id (`makes`), all get it. 0 as above, or if there was no id. */
int meeting_id(struct meeting *meeting, int makes, tuttiUniqueId *id);

/* A count in shared memory has come to n: 1; 0 if it has not within MEETING_LIMIT_S. */
int meeting_await(const _Atomic int *count, int n);

/* CLOCK_MONOTONIC, the same for all processes. */
long meeting_now_ms(void);
long meeting_now_us(void);

#endif
