/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: building blocks of several algorithms. A team is a set of evenly spread ranks that act
 * together; the other ranks of a fold stand aside. */
#ifndef TT_ALGOS_TEAM_H
#define TT_ALGOS_TEAM_H

#include "sched/sched.h"

/* Member `id` is rank first + id * each + min(id, more). The ranks from one member up to the next are its group. */
struct tt_team {
  int32_t size;
  int32_t first, each, more;
  int32_t id;    /* of the group that shape->rank is in; undefined for a rank outside the team */
  int32_t aside; /* place of shape->rank in its group; 0: it is the member */
};

/* The ranks first .. first + size - 1, each of them a member. */
struct tt_team tt_team_of(const struct tt_shape *shape, int32_t first, int32_t size);

/* All ranks in `size` groups of neighbours, as even as can be; the first groups are the larger ones. */
struct tt_team tt_team_fold(const struct tt_shape *shape, int32_t size);

int32_t tt_team_rank(const struct tt_team *team, int32_t id);

/* Ranks that stand aside in the group of member id. */
int32_t tt_team_extras(const struct tt_team *team, int32_t id);

/* ---- fold: extras give a member their vectors, and get the result from it ---------- */

/* For a member: makes the sum of its group in dst. Returns the place of its value, IN if it is alone in its group. */
struct tt_operand tt_fold_in(struct tt_schedule *schedule, const struct tt_team *team, struct tt_operand dst);
/* For a member: sends the result, which is in OUT, to its group. */
void tt_fold_out(struct tt_schedule *schedule, const struct tt_team *team);
/* All steps of a rank that stands aside. */
void tt_fold_extra(struct tt_schedule *schedule, const struct tt_team *team);

/* ---- whole vectors ------------------------------------------------------------------ */

/* One round: the `factor` members whose ids differ only in the digit of that stride send each other their values at
 * `from`, and each combines all of them, in the order of ids, in `to`, another place. */
void tt_team_multiply(struct tt_schedule *schedule, const struct tt_team *team, int32_t stride, int32_t factor,
                      struct tt_operand from, struct tt_operand to);

/* The place in which round `round` of 1 .. rounds leaves its value so that the last one leaves it in OUT: not the place
 * of the round before, and not OUT while IN is being sent. A single round from IN has no such place and leaves it in
 * scratch. */
struct tt_operand tt_round_place(const struct tt_shape *shape, int32_t round, int32_t rounds, int from_in);

/* ---- parts of a vector; the size of the team is a power of two ----------------------- */

/* The blocks that member id is left with after halves are exchanged at distances 1, 2, 4 ... size / 2: the parts of the
 * vector lie in the order of the reversed bits of id. The parts of a smaller size are unions of those of a larger
 * size. */
struct tt_blocks tt_half_part(int32_t nblocks, int32_t size, int32_t id);

/* Reduce-scatter of the vector at `from` (IN or OUT): in each round a member sends the half that its partner keeps. A
 * member is left with its part of the sum in OUT; a member alone, with the vector where it was. */
void tt_team_halve(struct tt_schedule *schedule, const struct tt_team *team, struct tt_operand from);
/* All-gather of the parts, all in OUT: the same rounds backwards. */
void tt_team_double(struct tt_schedule *schedule, const struct tt_team *team);

/* Adds the cost of halve and double for the member shape->rank to *cost. */
void tt_halves_claim(const struct tt_shape *shape, const struct tt_team *team, struct tt_cost *cost);

#endif
