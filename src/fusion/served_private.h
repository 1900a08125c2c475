/* SPDX-License-Identifier: BSD-3-Clause */
/* A fusion with servers: contributions count when they come. Its engine (served.c) is two things in one thread: the
 * rank's *member* (member.c), which sends contributions and takes weights, and its *server* (shards.c), which carries
 * out what src/server decides for the elements that the rank owns. Both only send and take packets (packets.c), to and
 * from any rank, also this one. A server's shard is all that its rank owns of a tensor, packed. A rank's *share* is all
 * that it owns; when it dies, another one serves that, too (deaths.c). */
#ifndef TT_FUSION_SERVED_PRIVATE_H
#define TT_FUSION_SERVED_PRIVATE_H

#include "comm/coded.h"
#include "fusion/private.h"
#include "server/failover.h"
#include "server/server.h"
#include "server/takeover.h"

/* ---- packets.c ---- */

enum packet_kind {
  CONTRIBUTION, /* to a server: elements of its shard */
  WEIGHTS,      /* from a server: the set of ranks of which they have an odd number of steps, then elements */
  HELD,         /* to the decider: the server has all contributions of `rank` to `step` */
  SEEN,         /* to the decider: the sender has got all weights of `version` */
  DECIDED,      /* from the decider: the sets of those that count in `step`, and of those that get the weights */
  SHOW,         /* from the decider: `rank` gets the weights of `version` */
  LEAVES,       /* the sender contributes no more; it has seen weights of `version` */
  LIVES,        /* to a rank that has left and owns nothing, so hears of no contributions: the sender has made one */
  REPORT,       /* the sets of the dead, and of shares that the sender serves: `version` is what it holds completely,
                   `step` what its shares go back to */
  ORDER,        /* to go on with `version`: the sets of the dead and of those that hold it, and who serves each share */
  OFFER,        /* to who serves a share of a dead rank: as weights; `step` is 1 + the last one that was answered, and
                   `rank` is 1 if an odd number of these counted, else 0 */
  MADE,         /* the sender has all that the fusion needs, and takes deaths for no failure */
  PACKET_KINDS
};

struct packet_head {
  uint64_t step, version; /* contribution: the version that it was computed from; weights: theirs */
  int32_t kind, tensor, rank;
  int32_t is_refused;     /* weights: the rank's contribution did not count */
  int32_t share;          /* contribution, weights, held: the rank whose elements they are */
  uint32_t capacity;      /* contribution by a codec: as tt_codec_capacity gives it, */
  float fact;             /* and what its rank has prepared; 0: nothing */
  int32_t epoch;          /* of the sender */
  float rate, after;      /* contribution: of its rank */
};

/* The payload lies behind it: words of a set, and weights behind these; or a contribution. */
struct packet {
  struct packet *next, **at; /* at: of one that a server holds, the pointer to it */
  int refs, from, npostings; /* npostings: ranks to which it is on its way */
  size_t bytes;
  struct packet_head head;
};

static inline void *packet_payload(struct packet *packet)
{
  return packet + 1;
}

/* The packet of a contribution: its name for servers is its address. */
static inline struct packet *packet_of(const struct tt_counted *counted)
{
  return (struct packet *)(uintptr_t)counted->tag;
}

struct posting;

struct mailbox {
  struct packet *first, **last; /* came, and were not taken */
  struct posting *postings;     /* on their way, */
  int ncontributions;           /* those of this rank's contributions, */
  _Atomic uint64_t queued, queued_most; /* and the bytes of all; a packet for several ranks counts once */
  struct tuttiMessage message;  /* the receive */
  char *room;                   /* its */
  size_t room_bytes;
  int is_posted;
  int is_closed;                /* nothing can come any more */
};

/* ---- the two parts ---- */

/* A share that this rank serves. */
struct share {
  struct tt_server *server; /* NULL: it has no elements, or another rank serves it */
  int rank;                 /* whose share it is */
  int nshards;
  int32_t *of_tensor, *tensors; /* the shard of each tensor, -1: none; and back */
  uint64_t *versions;       /* of each shard */
  uint64_t *sets;           /* of each shard: the ranks of which an odd number of steps counted; and the one before */
  uint8_t *refused;         /* of each shard and rank: its last contribution was */
  struct packet **answers;  /* exchanges: of each shard and rank: the difference that it is to get; NULL: none yet */
  struct packet *held;      /* contributions that no action has named */
  /* if updates are of one step: */
  float *before;            /* the planes of each shard before its last update, */
  uint64_t *places;         /* where they begin there, */
  uint8_t *goes_back;       /* 1: they are there */
};

