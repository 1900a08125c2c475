/* SPDX-License-Identifier: BSD-3-Clause */
/* Training that waits for no slow rank: the owners of weights are servers, which update them by the contributions that
 * come first, or by each as it comes. */
#ifndef DIGITS_SERVERS_H
#define DIGITS_SERVERS_H

#include "images.h"
#include "network.h"
#include "tutti.h"

struct servers {
  int backup;  /* ranks that a step need not wait for */
  int stale;   /* 0: steps; else each contribution is an update, if its weights are at most so many updates old */
  int slow_ms; /* time that the last rank sleeps in each step */
  int epochs, seed;
};

/* Trains the network, which is the same on all ranks of comm before; rank 0 tells of each epoch: its time, the updates
 * so far, the accuracy of its weights. */
void servers_train(const struct servers *options, int rank, int nranks, tuttiComm_t comm, const struct images *images,
                   struct network *network);

#endif
