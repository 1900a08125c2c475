/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>

#include "exec/private.h"

/* The first transport from number `t` on that leads to `peer`; the number of all if none does. */
static int route_from(const struct tt_exec *exec, int t, int peer)
{
  while (t < exec->ntransports && !exec->transports[t]->ops->reaches(exec->transports[t], peer)) t++;
  return t;
}

static tuttiResult_t route_find(struct tt_exec *exec, int peer)
{
  exec->routes[peer] = route_from(exec, 0, peer);
  if (exec->routes[peer] < exec->ntransports) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage,
                 "no allowed transport leads from rank %d to rank %d: allow more in TUTTI_TRANSPORTS, "
                 "`tutti info` says which are usable",
                 exec->rank, peer);
}

tuttiResult_t tt_exec_create(struct tt_exec **out, const struct tt_exec_spec *spec)
{
  struct tt_exec *exec = tt_alloc(1, sizeof *exec);
  if (!exec) return tt_fail(tuttiSystemError, "out of memory for the executor");
  exec->nranks = spec->nranks;
  exec->rank = spec->rank;
  exec->lanes = spec->lanes;
  exec->piece_bytes = spec->piece_bytes;
  exec->watch = spec->watch;
  exec->failed = tt_watch_failed(spec->watch);
  exec->transports = spec->transports;
  exec->ntransports = spec->ntransports;
  exec->routes = tt_alloc((size_t)spec->nranks, sizeof *exec->routes);
  exec->open = tt_alloc((size_t)spec->nranks * (size_t)(spec->lanes + 1), sizeof *exec->open);
  tuttiResult_t result = tuttiSuccess;
  if (!exec->routes || !exec->open)
    result = tt_fail(tuttiSystemError, "out of memory for the routes to %d ranks", spec->nranks);
  for (int peer = 0; result == tuttiSuccess && peer < spec->nranks; peer++) result = route_find(exec, peer);
  if (result != tuttiSuccess) {
    tt_exec_destroy(exec);
    return result;
  }
  *out = exec;
  return tuttiSuccess;
}

void tt_exec_destroy(struct tt_exec *exec)
{
  if (!exec) return;
  tt_free(exec->routes);
  tt_free(exec->open);
  tt_free(exec);
}

const struct tt_transport *tt_exec_route(const struct tt_exec *exec, int peer)
{
  return exec->transports[exec->routes[peer]];
}

tuttiResult_t tt_exec_link(struct tt_exec *exec, int peer, int lane, struct tt_link **link)
{
  struct tt_link **known = &exec->open[(size_t)lane * (size_t)exec->nranks + (size_t)peer];
  for (int t = exec->routes[peer]; !*known && t < exec->ntransports; t = route_from(exec, t + 1, peer)) {
    tuttiResult_t result = exec->transports[t]->ops->open(exec->transports[t], peer, lane, known);
    if (result == tuttiSuccess) continue;
    *known = NULL;
    return result;
  }
  if (!*known)
    return tt_fail(tuttiSystemError, "%s; and no other of TUTTI_TRANSPORTS leads to rank %d: allow tcp there",
                   tt_last_sentence(), peer);
  *link = *known;
  return tuttiSuccess;
}

/* Opening the same link again has no sentence. */
tuttiResult_t tt_exec_refused(struct tt_exec *exec, tuttiResult_t code, int peer, uint64_t op)
{
  if (code != tuttiRemoteError) return tt_watch_fail_here(exec->watch, code, peer, op);
  if (!exec->refusal[0]) {
    snprintf(exec->refusal, sizeof exec->refusal, "%s", tt_last_sentence());
    exec->refuser = peer;
  }
  return tt_watch_refused(exec->watch, exec->refuser, op, exec->refusal);
}

tuttiResult_t tt_exec_prepare(struct tt_exec *exec, int peer, int lane)
{
  struct tt_transport *transport = exec->transports[exec->routes[peer]];
  if (exec->open[(size_t)lane * (size_t)exec->nranks + (size_t)peer] || !transport->ops->prepare) return tuttiSuccess;
  return transport->ops->prepare(transport, peer, lane);
}
