/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for SSE2, which every x86-64 has. */
#include "reduce/table_private.h"

#if defined(__x86_64__)
#include <emmintrin.h>

#define TT_VECTOR 16
#include "reduce/lanes.inc"
#include "reduce/x86.inc"

#define TT_OWN_WORDS
TT_INLINE uint32s words_of_halves(halves value)
{
  long long low;
  memcpy(&low, &value, sizeof low);
  return (uint32s)_mm_unpacklo_epi16(_mm_cvtsi64_si128(low), _mm_setzero_si128());
}

/* The lanes are sign-extended first, because the instruction packs signed lanes. */
TT_INLINE halves halves_of_words(uint32s value)
{
  __m128i bits = _mm_srai_epi32(_mm_slli_epi32((__m128i)value, 16), 16);
  halves result;
  long long low = _mm_cvtsi128_si64(_mm_packs_epi32(bits, bits));
  memcpy(&result, &low, sizeof result);
  return result;
}

#define TT_OWN_QUARTERS
TT_INLINE halves halves_of_quarters(quarters value)
{
  int low;
  memcpy(&low, &value, sizeof low);
  long long wide = _mm_cvtsi128_si64(_mm_unpacklo_epi8(_mm_cvtsi32_si128(low), _mm_setzero_si128()));
  halves result;
  memcpy(&result, &wide, sizeof result);
  return result;
}

TT_INLINE quarters quarters_of_words(uint32s value)
{
  __m128i bits = _mm_packs_epi32((__m128i)value, (__m128i)value);
  quarters result;
  int low = _mm_cvtsi128_si32(_mm_packus_epi16(bits, bits));
  memcpy(&result, &low, sizeof result);
  return result;
}

#define TT_OWN_DOUBLES
TT_INLINE fp64s doubles_of_singles(fp32_half value)
{
  long long low;
  memcpy(&low, &value, sizeof low);
  return _mm_cvtps_pd(_mm_castsi128_ps(_mm_cvtsi64_si128(low)));
}

#include "reduce/own.inc"
#include "reduce/vector.inc"

static int usable(void)
{
  return 1;
}

const struct tt_reduce_table tt_reduce_sse2 = {
    .name = "sse2", .usable = usable, .kernels = TT_ALL_ROWS, .finite = TT_FINITE, .norm = TT_NORM};
#endif
