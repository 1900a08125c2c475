/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/failover.h"

#include <string.h>

#define WORD_BITS 64

/* A share that this rank is to serve, while offers come and after that: of each shard, and of each shard and rank. */
struct inherited {
  uint64_t *versions;         /* the newest that was offered, */
  uint64_t *sets;             /* and its set */
  uint64_t *of_rank, *steps;  /* the version and the steps that a rank has offered */
  uint8_t *is_there, *is_odd; /* 1: it has; as in its offer */
  int serves;                 /* 1: TT_SERVE was taken */
};

struct tt_failover {
  int nranks, rank, nwords, is_elastic;
  int *nshards;
  uint8_t *is_dead;
  uint8_t *offers;              /* of each share: 1: its TT_OFFER is to be taken */
  struct inherited **inherited; /* of each share; NULL: this rank is not to serve it */
};

tuttiResult_t tt_failover_create(struct tt_failover **out, int nranks, int rank, const int *nshards, int is_elastic)
{
  if (nranks < 1 || rank < 0 || rank >= nranks)
    return tt_fail(tuttiInvalidArgument, "rank %d of %d: give one rank at least", rank, nranks);
  struct tt_failover *failover = tt_alloc(1, sizeof *failover);
  size_t n = (size_t)nranks;
  if (failover) {
    failover->nranks = nranks;
    failover->rank = rank;
    failover->is_elastic = is_elastic;
    failover->nwords = (nranks + WORD_BITS - 1) / WORD_BITS;
    failover->nshards = tt_alloc(n, sizeof *failover->nshards);
    failover->is_dead = tt_alloc(2 * n, sizeof *failover->is_dead);
    failover->inherited = tt_alloc(n, sizeof *failover->inherited);
  }
  if (!failover || !failover->nshards || !failover->is_dead || !failover->inherited) {
    tt_failover_destroy(failover);
    return tt_fail(tuttiSystemError, "out of memory for the deaths of %d ranks", nranks);
  }
  failover->offers = failover->is_dead + n;
  memcpy(failover->nshards, nshards, n * sizeof *nshards);
  *out = failover;
  return tuttiSuccess;
}

static void inherited_free(struct inherited *inherited)
{
  if (!inherited) return;
  tt_free(inherited->versions);
  tt_free(inherited->is_there);
  tt_free(inherited);
}

void tt_failover_destroy(struct tt_failover *failover)
{
  if (!failover) return;
  for (int share = 0; failover->inherited && share < failover->nranks; share++)
    inherited_free(failover->inherited[share]);
  tt_free(failover->nshards);
  tt_free(failover->is_dead);
  tt_free(failover->inherited);
  tt_free(failover);
}

/* ---- events ---- */

static tuttiResult_t inherit(struct tt_failover *failover, int share)
{
  struct inherited *inherited = tt_alloc(1, sizeof *inherited);
  size_t shards = (size_t)failover->nshards[share], ranks = (size_t)failover->nranks;
  size_t words = shards * (1 + (size_t)failover->nwords + 2 * ranks);
  if (inherited) {
    inherited->versions = tt_alloc(words, sizeof *inherited->versions);
    inherited->is_there = tt_alloc(2 * shards * ranks, sizeof *inherited->is_there);
  }
  if (!inherited || !inherited->versions || !inherited->is_there) {
    inherited_free(inherited);
    return tt_fail(tuttiSystemError, "out of memory for %zu shards that rank %d has served", shards, share);
  }
  inherited->sets = inherited->versions + shards;
  inherited->of_rank = inherited->sets + shards * (size_t)failover->nwords;
  inherited->steps = inherited->of_rank + shards * ranks;
  inherited->is_odd = inherited->is_there + shards * ranks;
  failover->inherited[share] = inherited;
  return tuttiSuccess;
}

tuttiResult_t tt_failover_died(struct tt_failover *failover, int rank)
{
  tuttiResult_t result = tuttiSuccess;
  if (rank < 0 || rank >= failover->nranks || rank == failover->rank) return result;
  for (int share = 0; share < failover->nranks; share++)
    if (failover->nshards[share] && tt_failover_owner(failover, share) == rank) failover->offers[share] = 1;
  failover->is_dead[rank] = 1;
  for (int share = 0; share < failover->nranks && result == tuttiSuccess; share++) {
    int is_mine = failover->offers[share] && tt_failover_owner(failover, share) == failover->rank;
    if (is_mine && !failover->inherited[share]) result = inherit(failover, share);
  }
  return result;
}

