/* SPDX-License-Identifier: BSD-3-Clause */
/* Checks of handles, and of whether their objects take operations. */
#include "comm/private.h"

int tt_comm_is(const struct tuttiComm *comm)
{
  return comm && comm->life.magic == TT_COMM_MAGIC;
}

tuttiResult_t tt_comm_check(const struct tuttiComm *comm)
{
  if (!comm) return tt_null("comm");
  if (comm->life.magic != TT_COMM_MAGIC)
    return tt_fail(tuttiInvalidArgument, "comm %p is no communicator: it was destroyed, or never created",
                   (const void *)comm);
  return tt_process_check();
}

tuttiResult_t tt_stream_check(const struct tuttiStream *stream)
{
  if (!stream) return tt_null("stream");
  if (stream->magic != TT_STREAM_MAGIC)
    return tt_fail(tuttiInvalidArgument, "stream %p is no stream: it was destroyed, or never created",
                   (const void *)stream);
  return tt_process_check();
}

int tt_stream_is_cuda(const struct tuttiStream *stream)
{
  return stream->is_cuda;
}

tuttiResult_t tt_host_stream_check(const struct tuttiStream *stream)
{
  tuttiResult_t result = tt_stream_check(stream);
  if (result != tuttiSuccess || !stream->is_cuda) return result;
  return tt_fail(tuttiInvalidUsage, "stream %p stands for CUDA stream %p, which takes collectives only: wait for it by "
                 "CUDA's functions, and use a stream of tuttiStreamCreate for the rest", (const void *)stream,
                 stream->cuda);
}

static tuttiResult_t not_ready(const struct tuttiComm *comm, int state)
{
  switch (state) {
  case TT_COMM_CREATING:
    return tt_fail(tuttiInvalidArgument,
                   "comm is still being created: wait until tuttiCommGetAsyncError gives tuttiSuccess");
  case TT_COMM_SUSPENDED:
    return tt_fail(tuttiInvalidUsage, "comm is suspended: call tuttiCommResume before operations");
  case TT_COMM_FINALIZED: return tt_fail(tuttiInvalidUsage, "comm was finalized: it takes no more operations");
  default: return tt_comm_health(comm);
  }
}

tuttiResult_t tt_comm_made_check(const struct tuttiComm *comm)
{
  tuttiResult_t result = tt_comm_check(comm);
  if (result != tuttiSuccess) return result;
  int state = atomic_load_explicit(&comm->life.state, memory_order_acquire);
  return state == TT_COMM_CREATING || state == TT_COMM_NOT_CREATED ? not_ready(comm, state) : tuttiSuccess;
}

tuttiResult_t tt_comm_ready_check(const struct tuttiComm *comm)
{
  tuttiResult_t result = tt_comm_check(comm);
  if (result != tuttiSuccess) return result;
  int state = atomic_load_explicit(&comm->life.state, memory_order_acquire);
  return state == TT_COMM_READY ? tuttiSuccess : not_ready(comm, state);
}
