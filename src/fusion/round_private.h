/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds: all-reduces of a few words. A rank joins a round when it wants one, or when it hears of one
 * (sequence_private.h).
 *
 * The algorithm is dissemination (Hensgen, Finkel, Manber 1988). In phase k rank r sends the sum that it has so far to
 * rank r + 2^k mod P, and adds the sum that comes from rank r - 2^k. After ceil(log2 P) phases each rank has added the
 * parts of all ranks. A part that is added twice changes nothing (tt_sequence_add), so P may be any number.
 *
 * When a rank joins, it also sends a *call* to each rank that it sends to in phases 1 and up. A rank that receives a
 * call or a phase of the next round joins that round, so all ranks know of it after ceil(log2 P) frames one after the
 * other. Rounds are numbered; no rank is more than one ahead of another. Frames between two ranks arrive in the order
 * in which they were sent.
 *
 * A rank keeps one arrived part for each phase, and that is enough. A rank that sends phase n of the next round has
 * heard in it from 2^n ranks in a row. If the receiver still lacked a phase below n of the present round, one of these
 * ranks would lack one, too, and could not have joined the next round.
 *
 * This is pure: the caller moves the frames. */
#ifndef TT_FUSION_ROUND_H
#define TT_FUSION_ROUND_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

#define TT_ROUND_PHASES 31

/* The first words of a frame; a part follows. */
enum { TT_ROUND_NUMBER, TT_ROUND_PHASE, TT_ROUND_STEP, TT_ROUND_PART };

struct tt_fusion_round {
  int32_t nranks, rank, nphases;
  size_t nwords;       /* of a part */
  uint64_t number;     /* of the last round that this rank has joined; 0: none yet */
  uint64_t step;       /* the training step of that round */
  int is_open;         /* 1: that round is not over */
  int ncalls, nsent, nadded; /* in that round: calls sent (phase 0 counts as one), phases sent, phases added */
  uint64_t *sum;       /* of the parts added so far */
  uint64_t *came;      /* the part that has arrived for each phase */
  uint8_t has[TT_ROUND_PHASES]; /* of each phase: 1: a part has arrived that is not added yet */
  uint64_t called_step; /* the training step of the next round, if another rank has asked for it; 0: none has */
};

/* Makes rounds of parts of `nwords` words. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_round_make(struct tt_fusion_round *round, int32_t nranks, int32_t rank, size_t nwords);
void tt_round_destroy(struct tt_fusion_round *round); /* a zeroed one is allowed */

/* The rank to which this one sends phase n, and the rank from which it receives phase n. */
int32_t tt_round_to(const struct tt_fusion_round *round, int n);
int32_t tt_round_from(const struct tt_fusion_round *round, int n);

/* Words of a frame. */
static inline size_t tt_round_frame(const struct tt_fusion_round *round)
{
  return TT_ROUND_PART + round->nwords;
}

/* 1: another rank has asked for the next round, in this step. */
static inline int tt_round_is_called(const struct tt_fusion_round *round, uint64_t step)
{
  return !round->is_open && round->called_step == step;
}

/* Joins the next round with this part. No round is open. */
void tt_round_join(struct tt_fusion_round *round, uint64_t step, const uint64_t *part);

/* Writes the next frame to be sent, which is for rank tt_round_to(round, *n). 0: there is none now. */
int tt_round_send(struct tt_fusion_round *round, uint64_t *frame, int *n);

/* Takes a frame from rank tt_round_from(round, n). Errors: tuttiInternalError: no rank sends such a frame; nothing has
 * changed. */
tuttiResult_t tt_round_take(struct tt_fusion_round *round, int n, const uint64_t *frame);

/* Returns 1 once for each round: when all parts are in round->sum. */
int tt_round_ends(struct tt_fusion_round *round);

#endif
