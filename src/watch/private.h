/* SPDX-License-Identifier: BSD-3-Clause */
/* The parts of a watch. Unless a comment says otherwise, functions here are called with the service lock
 * held, and fields are guarded by it. */
#ifndef TT_WATCH_PRIVATE_H
#define TT_WATCH_PRIVATE_H

#include "watch/page.h"
#include "watch/control_private.h"
#include "watch/life_private.h"
#include "watch/watch.h"

#define TT_GRACE_NS 500000000u /* how long a cause may take to become known */
#define TT_RANK_TEXT_BYTES 128

/* The state this rank keeps of another one. */
struct tt_peer {
  struct tt_rank_slot *slot;     /* on the status page, or of a control link; NULL: cannot be seen from here */
  uint64_t beat, beat_ns;        /* last value, and when it was new on the watch's clock */
  uint64_t probed_ns;            /* last look at /proc */
  uint64_t stopped_ns;           /* since when /proc says stopped; 0: it does not */
  uint64_t vouched;              /* newest stamp of a VOUCH frame about the rank */
  _Atomic uint64_t suspected_ns; /* first tt_watch_suspect; any thread */
  uint8_t local;                 /* the rank has a slot on our status page */
  uint8_t served;                /* leader: the status page was sent to the rank */
  uint8_t trusted;               /* /proc knew the rank while it was beating */
  uint8_t lies;                  /* how often /proc called the rank dead while it was beating */
  uint8_t is_unwell;             /* the beat has stood still for long, or stands still and /proc does not say "runs" */
  uint8_t traced_warned;
  uint8_t gone_told;             /* its farewell was sent to all control links */
  uint8_t lost_told;             /* its loss was sent to all control links */
  uint32_t notices; /* number of its newest notice that came by a control link; for this rank: of the newest it gave */
};

#define TT_HEARD 8 /* notices of other hosts that are kept */

struct tt_heard {
  int rank;
  struct tt_notice notice; /* number 0: none */
};

/* State of the thread that waits in a call (tt_watch_compare); only that thread uses it. */
struct tt_wait {
  uint64_t op;        /* the call that is waited in; the rest is reset when it changes */
  uint64_t passed_ns; /* since when a peer's call of this number is out of its ring; 0: none is */
  uint64_t looked_ns; /* when calls were last compared */
  int shown;          /* control links were asked to show our call */
  int warned;         /* 1: of a late rank; 2: of messages that wait for each other */
  uint64_t look_ns;   /* after so long a wait, look for a circle of messages again: ranks come one after the other */
};

/* More than 25 fields: the watched ranks, this host's status page and the failure belong together. */
struct tt_watch {
  struct tt_timer timer; /* first member */
  struct tt_watch *next; /* of this process */
  int nranks, rank;
  int nlocal, leader;    /* ranks of this host; the lowest of them */
  int slot_index;        /* ours on the status page */
  int *local;            /* nlocal ranks, ascending */
  int *seen;             /* nseen ranks with a slot, without our own */
  int nseen;
  struct tt_member *members;
  struct tt_peer *peers; /* nranks */
  struct tt_credentials credentials, page_credentials;
  struct tt_listener *ip_listener, *local_listener;
  char label[96];
  int is_second;
  _Atomic int spares;    /* 1: lost ranks are no failure */
  struct tt_life_limits limits;
  uint64_t late_warn_ns, timeout_ns, deadline_ns;

  struct tt_page page;
  struct tt_rank_slot *own; /* our slot; NULL until the status page is there */
  void *map;                /* the status page's memory, page_len bytes */
  size_t page_len;
  int page_fd;              /* kept open for `tutti status`; -1: none yet, or another rank of this process has it */
  int is_served;            /* leader: all ranks of the host have the page */
  struct tt_dialer *dialer; /* member, to the leader */
  int socket;               /* member, the status page is about to arrive here; else -1 */

  uint64_t now_ns;           /* of this tick */
  _Atomic uint64_t clock_ns; /* stands still while this process does; ages are measured on it */
  int ready, left, held;
  struct tt_watcher end;  /* of the next process of this host: heartbeat.c; fd -1: none */
  int end_rank;           /* whose end it is, or was asked for in vain; -1: nobody's yet */
  int has_ended;          /* 1: its process has ended, and the verdict waits for what others may do without it */
  int follows;            /* 1: the kernel is asked for ends of processes */
  int wake;               /* an eventfd on which the set-up sleeps until others have come; -1: it waits for none */
  struct tt_control control;
  struct tt_wait wait;
  struct tt_heard *heard; /* TT_HEARD; NULL before the first notice */
  uint32_t nheard;
  int ntargets;           /* shrinks of this rank under way */
  uint64_t nsaid;         /* of the words of the layer above; its thread's */
  _Atomic uint64_t counted, counted_from; /* the caller's operation under way, 0: operations are shown by their own
                                             numbers; those behind this one belong to it */

  _Atomic int failed;
  struct tt_failure failure;
};

static inline struct tt_watch *tt_watch_of_timer(struct tt_timer *timer)
{
  return (struct tt_watch *)timer;
}

/* ---- record.c ---- */

/* Makes *failure the record unless there is one, and tells everybody. Returns 1 if *failure is now the record that
 * counts here. Logs only if another record of this host counts (INFO). */
int tt_record_set(struct tt_watch *watch, const struct tt_failure *failure);

/* The same for a failure that this rank itself found. Logs the sentence if it counts, as a warning if this is the
 * first watch over these ranks. */
