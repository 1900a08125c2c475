/* SPDX-License-Identifier: BSD-3-Clause */
/* The error sentences that users read: which rank, where, in which operation, and what to do. */
#include <stdio.h>
#include <string.h>

#include "watch/private.h"

const char *tt_watch_rank_text(const struct tt_watch *watch, int rank, char *text, size_t size)
{
  if (rank < 0 || rank >= watch->nranks) {
    snprintf(text, size, "rank %d", rank);
    return text;
  }
  const struct tt_member *member = &watch->members[rank];
  snprintf(text, size, "rank %d (pid %d on %s)", rank, (int)member->pid, member->host_name);
  return text;
}

/* 1 and *call if the rank of `slot` is inside a call. */
static int inside(const struct tt_rank_slot *slot, struct tt_call *call)
{
  return slot && tt_rank_slot_latest(slot, call) && call->op > tt_rank_slot_finished(slot);
}

void tt_watch_count(struct tt_watch *watch, uint64_t number)
{
  if (!watch->own) return;
  atomic_store_explicit(&watch->counted_from, tt_rank_slot_entered(watch->own), memory_order_relaxed);
  atomic_store_explicit(&watch->counted, number, memory_order_relaxed);
}

uint64_t tt_shown_op(const struct tt_watch *watch, uint64_t op)
{
  uint64_t number = atomic_load_explicit(&watch->counted, memory_order_relaxed);
  if (!number) return op;
  return op > atomic_load_explicit(&watch->counted_from, memory_order_relaxed) ? number : number - 1;
}

const char *tt_shown_text(const struct tt_watch *watch, const struct tt_call *call, char *text, size_t size)
{
  struct tt_call shown = *call;
  shown.op = tt_shown_op(watch, call->op);
  return tt_call_text(&shown, text, size);
}

uint64_t tt_current_op(const struct tt_watch *watch)
{
  struct tt_call call;
  return inside(watch->own, &call) ? call.op : 0;
}

const char *tt_when_text(const struct tt_watch *watch, int rank, char *text, size_t size)
{
  char name[TT_CALL_TEXT_BYTES];
  struct tt_call call;
  const struct tt_rank_slot *theirs = watch->peers[rank].slot;
  if (inside(watch->own, &call) || inside(theirs, &call)) {
    snprintf(text, size, "during %s", tt_shown_text(watch, &call, name, sizeof name));
    return text;
  }
  uint64_t mine = watch->own ? tt_rank_slot_entered(watch->own) : 0;
  uint64_t their = theirs ? tt_rank_slot_entered(theirs) : 0;
  uint64_t next = (mine > their ? mine : their) + 1;
  snprintf(text, size, "before operation #%llu", (unsigned long long)tt_shown_op(watch, next));
  return text;
}

struct names {
  char rank[TT_RANK_TEXT_BYTES], when[TT_CALL_TEXT_BYTES + 16];
};

static void names_fill(const struct tt_watch *watch, int rank, struct names *names)
{
  tt_watch_rank_text(watch, rank, names->rank, sizeof names->rank);
  tt_when_text(watch, rank, names->when, sizeof names->when);
}

int tt_exits(const struct tt_watch *watch, int rank)
{
  const struct tt_peer *peer = &watch->peers[rank];
  return peer->local && peer->slot && atomic_load_explicit(&peer->slot->exits, memory_order_acquire) != 0;
}

void tt_died_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES])
{
  struct names names;
  names_fill(watch, rank, &names);
  if (tt_exits(watch, rank))
    snprintf(text, TT_SENTENCE_BYTES, "%s exited without tuttiCommDestroy %s", names.rank, names.when);
  else snprintf(text, TT_SENTENCE_BYTES, "%s died %s", names.rank, names.when);
}

void tt_frozen_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES])
{
  struct names names;
  names_fill(watch, rank, &names);
  snprintf(text, TT_SENTENCE_BYTES,
           "%s is frozen: stopped by a signal (state T) for more than %llu ms %s; kill -CONT %d would have "
           "continued it, TUTTI_FROZEN_MS allows longer stops",
           names.rank, (unsigned long long)(watch->limits.frozen_ns / 1000000u), names.when,
           (int)watch->members[rank].pid);
}

