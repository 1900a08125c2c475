/* SPDX-License-Identifier: BSD-3-Clause */
/* The kernels on the GPU against the plain table. */
#include <stdio.h>
#include <stdlib.h>

#include "cuda/cuda.h"
#include "device_bits.h"
#include "gpu.h"

static int report(const char *what, const char *fault)
{
  printf("  %-58s %s\n", what, fault ? fault : "right");
  fflush(stdout);
  return fault != NULL;
}

static int compare_all(const struct tt_device *device)
{
  const struct on_device on = {device, 1};
  int failed = report("every value of 16 and 8 bits, scaled and widened", bits_of_all_values(device));
  failed += report("every pair of bytes and of hard values, by each operation", bits_of_all_pairs(device));
  failed += report("fp32 rounded to 16 bits, 4 million", bits_of_rounding(device, 32));
  failed += report("every count and alignment", bits_of_places(&on));
  failed += report("63 to 200 sources", bits_of_many_sources(&on));
  failed += report("7200 calls by chance: wide, second destinations, host memory", bits_of_calls(&on, 100, 1));
  return failed;
}

int check_bits(void)
{
  struct tt_settings settings;
  struct gpu gpu;
  char text[256];
  int joined = 0, failed = 1;
  printf("\nkernels against the plain table\n");
  if (!gpu_open(&gpu, 0, text, sizeof text)) return report("", text);
  setenv("TUTTI_CUDA", "1", 1);
  void *memory = gpu_alloc(&gpu, 1);
  if (!memory || tt_settings_load(&settings) != tuttiSuccess || tt_cuda_join(&settings, &joined) != tuttiSuccess)
    report("", tt_last_sentence());
  else if (tt_device_of(memory)->host) report("", "memory of the GPU is not recognised");
  else failed = compare_all(tt_device_of(memory));
  if (joined) tt_cuda_leave();
  gpu_free(&gpu, memory);
  gpu_close(&gpu);
  return failed;
}
