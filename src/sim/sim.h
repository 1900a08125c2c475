/* SPDX-License-Identifier: BSD-3-Clause */
/* Plays the schedules of all ranks of one collective against prices of links: the time it would take on a machine, also
 * on one that does not exist.
 *
 * The model. Ranks are one-ported: each has one port out and one port in, which work at the same time, and one
 * processor. So are nodes: messages between two nodes pass the port out of the one and the port in of the other
 * instead of those of the ranks, and all ranks of a node share them. Let a message of m bytes over a link of kind k
 * take T_k(m) (tt_curve_us); of that lambda_k, which is alpha of the curve's first part less its overhead, is latency,
 * and o_k(m) = T_k(m) - lambda_k occupies ports. On a straight line without overhead, o_k(m) is beta_k m. The message
 *  - becomes ready when its step may start, by the derived order and the window of TT_WINDOW steps, as in the
 *    executor, and its content has been made;
 *  - starts when the port is free; of several ready ones of a rank for that port the oldest goes first (segment, then
 *    step), and the messages of one step go in the order of its peers. Ranks that wait for their node's port have it
 *    in turn, for a message each. It occupies the port for o_k(m). When the last message of a step has left, the step
 *    is finished: its source may be overwritten;
 *  - is available lambda_k after it started. The receiver's port draws it from then on, once the step that takes it has
 *    started and the port is free, first come first served, and is occupied for o_k(m). So a message that is never kept
 *    waiting arrives T_k(m) after it started; one that comes early waits in the network.
 *  - A step that takes messages goes on when all have arrived. Combining takes the processor gamma for each byte of
 *    each source beyond the first, copying from memory to memory takes as long as a message over the link "self"; the
 *    processor does one at a time, first come first served. Work that costs nothing does not wait for it.
 * At most TT_SIM_FLIGHT messages of a rank are on their way at once; more wait at its port, as for the buffers of a
 * real network. Events at one time happen in the order in which they were caused, so a play has one outcome.
 *
 * On uniform links this gives the textbook formulas to rounding: a ring takes 2 (P - 1) (alpha + beta n / P) +
 * (P - 1) gamma n / P, and so on (tests/unit/sim.c has them all).
 *
 * Memory: of long schedules only stretches are kept, of about 128 MiB for all ranks, but at least TT_SIM_KEEP steps of
 * each; the generator is run again when a window leaves its stretch. The messages on their way are bounded by
 * TT_SIM_FLIGHT, those waited for by the windows; neither grows with the number of steps. Pure: no clock, no I/O. */
#ifndef TT_SIM_H
#define TT_SIM_H

#include "sched/sched.h"
#include "topo/topo.h"

#define TT_SIM_FLIGHT 1024
#define TT_SIM_KEEP 256
#define TT_SIM_MAX_LANES 256
#define TT_SIM_MAX_BYTES ((size_t)1 << 60) /* of all shares together */

/* A message that has just started. Pointers are good during the call. */
struct tt_sim_message {
  int32_t from, to;
  const struct tt_schedule *schedule; /* of its sender */
  const struct tt_step *step;
  double start_us;
  double end_us; /* when it arrives, if nothing keeps it waiting */
  size_t bytes;
};

/* A step that has just finished. Pointers are good during the call. */
struct tt_sim_step {
  const struct tt_schedule *schedule; /* of its rank */
  const struct tt_step *step;
  size_t segment;
  double finish_us;
  size_t bytes;
};

struct tt_sim_progress {
  int64_t steps, total; /* played, and to be played, by all ranks in all segments */
  double time_us;       /* of the play */
  int32_t ended;        /* ranks */
};

/* The callbacks during a play; any may be NULL. */
struct tt_sim_watcher {
  void (*message)(void *context, const struct tt_sim_message *message);
  void (*step)(void *context, const struct tt_sim_step *step);
  void (*progress)(void *context, const struct tt_sim_progress *progress); /* every 65,536 steps, and at the end */
  void *context;
  void (*making)(void *context, int32_t made, int64_t steps); /* before it plays: ranks whose schedules are made, and
                                                                 about how many steps all ranks will play */
};

struct tt_sim_play {
  struct tt_shape shape; /* rank is ignored */
  tt_generate_fn generate;
  void *context;
  int is_whole;          /* generate needs whole schedules (passes do), so all are kept */
  int32_t keep;          /* steps of a rank to keep at once, at least TT_WINDOW; 0: what memory allows */
  size_t count;          /* elements of a share */
  const size_t *counts;  /* [shape.nranks]: those of each share of an all-gather or a reduce-scatter whose shares are
                            unequal, and one block each; NULL: `count` */
  size_t element_bytes;
  size_t block_bytes;    /* a vector longer than blocks of so many bytes is cut into segments of them; 0: never */
  int32_t lanes;         /* segment s is played on lane s mod lanes; 0: 1 */
  const struct tt_link_prices *prices;
  const struct tt_topology *topology; /* NULL: each rank is a node. The topology's own prices do not count */
  const int32_t *order;  /* rank p of the schedules is rank order[p] of the topology; NULL: the same */
  int64_t most_steps;    /* of all ranks in all segments: refused if there would be more, about; 0: any number */
  struct tt_sim_watcher watcher;
};

struct tt_sim_result {
  double time_us;      /* when the last rank ended */
  double first_us;     /* when the first rank ended */
  int64_t steps, messages, bytes; /* of all ranks; bytes sent */
  int64_t reduced;     /* bytes combined with one more source */
  double busiest_us;   /* how long the busiest port was occupied */
  int32_t busiest_rank; /* the lowest one of the node, if it is a node's */
  int busiest_is_out;
  double processor_us; /* how long the busiest processor was occupied */
  int64_t peak_events; /* the most events pending at once */
};

/* Plays it. *result is written on success only.
 * Errors: tuttiInvalidArgument: lanes, or too many bytes. tuttiInvalidUsage: most_steps. tuttiSystemError: no memory.
 * tuttiInternalError: a schedule is wrong, or a rank waits for ever (the sentence says which; the verifier tells more).
 * Also the errors of generate. */
tuttiResult_t tt_simulate(const struct tt_sim_play *play, struct tt_sim_result *result);

/* Plays it n times, with counts[k] elements in a share instead of play->count; schedules are made once. After an error
 * some results may be written. */
tuttiResult_t tt_simulate_counts(const struct tt_sim_play *play, const size_t *counts, int n,
                                 struct tt_sim_result *results);

#endif
