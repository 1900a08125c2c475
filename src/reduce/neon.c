/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AArch64, which always has NEON (Advanced SIMD), including conversions from and to fp16. The treatment of
 * NaN and subnormals is set by FPCR, which fpenv.h sets. */
#include "reduce/table_private.h"

#if defined(__aarch64__)

#include <arm_neon.h>

#define TT_VECTOR 16
#include "reduce/lanes.inc"

/* FMAXNM and FMINNM order zeros but prefer a number only to a quiet NaN; FMAX of a value with itself is that value with
 * a NaN made quiet. */
#define TT_OWN_ORDER
TT_INLINE fp32s larger_fp32s(fp32s a, fp32s b)
{
  return vmaxnmq_f32(vmaxq_f32(a, a), vmaxq_f32(b, b));
}

TT_INLINE fp32s smaller_fp32s(fp32s a, fp32s b)
{
  return vminnmq_f32(vmaxq_f32(a, a), vmaxq_f32(b, b));
}

TT_INLINE fp64s larger_fp64s(fp64s a, fp64s b)
{
  return vmaxnmq_f64(vmaxq_f64(a, a), vmaxq_f64(b, b));
}

TT_INLINE fp64s smaller_fp64s(fp64s a, fp64s b)
{
  return vminnmq_f64(vmaxq_f64(a, a), vmaxq_f64(b, b));
}

#define TT_OWN_NAN
TT_INLINE fp32s one_nan_fp32s(fp32s value)
{
  return vbslq_f32(vceqq_f32(value, value), value, vreinterpretq_f32_u32(vdupq_n_u32(FP32_QUIET_NAN)));
}

TT_INLINE fp64s one_nan_fp64s(fp64s value)
{
  return vbslq_f64(vceqq_f64(value, value), value, vreinterpretq_f64_u64(vdupq_n_u64(FP64_QUIET_NAN)));
}

#define TT_OWN_MIN32
TT_INLINE uint32s min32(uint32s a, uint32s b)
{
  return (uint32s)vminq_s32((int32s)a, (int32s)b);
}

TT_INLINE uint32s max32(uint32s a, uint32s b)
{
  return (uint32s)vmaxq_s32((int32s)a, (int32s)b);
}

#define TT_OWN_FP16
TT_INLINE fp32s widen_fp16s(halves value)
{
  return vcvt_f32_f16(vreinterpret_f16_u16(value));
}

TT_INLINE halves narrow_fp16s(fp32s value)
{
  uint16x4_t bits = vreinterpret_u16_f16(vcvt_f16_f32(value));
  uint16x4_t nan = vcgt_u16(vand_u16(bits, vdup_n_u16(0x7fff)), vdup_n_u16(0x7c00));
  return vbsl_u16(nan, vdup_n_u16(0x7e00), bits);
}

#define TT_OWN_BF16
TT_INLINE fp32s widen_bf16s(halves value)
{
  return vreinterpretq_f32_u32(vshll_n_u16(value, 16));
}

/* Half a step is added, and one less if the last bit that stays is 0, which makes a difference only for a tie. */
TT_INLINE halves narrow_bf16s(fp32s value)
{
  uint32x4_t bits = vreinterpretq_u32_f32(one_nan_fp32s(value));
  uint32x4_t odd = vandq_u32(vshrq_n_u32(bits, 16), vdupq_n_u32(1));
  return vaddhn_u32(bits, vaddq_u32(odd, vdupq_n_u32(0x7fff)));
}

/* Compilers turn vectors of 4 bytes into code for one element after the other. */
#define TT_OWN_QUARTERS
TT_INLINE halves halves_of_quarters(quarters value)
{
  uint32_t word;
  memcpy(&word, &value, sizeof word);
  return vget_low_u16(vmovl_u8(vreinterpret_u8_u32(vdup_n_u32(word))));
}

TT_INLINE quarters quarters_of_halves(halves value)
{
  uint32_t word = vget_lane_u32(vreinterpret_u32_u8(vmovn_u16(vcombine_u16(value, value))), 0);
  quarters result;
  memcpy(&result, &word, sizeof result);
  return result;
}

TT_INLINE quarters quarters_of_words(uint32s value)
{
  return quarters_of_halves(vmovn_u32(value));
}

#define TT_OWN_DOUBLES
TT_INLINE fp64s doubles_of_singles(fp32_half value)
{
  return vcvt_f64_f32(value);
}

#include "reduce/own.inc"
#include "reduce/vector.inc"

static int always(void)
{
  return 1;
}

const struct tt_reduce_table tt_reduce_neon = {
    .name = "neon", .usable = always, .kernels = TT_ALL_ROWS, .finite = TT_FINITE, .norm = TT_NORM};

#endif
