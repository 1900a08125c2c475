/* SPDX-License-Identifier: BSD-3-Clause */
/* The calls of all ranks: published, compared, and missed. These functions run in the thread inside the call. */
#include <stdio.h>
#include <string.h>

#include "watch/private.h"

#define SHOW_NS 20000000u        /* after so long a wait, our call is shown to neighbours on other hosts */
#define PASSED_NS 1000000000u    /* a rank this long past our call, beyond its ring, cannot have matched it */
#define PAIR_GRACE_NS 500000000u /* data that a rank sent before it left may take so long to come */
#define PUBLISHED_NS 100000000u  /* a call whose message is here is published within that time, even on a busy host */
#define NAMES_MAX 4              /* late ranks named in a sentence */
#define LOOK_NS 10000u           /* per rank, between two comparisons of all ranks' calls ... */
#define LOOK_RANKS 100           /* ... if there are more than so many: callers come every millisecond */

void tt_watch_publish(struct tt_watch *watch, const struct tt_call *call)
{
  tt_watch_publish_late(watch, call, tt_watch_time());
}

void tt_watch_publish_late(struct tt_watch *watch, const struct tt_call *call, uint64_t began)
{
  if (!watch->own || tt_rank_slot_entered(watch->own) == call->op) return;
  tt_rank_slot_enter(watch->own, call, began);
}

void tt_watch_moved(struct tt_watch *watch)
{
  if (!watch->own) return;
  uint64_t moves = atomic_load_explicit(&watch->own->moves, memory_order_relaxed);
  atomic_store_explicit(&watch->own->moves, moves + 1, memory_order_relaxed);
}

void tt_watch_finish(struct tt_watch *watch, uint64_t op)
{
  struct tt_call call;
  if (!watch->own) return;
  if (!tt_rank_slot_call(watch->own, op, &call) || call.collective >= TT_COLLECTIVES)
    tt_rank_slot_finish(watch->own, op);
  else tt_rank_slot_end(watch->own, &call, call.count * tt_type_size(call.type), tt_watch_time());
}

void tt_watch_unnumbered(struct tt_watch *watch)
{
  if (watch->own && !atomic_load_explicit(&watch->own->unnumbered, memory_order_relaxed))
    atomic_store_explicit(&watch->own->unnumbered, 1, memory_order_release);
}

void tt_watch_give_up(struct tt_watch *watch)
{
  if (watch->own) tt_rank_slot_finish(watch->own, tt_rank_slot_entered(watch->own));
}

void tt_watch_goes_on(struct tt_watch *watch, int goes_on)
{
  if (watch->own) atomic_store_explicit(&watch->page.head->goes_on, goes_on != 0, memory_order_relaxed);
}

void tt_watch_passed(struct tt_watch *watch, const struct tt_call *call, size_t bytes, uint64_t began)
{
  if (watch->own) tt_rank_slot_pass(watch->own, call, bytes, began);
}

int tt_watch_recorded(const struct tt_watch *watch, uint64_t op, struct tt_recorded *recorded)
{
  struct tt_call_times times;
  memset(recorded, 0, sizeof *recorded);
  if (!watch->own || !tt_rank_slot_record(watch->own, op, &recorded->call, &times)) return 0;
  recorded->began_ns = tt_rank_slot_ns(watch->own, times.began);
  recorded->ended_ns = tt_rank_slot_ns(watch->own, times.ended);
  recorded->began_is_exact = !(times.began & TT_COARSE);
  recorded->is_exact = recorded->began_is_exact && !(times.ended & TT_COARSE);
  return 1;
}

void tt_watch_progress(const struct tt_watch *watch, uint64_t *entered, uint64_t *finished)
{
  *entered = watch->own ? tt_rank_slot_entered(watch->own) : 0;
  *finished = watch->own ? tt_rank_slot_finished(watch->own) : 0;
}

void tt_watch_counted(const struct tt_watch *watch, int collective, struct tt_call_count *counted)
{
  memset(counted, 0, sizeof *counted);
  if (watch->own) tt_rank_slot_counted(watch->own, collective, counted);
}

int tt_calls_differ(const struct tt_call *a, const struct tt_call *b)
{
  return a->count != b->count || a->collective != b->collective || a->type != b->type || a->redop != b->redop ||
         a->algo != b->algo || a->root != b->root || a->form != b->form;
}

