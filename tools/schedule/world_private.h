/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: all ranks of a collective during a proof. */
#ifndef TT_SCHEDULE_WORLD_H
#define TT_SCHEDULE_WORLD_H

#include "schedule/proof_private.h"
#include "schedule/value_private.h"

/* The contents of a block of memory, or of a message. */
struct tt_cell {
  int32_t value; /* 0: nothing */
  int32_t share; /* of which share of its ranks' IN it is made */
  int32_t depth; /* messages that one after the other were needed for it */
};

/* A scratch slot. A span is packed from the start of its first slot, so only a span
 * that begins at the same slot, with the same block, finds what was written. */
struct tt_slot {
  struct tt_cell cell;
  int32_t block; /* as the writing step called it; another share's is as good */
  int32_t begin; /* first slot of the span it was written with */
};

enum tt_stand {
  TT_WAITING,  /* for the window or for earlier steps */
  TT_STARTED,  /* for its messages */
  TT_OFFERING, /* has them, its result is in dst; waits until its own messages are taken */
  TT_FINISHED
};

/* One rank. Arrays beside those of the schedule have the same index. */
struct tt_actor {
  struct tt_schedule schedule;
  struct tt_order *order;
  uint8_t *stand;    /* by step: enum tt_stand */
  int32_t *untaken;  /* by step: its messages that nobody took yet */
  int32_t *taker;    /* by schedule.peers: the step of that peer that takes it */
  int32_t *giver;    /* by schedule.operands: for a MESSAGE, the step of that rank that sends it */
  struct tt_cell *out; /* blocks out_start .. out_end - 1 of OUT */
  int32_t out_start, out_end;
  struct tt_slot *slots;
  int slots_are_full;  /* spans of slots can be put together and taken apart */
  int32_t oldest;    /* first unfinished step */
  uint64_t finished; /* bit 63 - j: step oldest + j */
  int is_queued;
  int32_t next;      /* in the queue of ranks that may be able to go on */
};

struct tt_world {
  struct tt_shape shape;
  const struct tt_kind *kind;
  int32_t nblocks;         /* of all shares */
  struct tt_actor *actors; /* by rank */
  struct tt_values *values;
  int32_t *position;       /* by rank: its number in values */
  struct tt_cell *result;  /* by block: of the step at hand */
  struct tt_proof *proof;
  int32_t queue_first, queue_last; /* -1: empty */
};

/* Writes "rank R, step S: ..." (no step if it is -1) and returns tuttiInternalError. */
tuttiResult_t tt_complain(struct tt_world *world, int32_t rank, int32_t step, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/* Fills taker and giver of all actors, or complains about a message without other end
 * or with other blocks there (match.c). */
tuttiResult_t tt_world_match(struct tt_world *world);

/* Fills world->result with what the step gives for each of its blocks, and checks what
 * it reads and the order of its sources (memory.c). */
tuttiResult_t tt_step_evaluate(struct tt_world *world, int32_t rank, int32_t step);

/* Puts world->result into dst of the step (memory.c). */
void tt_step_store(struct tt_world *world, int32_t rank, int32_t step);

#endif