struct shards {
  int by_decision;          /* 1: fewer than all ranks count, or once did, and the set is decided */
  int nservers, decider;    /* decider: the share whose server decides */
  uint64_t *told;           /* a set of ranks, while all servers are told a word */
  int32_t *number;          /* of each share: that of its server; -1: it has no elements */
  struct share *shares;     /* of each rank */
  pthread_mutex_t planes;   /* held while weights change */
  float *sum;               /* room for the sum of coded or narrow contributions to a shard */
  uint64_t counted, staleness_sum, staleness_most;
};

/* Weights of all tensors of one version. */
struct version {
  uint64_t version;
  float *weights; /* by decision, */
  uint64_t *set;  /* and the ranks of which an odd number of steps are in them */
};

/* Ranks that have died. Their shares are taken over by decision, or, without one, by a failover; with gossip a share is
 * a rank's own weights, which die with it. */
struct deaths {
  uint64_t *dead;               /* a set; NULL: a death ends the fusion */
  uint64_t *made;               /* ranks that have said so, a set */
  int is_made;                  /* all that live have, or a death is a failure. Set under the mutex */
  struct tt_takeover *takeover; /* NULL: not by decision */
  struct tt_failover *failover; /* NULL: by decision, or gossip */
  struct packet *waiting;       /* of an epoch that has not begun here, or for a share that is not served here yet */
};

struct member {
  uint64_t version;         /* synchronous: of the weights that the last step gave; else of the newest one */
  uint64_t *from;           /* of each tensor and owner: the version of its weights, of those in cut.weights; */
  uint64_t *behind;         /* the program's have so many updates less, until the first answer behind a move */
  int32_t *owed;            /* of each share: its answers that have not come; not by decision */
  uint8_t *is_owed;         /* of each tensor and share: likewise, */
  uint8_t *is_odd;          /* and an odd number of contributions has counted */
  uint64_t *sets;           /* with a failover, of each tensor and share: the set that came with its weights */
  int32_t *parts_left;      /* of each tensor: weights that have not come; -1: it was not sent in this step */
  uint64_t *places;         /* of each tensor: its first element in a cut */
  int nsent, nfinished;     /* tensors of this step */
  int is_held_back;         /* by decision: 1: contributions to an earlier step are still on their way */
  int is_dropped;           /* 1: a contribution to this step did not count */
  uint64_t dropped;         /* steps of which that is true */
  /* by decision: */
  struct version cut, next;     /* the newest that is complete; the one that comes: `nleft` shards are missing */
  int nparts, nleft;
  /* with a failover cut.weights are what was answered last, with easgd what this rank's weights were then */
};

/* The time for which this rank has waited for others. */
struct patience {
  uint64_t since_ns;        /* 0: it does not wait */
  int is_warned;
};

struct served {
  struct mailbox mailbox;
  struct shards shards;
  struct member member;
  struct deaths deaths;
  struct patience patience;
  enum tt_server_kind kind;
  int nwords;               /* of a set of ranks */
  uint64_t *left;           /* of each rank: 1 + the version with which it left; 0: it is here */
  int nleft, is_leaving;
  int is_given;             /* this rank's weights were */
  const struct tuttiComm *heir; /* the channel of the fusion that this one moves to; NULL: none. Set before the stop */
  int wake;                 /* an eventfd that ends the engine's sleep; 0: none yet */
};

/* Makes a packet with room for so many bytes of payload. NULL: no memory, and the sentence is set. */
struct packet *tt_packet_make(enum packet_kind kind, size_t payload);
void tt_packet_drop(struct packet *packet); /* a reference */

/* Makes one of a kind that has two sets of ranks; what lies behind them is the caller's. NULL: likewise. The bytes of
 * its payload. */
struct packet *tt_packet_of_sets(const struct tuttiFusion *fusion, enum packet_kind kind, const uint64_t *first,
                                 const uint64_t *second);
size_t tt_sets_bytes(const struct tuttiFusion *fusion, enum packet_kind kind);

/* Sends a packet to a rank; the reference stays the caller's. */
tuttiResult_t tt_packet_post(struct tuttiFusion *fusion, struct packet *packet, int rank);

/* Takes the packet that came first; NULL: there is none. The caller has its reference. */
struct packet *tt_packet_take(struct mailbox *mailbox);

/* Puts a packet behind those that have come, with its reference. */
void tt_packet_arrive(struct mailbox *mailbox, struct packet *packet);

