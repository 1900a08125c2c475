/* SPDX-License-Identifier: BSD-3-Clause */
/* 1bit: a bit for the sign of an element, and for each row of ROW elements the means of both sides.
 *
 * Seide, Fu, Droppo, Li and Yu, Interspeech 2014. With acc = error + value an element is decoded as the mean of all acc
 * of its row that are on its side of zero; zeros, of any sign, are positive, and the mean of an empty side is 0. The
 * rest stays in the plane: error = acc - decoded. The owner of a shard does the same with a plane of its own.
 *
 * Code of a row: the mean of the negative side and that of the other, fp32 each, then a bit for each element, 1 for
 * negative, in words of 16 bits. ROW is a row of the layer's matrix in the paper: a row across several of these
 * loses nearly all where momentum is outside of the codec. Both means NaN: a value was not finite. */
#include "codec/kernels_private.h"

#define MEANS_BYTES 8

static uint32_t grain(const struct tt_codec *codec)
{
  return (uint32_t)codec->number[0];
}

static uint64_t row_bytes(uint64_t count)
{
  return count ? MEANS_BYTES + 2 * rows_of(count) : 0;
}

static uint64_t bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  return piece->count / grain(codec) * row_bytes(grain(codec)) + row_bytes(piece->count % grain(codec));
}

/* Encodes a row; 1: it is spoiled. */
static int row_encode(const struct tt_codec_kernels *kernels, const float *values, float *error, size_t n,
                      uint8_t *code)
{
  struct tt_sides sides;
  kernels->sides(&sides, error, values, n);
  float negative = sides.nnegative ? sides.negative / (float)sides.nnegative : 0;
  float positive = sides.nnegative < n ? sides.positive / (float)(n - sides.nnegative) : 0;
  int is_spoiled = sides.peak >= FP32_HUGE || is_huge(negative) || is_huge(positive);
  if (is_spoiled) negative = positive = float_of(FP32_NAN);
  put_float(code, negative);
  put_float(code + 4, positive);
  if (is_spoiled) memset(code + MEANS_BYTES, 0, 2 * rows_of(n));
  else kernels->signs_put(code + MEANS_BYTES, error, values, n, (const float[2]){positive, negative});
  return is_spoiled;
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  const uint64_t row = grain(codec);
  int overflows = 0;
  for (uint64_t at = 0; at < piece->count; at += row, code += row_bytes(row)) {
    size_t n = piece->count - at < row ? piece->count - at : row;
    overflows |= row_encode(kernels, values + at, planes[0] + at, n, code);
  }
  return overflows;
}

static int decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                      float *sum)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  const uint64_t row = grain(codec);
  for (uint64_t at = 0; at < piece->count; at += row, code += row_bytes(row)) {
    size_t n = piece->count - at < row ? piece->count - at : row;
    float means[2] = {get_float(code + 4), get_float(code)};
    if (bits_of(means[0]) == FP32_NAN && bits_of(means[1]) == FP32_NAN) {
      spoil(sum + at, n);
      continue;
    }
    if (is_huge(means[0]) || is_huge(means[1]) || means[0] < 0 || means[1] > 0) return 0;
    kernels->signs_add(sum + at, code + MEANS_BYTES, n, means);
  }
  return 1;
}

const struct tt_codec_row tt_codec_onebit = {.name = "1bit",
                                             .example = "1bit:128",
                                             .route = TT_CODEC_OWNER,
                                             .parameters = {{"ROW", 1, 1 << 24, 128, 1}},
                                             .planes = {1, 1},
                                             .grain = grain,
                                             .bytes = bytes,
                                             .encode = encode,
                                             .decode_add = decode_add};
