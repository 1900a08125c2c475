/* SPDX-License-Identifier: BSD-3-Clause */
/* Double tree: two binary trees over the same ranks, each for half of the vector: a reduce, a broadcast, an all-reduce.
 *
 * Sanders, Speck and Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and scan", Parallel Computing
 * 35(12), 2009. Ranks are counted from the root; the other m = P - 1 have the numbers 1 .. m. The first tree has them
 * in this order, and odd numbers are leaves: the children of a number are half its lowest bit away from it, the right
 * one a quarter, an eighth, ... if the numbers end before. The second tree is the first one mirrored or, for odd m,
 * moved by one number, so that inner ranks of the one are leaves of the other. The root is the parent of both tops. So
 * with N elements each way a rank receives and sends N at most: as an inner rank it adds two halves and sends one, and
 * as a leaf it sends one half; the root receives both, and sends both. With P ranks and c = ceil(log2 P), a half is cut
 * into min(c, its blocks) consecutive runs of whole blocks. A rank with d children, in both trees together,
 *   up:   sends N, one message a run, but for the root, and reduces d N / 2;
 *   down: sends d N / 2, one message a run and child; d <= 2.
 * Rounds, each way: c. Scratch: N / 2 on the inner ranks of a reduce, which have no OUT; else none.
 *   Reduce and broadcast are made for 2 blocks: a rank is done with a segment once its own messages are taken, so the
 * segments of a long vector follow each other through the trees. In an all-reduce it waits for the result, which comes
 * back through 2 c ranks, so a schedule has c runs of each tree, and two lanes fill the way. Any P, N and root, in
 * place or not. */
#include "algos/table_private.h"

/* One of the trees. Ranks are counted from the root on; the others have positions 1 .. m in the order of the tree. */
struct tree {
  int32_t which, m, root;
  struct tt_blocks half; /* the blocks that go through it */
  int32_t runs;
};

/* A subtree. */
struct branch {
  int32_t top;         /* rank */
  int32_t first, last; /* positions */
};

struct place {
  int32_t parent; /* rank; -1: none */
  int32_t nchildren;
  struct branch child[2];
};

static struct tree tree_of(const struct tt_shape *shape, int32_t which)
{
  struct tree t = {.which = which, .m = shape->nranks - 1, .root = shape->root < 0 ? 0 : shape->root, .runs = 0};
  int32_t cut = shape->nblocks - shape->nblocks / 2;
  t.half = which ? (struct tt_blocks){cut, shape->nblocks - cut} : (struct tt_blocks){0, cut};
  while (t.m >> t.runs) t.runs++;
  return t;
}

static int32_t counted(const struct tree *t, int32_t rank)
{
  return rank >= t->root ? rank - t->root : rank - t->root + t->m + 1;
}

static int32_t rank_of(const struct tree *t, int32_t count)
{
  return count <= t->m - t->root ? count + t->root : count + t->root - t->m - 1;
}

/* The count of the rank at a position. */
static int32_t count_at(const struct tree *t, int32_t position)
{
  if (t->which == 0) return position;
  return t->m % 2 ? position % t->m + 1 : t->m + 1 - position;
}

/* The position of the rank with a count: the inverse of count_at. */
static int32_t position_of(const struct tree *t, int32_t count)
{
  if (t->which == 0) return count;
  return t->m % 2 ? (count + t->m - 2) % t->m + 1 : t->m + 1 - count;
}

static struct branch branch_of(const struct tree *t, int32_t top, int32_t first, int32_t last)
{
  return (struct branch){rank_of(t, count_at(t, top)), first, last};
}

static struct place place_of(const struct tree *t, int32_t rank)
{
  struct place place = {.parent = -1};
  int32_t count = counted(t, rank), top;
  if (t->m == 0) return place;
  top = 1 << (t->runs - 1);
  if (count == 0) {
    place.child[place.nchildren++] = branch_of(t, top, 1, t->m);
    return place;
  }
  int32_t position = position_of(t, count), low = position & -position, half = low / 2;
  int32_t up = (position ^ low) | low << 1, last = position + low - 1;
  if (position == top)
    place.parent = t->root;
  else
    place.parent = rank_of(t, count_at(t, up > t->m ? position ^ low : up));
  if (half) place.child[place.nchildren++] = branch_of(t, position - half, position - low + 1, position - 1);
  while (half && position + half > t->m) half /= 2;
  if (last > t->m) last = t->m;
  if (half) place.child[place.nchildren++] = branch_of(t, position + half, position + 1, last);
  return place;
}