/* Moves packets. 1: something moved. */
int tt_packets_move(struct tuttiFusion *fusion, int look, tuttiResult_t *result);

/* Errors: tuttiRemoteError: this rank has sent what no correct rank sends. */
tuttiResult_t tt_packet_wrong(const struct tuttiFusion *fusion, int rank);

/* 1: something is on its way to this rank. */
int tt_packets_are_queued(const struct mailbox *mailbox, int rank);

/* Frees what was on its way, once the channel is destroyed. */
void tt_packets_free(struct mailbox *mailbox);

/* Elements of a tensor that a rank owns; they are packed, and taken apart again. */
uint64_t tt_share_count(const struct tuttiFusion *fusion, int tensor, int rank);
void tt_share_pack(const struct tuttiFusion *fusion, int tensor, int rank, float *to, const float *from);
void tt_share_unpack(const struct tuttiFusion *fusion, int tensor, int rank, float *to, const float *from);

/* Copies them from one whole tensor to another. */
void tt_share_copy(const struct tuttiFusion *fusion, int tensor, int rank, float *to, const float *from);

/* The number of the engine's step of this rank, from 0 on, those before a move included. */
static inline uint64_t tt_served_step(const struct tuttiFusion *fusion)
{
  return fusion->coding.past.steps + fusion->engine.step - 1;
}

static inline int tt_set_has(const uint64_t *set, int rank)
{
  return (int)(set[rank / 64] >> (rank % 64) & 1);
}

static inline int tt_is_dead(const struct tuttiFusion *fusion, int rank)
{
  const struct deaths *deaths = &fusion->served->deaths;
  return deaths->dead && tt_set_has(deaths->dead, rank);
}

/* 1: the death of a rank does not end the fusion. */
static inline int tt_deaths_are_survived(const struct tuttiFusion *fusion)
{
  return fusion->served->deaths.dead != NULL;
}

static inline int tt_deaths_epoch(const struct tuttiFusion *fusion)
{
  const struct deaths *deaths = &fusion->served->deaths;
  return deaths->takeover ? tt_takeover_epoch(deaths->takeover) : 0;
}

/* ---- contributions.c: contributions and weights as they travel ---- */

/* Bytes of a contribution with such a head, which names a tensor and a share; 0: no correct rank sends it. Those of
 * weights, with the set. The most of any packet. */
uint64_t tt_contribution_bytes(const struct tuttiFusion *fusion, const struct packet_head *head);
uint64_t tt_weights_bytes(const struct tuttiFusion *fusion, int tensor, int share);
uint64_t tt_offer_bytes(const struct tuttiFusion *fusion, int tensor, int share);
size_t tt_payload_most(const struct tuttiFusion *fusion);

/* Makes a packet of this rank's contribution to a share of a tensor; `step` and `version` are the caller's. NULL: no
 * memory, and the sentence is set. */
struct packet *tt_contribution_make(struct tuttiFusion *fusion, int tensor, int share);

/* A contribution does not count: what its codec has left out is as before. */
void tt_contribution_undo(struct tuttiFusion *fusion, int tensor, int share);

/* The step ends, and its contributions count, but for those that were undone. */
void tt_contributions_keep(struct tuttiFusion *fusion);

/* Adds the contributions of an update, times the factors of the result; they may be changed. *sum is valid until the
 * next call, or until they are let go. Errors: tuttiRemoteError: a code is damaged. */
tuttiResult_t tt_contributions_add(const struct tuttiFusion *fusion, const struct tt_server_action *action,
                                   float **sum);

/* Weights of a share, behind the set of the packet, from this rank's masters; and to a whole tensor of a type. */
void tt_weights_write(const struct tuttiFusion *fusion, struct packet *packet);
void tt_weights_read(const struct tuttiFusion *fusion, struct packet *packet, int type, void *to);

/* ---- coded.c, update.c: what these have in common with fusions without servers ---- */

/* A part of a coded tensor, in the engine's step. */
struct tt_coded_part tt_fusion_coded_part(struct tuttiFusion *fusion, const struct part *part);

/* Finds the facts about a tensor times a factor, once a step. 0: no memory. */
int tt_fusion_facts_find(struct tuttiFusion *fusion, int tensor, float factor);

/* The values times a factor, until the next call. NULL: no memory. */
float *tt_fusion_scaled(struct tuttiFusion *fusion, const float *values, uint64_t count, float factor);

