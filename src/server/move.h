/* SPDX-License-Identifier: BSD-3-Clause */
/* A move decides from which weights a fusion with servers goes on with another set of ranks, after a shrink or a grow:
 * pure functions of the words of its ranks, so that all find the same.
 *
 * The servers of the old set have ended: nobody contributes, updates or is answered any more. Any of the old ranks may
 * be missing in the new set, and new ranks know nothing. A shard of the old set has its weights, and whatever else the
 * rule keeps, on its server, if that is in the new set, and copies of the weights on ranks that were answered:
 *
 *   by decision     all shards go on from one version, the newest that a rank of the new set holds completely
 *   all contribute  likewise, from the lowest that the last step of one of these ranks gave
 *   others          each shard goes on from its server's weights, or else from the newest copy
 *
 * Each rank makes a *claim* to give a shard; the largest one counts. A server that has had an update more goes back by
 * one. A shard that nobody claims is lost.
 *
 * Invariants, which tests/unit/takeover.c and failover.c check in what they simulate, whenever it stops:
 *   - by decision all shards have the same contributors to each step, and no update is lost that a rank of the new set
 *     has seen completely. Nothing is lost, except what takeover.h says of a minority;
 *   - otherwise no contribution is in a shard twice, and all that a rank of the new set was answered is in it. */
#ifndef TT_MOVE_H
#define TT_MOVE_H

#include <stdint.h>

enum tt_move_rule { TT_MOVE_BY_DECISION, TT_MOVE_ALL, TT_MOVE_OTHERS };

/* A rank of the new set. */
struct tt_move_rank {
  int has_come;   /* 0: it is new */
  uint64_t ended; /* version that its last step gave */
  uint64_t holds; /* by decision: of which it holds all weights */
};

/* The version from which all shards go on; others: 0. */
uint64_t tt_move_version(enum tt_move_rule rule, const struct tt_move_rank *ranks, int n);

/* A shard of the old set, as a rank has it. */
struct tt_move_shard {
  int serves, goes_back;    /* its server is here; and can go back by one update */
  int has_copy;
  uint64_t version, copied; /* of the server's weights; of the copy */
};

/* The claim of a rank (of the new set, below 2^20) to give it: 0: it has none. */
uint64_t tt_move_claim(enum tt_move_rule rule, uint64_t version, int rank, const struct tt_move_shard *shard);

/* Facts of the largest claim, whose rank gives the shard: 1: as its server, 0: from a copy; its version. */
int tt_move_is_served(uint64_t claim);
uint64_t tt_move_claimed(uint64_t claim);

#endif
