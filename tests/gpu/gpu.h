/* SPDX-License-Identifier: BSD-3-Clause */
/* A real GPU, for the check. */
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include <stddef.h>

#include "driver_load.h"

struct gpu {
  struct driver cu;
  int count; /* GPUs */
  int ordinal;
  void *context; /* its primary one; current on no thread, as in a program's other threads */
};

/* Starts the driver; NULL, or why not. */
const char *gpu_open(struct gpu *gpu, int ordinal);
void gpu_close(struct gpu *gpu);

void *gpu_alloc(struct gpu *gpu, size_t len); /* NULL: out of memory */
void gpu_free(struct gpu *gpu, void *memory);
int gpu_copy(struct gpu *gpu, void *dst, const void *src, size_t len); /* one is the host's; 0 if it fails */

/* The check; the number of failures. threads 0: as processes; then nobody may have started the driver before. */
int check_ranks(int threads);

#endif
