/* SPDX-License-Identifier: BSD-3-Clause */
/* The shard server: one rank's part in keeping weights to which all ranks contribute, as a pure step function. Events
 * go in; the caller takes actions out, one after the other, and carries them out: it holds contributions, adds them,
 * updates the weights and moves the bytes. The server decides only which contributions count, when, and who is told.
 *
 * Weights are cut into *shards*. Each shard has a *version*, the number of updates that it has had. Every rank takes
 * steps, numbered 0, 1, 2, ...; in each step it contributes to every shard, and then waits for an answer, the weights.
 * The rule says when a shard is updated:
 *
 *   synchronous  when contributions of `quorum` ranks of the step that is the shard's version are there. With quorum ==
 *                nranks each shard is updated by itself, as soon as it has all of them. With fewer (backup workers:
 *                Chen et al. 2016) one server, the *decider*, decides once for each step whose contributions count: so
 *                all shards of all servers have the same set. It counts only contributions that all servers hold
 *                completely, so no death afterwards changes the set. Contributions outside the set are dropped, and
 *                those that come later are refused: none counts in a later step. The new weights go to all ranks at
 *                once (P3: Jayarajan et al. 2019); with a decider, to those that have got the version that they were
 *                sent last. The others get the newest one when they have: so at most one is on its way to a rank
 *   asgd         at each contribution (Dean et al. 2012). One that was computed from weights more than `staleness`
 *                updates ago is refused, and its rank gets new weights
 *   softsync     at every `quorum` contributions, whoever sent them, otherwise likewise (Zhang et al. 2016)
 *   ssp          at each contribution. A rank gets its answer once it is at most `staleness` steps ahead of the slowest
 *                live one, so its weights have all updates of steps before that (Ho et al. 2013)
 *   easgd        at each contribution, which is a rank's own weights: the answer is the difference by which they change
 *                (Zhang, Choromanska, LeCun 2015)
 *   gossip       likewise, where each rank is the server of its own weights, and contributes to those of one neighbour
 *                in each step (AD-PSGD: Lian et al. 2018). A difference that one loses the other gains, whenever that
 *                is, so a server answers at once, also while its own rank waits: nobody waits in a circle, and the sum
 *                of all ranks' weights stays. Between two steps of its own rank at most `staleness` contributions
 *                count (0: any number); others are refused, and change neither side
 *
 * Invariants, which tests/unit/server.c simulates by seed:
 *   - a contribution counts at most once, also if it comes twice, and is given back exactly once: by its update, or as
 *     dropped;
 *   - the staleness told with an update is the number of the shard's updates since the version that the contribution
 *     was computed from; with asgd and softsync it never exceeds the bound, and with ssp no rank is answered too early.
 *     With gossip it is the number of updates since the last step of the server's own rank, this one included;
 *   - a synchronous update has contributions of one step and of at least `quorum` ranks, and those of a step have the
 *     same set on all servers;
 *   - as long as enough ranks live the shards of all live servers are updated: synchronous: `quorum` of them, else one.
 *     When too many are dead, that is said at once;
 *   - of the updates that are due, that of the most urgent shard is taken first;
 *   - with a decider each rank gets all shards of a version or none, at most one version is on its way to it, and each
 *     live rank gets the last one.
 * With a decider the shards of a server that dies are taken over (takeover.h), and so are they with asgd, softsync, ssp
 * and easgd (failover.h). With gossip a rank's weights die with it; synchronous without a decider its death ends the
 * job.
 *
 * Nothing here reads a clock or moves a byte. One thread at a time. */
#ifndef TT_SERVER_H
#define TT_SERVER_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

enum tt_server_kind {
  TT_SERVER_SYNCHRONOUS, TT_SERVER_ASGD, TT_SERVER_SOFTSYNC, TT_SERVER_SSP, TT_SERVER_EASGD, TT_SERVER_GOSSIP
};

/* The facts that are the same on all servers, except for the shards. */
struct tt_server_spec {
  enum tt_server_kind kind;
  int nranks;            /* that contribute */
  int quorum;            /* synchronous, softsync: 1 .. nranks. Others: 1 */
  uint64_t staleness;    /* asgd, softsync, gossip: in updates; ssp: in steps. Others: 0 */
  uint64_t version;      /* that all shards have at first; with a decider it is the first step */
  const uint64_t *holders; /* the decider: ranks that have this version, to the others it is on its way. NULL: all have.
                              Copied */
  int nservers;
  int by_decision;       /* synchronous: 1: the set is decided, as ever with quorum < nranks, also if all are needed:
                            ranks may begin behind the version, and skip steps */
  int is_decider;        /* 1: this server decides; with a decision exactly one server does */
  int nshards;           /* of this server, > 0 */
  const int32_t *urgency; /* of each shard: 0 goes first. Copied */
};

struct tt_server;

/* Errors: tuttiInvalidArgument: a field that is out of range; tuttiSystemError: no memory. */
tuttiResult_t tt_server_create(struct tt_server **server, const struct tt_server_spec *spec);
void tt_server_destroy(struct tt_server *server); /* NULL is allowed */

