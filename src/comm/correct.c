/* SPDX-License-Identifier: BSD-3-Clause */
/* Corrections of link prices if no profile is given: those of one pair of each kind are known from the cache of its
 * first rank, or measured (pair.c), told to all ranks, and kept. */
#include "comm/creation_private.h"
#include "tuner/cache.h"

/* ---- round 2 ---- */

void tt_correct_say(struct tuttiComm *comm, struct rank_info *info)
{
  const struct tt_settings *settings = &comm->facts.settings;
  struct tt_cache cache;
  tt_cache_load(&cache, settings);
  info->corrects = tt_cache_wanted(settings) && !settings->profile[0];
  info->may_measure = !comm->facts.oversubscribed && !settings->fault[0] && !settings->trace[0];
  for (int t = 0; t < comm->life.creation->nwanted; t++)
    for (int kind = 0; kind < TT_LINK_KINDS; kind++)
      info->transports[t].known[kind] =
          tt_cache_get(&cache, (enum tt_link_kind)kind, comm->life.creation->wanted[t]->name, NULL);
}

/* ---- pairs ---- */

/* The first transport that leads from one to the other, as all ranks see it. */
static int transport_between(const struct tuttiComm *comm, int32_t a, int32_t b)
{
  const struct tt_creation *creation = comm->life.creation;
  int last = comm->parts.ntransports - 1;
  for (int t = 1; t < last; t++)
    if (comm->parts.hosts[a] == comm->parts.hosts[b] || !creation->wanted[creation->kept[t]]->is_same_host)
      return creation->kept[t];
  return creation->kept[last];
}

/* No other rank lives in its process: one thread may have to move several, one after the other. */
static int is_alone(const struct tuttiComm *comm, int32_t rank)
{
  const uint64_t *hosts = comm->parts.hosts;
  const int32_t *pids = comm->parts.pids;
  for (int r = 0; r < comm->facts.nranks; r++)
    if (r != rank && hosts[r] == hosts[rank] && pids[r] == pids[rank]) return 0;
  return 1;
}

static void pairs_find(struct tuttiComm *comm)
{
  const int32_t *order = comm->parts.arrangement.order;
  for (int32_t p = 1; p < comm->facts.nranks; p++) {
    struct pair *pair = &comm->life.creation->pairs[tt_topology_kind(&comm->parts.topology, order[p - 1], order[p])];
    if (pair->ranks[0] != pair->ranks[1]) continue;
    pair->ranks[0] = order[p - 1];
    pair->ranks[1] = order[p];
    pair->transport = transport_between(comm, order[p - 1], order[p]);
  }
}

/* 1: the pair has to be measured. */
static int pair_look(struct tuttiComm *comm, enum tt_link_kind kind)
{
  const struct pair *pair = &comm->life.creation->pairs[kind];
  const char *transport = comm->life.creation->wanted[pair->transport]->name;
  struct tt_corrected *corrected = &comm->parts.corrected[kind];
  const struct rank_info *first = tt_creation_info(comm, pair->ranks[0]);
  const struct rank_info *second = tt_creation_info(comm, pair->ranks[1]);
  *corrected = (struct tt_corrected){transport, first->transports[pair->transport].known[kind]};
  if (tt_correction_known(corrected->by)) return 0;
  corrected->transport = NULL;
  if (!tt_correction_possible(kind, transport)) return 0;
  return first->may_measure && second->may_measure && is_alone(comm, pair->ranks[0]) && is_alone(comm, pair->ranks[1]);
}

/* A child has what its parent knows, of the same transport: names are constants. */
static void inherited_look(struct tuttiComm *comm)
{
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    const struct tt_transport_ops *transport = comm->life.creation->wanted[comm->life.creation->pairs[kind].transport];
    if (comm->parts.corrected[kind].transport != transport->name) comm->parts.corrected[kind].transport = NULL;
  }
}

int tt_correct_start(struct tuttiComm *comm)
{
  int corrects = tt_creation_info(comm, 0)->corrects, n = 0;
  pairs_find(comm);
  if (comm->life.creation->is_child) {
    inherited_look(comm);
    return 0;
  }
  for (int kind = TT_LINK_CACHE; kind < TT_LINK_KINDS; kind++) {
    struct pair *pair = &comm->life.creation->pairs[kind];
    if (corrects && pair->ranks[0] != pair->ranks[1]) n += pair->is_measured = pair_look(comm, (enum tt_link_kind)kind);
  }
  return n > 0;
}

/* ---- the round more ---- */

tuttiResult_t tt_correct_tell(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  struct finding mine;
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    const struct pair *pair = &creation->pairs[kind];
    mine.of[kind] = TT_CORRECTION_NONE;
    if (pair->is_measured && pair->ranks[0] == comm->facts.rank) mine.of[kind] = comm->parts.corrected[kind].by;
  }
  creation->findings = tt_alloc((size_t)comm->facts.nranks, sizeof *creation->findings);
  if (!creation->findings)
    return tt_fail(tuttiSystemError, "out of memory for what links of %d ranks take", comm->facts.nranks);
  creation->stage = FINDING;
  return tt_rendezvous_gather(creation->rendezvous, &mine, sizeof mine, creation->findings);
}

/* The first rank of a host writes what was found of pairs with an end there. */
static void findings_keep(const struct tuttiComm *comm)
{
  struct tt_cache cache;
  int first = 0, n = 0;
  while (comm->parts.hosts[first] != comm->parts.hosts[comm->facts.rank]) first++;
  if (first != comm->facts.rank) return;
  tt_cache_load(&cache, &comm->facts.settings);
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    const struct pair *pair = &comm->life.creation->pairs[kind];
    const struct tt_corrected *corrected = &comm->parts.corrected[kind];
    uint64_t here = comm->parts.hosts[comm->facts.rank];
    int is_here = comm->parts.hosts[pair->ranks[0]] == here || comm->parts.hosts[pair->ranks[1]] == here;
    if (!pair->is_measured || !is_here || !corrected->transport) continue;
    tt_cache_put(&cache, (enum tt_link_kind)kind, corrected->transport, corrected->by);
    n++;
  }
  if (n) tt_cache_store(&cache, &comm->facts.settings);
}

void tt_correct_finish(struct tuttiComm *comm)
{
  const struct tt_creation *creation = comm->life.creation;
  for (int kind = 0; kind < TT_LINK_KINDS; kind++) {
    const struct pair *pair = &creation->pairs[kind];
    struct tt_corrected *corrected = &comm->parts.corrected[kind];
    if (!pair->is_measured) continue;
    corrected->by = creation->findings[pair->ranks[0]].of[kind];
    corrected->transport = tt_correction_known(corrected->by) ? creation->wanted[pair->transport]->name : NULL;
  }
  findings_keep(comm);
}
