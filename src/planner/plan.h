/* SPDX-License-Identifier: BSD-3-Clause */
/* Plans which tensors go together, in what pieces, and in what order: pure functions of values that all ranks agree on.
 *
 * The model, as in MG-WFBP (Shi, Chu: INFOCOM 2019) and P3 (Jayarajan et al.: SysML 2019): an iteration is backward,
 * from time 0 on, and the next forward. A tensor's gradient is ready at ready_us. A message carries one group of
 * tensors, or a slice of one, and takes the time that the cost function gives for its bytes. One is under way at a
 * time, or, in plans with a credit, as many as flight.h says. Nothing of a group is sent before all its tensors are
 * ready. Then
 *
 *   - as it comes (by_priority 0): messages are sent in the order in which groups are ready, and the next forward
 *     begins when backward and all messages have ended: MG-WFBP's t_iter = t_f + max(t_b, end of the last message);
 *   - by priority: whenever the next message may begin (so a group is overtaken between slices), a slice is sent from
 *     the ready group whose layer comes first in forward, and forward of a layer waits for nothing but backward, the
 *     layer before it, and its own tensor.
 *
 * Either way all messages have ended when forward has, so that one iteration is like the next, and its length is that
 * of the steady state.
 *
 * In a message the tensor ready last lies first: if backward goes from the last layer to the first, that is forward
 * order, and the first slices are those that forward needs first.
 *
 * All ranks that call these functions with the same numbers get the same plan: there is no clock and no chance in them,
 * and sums are taken in a fixed order. Memory is the only thing they ask of the system. */
#ifndef TT_PLAN_H
#define TT_PLAN_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

/* ---- the net to plan ------------------------------------------------------------------- */

#define TT_PLAN_TENSORS 16384 /* of a net, at most */

struct tt_tensor {
  uint64_t count;    /* elements; may be 0, which is a message all the same */
  uint64_t bytes;    /* as they travel: the same number for each element */
  int32_t type;      /* of a group all have the same */
  uint32_t grain;    /* what is counted as an element has so many, because no cut parts them; 0: it is one */
  double ready_us;   /* when its gradient is ready, at or after 0 */
  double spread_us;  /* in other steps it is ready so much earlier or later, which auto's plans bear */
  double forward_us; /* the time of forward of its layer */
};

struct tt_model {
  int32_t n;                      /* 1 to TT_PLAN_TENSORS */
  const struct tt_tensor *tensors; /* in forward order */
  double backward_us;             /* when backward has ended: not before the last tensor is ready */
};

/* Errors: tuttiInvalidArgument: a number breaks the limits above (the sentence names the tensor, from 1 on, and the
 * number). */
tuttiResult_t tt_model_check(const struct tt_model *net);

/* ---- the cost of a message (cost.c) ------------------------------------------------------ */

#define TT_COST_PIECES 64

/* A message of m bytes takes a_us + b_us_per_byte m by the last piece with from <= m. Pieces ascend, the first is from
 * 0; times are finite, none is below 0, and they may fall and jump. How much of that several messages in flight have in
 * common is told by the rest (flight.h); zeroed: nothing. */
struct tt_message_cost {
  int32_t n;
  struct tt_message_cost_piece {
    uint64_t from;
    double a_us, b_us_per_byte;
  } pieces[TT_COST_PIECES];
  double byte_us;   /* of links */
  double free;      /* the part of a message's start-up in which they are free for other messages: 0 to 1 */
  int32_t channels; /* for messages in flight; less than 2: one at a time */
};

/* 1: it is as above. For one that another process has sent. */
int tt_message_cost_is_right(const struct tt_message_cost *cost);

/* These two leave `free` and `channels` at 0. */

struct tt_message_cost tt_message_cost_line(double a_us, double b_us_per_byte);

/* Through n >= 1 points (at most TT_COST_PIECES - 1), bytes ascending, us not below 0: straight between them; below the
 * first, its time; beyond the last, as steep as between the last two, but not falling. */
