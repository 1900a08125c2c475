/* SPDX-License-Identifier: BSD-3-Clause */
#include "tuned.h"

#include <stdlib.h>
#include <string.h>

#include "transport/transport.h"

static void join(struct tt_cluster *cluster, enum tt_link_kind kind, const char *name)
{
  const struct tt_transport_ops *const *ops = tt_transports;
  while (*ops && strcmp((*ops)->name, name) != 0) ops++;
  if (!*ops) abort();
  tt_cluster_join(cluster, kind, name, (*ops)->block_bytes);
}

void tuned_join(struct tt_cluster *cluster, enum tt_link_kind kind, const char *transport)
{
  join(cluster, TT_LINK_SELF, tt_transports[0]->name);
  if (transport) join(cluster, kind, transport);
}

void tuned_make(struct tuned *tuned, int nranks, int nnodes, const char *transport)
{
  uint64_t *host = calloc((size_t)nranks, sizeof *host);
  struct tt_locality *here = calloc((size_t)nranks, sizeof *here);
  if (!host || !here) abort();
  for (int r = 0; r < nranks; r++) host[r] = (uint64_t)((int64_t)r * nnodes / nranks) + 1;
  memset(tuned, 0, sizeof *tuned);
  if (tt_topology_make(&tuned->topology, nranks, host, here) != tuttiSuccess) abort();
  if (tt_topology_arrange(&tuned->arrangement, &tuned->topology, 0) != tuttiSuccess) abort();
  free(host);
  free(here);
  tuned->cluster = (struct tt_cluster){.nranks = nranks, .cores = nranks, .topology = &tuned->topology};
  tuned_join(&tuned->cluster, TT_LINK_CACHE, nnodes < nranks ? transport : NULL);
  tuned_join(&tuned->cluster, TT_LINK_NET, nnodes > 1 ? "tcp" : NULL);
  tt_prices_make(&tuned->prices, NULL, &tuned->cluster);
  tuned->tuning = (struct tt_tuning){.nranks = nranks,
                                     .groups = &tuned->arrangement.groups,
                                     .order = tuned->arrangement.order,
                                     .cluster = &tuned->cluster,
                                     .prices = &tuned->prices};
}

void tuned_destroy(struct tuned *tuned)
{
  tt_arrangement_destroy(&tuned->arrangement);
  tt_topology_destroy(&tuned->topology);
}
