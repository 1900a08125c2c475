/* SPDX-License-Identifier: BSD-3-Clause */
/* Channels: queues of work, each with a thread that does one piece after the other. Streams of a context share its
 * channels in turn, so whatever waits in a channel holds up all that was put into it later, of other streams too. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "control.h"

struct channel {
  struct work *first, **last;
  unsigned length;
  uint64_t random;
  struct context *context;
  int number;
  pthread_cond_t more;
};

pthread_mutex_t hardware = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t progress = PTHREAD_COND_INITIALIZER;
static long pending, overtaken;
static int is_held;
static uint64_t serials;

void progress_wait(void)
{
  pthread_cond_wait(&progress, &hardware);
}

/* Lets other channels and the program overtake, by chance. */
static void delay(struct channel *channel)
{
  uint64_t kind = draw(&channel->random, 8);
  if (!settings()->delay_us) return;
  if (kind == 7) usleep((useconds_t)draw(&channel->random, settings()->delay_us + 1u));
  else if (kind > 4) sched_yield();
}

/* 1 if a channel has older work. `hardware` is held. */
static int overtakes(const struct work *work)
{
  for (int c = 0; c < CONTEXTS; c++)
    for (unsigned k = 0; k < settings()->channels; k++) {
      const struct channel *channel = contexts[c].channels[k];
      if (channel && channel->first && channel->first->serial < work->serial) return 1;
    }
  return 0;
}

/* `hardware` is held. */
static void finish(struct channel *channel, struct work *work)
{
  channel->first = work->next;
  if (!channel->first) channel->last = &channel->first;
  channel->length--;
  pending--;
  overtaken += overtakes(work);
  work->stream->done = work->number;
  pthread_cond_broadcast(&progress);
}

static void *serve(void *argument)
{
  struct channel *channel = argument;
  char name[16];
  snprintf(name, sizeof name, "gpu%d-channel%d", channel->context->gpu, channel->number);
  prctl(PR_SET_NAME, name);
  pthread_mutex_lock(&hardware);
  for (;;) {
    while (!channel->first || is_held) pthread_cond_wait(channel->first ? &progress : &channel->more, &hardware);
    struct work *work = channel->first;
    pthread_mutex_unlock(&hardware);
    delay(channel);
    work_do(work);
    pthread_mutex_lock(&hardware);
    finish(channel, work);
    work_free(work);
  }
  return NULL;
}

/* `hardware` is held. */
static struct channel *channel_of(struct context *context, unsigned c)
{
  pthread_t thread;
  if (context->channels[c]) return context->channels[c];
  struct channel *channel = calloc(1, sizeof *channel);
  if (!channel) abort();
  channel->last = &channel->first;
  channel->context = context;
  channel->number = (int)c;
  channel->random = settings()->seed * 1000003u + (uint64_t)(context - contexts) * 101 + c;
  pthread_cond_init(&channel->more, NULL);
  context->channels[c] = channel;
  if (pthread_create(&thread, NULL, serve, channel) != 0) abort();
  pthread_detach(thread);
  return channel;
}

/* A stream that nobody uses any more, or a new one. */
static struct stream *stream_take(void)
{
  for (struct stream *stream = streams; stream; stream = stream->next)
    if (!stream->is_alive && stream->submitted == stream->done && !stream->capture) return stream;
  struct stream *stream = calloc(1, sizeof *stream);
  if (!stream) abort();
  stream->next = streams;
  streams = stream;
  return stream;
}

/* `hardware` is held. */
struct stream *channel_stream(struct context *context, unsigned flags)
{
  struct stream *stream = stream_take();
  stream->is_alive = 1;
  stream->is_legacy = stream->has_owner = 0;
  stream->is_blocking = !(flags & 1);
  stream->flags = flags;
  stream->priority = 0;
  stream->context = context;
  stream->channel = channel_of(context, context->next_channel++ % settings()->channels);
  stream->legacy_seen = context->legacy ? context->legacy->done : 0;
  stream->random = settings()->seed * 31 + context->next_channel;
  return stream;
}

/* An event is the newest record at the time when work is put into a channel. */
static void event_resolve(struct work *work)
{
  if (work->kind == WORK_AFTER && work->after.event) {
    work->after.stream = work->after.event->stream;
    work->after.number = work->after.event->number;
  }
  if (work->kind != WORK_RECORD) return;
  work->event->stream = work->stream;
  work->event->number = work->number;
  work->event->capture = NULL;
}

void channel_put(struct stream *stream, struct work *work)
{
  struct channel *channel = stream->channel;
  work->stream = stream;
  work->number = ++stream->submitted;
  work->serial = ++serials;
  work->next = NULL;
  event_resolve(work);
  *channel->last = work;
  channel->last = &work->next;
  channel->length++;
  pending++;
  pthread_cond_signal(&channel->more);
}

static void put_after(struct stream *stream, struct stream *other, uint64_t number)
{
  struct work *work = calloc(1, sizeof *work);
  if (!work) abort();
  work->kind = WORK_AFTER;
  work->after.stream = other;
  work->after.number = number;
  channel_put(stream, work);
}

/* The rules of the legacy stream: it waits for all blocking streams, and they wait for it. `hardware` is held. */
static void order_legacy(struct stream *stream)
{
  struct stream *legacy = stream->context->legacy;
  if (stream->is_legacy) {
    for (struct stream *other = streams; other; other = other->next)
      if (other != stream && other->context == stream->context && other->is_blocking && other->done < other->submitted)
        put_after(stream, other, other->submitted);
  } else if (stream->is_blocking && legacy && legacy->done < legacy->submitted &&
             stream->legacy_seen < legacy->submitted) {
    stream->legacy_seen = legacy->submitted;
    put_after(stream, legacy, legacy->submitted);
  }
}

static int submit_locked(struct stream *stream, struct work *work)
{
  if (capture_is_active(stream)) return capture_add(stream, work);
  int code = stream->is_legacy ? capture_forbids_legacy(stream->context) : SUCCESS;
  if (code != SUCCESS) {
    work_free(work);
    return code;
  }
  while (stream->channel->length >= settings()->push) progress_wait();
  order_legacy(stream);
  channel_put(stream, work);
  return SUCCESS;
}

int submit(struct stream *stream, struct work *work)
{
  pthread_mutex_lock(&hardware);
  int code = submit_locked(stream, work);
  pthread_mutex_unlock(&hardware);
  return code;
}

void wait_done(struct stream *stream, uint64_t number)
{
  pthread_mutex_lock(&hardware);
  while (stream->done < number) progress_wait();
  pthread_mutex_unlock(&hardware);
}

void wait_idle(void)
{
  pthread_mutex_lock(&hardware);
  for (struct stream *stream = streams; stream; stream = stream->next) {
    uint64_t until = stream->submitted;
    while (stream->done < until) progress_wait();
  }
  pthread_mutex_unlock(&hardware);
}

void hold(int is_wanted)
{
  pthread_mutex_lock(&hardware);
  is_held = is_wanted;
  pthread_cond_broadcast(&progress);
  pthread_mutex_unlock(&hardware);
}

long work_overtaken(void)
{
  pthread_mutex_lock(&hardware);
  long many = overtaken;
  pthread_mutex_unlock(&hardware);
  return many;
}

long work_pending(void)
{
  pthread_mutex_lock(&hardware);
  long left = pending;
  pthread_mutex_unlock(&hardware);
  return left;
}
