/* SPDX-License-Identifier: BSD-3-Clause */
/* Private to this folder: the vector cut into one part for each rank. */
#ifndef TT_ALGOS_PARTS_H
#define TT_ALGOS_PARTS_H

#include "sched/sched.h"

/* The blocks of `n` parts from part p on, 0 <= p < 2 nranks, which may go over the end. Parts are runs of whole blocks,
 * or the shares. */
static inline struct tt_blocks tt_parts(const struct tt_shape *shape, int32_t p, int32_t n)
{
  int64_t all = tt_shape_blocks(shape), first = p * all / shape->nranks, end = (p + (int64_t)n) * all / shape->nranks;
  return (struct tt_blocks){(int32_t)(first % all), (int32_t)(end - first)};
}

#endif
