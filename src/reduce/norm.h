/* SPDX-License-Identifier: BSD-3-Clause */
/* L2 norms of tensors that come in pieces.
 *
 * Element number i is turned into fp64 (exactly, but for integers beyond 2^53, which are rounded) and squared, and the
 * square is added to lane i modulo TT_NORM_LANES, each step rounded to nearest even; at the end the upper half of the
 * lanes is added to the lower one until one is left, of which the root is taken. So the bits depend on the elements
 * alone, not on how they are cut into pieces, nor on the table of kernels, nor on the caller's floating-point
 * environment. Squares beyond fp64 are infinite, as are those of infinities; with a NaN the norm is NaN, always the one
 * that reduce.h writes. */
#ifndef TT_NORM_H
#define TT_NORM_H

#include "base/base.h"

#define TT_NORM_LANES 16

struct tt_norm {
  double lane[TT_NORM_LANES]; /* sums of squares; zero it first */
};

/* Adds elements first .. first + count - 1 of the tensor, which lie at `data` in any alignment. Elements come in
 * ascending order. type is any of tuttiDataType_t. One thread at a time for each norm. */
void tt_norm_add(struct tt_norm *norm, int type, const void *data, uint64_t first, size_t count);

/* The norm of what was added; 0 of nothing. */
double tt_norm_get(const struct tt_norm *norm);

#endif
