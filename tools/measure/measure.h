/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the machine that a communicator runs on. */
#ifndef TT_MEASURE_H
#define TT_MEASURE_H

#include "comm/comm.h"
#include "profile/profile.h"

#define TT_MEASURE_RANKS 4096 /* most; beyond it the map of all pairs is too large */

/* How it is measured. Set all to 0, then what matters. */
struct tt_measure_options {
  double seconds;  /* about how long one call may take; 0: 10 */
  double limit_s;  /* after so long nothing more is begun, but for kernels and an operation; 0: no limit */
  int no_inside, no_between, no_kernels, no_anchors; /* 1: leave these out: links between ranks of one host, links
                                                        between hosts, reduce kernels, algorithms */
  const char *command; /* that is noted in the profile, with date, version and load; NULL: none */
  int continues;       /* 1: this belongs to what the profile says was measured last; nothing more is noted */
  void (*progress)(void *context, double done, const char *what); /* on rank 0; done: 0 to 1; may be NULL */
  void (*keep)(void *context, const struct tt_profile *profile); /* on rank 0, whenever the profile has more; may be
                                                                    NULL */
  void *context;
};

/* Measures a machine into a profile. That is: the links between the ranks of a communicator, each kind by itself
 * (between hosts those of the interface that comm uses), by one pair and by several at once; the reduce kernels and
 * copies of rank 0's core; and each algorithm at a few sizes. Adds all that to rank 0's profile, in place of what that
 * says of the same flows, kernels and anchors; those of other ranks are not looked at. Collective: all ranks of comm
 * call it with equal options (seconds, limit_s, command, continues, progress, keep and context are rank 0's), and
 * nothing else on comm meanwhile. The choices of comm are the same before and after.
 *
 * Parts for which there is no time within limit_s are left out, and the profile says so in a line `missing`. The
 * profile that keep() gets says so, too, of parts that were not measured yet.
 *
 * comm is ready, and no group is open. After an error the profile may have some of the results.
 *
 * Errors: tuttiInvalidUsage: ranks leave out different parts, comm has more than TT_MEASURE_RANKS ranks, or the profile
 * is of another machine or kernel than rank 0's. tuttiSystemError: no memory. Those of a collective. */
tuttiResult_t tt_measure(struct tuttiComm *comm, const struct tt_measure_options *options,
                         struct tt_profile *profile);

/* Fills in the machine of a zeroed profile: this one. */
void tt_measure_machine(struct tt_profile *profile);

/* Adds a line about a measurement of now. */
tuttiResult_t tt_measure_note(struct tt_profile *profile, const char *command, double load);

#endif
