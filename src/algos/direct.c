/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct: every rank gets its part from all others and adds it up in one go; then sends it to all others.
 *
 * The linear exchange of MPI libraries; Rabenseifner, "Optimization of collective reduction operations", ICCS 2004,
 * compares it. Part p belongs to rank p, which adds all P contributions in the order of the ranks: a chain that the
 * passes make one step with P sources, rounded once. With P ranks and N elements, per rank
 *   reduce-scatter: P - 1 messages, N (P - 1) / P sent and as many added, N of scratch; 1 round;
 *   all-gather:     P - 1 messages, N (P - 1) / P sent; 1 round;
 *   all-reduce:     both, 2 rounds. Parts are runs of whole blocks; empty ones cost nothing.
 * Rank r begins with rank r + 1, so that not all send to the same one. A few sends are followed by as many receives,
 * for a window full of sends that wait for each other would stand still. Any P, any N, in place or not. */
#include "algos/parts.h"
#include "algos/table.h"

#define TOGETHER (TT_WINDOW / 4) /* sends that are followed by as many receives */

/* Where rank p's contribution to the own part is kept; our own place is for the sum. */
static struct tt_operand kept(const struct tt_shape *shape, int32_t p)
{
  return tt_scratch(p * tt_parts(shape, shape->rank, 1).n);
}

/* Sends to each rank its part, and keeps what comes for the own one. */
static void scatter(struct tt_schedule *schedule, int32_t begin, int32_t end)
{
  const struct tt_shape *shape = &schedule->shape;
  int32_t n = shape->nranks, me = shape->rank;
  for (int32_t d = begin; d < end; d++) {
    struct tt_blocks theirs = tt_parts(shape, me + d, 1);
    tt_send(schedule, theirs, tt_in(theirs.first), (me + d) % n);
  }
  for (int32_t d = begin; d < end; d++) {
    int32_t from = (me - d + n) % n;
    tt_recv(schedule, tt_parts(shape, me, 1), from, kept(shape, from));
  }
}

/* IN may be where the sum is at the end, so until our own contribution is in, the sum is in scratch. */
static void reduce(struct tt_schedule *schedule)
{
  const struct tt_shape *shape = &schedule->shape;
  struct tt_blocks own = tt_parts(shape, shape->rank, 1);
  struct tt_operand sum = shape->rank == 0 ? tt_in(own.first) : kept(shape, 0);
  for (int32_t p = 1; p < shape->nranks; p++) {
    struct tt_operand next = p == shape->rank ? tt_in(own.first) : kept(shape, p);
    struct tt_operand dst = p < shape->rank ? kept(shape, shape->rank) : tt_out(own.first);
    tt_reduce2(schedule, own, sum, next, dst);
    sum = dst;
  }
}

static void gather(struct tt_schedule *schedule, int32_t begin, int32_t end)
{
  const struct tt_shape *shape = &schedule->shape;
  int32_t n = shape->nranks, me = shape->rank;
  struct tt_blocks own = tt_parts(shape, me, 1);
  for (int32_t d = begin; d < end; d++) tt_send(schedule, own, tt_out(own.first), (me + d) % n);
  for (int32_t d = begin; d < end; d++) {
    struct tt_blocks theirs = tt_parts(shape, me - d + n, 1);
    tt_recv(schedule, theirs, (me - d + n) % n, tt_out(theirs.first));
  }
}

static void in_turns(struct tt_schedule *schedule, void (*part)(struct tt_schedule *, int32_t, int32_t))
{
  int32_t n = schedule->shape.nranks;
  for (int32_t begin = 1; begin < n; begin += TOGETHER)
    part(schedule, begin, n - begin < TOGETHER ? n : begin + TOGETHER);
}

void tt_direct_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_blocks own = tt_parts(shape, shape->rank, 1);
  if (shape->nranks == 1 || shape->collective == TT_ALL_GATHER)
    tt_copy(schedule, own, tt_in(own.first), tt_out(own.first));
  if (shape->collective != TT_ALL_GATHER) {
    in_turns(schedule, scatter);
    reduce(schedule);
  }
  if (shape->collective != TT_REDUCE_SCATTER) in_turns(schedule, gather);
}

void tt_direct_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int32_t n = shape->nranks, own = tt_parts(shape, shape->rank, 1).n, all = tt_shape_blocks(shape);
  int scatters = shape->collective != TT_ALL_GATHER, gathers = shape->collective != TT_REDUCE_SCATTER;
  *cost = (struct tt_cost){0};
  if (n == 1) return;
  if (scatters) {
    cost->messages = (all < n ? all : n) - (own > 0);
    cost->blocks = all - own;
    cost->reductions = (n - 1) * (int64_t)own;
    cost->slots = (n == 2 ? 2 - shape->rank : n) * (int64_t)own;
  }
  if (gathers) {
    cost->messages += own > 0 ? n - 1 : 0;
    cost->blocks += (n - 1) * (int64_t)own;
  }
  cost->rounds = scatters + gathers;
}

int32_t tt_direct_blocks(const struct tt_shape *shape)
{
  return tt_kinds[shape->collective].is_shared ? 1 : shape->nranks;
}
