/* SPDX-License-Identifier: BSD-3-Clause */
/* The shared status page of one host: what its ranks show each other, and `tutti status`, in memory. No function here
 * ever waits, not even for a writer that died half-way. Nothing that others wrote is trusted: it is copied once, and
 * the copy is checked.
 *
 * Layout: the head, nranks words about ranks that left, nranks words about ranks that are lost, nranks names, nranks
 * pieces of news from other hosts, and a slot for each rank of the host in ascending order of ranks.
 *
 * Each process keeps a descriptor of the page open for each communicator, so that other processes of the same user can
 * map the page through /proc/PID/fd while one of them lives. The kernel frees it with the last process: nothing has a
 * name that could be left behind. */
#ifndef TT_WATCH_PAGE_H
#define TT_WATCH_PAGE_H

#include <stdalign.h>

#include "watch/watch.h"

#define TT_LINE 64

#define TT_PAGE_NAME "tutti-status" /* of the memfd: /proc/PID/fd shows "/memfd:tutti-status (deleted)" */

/* One published call, and its record. `op` is cleared first and written last, and no number is used twice, so a reader
 * that finds the wanted number before and after copying has a whole call. Times are those of tt_ticks; 0: not known.
 * A call that took some microseconds at most may have no end of its own: reading the clock twice would make the
 * quickest calls a sixth slower. Then `ended` is left over from another call. */
struct tt_call_line {
  alignas(TT_LINE) _Atomic uint64_t op;
  _Atomic uint64_t count, kind, form;
  _Atomic uint64_t began, ended;
};

/* The times of a call, as tt_rank_slot_record copies them. */
struct tt_call_times {
  uint64_t began, ended;
};

/* The two low bits of a beginning. */
#define TT_BRIEF 1u  /* it stands for the end, too */
#define TT_COARSE 2u /* of a time: it is that of the beat before */

/* Sums over all calls of one collective that ended. One in TT_TIMED_EVERY of the quickest calls is timed, and stands
 * for as many. */
struct tt_total {
  _Atomic uint64_t calls, bytes, ticks;
};

/* Two moments at which a rank read both clocks, by which others turn its tt_ticks into times of CLOCK_MONOTONIC. */
struct tt_moments {
  _Atomic uint64_t first_ticks, first_ns; /* when it came */
  _Atomic uint64_t ticks, ns;             /* at its last beat */
};

/* A failure as one rank wrote it: once, before the head named that rank the winner. */
struct tt_failure_slot {
  int32_t code, culprit, detector, zero;
  uint64_t op;
  char sentence[TT_SENTENCE_BYTES];
};

#define TT_NOTICES 5 /* per rank; the last four can be read */

/* A rank's message to the others about a communicator that is being made from this one. */
struct tt_notice {
  uint64_t key;    /* of the communicator */
  uint64_t other;  /* of a second communicator, where lists of excluded ranks were unlike; 0: there is none */
  uint32_t number; /* of the rank's notices, from 1 on */
  int32_t code;
  char sentence[TT_SENTENCE_BYTES];
};

#define TT_TARGET_RANKS 4096 /* in larger communicators no target is shown */
#define TT_TARGET_WORDS (TT_TARGET_RANKS / 64)

/* The ranks to which a rank is shrinking this communicator. */
struct tt_target {
  uint64_t key;                      /* of the new communicator */
  uint64_t against;                  /* 1 + the rank that has had another target for long, see unlike.c; 0: none */
  uint64_t members[TT_TARGET_WORDS]; /* a bit for each rank */
};

/* Words of a layer above. */
struct tt_said {
  _Atomic uint64_t number; /* twice that of the words; odd while they are replaced */
  _Atomic uint64_t words[TT_SAID_WORDS];
};

/* The words and records that one rank shows. beat, heard and moments belong to its service thread; entered, finished
 * and what follows to the thread inside a call; the failure slot to the holder of the service lock of that rank's
 * process. */
struct tt_rank_slot {
  alignas(TT_LINE) _Atomic uint64_t beat; /* 0: not attached yet */
  _Atomic uint64_t heard;                 /* signs of life that it had from other hosts */
  struct tt_moments moments;
  alignas(TT_LINE) _Atomic uint64_t entered;
  _Atomic uint64_t finished;
  _Atomic uint64_t waits; /* the message it waits for, see tt_waits_make; 0: none */
  _Atomic uint64_t moves; /* how often bytes of longer calls have moved */
  _Atomic uint64_t exits; /* 1: its process has called exit, or returned from main, with this communicator */
  _Atomic uint64_t unnumbered; /* 1: it has given others what no number of a call tells (tt_watch_unnumbered) */
  _Atomic uint64_t told;  /* 1: its caller was told that the start-up of a communicator made from this one has once
                             * failed */
  struct tt_total totals[TT_COLLECTIVES];
  struct tt_call_line calls[TT_CALLS];
  alignas(TT_LINE) struct tt_failure_slot failure_slot;
  _Atomic uint32_t notices; /* written so far */
  struct tt_notice notice[TT_NOTICES];
  _Atomic uint64_t target_key; /* 0: there is no target */
  _Atomic uint64_t target_against;
  _Atomic uint64_t target_members[TT_TARGET_WORDS];
  struct tt_said said;
};

