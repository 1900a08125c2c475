/* SPDX-License-Identifier: BSD-3-Clause */
/* A collective as data: the schedule of one rank.
 *
 * A schedule is a straight-line program over numbered *blocks*. The data of a collective are
 * one *share* (all-reduce, reduce, broadcast) or one for each rank (the others), all of the same
 * length, in the order of the ranks; each share is cut into `nblocks` blocks, so share s is blocks
 * [s nblocks, (s + 1) nblocks). Block lengths, element type and addresses are bound when it runs, so its
 * size depends on ranks and blocks, never on bytes. An algorithm only writes it;
 * one executor runs it, one verifier (tools/schedule) proves it. Pure: no clock, no I/O.
 *
 * Places. IN and OUT are numbered by block. The parts of them that exist (tt_kinds):
 *                    IN                    OUT                   IN b and OUT b
 *   all-reduce       all                   all                   may be the same memory
 *   reduce           all                   all, on root          may be
 *   broadcast        all, on root          all                   may be
 *   reduce-scatter   all                   own share             may be
 *   all-gather       own share             all                   may be
 *   gather           own share             all, on root          may be
 *   scatter          all, on root          own share             may be
 *   all-to-all       all: share r is       all: share r comes    never are
 *                    for rank r            from rank r
 * SCRATCH holds numbered slots, each as large as the largest block; a span of several blocks
 * lies in consecutive slots, packed without gaps, from the start of its first slot, and is read only as it was
 * written. If each rank has a share of one block, slots follow one another without gaps, so spans may be put together
 * from others and taken apart. MESSAGE is the next message from a rank.
 *
 * A span of blocks [first, first + nblocks) may go over the end: it goes on at block 0. So ranks that each count from
 * their own part on send one message a round. (If such a span were two, 64 ranks would send 441 messages in a circulant
 * all-gather instead of 384, the one with most 11 instead of 6, and shares of 64 KiB would take 1.22 times as long in
 * simulation; shares of 128 bytes between 4 ranks take 1.16 times as long over TCP on one host.) If a
 * step names another block than `first` in IN or OUT, or different ones at the two ends of a
 * message, the two must differ by whole shares, so that the lengths are the same.
 *
 * Shares of unequal lengths (all-gather, reduce-scatter). A schedule in which a share is one block also serves shares
 * of any lengths, also of none, if blocks of other shares never stand in for each other: steps name block `first` in IN
 * and OUT, and the same one at both ends of a message. Slots are then as long as what they hold if each holds one and
 * the same share in all steps (tt_slot_shares); else they are as long as the longest share, and spans of several are
 * neither put together nor taken apart. The verifier proves it for all lengths at once; all algorithms of the two
 * collectives have it.
 *
 * Order is derived, never stated. A step may start when every earlier step that
 * touches the same place has finished, if one of the two writes there; IN block b
 * and OUT block b count as the same place where they may be the same memory, so one schedule
 * serves in-place calls.
 * A message leaves in program order per (peer, channel), and is received in program
 * order per (peer, channel). A send is finished when its source may be overwritten.
 * At most TT_WINDOW consecutive steps, from the oldest unfinished one on, are under
 * way at once. Messages of length 0 (empty blocks) are not sent: both sides know.
 *
 * A generator must respect these rules, which the verifier proves for all ranks together, assuming that messages have
 * no buffer at all (a send finishes only while the step that receives it is started) and the window above:
 *  - no rank waits for ever, and every message sent is received, with equal blocks;
 *  - nothing is read that was not written; IN is never written, and IN block b is
 *    not read after OUT block b was written where that may be the same memory;
 *  - at the end every OUT block that exists holds the result of the collective: if it reduces, each rank's contribution
 *    exactly once, combined in the same tree on all ranks, so that they get the same bits; else the block of the right
 *    rank;
 *  - operands stand in rank order: the first one of a step holds the lowest rank that any of them holds (so a
 *    chain of sums in rank order is still one when a pass makes it one step);
 *  - several messages of one step are taken together, so all must be able to come; a
 *    step that takes messages and sends has a dst, and has taken them once they are there.
 *
 * The contribution of a rank to a sum may be scaled (avg, pre-multiplied sums): the executor does that whenever it
 * reads IN. So a step has at most one IN source. */
#ifndef TT_SCHED_H
#define TT_SCHED_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "base/base.h"
#include "base/call.h"

