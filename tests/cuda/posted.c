/* SPDX-License-Identifier: BSD-3-Clause */
/* Stores of GPUs to the host that land late: FAKE_FLAGS_LATE_US lets words of write-value operations be seen some time
 * after the GPU has gone on, in their order; with FAKE_BYTES_LATE, bytes of copies to the host land after the word that
 * is written behind them. Whoever asks the driver for the end of work sees all. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "double.h"

struct store {
  struct store *next;
  struct stream *stream; /* of bytes that are held back */
  void *to;
  uint64_t value, due_ns;
  size_t len;
  unsigned char bytes[];
};

static struct {
  pthread_mutex_t mutex;
  pthread_cond_t more;
  struct store *first, **last, *held, **held_last;
  uint64_t due_ns, random;
  long put, landed;
  int is_started;
} posted = {.mutex = PTHREAD_MUTEX_INITIALIZER, .more = PTHREAD_COND_INITIALIZER, .last = &posted.first,
            .held_last = &posted.held, .random = 7};

static uint64_t now_ns(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static void word_store(void *to, uint64_t value, unsigned size)
{
  if (size == 8) __atomic_store_n((uint64_t *)to, value, __ATOMIC_SEQ_CST);
  else __atomic_store_n((uint32_t *)to, (uint32_t)value, __ATOMIC_SEQ_CST);
}

static void land(struct store *store)
{
  if (store->stream) memcpy(store->to, store->bytes, store->len);
  else word_store(store->to, store->value, (unsigned)store->len);
  free(store);
}

static void *lander(void *unused)
{
  (void)unused;
  pthread_mutex_lock(&posted.mutex);
  for (;;) {
    while (!posted.first) pthread_cond_wait(&posted.more, &posted.mutex);
    uint64_t due = posted.first->due_ns, now = now_ns();
    if (due > now) {
      pthread_mutex_unlock(&posted.mutex);
      usleep((useconds_t)((due - now) / 1000 + 1));
      pthread_mutex_lock(&posted.mutex);
      continue;
    }
    struct store *store = posted.first;
    posted.first = store->next;
    if (!posted.first) posted.last = &posted.first;
    land(store);
    posted.landed++;
  }
  return NULL;
}

/* Puts a store at the end, to land `late_us` at most after the one before. The mutex is held. */
static void post(struct store *store, unsigned late_us)
{
  pthread_t thread;
  uint64_t due = now_ns() + draw(&posted.random, late_us + 1u) * 1000;
  if (due > posted.due_ns) posted.due_ns = due;
  store->due_ns = posted.due_ns;
  store->next = NULL;
  *posted.last = store;
  posted.last = &store->next;
  posted.put++;
  if (!posted.is_started && pthread_create(&thread, NULL, lander, NULL) != 0) abort();
  if (!posted.is_started) pthread_detach(thread);
  posted.is_started = 1;
  pthread_cond_signal(&posted.more);
}

static struct store *store_new(size_t len)
{
  struct store *store = calloc(1, sizeof *store + len);
  if (!store) abort();
  store->len = len;
  return store;
}

void posted_store(void *to, uint64_t value, unsigned size)
{
  if (!settings()->flags_late_us && !settings()->bytes_late) {
    word_store(to, value, size);
    return;
  }
  struct store *store = store_new(0);
  store->to = to;
  store->value = value;
  store->len = size;
  pthread_mutex_lock(&posted.mutex);
  post(store, settings()->flags_late_us);
  pthread_mutex_unlock(&posted.mutex);
}

void posted_copy(struct stream *stream, void *to, const void *from, size_t len)
{
  if (!settings()->bytes_late) {
    memmove(to, from, len);
    return;
  }
  struct store *store = store_new(len);
  store->stream = stream;
  store->to = to;
  memcpy(store->bytes, from, len);
  pthread_mutex_lock(&posted.mutex);
  *posted.held_last = store;
  posted.held_last = &store->next;
  pthread_mutex_unlock(&posted.mutex);
}

/* Posts what is held back, of one stream or of all. The mutex is held. */
static void release(const struct stream *stream, unsigned late_us)
{
  struct store **at = &posted.held;
  while (*at) {
    struct store *store = *at;
    if (stream && store->stream != stream) {
      at = &store->next;
      continue;
    }
    *at = store->next;
    post(store, late_us);
  }
  posted.held_last = at;
}

void posted_flag_is_out(struct stream *stream)
{
  if (!settings()->bytes_late) return;
  pthread_mutex_lock(&posted.mutex);
  release(stream, 500);
  pthread_mutex_unlock(&posted.mutex);
}

void posted_land(void)
{
  if (!settings()->flags_late_us && !settings()->bytes_late) return;
  pthread_mutex_lock(&posted.mutex);
  release(NULL, 0);
  long until = posted.put;
  while (posted.landed < until) {
    pthread_mutex_unlock(&posted.mutex);
    usleep(20);
    pthread_mutex_lock(&posted.mutex);
  }
  pthread_mutex_unlock(&posted.mutex);
}
