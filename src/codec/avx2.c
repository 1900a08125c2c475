/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2. */
#include "codec/kernels_private.h"

#if defined(__x86_64__)
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,popcnt"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,popcnt")
#endif

#define TT_VECTOR 32
#include "reduce/lanes.inc"

#define TT_OWN_MASKS
TT_INLINE uint32_t bits_of_lanes(uint32s lanes)
{
  return (uint32_t)_mm256_movemask_ps((__m256)lanes);
}

TT_INLINE uint32s lanes_of_bits(uint32_t bits)
{
  const __m256i of_lane = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return (uint32s)_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32((int)bits), of_lane), of_lane);
}

#define TT_OWN_MULTIPLY
TT_INLINE uint64s multiply_low(uint64s lanes, uint32_t factor)
{
  return (uint64s)_mm256_mul_epu32((__m256i)lanes, _mm256_set1_epi32((int)factor));
}

#define TT_OWN_MIN32
TT_INLINE uint32s min32(uint32s a, uint32s b)
{
  return (uint32s)_mm256_min_epi32((__m256i)a, (__m256i)b);
}

TT_INLINE uint32s max32(uint32s a, uint32s b)
{
  return (uint32s)_mm256_max_epi32((__m256i)a, (__m256i)b);
}

#include "reduce/own.inc"
#include "codec/vector.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

const struct tt_codec_kernels tt_codec_avx2 = TT_CODEC_KERNELS("avx2");
#endif
