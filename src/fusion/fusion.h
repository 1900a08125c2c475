/* SPDX-License-Identifier: BSD-3-Clause */
/* The run time of tensor fusion: tensors are pushed, copied together, sent as planned, and waited for.
 *
 * A fusion has *channels*, communicators of its own made from the user's, and one thread, the *engine*, that alone
 * moves them. Messages of a step are sent in the order of the plan's play, on the channels in turn, each when all its
 * tensors were pushed here and those before it are at their last steps, or have fewer bytes than the plan's credit
 * (planner/flight.h). A rank that is early waits in the collective. If a tensor is late on a rank, or something more
 * urgent is ready, the ranks agree on another order of the rest, in which the messages that are ready on all of them
 * come first (sequence_private.h). So no rank waits for one that waits for it. A message without elements is there as
 * soon as its tensors were pushed.
 *
 * Tensors of a message that lie one after the other in memory are sent from where they lie. Others are copied into a
 * ring of bytes, the fusion buffer, in the order of messages as far as there is room. Each tensor is copied as soon as
 * it is pushed, so that the others are there when the last one comes. Sums are copied out when the message has come.
 * The engine copies in pieces, between looks at the links. Groups longer than half the buffer go in slices that fit, on
 * all ranks alike.
 *
 * Every step is timed: the pushes of tensors, the caller's work between waits, the messages. At the end of some steps
 * the ranks agree on the times: the latest push, the longest forward, the shortest time of a message, which is that of
 * the rank that began it last, because the others waited for that rank. Each makes the same plan from them, and the
 * next step uses it. The cost of messages is the selector's price times measured / priced, by size.
 *
 * Locks: a mutex guards the data that users and the engine share, and is never held while anything is copied or sent.
 * Contracts of the functions: tutti_fusion.h. Its arguments are checked here unless it says otherwise. */
#ifndef TT_FUSION_H
#define TT_FUSION_H

#include "base/base.h"
#include "tutti_fusion.h"

struct tuttiComm;

#define TT_FUSION_MAGIC 0x46757365u

struct tt_fusion_spec {
  struct tuttiComm *comm; /* ready */
  const tuttiFusionTensor_t *tensors;
  int ntensors;
  const tuttiFusionConfig_t *config; /* complete and checked but for policy and buffer_bytes */
  struct tuttiFusion *from;          /* whose state it takes over; NULL: it is a new one. With servers it ends then */
};

tuttiResult_t tt_fusion_create(struct tuttiFusion **out, const struct tt_fusion_spec *spec);
/* move.c; comm is ready. */
tuttiResult_t tt_fusion_move(struct tuttiFusion **fusion, struct tuttiComm *comm);
tuttiResult_t tt_fusion_destroy(struct tuttiFusion *fusion);
tuttiResult_t tt_fusion_abort(struct tuttiFusion *fusion);

struct tt_pushed {
  const void *send;
  void *recv;
  size_t count;
  int type;
  struct tuttiStream *stream;
  void *gpu; /* where the sum goes in the end, if recv only stands for it; else NULL */
};

tuttiResult_t tt_fusion_push(struct tuttiFusion *fusion, int tensor, const struct tt_pushed *pushed);
tuttiResult_t tt_fusion_wait(struct tuttiFusion *fusion, int tensor, int blocks);
tuttiResult_t tt_fusion_wait_all(struct tuttiFusion *fusion);
tuttiResult_t tt_fusion_scale(struct tuttiFusion *fusion, float before, float after);
tuttiResult_t tt_fusion_rate(struct tuttiFusion *fusion, float rate);
tuttiResult_t tt_fusion_overflow(struct tuttiFusion *fusion, int *overflow);
tuttiResult_t tt_fusion_norm(struct tuttiFusion *fusion, int tensor, double *norm);
tuttiResult_t tt_fusion_codec(struct tuttiFusion *fusion, const char *text); /* NULL: none */

struct tt_fusion_state {
  int tensor, plane;
  float *data;
  size_t count;
  int sets; /* 1: the plane is overwritten, 0: it is read */
};

tuttiResult_t tt_fusion_state(struct tuttiFusion *fusion, const struct tt_fusion_state *state);
void tt_fusion_info(struct tuttiFusion *fusion, tuttiFusionInfo_t *info);
tuttiResult_t tt_fusion_print(struct tuttiFusion *fusion, FILE *out, int json);

/* True if it is a fusion. */
int tt_fusion_is(const struct tuttiFusion *fusion);

/* Returns the number of its tensors. */
int tt_fusion_tensors(const struct tuttiFusion *fusion);

#endif
