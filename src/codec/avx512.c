/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX-512 (F, BW, DQ, VL). */
#include "codec/kernels_private.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,prefer-vector-width=512")
#endif

#define TT_VECTOR 64
#include "reduce/lanes.inc"

#define TT_OWN_MASKS
TT_INLINE uint32_t bits_of_lanes(uint32s lanes)
{
  return _mm512_movepi32_mask((__m512i)lanes);
}

TT_INLINE uint32s lanes_of_bits(uint32_t bits)
{
  return (uint32s)_mm512_movm_epi32((__mmask16)bits);
}

#define TT_OWN_MULTIPLY
TT_INLINE uint64s multiply_low(uint64s lanes, uint32_t factor)
{
  return (uint64s)_mm512_mul_epu32((__m512i)lanes, _mm512_set1_epi32((int)factor));
}

#define TT_OWN_MIN32
TT_INLINE uint32s min32(uint32s a, uint32s b)
{
  return (uint32s)_mm512_min_epi32((__m512i)a, (__m512i)b);
}

TT_INLINE uint32s max32(uint32s a, uint32s b)
{
  return (uint32s)_mm512_max_epi32((__m512i)a, (__m512i)b);
}

#include "reduce/own.inc"
#include "codec/vector.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct tt_codec_kernels tt_codec_avx512 = TT_CODEC_KERNELS("avx512");
#endif
