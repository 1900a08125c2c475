/* SPDX-License-Identifier: BSD-3-Clause */
/* The places of ranks, the transports that join them and their prices, for a machine that need not be at hand. */
#include "explain/hypothetical.h"

#include <string.h>

#include "net/net.h"
#include "transport/transport.h"
#include "tuner/cache.h"

#define NAMES_BYTES 160
#define TRANSPORTS_MOST 16

/* 0: there is none of that name. NULL: malloc's. */
static int memory_find(const char *name, int *memory)
{
  *memory = TT_MEMORY_MALLOC;
  while (name && *memory < TT_MEMORIES && strcmp(name, tt_memory_names[*memory]) != 0) ++*memory;
  return *memory < TT_MEMORIES;
}

static tuttiResult_t request_check(const struct tt_explain_request *request)
{
  if (request->nranks < 0 || request->nranks > TT_TOPOLOGY_MAX_RANKS || (!request->nranks && !request->topology))
    return tt_fail(tuttiInvalidArgument, "the number of ranks is %d: give 1 to %d, or a topology", request->nranks,
                   TT_TOPOLOGY_MAX_RANKS);
  if (request->nnodes < 0 || (request->nranks && request->nnodes > request->nranks))
    return tt_fail(tuttiInvalidArgument, "the number of nodes is %d: give 1 to as many as there are ranks, %d",
                   request->nnodes, request->nranks);
  if (request->nnodes && request->topology)
    return tt_fail(tuttiInvalidArgument, "both a number of nodes, %d, and a topology are given: leave one out",
                   request->nnodes);
  if (request->cores < 0 || request->cores > TT_TOPOLOGY_MAX_RANKS)
    return tt_fail(tuttiInvalidArgument, "the number of cores is %d: give 0 to %d", request->cores,
                   TT_TOPOLOGY_MAX_RANKS);
  int memory;
  if (!memory_find(request->memory, &memory))
    return tt_fail(tuttiInvalidArgument, "the kind of memory is \"%.40s\": give malloc or tutti", request->memory);
  return tuttiSuccess;
}

/* Names of interfaces of which a profile has links, ", " between them, cut at size; 1: `name` is one of them. */
static int measured_list(const struct tt_profile *profile, const char *name, char *names, size_t size)
{
  size_t used = 0;
  int is_there = 0;
  names[0] = 0;
  for (int32_t i = 0; i < profile->nlinks; i++) {
    const char *one = profile->links[i].flow.interface;
    int is_told = !one[0];
    for (int32_t k = 0; k < i; k++) is_told |= strcmp(profile->links[k].flow.interface, one) == 0;
    is_there |= one[0] && strcmp(one, name) == 0;
    if (!is_told && used < size)
      used += (size_t)snprintf(names + used, size - used, "%s%s", used ? ", " : "", one);
  }
  return is_there;
}

/* One that was measured elsewhere, or that is here; of any other nothing is known. */
static tuttiResult_t interface_check(const struct tt_profile *profile, const char *name)
{
  char measured[NAMES_BYTES], here[NAMES_BYTES];
  if (!name || measured_list(profile, name, measured, sizeof measured)) return tuttiSuccess;
  if (tt_interface_there(name, here, sizeof here)) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "there is no interface \"%.40s\": this host has %s; the profile has links over "
                 "%s: name one of these, or none", name, here[0] ? here : "none",
                 measured[0] ? measured : "no interface by name");
}

/* In blocks over nodes; on each, ranks are as near each other as those on this machine that are not bound. */
static tuttiResult_t topology_invent(struct tt_topology *topology, int nranks, int nnodes)
{
  struct tt_locality here;
  tuttiResult_t code = tt_topo_here(&here);
  if (code) return code;
  uint64_t *host = tt_alloc((size_t)nranks, sizeof *host);
  struct tt_locality *localities = tt_alloc((size_t)nranks, sizeof *localities);
  code = tuttiSystemError;
  for (int r = 0; host && localities && r < nranks; r++) {
    host[r] = (uint64_t)((int64_t)r * nnodes / nranks) + 1;
    localities[r] = here;
  }
  if (host && localities) code = tt_topology_make(topology, nranks, host, localities);
  else tt_fail(code, "no memory for the topology of %d ranks", nranks);
  tt_free(host);
  tt_free(localities);
  return code;
}

