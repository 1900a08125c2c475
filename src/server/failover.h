/* SPDX-License-Identifier: BSD-3-Clause */
/* A failover decides who serves the shards of dead ranks where a step needs no quorum (asgd, softsync, ssp, easgd), and
 * from which weights: a pure step function, one on each rank. Events go in; the caller takes actions out, one after the
 * other, and carries them out.
 *
 * The shards are those of *shares*, one for each rank, which serves its own until it dies. Then the next live rank
 * does, in a circle. No round of all ranks is needed: a server's answers tell each rank a version of a shard, so when a
 * rank hears of a death it *offers* what it has got last of each shard to the rank that serves the share now, takes
 * nothing more of the dead one, and sends again what that did not answer. The new server waits for the offers of all
 * live ranks, and goes on with the newest version of each shard.
 *
 * Answers also tell whose last contribution is in a version. A rank whose contribution is in, and was not answered,
 * gets its answer, and does not count again; one that was refused, and not told so, is judged again. With easgd a rank
 * offers its own weights, with which the center begins once more: contributions that were not answered are made again.
 *
 * Invariants, which tests/unit/failover.c simulates by seed:
 *   - a contribution is in the weights of a shard at most once;
 *   - a live rank finds in each answer all that was in the one before, and its contribution, unless it is told that
 *     this was refused; with softsync up to quorum - 1 contributions that were answered before their update are lost
 *     with a server;
 *   - versions never go back for a live rank, and with ssp no rank is answered too early;
 *   - each share has one server, which lives, as long as no rank dies any more; the others go on while one lives.
 * For these a rank that dies must be known to all others, sooner or later.
 *
 * Nothing here reads a clock or moves a byte. One thread at a time. */
#ifndef TT_FAILOVER_H
#define TT_FAILOVER_H

#include <stdint.h>

#include "base/base.h"
#include "server/server.h"

struct tt_failover;

/* nshards: of each share; is_elastic: 1: easgd. Errors: tuttiInvalidArgument; tuttiSystemError: no memory. */
tuttiResult_t tt_failover_create(struct tt_failover **failover, int nranks, int rank, const int *nshards,
                                 int is_elastic);
void tt_failover_destroy(struct tt_failover *failover); /* NULL is allowed */

/* ---- events ---- */

/* A rank is dead. Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_failover_died(struct tt_failover *failover, int rank);

/* A rank (also this one) has said TT_OFFER, of one shard. */
struct tt_offer {
  int share, shard;
  uint64_t version;    /* of the weights; 0: those at first */
  uint64_t steps;      /* 1 + the last step of which the rank's contribution to the shard was answered; 0: none was */
  int is_odd;          /* 1: an odd number of these was not refused */
  const uint64_t *set; /* bit rank % 64 of word rank / 64: an odd number of contributions of the rank was kept with this
                          version or before. An answer has it (tt_server_is_odd) */
};

enum tt_offer_verdict {
  TT_OFFER_NEWEST, /* the caller keeps its weights, in place of those of another offer of the shard */
  TT_OFFER_OLDER,  /* they are of no use */
  TT_OFFER_EARLY,  /* this rank does not serve the share yet: to be given again after the next death */
  TT_OFFER_WRONG,  /* no correct rank sends this: out of range, or twice */
};

enum tt_offer_verdict tt_failover_offered(struct tt_failover *failover, int from, const struct tt_offer *offer);

/* ---- state ---- */

/* The rank that serves a share, as far as this rank knows. */
int tt_failover_owner(const struct tt_failover *failover, int share);

/* 1: this rank serves the share: its own, or one for which TT_SERVE was taken. */
int tt_failover_serves(const struct tt_failover *failover, int share);

/* Facts of a shard of a share for which TT_SERVE was taken: the newest version, and what it has of a live rank. */
uint64_t tt_failover_version(const struct tt_failover *failover, int share, int shard);
struct tt_server_progress tt_failover_progress(const struct tt_failover *failover, int share, int shard, int rank);

/* ---- actions ---- */

enum tt_failover_act {
  TT_OFFER, /* offer rank `to` what this rank has of all shards of `share`, then contribute again where it owes one */
  TT_SERVE, /* serve `share` from now on: begin with tt_failover_version and tt_failover_progress */
};

struct tt_failover_action {
  enum tt_failover_act act;
  int share, to;
};

/* Takes the next action, and returns 1; 0: there is none now. All are taken before another kind of event. */
int tt_failover_next(struct tt_failover *failover, struct tt_failover_action *action);

#endif
