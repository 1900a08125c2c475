/* SPDX-License-Identifier: BSD-3-Clause */
/* Operations with a scalar. Their numbers hold the communicator's, so that those of another one are refused. */
#include <string.h>

#include "comm/private.h"

#define SERIALS 0x10000u

static int number_of(const struct tuttiComm *comm, int index)
{
  return tuttiNumOps + (int)((comm->facts.serial % SERIALS) * TT_COMM_REDOPS) + index;
}

const struct tt_redop *tt_redop_get(const struct tuttiComm *comm, tuttiRedOp_t op)
{
  int64_t index = (int64_t)(int)op - number_of(comm, 0); /* op may be anything */
  if ((int)op >= 0 && (int)op < tuttiNumOps) {
    tt_fail(tuttiInvalidArgument, "op is %d, which was not made by tuttiRedOpCreatePreMulSum: it lives for ever",
            (int)op);
    return NULL;
  }
  if (index < 0 || index >= comm->calls.nredops || !comm->calls.redops[index].used) {
    tt_fail(tuttiInvalidArgument,
            "op is %d: it must be a tuttiRedOp_t from 0 to %d, or one made by "
            "tuttiRedOpCreatePreMulSum on this communicator and not destroyed yet",
            (int)op, tuttiNumOps - 1);
    return NULL;
  }
  return &comm->calls.redops[index];
}

/* The first free one; -1: none, and none can be made. */
static int index_take(struct tuttiComm *comm)
{
  for (int i = 0; i < comm->calls.nredops; i++)
    if (!comm->calls.redops[i].used) return i;
  int room = comm->calls.nredops ? comm->calls.nredops * 2 : 8;
  if (room > TT_COMM_REDOPS) return -1;
  struct tt_redop *larger = tt_alloc((size_t)room, sizeof *larger);
  if (!larger) return -1;
  if (comm->calls.nredops) memcpy(larger, comm->calls.redops, (size_t)comm->calls.nredops * sizeof *larger);
  tt_free(comm->calls.redops);
  comm->calls.redops = larger;
  int index = comm->calls.nredops;
  comm->calls.nredops = room;
  return index;
}

tuttiResult_t tt_redop_create(struct tuttiComm *comm, const struct tt_redop *redop, tuttiRedOp_t *op)
{
  int index = index_take(comm);
  if (index < 0)
    return tt_fail(tuttiSystemError, "no room for another operation beside %d: destroy some with tuttiRedOpDestroy",
                   comm->calls.nredops);
  comm->calls.redops[index] = *redop;
  comm->calls.redops[index].used = 1;
  *op = (tuttiRedOp_t)number_of(comm, index);
  return tuttiSuccess;
}

tuttiResult_t tt_redop_destroy(struct tuttiComm *comm, tuttiRedOp_t op)
{
  if (!tt_redop_get(comm, op)) return tuttiInvalidArgument;
  comm->calls.redops[(int)op - number_of(comm, 0)].used = 0;
  return tuttiSuccess;
}
