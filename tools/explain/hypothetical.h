/* SPDX-License-Identifier: BSD-3-Clause */
/* A machine that need not be at hand, as a request tells of it. */
#ifndef TT_HYPOTHETICAL_H
#define TT_HYPOTHETICAL_H

#include "explain/explain.h"
#include "tuner/tuner.h"

struct tt_hypothetical {
  struct tt_settings settings;
  struct tt_topology topology;
  struct tt_arrangement arrangement;
  struct tt_profile profile;
  struct tt_cluster cluster;
  struct tt_prices prices;
  struct tt_tuning tuning; /* points into this object */
  char interface[16];
};

/* Everything of the request that tells of the machine counts, and so do the settings of the environment, as for a job
 * that starts here. Errors: tuttiInvalidArgument: the request, a setting or a file is wrong; tuttiSystemError: no
 * memory. */
tuttiResult_t tt_hypothetical_make(struct tt_hypothetical **place, const struct tt_explain_request *request);
void tt_hypothetical_destroy(struct tt_hypothetical *place); /* NULL is allowed */

#endif