/* The codes of a step count: what they have left out is in the units of results before the factor `after`. */
void tt_fusion_codes_keep(struct tuttiFusion *fusion, float after);

/* The type in which elements of tensors of a type travel without a codec: contributions, and weights. */
int tt_fusion_wire(const struct config *config, int type, enum tt_codec_stage stage);

/* ---- shards.c ---- */

tuttiResult_t tt_shards_make(struct tuttiFusion *fusion);
void tt_shards_free(struct tuttiFusion *fusion);

/* 1: in the present epoch its sender may send it to this rank. */
int tt_shards_expect(const struct tuttiFusion *fusion, const struct packet *packet);

/* Takes a packet for the servers, and does all that follows from it. The reference is taken, too. */
tuttiResult_t tt_shards_take(struct tuttiFusion *fusion, struct packet *packet);

/* The rank that serves a share. */
int tt_shards_server(const struct tuttiFusion *fusion, int share);

/* The oldest version to which all shards here can go back. */
uint64_t tt_shards_least(const struct tuttiFusion *fusion);

/* Serves a share from this version on, in a new epoch. One that was not served here has the weights of the member's
 * cut. Ranks that do not hold the version get it. */
tuttiResult_t tt_shards_begin(struct tuttiFusion *fusion, int share, const struct tt_takeover_order *order);

/* Makes this rank serve a share: nothing is in its server yet. */
tuttiResult_t tt_shards_add(struct tuttiFusion *fusion, int share);

/* A move: copies a plane's elements of a share that this rank serves, as they were at this version, to a whole tensor.
 * Contributions that wait for others. Begins with a version, and with so many steps of each rank behind it. */
void tt_shards_give(const struct tuttiFusion *fusion, int share, int tensor, int plane, uint64_t version, float *to);
uint64_t tt_shards_held(const struct tuttiFusion *fusion);
tuttiResult_t tt_shards_restore(struct tuttiFusion *fusion, uint64_t version, const uint64_t *steps);

/* A rank contributes no more. */
tuttiResult_t tt_shards_died(struct tuttiFusion *fusion, int rank);

/* ---- decision.c ---- */

/* Tells what a server says to the decider, or the decider to servers; of other actions nothing. */
tuttiResult_t tt_decision_tell(struct tuttiFusion *fusion, const struct share *share,
                               const struct tt_server_action *action);

/* Tells a server what a packet says that is no contribution; the reference stays the caller's. */
tuttiResult_t tt_decision_take(struct tuttiFusion *fusion, struct share *share, struct packet *packet);

/* ---- deaths.c ---- */

/* Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_deaths_make(struct tuttiFusion *fusion);
void tt_deaths_free(struct deaths *deaths);

/* The end of the making: from now on ranks may die, and the fusion is made once all that live have come here. So it is
 * made on all of them or on none: a rank that fails before it has come here ends the channel of all. 1: it is made
 * now. Errors: it was known before that a rank has died, or has failed; tuttiSystemError. */
tuttiResult_t tt_deaths_spare(struct tuttiFusion *fusion);
int tt_deaths_made(struct tuttiFusion *fusion);

/* A rank has said that it has come there. */
void tt_deaths_hear(struct tuttiFusion *fusion, int rank);

/* Looks for ranks that have died, or have left without a word. Errors: too many have died. */
tuttiResult_t tt_deaths_look(struct tuttiFusion *fusion);

/* 1: the packet belongs to the present epoch, or to all. Else its reference is taken: it has no effect, or waits for
 * its epoch. */
int tt_deaths_admit(struct tuttiFusion *fusion, struct packet *packet);

/* Takes a report, an order or an offer, and its reference. */
tuttiResult_t tt_deaths_take(struct tuttiFusion *fusion, struct packet *packet);

/* Lets those that wait for an epoch, or for a share, come again. */
void tt_deaths_go_on(struct tuttiFusion *fusion);

/* Warns that the fusion goes on without the dead. */
void tt_deaths_tell(const struct tuttiFusion *fusion, uint64_t version);

/* ---- offers.c: shares of dead ranks without a decision ---- */

/* Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_offers_make(struct tuttiFusion *fusion);

/* A rank is dead: offers what this rank has of its shares. */
tuttiResult_t tt_offers_died(struct tuttiFusion *fusion, int rank);

/* Takes an offer, and its reference, unless it is early: then *is_early. */
tuttiResult_t tt_offers_take(struct tuttiFusion *fusion, struct packet *packet, int *is_early);

/* ---- exchange.c: easgd and gossip ---- */

