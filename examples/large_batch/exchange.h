/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that train on their own, each with weights x of its own, and exchange weights instead of gradients. */
#ifndef LARGE_BATCH_EXCHANGE_H
#define LARGE_BATCH_EXCHANGE_H

#include <stddef.h>
#include <stdint.h>

#include "tutti.h"

/* Elastic averaging (EASGD, Zhang, Choromanska, LeCun 2015), synchronous: every rank and a centre c, of which each rank
 * has a copy, are drawn towards each other, by one all-reduce:
 *     d = alpha (x - c),    x -= d,    c += sum of d over all ranks.
 * The centre gains as much as the ranks lose: the sum of all x and c stays. alpha times the number of ranks is below 1.
 * The copies of the centre stay equal to the last bit. d is n floats of scratch. */
tuttiResult_t elastic_exchange(float *x, float *centre, float *d, size_t n, float alpha, tuttiComm_t comm);

/* Gossip (Jin et al. 2016): in each step the ranks are paired anew, and both of a pair take x = (x + y) / 2. So the
 * mean of all ranks stays. */

/* The rank with which `rank` is paired, or -1: with an odd number of ranks one is left over. Equal seeds give equal
 * matchings on all ranks, so nothing is sent to agree on them. nranks is at most 1024. */
int gossip_partner(int rank, int nranks, uint64_t seed);

/* Both of a pair call it. y is n floats of scratch. */
tuttiResult_t gossip_exchange(float *x, float *y, size_t n, int partner, tuttiComm_t comm);

enum { GOSSIP_RANKS_MAX = 1024 };

#endif
