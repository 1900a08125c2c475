/* SPDX-License-Identifier: BSD-3-Clause */
/* Schedules for a person to look at: printed, drawn, played (tutti schedule, tutti simulate). */
#ifndef TT_SCHEDULE_H
#define TT_SCHEDULE_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

/* A request for schedules. Set all to 0, then the fields that matter; nothing is kept of it. Ranks are numbered as the
 * user does, also where a topology lets them stand in another order on the wire. */
struct tt_schedule_request {
  const char *collective; /* "all_reduce", "reduce", "broadcast", "reduce_scatter", "all_gather", "all_to_all",
                             "gather", "scatter"; underscores may be left out or be hyphens, here as in the next;
                             "": none, an error */
  const char *algorithm;  /* its name */
  const char *middle;     /* what a hierarchical one runs among the leaders: an all-reduce; NULL: its default */
  const char *passes;     /* rewrites, in this order, separated by commas: merge, fuse, channels=N; NULL: none */
  const char *topology;   /* file with who is near whom and the prices of links; NULL: all ranks are equally far */
  int nranks;             /* 0: those of the topology */
  int root;               /* where the collective has one */
  int radix;              /* where the algorithm has one; 0: its default */
  int blocks;             /* cuts of a share; 0: the number the algorithm is made for */
  int group_size;         /* ranks in a group; 0: the topology's groups, else about the root of nranks */
  size_t count;           /* elements of a share, as in the call; 0: one for each block */
  size_t element_bytes;   /* 0: 4 */
  const size_t *counts;   /* for tt_schedules_simulate: elements of each rank's share of an all-gather or a
                             reduce-scatter; NULL: all have `count` */
  int ncounts;            /* must be nranks; 0: no counts */
};

/* The name of the index-th algorithm of a collective; NULL: there is no such one. */
const char *tt_algorithm_name(const char *collective, int index);

/* Prints the schedule of one rank, or of all. They are all if rank is -1. A schedule is a head that says what it
 * takes, then a step a line.
 *
 * Errors: tuttiInvalidArgument: the request or rank is wrong; the sentence says what there is. tuttiInvalidUsage: the
 * algorithm is not legal there; the sentence says why. tuttiSystemError: no memory, or out cannot be written. */
tuttiResult_t tt_schedules_print(const struct tt_schedule_request *request, int rank, FILE *out);

/* Prints what is in a picture of the schedules of all ranks, as JSON for tutti draw.
 *
 * Errors: as tt_schedules_print; also tuttiInvalidUsage: more than 1,024 ranks, of which nobody could see anything. */
tuttiResult_t tt_schedules_data(const struct tt_schedule_request *request, FILE *out);

/* How it is simulated. Set all to 0, then what matters. */
struct tt_simulation {
  int uniform;         /* 1: the prices below hold for all links; 0: those of the topology, or of a 10 Gbit/s network */
  double link_gbits, link_us; /* not uniform: of links between nodes, the time of a short message; 0 Gbit/s: not said */
  double alpha_us;     /* of a message */
  double beta_us_per_mib;  /* of what is sent */
  double gamma_us_per_mib; /* of what is combined with one more source */
  size_t block_bytes;  /* a vector longer than blocks of this size goes in segments of them; 0: in one piece */
  int lanes;           /* segments under way at once; 0: 1 */
  void (*progress)(void *context, int64_t steps, int64_t total, double time_us); /* every 65,536 steps; may be NULL */
  void *context;
  void (*making)(void *context, int made, int64_t steps); /* before that: ranks whose schedules are made, and about how
                                                             many steps all will play; may be NULL */
  int64_t most_steps;  /* refuse to begin if it would play more than about so many; 0: never */
};

/* The results of a play: sums over all ranks, but for times. */
struct tt_simulated {
  double time_us;    /* when the last rank has its result */
  double first_us;   /* when the first has */
  double bound_us;   /* the larger of alpha for each doubling of what has spread, and beta for the bytes that have to
                        pass one rank: max(ceil(log2 P) alpha, 2 (P - 1) / P M beta) of an all-reduce; with several
                        kinds of links, of the cheapest in use */
  double busiest_us; /* how long the busiest port was occupied */
  double link_gbits, link_us; /* of links between nodes, as they were taken */
  int busiest_rank;
  int64_t steps, messages, bytes, reduced_bytes;
};

/* Plays the schedules of all ranks against prices of links. The results are written to *result.
 *
 * Each rank sends one message at a time and takes one at a time; a message of M MiB arrives alpha + M beta after it
 * started if nothing keeps it waiting, and occupies the two ports for M beta. Combining takes gamma a MiB and source,
 * one at a time. Steps start when the executor would start them. Memory does not grow with the number of steps, unless
 * there are passes, which need whole schedules.
 *
 * Errors: as tt_schedules_print; also tuttiInvalidArgument: prices below 0, or too many lanes; tuttiInvalidUsage: more
 * than most_steps. */
tuttiResult_t tt_schedules_simulate(const struct tt_schedule_request *request, const struct tt_simulation *how,
                                    struct tt_simulated *result);

#endif
