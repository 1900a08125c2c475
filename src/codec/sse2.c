/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for SSE2, which every x86-64 has. */
#include "codec/kernels_private.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define TT_VECTOR 16
#include "reduce/lanes.inc"

#define TT_OWN_MASKS
TT_INLINE uint32_t bits_of_lanes(uint32s lanes)
{
  return (uint32_t)_mm_movemask_ps((__m128)lanes);
}

TT_INLINE uint32s lanes_of_bits(uint32_t bits)
{
  const __m128i of_lane = _mm_setr_epi32(1, 2, 4, 8);
  return (uint32s)_mm_cmpeq_epi32(_mm_and_si128(_mm_set1_epi32((int)bits), of_lane), of_lane);
}

#define TT_OWN_MULTIPLY
TT_INLINE uint64s multiply_low(uint64s lanes, uint32_t factor)
{
  return (uint64s)_mm_mul_epu32((__m128i)lanes, _mm_set1_epi32((int)factor));
}

#define TT_OWN_BYTES
TT_INLINE byte_row bytes_of_row(const uint32s *number)
{
  __m128i low = _mm_packs_epi32((__m128i)number[0], (__m128i)number[1]);
  __m128i high = _mm_packs_epi32((__m128i)number[2], (__m128i)number[3]);
  return (byte_row)_mm_packus_epi16(low, high);
}

TT_INLINE uint32_t bits_of_bytes(byte_row bytes)
{
  return (uint32_t)_mm_movemask_epi8((__m128i)bytes);
}

#define TT_OWN_LOWER
TT_INLINE uint32s lower_halves(uint64s a, uint64s b)
{
  return (uint32s)_mm_shuffle_ps((__m128)a, (__m128)b, 0x88);
}

#include "reduce/own.inc"
#include "codec/vector.inc"

const struct tt_codec_kernels tt_codec_sse2 = TT_CODEC_KERNELS("sse2");
#endif
