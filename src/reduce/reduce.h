/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce kernels on the CPU: tables of functions by operation and element type.
 *
 * Every kernel computes, for each element,
 *     dst = round( ((g(s0) op s1) op s2) op ... ) / divisor
 * in the accumulation type: the type itself for integers, fp32 and fp64; fp32 for
 * 16- and 8-bit floats, rounded once to nearest even at the end. Semantics of each
 * operation: tuttiRedOp_t in tutti.h. NaN stays NaN; which NaN is not defined.
 *
 * avg and TT_PREMUL_SUM, whose op is a sum, scale at most one source, number arg->scaled, written as
 * g(s0) above: it is multiplied and rounded to the type before it is combined. So a rank's
 * contribution has the same bits whether it was scaled before it was sent (nsrc 1) or is
 * scaled while it is added, and all ranks get the same bits:
 *     fp16, bf16, e4m3, e5m2   scale * s in fp32, then rounded to the type
 *     fp32, fp64               scale * s in the type
 *     integers                 multiplier * s, wrapping
 * Integers are divided by arg->divisor, truncating toward zero; floats never. With one source
 * that is not scaled and a divisor of 1 a kernel is a copy, and nothing at all onto itself.
 *
 * Overflow. fp16, bf16 and e5m2 round to infinity as IEEE 754 does. e4m3 has no
 * infinity and saturates to +-448, as NCCL's conversions do. NCCL's also saturate
 * e5m2, to +-57344, and even turn an infinite operand into that; ours do not, because
 * loss scaling finds a bad step on any rank by an infinity that survives the sum. */
#ifndef TT_REDUCE_H
#define TT_REDUCE_H

#include "base/base.h"

struct tt_reduce_arg {
  int32_t scaled;      /* number of the source that is scaled, below nsrc; -1: none */
  int32_t divisor;     /* >= 1; 1: not divided */
  double scale;        /* floats: the factor; exact in fp32 for types below fp64 */
  uint64_t multiplier; /* integers: the factor, in the low bits of the type */
};

/* nsrc >= 1 sources of `count` elements each. dst may be equal to some of the sources, which
 * may be equal to each other; any other overlap is illegal. Any alignment. *arg is read
 * for avg and TT_PREMUL_SUM only, else it may be NULL. Thread-safe. The result does not
 * depend on the floating-point environment of the calling thread, nor is that changed,
 * but for its sticky flags. */
typedef void (*tt_reduce_fn)(void *dst, const void *const *sources, int nsrc, size_t count,
                             const struct tt_reduce_arg *arg);

/* The kernel of redop < TT_REDOPS, or NULL where the pair is not supported (none in this version). */
tt_reduce_fn tt_reduce_kernel(int redop, int type);

/* 1 if the ranks' contributions are scaled: avg of floats, TT_PREMUL_SUM of anything. */
int tt_reduce_scales(int redop, int type);

/* 1 if the combination of all contributions is divided at the very end: avg of integers. */
int tt_reduce_finishes(int redop, int type);

/* Fills *arg for sources of which number `scaled` (-1: none) is a contribution not scaled yet.
 * scalar: the bits of one element of `type`, for TT_PREMUL_SUM; else ignored. Where contributions are
 * not scaled, *arg is the identity whatever `scaled` is. The divisor is 1. Of the rest only
 * arg->scaled depends on `scaled`: a caller may make *arg once and set that for each step. */
void tt_reduce_arg_make(struct tt_reduce_arg *arg, int redop, int type, int nranks, uint64_t scalar,
                        int scaled);

/* Fills *arg for the last division of avg of integers, of a sum that is one source. */
void tt_reduce_arg_finish(struct tt_reduce_arg *arg, int nranks);

/* Conversions of single values, for tests and tools. type is a float type of at most 32
 * bits (else 0 is returned); the value is in the low bits. tt_float_from_fp32 rounds to
 * nearest even and overflows as the kernels do. */
float tt_float_to_fp32(int type, uint32_t bits);
uint32_t tt_float_from_fp32(int type, float value);

#endif