#define TT_WINDOW 64          /* steps under way at once */
#define TT_MAX_SOURCES 1024   /* operands of a step */
#define TT_MAX_LEVELS 4

enum tt_place { TT_NOWHERE, TT_IN, TT_OUT, TT_SCRATCH, TT_MESSAGE };

struct tt_operand {
  uint8_t place; /* enum tt_place */
  int32_t at;    /* IN, OUT: first block; SCRATCH: first slot; MESSAGE: the rank it comes from */
};

/* Combines `nsrc` sources, first to last (((s0 + s1) + s2) + ..., rounded once), over blocks
 * [first, first + nblocks) and puts the result into `dst` and / or into one message
 * to each of `nto` peers. One source: a send, a receive or a copy. A step has at least one of dst and to. At most one
 * source is a MESSAGE from any one (peer, channel). */
struct tt_step {
  int32_t first, nblocks; /* the blocks the step is about: they give its length */
  uint8_t channel;
  uint16_t nsrc, nto;
  int32_t src;            /* index of the first source in schedule.operands */
  int32_t to;             /* index of the first peer in schedule.peers */
  struct tt_operand dst;  /* IN and MESSAGE are illegal; NOWHERE: none */
};

/* ---- what a schedule is for: a row of tt_kinds (base/collectives.h), a shape ---------------- */

/* Nested groups of ranks that are near each other. group[l][rank]: number of the rank's group at level l, from 0 by
 * first appearance; level 0 is the innermost. */
struct tt_groups {
  int32_t nlevels;
  const int32_t *group[TT_MAX_LEVELS];
};

/* The task that an algorithm makes a schedule for. */
struct tt_shape {
  int collective;   /* enum tt_collective */
  int32_t nranks, rank;
  int32_t nblocks;  /* blocks of a share, >= 1; any number must work, the natural one is best */
  int32_t root;     /* -1: none */
  int32_t radix;    /* 0: the algorithm's default; more than nranks: nranks */
  int32_t middle;   /* of hierarchical ones: the algorithm among the leaders, index into tt_algos; -1: the default */
  const struct tt_groups *groups; /* NULL: the algorithm makes groups near the square root of nranks */
};

/* Blocks of all shares together. */
static inline int32_t tt_shape_blocks(const struct tt_shape *shape)
{
  return tt_kinds[shape->collective].is_shared ? shape->nranks * shape->nblocks : shape->nblocks;
}

/* Blocks [*start, *end) of IN or OUT (cover: tt_kinds[].in or out) are there for shape->rank. */
void tt_cover_range(const struct tt_shape *shape, int cover, int32_t *start, int32_t *end);

struct tt_schedule {
  struct tt_shape shape;
  int32_t nsteps, noperands, npeers;
  int32_t nslots; /* scratch slots used: highest used + 1 */
  int32_t keep_from, keep; /* keep > 0: only steps keep_from .. keep_from + keep - 1 are kept, the others are counted */
  int32_t total;  /* steps appended, kept or not */
  struct tt_step *steps;
  struct tt_operand *operands;
  int32_t *peers;
  int32_t step_room, operand_room, peer_room;
  tuttiResult_t error; /* sticky: after the first error the builder does nothing */
};

/* ---- build (build.c) ------------------------------------------------------------- */

/* Makes an empty schedule; destroy it also after errors. destroy accepts a zeroed one. */
void tt_schedule_init(struct tt_schedule *schedule, const struct tt_shape *shape);
void tt_schedule_destroy(struct tt_schedule *schedule);

struct tt_blocks {
  int32_t first, n;
};

static inline struct tt_operand tt_in(int32_t block)
{
  return (struct tt_operand){TT_IN, block};
}
static inline struct tt_operand tt_out(int32_t block)
{
  return (struct tt_operand){TT_OUT, block};
}
static inline struct tt_operand tt_scratch(int32_t slot)
{
  return (struct tt_operand){TT_SCRATCH, slot};
}
static inline struct tt_operand tt_message(int32_t peer)
{
  return (struct tt_operand){TT_MESSAGE, peer};
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
                struct tt_operand b, struct tt_operand dst);

/* The start of block `block` of nblocks in a share of `count` elements, and the elements of `n` blocks from `first` on.
 * The first count % nblocks blocks have one element more than the others. */
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

/* The steps that step i waits for, among the TT_WINDOW - 1 steps before it: bit k stands for step i - 1 - k. Steps
 * further back are finished by the rule of the window. */
