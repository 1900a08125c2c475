/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver double's side for tests of the library's own code: its counts, failures at any call, work that is held
 * back, memory at once. Any thread. */
#ifndef FAKE_CUDA_H
#define FAKE_CUDA_H

#include <stddef.h>
#include <stdint.h>

#define FAKE_CONTEXTS 3 /* the primary ones of GPUs 0 and 1, and a second one on GPU 0; they need not be made */

enum fake_memory { FAKE_DEVICE, FAKE_MANAGED, FAKE_POOLED /* it belongs to no context */, FAKE_PINNED };

struct fake_cuda_counts {
  long calls;
  long launches, copies, queries;
  long overtaken; /* work that was done before older work of another channel */
  long breaches;
  long memory, pinned, streams, events, modules, retained; /* alive */
  long registered; /* bytes of the program's own memory that are pinned */
  long pending;   /* work not done yet */
  long contexts;  /* pushed and not popped, on the calling thread */
};

struct fake_cuda {
  struct fake_cuda_counts (*count)(void);
  /* The n-th call from now on returns `code`, and does nothing but for those that free; 0: none. */
  void (*fail_at)(long n, int code);
  const char *(*failed)(void); /* the function that did so, NULL: none yet */
  void (*hold)(int is_wanted); /* 1: channels begin no work until 0 */
  void (*forget)(void);        /* all that is alive or under way, and all counts */
  /* What a program does by itself; at once. */
  void *(*alloc)(int context, enum fake_memory kind, size_t len);
  void (*free)(void *pointer);
  void (*write)(void *dst, const void *host, size_t len);
  void (*read)(void *host, const void *src, size_t len);
};

/* The library exports: const struct fake_cuda *fake_cuda(void), which starts the driver as cuInit does. */
#define FAKE_CUDA_SYMBOL "fake_cuda"
typedef const struct fake_cuda *fake_cuda_fn(void);

#endif
