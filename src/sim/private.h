/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the parts of a play. */
#ifndef TT_SIM_STAGE_H
#define TT_SIM_STAGE_H

#include "sim/sim.h"

/* The kind of link between two ranks of the schedules, and the number of a rank's node. */
static inline enum tt_link_kind tt_sim_kind(const struct tt_sim_play *play, int32_t a, int32_t b)
{
  if (!play->topology) return TT_LINK_NET;
  return play->order ? tt_topology_kind(play->topology, play->order[a], play->order[b])
                     : tt_topology_kind(play->topology, a, b);
}
static inline int32_t tt_sim_node(const struct tt_sim_play *play, int32_t rank)
{
  if (!play->topology) return rank;
  return play->topology->node[play->order ? play->order[rank] : rank];
}

/* ---- events.c: events to come, soonest first --------------------------------------- */

enum tt_sim_event_kind {
  TT_HEAD,  /* the message of rank `what` is available to `rank` */
  TT_READY, /* all messages of step `what` have arrived */
  TT_MADE,  /* step `what` is combined or copied */
  TT_LEFT,  /* the message in the port out of `rank` has left */
  TT_LEFT_NODE /* the message of `rank` in the port out of its node has left */
};

struct tt_sim_event {
  double at_us;
  uint64_t number; /* in the order in which they were caused */
  int32_t rank, what;
  uint16_t lane;
  uint8_t channel, kind;
};

struct tt_sim_events {
  struct tt_sim_event *heap;
  int64_t n, room, peak;
  uint64_t number;
};

/* 0: no memory. */
int tt_sim_push(struct tt_sim_events *events, const struct tt_sim_event *event);
/* The soonest event; among those at one time, the first caused. events->n > 0. */
struct tt_sim_event tt_sim_pop(struct tt_sim_events *events);

/* ---- mail.c: messages that came before their step, and steps that came before their message --------------- */

/* The messages from one rank to another on one lane and channel. */
struct tt_sim_box {
  int32_t to, from;
  uint32_t lane_channel;
  int32_t there; /* > 0: messages that wait; < 0: step -1 - there of `to` waits; 0: the entry is free */
};

struct tt_sim_mail {
  struct tt_sim_box *boxes;
  size_t n, room; /* room: power of two */
};

/* A message comes: returns the step that waits for it, or -1; -2: no memory. */
int32_t tt_sim_mail_put(struct tt_sim_mail *mail, const struct tt_sim_box *where);
/* A step wants a message: 1 if there is one, 0 if none is there: the next tt_sim_mail_put returns the step; -1: no
 * memory. */
int tt_sim_mail_take(struct tt_sim_mail *mail, const struct tt_sim_box *where, int32_t step);

/* ---- program.c: a stretch of one rank's schedule --------------------------------- */

struct tt_sim_program {
  struct tt_schedule schedule; /* its steps are `from`, from + 1, ... of schedule.total */
  uint64_t *waits;             /* by kept step: as in tt_order, finished and started */
  int32_t from, wait_room;
};

/* The source of all programs of a play. */
struct tt_sim_maker {
  const struct tt_sim_play *play;
  int32_t keep; /* 0: whole schedules */
  struct tt_order *order;
  int32_t order_room;
};

/* Makes the program hold the steps from `from` on. */
tuttiResult_t tt_sim_program_load(struct tt_sim_program *program, struct tt_sim_maker *maker, int32_t rank,
                                  int32_t from);
void tt_sim_program_free(struct tt_sim_program *program);

/* 1 if the program can be played at `oldest`: it holds the end of the schedule, or the whole window. */
static inline int tt_sim_program_covers(const struct tt_sim_program *program, int32_t oldest)
{
  int32_t end = program->from + program->schedule.nsteps;
  return oldest >= program->from && (end == program->schedule.total || oldest + TT_WINDOW <= end);
}

#endif
