/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

#include <stdio.h>

int gpu_open(struct gpu *gpu, int ordinal, char *text, size_t size)
{
  *gpu = (struct gpu){.ordinal = ordinal};
  if (!tt_cuda_driver_open(&gpu->driver, 1, text, size)) return 0;
  int code = gpu->driver.init(0);
  if (code == CU_SUCCESS) code = gpu->driver.device_count(&gpu->count);
  if (code == CU_SUCCESS && !gpu->count) code = CU_NO_DEVICE;
  if (code == CU_SUCCESS) gpu->ordinal = ordinal % gpu->count;
  if (code == CU_SUCCESS) code = gpu->driver.primary_retain(&gpu->context, gpu->ordinal);
  if (code == CU_SUCCESS) return 1;
  snprintf(text, size, "the driver does not start: %s (CUDA error %d)", tt_cuda_text(&gpu->driver, code), code);
  tt_cuda_driver_close(&gpu->driver);
  return 0;
}

void gpu_close(struct gpu *gpu)
{
  gpu->driver.primary_release(gpu->ordinal);
  tt_cuda_driver_close(&gpu->driver);
}

void *gpu_alloc(struct gpu *gpu, size_t len)
{
  uint64_t pointer = 0;
  void *context;
  if (gpu->driver.context_push(gpu->context) != CU_SUCCESS) return NULL;
  int code = gpu->driver.memory_alloc(&pointer, len ? len : 1);
  gpu->driver.context_pop(&context);
  return code == CU_SUCCESS ? (void *)(uintptr_t)pointer : NULL;
}

void gpu_free(struct gpu *gpu, void *memory)
{
  void *context;
  if (!memory || gpu->driver.context_push(gpu->context) != CU_SUCCESS) return;
  gpu->driver.memory_free((uintptr_t)memory);
  gpu->driver.context_pop(&context);
}
