/* SPDX-License-Identifier: BSD-3-Clause */
/* K-nomial trees: a reduce to a root, a broadcast from it, and the two after each other as an all-reduce.
 *
 * Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005,
 * for radix 2; Wilkins et al., "Generalized collective algorithms for the exascale era", CLUSTER 2023, for radix k.
 * Ranks are counted from the root on; the parent's number to base k is that of the rank with its lowest digit that is
 * not 0 made 0. So a subtree is a run of ranks, its top first. Radix 2 is the binomial tree, radix P the star. With P
 * ranks and N elements, a rank with c children
 *   up:   sends one message of N, but for the root, and reduces c N;
 *   down: sends c messages of N.
 * Rounds, each way: as many as numbers 1, 11, 111, ... to base k are below P; at most ceil(log_k P).
 * Scratch: N on the inner ranks of a reduce, which have no OUT; else none. Small subtrees are received first, because
 * they are ready first; large ones are served first. Any P, N and root, in place or not. */
#include "algos/table_private.h"

#define DEFAULT_RADIX 4

/* The position of a rank in the tree. */
struct position {
  int32_t nranks, radix, root;
  int32_t me;        /* counted from the root on */
  int32_t parent;    /* likewise; -1: none */
  int32_t nchildren;
};

static struct position position_of(const struct tt_shape *shape)
{
  struct position s = {.nranks = shape->nranks, .radix = shape->radix ? shape->radix : DEFAULT_RADIX, .parent = -1};
  s.root = shape->root < 0 ? 0 : shape->root;
  if (s.radix > s.nranks) s.radix = s.nranks;
  if (s.radix < 2) s.radix = 2;
  s.me = (shape->rank - s.root + s.nranks) % s.nranks;
  for (int64_t weight = 1; weight < s.nranks; weight *= s.radix) {
    int32_t digit = (int32_t)(s.me / weight % s.radix), room = (int32_t)((s.nranks - 1 - s.me) / weight);
    if (digit) {
      s.parent = s.me - digit * (int32_t)weight;
      break;
    }
    s.nchildren += room < s.radix - 1 ? room : s.radix - 1;
  }
  return s;
}

static int32_t rank_of(const struct position *s, int32_t counted)
{
  return (int32_t)(((int64_t)counted + s->root) % s->nranks);
}

/* The i-th child, counted from the root on, in ascending order; only the last ones may be missing. *size is its
 * subtree, as long as the distance to the next child. */
static int32_t child_of(const struct position *s, int32_t i, int32_t *size)
{
  *size = 1;
  for (int32_t level = i / (s->radix - 1); level; level--) *size *= s->radix;
  return s->me + (i % (s->radix - 1) + 1) * *size;
}

/* Adds up the children's sums and our own contribution; returns the place of the result. The sum so far holds the ranks
 * just before the child's subtree, so it stands first, unless that subtree contains rank 0. */
static struct tt_operand up(struct tt_schedule *schedule, const struct position *s)
{
  struct tt_blocks all = {0, schedule->shape.nblocks};
  struct tt_operand value = tt_in(0), dst = tt_out(0);
  int32_t zero = s->root ? s->nranks - s->root : 0, size;
  if (s->me && schedule->shape.collective == TT_REDUCE) dst = tt_scratch(0);
  for (int32_t i = 0; i < s->nchildren; i++) {
    int32_t child = child_of(s, i, &size);
    struct tt_operand message = tt_message(rank_of(s, child));
    if (child <= zero && zero - child < size)
      tt_reduce2(schedule, all, message, value, dst);
    else
      tt_reduce2(schedule, all, value, message, dst);
    value = dst;
  }
  if (s->me) tt_send(schedule, all, value, rank_of(s, s->parent));
  return value;
}

static void down(struct tt_schedule *schedule, const struct position *s, struct tt_operand value)
{
  struct tt_blocks all = {0, schedule->shape.nblocks};
  int32_t size;
  if (s->me) tt_recv(schedule, all, rank_of(s, s->parent), tt_out(0));
  for (int32_t i = s->nchildren; i > 0; i--)
    tt_send(schedule, all, s->me ? tt_out(0) : value, rank_of(s, child_of(s, i - 1, &size)));
}

void tt_knomial_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct position s = position_of(shape);
  struct tt_operand value = tt_in(0);
  if (tt_kinds[shape->collective].reduces) value = up(schedule, &s);
  if (shape->collective != TT_REDUCE) down(schedule, &s, value);
  if (!s.me && value.place == TT_IN) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, value, tt_out(0));
}

void tt_knomial_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct position s = position_of(shape);
  int reduces = tt_kinds[shape->collective].reduces, spreads = shape->collective != TT_REDUCE;
  *cost = (struct tt_cost){0};
  if (reduces) cost->messages = s.me != 0;
  if (spreads) cost->messages += s.nchildren;
  cost->blocks = cost->messages * shape->nblocks;
  if (reduces) cost->reductions = (int64_t)s.nchildren * shape->nblocks;
  if (!spreads && s.me && s.nchildren) cost->slots = shape->nblocks;
  for (int64_t ones = 1; ones < s.nranks; ones = ones * s.radix + 1) cost->rounds += reduces + spreads;
}

int32_t tt_knomial_hops(const struct tt_shape *shape)
{
  struct position s = position_of(shape);
  int32_t hops = 0;
  for (int32_t rest = s.me; rest; rest /= s.radix) hops += rest % s.radix != 0;
  return hops;
}

int32_t tt_knomial_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}

const char *tt_knomial_illegal(const struct tt_shape *shape)
{
  return shape->radix < 0 || (shape->radix == 1 && shape->nranks > 1) ? "a tree has a radix of 2 or more" : NULL;
}