/* ---- compare ---- */

static tuttiResult_t record_differ(struct tt_watch *watch, const struct tt_call *mine, int peer,
                                   const struct tt_call *theirs)
{
  char text[TT_SENTENCE_BYTES];
  tt_differ_text(watch, mine, peer, theirs, text);
  return tt_watch_fail(watch, tuttiInvalidUsage, peer, mine->op, text);
}

int tt_call_needs_all(const struct tt_call *call, int peer)
{
  if (call->form & TT_FORM_COUNTS) return 0; /* a share may be empty */
  const struct tt_kind *kind = &tt_kinds[call->collective < TT_COLLECTIVES ? call->collective : TT_NO_COLLECTIVE];
  switch (kind->from) {
  case TT_FROM_ALL:
  case TT_FROM_SHARE: return kind->out != TT_COVER_ROOT || call->root == peer;
  case TT_FROM_ROOT:
  case TT_FROM_NOBODY: break;
  }
  return 0;
}

/* The peer's ring no longer has our call. For a moment that can be right: we may be the last to notice that the call
 * is complete. */
static void passed(struct tt_watch *watch, const struct tt_call *call, int peer, uint64_t now)
{
  char own[TT_RANK_TEXT_BYTES], name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  if (watch->wait.passed_ns == 0) watch->wait.passed_ns = now;
  if (now - watch->wait.passed_ns < PASSED_NS) return;
  snprintf(text, sizeof text, "calls differ between ranks: %s waits in %s, but %s is gone from it, and is at #%llu",
           tt_watch_rank_text(watch, watch->rank, own, sizeof own), tt_shown_text(watch, call, what, sizeof what),
           tt_watch_rank_text(watch, peer, name, sizeof name),
           (unsigned long long)tt_shown_op(watch, tt_rank_slot_entered(watch->peers[peer].slot)));
  tt_watch_fail(watch, tuttiInvalidUsage, peer, call->op, text);
}

static void compare_with(struct tt_watch *watch, const struct tt_call *call, int peer, uint64_t now)
{
  const struct tt_rank_slot *slot = watch->peers[peer].slot;
  uint64_t entered = tt_rank_slot_entered(slot);
  struct tt_call theirs;
  if (entered < call->op) return;
  if (tt_rank_slot_call(slot, call->op, &theirs)) {
    if (tt_calls_differ(call, &theirs)) record_differ(watch, call, peer, &theirs);
  } else if (entered - call->op >= TT_CALLS && tt_call_needs_all(call, peer)) {
    passed(watch, call, peer, now);
  }
}

/* A rank that left without finishing the call never will. */
static void check_left(struct tt_watch *watch, const struct tt_call *call, int peer)
{
  char text[TT_SENTENCE_BYTES];
  uint64_t gone = tt_page_gone(&watch->page, peer);
  if (!gone || peer == watch->rank || tt_gone_finished(gone) >= call->op) return;
  tt_left_text(watch, peer, call, text);
  tt_watch_fail(watch, tuttiRemoteError, peer, call->op, text);
}

/* ---- late ranks ---- */

/* The least call that a rank which is seen has entered last, or `op`. */
static uint64_t least_entered(const struct tt_watch *watch, uint64_t op)
{
  for (int i = 0; i < watch->nseen; i++) {
    uint64_t entered = tt_rank_slot_entered(watch->peers[watch->seen[i]].slot);
    if (entered < op) op = entered;
  }
  return op;
}

/* 1: it has not entered `op`. One that is inside an earlier call may wait there for the rank that is last of all (has
 * entered `least`), or, between hosts, for one that cannot be seen from here: then least is 0. */
static int is_late(const struct tt_watch *watch, int rank, uint64_t op, uint64_t least)
{
  const struct tt_rank_slot *slot = watch->peers[rank].slot;
  uint64_t finished = tt_rank_slot_finished(slot), entered = tt_rank_slot_entered(slot);
  return entered < op && (entered <= least || finished >= entered);
}

