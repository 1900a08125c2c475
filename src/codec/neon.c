/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for AArch64, which always has NEON. */
#include "codec/kernels_private.h"

#if defined(__aarch64__)
#include <arm_neon.h>

#define TT_VECTOR 16
#include "reduce/lanes.inc"

#define TT_OWN_MASKS
TT_INLINE uint32_t bits_of_lanes(uint32s lanes)
{
  const int32x4_t of_lane = {0, 1, 2, 3};
  return vaddvq_u32(vshlq_u32(vshrq_n_u32((uint32x4_t)lanes, 31), of_lane));
}

TT_INLINE uint32s lanes_of_bits(uint32_t bits)
{
  const uint32x4_t of_lane = {1, 2, 4, 8};
  return (uint32s)vtstq_u32(vdupq_n_u32(bits), of_lane);
}

#define TT_OWN_MULTIPLY
TT_INLINE uint64s multiply_low(uint64s lanes, uint32_t factor)
{
  return (uint64s)vmull_u32(vmovn_u64((uint64x2_t)lanes), vdup_n_u32(factor));
}

#define TT_OWN_BYTES
TT_INLINE byte_row bytes_of_row(const uint32s *number)
{
  uint16x8_t low = vcombine_u16(vmovn_u32((uint32x4_t)number[0]), vmovn_u32((uint32x4_t)number[1]));
  uint16x8_t high = vcombine_u16(vmovn_u32((uint32x4_t)number[2]), vmovn_u32((uint32x4_t)number[3]));
  return (byte_row)vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}

TT_INLINE uint32_t bits_of_bytes(byte_row bytes)
{
  const int8x8_t place = {0, 1, 2, 3, 4, 5, 6, 7};
  uint8x16_t bits = vshrq_n_u8((uint8x16_t)bytes, 7);
  uint32_t low = vaddv_u8(vshl_u8(vget_low_u8(bits), place)), high = vaddv_u8(vshl_u8(vget_high_u8(bits), place));
  return low | high << 8;
}

#define TT_OWN_LOWER
TT_INLINE uint32s lower_halves(uint64s a, uint64s b)
{
  return (uint32s)vcombine_u32(vmovn_u64((uint64x2_t)a), vmovn_u64((uint64x2_t)b));
}

#include "reduce/own.inc"
#include "codec/vector.inc"

const struct tt_codec_kernels tt_codec_neon = TT_CODEC_KERNELS("neon");
#endif
