/* SPDX-License-Identifier: BSD-3-Clause */
/* fp16 and bf16: each element rounded to nearest even, at its contributor and once more at its owner.
 *
 * Code: 2 bytes an element, the bits of the small float. The sum between is fp32, so it does not depend on an
 * algorithm, as sums in a wire type do. */
#include "codec/private.h"
#include "reduce/reduce.h"

#define PIECE 1024 /* elements that are widened before they are added, in the first cache */

static uint32_t grain(const struct tt_codec *codec)
{
  (void)codec;
  return 1;
}

static uint64_t bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  (void)codec;
  return 2 * piece->count;
}

static int encode(int type, const struct tt_codec_piece *piece, const float *values, uint8_t *code)
{
  struct tt_reduce_arg arg = tt_reduce_plainly;
  const void *source = values;
  arg.wide = 0;
  if (!piece->count) return 0;
  tt_reduce_kernel(tuttiSum, type)(code, &source, 1, piece->count, &arg);
  return !tt_reduce_table()->finite[type](code, piece->count);
}

static int decode_add(int type, const struct tt_codec_piece *piece, const uint8_t *code, float *sum)
{
  struct tt_reduce_arg arg = tt_reduce_plainly;
  tt_reduce_fn widen = tt_reduce_kernel(tuttiSum, type), add = tt_reduce_kernel(tuttiSum, tuttiFloat32);
  float wide[PIECE];
  arg.dst_wide = 1;
  for (uint64_t at = 0; at < piece->count; at += PIECE) {
    size_t n = piece->count - at < PIECE ? piece->count - at : PIECE;
    const void *narrow = code + 2 * at, *both[2] = {sum + at, wide};
    widen(wide, &narrow, 1, n, &arg);
    add(sum + at, both, 2, n, NULL);
  }
  return 1;
}

static int fp16_encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                       float *const *planes, uint8_t *code)
{
  (void)codec, (void)planes;
  return encode(tuttiFloat16, piece, values, code);
}

static int fp16_decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                           float *sum)
{
  (void)codec;
  return decode_add(tuttiFloat16, piece, code, sum);
}

static int bf16_encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                       float *const *planes, uint8_t *code)
{
  (void)codec, (void)planes;
  return encode(tuttiBfloat16, piece, values, code);
}

static int bf16_decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                           float *sum)
{
  (void)codec;
  return decode_add(tuttiBfloat16, piece, code, sum);
}

const struct tt_codec_row tt_codec_fp16 = {.name = "fp16", .example = "fp16", .route = TT_CODEC_OWNER, .grain = grain,
                                           .bytes = bytes, .encode = fp16_encode, .decode_add = fp16_decode_add};
const struct tt_codec_row tt_codec_bf16 = {.name = "bf16", .example = "bf16", .route = TT_CODEC_OWNER, .grain = grain,
                                           .bytes = bytes, .encode = bf16_encode, .decode_add = bf16_decode_add};
