/* SPDX-License-Identifier: BSD-3-Clause */
/* All-to-all: each share goes straight to its rank, or all shares go in few messages by way of other ranks.
 *
 * Bruck, Ho, Kipnis, Upfal and Weathersby, "Efficient algorithms for all-to-all communications in multiport
 * message-passing systems", IEEE TPDS 8(11), 1997. With P ranks and n elements of a share
 *   direct  in step s = 1 .. P - 1 each rank sends the share for the rank s after it and receives that of the rank s
 *           before it: P - 1 messages of n elements, no scratch, one round;
 *   bruck   the share for the rank j after it goes there by way of the ranks at the sums of the bits of j, from the
 *           lowest one on: in round k = 1, 2, 4, .. all shares with bit k in j go k ranks on in one message. That is
 *           ceil(log2 P) messages, m(k) n elements each, m(k) of 1 .. P - 1 having bit k (P / 2 for powers of two);
 *           scratch 2 max m(k) n, less where rounds need no packing or unpacking; no share takes more than
 *           floor(log2 P) hops, which is the number of rounds.
 * A share in transit waits in OUT, in the place of the share that ends up there, which comes from the rank j before. A
 * message is packed in scratch, shares with higher j first, so that neighbours in the message are neighbours in OUT as
 * well. Bruck is made for shares of one block; with more blocks each share is a message of its own. Any P, any n; IN
 * and OUT are different memory. */
#include "algos/shares_private.h"
#include "algos/table_private.h"

static struct tt_operand in_share(const struct tt_shape *shape, int32_t distance)
{
  return tt_in(tt_shares(shape, distance, 1).first);
}

static struct tt_operand out_share(const struct tt_shape *shape, int32_t distance)
{
  return tt_out(tt_shares(shape, distance, 1).first);
}

void tt_direct_all_to_all_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  for (int32_t s = 1; s < shape->nranks; s++) {
    tt_send(schedule, tt_shares(shape, s, 1), in_share(shape, s), tt_rank_at(shape, s));
    tt_recv(schedule, tt_shares(shape, -s, 1), tt_rank_at(shape, -s), out_share(shape, -s));
  }
  tt_copy(schedule, tt_shares(shape, 0, 1), in_share(shape, 0), out_share(shape, 0));
}

void tt_direct_all_to_all_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  *cost = (struct tt_cost){.messages = shape->nranks - 1, .rounds = shape->nranks > 1};
  cost->blocks = cost->messages * shape->nblocks;
}

/* How many numbers from 1 to nranks - 1 have bit k. */
static int32_t with_bit(int32_t nranks, int32_t k)
{
  int32_t rest = nranks % (2 * k);
  return nranks / (2 * k) * k + (rest > k ? rest - k : 0);
}

/* A run of consecutive j with bit k. Runs are visited from the highest down; each but the highest has k members. */
struct run {
  int32_t low, n; /* j = low .. low + n - 1 */
  int32_t slot;   /* where the highest j lies in scratch, in shares */
};

static struct run run_first(int32_t nranks, int32_t k)
{
  int32_t low = (nranks - 1 - k) / (2 * k) * 2 * k + k;
  return (struct run){low, low + k < nranks ? k : nranks - low, 0};
}

static struct run run_next(struct run run, int32_t k)
{
  return (struct run){run.low - 2 * k, k, run.slot + run.n};
}

/* Copies shares that are consecutive at the source and at the destination. */
static void shares_copy(struct tt_schedule *schedule, struct tt_blocks blocks, struct tt_operand from,
                        struct tt_operand to)
{
  const struct tt_shape *shape = &schedule->shape;
  int32_t each = tt_shares_at_once(shape, blocks.n / shape->nblocks) * shape->nblocks;
  int32_t all = tt_shape_blocks(shape);
  if (blocks.n == 0) return;
  for (int32_t i = 0; i < blocks.n; i += each) {
    struct tt_operand a = from, b = to;
    a.at = a.place == TT_SCRATCH ? a.at + i : (a.at + i) % all;
    b.at = b.place == TT_SCRATCH ? b.at + i : (b.at + i) % all;
    tt_copy(schedule, (struct tt_blocks){(blocks.first + i) % all, each}, a, b);
  }
}

