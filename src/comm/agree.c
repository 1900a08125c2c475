/* SPDX-License-Identifier: BSD-3-Clause */
/* The end of a creation: all ranks have the same topology, and take rank 0's decision table. */
#include "comm/creation_private.h"
#include "reduce/reduce.h"

/* ---- what has to be alike ---- */

const struct rank_info *tt_creation_info(const struct tuttiComm *comm, int rank)
{
  size_t stride = tt_rank_info_bytes(comm->life.creation->nwanted);
  return (const void *)((const char *)comm->parts.rank_infos + (size_t)rank * stride);
}

uint64_t tt_nearness_hash(const struct tt_topology *topology, const struct tt_arrangement *arrangement)
{
  uint64_t hash = (uint64_t)arrangement->groups.nlevels;
  for (int32_t p = 0; p < arrangement->nranks; p++) {
    hash = hash * 31 + (uint64_t)arrangement->order[p];
    for (int32_t l = 0; l < arrangement->groups.nlevels; l++)
      hash = hash * 31 + (uint64_t)arrangement->groups.group[l][p];
    if (p) hash = hash * 31 + tt_topology_kind(topology, arrangement->order[p - 1], arrangement->order[p]);
  }
  return hash;
}

/* Only rank 0 reads one. */
static void profiles_compare(const struct tuttiComm *comm)
{
  int r = 1;
  while (r < comm->facts.nranks && tt_creation_info(comm, r)->profile == tt_creation_info(comm, 0)->profile) r++;
  if (comm->facts.rank == 0 && r < comm->facts.nranks)
    tt_log(TT_LOG_INFO, "TUTTI_PROFILE of rank %d is another one than that of rank 0, and is ignored", r);
}

tuttiResult_t tt_rank_infos_compare(const struct tuttiComm *comm)
{
  for (int r = 1; r < comm->facts.nranks; r++)
    if (tt_creation_info(comm, r)->nearness != tt_creation_info(comm, 0)->nearness)
      return tt_fail(tuttiInvalidUsage,
                     "rank %d and rank 0 see different topologies: give all ranks the same "
                     "TUTTI_TOPOLOGY file",
                     r);
  profiles_compare(comm);
  return tuttiSuccess;
}

/* ---- the last round ---- */

_Static_assert(sizeof(struct tt_table) <= TT_PEER_INFO_BYTES, "the table goes through one round of the rendezvous");

tuttiResult_t tt_agree_start(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  struct tt_table *table = &comm->calls.table;
  tuttiResult_t result = tt_learning_create(comm);
  if (result == tuttiSuccess && comm->facts.rank == 0) result = tt_creation_price(comm, table);
  if (result != tuttiSuccess) return result;
  creation->stage = AGREEING;
  return tt_rendezvous_broadcast(creation->rendezvous, table, sizeof *table, table);
}

static void report(const struct tuttiComm *comm)
{
  if (!tt_log_wants(TT_LOG_INFO)) return;
  const struct tt_comm_facts *facts = &comm->facts;
  const struct tt_creation *creation = comm->life.creation;
  struct tt_transport *const *transports = comm->parts.transports;
  int descriptors = 0;
  for (int t = 0; t < comm->parts.ntransports; t++) descriptors += transports[t]->ops->descriptors(transports[t]);
  for (int r = 0; r < facts->nranks; r++) {
    char text[200];
    const struct tt_transport *route = tt_exec_route(comm->parts.exec, r);
    tt_log(TT_LOG_INFO, "rank %d -> rank %d: %s", facts->rank, r, route->ops->path(route, r, text, sizeof text));
  }
  tt_log(TT_LOG_INFO, "rank %d: reduce kernels %s; wire type of float: %s", facts->rank, tt_reduce_table()->name,
         tt_type_name(facts->wire_type));
  for (int c = 0; c < TT_COLLECTIVES && facts->rank == 0; c++) {
    char text[512];
    if (!tt_kinds[c].name) continue;
    tt_table_text(&comm->calls.table, c, text, sizeof text);
    tt_log(TT_LOG_INFO, "%s: %s", tt_kinds[c].name, text);
  }
  tt_log(TT_LOG_INFO, "communicator%s%s: rank %d of %d on %d host%s ready after %.1f ms; %d descriptor%s in use so far",
         facts->name[0] ? " " : "", facts->name, facts->rank, facts->nranks, creation->nhosts,
         creation->nhosts == 1 ? "" : "s", (double)(tt_now_ns() - creation->began_ns) / 1e6, descriptors,
         descriptors == 1 ? "" : "s");
}

tuttiResult_t tt_agree_finish(struct tuttiComm *comm)
{
  struct tt_creation *creation = comm->life.creation;
  if (!tt_table_valid(&comm->calls.table))
    return tt_fail(tuttiInternalError, "rank 0 sent a decision table that makes no sense");
  tuttiResult_t result = tt_metrics_begin(comm);
  if (result != tuttiSuccess) return result;
  tt_learning_begin(comm);
  tt_id_used(creation->used, TT_USE_DONE);
  creation->used = 0;
  report(comm);
  tt_views_ready(comm);
  tt_creation_destroy(creation);
  comm->life.creation = NULL;
  atomic_store_explicit(&comm->life.state, TT_COMM_READY, memory_order_release);
  return tuttiSuccess;
}
