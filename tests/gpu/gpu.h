/* SPDX-License-Identifier: BSD-3-Clause */
/* The real driver, for the check on a GPU. */
#ifndef GPU_CHECK_H
#define GPU_CHECK_H

#include "cuda/driver_private.h"
#include "device/device.h"

struct gpu {
  struct cuda_driver driver;
  int count; /* GPUs */
  int ordinal;
  void *context; /* its primary one; current on no thread, as in a program's other threads */
};

/* Starts the driver; 0 and why not in text. */
int gpu_open(struct gpu *gpu, int ordinal, char *text, size_t size);
void gpu_close(struct gpu *gpu);

void *gpu_alloc(struct gpu *gpu, size_t len); /* NULL: out of memory */
void gpu_free(struct gpu *gpu, void *memory);

/* Parts of the check; the number of failures. */
int check_bits(void);
int check_ranks(int threads); /* 0: as processes; then nobody may have started the driver before */
int check_speed(void);

#endif
