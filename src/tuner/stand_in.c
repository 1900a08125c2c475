/* SPDX-License-Identifier: BSD-3-Clause */
/* Clusters that stand for another one: some of its ranks, or as many as a measurement had. */
#include <string.h>

#include "tuner/private.h"

struct places { /* of the ranks, as tt_topology_make has them */
  int32_t n;
  uint64_t *host;
  struct tt_locality *locality;
};

static tuttiResult_t stand_in_make(struct tt_stand_in *s, const struct tt_tuning *tuning, const struct places *places)
{
  memset(s, 0, sizeof *s);
  s->cluster = *tuning->cluster;
  s->cluster.nranks = places->n;
  s->cluster.topology = &s->topology;
  s->tuning = *tuning;
  s->tuning.nranks = places->n;
  s->tuning.cluster = &s->cluster;
  tuttiResult_t result = tt_topology_make(&s->topology, places->n, places->host, places->locality);
  if (result == tuttiSuccess) result = tt_topology_arrange(&s->arrangement, &s->topology, 0);
  s->tuning.groups = &s->arrangement.groups;
  s->tuning.order = s->arrangement.order;
  return result;
}

void tt_stand_in_destroy(struct tt_stand_in *stand_in)
{
  tt_arrangement_destroy(&stand_in->arrangement);
  tt_topology_destroy(&stand_in->topology);
  stand_in->tuning.nranks = 0;
}

static tuttiResult_t places_alloc(struct places *places, int32_t nranks)
{
  *places = (struct places){.host = tt_alloc((size_t)nranks, sizeof *places->host),
                            .locality = tt_alloc((size_t)nranks, sizeof *places->locality)};
  if (places->host && places->locality) return tuttiSuccess;
  return tt_fail(tuttiSystemError, "no memory for the prices of %d ranks: give the process more", (int)nranks);
}

static void places_free(struct places *places)
{
  tt_free(places->host);
  tt_free(places->locality);
}

tuttiResult_t tt_stand_in_some(struct tt_stand_in *s, const struct tt_tuning *tuning, int32_t nnodes, int32_t every)
{
  const struct tt_topology *topology = tuning->cluster->topology;
  int32_t *seen = tt_alloc((size_t)topology->nnodes, sizeof *seen);
  struct places places;
  tuttiResult_t result = places_alloc(&places, topology->nranks);
  memset(s, 0, sizeof *s);
  if (result == tuttiSuccess && !seen)
    result = tt_fail(tuttiSystemError, "no memory for the prices of %d nodes: give the process more",
                     (int)topology->nnodes);
  for (int32_t r = 0; r < topology->nranks && result == tuttiSuccess; r++) {
    int32_t node = topology->node[r];
    if (node >= nnodes || seen[node]++ % every) continue;
    places.host[places.n] = (uint64_t)node;
    places.locality[places.n++] = (struct tt_locality){topology->numa[r], topology->cache[r]};
  }
  if (result == tuttiSuccess) result = stand_in_make(s, tuning, &places);
  places_free(&places);
  tt_free(seen);
  return result;
}

tuttiResult_t tt_stand_in_blocks(struct tt_stand_in *s, const struct tt_tuning *tuning, int32_t nranks, int32_t nnodes)
{
  const char *const *transport = tuning->cluster->transport;
  struct tt_locality near = {transport[TT_LINK_CACHE] || transport[TT_LINK_NUMA] ? 0 : -1,
                             transport[TT_LINK_CACHE] ? 0 : -1};
  struct places places;
  tuttiResult_t result = places_alloc(&places, nranks);
  memset(s, 0, sizeof *s);
  for (int32_t r = 0; r < nranks && result == tuttiSuccess; r++, places.n++) {
    places.host[r] = (uint64_t)((int64_t)r * nnodes / nranks);
    places.locality[r] = near;
  }
  if (result == tuttiSuccess) result = stand_in_make(s, tuning, &places);
  places_free(&places);
  return result;
}
