/* SPDX-License-Identifier: BSD-3-Clause */
/* Work that the fake driver was given and has not done: in the order of each stream, and no other. */
#ifndef FAKE_CUDA_QUEUE_H
#define FAKE_CUDA_QUEUE_H

#include <stddef.h>

#include "cuda/params_private.h"

enum { WORK_EVENT, WORK_COPY, WORK_KERNEL };

struct work {
  int kind, stream;
  int *pending; /* of an event: becomes one less */
  void *dst;
  const void *src;
  size_t len;
  int kernel;
  unsigned blocks;
  struct tt_cuda_params params;
};

/* 0 if there is no room. */
int queue_put(const struct work *work);

/* Takes the oldest work of one of the streams that have some, chosen by `chance`, or of the given one; 0 if there is
 * none. *overtakes: it is not the oldest of all. */
int queue_take(unsigned chance, struct work *work, int *overtakes);
int queue_take_of(int stream, struct work *work);

/* 1 if work under way has to do with the memory. */
int queue_uses(const char *at, size_t len);

/* Does it. NULL, or what it must not do. */
const char *work_do(const struct work *work);

/* driver.c: where the CPU reaches what a GPU is to read or write; NULL if a GPU may not. */
void *fake_reach(const void *pointer, size_t len);

#endif
