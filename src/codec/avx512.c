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

#define TT_OWN_BYTES
TT_INLINE byte_row bytes_of_row(const uint32s *number)
{
  return (byte_row)_mm512_cvtepi32_epi8((__m512i)number[0]);
}

TT_INLINE uint32_t bits_of_bytes(byte_row bytes)
{
  return (uint32_t)_mm_movemask_epi8((__m128i)bytes);
}

#define TT_OWN_LOWER
TT_INLINE uint32s lower_halves(uint64s a, uint64s b)
{
  __m256i half[2] = {_mm512_cvtepi64_epi32((__m512i)a), _mm512_cvtepi64_epi32((__m512i)b)};
  return (uint32s)_mm512_inserti64x4(_mm512_castsi256_si512(half[0]), half[1], 1);
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