/* Names the ranks that are late for `op` into text; returns how many there are, and the lowest in *first. */
static int late_names(const struct tt_watch *watch, uint64_t op, uint64_t least, int *first,
                      char text[TT_SENTENCE_BYTES / 2])
{
  char name[TT_RANK_TEXT_BYTES];
  size_t used = 0, size = TT_SENTENCE_BYTES / 2;
  int late = 0;
  *first = -1;
  text[0] = 0;
  for (int i = 0; i < watch->nseen; i++) {
    int rank = watch->seen[i];
    if (!is_late(watch, rank, op, least)) continue;
    if (late == 0) *first = rank;
    if (late++ >= NAMES_MAX || used + 1 >= size) continue;
    int n = snprintf(text + used, size - used, "%s%.*s", late > 1 ? ", " : "", 58,
                     tt_watch_rank_text(watch, rank, name, sizeof name));
    used += n > 0 ? (size_t)n : 0;
  }
  if (late > NAMES_MAX && used < size) snprintf(text + used, size - used, " and %d more", late - NAMES_MAX);
  return late;
}

static void show_all(const struct tt_watch *watch)
{
  char name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES];
  struct tt_call call;
  for (int i = 0; i < watch->nseen; i++) {
    int rank = watch->seen[i];
    const struct tt_rank_slot *slot = watch->peers[rank].slot;
    int known = tt_rank_slot_latest(slot, &call);
    tt_log(TT_LOG_INFO, "%s %s %s", tt_watch_rank_text(watch, rank, name, sizeof name),
           !known                             ? "has called"
           : call.op > tt_rank_slot_finished(slot) ? "is inside"
                                              : "has finished",
           known ? tt_shown_text(watch, &call, what, sizeof what) : "nothing yet");
  }
}

/* True for the first rank of the host that comes to warn about `op`. */
static int first_to_warn(struct tt_watch *watch, uint64_t op)
{
  _Atomic uint64_t *warned = &watch->page.head->warned_op;
  uint64_t before = atomic_load_explicit(warned, memory_order_relaxed);
  return before < op && atomic_compare_exchange_strong(warned, &before, op);
}

static void warn_late(struct tt_watch *watch, const struct tt_call *call, uint64_t waited_ns)
{
  char names[TT_SENTENCE_BYTES / 2], what[TT_CALL_TEXT_BYTES];
  int first;
  watch->wait.warned = 1;
  uint64_t least = least_entered(watch, call->op);
  if (!late_names(watch, call->op, least, &first, names) || !first_to_warn(watch, call->op)) return;
  tt_shown_text(watch, call, what, sizeof what);
  tt_log(TT_LOG_WARN, "%s has been waiting for %llu ms for %s to enter it", what,
         (unsigned long long)(waited_ns / 1000000u), names);
  if (tt_log_wants(TT_LOG_INFO)) show_all(watch);
}

static void late_lose(struct tt_watch *watch, uint64_t op, uint64_t least)
{
  tt_service_lock();
  for (int i = 0; i < watch->nseen; i++)
    if (is_late(watch, watch->seen[i], op, least)) tt_lost_set(watch, watch->seen[i], TT_LOST_LATE);
  tt_service_unlock();
}

