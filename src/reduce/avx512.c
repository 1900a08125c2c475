/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for the parts of AVX-512 that all servers with AVX-512 have: F, BW, DQ, VL. The conversion to bf16 is not
 * used, because it takes subnormals for zero. */
#include "reduce/table_private.h"

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
#include "reduce/x86.inc"

TT_INLINE __mmask64 first_bytes(size_t len)
{
  return len < 64 ? ((__mmask64)1 << len) - 1 : ~(__mmask64)0;
}

#define TT_OWN_PART
TT_INLINE void load_part(void *vector, size_t size, const void *from, size_t len)
{
  __m512i value = _mm512_maskz_loadu_epi8(first_bytes(len), from);
  memcpy(vector, &value, size);
}

TT_INLINE void store_part(void *to, const void *vector, size_t size, size_t len)
{
  __m512i value = _mm512_setzero_si512();
  memcpy(&value, vector, size);
  _mm512_mask_storeu_epi8(to, first_bytes(len), value);
}

#define TT_OWN_NAN
TT_INLINE fp32s one_nan_fp32s(fp32s value)
{
  const __m512 nan = _mm512_castsi512_ps(_mm512_set1_epi32((int)FP32_QUIET_NAN));
  return _mm512_mask_mov_ps(value, _mm512_cmp_ps_mask(value, value, _CMP_UNORD_Q), nan);
}

TT_INLINE fp64s one_nan_fp64s(fp64s value)
{
  const __m512d nan = _mm512_castsi512_pd(_mm512_set1_epi64((long long)FP64_QUIET_NAN));
  return _mm512_mask_mov_pd(value, _mm512_cmp_pd_mask(value, value, _CMP_UNORD_Q), nan);
}

/* The instructions give b if one operand is NaN or both are zero. */
#define TT_OWN_ORDER
TT_INLINE fp32s larger_fp32s(fp32s a, fp32s b)
{
  __m512 chosen = _mm512_mask_mov_ps(_mm512_max_ps(a, b), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), a);
  return _mm512_mask_and_ps(chosen, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), a, b);
}

TT_INLINE fp32s smaller_fp32s(fp32s a, fp32s b)
{
  __m512 chosen = _mm512_mask_mov_ps(_mm512_min_ps(a, b), _mm512_cmp_ps_mask(b, b, _CMP_UNORD_Q), a);
  return _mm512_mask_or_ps(chosen, _mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), a, b);
}

TT_INLINE fp64s larger_fp64s(fp64s a, fp64s b)
{
  __m512d chosen = _mm512_mask_mov_pd(_mm512_max_pd(a, b), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), a);
  return _mm512_mask_and_pd(chosen, _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ), a, b);
}

TT_INLINE fp64s smaller_fp64s(fp64s a, fp64s b)
{
  __m512d chosen = _mm512_mask_mov_pd(_mm512_min_pd(a, b), _mm512_cmp_pd_mask(b, b, _CMP_UNORD_Q), a);
  return _mm512_mask_or_pd(chosen, _mm512_cmp_pd_mask(a, b, _CMP_EQ_OQ), a, b);
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

#define TT_OWN_WORDS
TT_INLINE uint32s words_of_halves(halves value)
{
  return (uint32s)_mm512_cvtepu16_epi32((__m256i)value);
}

TT_INLINE halves halves_of_words(uint32s value)
{
  return (halves)_mm512_cvtepi32_epi16((__m512i)value);
}

#define TT_OWN_QUARTERS
TT_INLINE halves halves_of_quarters(quarters value)
{
  return (halves)_mm256_cvtepu8_epi16((__m128i)value);
}

TT_INLINE quarters quarters_of_halves(halves value)
{
  return (quarters)_mm256_cvtepi16_epi8((__m256i)value);
}

TT_INLINE quarters quarters_of_words(uint32s value)
{
  return (quarters)_mm512_cvtepi32_epi8((__m512i)value);
}

#define TT_OWN_FP16
TT_INLINE fp32s widen_fp16s(halves value)
{
  return _mm512_cvtph_ps((__m256i)value);
}

TT_INLINE halves narrow_fp16s(fp32s value)
{
  const __m256i nan = _mm256_set1_epi16(0x7e00);
  return (halves)_mm512_mask_cvtps_ph(nan, _mm512_cmp_ps_mask(value, value, _CMP_ORD_Q), value,
                                      _MM_FROUND_TO_NEAREST_INT);
}

#define TT_OWN_DOUBLES
TT_INLINE fp64s doubles_of_singles(fp32_half value)
{
  return _mm512_cvtps_pd((__m256)value);
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
  return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}

const struct tt_reduce_table tt_reduce_avx512 = {
    .name = "avx512", .usable = usable, .kernels = TT_ALL_ROWS, .finite = TT_FINITE, .norm = TT_NORM};
#endif
