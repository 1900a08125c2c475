/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: each stands for the operations of a stream up to one batch. Those that have not ended are in a list of their
 * stream, in the order of their batches; whoever finishes an operation of the stream ends them. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "comm/private.h"

struct tuttiEvent {
  uint32_t magic;
  _Atomic int state;          /* tuttiInProgress until it has ended, then its result; set last, with release */
  struct tuttiStream *stream; /* NULL: it has ended. This and what follows are guarded by tt_process.mutex */
  struct tuttiEvent *next;    /* in the list of the stream */
  uint64_t batch;             /* the newest one of the stream when it was recorded */
  int fd;                     /* an eventfd, which is 1 once it has ended; -1: nobody has asked for it */
  tuttiResult_t code;         /* the first error of that batch so far; not guarded once it has ended */
  char sentence[TT_SENTENCE_BYTES];
};

#define EVENT_MAGIC 0x45766e74u

tuttiResult_t tt_event_check(const struct tuttiEvent *event)
{
  if (!event) return tt_null("event");
  if (event->magic != EVENT_MAGIC)
    return tt_fail(tuttiInvalidArgument, "event %p is no event: it was destroyed, or never created",
                   (const void *)event);
  return tt_process_check();
}

tuttiResult_t tt_event_create(struct tuttiEvent **out)
{
  struct tuttiEvent *event = tt_alloc(1, sizeof *event);
  if (!event) return tt_fail(tuttiSystemError, "out of memory for an event");
  event->magic = EVENT_MAGIC;
  event->fd = -1;
  *out = event;
  return tuttiSuccess;
}

/* It cannot fail, as the counter is 0 or 1. */
static void raise_locked(const struct tuttiEvent *event)
{
  uint64_t one = 1;
  if (event->fd < 0) return;
  ssize_t n = write(event->fd, &one, sizeof one);
  (void)n;
}

static void lower_locked(const struct tuttiEvent *event)
{
  uint64_t one;
  if (event->fd < 0) return;
  ssize_t n = read(event->fd, &one, sizeof one); /* it does not block if the counter is 0 */
  (void)n;
}

static void end_locked(struct tuttiEvent *event)
{
  event->stream = NULL;
  atomic_store_explicit(&event->state, (int)event->code, memory_order_release);
  raise_locked(event);
}

struct tuttiEvent *tt_events_take_locked(struct tuttiStream *stream)
{
  struct tuttiEvent *first = stream->events, **at = &first;
  while (*at && (!stream->first || stream->first->batch > (*at)->batch)) at = &(*at)->next;
  stream->events = *at;
  *at = NULL;
  return first;
}

void tt_events_end_locked(struct tuttiEvent *first)
{
  while (first) {
    struct tuttiEvent *next = first->next;
    end_locked(first);
    first = next;
  }
}

static void fail(struct tuttiEvent *event, tuttiResult_t code, const char *sentence)
{
  event->code = code;
  snprintf(event->sentence, sizeof event->sentence, "%s", sentence);
}

void tt_events_fail_locked(struct tuttiStream *stream, uint64_t batch, tuttiResult_t code, const char *sentence)
{
  for (struct tuttiEvent *event = stream->events; event; event = event->next)
    if (event->batch == batch && event->code == tuttiSuccess) fail(event, code, sentence);
  if (batch < stream->batch || batch == stream->failed.batch) return; /* a record asks for the newest batch only */
  stream->failed.batch = batch;
  stream->failed.code = code;
  snprintf(stream->failed.sentence, sizeof stream->failed.sentence, "%s", sentence);
}

/* Takes an event that has not ended out of the list of its stream. */
static void leave_locked(struct tuttiEvent *event)
{
  if (!event->stream) return;
  struct tuttiEvent **at = &event->stream->events;
  while (*at != event) at = &(*at)->next;
  *at = event->next;
  event->stream = NULL;
}

static void join_locked(struct tuttiEvent *event, struct tuttiStream *stream)
{
  struct tuttiEvent **at = &stream->events;
  while (*at) at = &(*at)->next;
  *at = event;
  event->next = NULL;
  event->stream = stream;
}

void tt_event_record(struct tuttiEvent *event, struct tuttiStream *stream)
{
  pthread_mutex_lock(&tt_process.mutex);
  leave_locked(event);
  lower_locked(event);
  event->batch = stream->batch;
  event->code = tuttiSuccess;
  if (stream->failed.batch == stream->batch) fail(event, stream->failed.code, stream->failed.sentence);
  if (stream->first) {
    atomic_store_explicit(&event->state, tuttiInProgress, memory_order_relaxed);
    join_locked(event, stream);
  } else {
    end_locked(event);
  }
  pthread_mutex_unlock(&tt_process.mutex);
}

tuttiResult_t tt_event_query(const struct tuttiEvent *event)
{
  int state = atomic_load_explicit(&event->state, memory_order_acquire);
  if (state == tuttiSuccess || state == tuttiInProgress) return (tuttiResult_t)state;
  return tt_fail_quiet((tuttiResult_t)state, event->sentence);
}

tuttiResult_t tt_event_synchronize(const struct tuttiEvent *event, int timeout_ms)
{
  uint64_t began_ns = tt_now_ns();
  struct tt_waiter waiter;
  tt_waiter_init(&waiter, 1);
  tuttiResult_t result;
  while ((result = tt_event_query(event)) == tuttiInProgress) {
    if (timeout_ms >= 0 && tt_now_ns() - began_ns >= (uint64_t)timeout_ms * 1000000u) break;
    tt_waiter_pause(&waiter, 0);
  }
  return result;
}

tuttiResult_t tt_event_descriptor(struct tuttiEvent *event, int *fd)
{
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  if (event->fd < 0) {
    event->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event->fd < 0)
      result = tt_fail(tuttiSystemError, "no descriptor for an event: %s; raise the limit (ulimit -n)",
                       strerror(errno));
    else if (!event->stream) raise_locked(event);
  }
  if (result == tuttiSuccess) *fd = event->fd;
  pthread_mutex_unlock(&tt_process.mutex);
  return result;
}

void tt_event_destroy(struct tuttiEvent *event)
{
  pthread_mutex_lock(&tt_process.mutex); /* a thread that ends it may not have come out of that yet */
  leave_locked(event);
  pthread_mutex_unlock(&tt_process.mutex);
  if (event->fd >= 0) close(event->fd);
  event->magic = 0;
  tt_free(event);
}
