/* SPDX-License-Identifier: BSD-3-Clause */
/* Watches the ranks of a communicator: which of them are alive, what they called, and the one failure record.
 *
 * On each host the communicator's ranks share a *status page*, a sealed memfd that the host's lowest rank makes and
 * passes over authenticated local sockets. It has for each rank a beat word, written by the service thread every 10 ms
 * (more rarely if the host has more than 128 ranks), a ring of the rank's last TT_CALLS published calls, and a state;
 * and one failure record, which the first writer wins. If a rank's beat is older than five such periods, some other
 * ranks look up its process in /proc: if it is gone, a zombie or exiting, the rank is dead (the kernel tells the rank
 * before it earlier, by a pidfd); if it is stopped (T), the rank is frozen, which is an error after TUTTI_FROZEN_MS; if
 * it is traced, they only warn. Where /proc cannot tell (another PID namespace), a rank whose beat is older than
 * TUTTI_UNREACHABLE_MS is unreachable.
 *
 * Communicators over several hosts also have control links between ranks r and r+1, r+2 (mod nranks). They carry beats
 * every 100 ms with the sender's latest call, the failure record, and farewells. Missing beats make a neighbour
 * unreachable, unless a rank of its host vouches that it lives (stopped, or in a debugger). An outage of the network of
 * at most TUTTI_UNREACHABLE_MS makes nobody unreachable; a longer one is found 0.4 s after the limit. Where the network
 * came back meanwhile (knock.c), it is found 0.5 s and an eighth of the limit, at least 1 s, after it (before Linux
 * 6.15: 0.5 s and up to the limit again). An operation that ended is a sign of life, too. A host that hears no other
 * host is cut off itself, and says so. Where losses end no communicator (tt_watch_goes_on), ranks also link themselves
 * with the next ones that are left (mend.c). Records, farewells and vouchers are
 * flooded: a rank that learns one writes it to its status page and sends it on, once. If a control connection ends
 * without a farewell or record, the neighbour's own host has 500 ms to say what happened; then the neighbour is
 * reported as lost. Where it ends behind a silence of all other hosts that was longer than the limit, this host was cut
 * off: they have given it up.
 *
 * Ages are measured on a clock that stands still while this process does not run, so that a rank that was stopped and
 * wakes up takes nobody else for dead.
 *
 * The service thread does the watching, under its lock. Any thread may call the functions below; tt_watch_failed,
 * those that publish what this rank does, and, while nothing is wrong, tt_watch_compare take no lock. */
#ifndef TT_WATCH_H
#define TT_WATCH_H

#include <stdatomic.h>

#include "base/time.h"
#include "net/net.h"

#define TT_CALLS 1024 /* published calls kept per rank */

/* The first error of a communicator. */
struct tt_failure {
  tuttiResult_t code;
  int32_t culprit;  /* rank at fault, -1: none in particular */
  int32_t detector; /* rank that noticed */
  uint64_t op;      /* the detector's operation, 0: none */
  char sentence[TT_SENTENCE_BYTES];
};

/* The facts that every rank must know of each other one; part of the peer info exchanged at start-up. */
struct tt_member {
  int32_t pid;
  int32_t host_index;     /* ranks with equal index share a host; the lowest rank of each is its leader */
  uint64_t start;         /* tt_process_start */
  uint64_t pid_namespace;
  char host_name[TT_HOST_NAME_BYTES];
  struct tt_address control; /* IP listener of its process; len 0 if there is one host only */
  struct tt_address local;   /* local listener of its process */
};

struct tt_watch_spec {
  int nranks, rank;
  const struct tt_member *members;          /* nranks, copied */
  const struct tt_credentials *credentials; /* copied */
  const struct tt_settings *settings;       /* copied */
  struct tt_listener *ip_listener;          /* NULL if there is one host only; both listeners outlive the watch */
  struct tt_listener *local_listener;       /* may be NULL where every host has one rank */
  const char *label;                        /* of the communicator, in sentences: "communicator of 4 ranks" */
  int is_second;        /* 1: the communicator is a fusion's, or of a layer above, and another watch looks after the
                           same ranks: that one tells of ranks that die or cannot be reached, and this one logs them as
                           INFO, since they are no news. `tutti status` shows it last */
  int has_gpu;          /* 1: GPUs may be at work for a call that has ended */
  int64_t timeout_ms;   /* 0: never */
  uint64_t deadline_ns; /* for setting up */
};

