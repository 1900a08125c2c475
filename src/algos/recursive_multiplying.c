/* SPDX-License-Identifier: BSD-3-Clause */
/* Recursive multiplying: in each round the k ranks of a group exchange all that they have.
 *
 * Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH", IJHPCA 19(1), 2005
 * (k = 2: recursive doubling); Ruefenacht, Bull and Booth, "Generalisation of recursive doubling for AllReduce",
 * EuroMPI 2016 (any k). With P ranks, N elements and radix k, n = ceil(log_k P):
 *  - if P is a product of n or n + 1 factors <= k, those are the sizes of the groups in the rounds, and all ranks take
 *    part in all;
 *  - else n factors <= k, as even as can be, with a product >= P: the smallest is the fold. P ranks make groups of
 *    neighbours, one for each member of a team as large as the product of the others; the member adds the vectors of
 *    its group, takes part in the n - 1 rounds and gives the result back. (Folding what exceeds a power of k, as is
 *    usual, takes as many rounds and more messages: 17 ranks at k = 4 are 9 groups and rounds of 3 and 3, not
 *    16 and rounds of 4 and 4.) n + 1 factors take as long as a fold, never more messages, and no rank is idle.
 * A member with e ranks aside sends and reduces, with f the factors of the rounds, S = e + sum (f - 1) vectors:
 *   messages S, elements S N, reductions S N; a rank aside sends one and reduces nothing.
 *   Rounds: as many as factors, and with a fold 2 more; 1 more if too few ranks are aside for a chain through two.
 * The old value is still being sent while the new one is made, so values are made in OUT and in scratch in turn,
 * counted from the last round; scratch: N, and 2 N for an odd number of rounds > 1 that begins in IN, since IN may be
 * OUT. A single round ends in scratch and is copied, the only copy there is. Groups are neighbours in the first round
 * and intervals of ranks ever after, so contributions stay contiguous. Any P, any N, in place or not. */
#include "algos/table_private.h"
#include "algos/team_private.h"

#define DEFAULT_RADIX 4
#define MAX_ROUNDS 32

/* The groups of the rounds. */
struct way {
  int32_t nrounds, factors[MAX_ROUNDS]; /* the largest first: near ranks are met first */
  int32_t size;                         /* their product: ranks that take part */
};

/* Cuts p into exactly n factors in 2 .. largest, not ascending, the first as small as can be; 0 if there are none. */
static int split(int32_t p, int32_t n, int32_t largest, int32_t *factors)
{
  *factors = p;
  if (n == 1) return p > 1 && p <= largest;
  for (int32_t d = 2; d <= largest; d++) {
    *factors = d;
    if (p % d == 0 && split(p / d, n - 1, d, factors + 1)) return 1;
  }
  return 0;
}

static int64_t product(const int32_t *factors, int32_t n)
{
  int64_t p = 1;
  for (int32_t k = 0; k < n; k++) p *= factors[k];
  return p;
}

/* n factors, as even as can be, whose product is at least p. */
static void cover(int32_t p, int32_t n, int32_t *factors)
{
  for (int32_t k = 0; k < n; k++) factors[k] = 1;
  for (int32_t k = 0; product(factors, n) < p; k = (k + 1) % n) factors[k]++;
}

static struct way choose(const struct tt_shape *shape)
{
  struct way way = {.size = shape->nranks};
  int32_t p = shape->nranks, n = 1, k = shape->radix ? shape->radix : DEFAULT_RADIX;
  if (p == 1) return way;
  if (k < 2) k = 2;
  for (int64_t power = k; power < p; power *= k) n++;
  if (split(p, n, k, way.factors)) {
    way.nrounds = n;
  } else if (split(p, n + 1, k, way.factors)) {
    way.nrounds = n + 1;
  } else {
    cover(p, n, way.factors);
    way.nrounds = n - 1;
  }
  way.size = (int32_t)product(way.factors, way.nrounds);
  return way;
}

int32_t tt_multiplying_folded(const struct tt_shape *shape)
{
  return choose(shape).size;
}

void tt_multiplying_generate(struct tt_schedule *schedule, const struct tt_shape *shape)
{
  struct way way = choose(shape);
  struct tt_team team = tt_team_fold(shape, way.size);
  struct tt_operand value;
  if (team.aside) {
    tt_fold_extra(schedule, &team);
    return;
  }
  value = tt_fold_in(schedule, &team, tt_round_place(shape, 0, way.nrounds, 0));
  int from_in = value.place == TT_IN;
  for (int32_t round = 1, stride = 1; round <= way.nrounds; round++) {
    struct tt_operand next = tt_round_place(shape, round, way.nrounds, from_in);
    tt_team_multiply(schedule, &team, stride, way.factors[round - 1], value, next);
    stride *= way.factors[round - 1];
    value = next;
  }
  if (value.place != TT_OUT) tt_copy(schedule, (struct tt_blocks){0, shape->nblocks}, value, tt_out(0));
  tt_fold_out(schedule, &team);
}

/* A chain of messages changes a digit of the member in every round; the first and the last message are those of the
 * fold if the chain can begin and end at members with ranks aside, whose last digits then differ: 0 and 1. */
static int64_t rounds(const struct way *way, const struct tt_team *team)
{
  if (tt_team_extras(team, 0) == 0) return way->nrounds;
  return way->nrounds + 1 + (tt_team_extras(team, way->size / way->factors[way->nrounds - 1]) > 0);
}

void tt_multiplying_claim(const struct tt_shape *shape, struct tt_cost *cost)
{
  struct way way = choose(shape);
  struct tt_team team = tt_team_fold(shape, way.size);
  int64_t sends = tt_team_extras(&team, team.id), nblocks = shape->nblocks;
  int has_two = way.nrounds > 1 && way.nrounds % 2 && sends == 0;
  for (int32_t k = 0; k < way.nrounds; k++) sends += way.factors[k] - 1;
  *cost = (struct tt_cost){.messages = 1, .blocks = nblocks, .rounds = rounds(&way, &team)};
  if (team.aside) return;
  cost->messages = sends;
  cost->blocks = cost->reductions = sends * nblocks;
  cost->slots = way.nrounds ? nblocks * (1 + has_two) : 0;
}

int32_t tt_multiplying_blocks(const struct tt_shape *shape)
{
  (void)shape;
  return 1;
}