/* ---- events ---- */

struct tt_contribution {
  int rank, shard;
  uint64_t step; /* of the rank: larger than that of its last contribution to this shard that was kept or stale */
  uint64_t from; /* the version of the shard that it was computed from; synchronous: it is the step */
  uint64_t tag;  /* the caller's name for its bytes */
};

enum tt_server_verdict {
  TT_KEPT,     /* the caller holds the bytes until an action has the tag */
  TT_LATE,     /* synchronous: the shard has been updated without it */
  TT_STALE,    /* it was computed from weights that are too old. The rank is answered */
  TT_REPEATED, /* this step of the rank has been here */
  TT_TAKEN,    /* likewise, before tt_server_restore. The rank is answered */
  TT_GONE,     /* the rank was told to be dead */
  TT_WRONG,    /* no correct rank sends this: out of range, from a version that does not exist, or before the answer to
                  its last one */
};

/* Contributions that are not kept are of no more use. */
enum tt_server_verdict tt_server_contribute(struct tt_server *server, const struct tt_contribution *contribution);

/* A rank is dead, and contributes no more. Its contributions that are here still count. */
void tt_server_died(struct tt_server *server, int rank);

/* The part of a rank in a shard. */
struct tt_server_progress {
  uint64_t steps; /* that were kept, or were stale: 1 + the last one */
  int is_odd;     /* 1: an odd number of them was kept */
  int is_owed;    /* 1: the last one was kept, and not answered */
};

/* Not synchronous, gossip: before all contributions: the shard goes on where another server has ended, from this
 * version. */
void tt_server_restore(struct tt_server *server, int shard, uint64_t version);
void tt_server_restore_rank(struct tt_server *server, int shard, int rank, const struct tt_server_progress *progress);

/* 1: an odd number of contributions of a rank was kept for a shard. */
int tt_server_is_odd(const struct tt_server *server, int shard, int rank);

/* For the decider: a server (number `from` of all, also this one) has said TT_HELD of this rank and step. Returns 0 and
 * changes nothing if no correct server says this: out of range, twice, or of a step that no server has come to. */
int tt_server_held(struct tt_server *server, int from, int rank, uint64_t step);

/* For the decider: a rank has got all shards of a version. Returns 0 and changes nothing if no correct rank says
 * this. */
int tt_server_seen(struct tt_server *server, int rank, uint64_t version);

/* The decider has said TT_DECIDE: of steps in their order, also to itself. Returns 0 and changes nothing if no correct
 * decider says this: fewer ranks than the quorum, others than ranks, or ranks whose contributions are not here. */
int tt_server_decided(struct tt_server *server, uint64_t step, const uint64_t *set, const uint64_t *gets);

/* The decider has said TT_SHOW. Its words keep their order. Returns 0 likewise: it is not the newest version. */
int tt_server_show(struct tt_server *server, int rank, uint64_t version);

/* gossip: the server's own rank has brought its weights of a shard. */
void tt_server_renew(struct tt_server *server, int shard);

/* gossip: the rank to which `rank` contributes in a step. It is 1, 2, 4, ... places behind it, in turn, or the next one
 * that is not dead. -1: there is none. */
int tt_server_neighbour(const struct tt_server *server, int rank, uint64_t step);

/* Steps of a rank that this server has seen completely: 1 + the last one. */
uint64_t tt_server_steps(const struct tt_server *server, int rank);

/* ---- actions ---- */

enum tt_server_act {
  TT_HELD,   /* tell the decider: all shards of this server have the contribution of `rank` to `step` */
  TT_DECIDE, /* tell all servers: these ranks' contributions to `step` count: `set`; `gets` get the weights */
  TT_SHOW,   /* tell all servers: `rank` gets the weights of `version` */
  TT_UPDATE, /* add the contributions, update the shard, and let go of their bytes. It has `version` then */
  TT_ANSWER, /* send the weights of the shard, which have `version`, to `rank`; -1: to the live ranks in `gets`, or,
                where that is NULL, to all live ranks */
  TT_DROP,   /* let go of the bytes of one contribution, which does not count */
  TT_FAIL,   /* too many ranks are dead: `set`. There is no further action, but, with a decider, those that follow from
                what was decided: ranks get the last version */
};

struct tt_counted {
  int rank;
  uint64_t step, staleness, tag;
};

struct tt_server_action {
  enum tt_server_act act;
  int rank, shard;
  uint64_t step, version;
  const uint64_t *set, *gets;       /* bit rank % 64 of word rank / 64 */
  const struct tt_counted *counted; /* TT_UPDATE, TT_DROP: `ncounted`. Synchronous: in the order of ranks */
  int ncounted;
};

/* Takes the next action, and returns 1; 0: there is none now. Pointers in it are valid until the next call. The decider
 * and TT_FAIL come before shards, and shards by urgency; of one shard each answer is behind the update it shows. */
int tt_server_next(struct tt_server *server, struct tt_server_action *action);

#endif
