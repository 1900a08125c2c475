/* SPDX-License-Identifier: BSD-3-Clause */
/* Sends and receives that wait for each other. The classic mistake is that all ranks send first, each to its neighbour,
 * without a group. Each rank of a host shows which rank it waits for (pair_show); in a circle, the way from one rank to
 * the next comes back to where it began. */
#include <stdio.h>

#include "watch/private.h"

#define NAMES_MAX 8 /* ranks named in a sentence */

static uint64_t waits_of(const struct tt_watch *watch, int rank)
{
  const struct tt_rank_slot *slot = rank == watch->rank ? watch->own : watch->peers[rank].slot;
  uint64_t waits = slot ? atomic_load_explicit(&slot->waits, memory_order_relaxed) : 0;
  return tt_waits_peer(waits) < watch->nranks ? waits : 0;
}

/* The rank that `rank` waits for; -1: none, or that rank does the other half of the same message. */
static int next_of(const struct tt_watch *watch, int rank)
{
  uint64_t waits = rank < 0 ? 0 : waits_of(watch, rank);
  int next = tt_waits_peer(waits);
  uint64_t theirs = next < 0 ? 0 : waits_of(watch, next);
  return tt_waits_peer(theirs) == rank && tt_waits_sends(theirs) != tt_waits_sends(waits) ? -1 : next;
}

/* The lowest rank of the circle that this rank's waiting leads to, -1 if it leads to none. */
static int lowest_find(const struct tt_watch *watch)
{
  int at = watch->rank;
  for (int i = 0; i < watch->nranks; i++) at = next_of(watch, at); /* after that it is in the circle */
  int lowest = at;
  for (int i = 0; i < watch->nranks; i++) {
    at = next_of(watch, at);
    if (at < lowest) lowest = at;
  }
  return at < 0 ? -1 : lowest;
}

int tt_circle_text(const struct tt_watch *watch, char text[TT_SENTENCE_BYTES])
{
  static const char *const all_in[] = {"a receive, and none of them sends", "a send, and none of them receives",
                                       "a send or a receive, each for another of them"};
  char names[NAMES_MAX * 16];
  size_t used = 0;
  int lowest = lowest_find(watch), at = lowest, n = 0, sends = 0;
  if (lowest < 0) return -1;
  do {
    if (n++ < NAMES_MAX) used += (size_t)snprintf(names + used, sizeof names - used, "%s%d", n > 1 ? ", " : "", at);
    sends += tt_waits_sends(waits_of(watch, at));
    at = next_of(watch, at);
  } while (at >= 0 && at != lowest && n < watch->nranks);
  if (at != lowest) return -1; /* a rank has just moved on */
  if (n > NAMES_MAX) snprintf(names + used, sizeof names - used, " and %d more", n - NAMES_MAX);
  snprintf(text, TT_SENTENCE_BYTES,
           "ranks %s are all in %s: put tuttiSend and tuttiRecv between tuttiGroupStart and tuttiGroupEnd", names,
           all_in[sends == n ? 1 : sends ? 2 : 0]);
  return lowest;
}