static inline int tt_is_exchange(const struct served *served)
{
  return served->kind == TT_SERVER_EASGD || served->kind == TT_SERVER_GOSSIP;
}

/* Exchanges the server's weights with those of a contribution, under the lock of planes. */
tuttiResult_t tt_exchange(struct tuttiFusion *fusion, struct share *share, const struct tt_server_action *action,
                          struct packet *packet);

/* Takes the packet that answers it; NULL: no memory. */
struct packet *tt_exchange_answer(const struct tuttiFusion *fusion, struct share *share,
                                  const struct tt_server_action *action);

/* gossip: the neighbour of this step. -1: it has none. */
int tt_exchange_partner(const struct tuttiFusion *fusion);

/* gossip: takes the weights of a tensor that was pushed. */
void tt_exchange_begin(struct tuttiFusion *fusion, int tensor);

/* Takes the difference of a server's elements, and gives the weights. NULL: gossip without a neighbour. */
void tt_exchange_end(struct tuttiFusion *fusion, int tensor, int owner, const float *difference);

/* ---- patience.c ---- */

/* Warns, or fails, if this rank has waited too long for others: in the making, for weights of a step that it has
 * pushed, or, once it has left, for a sign of those that have not, or have not taken its messages. After each turn of
 * the engine. */
tuttiResult_t tt_patience_look(struct tuttiFusion *fusion, int moved);

/* The sleep of the engine (struct tt_waiter), which a push ends; its descriptor. Errors: tuttiSystemError: none is
 * left. tt_served_wake: under the mutex. */
tuttiResult_t tt_served_wake_make(struct tuttiFusion *fusion);
enum tt_slept tt_served_sleep(void *fusion, uint64_t ns);
void tt_served_wake(struct tuttiFusion *fusion);

/* ---- member.c ---- */

/* Sends the contributions of tensors that were pushed, that of the one which forward needs first before others. 1: it
 * did. */
int tt_member_send(struct tuttiFusion *fusion, tuttiResult_t *result);

/* Takes weights, and the reference of their packet. */
tuttiResult_t tt_member_take(struct tuttiFusion *fusion, struct packet *packet);

/* Ends the step if all its weights are there. 1: it did. */
int tt_member_step(struct tuttiFusion *fusion);

/* Forgets what has come of a version. */
void tt_cut_begin(struct tuttiFusion *fusion);

/* The caller has given weights of a tensor. Under the lock of planes. */
void tt_cut_given(struct tuttiFusion *fusion, int tensor, const float *weights);

/* Contributions to the step under way have no effect: they are sent again. */
void tt_contributions_again(struct tuttiFusion *fusion);

/* Likewise those to a share that were not answered. */
tuttiResult_t tt_member_resend(struct tuttiFusion *fusion, int share);

/* gossip: a neighbour is dead: what it owes never comes. */
void tt_member_forget(struct tuttiFusion *fusion, int rank);

/* ---- served.c: contributions that count when they come ---- */

/* Reads the options, and checks the others, which config has, for them. */
tuttiResult_t tt_fusion_serving_read(struct config *config, const tuttiFusionConfig_t *asked);

/* A fusion that moves keeps what was asked for first. */
void tt_fusion_serving_keep(struct serving *serving, const struct serving *from);

/* Errors: tuttiSystemError: no memory. */
tuttiResult_t tt_fusion_served_make(struct tuttiFusion *fusion);
void tt_fusion_served_free(struct tuttiFusion *fusion); /* after its channel */

/* The engine of such a fusion; its creator waits until it is made. Errors: it is not. */
void *tt_fusion_served_main(void *fusion);
tuttiResult_t tt_fusion_served_await(struct tuttiFusion *fusion);

/* A rank contributes no more. */
void tt_served_left(struct tuttiFusion *fusion, int rank, uint64_t version);

/* 1: this rank serves the share, of this rank or a dead one. Under the lock of planes. */
int tt_fusion_serves(const struct tuttiFusion *fusion, int share);

/* Excludes updates while planes are copied. */
void tt_fusion_planes_lock(struct tuttiFusion *fusion, int locks);

/* The state of `from` goes on; *is_counted: 1: a step that had not ended counts. As tt_fusion_take. */
tuttiResult_t tt_served_take(struct tuttiFusion *fusion, const struct tuttiFusion *from, int *is_counted);

/* Under the mutex. */
void tt_fusion_served_info(struct tuttiFusion *fusion, tuttiFusionInfo_t *info);

#endif
