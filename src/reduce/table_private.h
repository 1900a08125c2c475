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
#define TT_ROW(op)                                                                                                  \
  {                                                                                                                 \
    [tuttiInt8] = op##_int8, [tuttiUint8] = op##_uint8, [tuttiInt32] = op##_int32, [tuttiUint32] = op##_uint32,     \
    [tuttiInt64] = op##_int64, [tuttiUint64] = op##_uint64, [tuttiFloat16] = op##_fp16, [tuttiFloat32] = op##_fp32, \
    [tuttiFloat64] = op##_fp64, [tuttiBfloat16] = op##_bf16, [tuttiFloat8e4m3] = op##_e4m3,                         \
    [tuttiFloat8e5m2] = op##_e5m2                                                                                   \
  }

#define TT_ALL_ROWS                                                                                           \
  {                                                                                                           \
    [tuttiSum] = TT_ROW(sum), [tuttiProd] = TT_ROW(prod), [tuttiMax] = TT_ROW(max), [tuttiMin] = TT_ROW(min), \
    [tuttiAvg] = TT_ROW(weighted), [TT_PREMUL_SUM] = TT_ROW(weighted)                                         \
  }

#define TT_NORM TT_ROW(norm)

#define TT_FINITE                                                                                   \
  {                                                                                                 \
    [tuttiInt8] = finite_always, [tuttiUint8] = finite_always, [tuttiInt32] = finite_always,        \
    [tuttiUint32] = finite_always, [tuttiInt64] = finite_always, [tuttiUint64] = finite_always,     \
    [tuttiFloat16] = finite_fp16, [tuttiFloat32] = finite_fp32, [tuttiFloat64] = finite_fp64,       \
    [tuttiBfloat16] = finite_bf16, [tuttiFloat8e4m3] = finite_e4m3, [tuttiFloat8e5m2] = finite_e5m2 \
  }

#endif
