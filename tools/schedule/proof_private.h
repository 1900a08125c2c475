/* SPDX-License-Identifier: BSD-3-Clause */
/* The proof of schedules, and what one rank's costs (cost.c). */
#ifndef TT_SCHEDULE_PROOF_H
#define TT_SCHEDULE_PROOF_H

#include "sched/sched.h"

/* All but rounds, which one rank's schedule does not show: it is left 0. */
void tt_schedule_cost(const struct tt_schedule *schedule, struct tt_cost *cost);

#define TT_COMPLAINT_BYTES 512

struct tt_proof {
  int is_uneven;        /* in: 1: shares have any lengths, so that a block never stands in for another share's */
  const int32_t *order; /* in: order[p] is the p-th rank; operands stand in this order. NULL: 0, 1, ... */
  int64_t steps;        /* of all ranks */
  int64_t rounds;       /* as in tt_cost */
  uint64_t tree;        /* reducing ones: a hash of the tree by which the blocks of OUT are made, the same in any proof;
                           0: not all blocks have the same one */
  char complaint[TT_COMPLAINT_BYTES]; /* rank, step, reason; "" if there is none */
};

/* Proves the properties in the head of sched/sched.h for the collective of shape->nranks ranks (shape->rank is
 * ignored), blocks all of one element: generate is called for every rank. Returns tuttiSuccess, or tuttiInternalError
 * with the complaint. Time and memory: ring, 1,024 ranks: a few seconds, under 2 GiB. */
tuttiResult_t tt_verify(const struct tt_shape *shape, tt_generate_fn generate, void *context, struct tt_proof *proof);

#endif