static void time_out(struct tt_watch *watch, const struct tt_call *call, uint64_t waited_ns)
{
  char names[TT_SENTENCE_BYTES / 2], what[TT_CALL_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  /* Between hosts ranks that see one which is in no call come first. */
  int is_sure = watch->nlocal == watch->nranks || waited_ns >= watch->timeout_ns + TT_GRACE_NS;
  uint64_t least = is_sure ? least_entered(watch, call->op) : 0;
  int first, late = late_names(watch, call->op, least, &first, names);
  unsigned long long limit_ms = watch->timeout_ns / 1000000u;
  tt_shown_text(watch, call, what, sizeof what);
  if (late) late_lose(watch, call->op, least);
  if (late) snprintf(text, sizeof text, "%s did not enter %s within the timeout of %llu ms", names, what, limit_ms);
  else if (waited_ns < watch->timeout_ns + TT_GRACE_NS)
    return; /* the late rank is one that others can see: let them name it */
  else
    snprintf(text, sizeof text,
             "%s made no progress for the timeout of %llu ms, though every rank that can be seen "
             "from %s has entered it",
             what, limit_ms, tt_watch_rank_text(watch, watch->rank, names, sizeof names));
  tt_watch_fail(watch, tuttiRemoteError, first, call->op, text);
}

static void check_page(struct tt_watch *watch)
{
  if (tt_page_winner(&watch->page) < 0) return;
  tt_service_lock();
  tt_record_adopt(watch);
  tt_service_unlock();
}

/* ---- messages between pairs ---- */

/* The peer left before it sent or took the message. Data that it sent before may still be on its way for a while. */
static void pair_left(struct tt_watch *watch, const struct tt_call *call, uint64_t waited_ns)
{
  char text[TT_SENTENCE_BYTES];
  if (call->root == watch->rank || waited_ns < PAIR_GRACE_NS || !tt_page_gone(&watch->page, call->root)) return;
  tt_left_text(watch, call->root, call, text);
  tt_watch_fail(watch, tuttiRemoteError, call->root, call->op, text);
}

/* The peer waits in a collective that we have not entered, so its message never comes. */
static void pair_crossed(struct tt_watch *watch, const struct tt_call *call, uint64_t waited_ns)
{
  char own[TT_RANK_TEXT_BYTES], name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES], other[TT_CALL_TEXT_BYTES];
  char text[TT_SENTENCE_BYTES];
  const struct tt_rank_slot *slot = watch->peers[call->root].slot;
  struct tt_call theirs;
  if (!slot || waited_ns < PASSED_NS || !tt_rank_slot_latest(slot, &theirs)) return;
  if (theirs.op <= tt_rank_slot_finished(slot) || theirs.op <= tt_rank_slot_entered(watch->own)) return;
  int needs_root = theirs.collective < TT_COLLECTIVES && tt_kinds[theirs.collective].from == TT_FROM_ROOT;
  if (!tt_call_needs_all(&theirs, call->root) && !(needs_root && theirs.root == watch->rank)) return;
  snprintf(text, sizeof text, "calls differ between ranks: %s waits in %s, but %s waits in %s",
           tt_watch_rank_text(watch, watch->rank, own, sizeof own), tt_shown_text(watch, call, what, sizeof what),
           tt_watch_rank_text(watch, call->root, name, sizeof name),
           tt_shown_text(watch, &theirs, other, sizeof other));
  tt_watch_fail(watch, tuttiInvalidUsage, call->root, call->op, text);
}

static void pair_late(struct tt_watch *watch, const struct tt_call *call, uint64_t waited_ns)
{
  char name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  unsigned long long waited_ms = waited_ns / 1000000u, limit_ms = watch->timeout_ns / 1000000u;
  int ends = watch->timeout_ns && waited_ns >= watch->timeout_ns;
  if (!ends && (waited_ns < watch->late_warn_ns || waited_ns < watch->wait.look_ns)) return;
  watch->wait.look_ns = waited_ns + watch->late_warn_ns;
  struct tt_call message = *call;
  message.root = -1; /* the rank is named separately */
  tt_shown_text(watch, &message, what, sizeof what);
  tt_watch_rank_text(watch, call->root, name, sizeof name);
  int first = tt_circle_text(watch, text);
  if (first >= 0 && call->form & TT_FORM_CHUNK && watch->wait.warned == 2) { /* nothing has moved since the last look */
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, ", alike at both ends of a message that is longer than two slots of a "
                                              "CUDA stream (TUTTI_CUDA_SLOT_BYTES)");
    ends = 1;
  }
  if (first < 0 && !watch->wait.warned && !ends)
    tt_log(TT_LOG_WARN, "%s has been waiting for %llu ms for %s", what, waited_ms, name);
  if (first == watch->rank && watch->wait.warned < 2 && !ends) tt_log(TT_LOG_WARN, "for %llu ms %s", waited_ms, text);
  watch->wait.warned = first < 0 ? 1 : 2;
  if (!ends) return;
  if (first < 0)
    snprintf(text, sizeof text, "%s did not do its part of %s within the timeout of %llu ms", name, what, limit_ms);
  tt_service_lock();
  if (first < 0) tt_lost_set(watch, call->root, TT_LOST_LATE);
  tt_service_unlock();
  tt_watch_fail(watch, first < 0 ? tuttiRemoteError : tuttiInvalidUsage, first < 0 ? call->root : -1, call->op, text);
}

/* Shows on the host's status page that this rank can do nothing before the message of `call` has gone, or come. */
static void pair_show(const struct tt_watch *watch, const struct tt_call *call)
{
  uint64_t waits = call->form & TT_FORM_LONE ? tt_waits_make(call->root, (call->form & TT_FORM_SENDS) != 0) : 0;
  if (atomic_load_explicit(&watch->own->waits, memory_order_relaxed) != waits)
    atomic_store_explicit(&watch->own->waits, waits, memory_order_relaxed);
}

