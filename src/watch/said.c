/* SPDX-License-Identifier: BSD-3-Clause */
/* The means by which ranks agree on who is left (comm/views.c). Words of ranks of this host are on its status page,
 * those of others come by control links. */
#include <string.h>

#include "watch/private.h"

int tt_watch_is_lost(const struct tt_watch *watch, int rank)
{
  if (!watch->own) return 0;
  return tt_page_lost(&watch->page, rank) || (rank != watch->rank && tt_page_gone(&watch->page, rank));
}

int tt_watch_is_dead(const struct tt_watch *watch, int rank)
{
  uint64_t lost = watch->own ? tt_page_lost(&watch->page, rank) : 0;
  return lost ? tt_lost_how(lost) == TT_LOST_DEAD : watch->own && tt_page_gone(&watch->page, rank);
}

void tt_watch_lose_late(struct tt_watch *watch, int rank)
{
  tt_service_lock();
  tt_lost_set(watch, rank, TT_LOST_LATE);
  tt_service_unlock();
}

void tt_watch_lose_too(struct tt_watch *watch, int rank, const struct tt_watch *other, int rank_there,
                       int if_late)
{
  uint64_t lost = other->own ? tt_page_lost(&other->page, rank_there) : 0;
  if (!lost || (!if_late && tt_lost_how(lost) == TT_LOST_LATE)) return;
  if (!watch->own || tt_page_lost(&watch->page, rank)) return;
  tt_service_lock();
  tt_page_lose(&watch->page, rank, lost);
  tt_control_tell(watch);
  tt_service_unlock();
}

int tt_watch_sees(const struct tt_watch *watch, int rank)
{
  return watch->peers[rank].slot != NULL;
}

void tt_watch_say(struct tt_watch *watch, const uint64_t *words, int n)
{
  struct tt_frame frame = {.type = TT_FRAME_WORDS, .rank = watch->rank};
  if (!watch->own) return;
  memcpy(frame.said.words, words, (size_t)n * sizeof *words);
  frame.said.number = ++watch->nsaid;
  tt_said_set(&watch->own->said, frame.said.number, words, n);
  if (!watch->control.links) return;
  tt_service_lock();
  tt_control_words(watch, &frame, NULL);
  tt_service_unlock();
}

void tt_watch_show_lacks(struct tt_watch *watch, const struct tt_lacks *lacks)
{
  uint64_t words[TT_LACKS_WORDS];
  if (!watch->own) return;
  memcpy(words, lacks, sizeof words);
  tt_said_set(&watch->own->said, ++watch->nsaid, words, TT_LACKS_WORDS);
}

int tt_watch_said(const struct tt_watch *watch, int rank, uint64_t *words, int n)
{
  const struct tt_peer *peer = &watch->peers[rank];
  if (!watch->own) return 0;
  if (peer->local) return tt_said_get(&watch->page.slots[tt_rank_slot_of(watch, rank)].said, words, n) != 0;
  const struct tt_control_words *all = atomic_load(&watch->control.words);
  return all && tt_said_get(&all[rank].said, words, n) != 0;
}
