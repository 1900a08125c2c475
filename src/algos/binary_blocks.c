/* SPDX-License-Identifier: BSD-3-Clause */
/* Binary blocks: the ranks form blocks of powers of two, so that no rank folds.
 *
 * Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Chahal, Grover and Dey, "A hitchhiker's
 * guide on distributed training of deep neural networks", 2018. P = 2^k0 + 2^k1 + ... + 2^kl, descending, the lower
 * ranks in the larger blocks: 600 = 512 + 64 + 16 + 8. With N elements:
 * `binary_blocks`: every block halves (a reduce-scatter), so that no rank is idle; then the ranks of the smallest block
 * send their parts to those of the next larger one that hold the pieces, these add them, and so on up to the largest;
 * the finished pieces go the same way back, and every block doubles (an all-gather). A rank of a block of 2^k sends
 *   messages 2 k, + 1 if there is a smaller block, + 2^(k' - k) if there is a larger one, of 2^k';
 *   elements 2 N (1 - 1 / 2^k), + N / 2^k for either neighbour there is: 2 N at most;
 *   reductions N (1 - 1 / 2^k), + N / 2^k if there is a smaller block; no scratch. Rounds 2 k0.
 *   (This holds if 2^k0 divides N. Parts are runs of whole blocks of the vector; empty ones cost nothing.)
 * `binary_blocks_whole`, for short vectors: every block exchanges whole vectors by recursive doubling. The sum of the
 * smaller blocks arrives before a block is done itself, since they are smaller; each rank of the smaller block gives it
 * to 2^(k' - k) ranks of the larger one, along a binomial tree in which these help. The ranks of the largest block then
 * have the result, and the last of them give it to the others, one each. A rank sends, N elements each,
 *   messages k, + at most k' - k + 1 to a larger block, + less than the same for handing on the sum of a smaller one,
 *   + 1 if it gives the result to another; reductions k N, + N if there is a smaller block;
 *   scratch 2 N if there is a smaller block or if values alternate so (one block, odd k > 1); else N; none if k = 0.
 *   Rounds k0, + 1 if there is more than one block.
 * Both combine every element by one tree, whatever N, the blocks of the vector, and the place of the element are:
 * T0 + (T1 + (T2 + ...)), where Ti is the butterfly ((0 + 1) + (2 + 3)) + ... of the ranks of block i.
 * Any P, any N, in place or not. */
#include "algos/table_private.h"
#include "algos/team_private.h"

/* The own block of a rank and its neighbours. size 0: there is none. */
struct around {
  struct tt_team own, larger, smaller;
  int32_t largest; /* ranks of the largest block */
};

static int32_t highest_bit(int32_t n)
{
  int32_t bit = 1;
  while (bit <= n / 2) bit *= 2;
  return n ? bit : 0;
}

static struct around around(const struct tt_shape *shape)
{
  int32_t n = shape->nranks, first = 0, size = highest_bit(n);
  struct around a = {.largest = size};
  while (shape->rank >= first + size) {
    first += size;
    size = highest_bit(n - first);
  }
  a.own = tt_team_of(shape, first, size);
  a.larger = tt_team_of(shape, first - (first & -first), first & -first);
  a.smaller = tt_team_of(shape, first + size, highest_bit(n - first - size));
  return a;
}

/* ---- parts ------------------------------------------------------------------------- */

/* The rank of the smaller block whose part contains ours: parts are in the order of reversed bits, so its id has the
 * same low bits. */
static int32_t rank_below(const struct around *a)
{
  return a->smaller.first + a->own.id % a->smaller.size;
}

/* Our part goes up in pieces, and the pieces come back. */
static void parts_up(struct tt_schedule *schedule, const struct around *a)
{
  uint8_t place = a->own.size > 1 ? TT_OUT : TT_IN;
  int32_t nblocks = schedule->shape.nblocks;
  for (int32_t id = a->own.id; id < a->larger.size; id += a->own.size) {
    struct tt_blocks piece = tt_half_part(nblocks, a->larger.size, id);
    tt_send(schedule, piece, (struct tt_operand){place, piece.first}, a->larger.first + id);
  }
  for (int32_t id = a->own.id; id < a->larger.size; id += a->own.size) {
    struct tt_blocks piece = tt_half_part(nblocks, a->larger.size, id);
    tt_recv(schedule, piece, a->larger.first + id, tt_out(piece.first));
  }
}

void tt_binary_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct around a = around(shape);
  struct tt_blocks part = tt_half_part(shape->nblocks, a.own.size, a.own.id);
  struct tt_operand own = tt_out(part.first);
  if (shape->nranks == 1) tt_copy(schedule, part, tt_in(0), tt_out(0));
  tt_team_halve(schedule, &a.own, tt_in(0));
  if (a.smaller.size) tt_reduce2(schedule, part, own, tt_message(rank_below(&a)), own);
  if (a.larger.size) parts_up(schedule, &a);
  if (a.smaller.size) tt_send(schedule, part, own, rank_below(&a));
  tt_team_double(schedule, &a.own);
}

void tt_binary_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct around a = around(shape);
  int32_t part = tt_half_part(shape->nblocks, a.own.size, a.own.id).n;
  *cost = (struct tt_cost){0};
  for (int32_t size = a.largest; size > 1; size /= 2) cost->rounds += 2;
  tt_halves_claim(shape, &a.own, cost);
  if (a.smaller.size) {
    cost->messages += part > 0;
    cost->blocks += part;
    cost->reductions += part;
  }
  if (a.larger.size) cost->blocks += part;
  for (int32_t id = a.own.id; id < a.larger.size; id += a.own.size)
    cost->messages += tt_half_part(shape->nblocks, a.larger.size, id).n > 0;
}

