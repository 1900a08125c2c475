/* SPDX-License-Identifier: BSD-3-Clause */
/* The meaning of a request: a row of the table, a shape, and a topology. */
#ifndef TT_SCHEDULE_REQUEST_H
#define TT_SCHEDULE_REQUEST_H

#include "algos/algos.h"
#include "schedule/schedule.h"
#include "topo/topo.h"

#define TT_REQUEST_PASSES 8

enum tt_request_pass { TT_PASS_MERGE, TT_PASS_FUSE, TT_PASS_CHANNELS };

/* Schedules are written for places on the wire; where the topology gives another order than the user's, the ranks are
 * renumbered (not where each rank has a share: places are ranks there). */
struct tt_request {
  const struct tt_algo *algo;
  struct tt_shape shape; /* rank 0; root and groups in places */
  struct tt_topology topology;
  struct tt_arrangement arrangement;
  const int32_t *order;  /* [place]: rank; NULL: the same */
  int has_topology;      /* it was given, not made up */
  int npasses, nchannels;
  enum tt_request_pass passes[TT_REQUEST_PASSES];
  size_t count, element_bytes;
  const size_t *counts; /* as in the request */
};

/* Errors: as tt_schedules_print. */
tuttiResult_t tt_request_make(struct tt_request *made, const struct tt_schedule_request *request);
void tt_request_destroy(struct tt_request *request);

/* Writes the schedule of one place, with the passes that were asked for; a tt_generate_fn. */
void tt_request_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *request);
/* The same of shape->rank as the user numbers ranks. */
void tt_request_generate_rank(struct tt_schedule *schedule, const struct tt_shape *shape, void *request);

#endif
