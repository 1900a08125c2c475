/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of any collective whose results are known exactly, drawn alike on all ranks; by the public interface alone. */
#ifndef EXACT_H
#define EXACT_H

#include <stdint.h>

#include "tutti.h"
#include "tutti_fusion.h"

enum exact_kind {
  EXACT_ALL_REDUCE,
  EXACT_REDUCE,
  EXACT_BROADCAST,
  EXACT_ALL_GATHER,
  EXACT_REDUCE_SCATTER,
  EXACT_ALL_TO_ALL,
  EXACT_GATHER,
  EXACT_SCATTER,
  EXACT_BARRIER,
  EXACT_KINDS
};

struct exact {
  enum exact_kind kind;
  int root;
  size_t count; /* elements of a share */
  uint64_t salt;
};

/* At most `most` elements in a share. Buffers have room for a share of each rank. */
void exact_draw(struct exact *call, uint64_t *chance, int nranks, size_t most);
void exact_fill(const struct exact *call, int nranks, int rank, int64_t *in);
tuttiResult_t exact_call(const struct exact *call, const int64_t *in, int64_t *out, tuttiComm_t comm,
                         tuttiStream_t stream);

/* 1 if the rank has the result that it must have. */
int exact_is_right(const struct exact *call, int nranks, int rank, const int64_t *out);

/* ---- several things at once, by one rank ---- */

enum { EXACT_CALLS = 3, EXACT_TENSORS = 3 };

struct exact_room {
  tuttiComm_t comm;
  int nranks, rank;
  size_t most;
  size_t seldom; /* only one share in so many is longer than 1,000 elements; 0: as chance has it */
  int64_t *in[EXACT_CALLS], *out[EXACT_CALLS];
  char wrong[256]; /* what was wrong first; "": nothing */
};

/* Shares of at most `most` elements. 0: no memory. Freed by exact_room_free. */
int exact_room_make(struct exact_room *room, int nranks, int rank, size_t most);
void exact_room_free(struct exact_room *room);

/* The following draw the same on all ranks, and return the first error. Results are looked at where there is none. */

/* n calls (at most EXACT_CALLS), in a group with a send and a receive or not, on a stream or not. */
tuttiResult_t exact_calls(struct exact_room *room, uint64_t *chance, int n, int in_group, tuttiStream_t stream);

/* A message with a tag to the next rank, and one from the last. */
tuttiResult_t exact_message(struct exact_room *room, uint64_t *chance);

/* One step of a fusion of these tensors; most must be their longest. */
extern const tuttiFusionTensor_t exact_tensors[EXACT_TENSORS];
tuttiResult_t exact_step(struct exact_room *room, tuttiFusion_t fusion);

#endif
