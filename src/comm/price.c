/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's part of a creation: from where the ranks are to what messages cost, and the table made from that. */
#include <stdio.h>

#include "comm/private.h"

static void origins_log(const struct tt_prices *prices, const struct tt_cluster *cluster)
{
  char text[256];
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    if (!cluster->transport[kind]) continue;
    const struct tt_curve_part *part = prices->links.link[kind].part;
    tt_origin_text(&prices->origin[kind], text, sizeof text);
    tt_log(TT_LOG_INFO, "prices of %s: %.3g us and %.4g us a MiB for short messages; %s", tt_link_names[kind],
           part->alpha_us, part->beta_us_per_mib, text);
  }
  tt_origin_text(&prices->gamma_origin, text, sizeof text);
  tt_log(TT_LOG_INFO, "price of combining: %.4g us a MiB; %s", prices->links.gamma_us_per_mib, text);
}

static void cluster_find(struct tuttiComm *comm)
{
  comm->cluster = (struct tt_cluster){.nranks = comm->nranks,
                                    .cores = comm->creation->cores,
                                    .topology = &comm->topology,
                                    .interface = comm->interface};
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    const struct pair *pair = &comm->creation->pairs[kind];
    if (pair->ranks[0] != pair->ranks[1]) comm->cluster.transport[kind] = comm->creation->wanted[pair->transport]->name;
  }
}

tuttiResult_t tt_pricing_make(struct tt_pricing *pricing, const struct tuttiComm *comm)
{
  const char *path = comm->settings.profile;
  pricing->profile = (struct tt_profile){.nlinks = 0};
  tuttiResult_t result = path[0] ? tt_profile_load(&pricing->profile, path) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  tt_prices_make(&pricing->prices, path[0] ? &pricing->profile : NULL, &comm->cluster);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++)
    if (comm->corrected[kind].transport)
      tt_prices_correct(&pricing->prices, (enum tt_link_kind)kind, comm->corrected[kind].by);
  pricing->tuning = (struct tt_tuning){.nranks = comm->nranks,
                                       .groups = &comm->arrangement.groups,
                                       .order = comm->settings.deterministic ? NULL : comm->arrangement.order,
                                       .cluster = &comm->cluster,
                                       .prices = &pricing->prices,
                                       .lanes = (int32_t)comm->settings.lanes};
  return tuttiSuccess;
}

void tt_pricing_destroy(struct tt_pricing *pricing)
{
  tt_profile_destroy(&pricing->profile);
}

static tuttiResult_t table_make(struct tuttiComm *comm, struct tt_pricing *pricing, struct tt_table *table)
{
  uint64_t began_ns = tt_now_ns();
  tuttiResult_t result = tt_table_make(table, &comm->settings, &pricing->tuning);
  if (result == tuttiSuccess && tt_log_wants(TT_LOG_INFO)) {
    origins_log(&pricing->prices, &comm->cluster);
    tt_log(TT_LOG_INFO, "the table of algorithms took %.1f ms", (double)(tt_now_ns() - began_ns) / 1e6);
  }
  if (result == tuttiSuccess && comm->settings.explain)
    result = tt_explainer_create(&comm->explainer, &comm->cluster, &pricing->prices, &pricing->profile,
                                 comm->settings.table);
  if (comm->explainer) comm->is_observed = 1;
  return result;
}

tuttiResult_t tt_creation_price(struct tuttiComm *comm, struct tt_table *table)
{
  struct tt_pricing *pricing = tt_alloc(1, sizeof *pricing);
  if (!pricing) return tt_fail(tuttiSystemError, "out of memory for prices");
  cluster_find(comm);
  tuttiResult_t result = tt_pricing_make(pricing, comm);
  if (result == tuttiSuccess) result = table_make(comm, pricing, table);
  tt_pricing_destroy(pricing);
  tt_free(pricing);
  return result;
}