/* The lowest rank among the counts from..to. */
static int32_t lowest_counted(const struct tree *t, int32_t from, int32_t to)
{
  int32_t first = rank_of(t, from);
  return first > rank_of(t, to) ? 0 : first;
}

/* The lowest rank in a subtree. In the tree that is moved by one, the last position has count 1. */
static int32_t lowest_in(const struct tree *t, struct branch branch)
{
  if (t->which == 0) return lowest_counted(t, branch.first, branch.last);
  if (t->m % 2 == 0) return lowest_counted(t, t->m + 1 - branch.last, t->m + 1 - branch.first);
  if (branch.last < t->m) return lowest_counted(t, branch.first + 1, branch.last + 1);
  int32_t one = rank_of(t, 1), rest = branch.first < t->m ? lowest_counted(t, branch.first + 1, t->m) : one;
  return one < rest ? one : rest;
}

static struct tt_blocks run_of(const struct tree *t, int32_t run)
{
  int64_t n = t->half.n, first = n * run / t->runs, end = n * (run + 1) / t->runs;
  return (struct tt_blocks){t->half.first + (int32_t)first, (int32_t)(end - first)};
}

/* Adds the children's sums to our own contribution, and hands the result to the parent. */
static void up(struct tt_schedule *schedule, const struct tree *t, int32_t run)
{
  const struct tt_shape *shape = &schedule->shape;
  struct place place = place_of(t, shape->rank);
  struct tt_blocks blocks = run_of(t, run);
  struct tt_operand value = tt_in(blocks.first), dst = tt_out(blocks.first);
  int32_t lowest = shape->rank;
  if (shape->collective == TT_REDUCE && place.parent >= 0) dst = tt_scratch(blocks.first - t->half.first);
  for (int32_t i = 0; i < place.nchildren; i++) {
    struct tt_operand message = tt_message(place.child[i].top);
    int32_t theirs = lowest_in(t, place.child[i]);
    if (theirs < lowest)
      tt_reduce2(schedule, blocks, message, value, dst);
    else
      tt_reduce2(schedule, blocks, value, message, dst);
    value = dst;
    if (theirs < lowest) lowest = theirs;
  }
  if (place.parent >= 0) tt_send(schedule, blocks, value, place.parent);
}

static void down(struct tt_schedule *schedule, const struct tree *t, int32_t run)
{
  const struct tt_shape *shape = &schedule->shape;
  struct place place = place_of(t, shape->rank);
  struct tt_blocks blocks = run_of(t, run);
  struct tt_operand value = tt_out(blocks.first);
  if (place.parent >= 0)
    tt_recv(schedule, blocks, place.parent, value);
  else if (shape->collective == TT_BROADCAST)
    value = tt_in(blocks.first);
  for (int32_t i = 0; i < place.nchildren; i++) tt_send(schedule, blocks, value, place.child[i].top);
}

void tt_double_tree_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tree trees[2] = {tree_of(shape, 0), tree_of(shape, 1)};
  int32_t n = 2 * trees[0].runs;
  for (int32_t i = 0; tt_kinds[shape->collective].reduces && i < n; i++) up(schedule, &trees[i % 2], i / 2);
  for (int32_t i = 0; shape->collective != TT_REDUCE && i < n; i++) down(schedule, &trees[i % 2], i / 2);
  if (shape->nranks == 1 || (shape->collective == TT_BROADCAST && shape->rank == shape->root))
    tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, tt_in(0), tt_out(0));
}

void tt_double_tree_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  int reduces = tt_kinds[shape->collective].reduces, spreads = shape->collective != TT_REDUCE;
  *cost = (struct tt_cost){0};
  for (int32_t which = 0; which < 2; which++) {
    struct tree t = tree_of(shape, which);
    struct place place = place_of(&t, shape->rank);
    int64_t sends = (reduces && place.parent >= 0) + (spreads ? place.nchildren : 0);
    cost->messages += sends * (t.half.n < t.runs ? t.half.n : t.runs);
    cost->blocks += sends * t.half.n;
    if (reduces) cost->reductions += (int64_t)place.nchildren * t.half.n;
    if (!spreads && place.parent >= 0 && place.nchildren && t.half.n > cost->slots) cost->slots = t.half.n;
    cost->rounds = t.runs * (reduces + spreads);
  }
}

int32_t tt_double_tree_blocks(const struct tt_shape *shape)
{
  int32_t levels = tree_of(shape, 0).runs;
  return shape->collective == TT_ALL_REDUCE && levels ? 2 * levels : 2;
}
