/* SPDX-License-Identifier: BSD-3-Clause */
/* Control links of one rank to the ranks r - 2, r - 1, r + 1, r + 2 (mod nranks) of communicators over several
 * hosts, and, where losses end no communicator, to those next to it in the ring of the ranks that are left. The lower
 * rank of a pair dials. All functions but tt_control_given_up are called with the service lock held. */
#ifndef TT_WATCH_CONTROL_H
#define TT_WATCH_CONTROL_H

#include "watch/page.h"
#include "watch/frame_private.h"

#define TT_CONTROL_LINKS 4
#define TT_CONTROL_MOST 8 /* with those that are made once ranks are lost (mend.c) */

enum tt_control_state {
  TT_CONTROL_AWAITED, /* dialling, or waiting for the peer to dial */
  TT_CONTROL_UP,
  TT_CONTROL_ENDED /* the connection is gone, which is no error after a farewell */
};

struct tt_control_link {
  struct tt_watcher watcher; /* first member; fd -1: none */
  struct tt_watch *watch;
  int peer;
  enum tt_control_state state;
  int spoke;                    /* a frame has come */
  int record_told, target_told; /* the peer knows the record; knows that there is a target */
  struct tt_dialer *dialer;
  uint64_t heard_ns; /* last sign of life, on the watch's clock, plus the time in which no other host was heard */
  uint64_t ended_ns;
  uint64_t refused_ns; /* since then its host refuses connections; 0: it does not (mend.c) */
  uint64_t beat_ns;  /* last beat sent */
  int knock;         /* a connection that is no more than tried, -1: none (knock.c) ... */
  uint64_t knocked_ns; /* ... and when the last one began, on the watch's clock */
  char how[96];      /* why it ended */
  struct tt_session session;
  struct tt_frame_reader reader;
  uint8_t *out;      /* out_size bytes; out_begin .. out_end are frames that the socket has not taken yet */
  size_t out_size, out_begin, out_end;
  struct tt_rank_slot *slot; /* the peer's calls as its frames tell them; NULL: a link of mend.c, which tells none */
};

/* The newest words of a rank, and the number of those that each link was told. */
struct tt_control_words {
  struct tt_said said;
  uint64_t told[TT_CONTROL_MOST];
};

struct tt_control {
  int nlinks;                    /* 0: one host only */
  struct tt_control_link *links; /* inside memory */
  void *memory;
  struct tt_control_words *_Atomic words; /* of each rank; NULL before the first ones */
  _Atomic int show;     /* a waiting thread wants its call shown soon */
  uint64_t patience_ns; /* how long after an outage a peer may still come back */
  uint64_t answered_ns; /* when a peer's listener last answered a knock, on the watch's clock; 0: never */
  uint64_t signs;       /* signs of life of other hosts that came to ranks of this one, as last counted */
  _Atomic uint64_t signs_ns; /* when the last one came, on the watch's clock */
  uint64_t counted_ns;  /* when they were counted, on the watch's clock */
  uint64_t finished;    /* our last operation at that time */
  uint64_t left_ns;     /* when ranks were last seen to have left, on the watch's clock ... */
  int nleft;            /* ... and how many then had, if the others go on (mend.c) */
};

/* Writes the ranks that `rank` of `nranks` is linked with, each once, into peers; returns how many. Ranks that have
 * left the watch are passed over; NULL: none has. Any thread, without the lock. */
int tt_control_peers(int rank, int nranks, const struct tt_watch *watch, int peers[TT_CONTROL_LINKS]);

tuttiResult_t tt_control_create(struct tt_watch *watch);
/* tuttiInProgress until all links are up; to be called once the status page is there. */
tuttiResult_t tt_control_poll(struct tt_watch *watch);
void tt_control_destroy(struct tt_watch *watch);

/* Takes the set-up of one link a step further: tuttiInProgress, or an error; tuttiSuccess also if there is none. */
tuttiResult_t tt_control_advance(struct tt_control_link *link);

/* Beats, sends what is due, judges silence. */
void tt_control_tick(struct tt_watch *watch);

/* 1: a connection to the peer that ended at ended_ns did so behind a silence of all other hosts longer than an outage
 * may be. So it looks where the others have given this host up, and closed theirs, and its network comes back; two
 * hosts that were stopped for so long, and killed, look alike. Any thread, without the lock. */
int tt_control_given_up(const struct tt_watch *watch, int peer, uint64_t ended_ns);

/* Sends the record, farewells and losses to every link that was not told yet. */
void tt_control_tell(struct tt_watch *watch);

/* Keeps the words of a rank, and passes them on, if they are new. link: from which they came; NULL: they are this
 * rank's. */
void tt_control_words(struct tt_watch *watch, const struct tt_frame *frame, struct tt_control_link *link);

/* Notes a voucher that `rank` lives, and passes it on if its stamp is new. */
void tt_control_pass(struct tt_watch *watch, int rank, uint64_t stamp);

/* Tells the other hosts that local rank `rank` lives though it cannot speak. */
void tt_control_vouch(struct tt_watch *watch, int rank);

/* ---- link.c ---- */

/* Makes the link, whose slot is set, and dials until deadline_ns if this rank is the lower one. */
tuttiResult_t tt_link_create(struct tt_watch *watch, struct tt_control_link *link, int peer, uint64_t deadline_ns);
/* Takes the connected fd, owned by the link at once, whose keys are in link->session. */
tuttiResult_t tt_link_begin(struct tt_control_link *link, int fd);
/* Queues a frame and sends what the socket takes; 0 if the link is not up or full. */
int tt_link_send(struct tt_control_link *link, const struct tt_frame *frame);
void tt_link_beat(struct tt_control_link *link);
/* Notes that the peer lives. */
void tt_link_hear(struct tt_control_link *link);
void tt_link_flush(struct tt_control_link *link);
void tt_link_close(struct tt_control_link *link);
/* Nothing more comes on the link, and nobody dials or knocks any more. how: a phrase for users. */
void tt_link_end(struct tt_control_link *link, const char *how);
void tt_link_destroy(struct tt_control_link *link);

/* ---- mend.c ---- */

/* 1: ranks have left, and the others go on. Any thread, without the lock. */
int tt_mend_is_due(const struct tt_watch *watch);

/* 1: the others go on without this peer, and what it says of further ones does not count. */
int tt_mend_ignores(const struct tt_watch *watch, int peer);

/* In each tick: links to the next ranks that are left. */
void tt_mend_tick(struct tt_watch *watch);

/* A lower rank has dialled: makes a link to it if there is none, and room. */
void tt_mend_expect(struct tt_watch *watch, int peer);

/* ---- knock.c ---- */

enum tt_knock { TT_KNOCK_NONE, TT_KNOCK_ANSWERED, TT_KNOCK_REFUSED };

/* To be called in each tick: knocks, again and again, and returns what came of it since the last tick. */
enum tt_knock tt_knock(struct tt_control_link *link);

/* The same for a link that is up, if nothing was heard for long, silent_ns. */
void tt_knock_tick(struct tt_control_link *link, uint64_t silent_ns);
void tt_knock_end(struct tt_control_link *link);

#endif
