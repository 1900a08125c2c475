/* SPDX-License-Identifier: BSD-3-Clause */
/* Capture of streams, and what it forbids: the rules of the driver's documentation of stream capture. */
#include <stdlib.h>
#include <string.h>

#include "graph.h"

enum { GLOBAL, THREAD_LOCAL, RELAXED };
enum { IS_NOT_CAPTURED, IS_CAPTURED, IS_INVALIDATED };

/* They stay, because events go on to point to them. */
struct capture {
  struct capture *next;
  struct graph *graph;
  int mode, is_invalid, is_ended;
  pthread_t thread;
  struct stream *origin;
  unsigned long long id;
};

static struct capture *captures;
static int active; /* so many */
static _Thread_local int thread_mode;

int capture_is_active(const struct stream *stream)
{
  return stream->capture != NULL;
}

void capture_invalidate(struct stream *stream)
{
  if (stream->capture) stream->capture->is_invalid = 1;
}

int capture_add(struct stream *stream, struct work *work)
{
  struct capture *capture = stream->capture;
  if (capture->is_invalid) {
    work_free(work);
    return CAPTURE_INVALIDATED;
  }
  struct node *node = graph_add(capture->graph, work, stream->tips, stream->ntips);
  tips_set(&stream->tips, &stream->ntips, &node, 1);
  return SUCCESS;
}

int capture_record(struct stream *stream, struct event *event)
{
  if (stream->capture->is_invalid) return CAPTURE_INVALIDATED;
  event->capture = stream->capture;
  tips_set(&event->tips, &event->ntips, stream->tips, stream->ntips);
  return SUCCESS;
}

static int fail(struct stream *stream, struct event *event, int code)
{
  capture_invalidate(stream);
  if (event->capture && !event->capture->is_ended) event->capture->is_invalid = 1;
  return code;
}

int capture_wait(struct stream *stream, struct event *event, int *code)
{
  struct capture *other = event->capture;
  if (!other && !stream->capture) return 0;
  if (!other || other->is_ended) {
    *code = fail(stream, event, CAPTURE_ISOLATION);
  } else if (stream->is_legacy) {
    *code = fail(stream, event, CAPTURE_IMPLICIT);
  } else if (stream->capture && stream->capture != other) {
    *code = fail(stream, event, CAPTURE_MERGE);
  } else if (other->is_invalid) {
    *code = CAPTURE_INVALIDATED;
  } else {
    if (!stream->capture) tips_set(&stream->tips, &stream->ntips, NULL, 0);
    stream->capture = other;
    tips_add(&stream->tips, &stream->ntips, event->tips, event->ntips);
  }
  return 1;
}

/* 1 if the capture forbids the calling thread what is unsafe. */
static int forbids(const struct capture *capture)
{
  if (capture->is_ended || capture->mode == RELAXED || thread_mode == RELAXED) return 0;
  if (pthread_equal(capture->thread, pthread_self())) return 1;
  return thread_mode == GLOBAL && capture->mode == GLOBAL;
}

int capture_is_unsafe(void)
{
  int found = 0;
  if (!__atomic_load_n(&active, __ATOMIC_ACQUIRE)) return 0;
  pthread_mutex_lock(&hardware);
  for (struct capture *capture = captures; capture; capture = capture->next) {
    if (!forbids(capture)) continue;
    capture->is_invalid = found = 1;
  }
  pthread_mutex_unlock(&hardware);
  return found;
}

int capture_forbids_legacy(struct context *context)
{
  int code = SUCCESS;
  if (!__atomic_load_n(&active, __ATOMIC_ACQUIRE)) return code;
  for (struct stream *stream = streams; stream; stream = stream->next) {
    if (!stream->capture || !stream->is_blocking || stream->context != context) continue;
    stream->capture->is_invalid = 1;
    code = CAPTURE_IMPLICIT;
  }
  return code;
}

/* ---- the driver's functions ---- */

EXPORT int cuStreamBeginCapture_v2(void *handle, int mode)
{
  int code = enter("cuStreamBeginCapture", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream || mode < GLOBAL || mode > RELAXED) return leave(INVALID_VALUE);
  if (stream->is_legacy) return leave(CAPTURE_UNSUPPORTED);
  struct capture *capture = calloc(1, sizeof *capture);
  if (!capture) abort();
  pthread_mutex_lock(&hardware);
  static unsigned long long ids;
  int is_captured = stream->capture != NULL;
  *capture = (struct capture){.next = captures, .mode = mode, .thread = pthread_self(), .origin = stream, .id = ++ids};
  if (!is_captured) {
    capture->graph = graph_new();
    stream->capture = captures = capture;
    tips_set(&stream->tips, &stream->ntips, NULL, 0);
    __atomic_add_fetch(&active, 1, __ATOMIC_RELEASE);
  }
  pthread_mutex_unlock(&hardware);
  if (is_captured) free(capture);
  return leave(is_captured ? ILLEGAL_STATE : SUCCESS);
}

