/* SPDX-License-Identifier: BSD-3-Clause */
/* Shrinks of one communicator that can never be ready, because their ranks were given unlike lists.
 *
 * If two ranks shrink to different sets, and each is in the other's set, neither set can be ready before both ranks
 * have come to it, so they wait for each other. Two such cases pass by themselves. In the first, one rank has done its
 * part and the last message is on its way to it, while the other rank is ready and already in its next shrink. In the
 * second, one rank knows of a death; the other does not yet, and will end its shrink when it does. So a rank that still
 * has to do its part accuses the lowest rank that it has found in another shrink, if that stays the same for STEADY_NS;
 * and if the accused rank accuses it as well, both shrinks end. Two such ranks exist: the lowest of all ranks that
 * accuse one, and the lowest rank that it finds. */
#include <stdio.h>
#include <string.h>

#include "watch/private.h"

#define STEADY_NS 5000000000u /* news of a death takes 1 s; an outage that is no failure 3 s (unreachable_ms) */

static int has(const struct tt_target *target, int rank)
{
  return target->members[rank / 64] >> rank % 64 & 1;
}

/* The first rank that is in one of the targets only; -1: there is none. */
static int first_difference(const struct tt_target *a, const struct tt_target *b, int nranks)
{
  int rank = 0;
  while (rank < nranks && has(a, rank) == has(b, rank)) rank++;
  return rank < nranks ? rank : -1;
}

/* Shows the shrink's target. If two shrinks run at once (in a group), none is shown: a rank in both waits for neither
 * alone. */
static void show(struct tt_watch *watch, struct tt_startup *startup)
{
  struct tt_target target = {.key = watch->ntargets++ ? 0 : startup->key};
  startup->is_shown = 1;
  for (int i = 0; i < startup->nmembers; i++) {
    int rank = startup->members[i];
    target.members[rank / 64] |= 1ull << rank % 64;
  }
  tt_rank_slot_target_set(watch->own, &target);
}

/* The lowest member that shows another target with this rank in it; -1: there is none. */
static int unlike_find(const struct tt_watch *watch, const struct tt_startup *startup, const struct tt_target *own,
                       struct tt_target *other)
{
  for (int i = 0; i < startup->nmembers; i++) {
    const struct tt_rank_slot *slot = watch->peers[startup->members[i]].slot;
    if (!slot || !tt_rank_slot_target_get(slot, other) || other->key == own->key || !has(other, watch->rank)) continue;
    if (first_difference(own, other, watch->nranks) >= 0) return startup->members[i];
  }
  return -1;
}

/* Writes the same sentence on both sides. */
static void unlike_text(const struct tt_watch *watch, const struct tt_target *own, int rank,
                        const struct tt_target *other, char text[TT_SENTENCE_BYTES])
{
  char name[2][TT_RANK_TEXT_BYTES], when[48];
  int differs = first_difference(own, other, watch->nranks), is_first = watch->rank < rank;
  int first_has = has(is_first ? own : other, differs);
  tt_watch_rank_text(watch, is_first ? watch->rank : rank, name[0], sizeof name[0]);
  tt_watch_rank_text(watch, is_first ? rank : watch->rank, name[1], sizeof name[1]);
  snprintf(text, TT_SENTENCE_BYTES, "calls differ between ranks: %s shrinks the communicator %s rank %d, %s %s it: "
           "shrink again with the same list on all ranks, as tuttiCommGetFailed tells it (%.70s, %s)", name[0],
           first_has ? "with" : "without", differs, name[1], first_has ? "without" : "with", watch->label,
           tt_now_text(when, sizeof when));
}

tuttiResult_t tt_unlike_look(struct tt_watch *watch, struct tt_startup *startup)
{
  struct tt_target own, other = {.key = 0};
  if (watch->nranks > TT_TARGET_RANKS) return tuttiSuccess;
  if (!startup->is_shown) show(watch, startup);
  if (!tt_rank_slot_target_get(watch->own, &own) || own.key != startup->key) return tuttiSuccess;
  int rank = startup->is_last ? -1 : unlike_find(watch, startup, &own, &other);
  uint64_t key = rank < 0 ? 0 : other.key;
  if (!key || key != startup->unlike_key || rank != startup->unlike) {
    startup->unlike = rank;
    startup->unlike_key = key;
    startup->unlike_ns = watch->clock_ns;
  }
  own.against = key && watch->clock_ns - startup->unlike_ns >= STEADY_NS ? 1 + (uint64_t)rank : 0;
  tt_rank_slot_target_set(watch->own, &own);
  if (!own.against || other.against != 1 + (uint64_t)watch->rank) return tuttiSuccess;
  struct tt_notice notice = {.key = own.key, .other = other.key, .code = tuttiInvalidUsage};
  unlike_text(watch, &own, rank, &other, notice.sentence);
  tt_notice_give(watch, &notice);
  return tt_fail(tuttiInvalidUsage, "%s", notice.sentence);
}

void tt_watch_startup_end(struct tt_watch *watch, struct tt_startup *startup)
{
  if (!startup->is_shown || atomic_load(&tt_process.forked)) return; /* the status page is not mapped there */
  tt_service_lock();
  startup->is_shown = 0;
  watch->ntargets--;
  tt_rank_slot_target_set(watch->own, &(struct tt_target){.key = 0});
  tt_service_unlock();
}
