/* SPDX-License-Identifier: BSD-3-Clause */
/* Direct: every rank gets its part from all others and adds it up in one go; then it sends the sum to all others.
 *
 * The linear exchange of MPI libraries; Rabenseifner, "Optimization of collective reduction operations", ICCS 2004,
 * compares it. Part p belongs to rank p, which adds all P contributions in the order of the ranks: a chain that the
 * passes make one step with P sources, rounded once. With P ranks and N elements, per rank
 *   reduce-scatter: P - 1 messages, N (P - 1) / P sent and as many added, N of scratch; 1 round;
 *   all-gather:     P - 1 messages, N (P - 1) / P sent; 1 round;
 *   all-reduce:     both, 2 rounds. Parts are runs of whole blocks; empty ones cost nothing.
 * Rank r begins with rank r + 1, so that not all ranks send to the same one. A few sends are followed by as many
 * receives, because a window full of sends that wait for each other would be a deadlock. Any P, any N, in place or
 * not. */
#include "algos/parts_private.h"
#include "algos/table_private.h"

#define TOGETHER (TT_WINDOW / 8) /* sends that are followed by as many receives: on 4 channels half a window */

/* The two halves of the all-reduce, for parts of any lengths. */
struct exchange {
  struct tt_schedule *schedule;
  const int32_t *start; /* part p is blocks [start[p], start[p + 1]); NULL: parts as equal as can be */
};

static struct tt_blocks part(const struct tt_shape *shape, const int32_t *start, int32_t p)
{
  p %= shape->nranks;
  return start ? (struct tt_blocks){start[p], start[p + 1] - start[p]} : tt_parts(shape, p, 1);
}

/* The place in scratch of rank p's contribution to our part; our own place there is for the sum. */
static struct tt_operand kept(struct tt_blocks own, int32_t p)
{
  return tt_scratch(p * own.n);
}

/* Sends each rank its part, and keeps the contributions to our own part. */
static void scatter(const struct exchange *e, int32_t begin, int32_t end)
{
  const struct tt_shape *shape = &e->schedule->shape;
  int32_t n = shape->nranks, me = shape->rank;
  struct tt_blocks own = part(shape, e->start, me);
  for (int32_t d = begin; d < end; d++) {
    struct tt_blocks theirs = part(shape, e->start, me + d);
    tt_send(e->schedule, theirs, tt_in(theirs.first), (me + d) % n);
  }
  for (int32_t d = begin; d < end; d++) {
    int32_t from = (me - d + n) % n;
    tt_recv(e->schedule, own, from, kept(own, from));
  }
}

/* IN may be the memory where the sum ends up, so the sum is in scratch until our own contribution is added. */
static void reduce(const struct exchange *e)
{
  const struct tt_shape *shape = &e->schedule->shape;
  struct tt_blocks own = part(shape, e->start, shape->rank);
  struct tt_operand sum = shape->rank == 0 ? tt_in(own.first) : kept(own, 0);
  for (int32_t p = 1; p < shape->nranks; p++) {
    struct tt_operand next = p == shape->rank ? tt_in(own.first) : kept(own, p);
    struct tt_operand dst = p < shape->rank ? kept(own, shape->rank) : tt_out(own.first);
    tt_reduce2(e->schedule, own, sum, next, dst);
    sum = dst;
  }
}

static void gather(const struct exchange *e, int32_t begin, int32_t end)
{
  const struct tt_shape *shape = &e->schedule->shape;
  int32_t n = shape->nranks, me = shape->rank;
  struct tt_blocks own = part(shape, e->start, me);
  for (int32_t d = begin; d < end; d++) tt_send(e->schedule, own, tt_out(own.first), (me + d) % n);
  for (int32_t d = begin; d < end; d++) {
    struct tt_blocks theirs = part(shape, e->start, me - d + n);
    tt_recv(e->schedule, theirs, (me - d + n) % n, tt_out(theirs.first));
  }
}

static void in_turns(const struct exchange *e, void (*some)(const struct exchange *, int32_t, int32_t))
{
  int32_t n = e->schedule->shape.nranks;
  for (int32_t begin = 1; begin < n; begin += TOGETHER)
    some(e, begin, n - begin < TOGETHER ? n : begin + TOGETHER);
}

void tt_direct_reduce_parts(struct tt_schedule *schedule, const int32_t *start)
{
  struct exchange e = {schedule, start};
  in_turns(&e, scatter);
  reduce(&e);
}

void tt_direct_gather_parts(struct tt_schedule *schedule, const int32_t *start)
{
  in_turns(&(struct exchange){schedule, start}, gather);
}

void tt_direct_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_blocks own = part(shape, NULL, shape->rank);
  if (shape->nranks == 1 || shape->collective == TT_ALL_GATHER)
    tt_copy(schedule, own, tt_in(own.first), tt_out(own.first));
  if (shape->collective != TT_ALL_GATHER) tt_direct_reduce_parts(schedule, NULL);
  if (shape->collective != TT_REDUCE_SCATTER) tt_direct_gather_parts(schedule, NULL);
}

void tt_direct_parts_claim(const struct tt_shape *shape, const int32_t *start, struct tt_cost *cost)
{
  int32_t n = shape->nranks, all = tt_shape_blocks(shape), own = part(shape, start, shape->rank).n;
  int scatters = shape->collective != TT_ALL_GATHER, gathers = shape->collective != TT_REDUCE_SCATTER;
  *cost = (struct tt_cost){0};
  if (n == 1) return;
  if (scatters) {
    for (int32_t p = 0; p < n; p++) cost->messages += p != shape->rank && part(shape, start, p).n > 0;
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

void tt_direct_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  tt_direct_parts_claim(shape, NULL, cost);
}

int32_t tt_direct_blocks(const struct tt_shape *shape)
{
  return tt_kinds[shape->collective].is_shared ? 1 : shape->nranks;
}