/* Between nodes; "" if this host has none. */
static const char *interface_of(struct tt_hypothetical *place, const struct tt_explain_request *request)
{
  struct tt_address address;
  if (request->interface) return request->interface;
  if (tt_interface_choose(&place->settings, &address, place->interface) != tuttiSuccess) return "";
  return place->interface;
}

/* The transports that join ranks of one node, and of two. */
struct joins {
  const struct tt_transport_ops *inside, *between;
};

/* Takes the first of the list for each of the two that is not there yet; settings NULL: all can be used. */
static tuttiResult_t joins_find(struct joins *joins, const char *list, const struct tt_settings *settings)
{
  const struct tt_transport_ops *chosen[TRANSPORTS_MOST];
  char why[TT_SENTENCE_BYTES];
  int n;
  tuttiResult_t result = tt_transports_choose(chosen, &n, TRANSPORTS_MOST, list);
  for (int t = 1; result == tuttiSuccess && t < n; t++) {
    if (settings && chosen[t]->unusable(settings, why, sizeof why)) continue;
    if (!joins->inside) joins->inside = chosen[t];
    if (!joins->between && !chosen[t]->is_same_host) joins->between = chosen[t];
  }
  return result;
}

/* The requested transports need not be on this host; after them come those that a job started here would take. */
static tuttiResult_t joins_make(struct joins *joins, const struct tt_hypothetical *place,
                                const struct tt_explain_request *request)
{
  const char *list = place->settings.transports;
  tuttiResult_t result = request->transports ? joins_find(joins, request->transports, NULL) : tuttiSuccess;
  if (result == tuttiSuccess) result = joins_find(joins, list, &place->settings);
  if (result != tuttiSuccess) return result;
  const struct tt_topology *topology = &place->topology;
  const char *lacks = topology->nnodes < topology->nranks && !joins->inside ? "ranks of one node"
                      : topology->nnodes > 1 && !joins->between              ? "nodes"
                                                                             : NULL;
  if (!lacks) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "no transport of \"%s\" (TUTTI_TRANSPORTS) that this host can use joins %s: "
                 "name one that does", list, lacks);
}

static void cluster_fill(struct tt_hypothetical *place, const struct tt_explain_request *request,
                         const struct joins *joins)
{
  const struct tt_topology *topology = &place->topology;
  place->cluster = (struct tt_cluster){.nranks = topology->nranks, .cores = request->cores, .topology = topology};
  tt_cluster_join(&place->cluster, TT_LINK_SELF, tt_transports[0]->name, tt_transports[0]->block_bytes);
  int32_t run = 0, most = 0;
  for (int32_t p = 0; p < topology->nranks; p++) {
    int32_t rank = place->arrangement.order[p], before = p ? place->arrangement.order[p - 1] : rank;
    enum tt_link_kind kind = tt_topology_kind(topology, before, rank);
    const struct tt_transport_ops *ops = kind == TT_LINK_NET ? joins->between : joins->inside;
    if (p) tt_cluster_join(&place->cluster, kind, ops->name, ops->block_bytes);
    run = kind == TT_LINK_NET ? 1 : run + 1;
    if (run > most) most = run;
  }
  if (place->cluster.transport[TT_LINK_NET] && joins->between->uses_interface)
    place->cluster.interface = interface_of(place, request);
  int here = tt_host_cores();
  if (!place->cluster.cores) place->cluster.cores = topology->nnodes == 1 && here < most ? here : most;
}