void tt_record_found(struct tt_watch *watch, tuttiResult_t code, int culprit, const char *sentence);

/* Fails this rank alone if the others go on without it. */
void tt_record_exclude(struct tt_watch *watch);

/* Takes over the record of the status page if there is one. */
void tt_record_adopt(struct tt_watch *watch);

/* ---- circle.c ---- */

/* Writes a sentence, with the remedy, about messages that wait for each other in a circle which this rank is part of,
 * or waits for. Returns the lowest rank of the circle; -1: none can be seen. */
int tt_circle_text(const struct tt_watch *watch, char text[TT_SENTENCE_BYTES]);

/* ---- lost.c ---- */

/* Notes that another rank is lost, and tells the others. */
void tt_lost_set(struct tt_watch *watch, int rank, enum tt_lost how);

/* Keeps a notice and passes it on if it is new. */
void tt_notice_take(struct tt_watch *watch, int rank, const struct tt_notice *notice);

/* Numbers and gives this rank's next notice. */
void tt_notice_give(struct tt_watch *watch, struct tt_notice *notice);

static inline int tt_is_lost(const struct tt_watch *watch, int rank)
{
  return watch->own && tt_page_lost(&watch->page, rank) != 0;
}

/* 1: it has said farewell, or is lost. */
static inline int tt_has_left(const struct tt_watch *watch, int rank)
{
  return tt_page_gone(&watch->page, rank) || tt_is_lost(watch, rank);
}

static inline int tt_spares(const struct tt_watch *watch)
{
  return atomic_load_explicit(&watch->spares, memory_order_relaxed);
}

/* 1: the others go on without this rank. */
static inline int tt_is_excluded(const struct tt_watch *watch)
{
  return tt_spares(watch) && tt_is_lost(watch, watch->rank);
}

/* The slot of a rank of this host. */
static inline int tt_rank_slot_of(const struct tt_watch *watch, int rank)
{
  return (int)(watch->peers[rank].slot - watch->page.slots);
}

/* ---- unlike.c ---- */

/* For a shrink: shows its target and looks at its members' targets. tuttiInvalidUsage: a member waits for this rank in
 * another shrink; the members of both are told. */
tuttiResult_t tt_unlike_look(struct tt_watch *watch, struct tt_startup *startup);

/* ---- watch.c ---- */

/* Puts "what rank N (...): " before the thread's last sentence, which was logged already. Returns code. */
tuttiResult_t tt_setup_fail(const struct tt_watch *watch, tuttiResult_t code, int peer, const char *what);

/* Ends the sleep of the thread that sets up: a rank has come, or the watch has failed. */
void tt_watch_wake(const struct tt_watch *watch);

/* ---- share.c: hands the status page's memory to all ranks of the host ---- */

tuttiResult_t tt_share_create(struct tt_watch *watch);
tuttiResult_t tt_share_poll(struct tt_watch *watch);
void tt_share_pollset(const struct tt_watch *watch, struct tt_pollset *pollset);
void tt_share_destroy(struct tt_watch *watch);

/* ---- heartbeat.c ---- */

/* Beats, and looks after the ranks of this host. */
void tt_heartbeat_tick(struct tt_watch *watch);

/* may_follow: the kernel may tell of ends of processes, besides beats. */
void tt_heartbeat_create(struct tt_watch *watch, int may_follow);

void tt_heartbeat_destroy(struct tt_watch *watch);

/* Checks at once whether a rank of this host is dead. 1: it is, and its death is the record if there was none. */
int tt_heartbeat_look(struct tt_watch *watch, int rank);

/* ---- sentence.c: any thread, no lock ---- */

/* "during AllReduce #3 (...)" or "before operation #4": the call that this rank is inside, else the one of `rank`. */
const char *tt_when_text(const struct tt_watch *watch, int rank, char *text, size_t size);

/* The number by which sentences show operation `op` (tt_watch_count); the text of a call with that. */
uint64_t tt_shown_op(const struct tt_watch *watch, uint64_t op);
const char *tt_shown_text(const struct tt_watch *watch, const struct tt_call *call, char *text, size_t size);

/* Number of the call this rank is inside, 0 if none. */
uint64_t tt_current_op(const struct tt_watch *watch);

/* 1: this rank and the peer are known to have made unlike calls of one number, of the last ones: this rank's, the
 * peer's. */
int tt_differed(const struct tt_watch *watch, int peer, struct tt_call pair[2]);

/* 1: the process of this rank, of this host, has ended by itself, or is about to: others may know that it is dead. */
int tt_exits(const struct tt_watch *watch, int rank);
void tt_died_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES]);
void tt_frozen_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES]);
void tt_unreachable_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES]);
void tt_cut_off_text(const struct tt_watch *watch, char text[TT_SENTENCE_BYTES]);
void tt_lost_text(const struct tt_watch *watch, int rank, const char *how, char text[TT_SENTENCE_BYTES]);
void tt_damaged_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES]);
void tt_left_text(const struct tt_watch *watch, int rank, const struct tt_call *call,
                  char text[TT_SENTENCE_BYTES]);
/* `theirs` is the call of `peer` with the number of `mine`. */
void tt_differ_text(const struct tt_watch *watch, const struct tt_call *mine, int peer,
                    const struct tt_call *theirs, char text[TT_SENTENCE_BYTES]);

/* ---- calls.c ---- */

/* True if the collective cannot end at `peer` (-1: any but a root) without our part. It can where ranks only give, or
 * only take from others. */
int tt_call_needs_all(const struct tt_call *call, int peer);

#endif
