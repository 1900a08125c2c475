/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/check_private.h"

tuttiResult_t tt_null(const char *name)
{
  return tt_fail(tuttiInvalidArgument, "%s is NULL: pass a valid pointer", name);
}

tuttiResult_t tt_process_check(void)
{
  tt_process_enter();
  if (!atomic_load_explicit(&tt_process.forked, memory_order_relaxed)) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "this process is a forked child of one that uses Tutti: "
                                    "call it in the parent only, or exec a program first");
}

tuttiResult_t tt_comm_check(const struct tuttiComm *comm)
{
  if (!comm) return tt_null("comm");
  if (comm->magic != TT_COMM_MAGIC)
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

tuttiResult_t tt_comm_ready_check(const struct tuttiComm *comm)
{
  tuttiResult_t result = tt_comm_check(comm);
  if (result != tuttiSuccess) return result;
  switch (atomic_load_explicit(&comm->state, memory_order_acquire)) {
  case TT_COMM_READY: return tuttiSuccess;
  case TT_COMM_CREATING:
    return tt_fail(tuttiInvalidArgument,
                   "comm is still being created: wait until tuttiCommGetAsyncError gives tuttiSuccess");
  case TT_COMM_SUSPENDED:
    return tt_fail(tuttiInvalidUsage, "comm is suspended: call tuttiCommResume before operations");
  case TT_COMM_FINALIZED: return tt_fail(tuttiInvalidUsage, "comm was finalized: it takes no more operations");
  default: return tt_comm_health(comm);
  }
}