int32_t tt_binary_blocks(const struct tt_shape *shape)
{
  return highest_bit(shape->nranks);
}

/* ---- whole vectors ------------------------------------------------------------------- */

/* A binomial tree: node 0 is a rank of the smaller block; nodes 1, 2, ... are the ranks of the larger one with the id
 * of node 0 as low bits. Node t receives from t without its highest bit, and sends to t + bit for all higher bits. */
struct tree {
  int32_t node, last; /* the rank's own node, the last node */
  int32_t root;       /* rank */
  int32_t above;      /* rank of node 1 */
  int32_t step;       /* between ranks of nodes */
};

static struct tree tree_between(const struct tt_team *smaller, const struct tt_team *larger, int32_t rank)
{
  struct tree tree = {.step = smaller->size, .last = larger->size / smaller->size};
  int32_t low = rank >= smaller->first ? rank - smaller->first : (rank - larger->first) % smaller->size;
  tree.root = smaller->first + low;
  tree.above = larger->first + low;
  tree.node = rank == tree.root ? 0 : (rank - tree.above) / tree.step + 1;
  return tree;
}

static int32_t tree_parent(const struct tree *tree)
{
  int32_t node = tree->node - highest_bit(tree->node);
  return node ? tree->above + (node - 1) * tree->step : tree->root;
}

/* The bit to add for the first child; it doubles from child to child. */
static int32_t tree_bit(const struct tree *tree)
{
  return tree->node ? 2 * highest_bit(tree->node) : 1;
}

static int32_t tree_children(const struct tree *tree)
{
  int32_t n = 0;
  for (int32_t bit = tree_bit(tree); tree->node + bit <= tree->last; bit *= 2) n++;
  return n;
}

static void tree_tell(struct tt_schedule *schedule, const struct tree *tree, struct tt_operand from)
{
  for (int32_t bit = tree_bit(tree); tree->node + bit <= tree->last; bit *= 2)
    tt_send(schedule, (struct tt_blocks){0, schedule->shape.nblocks}, from,
            tree->above + (tree->node + bit - 1) * tree->step);
}

/* Adds the sum of the smaller blocks, and hands it on. The result is in OUT. All ranks receive that sum in scratch,
 * also those that do not hand it on, so that after the passes one step combines the same operands on all ranks. */
static void smaller_take(struct tt_schedule *schedule, const struct around *a, struct tt_operand value)
{
  struct tree tree = tree_between(&a->smaller, &a->own, schedule->shape.rank);
  struct tt_blocks all = {0, schedule->shape.nblocks};
  struct tt_operand other = tt_scratch(all.n);
  tt_recv(schedule, all, tree_parent(&tree), other);
  tree_tell(schedule, &tree, other);
  tt_reduce2(schedule, all, value, other, tt_out(0));
}

/* Exchanges inside the block. Returns the place of the value: OUT if there is one block, else IN, OUT or scratch. */
static struct tt_operand exchange(struct tt_schedule *schedule, const struct around *a)
{
  struct tt_operand value = tt_in(0);
  int32_t rounds = 0, is_alone = a->own.size == schedule->shape.nranks;
  for (int32_t size = a->own.size; size > 1; size /= 2) rounds++;
  int32_t even = is_alone ? rounds : rounds + rounds % 2;
  for (int32_t round = 1, stride = 1; round <= rounds; round++, stride *= 2) {
    struct tt_operand next = tt_round_place(&schedule->shape, round, even, 1);
    tt_team_multiply(schedule, &a->own, stride, 2, value, next);
    value = next;
  }
  if (is_alone && value.place != TT_OUT)
    tt_copy(schedule, (struct tt_blocks){0, schedule->shape.nblocks}, value, tt_out(0));
  return value;
}

void tt_binary_whole_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct around a = around(shape);
  struct tt_blocks all = {0, shape->nblocks};
  int32_t others = shape->nranks - a.largest;
  struct tt_operand value = exchange(schedule, &a);
  if (a.smaller.size) {
    smaller_take(schedule, &a, value);
    value = tt_out(0);
  }
  if (a.larger.size) {
    struct tree tree = tree_between(&a.own, &a.larger, shape->rank);
    tree_tell(schedule, &tree, value);
    tt_recv(schedule, all, shape->rank - others, tt_out(0));
  } else if (shape->rank + others >= a.largest) {
    tt_send(schedule, all, tt_out(0), shape->rank + others);
  }
}

void tt_binary_whole_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct around a = around(shape);
  int64_t sends = 0, reduces = 0, nblocks = shape->nblocks, slots = a.own.size > 1;
  int32_t others = shape->nranks - a.largest;
  *cost = (struct tt_cost){.rounds = others > 0};
  for (int32_t size = a.largest; size > 1; size /= 2) cost->rounds++;
  for (int32_t size = a.own.size; size > 1; size /= 2) sends++, reduces++;
  if (a.own.size == shape->nranks && sends > 1 && sends % 2) slots = 2;
  if (a.smaller.size) {
    struct tree tree = tree_between(&a.smaller, &a.own, shape->rank);
    reduces++;
    sends += tree_children(&tree);
    slots = 2;
  }
  if (a.larger.size) {
    struct tree tree = tree_between(&a.own, &a.larger, shape->rank);
    sends += tree_children(&tree);
  }
  sends += shape->rank < a.largest && shape->rank + others >= a.largest;
  cost->messages = sends;
  cost->blocks = sends * nblocks;
  cost->reductions = reduces * nblocks;
  cost->slots = slots * nblocks;
}
