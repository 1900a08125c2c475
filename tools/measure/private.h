/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder. */
#ifndef TT_MEASURE_PRIVATE_H
#define TT_MEASURE_PRIVATE_H

#include "measure/measure.h"
#include "tuner/choice.h"

#define DATA_BYTES ((size_t)16 << 20) /* longest message; there is one such part for what is sent, one for what comes */

struct measure {
  struct tuttiComm *comm;
  const struct tt_comm_facts *facts;  /* of comm */
  const struct tt_topology *topology; /* likewise */
  const struct tt_measure_options *options;
  struct tt_profile *profile; /* NULL but on rank 0 */
  tuttiResult_t result;       /* the first failure: after it all functions do nothing, and times are 0 */
  struct tt_table table;      /* the communicator's own */
  uint8_t *route;             /* [nranks * nranks]: number of the transport from one to the other */
  const char *transport;      /* between most pairs of ranks */
  uint32_t block_bytes;       /* longest by default, with the transports in use */
  int32_t cores;              /* that the ranks of a machine may use, where these are fewest to a rank */
  double left_us;             /* as of the last agree_timed */
  double limit_us;            /* when all is to end, by this rank's clock, as of the last agree_timed */
  int is_over;                /* likewise: that is past, on all ranks */
  int is_cut;                 /* something is left out for it, on all ranks */
  char *data;                 /* 2 DATA_BYTES: of one of these two */
  char *memory[TT_MEMORIES];  /* NULL: of no account between these ranks */
  double progress_from, progress_part; /* of the whole, what the part under way makes up */
};

static inline double now_us(void)
{
  return (double)tt_now_ns() / 1e3;
}

/* ---- agree.c ---- */

/* This rank cannot go on (code: why; tuttiSuccess: it can): ends the communicator, so that nobody waits for it. */
void give_up(struct measure *m, tuttiResult_t code);

/* The largest of all ranks' values, the same everywhere, in place; also a barrier. */
void agree_all(struct measure *m, double *values, size_t n);
double agree(struct measure *m, double value);

/* The same, and what rank 0's clock leaves until end_us of its own, at least 0, in m->left_us on all ranks; also
 * whether the limit is past. */
double agree_timed(struct measure *m, double value, double end_us);

/* These sends and receives, all at once. */
void messages_run(struct measure *m, struct tt_transfer *transfers, int n);

/* A float collective in place, `count` elements in a share. */
void collective_run(struct measure *m, int collective, size_t count);

/* Every rank's `len` bytes into all[nranks * len]. */
void gather_all(struct measure *m, const void *own, void *all, size_t len);

/* Tells rank 0's user; done: of the part under way. */
void progress_tell(const struct measure *m, double done, const char *what);

/* ---- world.c ---- */

/* Pairs of ranks with the same between them, no rank twice. Inside of nodes they are all of one node. */
struct pairs_of_kind {
  enum tt_link_kind kind;
  int transport; /* as in tt_comm_transport */
  int32_t n;
  int32_t (*pairs)[2];
};

/* Fills m->route, m->transport, m->block_bytes, m->cores and m->memory; m->data is of malloc. */
void world_find(struct measure *m);

/* Finds the largest set of pairs of this kind on one node, or between two; n is 0 if there is none. pairs has room for
 * half of the ranks. */
void pairs_find(const struct measure *m, struct pairs_of_kind *of);

/* ---- samples.c ---- */

struct summary {
  double median, low, high; /* low and high: a quarter of the samples lies below, above */
};

/* Sorts the samples; n >= 1. */
struct summary samples_summarise(double *samples, int n);

/* Nine in ten of the sorted samples differ from `value` by at most so many percent of it. */
double samples_error_percent(const double *sorted, int n, double value);

/* A pseudo-random order of 0 .. n - 1, the same for one seed everywhere. */
void order_mix(int32_t *order, int n, uint32_t seed);

/* ---- the three parts ---- */

void links_measure(struct measure *m, double seconds);
void kernels_measure(struct measure *m, double seconds);
void anchors_measure(struct measure *m, double seconds);

/* ---- store.c; but for the first on rank 0 only, else nothing happens ---- */

/* The machine, time, command and load of the measurement; m->result if the profile is of another machine. */
void store_machine(struct measure *m);
/* Instead of all lines and points of their flow. */
void store_flow(struct measure *m, const struct tt_profile_point *points, int n, double overhead_us);
void store_reduce(struct measure *m, const struct tt_profile_reduce *reduce);
/* All of the collective up to this size that were measured with as many ranks, nodes and cores over this transport, in
 * this kind of memory. */
void store_anchors_forget(struct measure *m, int collective, enum tt_memory memory, uint64_t up_to_bytes);
void store_anchor(struct measure *m, const struct tt_profile_anchor *anchor);
/* Notes that from this part on all is missing, until the next call; NULL: nothing is. */
void store_missing(struct measure *m, const char *from);
/* Has the profile kept as it is now. */
void store_keep(struct measure *m);

#endif
