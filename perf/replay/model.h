/* SPDX-License-Identifier: BSD-3-Clause */
/* Steps of several ranks whose computation varies (variation.h), in the planner's model: by a policy, and by a bound.
 *
 * A step. A rank's gradients are ready one after the other, from when its step before has ended. A tensor is ready when
 * it is ready on all ranks, so all messages of the step are those of one net, whose ready times are the latest of all
 * ranks; the planner plays it (tt_fusion_plan_play), or bounds it (tt_fusion_bound_done). Forward of a layer on a rank
 * waits for the layer before it and for the sum of its tensor. No message of a step is there before the last rank has
 * begun the step, and none is left when the first rank has ended it, so steps follow one another without any rest.
 *
 * The bound knows all in hindsight, and its links are work-conserving: they are never idle while a byte is ready on all
 * ranks, the most urgent byte goes first, and messages cost no more than the least for their bytes. So no policy has
 * shorter steps, whatever it does, at the same costs.
 *
 * A policy plans from what a fusion would have measured: for each tensor and layer the median of ten steps, of which
 * the longest of any rank counts. These are other steps than those played, drawn anew for each round, in which the plan
 * stays. Horovod's groups, whatever is ready when links are free, are found anew in each step.
 *
 * The engine of a fusion differs from that in these:
 *   - the most urgent group that is ready on all ranks goes next here, at once and for nothing. The engine keeps to the
 *     plan's order while that fits, and agrees on another one in a round of frames (src/fusion/sequence_private.h);
 *   - a message is begun here when all ranks have its group. In the engine a rank begins it when its own is ready, and
 *     it keeps a channel until the others come;
 *   - nothing is copied here, no process is woken up, and costs are what the planner has been told;
 *   - auto has no trials here: its plan is the one that is predicted to be the best.
 *
 * Pure. */
#ifndef MODEL_H
#define MODEL_H

#include "planner/plan.h"
#include "replay.h"
#include "variation.h"

struct model {
  const struct network *network;
  const struct variation *variation;
  struct tt_message_cost cost;
  int nranks;
  struct tt_model net;      /* of the step that is played, or of what was measured: */
  struct tt_tensor *tensors;
  double *done_us;          /* of each tensor: all its messages are there */
  double *begin_us;         /* of each rank: its step */
  double *backward_us;      /* of each rank: the end of its backward */
  double *samples_us;       /* while the net of a policy is measured */
};

/* Plays the bound, or a policy by its plan. */
struct player {
  int is_bound;
  struct tt_policy policy;
  struct tt_fusion_plan plan;
};

/* Borrows the pointers. Errors: tuttiSystemError: no memory. */
tuttiResult_t model_make(struct model *model, const struct network *network, const struct variation *variation,
                         const struct tt_message_cost *cost, int nranks);
void model_destroy(struct model *model); /* a zeroed one is allowed */

/* Makes the plan of the player's policy for a round, in place of the one before. */
tuttiResult_t model_plan(struct model *model, struct player *player, int round);

/* Plays so many steps of a round, from number 1 on, which all ranks begin at 0. *step_us: the mean of a step, on the
 * rank that ends last. */
tuttiResult_t model_play(struct model *model, const struct player *player, int round, int steps, double *step_us);

#endif
