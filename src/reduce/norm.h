/* SPDX-License-Identifier: BSD-3-Clause */
/* L2 norms of tensors that come in pieces.
 *
 * Element number i is converted to fp64 (exactly, except that integers beyond 2^53 are rounded) and squared, and the
 * square is added to lane i modulo TT_NORM_LANES; each step is rounded to nearest even. At the end the upper half of
 * the lanes is added to the lower half until one lane is left, and the norm is its square root. So the bits depend on
 * the elements alone, not on how they are cut into pieces, nor on the table of kernels, nor on the caller's
 * floating-point environment. Squares beyond fp64 are infinite, and so are squares of infinities; with a NaN the norm
 * is NaN, always the one that reduce.h writes. */
#ifndef TT_NORM_H
#define TT_NORM_H

#include "base/base.h"

#define TT_NORM_LANES 16

struct tt_norm {
  double lane[TT_NORM_LANES]; /* sums of squares; zero it first */
};

/* Adds elements first .. first + count - 1 of the tensor, which lie at `data` in any alignment. Elements come in
 * ascending order. type is any of tuttiDataType_t; of complex numbers both parts count, a
 * bool is a number of 8 bits. One thread at a time for each norm. */
void tt_norm_add(struct tt_norm *norm, int type, const void *data, uint64_t first, size_t count);

/* The norm of the elements that were added; 0 if there were none. */
double tt_norm_get(const struct tt_norm *norm);

#endif