/* The process of a rank. */
struct tt_page_name {
  int32_t pid;
  int32_t host; /* the lowest rank of its host */
  uint64_t start, pid_namespace;
  char host_name[TT_HOST_NAME_BYTES];
};

/* The newest news of a rank of another host, from a rank of this one that has a control link with it. */
struct tt_page_news {
  _Atomic uint64_t entered, finished;
  _Atomic uint64_t heard_ns; /* CLOCK_MONOTONIC; 0: nobody here hears it */
};

struct tt_page_head {
  uint64_t magic;
  uint32_t nranks, nslots;
  int32_t host;      /* the lowest rank of this host */
  int32_t is_second; /* as in tt_watch_spec */
  char label[96];    /* of the communicator */
  alignas(TT_LINE) _Atomic uint32_t winner; /* 1 + slot whose failure slot is the record; 0: no failure */
  _Atomic uint32_t goes_on;                 /* 1: a failure does not end the communicator (tt_watch_goes_on) */
  _Atomic uint64_t warned_op;               /* newest operation that a rank of this host warned about */
};

/* A process's view of the memory; the sizes are its own, never those in the head. */
struct tt_page {
  struct tt_page_head *head; /* NULL: no status page yet */
  _Atomic uint64_t *gone;    /* nranks words, see tt_gone_make */
  _Atomic uint64_t *lost;    /* nranks words, see tt_lost_make */
  struct tt_page_name *names; /* nranks */
  struct tt_page_news *news;  /* nranks */
  struct tt_rank_slot *slots;
  int nranks, nslots;
};

size_t tt_page_len(int nranks, int nslots);

/* Writes the head into zeroed memory. */
void tt_page_format(void *memory, int nranks, int nslots);

/* Views memory of tt_page_len bytes; 0 if its head is not as tt_page_format writes it. */
int tt_page_view(struct tt_page *page, void *memory, int nranks, int nslots);

/* For a reader of another process, which knows no numbers: takes them from the head. 0: these len bytes are no page of
 * this version of the library. */
int tt_page_read(struct tt_page *page, void *memory, size_t len);

/* 1: what tt_page_read has refused is a page of another version. */
int tt_page_is_other(const void *memory, size_t len);

/* Writes down who the ranks are, and whose communicator it is. */
void tt_page_introduce(struct tt_page *page, const struct tt_member *members, int rank, const char *label,
                       int is_second);

/* Writes down that a rank of another host said that it had entered and finished these operations. */
void tt_page_hear(struct tt_page *page, int rank, uint64_t entered, uint64_t finished);

/* ---- ranks that left: the word is 0 while a rank is in, else its last finished operation, whether it was inside the
 * next one, and how it left ---- */

static inline uint64_t tt_gone_make(uint64_t finished, int inside, int aborted)
{
  return finished << 3 | (inside ? 4u : 0u) | (aborted ? 2u : 0u) | 1u;
}
static inline uint64_t tt_gone_finished(uint64_t gone) { return gone >> 3; }
static inline int tt_gone_inside(uint64_t gone) { return (gone & 4u) != 0; }
static inline int tt_gone_aborted(uint64_t gone) { return (gone & 2u) != 0; }

static inline uint64_t tt_page_gone(const struct tt_page *page, int rank)
{
  return atomic_load_explicit(&page->gone[rank], memory_order_acquire);
}

/* Writes the rank's word; the first one counts. */
void tt_page_leave(struct tt_page *page, int rank, uint64_t gone);

/* ---- messages: the rank that must do its part of a message before this rank, which has waited for long, can do
 * anything else. A group that both sends and receives shows none. ---- */

static inline uint64_t tt_waits_make(int peer, int sends) { return (uint64_t)peer << 2 | (sends ? 2u : 0u) | 1u; }
static inline int tt_waits_peer(uint64_t waits) { return waits ? (int)(waits >> 2) : -1; }
static inline int tt_waits_sends(uint64_t waits) { return (waits & 2u) != 0; }

/* ---- lost ranks: the word is 0 while a rank is not known to be lost, else when that was found, and how ---- */

enum tt_lost { TT_LOST_DEAD = 1, TT_LOST_FROZEN, TT_LOST_UNREACHABLE, TT_LOST_CONNECTION, TT_LOST_LATE };

static inline uint64_t tt_lost_make(uint64_t utc_ms, enum tt_lost how) { return utc_ms << 3 | (uint64_t)how; }
static inline uint64_t tt_lost_ms(uint64_t lost) { return lost >> 3; }
static inline enum tt_lost tt_lost_how(uint64_t lost)
{
  unsigned how = lost & 7u;
  return how >= TT_LOST_DEAD && how <= TT_LOST_LATE ? (enum tt_lost)how : TT_LOST_CONNECTION;
}

