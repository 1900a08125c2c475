/* SPDX-License-Identifier: BSD-3-Clause */
/* Rank 0's part of a creation: from where the ranks are to what messages cost, and the table made from that. */
#include <stdio.h>
#include <string.h>

#include "comm/creation.h"

/* What joins ranks of each kind: as rank 0 reaches them; where it is near none of the kind, what the ranks of a node
 * would take first. */
static void transports_find(const struct tuttiComm *comm, const char *transport[TT_LINK_KINDS])
{
  const struct tt_topology *topology = &comm->topology;
  int is_there[TT_LINK_KINDS] = {0};
  const char *inside = comm->ntransports > 1 ? comm->transports[1]->ops->name : NULL; /* behind self: as preferred */
  const char *between = comm->ntransports > 1 ? comm->transports[comm->ntransports - 1]->ops->name : NULL;
  for (int p = 0; p < comm->nranks; p++) {
    enum tt_link_kind kind = tt_topology_kind(topology, comm->rank, p);
    if (p != comm->rank && !transport[kind]) transport[kind] = tt_exec_route(comm->exec, p)->ops->name;
    if (p) is_there[tt_topology_kind(topology, comm->arrangement.order[p - 1], comm->arrangement.order[p])] = 1;
  }
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++)
    if (is_there[kind] && !transport[kind]) transport[kind] = kind == TT_LINK_NET ? between : inside;
}

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
  struct tt_world world = {.nranks = comm->nranks, .cores = comm->creation->cores, .topology = &comm->topology};
  transports_find(comm, world.transport);
  tt_prices_make(&prices, profile, &world);
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
    result = tt_explainer_create(&comm->explainer, &world, &prices, profile);
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
