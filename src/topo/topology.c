/* SPDX-License-Identifier: BSD-3-Clause */
#include <string.h>

#include "topo/number_private.h"

static void by_location(struct tt_topology *made, const struct tt_location *locations, struct tt_place_key *keys)
{
  int32_t n = made->nranks, nkeys = 0;
  for (int32_t r = 0; r < n; r++) keys[r] = (struct tt_place_key){0, locations[r].node, r};
  made->nnodes = tt_places_number(keys, n, n, made->node);
  for (int32_t r = 0; r < n; r++)
    if (locations[r].numa) keys[nkeys++] = (struct tt_place_key){(uint64_t)made->node[r], locations[r].numa, r};
  made->nnumas = tt_places_number(keys, nkeys, n, made->numa);
  nkeys = 0;
  for (int32_t r = 0; r < n; r++) {
    /* An unknown NUMA node counts as one more on its node. */
    uint64_t outer = (uint64_t)made->node[r] << 32 | (uint32_t)(made->numa[r] + 1);
    if (locations[r].cache) keys[nkeys++] = (struct tt_place_key){outer, locations[r].cache, r};
  }
  made->ncaches = tt_places_number(keys, nkeys, n, made->cache);
}

tuttiResult_t tt_topology_number(struct tt_topology *topology, int32_t nranks, const struct tt_location *locations)
{
  size_t n = (size_t)nranks;
  struct tt_topology made = {.nranks = nranks, .prices = tt_link_prices_default};
  struct tt_place_key *keys = tt_alloc(n, sizeof *keys);
  made.node = tt_alloc(n, sizeof *made.node);
  made.numa = tt_alloc(n, sizeof *made.numa);
  made.cache = tt_alloc(n, sizeof *made.cache);
  if (!keys || !made.node || !made.numa || !made.cache) {
    tt_free(keys);
    tt_topology_destroy(&made);
    return tt_fail(tuttiSystemError, "no memory for the topology of %d ranks: give the process more", (int)nranks);
  }
  by_location(&made, locations, keys);
  tt_free(keys);
  *topology = made;
  return tuttiSuccess;
}

tuttiResult_t tt_topology_make(struct tt_topology *topology, int32_t nranks, const uint64_t *host,
                               const struct tt_locality *locality)
{
  if (nranks < 1 || nranks > TT_TOPOLOGY_MAX_RANKS)
    return tt_fail(tuttiInvalidArgument, "a topology of %d ranks: 1 to %d are possible", (int)nranks,
                   TT_TOPOLOGY_MAX_RANKS);
  struct tt_location *locations = tt_alloc((size_t)nranks, sizeof *locations);
  if (!locations)
    return tt_fail(tuttiSystemError, "no memory for the topology of %d ranks: give the process more", (int)nranks);
  for (int32_t r = 0; r < nranks; r++) {
    locations[r].node = host[r];
    locations[r].numa = locality[r].numa < 0 ? 0 : (uint64_t)locality[r].numa + 1;
    locations[r].cache = locality[r].cache < 0 ? 0 : (uint64_t)locality[r].cache + 1;
  }
  tuttiResult_t result = tt_topology_number(topology, nranks, locations);
  tt_free(locations);
  return result;
}

void tt_topology_destroy(struct tt_topology *topology)
{
  if (!topology) return;
  tt_free(topology->node);
  tt_free(topology->numa);
  tt_free(topology->cache);
  memset(topology, 0, sizeof *topology);
}

enum tt_link_kind tt_topology_kind(const struct tt_topology *topology, int32_t a, int32_t b)
{
  if (a == b) return TT_LINK_SELF;
  if (topology->node[a] != topology->node[b]) return TT_LINK_NET;
  if (topology->cache[a] >= 0 && topology->cache[a] == topology->cache[b]) return TT_LINK_CACHE;
  if (topology->numa[a] >= 0 && topology->numa[a] == topology->numa[b]) return TT_LINK_NUMA;
  return TT_LINK_NODE;
}
