/* SPDX-License-Identifier: BSD-3-Clause */
/* The means by which ranks of one host agree on who is left (comm/views.c). */
#include "watch/private.h"

int tt_watch_is_lost(const struct tt_watch *watch, int rank)
{
  if (!watch->own) return 0;
  return tt_page_lost(&watch->page, rank) || (rank != watch->rank && tt_page_gone(&watch->page, rank));
}

void tt_watch_lose_late(struct tt_watch *watch, int rank)
{
  tt_service_lock();
  tt_lost_set(watch, rank, TT_LOST_LATE);
  tt_service_unlock();
}

void tt_watch_lose_too(struct tt_watch *watch, int rank, const struct tt_watch *other, int rank_there)
{
  uint64_t lost = other->own ? tt_page_lost(&other->page, rank_there) : 0;
  if (lost && watch->own) tt_page_lose(&watch->page, rank, lost);
}

void tt_watch_say(struct tt_watch *watch, const uint64_t *words, int n)
{
  if (watch->own) tt_rank_slot_say(watch->own, words, n);
}

int tt_watch_said(const struct tt_watch *watch, int rank, uint64_t *words, int n)
{
  const struct tt_peer *peer = &watch->peers[rank];
  return watch->own && peer->local && tt_rank_slot_said(&watch->page.slots[tt_rank_slot_of(watch, rank)], words, n);
}
