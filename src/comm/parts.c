/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a communicator, for other folders. */
#include <arpa/inet.h>
#include <string.h>

#include "comm/private.h"
#include "tuner/explain.h"

_Static_assert(TT_CHOICE_TEXT_BYTES == TUTTI_ALGORITHM_BYTES, "the text of a choice fits");
_Static_assert(sizeof ((tuttiCommInfo_t *)0)->name == sizeof ((struct tt_comm_facts *)0)->name, "the name fits");

const struct tt_topology *tt_comm_topology(const struct tuttiComm *comm)
{
  return &comm->parts.topology;
}

const struct tt_groups *tt_comm_groups(const struct tuttiComm *comm)
{
  return &comm->parts.arrangement.groups;
}

const struct tt_transport_ops *tt_comm_transport(const struct tuttiComm *comm, int t)
{
  return t < comm->parts.ntransports ? comm->parts.transports[t]->ops : NULL;
}

int tt_comm_route(const struct tuttiComm *comm, int rank)
{
  const struct tt_transport *route = tt_exec_route(comm->parts.exec, rank);
  int t = 0;
  while (t < comm->parts.ntransports - 1 && comm->parts.transports[t] != route) t++;
  return t;
}

_Static_assert(sizeof ((tuttiCommInfo_t *)0)->address >= INET6_ADDRSTRLEN, "an address fits");

/* The scope of a link-local address means nothing on another host. */
static void address_tell(const struct tuttiComm *comm, tuttiCommInfo_t *info)
{
  if (!comm->parts.ip_listener) return;
  const struct tt_address *here = tt_listener_address(comm->parts.ip_listener);
  int is_v4 = here->any.sa_family == AF_INET;
  const void *ip = is_v4 ? (const void *)&here->v4.sin_addr : &here->v6.sin6_addr;
  inet_ntop(here->any.sa_family, ip, info->address, sizeof info->address);
}

void tt_comm_info(const struct tuttiComm *comm, tuttiCommInfo_t *info)
{
  const struct tt_topology *topology = &comm->parts.topology;
  info->nranks = comm->facts.nranks;
  info->rank = comm->facts.rank;
  info->nhosts = topology->nnodes;
  info->host = topology->node[comm->facts.first_rank];
  for (int r = 0; r < comm->facts.first_nranks; r++) {
    int is_here = topology->node[r] == info->host;
    info->local_nranks += is_here;
    info->local_rank += is_here && r < comm->facts.first_rank;
  }
  memcpy(info->name, comm->facts.name, sizeof info->name);
  address_tell(comm, info);
}

void tt_comm_algorithm(const struct tuttiComm *comm, int collective, uint64_t bytes, char text[TUTTI_ALGORITHM_BYTES])
{
  tt_choice_text(tt_comm_choice(comm, collective, tt_type_size(tuttiFloat32), bytes), text);
}

static const struct tt_learn_cell *cell_of(const struct tuttiComm *comm, int collective, size_t size, uint64_t bytes)
{
  return comm->calls.learning ? tt_learning_cell(comm->calls.learning, collective, size, bytes) : NULL;
}

enum tt_memory tt_comm_memory(const struct tuttiComm *comm, int collective, size_t size, uint64_t bytes)
{
  const struct tt_learn_cell *cell = cell_of(comm, collective, size, bytes);
  return cell ? (enum tt_memory)cell->memory : TT_MEMORY_MALLOC;
}

const struct tt_choice *tt_comm_choice(const struct tuttiComm *comm, int collective, size_t size, uint64_t bytes)
{
  const struct tt_learn_cell *cell = cell_of(comm, collective, size, bytes);
  return cell ? &cell->choice : tt_table_choice(&comm->calls.table, collective, bytes);
}

void *tt_comm_barrier_byte(struct tuttiComm *comm)
{
  return &comm->calls.barrier;
}

const struct tt_table *tt_comm_table(const struct tuttiComm *comm)
{
  return &comm->calls.table;
}

void tt_comm_table_set(struct tuttiComm *comm, const struct tt_table *table)
{
  tt_learning_destroy(comm);
  comm->calls.table = *table;
}
