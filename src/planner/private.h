/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: tensors in the order in which they are ready, and plays that keep nothing. */
#ifndef TT_PLANNER_PRIVATE_H
#define TT_PLANNER_PRIVATE_H

#include "planner/flight.h"

/* The tensors of one type in a run, which become a group. */
struct tt_part {
  int32_t type, n;
  uint64_t bytes;
  int32_t piece; /* of the cost */
  double us;     /* what their message takes */
  int32_t end;   /* of the group's members that have no place yet */
};

/* Position i is the i-th tensor to be ready; if several are ready at once, the last layer comes first. */
struct tt_queue {
  int32_t n;
  const struct tt_model *net;
  int32_t *order;   /* tensor at each position */
  double *ready_us; /* ascending */
  uint64_t *before; /* bytes of all positions before this one; n + 1 of them */
  double *scratch;  /* n, for a policy */
  int32_t *picks;   /* n, for a policy */
  int32_t ntypes;
  int32_t *types;   /* of each position, from 0 on */
  struct tt_part *parts; /* of each type, for a run of positions */
};

tuttiResult_t tt_queue_make(struct tt_queue *queue, const struct tt_model *net);
void tt_queue_destroy(struct tt_queue *queue); /* a zeroed one is allowed */

/* ---- groups (merge.c) ---- */

/* Room for all tensors, in the queue's order, and no groups. */
tuttiResult_t tt_fusion_plan_start(struct tt_fusion_plan *plan, const struct tt_queue *queue);

/* Appends the positions after the last group up to but not including `end`, as a group, of whatever types. */
void tt_fusion_plan_group_add(struct tt_fusion_plan *plan, const struct tt_queue *queue, int32_t end);

/* Replaces the groups by those of a policy other than auto, of whatever types, unsliced and as they come. */
void tt_fusion_plan_merge(struct tt_fusion_plan *plan, const struct tt_policy *policy, const struct tt_queue *queue,
                          const struct tt_message_cost *cost);

/* Makes groups of one type each of those of several. */
void tt_fusion_plan_part(struct tt_fusion_plan *plan, const struct tt_queue *queue);

/* Makes the plan go by priority, in slices of at most so many elements (at least 1), several in flight where that
 * pays. */
void tt_fusion_plan_slice(struct tt_fusion_plan *plan, const struct tt_queue *queue,
                          const struct tt_message_cost *cost, uint64_t elements);

/* ---- plays (play.c) ---- */

/* The memory of a play while it runs, for up to n tensors. */
struct tt_stage {
  int32_t *heap;    /* groups that are ready and not sent; the most urgent one at 0 */
  int32_t *urgency; /* of a group: its first place in forward */
  int32_t *at;      /* of a group: the place in members of the tensor that is the next to be complete */
  uint64_t *sent;   /* of a group: slices */
  double *done_us;  /* of a tensor */
  double *ready_us; /* of members, if there are several types; bytes of those before one of them: */
  uint64_t *before;
  struct tt_played_message *messages; /* NULL: none are kept */
  int64_t nmessages;
};

tuttiResult_t tt_stage_make(struct tt_stage *stage, int32_t n);
void tt_stage_destroy(struct tt_stage *stage); /* a zeroed one is allowed; messages are not freed */

/* Returns the length of the iteration; fills done_us. */
double tt_stage_play(struct tt_stage *stage, const struct tt_fusion_plan *plan, const struct tt_queue *queue,
                     const struct tt_message_cost *cost);

/* ---- ready times with a spread (spread.c) ---- */

#define TT_MOVES 3

/* The net of a queue with its tensors ready at other times, in the same order. */
struct tt_moves {
  int n; /* 0: no tensor has a spread */
  struct tt_moved {
    struct tt_tensor *tensors;
    struct tt_model net;
    struct tt_queue queue;
  } moved[TT_MOVES];
};

/* Zeroed before; to be destroyed also after a failure. It stays where it is: queues point into it. */
tuttiResult_t tt_moves_make(struct tt_moves *moves, const struct tt_queue *queue);
void tt_moves_destroy(struct tt_moves *moves);

/* Returns the mean of us, the iteration on time, and of those of the moved nets. */
double tt_moves_mean(const struct tt_moves *moves, double us, struct tt_stage *stage, const struct tt_fusion_plan *plan,
                     const struct tt_message_cost *cost);

/* ---- the search of auto (search.c) ---- */

/* The plan must be started (tt_fusion_plan_start). */
tuttiResult_t tt_fusion_plan_search(struct tt_fusion_plan *plan, const struct tt_policy *policy,
                                    const struct tt_queue *queue, const struct tt_message_cost *cost);

#endif
