/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective as data: the schedule of one rank.
 *
 * A schedule is a straight-line program over numbered *blocks*, the cuts of the
 * vector. Block lengths, element type and addresses are bound when it runs, so its
 * size depends on ranks and blocks, never on bytes. An algorithm only writes it;
 * one executor runs it, one verifier proves it. Pure: no clock, no I/O.
 *
 * Places. IN and OUT hold all blocks in order. SCRATCH holds numbered slots, each
 * as large as the largest block; a span of several blocks lies in consecutive slots,
 * packed without gaps, from the start of its first slot. MESSAGE is what arrives next
 * from a rank.
 *
 * Order is derived, never stated. A step may start when every earlier step that
 * touches the same place has finished, if one of the two writes there; IN block b
 * and OUT block b count as the same place, so one schedule serves in-place calls.
 * A message leaves in program order per (peer, channel), and is received in program
 * order per (peer, channel). A send is finished when its source may be overwritten.
 * At most TT_WINDOW consecutive steps, from the oldest unfinished one on, are under
 * way at once. Messages of length 0 (empty blocks) are not sent: both sides know.
 *
 * What a generator must respect, and the verifier proves for all ranks together,
 * assuming that messages have no buffer at all (a send finishes only while the step
 * that receives it is started) and the window above:
 *  - no rank waits for ever, and every message sent is received, with equal blocks;
 *  - nothing is read that was not written; IN is never written, and IN block b is
 *    not read after OUT block b was written (it may be the same memory);
 *  - at the end every OUT block holds each rank's contribution exactly once, combined
 *    in the same tree on all ranks, so that they get the same bits;
 *  - operands stand in rank order, by the lowest rank that each holds;
 *  - several messages of one step are taken together, so all must be able to come; a
 *    step that takes messages and sends has a dst, and has taken them once they are there;
 *  - `raw` and `final` (below) are set where they are true and nowhere else. */
#ifndef TT_SCHED_H
#define TT_SCHED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"

#define TT_WINDOW 64          /* steps under way at once */
#define TT_MAX_SOURCES 16     /* operands of a step */

enum tt_place { TT_NOWHERE, TT_IN, TT_OUT, TT_SCRATCH, TT_MESSAGE };

struct tt_operand {
  uint8_t place; /* enum tt_place */
  uint8_t raw;   /* sources: one rank's unreduced input, which avg still has to scale */
  int32_t at;    /* IN, OUT: first block; SCRATCH: first slot; MESSAGE: the rank it comes from */
};

/* Combines `nsrc` sources, first to last (((s0 + s1) + s2) + ...), over blocks
 * [first, first + nblocks) and puts the result into `dst` and / or into one message
 * to each of `nto` peers. One source: a send, a receive or a copy. At least one of
 * dst and to. At most one source is a MESSAGE from any one (peer, channel). */
struct tt_step {
  int32_t first, nblocks; /* the blocks the step is about: they give its length */
  uint8_t channel;
  uint8_t is_final;       /* a reduction after which every rank's contribution is in */
  uint16_t nsrc, nto;
  int32_t src;            /* index of the first source in schedule.operands */
  int32_t to;             /* index of the first peer in schedule.peers */
  struct tt_operand dst;  /* IN and MESSAGE are illegal; NOWHERE: none */
};

/* What an algorithm is asked for. */
struct tt_shape {
  int32_t nranks, rank;
  int32_t nblocks;  /* cuts of the vector, >= 1; any number must work, the natural one is best */
  int32_t root;     /* -1: none */
  int32_t radix;    /* 0: the algorithm's default */
};

struct tt_schedule {
  struct tt_shape shape;
  int32_t nsteps, noperands, npeers;
  int32_t nslots; /* scratch slots used: highest used + 1 */
  struct tt_step *steps;
  struct tt_operand *operands;
  int32_t *peers;
  int32_t step_room, operand_room, peer_room;
  tuttiResult_t error; /* sticky: after the first error the builder does nothing */
};

/* ---- build (build.c) ------------------------------------------------------------- */

