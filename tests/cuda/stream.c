/* SPDX-License-Identifier: BSD-3-Clause */
/* Streams and events. */
#include <stdlib.h>

#include "double.h"

#define LEGACY ((void *)1)
#define PER_THREAD ((void *)2)
#define EXTERNAL 1u

struct stream *streams;
static struct event *events;

/* ---- handles ---- */

/* `hardware` is held. */
static struct stream *legacy_of(struct context *context)
{
  if (!context->legacy) {
    struct stream *stream = channel_stream(context, 0);
    stream->is_legacy = 1;
    context->legacy = stream;
  }
  return context->legacy;
}

/* The stream that the calling thread has of its own in a context. `hardware` is held. */
static struct stream *own_of(struct context *context)
{
  for (struct stream *stream = streams; stream; stream = stream->next)
    if (stream->has_owner && stream->context == context && pthread_equal(stream->owner, pthread_self())) return stream;
  struct stream *stream = channel_stream(context, 0);
  stream->has_owner = 1;
  stream->owner = pthread_self();
  return stream;
}

static struct stream *find(void *handle)
{
  struct context *context = current();
  if (!handle || handle == LEGACY) return context ? legacy_of(context) : NULL;
  if (handle == PER_THREAD) return context ? own_of(context) : NULL;
  for (struct stream *stream = streams; stream; stream = stream->next)
    if (stream == handle) return stream->is_alive && !stream->is_legacy && !stream->has_owner ? stream : NULL;
  return NULL;
}

struct stream *stream_of(void *handle)
{
  pthread_mutex_lock(&hardware);
  struct stream *stream = find(handle);
  pthread_mutex_unlock(&hardware);
  if (!stream) breach(0, "no such stream: %p", handle);
  return stream;
}

struct event *event_of(void *handle)
{
  pthread_mutex_lock(&hardware);
  struct event *event = events;
  while (event && event != handle) event = event->next;
  int is_alive = event && event->is_alive;
  pthread_mutex_unlock(&hardware);
  if (!is_alive) breach(0, "no such event: %p", handle);
  return is_alive ? event : NULL;
}

/* ---- streams ---- */

static int create(void **handle, unsigned flags, int priority)
{
  int code = enter("cuStreamCreate", NEEDS_CONTEXT | CREATES);
  if (code != SUCCESS) return code;
  if (flags > 1) return leave(INVALID_VALUE);
  pthread_mutex_lock(&hardware);
  struct stream *stream = channel_stream(current(), flags);
  stream->priority = priority;
  pthread_mutex_unlock(&hardware);
  count_thing("streams", 1, 0);
  *handle = stream;
  return leave(SUCCESS);
}

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
  return create(stream, flags, 0);
}

EXPORT int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority)
{
  return create(stream, flags, priority);
}

/* Work that is in it is done all the same. */
EXPORT int cuStreamDestroy_v2(void *handle)
{
  int code = enter("cuStreamDestroy", NEEDS_CONTEXT | ENDS);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream || stream->is_legacy || stream->has_owner) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  if (stream->capture) capture_invalidate(stream);
  stream->is_alive = 0;
  pthread_mutex_unlock(&hardware);
  count_thing("streams", 0, 1);
  return leave(SUCCESS);
}

/* An error of asking for the end of work while the stream is captured, or somebody captures anything. */
static int unsafe(struct stream *stream)
{
  pthread_mutex_lock(&hardware);
  int is_captured = capture_is_active(stream);
  if (is_captured) capture_invalidate(stream);
  int code = !is_captured && stream->is_legacy ? capture_forbids_legacy(stream->context) : SUCCESS;
  pthread_mutex_unlock(&hardware);
  if (is_captured) return CAPTURE_UNSUPPORTED;
  if (code != SUCCESS) return code;
  return capture_is_unsafe() ? CAPTURE_UNSUPPORTED : SUCCESS;
}

