/* SPDX-License-Identifier: BSD-3-Clause */
/* The collectives: arguments checked, then run now, collected in the group, or queued on the stream. */
#include <stdint.h>

#include "api/check.h"

static tuttiResult_t buffers_check(const void *sendbuff, const void *recvbuff, size_t count, size_t element)
{
  if (count == 0) return tuttiSuccess;
  if (!sendbuff) return tt_null("sendbuff");
  if (!recvbuff) return tt_null("recvbuff");
  if (count > SIZE_MAX / 2 / element)
    return tt_fail(tuttiInvalidArgument, "count is %zu: more elements of %zu bytes than memory can hold", count,
                   element);
  uintptr_t in = (uintptr_t)sendbuff, out = (uintptr_t)recvbuff, len = count * element;
  if (in != out && in < out + len && out < in + len)
    return tt_fail(tuttiInvalidArgument,
                   "recvbuff %p overlaps sendbuff %p (%zu bytes each): pass the same pointer for in place, "
                   "or separate buffers",
                   recvbuff, sendbuff, (size_t)len);
  return tuttiSuccess;
}

static tuttiResult_t operation_check(int type, int op)
{
  if (type < 0 || type >= tuttiNumTypes)
    return tt_fail(tuttiInvalidArgument, "type is %d: it must be a tuttiDataType_t from 0 to %d", type,
                   tuttiNumTypes - 1);
  if (op < 0 || op >= tuttiNumOps)
    return tt_fail(tuttiInvalidArgument, "op is %d: it must be a tuttiRedOp_t from 0 to %d", op, tuttiNumOps - 1);
  return tuttiSuccess;
}

static tuttiResult_t queue_inside(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding)
{
  tuttiResult_t result = tt_comm_health(comm);
  if (result != tuttiSuccess) return result;
  struct tt_op *op = tt_op_take(comm, stream, binding);
  if (!op) return tt_comm_give_up(comm, tt_fail(tuttiSystemError, "out of memory for an operation"), 0);
  if (tt_group_active()) return tt_group_add_op(op);
  op->next_of_group = NULL;
  tt_ops_submit(op);
  return tuttiSuccess;
}

/* Behind a group or a stream. */
static tuttiResult_t queue(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding)
{
  if (!tt_comm_enter(comm)) return tt_comm_aborted(comm);
  tuttiResult_t result = queue_inside(comm, stream, binding);
  tt_comm_exit(comm);
  return result;
}

static tuttiResult_t dispatch(struct tuttiComm *comm, struct tuttiStream *stream, struct tt_binding *binding)
{
  if (!stream && !tt_group_active()) return tt_comm_run(comm, binding);
  return queue(comm, stream, binding);
}

tuttiResult_t tuttiAllReduce(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type, tuttiRedOp_t op,
                             tuttiComm_t comm, tuttiStream_t stream)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = operation_check((int)type, (int)op);
  if (result == tuttiSuccess) result = buffers_check(sendbuff, recvbuff, count, tt_type_size((int)type));
  if (result == tuttiSuccess && stream) result = tt_stream_check(stream);
  if (result != tuttiSuccess) return tt_group_refuse(result);
  struct tt_binding binding = {
      .call = {.count = count, .collective = TT_ALL_REDUCE, .type = (uint8_t)type, .redop = (uint8_t)op, .root = -1},
      .in = sendbuff,
      .out = recvbuff};
  result = dispatch(comm, stream, &binding);
  return result == tuttiSuccess ? result : tt_group_refuse(result);
}