struct tt_order {
  uint64_t finished; /* these must have finished (same place, one writes) */
  uint64_t started;  /* these must have handed over / taken all their bytes: the order of messages
                        on a (peer, channel), in each direction; waiting until they are finished
                        is slower but right, and the verifier does so */
};

/* Fills order[0 .. nsteps - 1]. */
void tt_order_derive(const struct tt_schedule *schedule, struct tt_order *order);

/* ---- slots (slots.c) --------------------------------------------------------------- */

/* Finds the share that each slot holds, where a share is one block: share[nslots], -1 for a slot that no step uses.
 * Returns 0 if a slot holds several shares, one after the other. */
int tt_slot_shares(const struct tt_schedule *schedule, int32_t *share);

/* ---- one schedule inside another (embed.c) ---------------------------------------- */

/* The places of a smaller schedule in a larger one. */
struct tt_embedding {
  const int32_t *ranks;  /* rank of the smaller -> rank of the larger; NULL: the same */
  int32_t first;         /* block 0 of the smaller is this one of the larger */
  enum tt_place in;      /* its IN: TT_IN, TT_OUT or TT_SCRATCH */
  enum tt_place out;     /* its OUT: TT_OUT or TT_SCRATCH */
  int32_t in_slot, out_slot; /* if that is scratch: the slot of its block 0 */
  int32_t slot;          /* its slot 0 */
  int32_t channel;       /* its channel 0 */
};

/* Appends the steps of `inner`, which has kept all of them, for the rank that map->ranks maps to the schedule's rank.
 * Its blocks are consecutive ones of the larger schedule, which knows no shares of inner: each step of inner must be
 * about the same blocks in all its operands and at both ends of its messages (so not all-to-all), and put no spans of
 * scratch together. Unless there are as many blocks in both, a step that goes over the end of inner's becomes two
 * (messages too, at both ends alike). If IN and OUT of inner become one place, nothing is copied from one to the other.
 * If IN or OUT becomes scratch, spans of several blocks are packed there, so inner must read what it or its caller
 * wrote in the same spans. Errors: schedule->error. */
void tt_embed(struct tt_schedule *schedule, const struct tt_schedule *inner, const struct tt_embedding *map);

/* ---- passes (pass_*.c): the same collective, written better ------------------------
 *
 * Each rewrites a whole schedule of one rank in place, knowing nothing of the others', and is applied on all ranks
 * alike. Errors: schedule->error. Slots that no step uses any more are numbered away. They require of a generator that
 * its schedules also run to their end when each rank takes its messages in the order of its program, in half the window
 * (pass_private.h says where that is needed). Every row of tt_algos is proved after them. */

/* Several sources at once: a chain of reductions whose middle results nothing else needs becomes one step with more
 * sources (rounded once instead of each time); neighbouring sends of one span become one step to several peers. */
void tt_pass_merge(struct tt_schedule *schedule);

/* Receive-and-reduce (or receive-and-copy) as one step: a message that is received into scratch only to be a source of
 * one later step is taken by that step, if no other message is waited for in between but those that the step takes too,
 * and the step waits for no send that the receive did not wait for. After tt_pass_merge it finds more. */
void tt_pass_fuse(struct tt_schedule *schedule);

/* The same on `nchannels` channels side by side: each block is cut into that many blocks, and each step into that many
 * steps, of which the one on channel c has the c-th run of the blocks of its span. The schedule must use channel 0
 * only, run to its end in a window of TT_WINDOW / nchannels, and read spans of scratch as they were written. */
void tt_pass_channels(struct tt_schedule *schedule, int32_t nchannels);

/* Renumbers ranks: rank p is called order[p] from now on; order is a permutation. Only for collectives of one share.
 * shape.groups becomes NULL. */
void tt_pass_order(struct tt_schedule *schedule, const int32_t *order);

/* ---- generators and their cost ------------------------------------------------------ */

/* The work of one rank, in blocks rather than elements, summed over its steps. */
struct tt_cost {
  int64_t messages;   /* sent */
  int64_t blocks;     /* sent, over all messages */
  int64_t reductions; /* blocks combined with one more source */
  int64_t slots;      /* scratch */
  int64_t rounds;     /* of all ranks together: the longest chain of messages of which each needs the one before */
};

/* Makes the schedule of one rank on demand; the caller destroys it. */
typedef void (*tt_generate_fn)(struct tt_schedule *schedule, const struct tt_shape *shape,
                               void *context);

#endif
