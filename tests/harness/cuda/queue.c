/* SPDX-License-Identifier: BSD-3-Clause */
#include "queue.h"

#include <string.h>

#include "kernels.h"
#include "tutti.h"

#define ROOM 4096
#define STREAMS 256

static struct {
  struct work work[ROOM]; /* oldest first */
  int length;
} queue;

int queue_put(const struct work *work)
{
  if (queue.length == ROOM) return 0;
  queue.work[queue.length++] = *work;
  return 1;
}

static void take(int index, struct work *work)
{
  *work = queue.work[index];
  queue.length--;
  memmove(&queue.work[index], &queue.work[index + 1], (size_t)(queue.length - index) * sizeof *work);
}

static int oldest_of(int stream)
{
  for (int i = 0; i < queue.length; i++)
    if (queue.work[i].stream == stream) return i;
  return -1;
}

int queue_take_of(int stream, struct work *work)
{
  int index = oldest_of(stream);
  if (index >= 0) take(index, work);
  return index >= 0;
}

int queue_take(unsigned chance, struct work *work, int *overtakes)
{
  if (!queue.length) return 0;
  int index = oldest_of(queue.work[chance % (unsigned)queue.length].stream);
  *overtakes = index > 0;
  take(index, work);
  return 1;
}

/* ---- what a kernel reaches ---- */

struct buffer {
  const void **at;
  size_t size; /* of an element */
};

static size_t element_size(int kernel)
{
  static const size_t sizes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return sizes[cpu_kernel_type(kernel)];
}

/* The k-th buffer of a kernel, in its argument and in the list `sources` of those; 0 behind the last. */
static int buffer_at(struct tt_cuda_params *p, const void **sources, size_t size, int k, struct buffer *buffer)
{
  *buffer = (struct buffer){k < p->nsrc ? &sources[k] : NULL, k == p->wide ? 4 : size};
  if (k == p->nsrc) *buffer = (struct buffer){(const void **)(void *)&p->dst, p->dst_wide ? 4 : size};
  if (k == p->nsrc + 1 && p->also) *buffer = (struct buffer){(const void **)(void *)&p->also, size};
  return buffer->at != NULL;
}

static const char *fault_of(const struct tt_cuda_params *p, const struct buffer *buffer)
{
  uintptr_t at = (uintptr_t)*buffer->at;
  if (p->is_aligned && at % buffer->size) return "elements at odd addresses";
  if (p->vectors && (at + p->head * buffer->size) % TT_CUDA_VECTOR) return "vectors at odd addresses";
  return fake_reach(*buffer->at, p->count * buffer->size) ? NULL : "a kernel reaches memory that is not a GPU's";
}

#define MOST_SOURCES 1024

static const char *kernel_do(const struct work *work)
{
  struct tt_cuda_params p = work->params;
  const void *sources[MOST_SOURCES];
  struct buffer buffer;
  size_t size = element_size(work->kernel);
  if (p.nsrc < 1 || p.nsrc > MOST_SOURCES) return "a kernel without or with too many sources";
  const void *const *list = p.nsrc <= TT_CUDA_INLINE ? p.sources : fake_reach(p.table, (size_t)p.nsrc * sizeof *list);
  if (!list) return "the list of sources is not where a GPU reaches it";
  memcpy(sources, list, (size_t)p.nsrc * sizeof *sources);
  for (int k = 0; buffer_at(&p, sources, size, k, &buffer); k++) {
    const char *fault = fault_of(&p, &buffer);
    if (fault) return fault;
    *buffer.at = fake_reach(*buffer.at, p.count * buffer.size);
  }
  if (p.overflow && !(p.overflow = fake_reach(p.overflow, sizeof *p.overflow))) return "a flag that no GPU reaches";
  if (p.nsrc <= TT_CUDA_INLINE) memcpy(p.sources, sources, (size_t)p.nsrc * sizeof *sources);
  p.table = sources;
  if (p.vectors && p.head * size >= TT_CUDA_VECTOR) return "a head as long as a vector";
  if (p.head + p.vectors * (TT_CUDA_VECTOR / size) > p.count) return "more vectors than elements";
  cpu_kernel_run(work->kernel, work->blocks, &p);
  return NULL;
}

const char *work_do(const struct work *work)
{
  if (work->kind == WORK_EVENT) *work->pending -= 1;
  if (work->kind == WORK_KERNEL) return kernel_do(work);
  if (work->kind != WORK_COPY) return NULL;
  void *dst = fake_reach(work->dst, work->len);
  const void *src = fake_reach(work->src, work->len);
  if (!dst || !src) return "a copy of memory that is not a GPU's or pinned";
  memmove(dst, src, work->len);
  return NULL;
}

static int overlap(const char *at, size_t len, const void *other, size_t other_len)
{
  return at < (const char *)other + other_len && (const char *)other < at + len;
}

int queue_uses(const char *at, size_t len)
{
  int found = 0;
  for (int i = 0; i < queue.length; i++) {
    struct work *work = &queue.work[i];
    struct buffer buffer;
    if (work->kind == WORK_COPY)
      found |= overlap(at, len, work->dst, work->len) || overlap(at, len, work->src, work->len);
    if (work->kind != WORK_KERNEL) continue;
    struct tt_cuda_params *p = &work->params;
    if (p->overflow) found |= overlap(at, len, p->overflow, sizeof *p->overflow);
    if (p->nsrc > TT_CUDA_INLINE) continue; /* its list may be gone with the memory */
    for (int k = 0; buffer_at(p, p->sources, element_size(work->kernel), k, &buffer); k++)
      found |= overlap(at, len, *buffer.at, p->count * buffer.size);
  }
  return found;
}