EXPORT int cuStreamQuery(void *handle)
{
  int code = enter("cuStreamQuery", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  code = unsafe(stream);
  if (code != SUCCESS) return leave(code);
  pthread_mutex_lock(&hardware);
  int is_done = stream->done == stream->submitted;
  pthread_mutex_unlock(&hardware);
  if (is_done) posted_land();
  return leave(context_error(stream->context) ? context_error(stream->context) : is_done ? SUCCESS : NOT_READY);
}

/* What the stream has to do before it is done; the legacy one waits for all blocking streams of its context. */
static void wait_stream(struct stream *stream)
{
  pthread_mutex_lock(&hardware);
  for (struct stream *other = streams; other; other = other->next) {
    uint64_t until = other->submitted;
    int counts = stream->is_legacy && other->context == stream->context && other->is_blocking;
    while ((other == stream || counts) && other->done < until) progress_wait();
  }
  pthread_mutex_unlock(&hardware);
  posted_land();
}

EXPORT int cuStreamSynchronize(void *handle)
{
  int code = enter("cuStreamSynchronize", IS_DONE_ANYWAY);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  code = unsafe(stream);
  if (code != SUCCESS) return leave(code);
  unlock_driver();
  wait_stream(stream);
  return leave(context_error(stream->context));
}

EXPORT int cuStreamGetCtx(void *handle, void **context)
{
  int code = enter("cuStreamGetCtx", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (stream) *context = stream->context;
  return leave(stream ? SUCCESS : INVALID_HANDLE);
}

EXPORT int cuStreamGetFlags(void *handle, unsigned *flags)
{
  int code = enter("cuStreamGetFlags", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (stream) *flags = stream->flags;
  return leave(stream ? SUCCESS : INVALID_HANDLE);
}

EXPORT int cuStreamGetPriority(void *handle, int *priority)
{
  int code = enter("cuStreamGetPriority", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (stream) *priority = stream->priority;
  return leave(stream ? SUCCESS : INVALID_HANDLE);
}

EXPORT int cuStreamGetId(void *handle, unsigned long long *id)
{
  int code = enter("cuStreamGetId", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (stream) *id = (uintptr_t)stream;
  return leave(stream ? SUCCESS : INVALID_HANDLE);
}

/* ---- events ---- */

EXPORT int cuEventCreate(void **handle, unsigned flags)
{
  int code = enter("cuEventCreate", NEEDS_CONTEXT | CREATES);
  if (code != SUCCESS) return code;
  struct event *event = calloc(1, sizeof *event);
  if (!event) return leave(OUT_OF_MEMORY);
  event->is_alive = 1;
  event->flags = flags;
  pthread_mutex_lock(&hardware);
  event->next = events;
  events = event;
  pthread_mutex_unlock(&hardware);
  count_thing("events", 1, 0);
  *handle = event;
  return leave(SUCCESS);
}

EXPORT int cuEventDestroy_v2(void *handle)
{
  int code = enter("cuEventDestroy", ENDS);
  if (code != SUCCESS) return code;
  struct event *event = event_of(handle);
  if (!event) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  event->is_alive = 0;
  pthread_mutex_unlock(&hardware);
  count_thing("events", 0, 1);
  return leave(SUCCESS);
}

static int record(void *handle, void *stream_handle, unsigned flags)
{
  int code = enter("cuEventRecord", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(stream_handle);
  struct event *event = event_of(handle);
  if (!stream || !event) return leave(INVALID_HANDLE);
  struct work work = {.kind = WORK_RECORD, .event = event};
  pthread_mutex_lock(&hardware);
  int is_captured = capture_is_active(stream) && flags != EXTERNAL;
  if (is_captured) code = capture_record(stream, event);
  pthread_mutex_unlock(&hardware);
  if (is_captured) return leave(code);
  code = submit(stream, work_copy(&work));
  return leave(code);
}

EXPORT int cuEventRecord(void *event, void *stream)
{
  return record(event, stream, 0);
}

EXPORT int cuEventRecordWithFlags(void *event, void *stream, unsigned flags)
{
  return record(event, stream, flags);
}

EXPORT int cuStreamWaitEvent(void *stream_handle, void *handle, unsigned flags)
{
  int code = enter("cuStreamWaitEvent", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(stream_handle);
  struct event *event = event_of(handle);
  if (!stream || !event) return leave(INVALID_HANDLE);
  struct work work = {.kind = WORK_AFTER};
  pthread_mutex_lock(&hardware);
  int is_captured = flags != EXTERNAL && capture_wait(stream, event, &code);
  work.after.stream = event->stream;
  work.after.number = event->number;
  if (flags == EXTERNAL && capture_is_active(stream)) work.after.event = event;
  pthread_mutex_unlock(&hardware);
  if (is_captured || (!work.after.stream && !work.after.event)) return leave(code);
  return leave(submit(stream, work_copy(&work)));
}

int event_is_done(const struct event *event)
{
  return !event->stream || event->stream->done >= event->number;
}

/* An error if the event belongs to a capture. */
static int ask(const char *name, void *handle, struct event **event)
{
  int code = enter(name, IS_UNSAFE);
  if (code != SUCCESS) return code;
  *event = event_of(handle);
  if (!*event) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  int is_captured = (*event)->capture != NULL;
  pthread_mutex_unlock(&hardware);
  return is_captured ? leave(CAPTURED_EVENT) : SUCCESS;
}

EXPORT int cuEventQuery(void *handle)
{
  struct event *event;
  int code = ask("cuEventQuery", handle, &event);
  if (code != SUCCESS) return code;
  pthread_mutex_lock(&hardware);
  int is_done = event_is_done(event);
  int error = event->stream ? context_error(event->stream->context) : SUCCESS;
  pthread_mutex_unlock(&hardware);
  if (is_done) posted_land();
  return leave(error ? error : is_done ? SUCCESS : NOT_READY);
}

EXPORT int cuEventSynchronize(void *handle)
{
  struct event *event;
  int code = ask("cuEventSynchronize", handle, &event);
  if (code != SUCCESS) return code;
  unlock_driver();
  pthread_mutex_lock(&hardware);
  struct stream *stream = event->stream;
  uint64_t number = event->number;
  pthread_mutex_unlock(&hardware);
  if (stream) wait_done(stream, number);
  posted_land();
  return leave(stream ? context_error(stream->context) : SUCCESS);
}

EXPORT int cuEventElapsedTime(float *ms, void *start, void *end)
{
  int code = enter("cuEventElapsedTime", 0);
  if (code != SUCCESS) return code;
  struct event *first = event_of(start), *last = event_of(end);
  if (!first || !last || (first->flags | last->flags) & 2) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  int is_done = event_is_done(first) && event_is_done(last);
  *ms = (float)(last->done_ns - first->done_ns) * 1e-6f;
  pthread_mutex_unlock(&hardware);
  return leave(is_done ? SUCCESS : NOT_READY);
}
