/* SPDX-License-Identifier: BSD-3-Clause */
#include "server/move.h"

/* A claim has, from the highest bit down: 1: a server's; 1 + the version; 1 + the rank. */
#define SERVER ((uint64_t)1 << 63)
#define RANK_BITS 20

uint64_t tt_move_version(enum tt_move_rule rule, const struct tt_move_rank *ranks, int n)
{
  uint64_t version = 0;
  int is_first = 1;
  for (int r = 0; r < n && rule != TT_MOVE_OTHERS; r++) {
    if (!ranks[r].has_come) continue;
    uint64_t its = rule == TT_MOVE_ALL ? ranks[r].ended : ranks[r].holds;
    int is_better = rule == TT_MOVE_ALL ? its < version : its > version;
    if (is_first || is_better) version = its;
    is_first = 0;
  }
  return version;
}

uint64_t tt_move_claim(enum tt_move_rule rule, uint64_t version, int rank, const struct tt_move_shard *shard)
{
  int is_one = rule != TT_MOVE_OTHERS;
  uint64_t its = is_one ? version : shard->version, copied = is_one ? version : shard->copied;
  int serves = shard->serves && (shard->version == its || (shard->goes_back && shard->version == its + 1));
  if (!serves && !(shard->has_copy && shard->copied == copied)) return 0;
  return (serves ? SERVER : 0) | ((serves ? its : copied) + 1) << RANK_BITS | ((uint64_t)rank + 1);
}

int tt_move_is_served(uint64_t claim)
{
  return claim >= SERVER;
}

uint64_t tt_move_claimed(uint64_t claim)
{
  return ((claim & ~SERVER) >> RANK_BITS) - 1;
}