struct tt_watch;

/* Starts setting up; poll until tuttiSuccess (all status pages and control links are there). Holds the
 * service. destroy may be called at any time, also on a half-built watch; NULL is allowed. */
tuttiResult_t tt_watch_create(struct tt_watch **watch, const struct tt_watch_spec *spec);
tuttiResult_t tt_watch_poll(struct tt_watch *watch);
void tt_watch_pollset(struct tt_watch *watch, struct tt_pollset *pollset); /* adds what tt_watch_poll waits for */
void tt_watch_destroy(struct tt_watch *watch);

/* Says farewell: from here on the end of this rank's process is no death. Other ranks that still wait for it in an
 * operation get tuttiRemoteError "left". Call it before destroy in an orderly end; with aborted != 0 the others'
 * sentence says "aborted", as it does after a destroy without farewell. */
void tt_watch_leave(struct tt_watch *watch, int aborted);

/* The word that every wait polls: non-zero once the communicator has failed. The pointer is valid for
 * the watch's life; one relaxed load of process-local memory. */
const _Atomic int *tt_watch_failed(const struct tt_watch *watch);

/* The record; valid once the word above is non-zero. */
const struct tt_failure *tt_watch_failure(const struct tt_watch *watch);

/* Records a failure unless there is one already, tells everybody, and returns the code of the
 * record that counts. culprit -1: none. The sentence is logged once, by the detector. Any thread. */
tuttiResult_t tt_watch_fail(struct tt_watch *watch, tuttiResult_t code, int culprit, uint64_t op,
                            const char *sentence);

/* The same with the calling thread's last sentence. The sentence of a lack of resources (tuttiSystemError) also names
 * this rank. */
tuttiResult_t tt_watch_fail_here(struct tt_watch *watch, tuttiResult_t code, int culprit, uint64_t op);

/* The same for a failure that was already logged. */
tuttiResult_t tt_watch_fail_too(struct tt_watch *watch, tuttiResult_t code, int culprit, const char *sentence);

/* To be called when the connection to `peer` broke (`how`: one line). Gives the cause 500 ms to become known, during
 * which this process looks for it, and 2 s where this host may have been cut off; then records tuttiRemoteError "lost
 * connection to rank ...". Returns tuttiInProgress until the word of tt_watch_failed is set; call it again from the
 * waiting loop. */
tuttiResult_t tt_watch_suspect(struct tt_watch *watch, int peer, uint64_t op, const char *how);

/* Likewise when no connection to `peer` came about: the failure has this sentence. A peer that closes one which is
 * being made has often only learned of a failure earlier than this rank. */
tuttiResult_t tt_watch_refused(struct tt_watch *watch, int peer, uint64_t op, const char *sentence);

/* Publishes that this rank entered `call`: a few stores, no system call. Once a call. One thread at a time. */
void tt_watch_publish(struct tt_watch *watch, const struct tt_call *call);

/* Publishes that bytes of the call under way have moved, for those who look from outside. */
void tt_watch_moved(struct tt_watch *watch);

/* Publishes that this rank finished operation `op`, and so waits for no other rank. */
void tt_watch_finish(struct tt_watch *watch, uint64_t op);

/* Publishes that this rank gives others what no number of a call tells: messages, and coded calls, which go on behind
 * the last one that is numbered. It stays so. Any thread; no lock. */
void tt_watch_unnumbered(struct tt_watch *watch);

/* Publishes that this rank is in no operation any more: the one under way has failed, and the communicator goes on. */
void tt_watch_give_up(struct tt_watch *watch);

/* Publishes for those who look from outside whether the communicator goes on when it has failed, for all ranks of this
 * host. At first it does not. */
void tt_watch_goes_on(struct tt_watch *watch, int goes_on);

/* From here on this rank's operations belong to the caller's operation of that number, from 1 on, which several of them
 * carry out: sentences show that number. The thread that publishes. */
void tt_watch_count(struct tt_watch *watch, uint64_t number);

/* A moment, for the two functions below. Its two low bits are 0. */
static inline uint64_t tt_watch_time(void) { return tt_ticks() & ~(uint64_t)3; }

/* The same of a call that is expected to end within a microsecond or so: it is published when it has ended
 * (tt_watch_passed) or, if it waits for longer, meanwhile (tt_watch_publish_late, then tt_watch_finish). `began` is
 * the time at which it began, in one call in TT_TIMED_EVERY: those whose number it divides. Else it is that of its
 * first wait, 0 if it had none. */
