/* SPDX-License-Identifier: BSD-3-Clause */
/* libcuda.so.1 without a GPU, for tests: a shared library that a test loads by its path before it makes a communicator.
 * It is as unkind as a driver may be:
 * - the CPU cannot touch the memory of its GPUs (managed memory neither);
 * - work on a stream is done some time, in the order of the stream, while events are asked for, other streams before
 *   or after it; kernels are those of src/cuda/kernels.cu, compiled for the CPU;
 * - any call can be made to fail.
 * What the contract of the driver, or of src/cuda with it, forbids is counted as a breach and told on stderr:
 * memory outside of allocations, pageable memory given to a copy or kernel, vectors at odd addresses, calls without
 * the right context, and more. Any thread. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_CONTEXTS 3 /* the primary ones of GPUs 0 and 1, and a second one on GPU 0 */

enum fake_memory { FAKE_DEVICE, FAKE_MANAGED, FAKE_POOLED /* it belongs to no context */, FAKE_PINNED };

struct fake_cuda_counts {
  long calls;     /* of functions that can fail */
  long launches, copies, queries;
  long overtaken; /* work that was done before older work of another stream */
  long breaches;
  long memory, pinned, streams, events, modules, retained; /* alive */
  long pending;   /* work not done yet */
  long contexts;  /* pushed and not popped, on the calling thread */
};

struct fake_cuda {
  void (*seed)(uint64_t seed); /* of what is done when */
  struct fake_cuda_counts (*count)(void);
  /* The n-th call from now on returns `code`, and does nothing but for those that free; 0: none. */
  void (*fail_at)(long n, int code);
  const char *(*failed)(void); /* the function that did so, NULL: none yet */
  void (*kernels)(int there);  /* 0: modules have none */
  void (*forget)(void);        /* all that is alive or under way, and all counts */
  /* What a program does by itself; at once. */
  void *(*alloc)(int context, enum fake_memory kind, size_t len);
  void (*free)(void *pointer);
  void (*write)(void *dst, const void *host, size_t len);
  void (*read)(void *host, const void *src, size_t len);
};

/* The library exports: const struct fake_cuda *fake_cuda(void). */
#define FAKE_CUDA_SYMBOL "fake_cuda"
typedef const struct fake_cuda *fake_cuda_fn(void);

#endif
