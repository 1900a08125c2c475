/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of kernels, one for each instruction set, and their rows. Private to reduce. */
#ifndef TT_REDUCE_TABLE_H
#define TT_REDUCE_TABLE_H

#include "reduce/norm.h"
#include "reduce/reduce.h"

/* Every table has every kernel. Tables of another architecture are not built. */
extern const struct tt_reduce_table tt_reduce_plain;
extern const struct tt_reduce_table tt_reduce_sse2, tt_reduce_avx2, tt_reduce_avx512; /* x86-64 */
extern const struct tt_reduce_table tt_reduce_neon;                                   /* AArch64 */

/* Bytes of the processor's last cache. */
size_t tt_reduce_cache_len(void);

static inline int finite_always(const void *data, size_t count)
{
  (void)data;
  (void)count;
  return 1;
}

/* Functions are named operation_type. */
#define TT_INTEGERS(op)                                                                                       \
  [tuttiInt8] = op##_int8, [tuttiUint8] = op##_uint8, [tuttiInt16] = op##_int16, [tuttiUint16] = op##_uint16, \
  [tuttiInt32] = op##_int32, [tuttiUint32] = op##_uint32, [tuttiInt64] = op##_int64, [tuttiUint64] = op##_uint64

#define TT_FLOATS(op)                                                                 \
  [tuttiFloat16] = op##_fp16, [tuttiFloat32] = op##_fp32, [tuttiFloat64] = op##_fp64, \
  [tuttiBfloat16] = op##_bf16, [tuttiFloat8e4m3] = op##_e4m3, [tuttiFloat8e5m2] = op##_e5m2

#define TT_COMPLEX(op) [tuttiComplexFloat32] = op##_complex64, [tuttiComplexFloat64] = op##_complex128

/* NULL where tt_redop_lacks. */
#define TT_ALL_ROWS                                                                      \
  {                                                                                      \
    [tuttiSum] = {TT_INTEGERS(sum), TT_FLOATS(sum), TT_COMPLEX(sum), [tuttiBool] = or_bool}, \
    [tuttiProd] = {TT_INTEGERS(prod), TT_FLOATS(prod), [tuttiBool] = and_bool},          \
    [tuttiMax] = {TT_INTEGERS(max), TT_FLOATS(max), [tuttiBool] = or_bool},              \
    [tuttiMin] = {TT_INTEGERS(min), TT_FLOATS(min), [tuttiBool] = and_bool},             \
    [tuttiAvg] = {TT_INTEGERS(weighted), TT_FLOATS(weighted), TT_COMPLEX(weighted)},     \
    [tuttiBitAnd] = {TT_INTEGERS(and), [tuttiBool] = and_bool},                          \
    [tuttiBitOr] = {TT_INTEGERS(or), [tuttiBool] = or_bool},                             \
    [tuttiBitXor] = {TT_INTEGERS(xor), [tuttiBool] = xor_bool},                          \
    [TT_PREMUL_SUM] = {TT_INTEGERS(weighted), TT_FLOATS(weighted), TT_COMPLEX(weighted)} \
  }

/* Complex numbers are given to the function of their parts. */
#define TT_NORM                                                            \
  {                                                                        \
    TT_INTEGERS(norm), TT_FLOATS(norm), [tuttiBool] = norm_uint8           \
  }

#define TT_FINITE                                                                               \
  {                                                                                             \
    [tuttiInt8] = finite_always, [tuttiUint8] = finite_always, [tuttiInt16] = finite_always,    \
    [tuttiUint16] = finite_always, [tuttiInt32] = finite_always, [tuttiUint32] = finite_always, \
    [tuttiInt64] = finite_always, [tuttiUint64] = finite_always, [tuttiBool] = finite_always,   \
    TT_FLOATS(finite), TT_COMPLEX(finite)                                                       \
  }

#endif
