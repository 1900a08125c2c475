/* SPDX-License-Identifier: BSD-3-Clause */
/* Coded reductions from inside: coded.c has the acts and the places of codes, turn.c what an owner does. */
#ifndef TT_COMM_CODED_PRIVATE_H
#define TT_COMM_CODED_PRIVATE_H

#include "comm/coded.h"
#include "comm/private.h"

/* An update has SUM and NORMS, too, and one that gives weights back begins with LAY, TURN, GATHER. */
enum tt_coded_act { PREPARE, FACTS, LAY, ENCODE, EXCHANGE, SUM, NORMS, TURN, GATHER, DECODE, OVER };

/* A part and what follows from it. */
struct tt_coded_laid {
  struct tt_coded_part part;
  struct tt_codec_facts facts;
  uint64_t unit;
  uint64_t unit_bytes[2]; /* code of a whole unit, by stage */
  uint32_t capacity;
  struct tt_norm norms[2];  /* of an update with norms: of this rank's shares of the gradient and of the weights; */
  double squares[2];        /* their squares, of all ranks */
};

/* Elements of one part that have one owner, and the places of their codes in the owner's shares, by stage. */
struct tt_coded_place {
  struct tt_coded_laid *laid;
  struct tt_codec_piece piece;
  uint64_t skip; /* elements of the part before them */
  uint64_t own;  /* likewise, of all parts, that this rank owns */
  int owner;
  uint64_t at[2], bytes[2];
};

struct tt_coded {
  struct tt_coded_spec spec;
  struct tt_coded_update update; /* if spec.update, which is this then */
  enum tt_coded_act act;
  int is_moving; /* 1: the act was started on the run */
  int nranks, rank, overflow;
  int part;      /* the next place: in this part, */
  uint64_t next; /* behind so many elements of it, */
  uint64_t own;  /* and behind so many elements that this rank owns */
  uint64_t *used[2]; /* by stage and owner: bytes of its share before the next place */
  size_t *counts[2], *starts[2]; /* likewise: bytes of its share as it travels, and of all shares before it */
  size_t total[2];   /* by stage: of all shares */
  int has_pairs;     /* of a numbered one: the communicator has no other messages between pairs */
  int is_even[2];    /* by stage: shares travel as long as the longest one */
  struct tt_shares shares; /* of the act, if they are not */
  uint64_t longest;  /* elements of a place, at most */
  uint64_t owned;    /* elements of all places that this rank owns */
  struct tt_coded_laid *laid;
};

/* The place of a contribution that came from a rank: each has sent as much as the others. */
static inline uint8_t *tt_coded_received(const struct tt_coded *coded, const struct tt_coded_place *place,
                                         const struct tt_codes *codes, int rank)
{
  return (uint8_t *)codes->received.memory + (size_t)rank * coded->counts[0][coded->rank] + place->at[0];
}

/* For an update, adds up the contributions of a place; and does the owner's turn. Nothing if another rank owns it.
 * Errors: tuttiRemoteError: a code is damaged; those of the update. */
tuttiResult_t tt_coded_place_sum(struct tt_coded *coded, const struct tt_coded_place *place,
                                 const struct tt_codes *codes);
tuttiResult_t tt_coded_place_turn(struct tt_coded *coded, const struct tt_coded_place *place,
                                  const struct tt_codes *codes);

/* Writes the weights that have come to the part's `out`. */
void tt_coded_weights_read(struct tt_coded *coded, const struct tt_coded_place *place, const uint8_t *from);

/* The norms that this rank tells the others, 2 for each part, and those that it has heard. */
void tt_coded_norms_tell(const struct tt_coded *coded, double *told);
void tt_coded_norms_take(struct tt_coded *coded, const double *told);

/* Adds a code that came. Errors: tuttiRemoteError: it is damaged. */
tuttiResult_t tt_coded_place_add(const struct tt_coded_place *place, enum tt_codec_stage stage, int rank,
                                 const uint8_t *code, float *sum);

#endif
