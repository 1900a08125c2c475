/* SPDX-License-Identifier: BSD-3-Clause */
/* Why an algorithm would be chosen on a machine that need not be at hand. */
#include "tuner/cache.h"
#include "tuner/explain.h"

#include <string.h>

#include "api/check.h"
#include "net/net.h"
#include "tuner/wish.h"
#include "tutti_tools.h"

struct asked {
  struct tt_settings settings;
  struct tt_topology topology;
  struct tt_arrangement arrangement;
  struct tt_profile profile;
  struct tt_world world;
  struct tt_prices prices;
  struct tt_tuning tuning;
  char interface[16];
  int collective;
};

static tuttiResult_t request_check(const tuttiExplainRequest_t *request)
{
  const char *transport = request->transport;
  if (!request->collective) return tt_null("collective");
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
  if (transport && strcmp(transport, "shm") != 0 && strcmp(transport, "tcp") != 0)
    return tt_fail(tuttiInvalidArgument, "the transport is \"%.40s\": give shm or tcp", transport);
  return tuttiSuccess;
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
static const char *interface_of(struct asked *asked, const tuttiExplainRequest_t *request)
{
  struct tt_address address;
  if (request->interface) return request->interface;
  if (tt_interface_choose(&asked->settings, &address, asked->interface) != tuttiSuccess) return "";
  return asked->interface;
}

/* What joins which ranks: the transport inside nodes, tcp between them. */
static void world_fill(struct asked *asked, const tuttiExplainRequest_t *request)
{
  const struct tt_topology *topology = &asked->topology;
  const char *inside = request->transport && strcmp(request->transport, "tcp") == 0 ? "tcp" : "shm";
  asked->world = (struct tt_world){.nranks = topology->nranks, .cores = request->cores, .topology = topology};
  int32_t run = 0, most = 0;
  for (int32_t p = 0; p < topology->nranks; p++) {
    int32_t rank = asked->arrangement.order[p], before = p ? asked->arrangement.order[p - 1] : rank;
    enum tt_link_kind kind = tt_topology_kind(topology, before, rank);
    if (p) asked->world.transport[kind] = kind == TT_LINK_NET ? "tcp" : inside;
    run = kind == TT_LINK_NET ? 1 : run + 1;
    if (run > most) most = run;
  }
  if (asked->world.transport[TT_LINK_NET]) asked->world.interface = interface_of(asked, request);
  int here = tt_host_cores();
  if (!asked->world.cores) asked->world.cores = topology->nnodes == 1 && here < most ? here : most;
}

/* As a job would have them that starts here. */
static void prices_make(struct asked *asked, const struct tt_profile *profile)
{
  struct tt_cache cache = {.n = 0};
  tt_prices_make(&asked->prices, profile, &asked->world);
  if (!profile) tt_cache_load(&cache, &asked->settings);
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    const char *transport = asked->world.transport[kind];
    if (transport)
      tt_prices_correct(&asked->prices, (enum tt_link_kind)kind,
                        tt_cache_get(&cache, (enum tt_link_kind)kind, transport));
  }
}

static tuttiResult_t tuning_make(struct asked *asked, const tuttiExplainRequest_t *request)
{
  struct tt_settings *settings = &asked->settings;
  const char *topology = request->topology ? request->topology : request->nnodes ? "" : settings->topology;
  const char *profile = request->profile ? request->profile : settings->profile;
  settings->deterministic = settings->deterministic ? settings->deterministic == 2 : request->deterministic != 0;
  tuttiResult_t code = topology[0] ? tt_topology_load(&asked->topology, topology, request->nranks)
                                   : topology_invent(&asked->topology, request->nranks,
                                                     request->nnodes ? request->nnodes : 1);
  if (!code) code = tt_topology_arrange(&asked->arrangement, &asked->topology, settings->group_size);
  if (!code && profile[0]) code = tt_profile_load(&asked->profile, profile);
  if (code) return code;
  world_fill(asked, request);
  prices_make(asked, profile[0] ? &asked->profile : NULL);
  asked->tuning = (struct tt_tuning){.nranks = asked->topology.nranks,
                                     .groups = &asked->arrangement.groups,
                                     .order = settings->deterministic ? NULL : asked->arrangement.order,
                                     .world = &asked->world,
                                     .prices = &asked->prices,
                                     .lanes = (int32_t)settings->lanes};
  return tuttiSuccess;
}

static tuttiResult_t asked_make(struct asked *asked, const tuttiExplainRequest_t *request)
{
  asked->collective = tt_wish_collective(request->collective);
  if (asked->collective == TT_NO_COLLECTIVE)
    return tt_fail(tuttiInvalidArgument, "there is no collective \"%.40s\": take one of all_reduce, reduce, broadcast, "
                   "reduce_scatter, all_gather, all_to_all, gather, scatter", request->collective);
  tuttiResult_t code = tt_settings_load(&asked->settings);
  return code ? code : tuning_make(asked, request);
}

tuttiResult_t tuttiExplain(const tuttiExplainRequest_t *request, FILE *out)
{
  if (!request) return tt_null("request");
  if (!out) return tt_null("out");
  tuttiResult_t code = request_check(request);
  if (code) return code;
  struct asked *asked = tt_alloc(1, sizeof *asked);
  if (!asked) return tt_fail(tuttiSystemError, "no memory to explain a choice: give the process more");
  code = asked_make(asked, request);
  if (!code) code = tt_explain_print(out, asked->collective, request->bytes, &asked->settings, &asked->tuning);
  tt_profile_destroy(&asked->profile);
  tt_arrangement_destroy(&asked->arrangement);
  tt_topology_destroy(&asked->topology);
  tt_free(asked);
  return code;
}
