/* SPDX-License-Identifier: BSD-3-Clause */
/* Training that waits for no slow rank: the owners of weights are servers, which update them by the contributions that
 * come first, or by each as it comes; or each rank trains weights of its own, and exchanges them. */
#ifndef DIGITS_SERVERS_H
#define DIGITS_SERVERS_H

#include "images.h"
#include "network.h"
#include "tutti.h"

#define KILLS 16

/* A rank that kills itself at the beginning of the first step that has so many updates before it. */
struct kill {
  int rank, step;
};

struct servers {
  int backup;  /* ranks that a step need not wait for */
  int stale;   /* 0: steps; else each contribution is an update, if its weights are at most so many updates old */
  int whole_rate; /* with stale: the rate is not divided by the staleness */
  int elastic; /* ranks have their own weights, and exchange them with a center after so many steps; 0: they do not */
  int gossip;  /* 1: likewise, in each step with a neighbour */
  int slow_ms, nslow; /* so long each of the last `nslow` ranks sleeps in each step */
  const char *codec; /* by which gradients travel; NULL: none */
  int wire;          /* without one: tuttiDataType_t in which they do */
  int epochs, seed;
  int seconds; /* 0: so many epochs; else ranks that do not wait for each other end after this time */
  int nkills;
  struct kill kills[KILLS];
};

/* Trains the network, which is the same on all ranks of comm before; the first rank that is not killed tells of each
 * epoch: its time, the updates so far (tuttiFusionInfo_t), the accuracy of its weights. */
void servers_train(const struct servers *options, int rank, int nranks, tuttiComm_t comm, const struct images *images,
                   struct network *network);

#endif
