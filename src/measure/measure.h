/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the machine that a communicator runs on. */
#ifndef TT_MEASURE_H
#define TT_MEASURE_H

#include "comm/comm.h"
#include "tuner/profile.h"
#include "tutti_tools.h"

#define TT_MEASURE_RANKS 4096 /* most; beyond it the map of all pairs is too large */

/* tuttiTune on arguments that are checked; profile is looked at on rank 0 only. comm is ready; its table is as before
 * when this returns. After an error the profile may have some of the results. Errors: as tuttiTune. */
tuttiResult_t tt_measure(struct tuttiComm *comm, const tuttiTuneOptions_t *options, struct tt_profile *profile);

#endif
