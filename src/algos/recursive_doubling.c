/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive doubling: in each round pairs of ranks exchange all they have.
 *
 * Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations
 * in MPICH", IJHPCA 19(1), 2005. With P ranks and N elements, P = 2^k + r, 0 <= r < 2^k:
 * the first 2 r ranks fold in pairs: the odd one sends its vector to the even one below
 * it and gets the result at the end. The others, and the even ones, exchange in k rounds.
 * So a rank sends, and an odd folded rank sends once and reduces nothing,
 *   messages k (+ 1 if even and folded), elements N each; reductions as many times N;
 *   scratch N if it takes part in the rounds.
 * Two ranks of a pair need each other's old value while they make the new one: it is made
 * in scratch and in OUT by turns, and the last round, if it would end in scratch, parks
 * the message there instead. Contributions stay contiguous, so that the lower rank of a
 * pair always has the lower part. Any P, any N, in place or not. */
#include "algos/table.h"

struct fold {
  int32_t rounds;  /* k */
  int32_t pairs;   /* r */
  int32_t id;      /* of the rank among the 2^k; -1: folded away */
};

static struct fold fold(const struct tt_shape *shape)
{
  struct fold f = {0, 0, 0};
  while (shape->nranks >> (f.rounds + 1)) f.rounds++;
  f.pairs = shape->nranks - (1 << f.rounds);
  if (shape->rank >= 2 * f.pairs)
    f.id = shape->rank - f.pairs;
  else
    f.id = shape->rank % 2 ? -1 : shape->rank / 2;
  return f;
}

static int32_t rank_of(const struct fold *f, int32_t id)
{
  return id < f->pairs ? 2 * id : id + f->pairs;
}

static void combine(struct tt_schedule *schedule, struct tt_operand own, struct tt_operand other,
                    int other_is_lower, struct tt_operand dst)
{
  struct tt_blocks all = {0, schedule->shape.nblocks};
  if (other_is_lower)
    tt_reduce2(schedule, all, other, own, dst);
  else
    tt_reduce2(schedule, all, own, other, dst);
}

/* One exchange; returns where the value is now. */
static struct tt_operand exchange(struct tt_schedule *schedule, struct tt_operand own, int32_t peer,
                                  int is_last)
{
  struct tt_blocks all = {0, schedule->shape.nblocks};
  struct tt_operand other = tt_message(peer);
  struct tt_operand dst = own.place == TT_SCRATCH || is_last ? tt_out(0) : tt_scratch(0);
  tt_send(schedule, all, own, peer);
  if (is_last && own.place != TT_SCRATCH) {
    struct tt_operand parked = tt_scratch(0);
    tt_copy(schedule, all, other, parked);
    other = parked;
  }
  combine(schedule, own, other, peer < schedule->shape.rank, dst);
  return dst;
}

void tt_doubling_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct fold f = fold(shape);
  struct tt_blocks all = {0, shape->nblocks};
  struct tt_operand value = tt_in(0);
  if (f.rounds == 0) tt_copy(schedule, all, tt_in(0), tt_out(0));
  if (f.id < 0) {
    tt_send(schedule, all, tt_in(0), shape->rank - 1);
    tt_recv(schedule, all, shape->rank - 1, tt_out(0));
    return;
  }
  if (f.id < f.pairs) {
    combine(schedule, value, tt_message(shape->rank + 1), 0, tt_out(0));
    value = tt_out(0);
  }
  for (int32_t round = 0; round < f.rounds; round++) {
    int32_t other = f.id ^ (1 << round);
    value = exchange(schedule, value, rank_of(&f, other), round == f.rounds - 1);
  }
  if (f.id < f.pairs) tt_send(schedule, all, tt_out(0), shape->rank + 1);
}

void tt_doubling_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct fold f = fold(shape);
  int64_t sends = f.id < 0 ? 1 : f.rounds + (f.id < f.pairs), blocks = shape->nblocks;
  *cost = (struct tt_cost){.messages = sends, .blocks = sends * blocks,
                           .rounds = f.rounds + 2 * (f.pairs > 0)};
  if (f.id < 0) return;
  cost->reductions = sends * blocks;
  cost->slots = f.rounds ? blocks : 0;
}

int32_t tt_doubling_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}
