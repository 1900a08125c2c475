/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce kernels on the CPU: tables of functions by operation and element type.
 *
 * Every kernel computes, for each element,
 *     dst = round( finish( ((f0(s0) op f1(s1)) op f2(s2)) op ... ) )
 * in the accumulation type: the type itself for integers, fp32 and fp64; fp32 for
 * 16- and 8-bit floats, rounded once to nearest even at the end. fk scales source k
 * by arg->scale where bit k of arg->raw is set and the operation is avg on floats,
 * else it is the identity. finish divides by arg->divisor, truncating toward zero, where
 * arg->divisor > 1 (avg on integers, last reduction), else it is the identity.
 * Semantics of each operation: tuttiRedOp_t in tutti.h. NaN stays NaN; which NaN is
 * not defined.
 *
 * Overflow. fp16, bf16 and e5m2 round to infinity as IEEE 754 does. e4m3 has no
 * infinity and saturates to +-448, as NCCL's conversions do. NCCL's also saturate
 * e5m2, to +-57344, and even turn an infinite operand into that; ours do not, because
 * loss scaling finds a bad step on any rank by an infinity that survives the sum. */
#ifndef TT_REDUCE_H
#define TT_REDUCE_H

#include "base/base.h"

#define TT_REDUCE_SOURCES 32 /* most sources of one kernel: bits of tt_reduce_arg.raw */

struct tt_reduce_arg {
  uint32_t raw;     /* bit k: source k is a rank's unreduced input */
  int32_t divisor;  /* avg on integers: ranks at the last reduction, else 1 */
  double scale;     /* avg on floats: 1 / ranks, rounded to fp32 by the kernels of types below fp64 */
};

/* 1 <= nsrc <= TT_REDUCE_SOURCES sources of `count` elements each. dst may be equal to
 * some of the sources, which may be equal to each other; any other overlap is illegal.
 * Any alignment. *arg is read for avg only. Thread-safe. The result does not depend on
 * the floating-point environment of the calling thread, nor is that changed, but for
 * its sticky flags. */
typedef void (*tt_reduce_fn)(void *dst, const void *const *sources, int nsrc, size_t count,
                             const struct tt_reduce_arg *arg);

/* The kernel, or NULL where the pair is not supported (none in this version). */
tt_reduce_fn tt_reduce_kernel(int redop, int type);

/* Fills *arg for a reduce step. raw: see above; is_final: it is the last reduction.
 * For other operations than avg, *arg is the identity. */
void tt_reduce_arg_make(struct tt_reduce_arg *arg, int redop, int nranks, uint32_t raw,
                        int is_final);

/* Conversions of single values, for tests and tools. type is a float type of at most 32
 * bits (else 0 is returned); the value is in the low bits. tt_float_from_fp32 rounds to
 * nearest even and overflows as the kernels do. */
float tt_float_to_fp32(int type, uint32_t bits);
uint32_t tt_float_from_fp32(int type, float value);

#endif
