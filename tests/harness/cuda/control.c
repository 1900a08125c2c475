/* SPDX-License-Identifier: BSD-3-Clause */
/* What tests do with the fake driver. */
#include <stdlib.h>
#include <string.h>

#include "queue.h"
#include "state.h"

static void seed(uint64_t value)
{
  pthread_mutex_lock(&fake_state.mutex);
  fake_state.random = value;
  pthread_mutex_unlock(&fake_state.mutex);
}

static struct fake_cuda_counts count(void)
{
  pthread_mutex_lock(&fake_state.mutex);
  struct fake_cuda_counts counts = fake_state.counts;
  pthread_mutex_unlock(&fake_state.mutex);
  counts.contexts = fake_context_depth();
  return counts;
}

static void fail_at(long n, int code)
{
  pthread_mutex_lock(&fake_state.mutex);
  fake_state.fail_at = n;
  fake_state.fail_code = code;
  fake_state.failed = NULL;
  pthread_mutex_unlock(&fake_state.mutex);
}

static const char *failed(void)
{
  return fake_state.failed;
}

static void have_kernels(int there)
{
  fake_state.has_no_kernels = !there;
}

static void forget(void)
{
  struct work work;
  int unused;
  pthread_mutex_lock(&fake_state.mutex);
  while (queue_take(0, &work, &unused)) {}
  for (int r = 0; r < REGIONS; r++) {
    if (fake_state.regions[r].room && fake_state.regions[r].kind == FAKE_PINNED) free(fake_state.regions[r].at);
    fake_state.regions[r].room = 0;
  }
  memset(fake_state.streams, 0, sizeof fake_state.streams);
  memset(fake_state.events, 0, sizeof fake_state.events);
  memset(&fake_state.counts, 0, sizeof fake_state.counts);
  pthread_mutex_unlock(&fake_state.mutex);
}

static void *user_alloc(int context, enum fake_memory kind, size_t len)
{
  pthread_mutex_lock(&fake_state.mutex);
  void *memory = fake_memory_make(context, kind, len);
  pthread_mutex_unlock(&fake_state.mutex);
  return memory;
}

static void user_free(void *pointer)
{
  pthread_mutex_lock(&fake_state.mutex);
  const struct region *region = pointer ? fake_region_of(pointer) : NULL;
  if (region) fake_memory_end(pointer, region->kind == FAKE_PINNED);
  pthread_mutex_unlock(&fake_state.mutex);
}

static void user_write(void *dst, const void *host, size_t len)
{
  pthread_mutex_lock(&fake_state.mutex);
  memcpy(fake_reach(dst, len), host, len);
  pthread_mutex_unlock(&fake_state.mutex);
}

static void user_read(void *host, const void *src, size_t len)
{
  pthread_mutex_lock(&fake_state.mutex);
  memcpy(host, fake_reach(src, len), len);
  pthread_mutex_unlock(&fake_state.mutex);
}

EXPORT fake_cuda_fn fake_cuda;

const struct fake_cuda *fake_cuda(void)
{
  static const struct fake_cuda functions = {seed,   count,      fail_at,   failed,     have_kernels,
                                             forget, user_alloc, user_free, user_write, user_read};
  return &functions;
}
