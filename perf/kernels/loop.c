/* SPDX-License-Identifier: BSD-3-Clause */
/* The loop that a program without a library would have; compiled with -O3 and for no CPU in particular. */
#include "kernels.h"

#if KERNELS_HAVE_FLOAT16
__extension__ typedef _Float16 half;
const char *const loop_name = "_Float16";

void loop_fp16_sum(void *dst, const void *const *sources, int nsrc, size_t count, const struct tt_reduce_arg *arg)
{
  half *c = dst;
  const half *a = sources[0], *b = sources[1];
  (void)nsrc, (void)arg;
  for (size_t i = 0; i < count; i++) c[i] = a[i] + b[i];
}

#else
const char *const loop_name = "tt_float_to_fp32"; /* this compiler has no _Float16 here */

void loop_fp16_sum(void *dst, const void *const *sources, int nsrc, size_t count, const struct tt_reduce_arg *arg)
{
  uint16_t *c = dst;
  const uint16_t *a = sources[0], *b = sources[1];
  (void)nsrc, (void)arg;
  for (size_t i = 0; i < count; i++) {
    float sum = tt_float_to_fp32(tuttiFloat16, a[i]) + tt_float_to_fp32(tuttiFloat16, b[i]);
    c[i] = (uint16_t)tt_float_from_fp32(tuttiFloat16, sum);
  }
}

#endif