struct tt_message_cost tt_message_cost_points(const uint64_t *bytes, const double *us, int32_t n);

double tt_message_us(const struct tt_message_cost *cost, uint64_t bytes);

/* ---- a plan --------------------------------------------------------------------------------- */

struct tt_fusion_group {
  int32_t first, n;     /* its tensors: plan->members[first] .. plan->members[first + n - 1] */
  uint64_t bytes;       /* of all of them */
  uint64_t slice_bytes; /* it is sent in pieces of so many bytes, the last one shorter; a multiple of an element */
};

struct tt_fusion_plan {
  int32_t ntensors, ngroups;
  int32_t *order;   /* tensors (from 0, in forward order) as they are ready; of several the last layer */
  int32_t *members; /* tensors of the first group, of the second and so on, each group's as in order; in a net of one
                       type all are as in order */
  struct tt_fusion_group *groups; /* as they are ready */
  int by_priority;
  uint64_t credit; /* bytes (flight.h); 0: one message at a time */
};

/* ---- policies (policy.c, merge.c, search.c) ------------------------------------------------ */

/* A message has tensors of one type. Policies decide which tensors go together whatever their types are; such a run of
 * tensors is then one group of each type, and costs as many messages. */

enum tt_policy_kind {
  TT_POLICY_WFBP,      /* each tensor alone */
  TT_POLICY_SINGLE,    /* all together when backward has ended (SyncEASGD of the MG-WFBP paper) */
  TT_POLICY_THRESHOLD, /* a group is closed once it has `bytes` or more, the first one at first_bytes; so does Jia et
                          al. (2018), and PyTorch's DistributedDataParallel with first_bytes 1 MiB */
  TT_POLICY_HOROVOD,   /* whenever no message is under way, what is ready, as long as it is at most `bytes` (a longer
                          tensor goes alone); Horovod's cycle time is left out */
  TT_POLICY_MGWFBP,    /* Algorithm 1 of the paper with corrected indices: merge.c says which */
  TT_POLICY_OPTIMAL,   /* no other groups, sent as they come, end earlier */
  TT_POLICY_P3,        /* each tensor alone, in slices, by priority; several in flight */
  TT_POLICY_FIFO,      /* likewise, but as they come: P3 without its priority */
  TT_POLICY_AUTO,      /* groups, slices and priority with nearly the shortest iteration found, and few messages */
  TT_POLICIES
};

struct tt_policy {
  enum tt_policy_kind kind;
  uint64_t bytes;       /* of threshold and horovod */
  uint64_t first_bytes; /* of threshold; 0: bytes */
  uint64_t slice;       /* elements: groups are cut into slices of at most so many and sent by priority; 0: neither.
                           Auto tries these beside its own, p3 and fifo have 50,000 for 0 */
  int has_credit;       /* of p3 and fifo; else credit is found by flight.h, which is also auto's */
  uint64_t credit;
};

#define TT_P3_SLICE 50000 /* parameters: best of P3's Figure 12 */

/* From "wfbp", "single", "threshold:BYTES[,FIRST]", "horovod:BYTES", "mgwfbp", "optimal",
 * "p3[:PARAMETERS[,CREDIT]]", "fifo[:PARAMETERS[,CREDIT]]", "auto"; numbers are read by tt_bytes_read. Errors:
 * tuttiInvalidArgument: it is none of these (the sentence says which part is wrong, and what was wanted). */
tuttiResult_t tt_policy_parse(struct tt_policy *policy, const char *text);

