/* SPDX-License-Identifier: BSD-3-Clause */
/* The one argument of every kernel: C on the host's side, CUDA on the other. Pointers are as the GPU sees them, and may
 * also lead to pinned host memory. Private to cuda. */
#ifndef TT_CUDA_PARAMS_H
#define TT_CUDA_PARAMS_H

#include <stdint.h>

#define TT_CUDA_THREADS 256   /* of a block */
#define TT_CUDA_VECTOR 16     /* bytes that a thread loads at once where all pointers allow it */
#define TT_CUDA_INLINE 64     /* sources that fit into the argument itself */

struct tt_cuda_params {
  void *dst;
  void *also;            /* second destination; NULL: none */
  int32_t *overflow;     /* becomes 1 if an element is infinite or NaN; NULL: not asked */
  uint64_t count;        /* elements: `head` single ones, then `vectors` of 16 bytes (of the type), then the rest */
  uint64_t head, vectors;
  uint64_t multiplier;   /* this one to `divisor`: as in struct tt_reduce_arg */
  double scale;
  int32_t scaled, wide, dst_wide, divisor;
  int32_t nsrc;
  int32_t keeps_bits;    /* one source, which is only copied */
  int32_t is_plain_pair; /* two sources and one destination, nothing scaled, wide, divided or reported */
  int32_t is_aligned;    /* every pointer is a multiple of its element's size */
  const void *const *table; /* the sources if there are more than TT_CUDA_INLINE */
  const void *sources[TT_CUDA_INLINE];
};

#endif
