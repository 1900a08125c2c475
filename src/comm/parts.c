/* SPDX-License-Identifier: BSD-3-Clause */
/* Parts of a communicator, for other folders. */
#include "comm/private.h"

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
  comm->calls.table = *table;
}