void tt_watch_waits_no_more(struct tt_watch *watch)
{
  if (!watch->own || !atomic_load_explicit(&watch->own->waits, memory_order_relaxed)) return;
  atomic_store_explicit(&watch->own->waits, 0, memory_order_relaxed);
}

static void pair_compare(struct tt_watch *watch, const struct tt_call *call, uint64_t since_ns)
{
  /* One wait may be for several messages, which `call` names in turn. */
  uint64_t key = ~since_ns, now = tt_now_ns(), waited = now > since_ns ? now - since_ns : 0;
  if (watch->wait.op != key) watch->wait = (struct tt_wait){.op = key};
  check_page(watch);
  pair_show(watch, call);
  pair_left(watch, call, waited);
  pair_crossed(watch, call, waited);
  pair_late(watch, call, waited);
}

void tt_watch_compare(struct tt_watch *watch, const struct tt_call *call, uint64_t since_ns)
{
  if (!watch->own || atomic_load_explicit(&watch->failed, memory_order_relaxed)) return;
  if (call->collective == TT_PAIRS) {
    pair_compare(watch, call, since_ns);
    return;
  }
  if (watch->wait.op != call->op) watch->wait = (struct tt_wait){.op = call->op};
  uint64_t now = tt_now_ns(), waited = now > since_ns ? now - since_ns : 0;
  check_page(watch);
  if (watch->nranks > LOOK_RANKS && now - watch->wait.looked_ns < (uint64_t)watch->nranks * LOOK_NS) return;
  watch->wait.looked_ns = now;
  for (int i = 0; i < watch->nseen; i++) compare_with(watch, call, watch->seen[i], now);
  for (int rank = 0; rank < watch->nranks; rank++) check_left(watch, call, rank);
  if (waited >= SHOW_NS && !watch->wait.shown) {
    watch->wait.shown = 1;
    atomic_store_explicit(&watch->control.show, 1, memory_order_relaxed);
  }
  if (waited >= watch->late_warn_ns && !watch->wait.warned) warn_late(watch, call, waited);
  if (watch->timeout_ns && waited >= watch->timeout_ns) time_out(watch, call, waited);
}

void tt_watch_await(struct tt_watch *watch, const struct tt_call *call)
{
  if (!watch->own || atomic_load_explicit(&watch->failed, memory_order_relaxed)) return;
  check_page(watch);
  for (int rank = 0; rank < watch->nranks; rank++) check_left(watch, call, rank);
}

/* ---- mismatch seen by a transport ---- */

/* Both ranks' calls of number `op`, if they are known and differ. */
static int known_to_differ(const struct tt_watch *watch, int peer, uint64_t op, struct tt_call pair[2])
{
  const struct tt_rank_slot *slot = watch->peers[peer].slot;
  return slot && tt_rank_slot_call(watch->own, op, &pair[0]) && tt_rank_slot_call(slot, op, &pair[1]) &&
         tt_calls_differ(&pair[0], &pair[1]);
}

int tt_differed(const struct tt_watch *watch, int peer, struct tt_call pair[2])
{
  uint64_t last = watch->own ? tt_rank_slot_entered(watch->own) : 0;
  for (uint64_t op = last > TT_CALLS ? last - TT_CALLS : 1; op <= last; op++)
    if (known_to_differ(watch, peer, op, pair)) return 1;
  return 0;
}

/* Both ranks are in `mine`, so the call that differs is an earlier one. */
static tuttiResult_t record_earlier(struct tt_watch *watch, const struct tt_call *mine, int peer)
{
  char own[TT_RANK_TEXT_BYTES], name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  struct tt_call pair[2];
  for (uint64_t op = mine->op > TT_CALLS ? mine->op - TT_CALLS : 1; op < mine->op; op++)
    if (known_to_differ(watch, peer, op, pair)) return record_differ(watch, &pair[0], peer, &pair[1]);
  snprintf(text, sizeof text, "calls differ between ranks: %s and %s are both in %s, but differed in a call before it",
           tt_watch_rank_text(watch, watch->rank, own, sizeof own),
           tt_watch_rank_text(watch, peer, name, sizeof name), tt_shown_text(watch, mine, what, sizeof what));
  return tt_watch_fail(watch, tuttiInvalidUsage, peer, mine->op, text);
}

