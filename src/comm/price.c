/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's part of a creation: from where the ranks are to what messages cost, and the table made from that. */
#include <stdio.h>

#include "comm/creation.h"

static void origins_log(const struct tt_prices *prices, const struct tt_world *world)
{
  char text[256];
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    if (!world->transport[kind]) continue;
    const struct tt_curve_part *part = prices->links.link[kind].part;
    tt_origin_text(&prices->origin[kind], text, sizeof text);
    tt_log(TT_LOG_INFO, "prices of %s: %.3g us and %.4g us a MiB for short messages; %s", tt_link_names[kind],
           part->alpha_us, part->beta_us_per_mib, text);
  }
  tt_origin_text(&prices->gamma_origin, text, sizeof text);
  tt_log(TT_LOG_INFO, "price of combining: %.4g us a MiB; %s", prices->links.gamma_us_per_mib, text);
}

static tuttiResult_t table_make(struct tuttiComm *comm, struct tt_profile *profile, struct tt_table *table)
{
  uint64_t began_ns = tt_now_ns();
  struct tt_prices prices;
  struct tt_world world = {.nranks = comm->nranks,
                           .cores = comm->creation->cores,
                           .topology = &comm->topology,
                           .interface = comm->interface};
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    const struct pair *pair = &comm->creation->pairs[kind];
    if (pair->ranks[0] != pair->ranks[1]) world.transport[kind] = comm->creation->wanted[pair->transport]->name;
  }
  tt_prices_make(&prices, profile, &world);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++)
    if (comm->corrected[kind].transport) tt_prices_correct(&prices, (enum tt_link_kind)kind, comm->corrected[kind].by);
  const struct tt_tuning tuning = {.nranks = comm->nranks,
                                   .groups = &comm->arrangement.groups,
                                   .order = comm->settings.deterministic ? NULL : comm->arrangement.order,
                                   .world = &world,
                                   .prices = &prices,
                                   .lanes = (int32_t)comm->settings.lanes};
  tuttiResult_t result = tt_table_make(table, &comm->settings, &tuning);
  if (result == tuttiSuccess && tt_log_wants(TT_LOG_INFO)) {
    origins_log(&prices, &world);
    tt_log(TT_LOG_INFO, "the table of algorithms took %.1f ms", (double)(tt_now_ns() - began_ns) / 1e6);
  }
  if (result == tuttiSuccess && comm->settings.explain)
    result = tt_explainer_create(&comm->explainer, &world, &prices, profile, comm->settings.table);
  return result;
}

tuttiResult_t tt_creation_price(struct tuttiComm *comm, struct tt_table *table)
{
  struct tt_profile profile = {.nlinks = 0};
  const char *path = comm->settings.profile;
  tuttiResult_t result = path[0] ? tt_profile_load(&profile, path) : tuttiSuccess;
  if (result != tuttiSuccess) return result;
  result = table_make(comm, path[0] ? &profile : NULL, table);
  tt_profile_destroy(&profile);
  return result;
}