enum tt_offer_verdict tt_failover_offered(struct tt_failover *failover, int from, const struct tt_offer *offer)
{
  if (from < 0 || from >= failover->nranks || offer->share < 0 || offer->share >= failover->nranks ||
      offer->shard < 0 || offer->shard >= failover->nshards[offer->share] || offer->share == failover->rank)
    return TT_OFFER_WRONG;
  struct inherited *inherited = failover->inherited[offer->share];
  if (!inherited) return TT_OFFER_EARLY;
  size_t shard = (size_t)offer->shard, at = shard * (size_t)failover->nranks + (size_t)from;
  if (inherited->serves || inherited->is_there[at]) return TT_OFFER_WRONG;
  int is_first = !memchr(inherited->is_there + shard * (size_t)failover->nranks, 1, (size_t)failover->nranks);
  inherited->is_there[at] = 1;
  inherited->of_rank[at] = offer->version;
  inherited->steps[at] = offer->steps;
  inherited->is_odd[at] = (uint8_t)(offer->is_odd != 0);
  if (!is_first && offer->version <= inherited->versions[shard]) return TT_OFFER_OLDER;
  inherited->versions[shard] = offer->version;
  memcpy(inherited->sets + shard * (size_t)failover->nwords, offer->set,
         (size_t)failover->nwords * sizeof *offer->set);
  return TT_OFFER_NEWEST;
}

/* ---- state ---- */

int tt_failover_owner(const struct tt_failover *failover, int share)
{
  int rank = share;
  while (failover->is_dead[rank]) rank = (rank + 1) % failover->nranks; /* this one lives */
  return rank;
}

int tt_failover_serves(const struct tt_failover *failover, int share)
{
  const struct inherited *inherited = failover->inherited[share];
  return share == failover->rank || (inherited && inherited->serves);
}

uint64_t tt_failover_version(const struct tt_failover *failover, int share, int shard)
{
  return failover->inherited[share]->versions[shard];
}

/* A version that is newer than a rank's own has all that was answered to it, and one contribution more at most. */
struct tt_server_progress tt_failover_progress(const struct tt_failover *failover, int share, int shard, int rank)
{
  const struct inherited *inherited = failover->inherited[share];
  size_t at = (size_t)shard * (size_t)failover->nranks + (size_t)rank;
  const uint64_t *set = inherited->sets + (size_t)shard * (size_t)failover->nwords;
  int was_odd = inherited->is_odd[at], is_odd = (int)(set[rank / WORD_BITS] >> (rank % WORD_BITS) & 1);
  int is_owed = !failover->is_elastic && inherited->versions[shard] > inherited->of_rank[at] && is_odd != was_odd;
  return (struct tt_server_progress){inherited->steps[at] + (uint64_t)is_owed, was_odd ^ is_owed, is_owed};
}

/* ---- actions ---- */

/* 1: all live ranks have offered all shards. */
static int are_there(const struct tt_failover *failover, int share)
{
  const uint8_t *is_there = failover->inherited[share]->is_there;
  for (int shard = 0; shard < failover->nshards[share]; shard++, is_there += failover->nranks)
    for (int rank = 0; rank < failover->nranks; rank++)
      if (!is_there[rank] && !failover->is_dead[rank]) return 0;
  return 1;
}

int tt_failover_next(struct tt_failover *failover, struct tt_failover_action *action)
{
  for (int share = 0; share < failover->nranks; share++) {
    if (!failover->offers[share]) continue;
    failover->offers[share] = 0;
    *action = (struct tt_failover_action){TT_OFFER, share, tt_failover_owner(failover, share)};
    return 1;
  }
  for (int share = 0; share < failover->nranks; share++) {
    struct inherited *inherited = failover->inherited[share];
    if (!inherited || inherited->serves || !are_there(failover, share)) continue;
    inherited->serves = 1;
    *action = (struct tt_failover_action){TT_SERVE, share, failover->rank};
    return 1;
  }
  return 0;
}
