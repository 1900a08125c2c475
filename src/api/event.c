/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti_event.h. */
#include "tutti_event.h"

#include "comm/comm.h"

tuttiResult_t tuttiEventCreate(tuttiEvent_t *event)
{
  if (!event) return tt_null("event");
  tuttiResult_t result = tt_process_check();
  return result == tuttiSuccess ? tt_event_create(event) : result;
}

tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream)
{
  tuttiResult_t result = tt_event_check(event);
  if (result == tuttiSuccess) result = tt_host_stream_check(stream);
  if (result == tuttiSuccess && tt_group_active())
    result = tt_fail(tuttiInvalidUsage, "this thread has a group open, whose calls are not on the stream yet: record "
                     "the event after tuttiGroupEnd");
  if (result == tuttiSuccess) tt_event_record(event, stream);
  return result;
}

tuttiResult_t tuttiEventQuery(tuttiEvent_t event)
{
  tuttiResult_t result = tt_event_check(event);
  return result == tuttiSuccess ? tt_event_query(event) : result;
}

tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event, int timeout_ms)
{
  tuttiResult_t result = tt_event_check(event);
  return result == tuttiSuccess ? tt_event_synchronize(event, timeout_ms) : result;
}

tuttiResult_t tuttiEventDescriptor(tuttiEvent_t event, int *fd)
{
  if (!fd) return tt_null("fd");
  tuttiResult_t result = tt_event_check(event);
  return result == tuttiSuccess ? tt_event_descriptor(event, fd) : result;
}

tuttiResult_t tuttiEventDestroy(tuttiEvent_t event)
{
  if (!event) return tuttiSuccess;
  tuttiResult_t result = tt_event_check(event);
  if (result == tuttiSuccess) tt_event_destroy(event);
  return result;
}