/* True if the peer, which sent a message of our operation, made the same call. */
static int is_same(const struct tt_watch *watch, const struct tt_call *mine, int peer, const struct tt_call *theirs)
{
  struct tt_call seen;
  const struct tt_rank_slot *slot = watch->peers[peer].slot;
  if (theirs && theirs->op) return theirs->op == mine->op && !tt_calls_differ(mine, theirs);
  return slot && tt_rank_slot_call(slot, mine->op, &seen) && !tt_calls_differ(mine, &seen);
}

/* The operation number nearest to `near` that has these low 32 bits; only they travel. */
static uint64_t widen(uint32_t op, uint64_t near)
{
  return near + (uint64_t)(int64_t)(int32_t)(op - (uint32_t)near);
}

static tuttiResult_t pair_mismatch(struct tt_watch *watch, const struct tt_call *mine, int peer,
                                   const struct tt_call *theirs)
{
  char own[TT_RANK_TEXT_BYTES], name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES], seen[TT_CALL_TEXT_BYTES];
  char text[TT_SENTENCE_BYTES];
  if (theirs) tt_shown_text(watch, theirs, seen, sizeof seen);
  else snprintf(seen, sizeof seen, "another call, or of another size");
  snprintf(text, sizeof text, "calls differ between ranks: %s is in %s, but %s sent a message of %s",
           tt_watch_rank_text(watch, watch->rank, own, sizeof own), tt_shown_text(watch, mine, what, sizeof what),
           tt_watch_rank_text(watch, peer, name, sizeof name), seen);
  return tt_watch_fail(watch, tuttiInvalidUsage, peer, mine->op, text);
}

/* The peer has sent a message of its call `op`. The message of a short call comes a moment before that is published. */
static void await_published(const struct tt_watch *watch, int peer, uint64_t op)
{
  const struct tt_rank_slot *slot = watch->peers[peer].local ? watch->peers[peer].slot : NULL;
  uint64_t until_ns = tt_now_ns() + PUBLISHED_NS;
  while (slot && tt_rank_slot_entered(slot) < op && tt_now_ns() < until_ns) sched_yield();
}

tuttiResult_t tt_watch_mismatch(struct tt_watch *watch, const struct tt_call *mine, int peer, uint64_t word,
                                const struct tt_call *theirs)
{
  char name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES], seen[TT_CALL_TEXT_BYTES], text[TT_SENTENCE_BYTES];
  struct tt_call pair[2];
  uint64_t op = widen(tt_word_op(word), mine->op);
  int is_pair = mine->collective == TT_PAIRS || (theirs && theirs->collective == TT_PAIRS); /* numbered otherwise */
  if (is_pair) return pair_mismatch(watch, mine, peer, theirs);
  await_published(watch, peer, op);
  if (theirs && theirs->op == mine->op && tt_calls_differ(mine, theirs))
    return record_differ(watch, mine, peer, theirs);
  if (known_to_differ(watch, peer, mine->op, pair)) return record_differ(watch, &pair[0], peer, &pair[1]);
  if (op == mine->op && is_same(watch, mine, peer, theirs)) return record_earlier(watch, mine, peer);
  if (theirs && theirs->op != mine->op && tt_rank_slot_call(watch->own, theirs->op, &pair[0]) &&
      tt_calls_differ(&pair[0], theirs))
    return record_differ(watch, &pair[0], peer, theirs);
  if (known_to_differ(watch, peer, op, pair)) return record_differ(watch, &pair[0], peer, &pair[1]);
  if (theirs && theirs->op) tt_shown_text(watch, theirs, seen, sizeof seen);
  else
    snprintf(seen, sizeof seen, "operation #%llu%s", (unsigned long long)tt_shown_op(watch, op),
             op == mine->op ? ", which is another function there, or has other arguments" : "");
  char own[TT_RANK_TEXT_BYTES];
  snprintf(text, sizeof text, "calls differ between ranks: %s called %s, but %s sent a message of %s",
           tt_watch_rank_text(watch, watch->rank, own, sizeof own), tt_shown_text(watch, mine, what, sizeof what),
           tt_watch_rank_text(watch, peer, name, sizeof name), seen);
  return tt_watch_fail(watch, tuttiInvalidUsage, peer, mine->op, text);
}
