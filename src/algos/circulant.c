/* SPDX-License-Identifier: BSD-3-Clause */
/* Circulant reduce-scatter and all-gather, and the two after each other as an all-reduce: ceil(log2 P) rounds, any P.
 *
 * Traeff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms", arXiv 2410.14234, 2024, with powers of two
 * as skips. Each rank counts the parts from its own on: its part i is that of rank r + i. With q = ceil(log2 P) rounds
 * and skips s = 2^(q-1), ..., 2, 1, a rank sends its parts [s, min(2 s, P)) to rank r + s, which adds them to its
 * parts from 0 on; after the last round part 0 is complete. The all-gather goes the same way back, without sums. A
 * range of parts is one span, which may go over the end. With P ranks and N elements, per rank
 *   reduce-scatter: N (P - 1) / P sent and as many added, q messages and one more for each cut; scratch
 *                   max(P - 2^(q-1), 2^(q-2)) / P N, none for 2 ranks;
 *   all-gather:     N (P - 1) / P sent, q messages;
 *   all-reduce:     both, without scratch; parts are runs of whole blocks, messages of empty ones are not sent.
 * A block goes through a chain of at most floor(log2 P) messages each way.
 *   Cuts: before the round with skip s, part i is the sum of the ranks r - t, t = 0, 2 s, 4 s, ... < P - i. With
 * P = a s + b, 0 <= b < s, either the own sum or the received one has one term more for i < b than for i >= b. For the
 * ranks r >= a s this decides which of the two holds the lowest rank, so these ranks receive two messages. In the
 * second round all ranks do: the parts sent, or those of the receiver, are still in IN from b on, but not before b.
 *   If a share has several blocks, reduce-scatter sends every part alone, in P - 1 messages, because spans of slots can
 * only be taken apart if all slots are full. Any P, any N, in place or not. */
#include "algos/parts_private.h"
#include "algos/table_private.h"

/* One round of the reduce-scatter. */
struct round {
  int32_t skip;
  int32_t n;         /* parts sent */
  int32_t cut;       /* parts from here on have one term less */
  int32_t top;       /* ranks from here on receive two messages; 0: all do */
  int32_t fresh;     /* parts from here on were never added to: they are in IN */
  int is_last, apart; /* apart: each part travels alone */
};

static struct round round_of(const struct tt_shape *shape, int32_t skip)
{
  int32_t n = shape->nranks, rest = n % skip;
  struct round r = {.skip = skip, .n = n - skip < skip ? n - skip : skip, .cut = rest, .top = n - rest, .fresh = n};
  if (2 * (int64_t)skip >= n) r.fresh = 0;
  else if (4 * (int64_t)skip >= n) r.fresh = n - 2 * skip;
  if (r.fresh < n) r.top = 0;
  r.is_last = skip == 1;
  r.apart = tt_kinds[shape->collective].is_shared && shape->nblocks > 1;
  return r;
}

static int32_t skip_first(const struct tt_shape *shape)
{
  int32_t skip = 1;
  while (shape->nranks - skip > skip) skip *= 2;
  return skip;
}

/* The end of the message to `receiver` that begins with its part i. */
static int32_t piece_end(const struct round *round, int32_t receiver, int32_t i)
{
  if (round->apart) return i + 1;
  return i < round->cut && round->cut < round->n && receiver >= round->top ? round->cut : round->n;
}

/* The place where the sums of the parts from i on are made. */
static struct tt_operand made(const struct tt_shape *shape, const struct round *round, int32_t i)
{
  if (shape->collective == TT_ALL_REDUCE || round->is_last) return tt_out(tt_parts(shape, shape->rank + i, 1).first);
  return tt_scratch(i * shape->nblocks);
}

/* The place of the parts from i on before the round. */
static struct tt_operand held(const struct tt_shape *shape, const struct round *round, int32_t i)
{
  int32_t first = tt_parts(shape, shape->rank + i, 1).first;
  if (i >= round->fresh) return tt_in(first);
  return shape->collective == TT_ALL_REDUCE ? tt_out(first) : tt_scratch(i * shape->nblocks);
}

