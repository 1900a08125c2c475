/* SPDX-License-Identifier: BSD-3-Clause */
/* A takeover decides who serves the shards of dead ranks, and from which version all go on: a pure step function, one
 * on each rank. Events go in; the caller takes actions out, one after the other, and carries them out.
 *
 * It is for the synchronous rule with a decider (server.h), in which each rank holds complete weights of one version,
 * of all shards: the newest that it has got. The shards are those of *shares*, one for each rank, which serves its own
 * until it dies. When ranks have died, each live one stops, and *reports* to the first live one which ranks are dead,
 * and what it holds. The first one waits for reports of all live ranks about the same deaths, and *orders*: go on from
 * the newest version that any of them holds. Then each rank begins a new *epoch*; its number is that of the dead ranks:
 *
 *   - a share whose server lives stays there, also one of a rank that died before. Each other one is served by the next
 *     live rank that holds this version, from that copy;
 *   - other shards that have had one update more forget it, and servers begin with this version (tt_server_create);
 *   - the servers send it to the ranks that do not hold it;
 *   - whatever was sent in an earlier epoch has no effect any more, and ranks contribute to their present step again;
 *   - the decider is the first server.
 *
 * Invariants, which tests/unit/takeover.c simulates by seed:
 *   - no live rank loses an update that it has seen: all of them, and all shards, have the same contributors to a step;
 *   - a rank that died contributed to a step for all shards, or for none;
 *   - each share has one server, which lives, as long as no rank dies any more, and moves only when that dies;
 *   - as long as at most `most` ranks die the others go on, and one more is said at once, with all of their names. One
 *     exception: if the quorum is not more than half of the ranks, so few may have run ahead that what they have done
 *     dies with them, and cannot be forgotten. The others are told so, too (is_lost).
 * For the first of these a rank that dies must be known to all others, sooner or later.
 *
 * Nothing here reads a clock or moves a byte. One thread at a time. */
#ifndef TT_TAKEOVER_H
#define TT_TAKEOVER_H

#include <stdint.h>

#include "base/base.h"

struct tt_takeover;

/* most: ranks that may die, n - quorum. Errors: tuttiInvalidArgument; tuttiSystemError: no memory. */
tuttiResult_t tt_takeover_create(struct tt_takeover **takeover, int nranks, int rank, int most);
void tt_takeover_destroy(struct tt_takeover *takeover); /* NULL is allowed */

/* ---- events ---- */

/* A rank is dead. Sets of ranks: bit rank % 64 of word rank / 64. */
void tt_takeover_died(struct tt_takeover *takeover, int rank);

/* A rank (also this one) has said TT_REPORT. Returns 0 and changes nothing if no correct rank says this: the sets have
 * others than ranks, or the sender among the dead. Likewise below, also with a holder among the dead. */
struct tt_takeover_report {
  const uint64_t *dead, *serves; /* serves: shares that have a server on the sender: its own, and others */
  uint64_t version; /* the newest of which the sender holds complete weights */
  uint64_t least;   /* the oldest to which its servers can go back: that of each of its shards, or one less */
};
int tt_takeover_reported(struct tt_takeover *takeover, int from, const struct tt_takeover_report *report);

/* A rank (also this one) has said TT_ORDER. */
struct tt_takeover_order {
  const uint64_t *dead, *holders; /* holders: of the version; none: it is lost */
  const int32_t *owners;          /* of each share */
  uint64_t version;
};
int tt_takeover_ordered(struct tt_takeover *takeover, int from, const struct tt_takeover_order *order);

/* ---- state ---- */

/* The number of ranks that were dead when the present epoch began. */
int tt_takeover_epoch(const struct tt_takeover *takeover);

/* 1: this rank has reported, and goes on with the next epoch: what comes of the present one has no effect. */
int tt_takeover_is_stopped(const struct tt_takeover *takeover);

/* The rank that serves a share in the present epoch. */
int tt_takeover_owner(const struct tt_takeover *takeover, int share);

/* ---- actions ---- */

enum tt_takeover_act {
  TT_REPORT, /* tell rank `to` what this rank holds, and take nothing more of the present epoch */
  TT_ORDER,  /* tell rank `to`: `order` */
  TT_BEGIN,  /* the next epoch has begun, by `order` */
  TT_DOOMED, /* too many ranks are dead: order.dead; or what they have done is lost (is_lost). No further action */
};

struct tt_takeover_action {
  enum tt_takeover_act act;
  int to, is_lost;
  const uint64_t *serves;         /* TT_REPORT */
  struct tt_takeover_order order; /* TT_REPORT, TT_DOOMED: the dead alone */
};

/* Takes the next action, and returns 1; 0: there is none now. All are taken before another kind of event. Pointers in
 * an action are valid until the next event or call. */
int tt_takeover_next(struct tt_takeover *takeover, struct tt_takeover_action *action);

#endif
