/* SPDX-License-Identifier: BSD-3-Clause */
/* The GPU's kernels, compiled for the CPU and carried out one thread after the other. */
#include "kernels.h"

#include <pthread.h>

#include "tutti.h"

#define __global__
#define __launch_bounds__(threads)
#define TT_DEVICE inline
#define TT_PARAMS const tt_cuda_params &p
#define TT_UNROLL

struct quad {
  unsigned x, y, z, w;
} __attribute__((aligned(16), may_alias));

static inline void quad_store(void *to, quad q)
{
  *(quad *)to = q;
}

struct place {
  unsigned x;
};
/* One kernel at a time: variables of threads in a library that is loaded late end LeakSanitizer 12. */
static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
static place gridDim, blockIdx, threadIdx;

#include "cuda/kernels.cu"

struct kernel {
  const char *name;
  int type;
  void (*run)(const tt_cuda_params &p);
};

#define KERNEL(op, type, number) {"tt_" #op "_" #type, number, tt_##op##_##type},
#define KERNELS(type, number) \
  KERNEL(sum, type, number) KERNEL(prod, type, number) KERNEL(max, type, number) KERNEL(min, type, number)
static const kernel kernels[] = {
    KERNELS(int8, tuttiInt8) KERNELS(uint8, tuttiUint8) KERNELS(int32, tuttiInt32) KERNELS(uint32, tuttiUint32)
    KERNELS(int64, tuttiInt64) KERNELS(uint64, tuttiUint64) KERNELS(half, tuttiFloat16) KERNELS(float, tuttiFloat32)
    KERNELS(double, tuttiFloat64) KERNELS(bfloat16, tuttiBfloat16) KERNELS(f8e4m3, tuttiFloat8e4m3)
    KERNELS(f8e5m2, tuttiFloat8e5m2)};

int cpu_kernel_find(const char *name)
{
  for (int k = 0; k < (int)(sizeof kernels / sizeof kernels[0]); k++)
    if (strcmp(kernels[k].name, name) == 0) return k;
  return -1;
}

int cpu_kernel_type(int kernel)
{
  return kernels[kernel].type;
}

void cpu_kernel_run(int kernel, unsigned blocks, const struct tt_cuda_params *params)
{
  pthread_mutex_lock(&one);
  gridDim.x = blocks;
  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++)
    for (threadIdx.x = 0; threadIdx.x < TT_CUDA_THREADS; threadIdx.x++) kernels[kernel].run(*params);
  pthread_mutex_unlock(&one);
}
