/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions: check arguments, then one call into comm or bootstrap. Contracts: tutti.h. */
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "bootstrap/bootstrap.h"
#include "comm/comm.h"

tuttiResult_t tuttiGetVersion(int *version)
{
  if (!version) return tt_null("version");
  *version = TUTTI_VERSION_CODE;
  return tuttiSuccess;
}

const char *tuttiGetErrorString(tuttiResult_t result)
{
  switch (result) {
  case tuttiSuccess: return "no error";
  case tuttiUnhandledCudaError: return "unhandled cuda error";
  case tuttiSystemError: return "unhandled system error";
  case tuttiInternalError: return "internal error";
  case tuttiInvalidArgument: return "invalid argument";
  case tuttiInvalidUsage: return "invalid usage";
  case tuttiRemoteError: return "remote process exited or there was a network error";
  case tuttiInProgress: return "operation in progress";
  default: return "unknown result code";
  }
}

const char *tuttiGetLastError(tuttiComm_t comm)
{
  /* The health of a communicator brings its sentence to this thread. */
  static _Thread_local char told[TT_SENTENCE_BYTES]; /* errors that come later leave it alone */
  if (tt_comm_is(comm)) tt_comm_standing(comm);
  snprintf(told, sizeof told, "%s", tt_last_sentence());
  return told;
}

tuttiResult_t tuttiGetUniqueId(tuttiUniqueId *id)
{
  if (!id) return tt_null("id");
  struct tt_settings settings;
  struct tt_id made;
  tuttiResult_t result = tt_process_check();
  if (result == tuttiSuccess) result = tt_settings_load(&settings);
  if (result == tuttiSuccess) result = tt_id_create(&made, &settings);
  if (result == tuttiSuccess) tt_id_pack(&made, id);
  return result;
}

tuttiResult_t tuttiGetLaunch(tuttiLaunch_t *launch)
{
  if (!launch) return tt_null("launch");
  tuttiResult_t result = tt_process_check();
  return result == tuttiSuccess ? tt_launch_get(launch) : result;
}

tuttiResult_t tuttiCommCount(const tuttiComm_t comm, int *count)
{
  if (!count) return tt_null("count");
  tuttiResult_t result = tt_comm_check(comm);
  if (result == tuttiSuccess) *count = __atomic_load_n(&tt_comm_facts(comm)->nranks, __ATOMIC_RELAXED);
  return result;
}

tuttiResult_t tuttiCommUserRank(const tuttiComm_t comm, int *rank)
{
  if (!rank) return tt_null("rank");
  tuttiResult_t result = tt_comm_check(comm);
  if (result == tuttiSuccess) *rank = __atomic_load_n(&tt_comm_facts(comm)->rank, __ATOMIC_RELAXED);
  return result;
}

tuttiResult_t tuttiCommDevice(const tuttiComm_t comm, int *device)
{
  if (!device) return tt_null("device");
  tuttiResult_t result = tt_comm_check(comm);
  if (result == tuttiSuccess) *device = tt_comm_facts(comm)->device;
  return result;
}

tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t *result)
{
  if (!result) return tt_null("result");
  tuttiResult_t checked = tt_comm_check(comm);
  if (checked == tuttiSuccess) *result = tt_comm_async_error(comm);
  return checked;
}

tuttiResult_t tuttiCommGetFailed(tuttiComm_t comm, int *ranks, int *count)
{
  if (!count) return tt_null("count");
  if (*count < 0) return tt_fail(tuttiInvalidArgument, "*count is %d: it must be the room in ranks", *count);
  if (!ranks && *count) return tt_null("ranks");
  tuttiResult_t result = tt_comm_check(comm);
  if (result == tuttiSuccess) *count = tt_comm_lost(comm, ranks, *count);
  return result;
}

static tuttiResult_t group_open(int calls, const char *what)
{
  return tt_fail(tuttiInvalidUsage, "%d %s on comm in a group that this thread has not ended%s: call "
                 "tuttiGroupEnd first", calls, calls == 1 ? "call waits" : "calls wait", what);
}

tuttiResult_t tuttiCommFinalize(tuttiComm_t comm)
{
  tuttiResult_t result = tt_comm_check(comm);
  int calls = result == tuttiSuccess ? tt_group_holds(comm) : 0;
  if (calls) return group_open(calls, "");
  return result == tuttiSuccess ? tt_comm_finalize(comm) : result;
}

tuttiResult_t tuttiCommDestroy(tuttiComm_t comm)
{
  if (!comm) return tuttiSuccess;
  tuttiResult_t result = tt_comm_check(comm);
  int calls = result == tuttiSuccess ? tt_group_holds(comm) : 0;
  if (result == tuttiSuccess) result = tt_comm_destroy(comm);
  return calls && result == tuttiSuccess ? group_open(calls, ", and will never run") : result;
}