void tt_unreachable_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES])
{
  struct names names;
  names_fill(watch, rank, &names);
  snprintf(text, TT_SENTENCE_BYTES,
           "%s is unreachable: no sign of life for more than %llu ms %s; check its host and the network, or "
           "raise TUTTI_UNREACHABLE_MS",
           names.rank, (unsigned long long)(watch->limits.unreachable_ns / 1000000u), names.when);
}

void tt_cut_off_text(const struct tt_watch *watch, char text[TT_SENTENCE_BYTES])
{
  struct names names;
  names_fill(watch, watch->rank, &names);
  snprintf(text, TT_SENTENCE_BYTES,
           "%s is cut off: no sign of life of any other host for more than %llu ms %s; check its own link to the "
           "network, or raise TUTTI_UNREACHABLE_MS",
           names.rank, (unsigned long long)(watch->limits.unreachable_ns / 1000000u), names.when);
}

void tt_lost_text(const struct tt_watch *watch, int rank, const char *how, char text[TT_SENTENCE_BYTES])
{
  struct names names;
  names_fill(watch, rank, &names);
  snprintf(text, TT_SENTENCE_BYTES, "lost connection to %s %s: %.160s; if it has ended, its own output says why",
           names.rank, names.when, how);
}

void tt_damaged_text(const struct tt_watch *watch, int rank, char text[TT_SENTENCE_BYTES])
{
  struct names names;
  names_fill(watch, rank, &names);
  snprintf(text, TT_SENTENCE_BYTES,
           "a control frame of %s came damaged, twice or not in its turn (its tag does not fit, see TUTTI_AUTH) %s: "
           "the network, a device or somebody on the way changes data",
           names.rank, names.when);
}

void tt_left_text(const struct tt_watch *watch, int rank, const struct tt_call *call,
                  char text[TT_SENTENCE_BYTES])
{
  char name[TT_RANK_TEXT_BYTES], what[TT_CALL_TEXT_BYTES];
  uint64_t gone = tt_page_gone(&watch->page, rank);
  int amid = tt_gone_inside(gone) && tt_gone_finished(gone) + 1 == call->op;
  snprintf(text, TT_SENTENCE_BYTES, "%s left the communicator (%s) %s %s",
           tt_watch_rank_text(watch, rank, name, sizeof name),
           tt_gone_aborted(gone) ? "aborted" : "destroyed", amid ? "during" : "before",
           tt_shown_text(watch, call, what, sizeof what));
}

/* The remedy where one argument differs, or the function; "": the texts of the calls have to do. */
static const char *difference(const struct tt_call *a, const struct tt_call *b)
{
  if (a->collective != b->collective || strcmp(tt_call_name(a), tt_call_name(b)) != 0)
    return ": make the same calls in the same order on all ranks";
  if (a->collective == TT_PAIRS || (a->form & TT_FORM_CODED)) return "";
  if (a->root != b->root) return ": give all ranks the same root";
  if (a->count != b->count) return ": give all ranks the same count";
  if (a->type != b->type) return ": give all ranks the same type";
  return a->redop != b->redop ? ": give all ranks the same operation" : "";
}

void tt_differ_text(const struct tt_watch *watch, const struct tt_call *mine, int peer,
                    const struct tt_call *theirs, char text[TT_SENTENCE_BYTES])
{
  char rank[2][TT_RANK_TEXT_BYTES], call[2][TT_CALL_TEXT_BYTES];
  tt_watch_rank_text(watch, watch->rank, rank[0], sizeof rank[0]);
  tt_watch_rank_text(watch, peer, rank[1], sizeof rank[1]);
  tt_shown_text(watch, mine, call[0], sizeof call[0]);
  tt_shown_text(watch, theirs, call[1], sizeof call[1]);
  const char *hidden = strcmp(call[0], call[1]) == 0 ? " with another algorithm" : "";
  int first = watch->rank < peer ? 0 : 1; /* both sides write the same sentence */
  snprintf(text, TT_SENTENCE_BYTES, "calls differ between ranks: %s called %s, but %s called %s%s%s",
           rank[first], call[first], rank[1 - first], call[1 - first], hidden, difference(mine, theirs));
}
