/* SPDX-License-Identifier: BSD-3-Clause */
/* Sums beside copies on the same GPU: bytes read and written per second, as a ratio. Each round times every kernel and
 * the copy once, one after the other, so that all see the same machine; the medians of the rounds are compared. As many
 * are started at a time as have a destination of their own, so that the start of one hides behind another. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "gpu.h"
#include "on_device.h"

#define LEN ((size_t)256 << 20) /* bytes of a source */
#define SOURCES 4
#define AT_ONCE 4
#define ROUNDS 15

static const struct kernel {
  int type, nsrc; /* nsrc 0: the copy */
} kernels[] = {{tuttiFloat32, 0}, {tuttiFloat32, 2}, {tuttiFloat16, 2},    {tuttiBfloat16, 2},  {tuttiFloat32, 4},
               {tuttiFloat16, 4}, {tuttiFloat64, 2}, {tuttiFloat8e4m3, 2}, {tuttiFloat8e5m2, 2}, {tuttiInt32, 2}};
#define KERNELS (sizeof kernels / sizeof kernels[0])

struct bench {
  const struct tt_device *device;
  char *sources[SOURCES], *dst[AT_ONCE];
  double gb_per_s[KERNELS][ROUNDS];
};

static tuttiResult_t start(const struct bench *bench, const struct kernel *kernel, int k, tt_ticket *ticket)
{
  const struct tt_device *device = bench->device;
  if (!kernel->nsrc) return device->copy(device, bench->dst[k], bench->sources[k % SOURCES], LEN, ticket);
  const struct tt_reduction what = {tuttiSum, kernel->type, bench->dst[k], (const void *const *)bench->sources,
                                    kernel->nsrc, LEN / tt_type_size(kernel->type), NULL, NULL};
  return device->reduce(device, &what, ticket);
}

/* GB/s of AT_ONCE pieces of work; 0 if one fails. */
static double rate(const struct bench *bench, const struct kernel *kernel)
{
  tt_ticket tickets[AT_ONCE];
  uint64_t begin = tt_now_ns();
  for (int k = 0; k < AT_ONCE; k++)
    if (start(bench, kernel, k, &tickets[k]) != tuttiSuccess) return 0;
  for (int k = 0; k < AT_ONCE; k++)
    if (on_device_wait(bench->device, tickets[k]) != tuttiSuccess) return 0;
  double buffers = (kernel->nsrc ? kernel->nsrc : 1) + 1;
  return buffers * (double)LEN * AT_ONCE / (double)(tt_now_ns() - begin);
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static int print(struct bench *bench)
{
  int failed = 0;
  for (size_t k = 0; k < KERNELS; k++) qsort(bench->gb_per_s[k], ROUNDS, sizeof(double), by_value);
  const double copy = bench->gb_per_s[0][ROUNDS / 2];
  printf("  %-24s %10s %10s\n  %-24s %10.0f %10s\n", "", "GB/s", "of copy", "copy", copy, "1");
  for (size_t k = 1; k < KERNELS; k++) {
    double median = bench->gb_per_s[k][ROUNDS / 2];
    printf("  sum of %d %-15s %10.0f %10.2f\n", kernels[k].nsrc, tt_type_name(kernels[k].type), median, median / copy);
    failed += bench->gb_per_s[k][0] == 0;
  }
  return failed;
}

static int measure(struct bench *bench)
{
  for (size_t k = 0; k < KERNELS; k++) rate(bench, &kernels[k]); /* kernels are loaded, the clocks go up */
  for (int round = 0; round < ROUNDS; round++)
    for (size_t k = 0; k < KERNELS; k++) bench->gb_per_s[k][round] = rate(bench, &kernels[k]);
  return print(bench);
}

int check_speed(void)
{
  static struct bench bench;
  struct tt_settings settings;
  struct gpu gpu;
  char text[256];
  int joined = 0, failed = 1, there = 1;
  printf("\nsums beside a copy, %zu MiB a source, medians of %d\n", LEN >> 20, ROUNDS);
  if (!gpu_open(&gpu, 0, text, sizeof text)) return 1;
  for (int k = 0; k < SOURCES; k++) there &= (bench.sources[k] = gpu_alloc(&gpu, LEN)) != NULL;
  for (int k = 0; k < AT_ONCE; k++) there &= (bench.dst[k] = gpu_alloc(&gpu, LEN)) != NULL;
  setenv("TUTTI_CUDA", "1", 1);
  if (!there) printf("  not measured: the GPU has less than %zu MiB free\n", (SOURCES + AT_ONCE) * LEN >> 20);
  else if (tt_settings_load(&settings) == tuttiSuccess && tt_cuda_join(&settings, &joined) == tuttiSuccess) {
    bench.device = tt_device_of(bench.dst[0]);
    failed = measure(&bench);
  }
  if (joined) tt_cuda_leave();
  for (int k = 0; k < SOURCES; k++) gpu_free(&gpu, bench.sources[k]);
  for (int k = 0; k < AT_ONCE; k++) gpu_free(&gpu, bench.dst[k]);
  gpu_close(&gpu);
  return there ? failed : 0;
}
