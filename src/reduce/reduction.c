/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce/reduction.h"

#define LOOK_COUNT 2048 /* elements: results are checked while they are in the first cache */
#define LOOK_SOURCES 64 /* with more sources, reading dst again costs little compared with reading them */

/* Reduces a piece at a time, so that no result is read from memory a second time. */
static void reduce_and_look(const struct tt_reduction *what, tt_reduce_fn kernel)
{
  struct tt_reduce_arg arg = what->arg ? *what->arg : tt_reduce_plainly;
  const size_t size = tt_type_size(what->type), dst_size = arg.dst_wide ? sizeof(float) : size;
  const tt_finite_fn finite = tt_reduce_table()->finite[arg.dst_wide ? tuttiFloat32 : what->type];
  const void *sources[LOOK_SOURCES];
  char *dst = what->dst, *also = arg.also;
  if (what->nsrc > LOOK_SOURCES) {
    kernel(dst, what->sources, what->nsrc, what->count, &arg);
    if (!finite(dst, what->count)) *what->overflow = 1;
    return;
  }
  for (size_t at = 0; at < what->count; at += LOOK_COUNT) {
    size_t n = what->count - at < LOOK_COUNT ? what->count - at : LOOK_COUNT;
    for (int k = 0; k < what->nsrc; k++)
      sources[k] = (const char *)what->sources[k] + at * (k == arg.wide ? sizeof(float) : size);
    if (also) arg.also = also + at * size;
    kernel(dst + at * dst_size, sources, what->nsrc, n, &arg);
    if (!finite(dst + at * dst_size, n)) *what->overflow = 1;
  }
}

tuttiResult_t tt_reduce_run(const struct tt_reduction *what)
{
  tt_reduce_fn kernel = tt_reduce_kernel(what->redop, what->type);
  if (!kernel)
    return tt_fail(tuttiInternalError, "no kernel reduces %s (type %d) with %s (op %d)", tt_type_name(what->type),
                   what->type, tt_redop_name(what->redop), what->redop);
  if (what->overflow) reduce_and_look(what, kernel);
  else kernel(what->dst, what->sources, what->nsrc, what->count, what->arg);
  return tuttiSuccess;
}
