/* SPDX-License-Identifier: BSD-3-Clause */
/* Launches of the library's own kernels: their argument is checked, and its pointers become those of the double. */
#include <string.h>

#include "double.h"
#include "kernels.h"
#include "tutti.h"

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
  return reach(*buffer->at, p->count * buffer->size) ? NULL : "a kernel reaches memory that is not a GPU's";
}

#define MOST_SOURCES 1024

static const char *run(const struct kernel *kernel, unsigned blocks, void *args)
{
  struct tt_cuda_params *p = args;
  const void *sources[MOST_SOURCES];
  struct buffer buffer;
  size_t size = element_size(kernel->number);
  if (p->nsrc < 1 || p->nsrc > MOST_SOURCES) return "a kernel without or with too many sources";
  const void *const *list = p->nsrc <= TT_CUDA_INLINE ? p->sources : reach(p->table, (size_t)p->nsrc * sizeof *list);
  if (!list) return "the list of sources is not where a GPU reaches it";
  memcpy(sources, list, (size_t)p->nsrc * sizeof *sources);
  for (int k = 0; buffer_at(p, sources, size, k, &buffer); k++) {
    const char *fault = fault_of(p, &buffer);
    if (fault) return fault;
    *buffer.at = reach(*buffer.at, p->count * buffer.size);
  }
  if (p->overflow && !(p->overflow = reach(p->overflow, sizeof *p->overflow))) return "a flag that no GPU reaches";
  if (p->nsrc <= TT_CUDA_INLINE) memcpy(p->sources, sources, (size_t)p->nsrc * sizeof *sources);
  p->table = sources;
  if (p->vectors && p->head * size >= TT_CUDA_VECTOR) return "a head as long as a vector";
  if (p->head + p->vectors * (TT_CUDA_VECTOR / size) > p->count) return "more vectors than elements";
  cpu_kernel_run(kernel->number, blocks, p);
  return NULL;
}

#define MOST_KERNELS 128

const struct kernel *tutti_kernel(const char *name)
{
  static struct kernel kernels[MOST_KERNELS];
  int number = cpu_kernel_find(name);
  if (number < 0 || number >= MOST_KERNELS) return NULL;
  pthread_mutex_lock(&hardware);
  if (!kernels[number].run) kernels[number] = (struct kernel){"", sizeof(struct tt_cuda_params), NULL, run, number};
  pthread_mutex_unlock(&hardware);
  return &kernels[number];
}