#define TT_TIMED_EVERY 64
void tt_watch_passed(struct tt_watch *watch, const struct tt_call *call, size_t bytes, uint64_t began);
void tt_watch_publish_late(struct tt_watch *watch, const struct tt_call *call, uint64_t began);

/* A call of this rank that was published. Times are those of CLOCK_MONOTONIC; 0: not known. */
struct tt_recorded {
  struct tt_call call;
  uint64_t began_ns, ended_ns;
  int began_is_exact, is_exact; /* is_exact: both times are; else they may be some 10 ms too early */
};

/* Copies call number `op`; 0 if it is not there, or not any more. tt_watch_progress: the last call that was entered,
 * and the last that was finished. */
int tt_watch_recorded(const struct tt_watch *watch, uint64_t op, struct tt_recorded *recorded);
void tt_watch_progress(const struct tt_watch *watch, uint64_t *entered, uint64_t *finished);

/* All calls of one collective that this rank has ended. */
struct tt_call_count {
  uint64_t calls, bytes, ns;
};
void tt_watch_counted(const struct tt_watch *watch, int collective, struct tt_call_count *counted);

/* To be called about every millisecond by a thread that waits in `call` and has moved nothing since `since_ns`:
 * compares the published calls of all ranks it can see with its own and records a mismatch (tuttiInvalidUsage,
 * naming both ranks and both calls); warns once a host, by name, about ranks that have not entered after
 * late_warn_ms; records tuttiRemoteError after timeout_ms, and for a rank that left. Cheap otherwise. One thread at
 * a time. A call of collective TT_PAIRS is a message to or from rank `root`: then only rank `root` is looked at, and it
 * is a mismatch if it waits in a collective that needs us and that we have not entered. If messages of ranks of this
 * host wait for each other in a circle, warning and error (then tuttiInvalidUsage) describe the circle instead. */
void tt_watch_compare(struct tt_watch *watch, const struct tt_call *call, uint64_t since_ns);

/* Likewise by a thread whose call is to come next: only records a rank that left before it. */
void tt_watch_await(struct tt_watch *watch, const struct tt_call *call);

/* The messages that this rank waited for are through: withdraws the wait that tt_watch_compare showed on the page. */
void tt_watch_waits_no_more(struct tt_watch *watch);

/* A message from `peer` carried another word than expected: records the mismatch and describes both calls as
 * well as they are known (`theirs` is NULL if the transport did not carry it). Returns the code. */
tuttiResult_t tt_watch_mismatch(struct tt_watch *watch, const struct tt_call *mine, int peer,
                                uint64_t word, const struct tt_call *theirs);

/* The ranks that this rank knows to be lost, ascending: those that died, were stopped for too long, could not be
 * reached, were late, or left; also after the first failure. Writes the first `size` of them; returns how many there
 * are. Any thread. */
int tt_watch_lost(struct tt_watch *watch, int *ranks, int size);

/* From now on the loss of a rank (it died, was stopped for too long, or could not be reached) is no failure: the caller
 * looks for lost ranks, and goes on or fails. It runs no more collectives, which would wait for them. A rank that the
 * others take for lost fails by itself, and tells nobody. Any thread. */
void tt_watch_spare(struct tt_watch *watch);

/* Whether a rank has said farewell; what it had sent before that may still be on its way. A failure that a rank of this
 * host has recorded is heard of before farewells. Any thread; no lock. */
enum tt_left {
  TT_LEFT_NOT,
  TT_LEFT_DONE,    /* in good order */
  TT_LEFT_ABORTED,
  TT_LEFT_LOST,    /* after tt_watch_spare: it is lost */
};
enum tt_left tt_watch_left(const struct tt_watch *watch, int rank);

/* 1: the rank is lost, as tt_watch_lost means it; of this rank itself: others take it for lost. Any thread; no lock. */
int tt_watch_is_lost(const struct tt_watch *watch, int rank);

/* 1: somebody has seen its process end, or it has said farewell: it is not just out of reach. Any thread; no lock. */
int tt_watch_is_dead(const struct tt_watch *watch, int rank);

/* Takes a rank for lost that is late; or one that `other`, a watch over some of the same ranks, knows to be lost by
 * anything but its farewell, and, without if_late, by anything but being late. All ranks of this host see it at once,
 * the rank itself as well if it is one; others are told. */
