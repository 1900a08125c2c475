/* SPDX-License-Identifier: BSD-3-Clause */
/* Probes: messages that are sent to find out what they take, while somebody waits for the result. Pure: the leader, or
 * all ranks with the same numbers, tell what a message of the last batch took, and are told the next batch.
 *
 * Points are measured one after the other, by ascending bytes. The first batch of a point opens links and makes plans,
 * and does not count; from its time follows how many messages a batch has, if the point does not say so. Then batches
 * are repeated, of which the fastest counts: what disturbs one only makes it longer. */
#ifndef TT_PROBE_H
#define TT_PROBE_H

#include <stdint.h>

#define TT_PROBE_POINTS 4

struct tt_probe_point {
  uint32_t bytes;
  uint32_t first_bytes, first_times; /* messages of the first batch */
  uint32_t times;                    /* messages of the others; 0: by batch_us */
};

/* How much it may cost. 0: no such limit. */
struct tt_probe_budget {
  double batch_us;     /* what a batch is to take, ... */
  uint32_t times_most; /* ... of no more messages than these */
  int batches;         /* of a point, at least */
  int batches_slow;    /* the same, where one message takes longer than a batch */
  double nearly;       /* batches go on until the second fastest took at most so many times as long as the fastest */
  double slow_us;      /* a message of the first batch takes longer: shorter ones stay that short, others are the end */
  double point_us;     /* points that would take longer, by what those before took, are left out */
  double all_us;       /* nothing begins later */
};

struct tt_probe_row {
  uint32_t bytes; /* as they were sent */
  int n;          /* batches */
  int is_done;    /* 1: they were enough */
  double least_us, second_us;
};

struct tt_probe {
  struct tt_probe_budget budget;
  struct tt_probe_point points[TT_PROBE_POINTS];
  int npoints, at;
  int is_first;          /* of the point `at` */
  uint32_t bytes, times; /* the next batch; times 0: it is over */
  struct tt_probe_row rows[TT_PROBE_POINTS];
};

void tt_probe_begin(struct tt_probe *probe, const struct tt_probe_budget *budget, const struct tt_probe_point *points,
                    int npoints);

/* A message of the batch took us; spent_us: since the beginning. */
void tt_probe_took(struct tt_probe *probe, double us, double spent_us);

#endif
