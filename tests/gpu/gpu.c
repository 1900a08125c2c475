/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu.h"

const char *gpu_open(struct gpu *gpu, int ordinal)
{
  *gpu = (struct gpu){.ordinal = ordinal};
  const char *wrong = driver_load(&gpu->cu, "libcuda.so.1");
  if (wrong) return wrong;
  if (gpu->cu.cuInit(0) || gpu->cu.cuDeviceGetCount(&gpu->count) || !gpu->count) return "the driver does not start";
  gpu->ordinal = ordinal % gpu->count;
  return gpu->cu.cuDevicePrimaryCtxRetain(&gpu->context, gpu->ordinal) ? "no context" : NULL;
}

void gpu_close(struct gpu *gpu)
{
  gpu->cu.cuDevicePrimaryCtxRelease_v2(gpu->ordinal);
}

void *gpu_alloc(struct gpu *gpu, size_t len)
{
  uint64_t pointer = 0;
  void *context;
  if (gpu->cu.cuCtxPushCurrent_v2(gpu->context)) return NULL;
  int code = gpu->cu.cuMemAlloc_v2(&pointer, len ? len : 1);
  gpu->cu.cuCtxPopCurrent_v2(&context);
  return code ? NULL : (void *)(uintptr_t)pointer;
}

void gpu_free(struct gpu *gpu, void *memory)
{
  void *context;
  if (!memory || gpu->cu.cuCtxPushCurrent_v2(gpu->context)) return;
  gpu->cu.cuMemFree_v2((uintptr_t)memory);
  gpu->cu.cuCtxPopCurrent_v2(&context);
}

int gpu_copy(struct gpu *gpu, void *dst, const void *src, size_t len)
{
  void *context;
  if (gpu->cu.cuCtxPushCurrent_v2(gpu->context)) return 0;
  int code = gpu->cu.cuMemcpyAsync((uintptr_t)dst, (uintptr_t)src, len, NULL);
  if (!code) code = gpu->cu.cuStreamSynchronize(NULL);
  gpu->cu.cuCtxPopCurrent_v2(&context);
  return !code;
}
