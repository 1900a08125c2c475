/* SPDX-License-Identifier: BSD-3-Clause */
#ifndef TT_EXPLAIN_ETA_H
#define TT_EXPLAIN_ETA_H

#include <stdio.h>

#include "tuner/explain.h"

/* For an all-reduce between nodes prints the sizes at which each hierarchical row takes as long as the ring: by
 * predictions, and by the measurements of the profile in use. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_explain_eta(FILE *out, const struct tt_explained *e);

#endif
