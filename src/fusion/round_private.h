/* SPDX-License-Identifier: BSD-3-Clause */
/* Rounds: all-reduces of some words that ranks join when they want one or hear of one (sequence_private.h).
 *
 * Dissemination (Hensgen, Finkel, Manber 1988): in phase k rank r sends what it has to rank r + 2^k mod P, and adds
 * what comes from r - 2^k; after ceil(log2 P) phases each has all ranks' parts. Adding a part twice changes nothing
 * (tt_sequence_add), so any P will do. A rank that joins sends a *call* to those that it sends to in phases 1 and up,
 * too; who hears of a round joins it, so all know after ceil(log2 P) messages in a row. Rounds are numbered, and a rank
 * is at most one ahead of another. Frames between two ranks come in the order in which they were sent.
 *
 * One place a phase is enough: who sends phase n of the next round has heard in that from 2^n ranks in a row, of which
 * one would still wait in this round if the receiver lacked a phase below n of it.
 *
 * Pure: frames are taken from here and given to here. */
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
  uint64_t number;     /* of the last round that was joined */
  uint64_t step;       /* its */
  int is_open;         /* it is not over */
  int ncalls, nsent, nadded; /* of it: calls and phases sent, phases added */
  uint64_t *sum;       /* of parts */
  uint64_t *came;      /* [nphases] parts that have come; which of them are not added yet: */
  uint8_t has[TT_ROUND_PHASES];
  uint64_t called_step; /* of the next round, of which something was heard; 0: nothing was. Steps count from 1 */
};

/* Parts of at most so many words. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_round_make(struct tt_fusion_round *round, int32_t nranks, int32_t rank, size_t nwords);
void tt_round_destroy(struct tt_fusion_round *round); /* a zeroed one is allowed */

/* The n-th rank, of nphases, that this one sends to, or gets frames from. */
int32_t tt_round_to(const struct tt_fusion_round *round, int n);
int32_t tt_round_from(const struct tt_fusion_round *round, int n);

/* Words of a frame. */
static inline size_t tt_round_frame(const struct tt_fusion_round *round)
{
  return TT_ROUND_PART + round->nwords;
}

/* Somebody has asked for the next round, in this step. */
static inline int tt_round_is_called(const struct tt_fusion_round *round, uint64_t step)
{
  return !round->is_open && round->called_step == step;
}

/* Joins the next round with this part. None is open. */
void tt_round_join(struct tt_fusion_round *round, uint64_t step, const uint64_t *part);

/* The next frame to be sent: 1, and *n is the receiver's place among those that this rank sends to. */
int tt_round_send(struct tt_fusion_round *round, uint64_t *frame, int *n);

/* A frame from the n-th of those that send to this rank. tuttiInternalError: it cannot be one. */
tuttiResult_t tt_round_take(struct tt_fusion_round *round, int n, const uint64_t *frame);

/* 1, once: all parts are in round->sum. */
int tt_round_ends(struct tt_fusion_round *round);

#endif
