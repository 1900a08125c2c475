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

#include "reduce/own.inc"
#include "codec/vector.inc"

const struct tt_codec_kernels tt_codec_neon = TT_CODEC_KERNELS("neon");
#endif
