/* SPDX-License-Identifier: BSD-3-Clause */
/* What the reduce kernels must compute, written another way: small floats from their
 * definition with ldexp and a binary search over all values, rounding by exact
 * comparison, arithmetic one format wider than needed (fp64 for fp32, 128 bits for fp64
 * and integers). Slow, one element at a time, and only correct in the default
 * floating-point environment. */
#ifndef REDUCE_REFERENCE_H
#define REDUCE_REFERENCE_H

#include "reduce/reduce.h"

/* Value of a float of at most 32 bits, exactly. */
double reference_decode(int type, uint32_t bits);

/* Nearest value of the type, ties to even, the one NaN; x is exact in fp32. */
uint32_t reference_encode(int type, double x);

struct reference {
  int redop, type, nsrc;
  const void *const *sources;
  const struct tt_reduce_arg *arg;
};

/* What the kernel of call->redop and call->type must write to dst and call->arg->also: every bit. */
void reference_reduce(const struct reference *call, void *dst, size_t count);

int reference_finite(int type, const void *data, size_t count);

/* Writes the elements that are most likely to go wrong (limits, ties, subnormals, zeros, infinities, overflow, NaN,
 * each with both signs), at most REFERENCE_HARD; returns how many. */
#define REFERENCE_HARD 52
size_t reference_hard(int type, void *out);

int reference_is_float(int type);

/* The types from here on have kernels that are made of those of the types below, and no reference. */
#define REFERENCE_TYPES tuttiBool

/* One element: of floats a number between -2 and 2, of integers any. */
void reference_tame(int type, void *element, uint64_t *seed);

/* Bits of an fp32 that is a value of `type` (16 or 8 bits) or half-way between two, or next to such a place. */
uint32_t reference_border(int type, uint64_t *seed);

/* An argument as a step of a run may have it, mostly of 2 to 31 ranks: pre-multiplied sum with a tame or a hard scalar
 * or with any factor, avg of integers with the last division or without. */
void reference_arg(struct tt_reduce_arg *arg, int redop, int type, int scaled, uint64_t *seed);

#endif