/* 1 if every stream that has joined the capture has come back to its origin. */
static int is_joined(const struct capture *capture)
{
  const struct stream *origin = capture->origin;
  for (struct stream *stream = streams; stream; stream = stream->next)
    if (stream->capture == capture &&
        !graph_reaches(capture->graph, origin->tips, origin->ntips, stream->tips, stream->ntips))
      return 0;
  return 1;
}

/* Ends it; the graph if it is one. `hardware` is held. */
static int end(struct capture *capture, struct graph **graph)
{
  int code = capture->is_invalid ? CAPTURE_INVALIDATED : is_joined(capture) ? SUCCESS : CAPTURE_UNJOINED;
  for (struct stream *stream = streams; stream; stream = stream->next)
    if (stream->capture == capture) stream->capture = NULL;
  capture->is_ended = 1;
  __atomic_sub_fetch(&active, 1, __ATOMIC_RELEASE);
  *graph = code == SUCCESS ? capture->graph : NULL;
  if (code != SUCCESS) graph_free(capture->graph);
  capture->graph = NULL;
  return code;
}

EXPORT int cuStreamEndCapture(void *handle, struct graph **graph)
{
  int code = enter("cuStreamEndCapture", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  struct capture *capture = stream->capture;
  if (!capture) code = ILLEGAL_STATE;
  else if (capture->origin != stream) code = CAPTURE_UNMATCHED;
  else if (capture->mode != RELAXED && !pthread_equal(capture->thread, pthread_self())) code = CAPTURE_WRONG_THREAD;
  else code = end(capture, graph);
  pthread_mutex_unlock(&hardware);
  if (code == SUCCESS) count_thing("graphs", 1, 0);
  return leave(code);
}

static int status_of(const struct stream *stream)
{
  if (!stream->capture) return IS_NOT_CAPTURED;
  return stream->capture->is_invalid ? IS_INVALIDATED : IS_CAPTURED;
}

EXPORT int cuStreamIsCapturing(void *handle, int *status)
{
  int code = enter("cuStreamIsCapturing", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  *status = status_of(stream);
  code = stream->is_legacy ? capture_forbids_legacy(stream->context) : SUCCESS;
  pthread_mutex_unlock(&hardware);
  return leave(code);
}

EXPORT int cuStreamGetCaptureInfo_v2(void *handle, int *status, unsigned long long *id, struct graph **graph,
                                     struct node ***deps, size_t *ndeps)
{
  int code = enter("cuStreamGetCaptureInfo", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  pthread_mutex_lock(&hardware);
  *status = status_of(stream);
  code = stream->is_legacy ? capture_forbids_legacy(stream->context) : SUCCESS;
  if (*status == IS_CAPTURED) {
    if (id) *id = stream->capture->id;
    if (graph) *graph = stream->capture->graph;
    if (deps) *deps = stream->tips;
    if (ndeps) *ndeps = (size_t)stream->ntips;
  }
  pthread_mutex_unlock(&hardware);
  return leave(code);
}

EXPORT int cuStreamGetCaptureInfo_v3(void *handle, int *status, unsigned long long *id, struct graph **graph,
                                     struct node ***deps, const void **edges, size_t *ndeps)
{
  if (edges) *edges = NULL;
  return cuStreamGetCaptureInfo_v2(handle, status, id, graph, deps, ndeps);
}

EXPORT int cuStreamUpdateCaptureDependencies(void *handle, struct node **deps, size_t ndeps, unsigned flags)
{
  int code = enter("cuStreamUpdateCaptureDependencies", 0);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream || flags > 1) return leave(INVALID_VALUE);
  pthread_mutex_lock(&hardware);
  if (status_of(stream) != IS_CAPTURED) code = stream->capture ? CAPTURE_INVALIDATED : ILLEGAL_STATE;
  else if (flags) tips_set(&stream->tips, &stream->ntips, deps, (int)ndeps);
  else tips_add(&stream->tips, &stream->ntips, deps, (int)ndeps);
  pthread_mutex_unlock(&hardware);
  return leave(code);
}

EXPORT int cuStreamUpdateCaptureDependencies_v2(void *handle, struct node **deps, const void *edges, size_t ndeps,
                                                unsigned flags)
{
  return edges ? INVALID_VALUE : cuStreamUpdateCaptureDependencies(handle, deps, ndeps, flags);
}

EXPORT int cuThreadExchangeStreamCaptureMode(int *mode)
{
  int code = enter("cuThreadExchangeStreamCaptureMode", 0), old = thread_mode;
  if (code != SUCCESS) return code;
  if (*mode < GLOBAL || *mode > RELAXED) return leave(INVALID_VALUE);
  thread_mode = *mode;
  *mode = old;
  return leave(SUCCESS);
}
