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

#define TT_OWN_BYTES
TT_INLINE byte_row bytes_of_row(const uint32s *number)
{
  __m256i words = _mm256_packs_epi32((__m256i)number[0], (__m256i)number[1]); /* in halves: 0-3 8-11, 4-7 12-15 */
  __m256i bytes = _mm256_packus_epi16(words, words);
  bytes = _mm256_permutevar8x32_epi32(bytes, _mm256_setr_epi32(0, 4, 1, 5, 0, 4, 1, 5));
  return (byte_row)_mm256_castsi256_si128(bytes);
}

TT_INLINE uint32_t bits_of_bytes(byte_row bytes)
{
  return (uint32_t)_mm_movemask_epi8((__m128i)bytes);
}

#define TT_OWN_LOWER
TT_INLINE uint32s lower_halves(uint64s a, uint64s b)
{
  __m256 mixed = _mm256_shuffle_ps((__m256)a, (__m256)b, 0x88); /* of a 0 1, b 0 1, a 2 3, b 2 3 */
  return (uint32s)_mm256_permute4x64_epi64((__m256i)mixed, 0xd8);
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