/* As a job would have them that starts here. */
static void prices_make(struct tt_hypothetical *place, const struct tt_profile *profile)
{
  struct tt_cache cache = {.n = 0};
  tt_prices_make(&place->prices, profile, &place->cluster);
  if (!profile) tt_cache_load(&cache, &place->settings);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    const char *transport = place->cluster.transport[kind], *date = "";
    if (!transport) continue;
    tt_prices_correct(&place->prices, (enum tt_link_kind)kind,
                      tt_cache_get(&cache, (enum tt_link_kind)kind, transport, &date));
    snprintf(place->prices.origin[kind].date, sizeof place->prices.origin[kind].date, "%s", date);
  }
}

/* Links between nodes as the request says they are replace what was measured of others; the time for which a message
 * keeps its ends busy is the transport's, and stays. */
static void link_take(struct tt_hypothetical *place, const struct tt_explain_request *request)
{
  struct tt_origin *origin = &place->prices.origin[TT_LINK_NET];
  if (!(request->link_gbits > 0) || !place->cluster.transport[TT_LINK_NET]) return;
  struct tt_curve *curve = &place->prices.links.link[TT_LINK_NET];
  double overhead_us = curve->overhead_us < request->link_us ? curve->overhead_us : request->link_us;
  *curve = tt_curve_link(request->link_gbits, request->link_us);
  curve->overhead_us = overhead_us;
  *origin = (struct tt_origin){.flow = origin->flow, .is_said = 1};
}

static tuttiResult_t tuning_make(struct tt_hypothetical *place, const struct tt_explain_request *request)
{
  struct tt_settings *settings = &place->settings;
  const char *topology = request->topology ? request->topology : request->nnodes ? "" : settings->topology;
  const char *profile = request->profile ? request->profile : settings->profile;
  settings->deterministic = settings->deterministic ? settings->deterministic == 2 : request->deterministic != 0;
  tuttiResult_t code = topology[0] ? tt_topology_load(&place->topology, topology, request->nranks)
                                   : topology_invent(&place->topology, request->nranks,
                                                     request->nnodes ? request->nnodes : 1);
  if (!code) code = tt_topology_arrange(&place->arrangement, &place->topology, settings->group_size);
  if (!code && profile[0]) code = tt_profile_load(&place->profile, profile);
  if (!code) code = interface_check(&place->profile, request->interface);
  if (code) return code;
  struct joins joins = {NULL, NULL};
  code = joins_make(&joins, place, request);
  if (code) return code;
  cluster_fill(place, request, &joins);
  prices_make(place, profile[0] ? &place->profile : NULL);
  link_take(place, request);
  int memory;
  memory_find(request->memory, &memory);
  place->tuning = (struct tt_tuning){.nranks = place->topology.nranks,
                                     .groups = &place->arrangement.groups,
                                     .order = settings->deterministic ? NULL : place->arrangement.order,
                                     .cluster = &place->cluster,
                                     .prices = &place->prices,
                                     .lanes = (int32_t)settings->lanes,
                                     .deterministic = (int)settings->deterministic,
                                     .memory = (enum tt_memory)memory};
  return tuttiSuccess;
}

tuttiResult_t tt_hypothetical_make(struct tt_hypothetical **place, const struct tt_explain_request *request)
{
  tuttiResult_t result = request_check(request);
  if (result != tuttiSuccess) return result;
  struct tt_hypothetical *made = tt_alloc(1, sizeof *made);
  if (!made) return tt_fail(tuttiSystemError, "no memory for the prices of a machine: give the process more");
  result = tt_settings_load(&made->settings);
  if (result == tuttiSuccess) result = tuning_make(made, request);
  if (result == tuttiSuccess) *place = made;
  else tt_hypothetical_destroy(made);
  return result;
}

void tt_hypothetical_destroy(struct tt_hypothetical *place)
{
  if (!place) return;
  tt_profile_destroy(&place->profile);
  tt_arrangement_destroy(&place->arrangement);
  tt_topology_destroy(&place->topology);
  tt_free(place);
}