tuttiResult_t tuttiCommAbort(tuttiComm_t comm)
{
  if (!comm) return tuttiSuccess;
  tuttiResult_t result = tt_comm_check(comm);
  return result == tuttiSuccess ? tt_comm_abort(comm) : result;
}

tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess && flags != TUTTI_REVOKE_DEFAULT)
    result = tt_fail(tuttiInvalidArgument, "flags is %d: it must be TUTTI_REVOKE_DEFAULT (0)", flags);
  return result == tuttiSuccess ? tt_comm_revoke(comm) : result;
}

tuttiResult_t tuttiCommSuspend(tuttiComm_t comm, int flags)
{
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess && (flags & ~TUTTI_SUSPEND_MEM))
    result = tt_fail(tuttiInvalidArgument, "flags is %#x: TUTTI_SUSPEND_MEM (1) is all there is", (unsigned)flags);
  int calls = result == tuttiSuccess ? tt_group_holds(comm) : 0;
  if (calls) return group_open(calls, "");
  return result == tuttiSuccess ? tt_comm_suspend(comm, flags & TUTTI_SUSPEND_MEM) : result;
}

tuttiResult_t tuttiCommResume(tuttiComm_t comm)
{
  tuttiResult_t result = tt_comm_check(comm);
  return result == tuttiSuccess ? tt_comm_resume(comm) : result;
}

tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiCommMemStat_t stat, uint64_t *value)
{
  struct tt_held held;
  if (!value) return tt_null("value");
  if ((int)stat < 0 || stat > tuttiStatMemTotal)
    return tt_fail(tuttiInvalidArgument, "stat is %d: it must be from 0 to %d", (int)stat, tuttiStatMemTotal);
  tuttiResult_t result = tt_comm_held(comm, &held);
  if (result != tuttiSuccess) return result;
  const uint64_t values[] = {held.spare, (uint64_t)held.is_suspended, held.rest, held.spare + held.rest};
  *value = values[stat];
  return tuttiSuccess;
}

tuttiResult_t tuttiMemAlloc(void **ptr, size_t size)
{
  if (!ptr) return tt_null("ptr");
  tuttiResult_t result = tt_process_check();
  return result == tuttiSuccess ? tt_user_alloc(ptr, size) : result;
}

tuttiResult_t tuttiMemFree(void *ptr)
{
  if (!ptr) return tuttiSuccess;
  tuttiResult_t result = tt_process_check();
  return result == tuttiSuccess ? tt_user_free(ptr) : result;
}

tuttiResult_t tuttiCommRegister(const tuttiComm_t comm, void *buff, size_t size, void **handle)
{
  if (!buff) return tt_null("buff");
  if (!handle) return tt_null("handle");
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result != tuttiSuccess) return result;
  if (!size) return tt_fail(tuttiInvalidArgument, "size is 0: there is nothing to register");
  if (size > UINTPTR_MAX - (uintptr_t)buff)
    return tt_fail(tuttiInvalidArgument, "size is %zu bytes: more than there are addresses after buff %p", size, buff);
  return tt_comm_register(comm, buff, size, handle);
}

tuttiResult_t tuttiCommDeregister(const tuttiComm_t comm, void *handle)
{
  tuttiResult_t result = tt_comm_check(comm);
  return result == tuttiSuccess && handle ? tt_comm_deregister(comm, handle) : result;
}

tuttiResult_t tuttiStreamCreate(tuttiStream_t *stream)
{
  if (!stream) return tt_null("stream");
  tuttiResult_t result = tt_process_check();
  return result == tuttiSuccess ? tt_stream_create(stream) : result;
}

tuttiResult_t tuttiStreamFromCuda(tuttiStream_t *stream, void *cuda_stream)
{
  if (!stream) return tt_null("stream");
  tuttiResult_t result = tt_process_check();
  return result == tuttiSuccess ? tt_stream_from_cuda(stream, cuda_stream) : result;
}

tuttiResult_t tuttiStreamQuery(tuttiStream_t stream)
{
  tuttiResult_t result = tt_host_stream_check(stream);
  return result == tuttiSuccess ? tt_stream_query(stream) : result;
}

tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream)
{
  tuttiResult_t result = tt_host_stream_check(stream);
  return result == tuttiSuccess ? tt_stream_synchronize(stream) : result;
}

tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream)
{
  if (!stream) return tuttiSuccess;
  tuttiResult_t result = tt_stream_check(stream);
  return result == tuttiSuccess ? tt_stream_destroy(stream) : result;
}

tuttiResult_t tuttiGroupStart(void)
{
  tt_group_start();
  return tuttiSuccess;
}

tuttiResult_t tuttiGroupEnd(void)
{
  return tt_group_end();
}