/* Together the two sums hold the ranks me - t skip, for t <= last: the own sum has even t, the received one odd t. The
 * lowest rank is that of the largest t that does not go below rank 0. */
static void take(struct tt_schedule *schedule, const struct round *round, int32_t i, int32_t end)
{
  const struct tt_shape *shape = &schedule->shape;
  int32_t n = shape->nranks, me = shape->rank;
  int32_t last = n / round->skip - (i >= round->cut), lowest = me / round->skip;
  struct tt_blocks blocks = tt_parts(shape, me + i, end - i);
  struct tt_operand own = held(shape, round, i), message = tt_message((me - round->skip + n) % n);
  if (lowest > last) lowest = last;
  if (lowest % 2)
    tt_reduce2(schedule, blocks, message, own, made(shape, round, i));
  else
    tt_reduce2(schedule, blocks, own, message, made(shape, round, i));
}

static void scatter(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t n = shape->nranks, me = shape->rank;
  for (int32_t skip = n > 1 ? skip_first(shape) : 0; skip; skip /= 2) {
    struct round round = round_of(shape, skip);
    int32_t to = (me + skip) % n;
    for (int32_t out = 0, in = 0; out < round.n || in < round.n;) {
      int32_t sent = out < round.n ? piece_end(&round, to, out) : out;
      tt_send(schedule, tt_parts(shape, to + out, sent - out), held(shape, &round, skip + out), to);
      int32_t taken = in < round.n ? piece_end(&round, me, in) : in;
      take(schedule, &round, in, taken);
      out = sent;
      in = taken;
    }
  }
}

static void gather(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  int32_t n = shape->nranks, me = shape->rank;
  for (int32_t skip = 1; skip < n; skip *= 2) {
    int32_t from = (me + skip) % n, parts = n - skip < skip ? n - skip : skip;
    struct tt_blocks out = tt_parts(shape, me, parts), in = tt_parts(shape, from, parts);
    tt_send(schedule, out, tt_out(out.first), (me - skip + n) % n);
    tt_recv(schedule, in, from, tt_out(in.first));
  }
}

void tt_circulant_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_blocks own = tt_parts(shape, shape->rank, 1);
  if (shape->nranks == 1 || shape->collective == TT_ALL_GATHER)
    tt_copy(schedule, own, tt_in(own.first), tt_out(own.first));
  if (shape->collective != TT_ALL_GATHER) scatter(schedule, shape);
  if (shape->collective != TT_REDUCE_SCATTER) gather(schedule, shape);
}

static void scatter_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks, me = shape->rank;
  for (int32_t skip = n > 1 ? skip_first(shape) : 0; skip; skip /= 2) {
    struct round round = round_of(shape, skip);
    int32_t to = (me + skip) % n;
    for (int32_t i = 0, end; i < round.n; i = end) {
      end = piece_end(&round, to, i);
      cost->messages += tt_parts(shape, to + i, end - i).n > 0;
    }
    cost->reductions += tt_parts(shape, me, round.n).n;
    if (shape->collective == TT_REDUCE_SCATTER && skip > 1 && round.n * (int64_t)shape->nblocks > cost->slots)
      cost->slots = round.n * (int64_t)shape->nblocks;
    cost->rounds += 2 * (int64_t)skip <= n;
  }
  cost->blocks += tt_shape_blocks(shape) - tt_parts(shape, me, 1).n;
}

void tt_circulant_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  *cost = (struct tt_cost){0};
  if (shape->collective != TT_ALL_GATHER) scatter_claim(shape, cost);
  if (shape->collective == TT_REDUCE_SCATTER) return;
  for (int32_t n = shape->nranks, skip = 1; skip < n; skip *= 2) {
    int32_t blocks = tt_parts(shape, shape->rank, n - skip < skip ? n - skip : skip).n;
    cost->messages += blocks > 0;
    cost->blocks += blocks;
    cost->rounds += 2 * (int64_t)skip <= n;
  }
}

int32_t tt_circulant_blocks(const struct tt_shape *shape)
{
  return tt_kinds[shape->collective].is_shared ? 1 : shape->nranks;
}
