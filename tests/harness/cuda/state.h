/* SPDX-License-Identifier: BSD-3-Clause */
/* What the fake driver has in its memory, shared by its files. */
#ifndef FAKE_CUDA_STATE_H
#define FAKE_CUDA_STATE_H

#include <pthread.h>

#include "fake_cuda.h"

#define EXPORT __attribute__((visibility("default")))
#define REGIONS 1024

struct region {
  char *at;
  size_t len, room; /* room 0: not in use */
  enum fake_memory kind;
  int context;
};

struct stream {
  int alive, context;
};

struct event {
  int alive, context, pending;
};

#define STREAMS 256
#define EVENTS 65536

struct fake_state {
  pthread_mutex_t mutex;
  char *shown, *hidden; /* the same memory: no access, and as the GPUs see it */
  struct region regions[REGIONS];
  struct stream streams[STREAMS];
  struct event events[EVENTS];
  struct fake_cuda_counts counts;
  uint64_t random;
  long fail_at;
  int fail_code, has_no_kernels;
  const char *failed;
  char contexts[FAKE_CONTEXTS]; /* their addresses are the handles */
};

extern struct fake_state fake_state;

/* Contexts pushed by the calling thread. */
int fake_context_depth(void);

/* The mutex is held in all of these. NULL if there is no room. */
void *fake_memory_make(int context, enum fake_memory kind, size_t len);
int fake_memory_end(void *pointer, int pinned);
struct region *fake_region_of(const void *pointer);

#endif
