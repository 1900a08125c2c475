/* SPDX-License-Identifier: BSD-3-Clause */
/* Halving and doubling: a reduce-scatter by recursive halving, then an all-gather by recursive doubling.
 *
 * Rabenseifner, "Optimization of collective reduction operations", ICCS 2004; Thakur, Rabenseifner and Gropp, IJHPCA
 * 19(1), 2005. With P = p + r ranks, p = 2^k <= P, and N elements: pairs at distance 1, 2, 4 ... p / 2 exchange halves
 * of what they still have; then the same backwards. A rank of the p sends
 *   messages 2 k, elements 2 N (p - 1) / p, reductions N (p - 1) / p (where p divides N); no scratch; rounds 2 k.
 * Distance 1 comes first, so every element is combined by the same tree ((0 + 1) + (2 + 3)) + ..., that of binary
 * blocks if P is a power of two.
 * The first 2 r ranks fold in pairs: the odd one gives all of its vector to the even one, which reduces N and sends N
 * more, and gets the result back: 2 more rounds of whole vectors. (If each of a pair reduced one half, it would be 3
 * rounds, for N / 2 fewer reductions and the same elements. That pays off only for vectors so long that binary blocks,
 * which need not fold, send half as much.)
 * Parts are runs of whole blocks; with fewer blocks than p some are empty and cost nothing. Any P, any N, in place or
 * not. */
#include "algos/table_private.h"
#include "algos/team_private.h"

int32_t tt_halving_folded(const struct tt_shape *shape)
{
  int32_t p = 1;
  while (p <= shape->nranks / 2) p *= 2;
  return p;
}

void tt_halving_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct tt_team team = tt_team_fold(shape, tt_halving_folded(shape));
  if (shape->nranks == 1) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, tt_in(0), tt_out(0));
  if (team.aside) {
    tt_fold_extra(schedule, &team);
    return;
  }
  tt_team_halve(schedule, &team, tt_fold_in(schedule, &team, tt_out(0)));
  tt_team_double(schedule, &team);
  tt_fold_out(schedule, &team);
}

/* The longest chain goes from the member farthest from the owner of a part, whose bits all differ, to the owner and
 * back. The fold adds two messages to it if such a member has a rank aside. */
static int64_t rounds(const struct tt_shape *shape, const struct tt_team *team)
{
  int64_t rounds = 0;
  for (int32_t bit = 1; bit < team->size; bit *= 2) rounds += 2;
  for (int32_t id = 0; id < team->more; id++)
    if (tt_half_part(shape->nblocks, team->size, team->size - 1 - id).n) return rounds + 2;
  return rounds;
}

void tt_halving_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct tt_team team = tt_team_fold(shape, tt_halving_folded(shape));
  int32_t extras = tt_team_extras(&team, team.id);
  int64_t folded = team.aside ? 1 : extras;
  *cost = (struct tt_cost){
      .messages = folded, .blocks = folded * shape->nblocks, .rounds = rounds(shape, &team)};
  if (team.aside) return;
  cost->reductions = (int64_t)extras * shape->nblocks;
  tt_halves_claim(shape, &team, cost);
}

int32_t tt_halving_blocks(const struct tt_shape *shape)
{
  return tt_halving_folded(shape);
}
