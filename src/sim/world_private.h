/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: ranks, their lanes and ports, while they play. */
#ifndef TT_SIM_WORLD_H
#define TT_SIM_WORLD_H

#include "sim/private.h"

#define TT_SIM_PROGRESS_STEPS 65536

enum way { NEAR, FAR, WAYS }; /* through the port of the rank, or of its node */

/* One lane of one rank. Bit 63 - j of the masks stands for step oldest + j. */
struct lane {
  struct tt_sim_program *program;
  struct tt_sim_program own; /* used if the rank's program does not hold all steps */
  size_t segment;
  size_t base, more; /* elements of a block; the first `more` blocks of a share have one more */
  const size_t *starts; /* unequal shares: elements of the segment before each share, and all; else NULL */
  int32_t oldest;
  uint64_t started, finished;
  uint64_t offering[WAYS]; /* made steps with messages this way that have not left yet */
  int16_t missing[TT_WINDOW]; /* by step mod TT_WINDOW: messages that no port has drawn */
  double arrived_us[TT_WINDOW]; /* likewise: when the last message drawn has arrived */
};

/* The outgoing messages of a rank one way. */
struct outlet {
  int32_t step, peer; /* the step whose messages go now, -1: none; index of its peer */
  uint16_t lane;
  uint8_t is_busy;    /* with a message of this rank */
  uint8_t is_waiting; /* for the node's port */
};

/* A pair of ports: when the one in is free again; how long both were occupied. */
struct port {
  double in_free_us, out_us, in_us;
};

struct node {
  struct port port;
  int32_t first, last; /* ranks that wait for the port out; first -1: none */
  uint8_t is_busy;     /* the port out */
};

struct actor {
  struct tt_sim_program program;
  struct lane *lanes;
  int32_t busy_lanes; /* with segments left */
  int32_t in_flight;
  struct outlet out[WAYS];
  struct port port;
  struct node *node;
  int32_t next_waiting;        /* rank; -1: none */
  double cpu_free_us, cpu_us; /* the processor: when it is free again; how long it was occupied */
};

struct world {
  const struct tt_sim_play *play;
  struct actor *actors;
  struct node *nodes;
  struct lane *lanes; /* of all actors */
  struct tt_sim_maker maker;
  struct tt_sim_events events;
  struct tt_sim_mail mail;
  double now_us, gamma_us; /* gamma: per byte */
  size_t count; /* elements of the longest share */
  size_t nblocks, segment_count, nsegments; /* blocks of a share, after passes */
  size_t **starts; /* unequal shares: by segment, made when it begins; NULL: not yet */
  int32_t nlanes;
  int is_broke; /* no memory */
  int has_stretches; /* some programs are kept only in part */
  struct tt_sim_progress progress;
  struct tt_sim_result result;
};

/* ---- play.c ------------------------------------------------------------------------ */

/* Begins a segment on a lane; 0: there is no such segment. */
int tt_sim_segment_begin(struct world *world, struct lane *lane, size_t segment);

/* A lane of the rank has no segment left. */
void tt_sim_lane_end(struct world *world, int32_t rank);

/* Starts all steps of a lane that may start. Errors: those of generate. */
tuttiResult_t tt_sim_lane_go(struct world *world, int32_t rank, struct lane *lane);

/* Plays an event at world->now_us. Errors: likewise. */
tuttiResult_t tt_sim_event_play(struct world *world, const struct tt_sim_event *event);

#endif
