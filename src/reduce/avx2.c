/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AVX2 with the conversions of F16C. */
#include "reduce/table_private.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>

#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,f16c"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2,f16c")
#endif

#define TT_VECTOR 32
#include "reduce/lanes.inc"
#include "reduce/x86.inc"

#define TT_OWN_NAN
TT_INLINE fp32s one_nan_fp32s(fp32s value)
{
  const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)FP32_QUIET_NAN));
  return _mm256_blendv_ps(value, nan, _mm256_cmp_ps(value, value, _CMP_UNORD_Q));
}

TT_INLINE fp64s one_nan_fp64s(fp64s value)
{
  const __m256d nan = _mm256_castsi256_pd(_mm256_set1_epi64x((long long)FP64_QUIET_NAN));
  return _mm256_blendv_pd(value, nan, _mm256_cmp_pd(value, value, _CMP_UNORD_Q));
}

/* The instructions give b if one operand is NaN or both are zero. */
#define TT_OWN_ORDER
TT_INLINE fp32s larger_fp32s(fp32s a, fp32s b)
{
  __m256 chosen = _mm256_blendv_ps(_mm256_max_ps(a, b), a, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
  return _mm256_andnot_ps(_mm256_andnot_ps(a, _mm256_cmp_ps(a, b, _CMP_EQ_OQ)), chosen);
}

TT_INLINE fp32s smaller_fp32s(fp32s a, fp32s b)
{
  __m256 chosen = _mm256_blendv_ps(_mm256_min_ps(a, b), a, _mm256_cmp_ps(b, b, _CMP_UNORD_Q));
  return _mm256_or_ps(_mm256_and_ps(a, _mm256_cmp_ps(a, b, _CMP_EQ_OQ)), chosen);
}

TT_INLINE fp64s larger_fp64s(fp64s a, fp64s b)
{
  __m256d chosen = _mm256_blendv_pd(_mm256_max_pd(a, b), a, _mm256_cmp_pd(b, b, _CMP_UNORD_Q));
  return _mm256_andnot_pd(_mm256_andnot_pd(a, _mm256_cmp_pd(a, b, _CMP_EQ_OQ)), chosen);
}

TT_INLINE fp64s smaller_fp64s(fp64s a, fp64s b)
{
  __m256d chosen = _mm256_blendv_pd(_mm256_min_pd(a, b), a, _mm256_cmp_pd(b, b, _CMP_UNORD_Q));
  return _mm256_or_pd(_mm256_and_pd(a, _mm256_cmp_pd(a, b, _CMP_EQ_OQ)), chosen);
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

#define TT_OWN_WORDS
TT_INLINE uint32s words_of_halves(halves value)
{
  return (uint32s)_mm256_cvtepu16_epi32((__m128i)value);
}

TT_INLINE halves halves_of_words(uint32s value)
{
  __m256i bits = (__m256i)value;
  return (halves)_mm_packus_epi32(_mm256_castsi256_si128(bits), _mm256_extracti128_si256(bits, 1));
}

#define TT_OWN_QUARTERS
TT_INLINE halves halves_of_quarters(quarters value)
{
  long long low;
  memcpy(&low, &value, sizeof low);
  return (halves)_mm_cvtepu8_epi16(_mm_cvtsi64_si128(low));
}

TT_INLINE quarters quarters_of_halves(halves value)
{
  __m128i bits = (__m128i)value;
  quarters result;
  long long low = _mm_cvtsi128_si64(_mm_packus_epi16(bits, bits));
  memcpy(&result, &low, sizeof result);
  return result;
}

TT_INLINE quarters quarters_of_words(uint32s value)
{
  return quarters_of_halves(halves_of_words(value));
}

#define TT_OWN_FP16
TT_INLINE fp32s widen_fp16s(halves value)
{
  return _mm256_cvtph_ps((__m128i)value);
}

TT_INLINE halves narrow_fp16s(fp32s value)
{
  return (halves)_mm256_cvtps_ph(one_nan_fp32s(value), _MM_FROUND_TO_NEAREST_INT);
}

#define TT_OWN_DOUBLES
TT_INLINE fp64s doubles_of_singles(fp32_half value)
{
  return _mm256_cvtps_pd((__m128)value);
}

#include "reduce/own.inc"
#include "reduce/vector.inc"

#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif

static int usable(void)
{
  unsigned a, b, c = 0, d;
  return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && c & bit_F16C;
}

const struct tt_reduce_table tt_reduce_avx2 = {
    .name = "avx2", .usable = usable, .kernels = TT_ALL_ROWS, .finite = TT_FINITE, .norm = TT_NORM};
#endif
