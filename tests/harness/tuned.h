/* SPDX-License-Identifier: BSD-3-Clause */
/* A cluster to tune for: ranks on nodes in blocks, at the prices that are built in. */
#ifndef TUNED_H
#define TUNED_H

#include "tuner/tuner.h"

struct tuned {
  struct tt_topology topology;
  struct tt_arrangement arrangement;
  struct tt_cluster cluster;
  struct tt_prices prices;
  struct tt_tuning tuning; /* points into this object */
};

void tuned_make(struct tuned *tuned, int nranks, int nnodes, const char *transport);
void tuned_destroy(struct tuned *tuned);

/* Ranks with this between them are joined by that transport; NULL: there are none. */
void tuned_join(struct tt_cluster *cluster, enum tt_link_kind kind, const char *transport);

#endif