static inline uint64_t tt_page_lost(const struct tt_page *page, int rank)
{
  return atomic_load_explicit(&page->lost[rank], memory_order_acquire);
}

/* Writes the rank's word; the first one counts. */
void tt_page_lose(struct tt_page *page, int rank, uint64_t lost);

/* ---- notices ---- */

/* Adds a notice. Only the slot's own rank calls it. */
void tt_rank_slot_notice(struct tt_rank_slot *slot, const struct tt_notice *notice);

/* Copies the rank's notice about `key`; 0 if there is none, or none any more. */
int tt_rank_slot_notice_find(const struct tt_rank_slot *slot, uint64_t key, struct tt_notice *notice);

static inline int tt_notice_is(const struct tt_notice *notice, uint64_t key)
{
  return notice->key == key || notice->other == key;
}

/* ---- targets ---- */

/* Sets the target; key 0: there is none any more. Only the slot's one writer calls it. */
void tt_rank_slot_target_set(struct tt_rank_slot *slot, const struct tt_target *target);

/* Copies the rank's target; 0 if there is none, or if another one is being set. */
int tt_rank_slot_target_get(const struct tt_rank_slot *slot, struct tt_target *target);

/* ---- words for a layer above ---- */

/* Replaces n of the words by those of this number, which is higher than theirs. Their one writer calls it. */
void tt_said_set(struct tt_said *said, uint64_t number, const uint64_t *words, int n);

/* Copies n words. Returns their number; 0 if there are none, or if they are being replaced. */
uint64_t tt_said_get(const struct tt_said *said, uint64_t *words, int n);

/* ---- published calls ---- */

void tt_rank_slot_publish(struct tt_rank_slot *slot, const struct tt_call *call);

static inline void tt_rank_slot_finish(struct tt_rank_slot *slot, uint64_t op)
{
  atomic_store_explicit(&slot->finished, op, memory_order_release);
}
static inline uint64_t tt_rank_slot_entered(const struct tt_rank_slot *slot)
{
  return atomic_load_explicit(&slot->entered, memory_order_acquire);
}
static inline uint64_t tt_rank_slot_finished(const struct tt_rank_slot *slot)
{
  return atomic_load_explicit(&slot->finished, memory_order_acquire);
}

/* Publishes a call of this rank that began then. */
void tt_rank_slot_enter(struct tt_rank_slot *slot, const struct tt_call *call, uint64_t began);

/* Ends it, and adds `bytes` and its time to the totals. */
void tt_rank_slot_end(struct tt_rank_slot *slot, const struct tt_call *call, size_t bytes, uint64_t ended);

/* Publishes a short call that has ended; `began` as in tt_watch_passed. */
void tt_rank_slot_pass(struct tt_rank_slot *slot, const struct tt_call *call, size_t bytes, uint64_t began);

/* Copies call number `op` into *call; 0 if it is not there, or not any more. */
int tt_rank_slot_call(const struct tt_rank_slot *slot, uint64_t op, struct tt_call *call);

/* The same with its times. */
int tt_rank_slot_record(const struct tt_rank_slot *slot, uint64_t op, struct tt_call *call,
                        struct tt_call_times *times);

/* Reads both clocks. Only the rank's service thread calls it. */
void tt_rank_slot_beat(struct tt_rank_slot *slot);

/* The moment of CLOCK_MONOTONIC at which tt_ticks of that rank was `ticks`, not before it came; 0: not known. */
uint64_t tt_rank_slot_ns(const struct tt_rank_slot *slot, uint64_t ticks);

/* Copies the totals of a collective, with the time in nanoseconds. */
void tt_rank_slot_counted(const struct tt_rank_slot *slot, int collective, struct tt_call_count *counted);

/* True if the calls do not match. */
int tt_calls_differ(const struct tt_call *a, const struct tt_call *b);

/* The same for the newest call; 0 if there is none. */
int tt_rank_slot_latest(const struct tt_rank_slot *slot, struct tt_call *call);

/* ---- the failure record ---- */

/* Makes *failure the status page's record if it has none. `slot` is the writer's own and has not recorded
 * before. One compare-and-swap, after the failure slot is written, decides; so a writer that dies before it has not won
 * and holds up nobody. */
void tt_page_record(struct tt_page *page, int slot, const struct tt_failure *failure);

/* The slot whose failure slot is the record, -1 if there is none, nslots if the word makes no sense. */
int tt_page_winner(const struct tt_page *page);

/* Copies the failure slot of `slot`; 0 if there is no such slot or the failure slot fails the check below. */
int tt_page_failure_slot(const struct tt_page *page, int slot, struct tt_failure *failure);

/* The check of every record written by others: code and ranks must be in range. The sentence is ended, and bytes that
 * would disturb a terminal become '?'. */
int tt_failure_check(struct tt_failure *failure, int nranks);

#endif