void tt_watch_lose_late(struct tt_watch *watch, int rank);
void tt_watch_lose_too(struct tt_watch *watch, int rank, const struct tt_watch *other, int rank_there,
                       int if_late);

/* 1: this rank sees what the rank is doing (tt_watch_startup_has): on this host, or over a control link. */
int tt_watch_sees(const struct tt_watch *watch, int rank);

/* Words of a layer above, the newest of each rank, for all ranks: replaces this rank's, and copies those of a rank,
 * which on other hosts come a little later. 0: it has said nothing, or is saying something else now. n: at most
 * TT_SAID_WORDS. One thread. */
#define TT_SAID_WORDS 40
void tt_watch_say(struct tt_watch *watch, const uint64_t *words, int n);
int tt_watch_said(const struct tt_watch *watch, int rank, uint64_t *words, int n);

/* The tensors that this rank has not pushed in a step of a fusion: the others may wait for these. They are for `tutti
 * status`, and take the place of the words above on the page. One thread. */
#define TT_LACKS_MAGIC 0x736b63616c6b7374u
struct tt_lacks {
  uint64_t magic, step;            /* step 0: nothing is missing */
  uint32_t tensor, missing, all;   /* the first tensor that is not pushed; how many are not; how many there are */
  uint32_t zero;
  char name[64];                   /* of that tensor */
};
#define TT_LACKS_WORDS ((int)(sizeof(struct tt_lacks) / sizeof(uint64_t)))
void tt_watch_show_lacks(struct tt_watch *watch, const struct tt_lacks *lacks);

/* The caller goes on without these ranks: checks at once whether those of this host are dead. 1: at least one is. */
int tt_watch_exclude(struct tt_watch *watch, const int *ranks, int n);

/* The start-up of a communicator that is made from this one. */
struct tt_startup {
  uint64_t key;           /* the same on all its ranks, and for nothing else */
  const int32_t *members; /* ranks of this watch */
  int nmembers;
  int is_shrink;          /* members ascend, their lists may be unlike; the failure of this watch does not count */
  int is_last;            /* this rank has done its part: members that left in order have what they need */
  const char *label;      /* of the new communicator */
  uint64_t next_ns, missed_ns;    /* private to tt_watch_startup, like the fields below */
  int is_shown, unlike;           /* of a shrink: its target is shown; the rank that is in another shrink */
  uint64_t unlike_key, unlike_ns; /* key of that shrink, 0: there is none; when it was found */
};

/* To be called often during the start-up. tuttiSuccess: nothing is known that ends it. tuttiRemoteError: one of its
 * ranks is lost or left. tuttiInvalidUsage: a member has waited for this rank for some seconds in a shrink to a
 * different set of ranks; all members of both shrinks are told. Else the code of a notice, or of this watch's failure
 * if a member of a split is its culprit. Only tuttiInvalidUsage is logged. Any thread, one at a time. */
tuttiResult_t tt_watch_startup(struct tt_watch *watch, struct tt_startup *startup);

/* 1: this rank is in that start-up of a shrink, or has given it up with a notice. It is known of ranks of this
 * host in communicators of at most TT_TARGET_RANKS, which make one shrink at a time. Any thread. */
int tt_watch_startup_has(struct tt_watch *watch, const struct tt_startup *startup, int rank);

/* The start-up is over, successful or not, and tt_watch_startup is not called again. Any thread. */
void tt_watch_startup_end(struct tt_watch *watch, struct tt_startup *startup);

/* The caller is about to be told that a start-up has failed, and may end the process for that: others, who may not have
 * heard why, are not to take this end for the cause. Any thread. */
void tt_watch_told(struct tt_watch *watch);

/* 1: the shrink of this key has ended because the lists of excluded ranks were unlike. Any thread. */
int tt_watch_was_unlike(struct tt_watch *watch, uint64_t key);

/* This rank gives up the start-up of that key; the sentence says why, and all ranks of the start-up get it. It is
 * no failure of this watch. Any thread. */
void tt_watch_notice(struct tt_watch *watch, uint64_t key, tuttiResult_t code, const char *sentence);

/* A moment, as "2026-11-23 04:18:02.123 UTC", into text; returns text. */
const char *tt_time_text(uint64_t utc_ms, char *text, size_t size);
const char *tt_now_text(char *text, size_t size);

/* "rank 3 (pid 4711 on node-a)" into text; returns text. */
const char *tt_watch_rank_text(const struct tt_watch *watch, int rank, char *text, size_t size);

#endif
