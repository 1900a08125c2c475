/* SPDX-License-Identifier: BSD-3-Clause */
/* int8: whole numbers of 8 bits, and for each block of BLOCK elements the value of 1.
 *
 * With unit = (greatest magnitude of the block) / 127 an element is sent as value / unit, rounded to nearest even.
 * There is no error feedback, and rounding to nearest is biased: it is what people use where 8 bits are enough.
 *
 * Code of a block: unit, fp32, then a byte for each element, -127 to 127. A block whose greatest magnitude is below
 * 2^-100 is sent as zeros. Unit NaN: a value was not finite. */
#include "codec/kernels_private.h"

#define STEPS 127

static uint32_t grain(const struct tt_codec *codec)
{
  return (uint32_t)codec->number[0];
}

static uint64_t block_bytes(uint64_t count)
{
  return count ? UNIT_BYTES + count : 0;
}

static uint64_t bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  return piece->count / grain(codec) * block_bytes(grain(codec)) + block_bytes(piece->count % grain(codec));
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  const uint64_t block = grain(codec);
  int overflows = 0;
  (void)planes;
  for (uint64_t at = 0; at < piece->count; at += block, code += block_bytes(block)) {
    size_t n = piece->count - at < block ? piece->count - at : block;
    uint32_t peak = kernels->peak(values + at, n);
    put_float(code, unit_of(peak, STEPS));
    if (peak >= FP32_HUGE) memset(code + UNIT_BYTES, 0, n);
    else kernels->bytes_put(code + UNIT_BYTES, values + at, n, inverse_of(peak, STEPS));
    overflows |= peak >= FP32_HUGE;
  }
  return overflows;
}

static int decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                      float *sum)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  const uint64_t block = grain(codec);
  for (uint64_t at = 0; at < piece->count; at += block, code += block_bytes(block)) {
    size_t n = piece->count - at < block ? piece->count - at : block;
    float unit = get_float(code);
    if (bits_of(unit) == FP32_NAN) spoil(sum + at, n);
    else if (!is_unit(unit, STEPS) || !kernels->bytes_add(sum + at, code + UNIT_BYTES, n, unit)) return 0;
  }
  return 1;
}

const struct tt_codec_row tt_codec_int8 = {.name = "int8",
                                           .example = "int8:256",
                                           .route = TT_CODEC_OWNER,
                                           .parameters = {{"BLOCK", 1, 1 << 24, 256, 1}},
                                           .grain = grain,
                                           .bytes = bytes,
                                           .encode = encode,
                                           .decode_add = decode_add};