/* An empty schedule; destroy it also after errors. destroy accepts a zeroed one. */
void tt_schedule_init(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_schedule_destroy(struct tt_schedule *schedule);

struct tt_blocks {
  int32_t first, n;
};

static inline struct tt_operand tt_in(int32_t block)
{
  return (struct tt_operand){TT_IN, 1, block};
}
static inline struct tt_operand tt_out(int32_t block)
{
  return (struct tt_operand){TT_OUT, 0, block};
}
static inline struct tt_operand tt_scratch(int32_t slot)
{
  return (struct tt_operand){TT_SCRATCH, 0, slot};
}
static inline struct tt_operand tt_message(int32_t peer)
{
  return (struct tt_operand){TT_MESSAGE, 0, peer};
}
static inline struct tt_operand tt_raw(struct tt_operand operand)
{
  operand.raw = 1;
  return operand;
}

/* Appends a step; its src and to are filled in. 0 blocks append nothing. The general
 * form; the ones below are shorthands, on channel 0. The step is checked: an error is
 * tuttiInternalError in schedule->error with the step and the reason as last sentence.
 * A dst that overlaps a source without being equal to it is an error. */
void tt_add(struct tt_schedule *schedule, const struct tt_step *step,
            const struct tt_operand *sources, const int32_t *peers);
void tt_send(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand from,
             int32_t to);
void tt_recv(struct tt_schedule *schedule, struct tt_blocks blocks, int32_t from,
             struct tt_operand dst);
void tt_copy(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand from,
             struct tt_operand dst);
/* dst = a + b, in this order. */
void tt_reduce2(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand a,
                struct tt_operand b, struct tt_operand dst, int is_final);

/* Elements of `count` in block `block` of nblocks, and where it starts: the first
 * count % nblocks blocks have one element more than the others. */
static inline size_t tt_block_start(size_t count, int32_t nblocks, int32_t block)
{
  size_t each = count / (size_t)nblocks, more = count % (size_t)nblocks, b = (size_t)block;
  return each * b + (b < more ? b : more);
}
static inline size_t tt_blocks_count(size_t count, int32_t nblocks, int32_t first, int32_t n)
{
  return tt_block_start(count, nblocks, first + n) - tt_block_start(count, nblocks, first);
}

/* ---- order (order.c) ------------------------------------------------------------- */

/* What step i waits for, among the TT_WINDOW - 1 steps before it: bit k stands for
 * step i - 1 - k. Steps further back are finished by the rule of the window. */
struct tt_order {
  uint64_t finished; /* these must have finished (same place, one writes) */
  uint64_t started;  /* these must have handed over / taken all their bytes: the order of messages
                        on a (peer, channel), in each direction; to wait until they are finished
                        is slower but right, and what the verifier does */
};

/* Fills order[0 .. nsteps - 1]. */
void tt_order_derive(const struct tt_schedule *schedule, struct tt_order *order);

/* ---- text (print.c, parse.c) ----------------------------------------------------- */

/* Writes the schedule as text, one step a line after a header line, e.g.
 *   schedule ranks 2 rank 1 blocks 2 scratch 0 steps 4
 *     0  send    [0,1)  in:0 -> rank 0
 *     1  reduce  [1,2)  raw msg:0 + in:1 -> out:1  final
 *     2  send    [1,2)  out:1 -> rank 0
 *     3  recv    [0,1)  msg:0 -> out:0
 * IN is raw without saying so; root, radix, channel and final are shown where they are
 * set. tt_schedule_parse reads the same text back; the initialised (or zeroed) schedule
 * gets the shape of the header, and keeps what it has if the text is wrong, which is
 * tuttiInvalidArgument naming line and reason. Printing what was parsed gives the same
 * text. */
tuttiResult_t tt_schedule_print(const struct tt_schedule *schedule, FILE *out);
tuttiResult_t tt_schedule_parse(struct tt_schedule *schedule, FILE *in);

/* ---- cost and proof (cost.c, verify.c) ------------------------------------------- */

/* What one rank does, in blocks rather than elements; summed over its steps. */
struct tt_cost {
  int64_t messages;   /* sent */
  int64_t blocks;     /* sent, over all messages */
  int64_t reductions; /* blocks combined with one more source */
  int64_t slots;      /* scratch */
};

void tt_schedule_cost(const struct tt_schedule *schedule, struct tt_cost *cost);

/* Makes the schedule of one rank on demand; the verifier calls it for every rank and
 * destroys what it gets. */
typedef void (*tt_generate_fn)(struct tt_schedule *schedule, const struct tt_shape *shape,
                               void *context);

/* Proves the properties in the head of this file for an all-reduce of shape->nranks
 * ranks (shape->rank is ignored), blocks all of one element. Returns tuttiSuccess, or
 * tuttiInternalError with the complaint (rank, step, reason) in `complaint`. Time and
 * memory: ring, 1,024 ranks: a few seconds, under 2 GiB. */
tuttiResult_t tt_verify_all_reduce(const struct tt_shape *shape, tt_generate_fn generate,
                                   void *context, char *complaint, size_t complaint_size);

#endif
