/* SPDX-License-Identifier: BSD-3-Clause */
/* Reduce kernels on the CPU: tables of functions by operation and element type.
 *
 * Every kernel computes, for each element,
 *     dst = round( ((g(s0) op s1) op s2) op ... ) / divisor
 * in the accumulation type: the type itself for integers, fp32 and fp64; fp32 for
 * 16- and 8-bit floats, rounded once to nearest even at the end. Semantics of each
 * operation: tuttiRedOp_t in tutti.h. A NaN that is written is always the same one: positive, quiet, without
 * payload (0x7fc00000 in fp32, 0x7e00 in fp16, 0x7fc0 in bf16, 0x7f in e4m3, 0x7e in e5m2), except in copies, which
 * keep all bits. So the bits do not depend on the table, nor on the processor's own result for two NaN.
 *
 * avg and TT_PREMUL_SUM, whose op is a sum, scale at most one source, number arg->scaled, written as
 * g(s0) above: the source is multiplied and rounded to the type before it is combined. So a rank's
 * contribution has the same bits whether it was scaled before it was sent (nsrc 1) or is
 * scaled while it is added, and all ranks get the same bits:
 *     fp16, bf16, e4m3, e5m2   scale * s in fp32, then rounded to the type
 *     fp32, fp64               scale * s in the type
 *     integers                 multiplier * s, wrapping
 * Integers are divided by arg->divisor, truncating toward zero; floats are never divided. With one source
 * that is neither scaled nor wide, a dst that is not wide, and a divisor of 1, a kernel copies, and does nothing if dst
 * is the source. tuttiBool is never copied: results are 0 or 1.
 *
 * The parts of complex numbers, pairs of floats, are combined and scaled as such floats.
 *
 * fp32 data that travel as fp16 or bf16 are combined in that type. One source may be wide: its elements are fp32,
 * scaled (in fp32) if it is the scaled one, and rounded to the type before they are combined. dst may be wide: its
 * elements are fp32 and hold the result after it was rounded to the type. So the values are those of kernels on data
 * that had been converted before; only the format differs.
 *
 * Overflow. fp16, bf16 and e5m2 round to infinity as IEEE 754 does. e4m3 has no
 * infinity and saturates to +-448, as NCCL's conversions do. NCCL's also saturate
 * e5m2, to +-57344, and even turn an infinite operand into that value; ours do not, because
 * loss scaling finds a bad step on any rank by an infinity that survives the sum. */
#ifndef TT_REDUCE_H
#define TT_REDUCE_H

#include "base/base.h"

struct tt_reduce_arg {
  void *also;          /* a second destination, of `type` (never wide), same values; NULL: none */
  int32_t wide;        /* fp16, bf16: number of the source that has fp32 elements; -1: none. Other types: -1 */
  int32_t dst_wide;    /* fp16, bf16: 1: dst has fp32 elements. Other types: 0 */
  int32_t scaled;      /* number of the source that is scaled, below nsrc; -1: none. With any redop but avg and
                          TT_PREMUL_SUM: -1 */
  int32_t divisor;     /* >= 1; 1: not divided */
  double scale;        /* floats: the factor; exact in fp32 for types below fp64 */
  uint64_t multiplier; /* integers: the factor, in the low bits of the type */
};

extern const struct tt_reduce_arg tt_reduce_plainly; /* nothing wide, scaled or divided; one destination */

/* Combines nsrc >= 1 sources of `count` elements each. dst may be equal to sources whose elements have the same size,
 * and so may arg->also, but dst and arg->also never overlap; sources may be equal to each other; any other
 * overlap is illegal. Any alignment. arg NULL: tt_reduce_plainly. Thread-safe. The result does not
 * depend on the floating-point environment of the calling thread, and the kernel leaves that as it was,
 * except for its sticky flags. */
typedef void (*tt_reduce_fn)(void *dst, const void *const *sources, int nsrc, size_t count,
                             const struct tt_reduce_arg *arg);

/* 1 if no element is infinite or NaN; always 1 for integers. Any alignment. */
typedef int (*tt_finite_fn)(const void *data, size_t count);

/* Adds the squares of rows * TT_NORM_LANES elements to TT_NORM_LANES lanes, as norm.h says. Any alignment of data. The
 * floating-point environment is treated as by kernels. */
typedef void (*tt_norm_fn)(double *lanes, const void *data, size_t rows);

/* All kernels of one instruction set. */
struct tt_reduce_table {
  const char *name;    /* its value in TUTTI_KERNELS */
  int (*usable)(void); /* 1 if this CPU has it; the same answer each time */
  tt_reduce_fn kernels[TT_REDOPS][tuttiNumTypes];
  tt_finite_fn finite[tuttiNumTypes];
  tt_norm_fn norm[tuttiNumTypes];
};

/* The tables that this library was built with, fastest first, ended by NULL; the last one, "plain", is usable
 * everywhere. */
extern const struct tt_reduce_table *const tt_reduce_tables[];

/* The table in use: the fastest usable one until another is chosen. */
const struct tt_reduce_table *tt_reduce_table(void);

/* Chooses the table for the whole process; name "auto": the fastest usable one. All tables give the same bits, so the
 * choice may change at any time. Errors: tuttiInvalidArgument: this library or this CPU does not have the table (the
 * sentence names it, and those there are). */
tuttiResult_t tt_reduce_choose(const char *name);

/* The kernel of the table in use; NULL if redop or type is unknown, or tt_redop_lacks. */
tt_reduce_fn tt_reduce_kernel(int redop, int type);

/* 1 if the ranks' contributions are scaled: avg of floats, TT_PREMUL_SUM of anything. */
int tt_reduce_scales(int redop, int type);

/* 1 if the combination of the contributions of nranks ranks passes a kernel at the very end: avg of integers, which is
 * divided, and bool of one rank, which no kernel has made 0 or 1 yet. */
int tt_reduce_finishes(int redop, int type, int nranks);

/* Fills *arg for sources of which number `scaled` (-1: none) is a contribution not scaled yet.
 * scalar: the bits of one element of `type`, of complex types of one part, for TT_PREMUL_SUM; else ignored. If the
 * operation does not scale contributions, *arg is tt_reduce_plainly for any `scaled`. The divisor is 1, and nothing is
 * wide. Only arg->scaled depends on `scaled`, so a caller may make *arg once and set that field for each step. */
void tt_reduce_arg_make(struct tt_reduce_arg *arg, int redop, int type, int nranks, uint64_t scalar, int scaled);

/* The same for sums, averages and pre-multiplied sums of floats whose contributions are also multiplied by `before`:
 * the factor is before, before / nranks or before * scalar, rounded once to fp32 (for fp64, to fp64). For a plain sum
 * use the kernel of TT_PREMUL_SUM. arg->scaled is -1. */
void tt_reduce_arg_before(struct tt_reduce_arg *arg, int redop, int type, int nranks, uint64_t scalar, float before);

/* Fills *arg for that kernel, whose one source is the combination. */
void tt_reduce_arg_finish(struct tt_reduce_arg *arg, int nranks);

/* Conversions of single values, for tests and tools. type is a float type of at most 32
 * bits (else 0 is returned); the value is in the low bits. tt_float_from_fp32 rounds to
 * nearest even and overflows as the kernels do. */
float tt_float_to_fp32(int type, uint32_t bits);
uint32_t tt_float_from_fp32(int type, float value);

#endif