/* Makes the plan of this policy; tt_fusion_plan_destroy frees it. The net must be right (tt_model_check).
 *
 * Optimal's iteration, and so auto's, is never longer than that of other runs sent as they come, one at a time;
 * auto's is not longer, either, than p3's with policy->slice, 40,000 or 50,000 elements to a slice. Within that, auto
 * takes fewer messages if this makes an iteration at most a hundredth longer than the shortest one found. So it may be
 * that much longer than p3's with other slices, of which powers of two from 2,048 elements on are tried. If tensors
 * have a spread, all this holds for what tt_fusion_plan_mean has, not for the iteration of this net.
 *
 * Work: optimal takes time with the square of the number of tensors, auto as much again and a bounded number of plays:
 * 1,000 tensors take a few milliseconds. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_plan_make(struct tt_fusion_plan *plan, const struct tt_policy *policy,
                                  const struct tt_model *net, const struct tt_message_cost *cost);

/* NULL and a zeroed plan are allowed. */
void tt_fusion_plan_destroy(struct tt_fusion_plan *plan);

/* ---- an iteration as planned (play.c) -------------------------------------------------------- */

struct tt_played_message {
  int32_t group;
  uint64_t offset, bytes; /* which bytes of the group */
  double start_us, end_us; /* those in flight together overlap */
};

struct tt_played {
  double iteration_us;    /* from the begin of backward to the end of the next forward */
  double messages_end_us; /* when the last message has ended */
  double exposed_us;      /* communication that is not hidden: iteration less backward and forward */
  int64_t nmessages;
  struct tt_played_message *messages; /* in the order sent */
  double *done_us;                    /* by tensor, in forward order: when its last message has ended */
  double *forward_us;                 /* likewise: when forward of its layer begins */
};

/* Plays one iteration of the steady state; tt_played_destroy frees it. Errors: tuttiInvalidUsage: there are more than
 * TT_PLAY_MESSAGES slices; tuttiSystemError: no memory. */
#define TT_PLAY_MESSAGES (1 << 24)
tuttiResult_t tt_fusion_plan_play(struct tt_played *played, const struct tt_fusion_plan *plan,
                                  const struct tt_model *net, const struct tt_message_cost *cost);

/* The same with the messages in the order of an earlier play of this plan, whatever the net and costs of that play
 * were. In this net tensors must be ready in the plan's order. NULL: as above. */
tuttiResult_t tt_fusion_plan_play_as(struct tt_played *played, const struct tt_fusion_plan *plan,
                                     const struct tt_played *order, const struct tt_model *net,
                                     const struct tt_message_cost *cost);
void tt_played_destroy(struct tt_played *played); /* NULL and a zeroed one are allowed */

/* *us is an iteration of this plan, played with this net. It becomes the mean of it and of those with all tensors early
 * and late by their spread (spread.c), in the same order; where no tensor has a spread it stays as it is. Errors:
 * tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_plan_mean(double *us, const struct tt_fusion_plan *plan, const struct tt_model *net,
                                  const struct tt_message_cost *cost);

/* A bound: no plan of any groups, slices, credit and order has a shorter iteration (bound.c). It assumes that any byte
 * can be overtaken, and takes the least time for which a byte of a message holds the links; and it is at least the time
 * of each tensor alone, in a message, with forward from its layer on. There may be no plan that reaches it. Errors:
 * tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_bound(const struct tt_model *net, const struct tt_message_cost *cost, double *iteration_us);

/* The same by tensor, in forward order: in no plan have tensors 0 to l all been there before the latest of done_us[0]
 * to done_us[l]. So it bounds the forwards of several ranks at once: in this net a tensor is ready when it is ready on
 * all of them. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_bound_done(const struct tt_model *net, const struct tt_message_cost *cost, double *done_us);

/* ---- a plan as JSON (print.c) ---------------------------------------------------------------- */

struct tt_planned {
  const char *name; /* of the policy, as it was asked for */
  struct tt_policy policy;
  struct tt_fusion_plan plan;
  struct tt_played played;
  double bound_us; /* no plan of the network can beat that; below 0: not known */
};

/* {"policy": "mgwfbp", "groups": [[3, 2], [1]], "iteration_us": 9, "bound_us": 8}: groups in the order in which their
 * first messages are sent, layers in that in which they are ready. No newline at the end. */
void tt_planned_json(FILE *out, const struct tt_planned *planned);

#endif