/* Scratch, in shares: `pack` for the message to send, from slot 0 on, and after it `unpack` for the message
 * received. */
struct room {
  int32_t pack, unpack;
};

static struct room room(const struct tt_shape *shape)
{
  struct room most = {0, 0};
  for (int32_t k = 1; k < shape->nranks; k *= 2) {
    int32_t n = with_bit(shape->nranks, k);
    if (n > 1 && n > most.pack) most.pack = n;
    if (3 * k < shape->nranks && n > most.unpack) most.unpack = n;
  }
  return most;
}

/* The lowest share of a run has not moved yet and is in IN; the others have moved and are in OUT. */
static void pack(struct tt_schedule *schedule, const struct tt_shape *shape, int32_t k)
{
  for (struct run run = run_first(shape->nranks, k); run.low > 0; run = run_next(run, k)) {
    int32_t moved = run.n - 1, high = run.low + moved;
    struct tt_operand to = tt_scratch(run.slot * shape->nblocks), last = tt_scratch(to.at + moved * shape->nblocks);
    shares_copy(schedule, tt_shares(shape, -high, moved), out_share(shape, -high), to);
    tt_copy(schedule, tt_shares(shape, run.low, 1), in_share(shape, run.low), last);
  }
}

static void unpack(struct tt_schedule *schedule, const struct tt_shape *shape, int32_t k, int32_t slot)
{
  for (struct run run = run_first(shape->nranks, k); run.low > 0; run = run_next(run, k)) {
    int32_t high = run.low + run.n - 1;
    shares_copy(schedule, tt_shares(shape, -high, run.n), tt_scratch((slot + run.slot) * shape->nblocks),
                out_share(shape, -high));
  }
}

/* Sends the packed message, or its only share, and receives as many shares: a single run directly in its place. */
static void exchange(struct tt_schedule *schedule, const struct tt_shape *shape, int32_t k, int32_t slot)
{
  int32_t n = with_bit(shape->nranks, k), each = tt_shares_at_once(shape, n);
  int is_single = 3 * k >= shape->nranks;
  for (int32_t i = 0; i < n; i += each) {
    struct tt_blocks sent = tt_shares(shape, k, each), taken = sent;
    struct tt_operand to = tt_scratch((slot + i) * shape->nblocks);
    if (is_single) {
      taken = tt_shares(shape, i - (k + n - 1), each);
      to = tt_out(taken.first);
    }
    tt_send(schedule, sent, n == 1 ? in_share(shape, k) : tt_scratch(i * shape->nblocks), tt_rank_at(shape, k));
    tt_recv(schedule, taken, tt_rank_at(shape, -k), to);
  }
  if (!is_single) unpack(schedule, shape, k, slot);
}

void tt_bruck_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct room where = room(shape);
  for (int32_t k = 1; k < shape->nranks; k *= 2) {
    if (with_bit(shape->nranks, k) > 1) pack(schedule, shape, k);
    exchange(schedule, shape, k, where.pack);
  }
  tt_copy(schedule, tt_shares(shape, 0, 1), in_share(shape, 0), out_share(shape, 0));
}

void tt_bruck_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct room most = room(shape);
  *cost = (struct tt_cost){.rounds = tt_log2(shape->nranks)};
  cost->slots = (int64_t)(most.pack + most.unpack) * shape->nblocks;
  for (int32_t k = 1; k < shape->nranks; k *= 2) {
    cost->messages += tt_shares_steps(shape, with_bit(shape->nranks, k));
    cost->blocks += (int64_t)with_bit(shape->nranks, k) * shape->nblocks;
  }
}

int32_t tt_all_to_all_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}
