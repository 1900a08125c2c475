/* SPDX-License-Identifier: BSD-3-Clause */
/* qsgd: levels of BITS bits with random rounding, and for each bucket of BUCKET elements the value of 1.
 *
 * Alistarh, Grubic, Li, Tomioka and Vojnovic, NIPS 2017. With s = 2^(BITS - 1) - 1 levels and M the greatest magnitude
 * of the bucket, s |v| / M is rounded down or up at random, so that the mean is v; the owner of a shard does the same
 * with the sum. The paper's theorem is about the norm instead of M, its experiments use M: the variance is smaller,
 * and within the same bounds, min(d / s^2, sqrt(d) / s) |v|^2 for a bucket of d. No error feedback. Elias coding, which
 * pays at s = 1 only, is left out, because codes would have no known length.
 *
 * Code of a bucket: unit = M / s, fp32, then BITS words of 16 bits for each 16 elements: the bits of their levels, the
 * lowest first, and last their signs; a 0 has none. A bucket whose M is below 2^-100 is sent as zeros. Unit NaN: a
 * value was not finite. */
#include "codec/kernels_private.h"

static uint32_t grain(const struct tt_codec *codec)
{
  return (uint32_t)codec->number[1];
}

static uint64_t bucket_bytes(const struct tt_codec *codec, uint64_t count)
{
  return count ? UNIT_BYTES + 2 * (uint64_t)codec->number[0] * rows_of(count) : 0;
}

static uint64_t bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  const uint64_t bucket = grain(codec);
  return piece->count / bucket * bucket_bytes(codec, bucket) + bucket_bytes(codec, piece->count % bucket);
}

static struct tt_levels levels_of(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  int bits = (int)codec->number[0];
  return (struct tt_levels){.limit = float_of(FP32_HUGE),
                            .most = (1 << (bits - 1)) - 1,
                            .bits = bits,
                            .is_random = 1,
                            .random = random_of(piece)};
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  const uint64_t bucket = grain(codec);
  struct tt_levels levels = levels_of(codec, piece);
  int overflows = 0;
  (void)planes;
  for (uint64_t at = 0; at < piece->count; at += bucket, code += bucket_bytes(codec, bucket)) {
    size_t n = piece->count - at < bucket ? piece->count - at : bucket;
    uint32_t peak = kernels->peak(values + at, n);
    levels.inverse = inverse_of(peak, levels.most);
    levels.random.counter[0] = (uint32_t)((piece->first + at) / bucket);
    put_float(code, unit_of(peak, levels.most));
    kernels->levels_put(code + UNIT_BYTES, values + at, n, &levels);
    overflows |= peak >= FP32_HUGE;
  }
  return overflows;
}

static int decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                      float *sum)
{
  const struct tt_codec_kernels *kernels = tt_codec_kernels();
  const uint64_t bucket = grain(codec);
  const struct tt_levels levels = levels_of(codec, piece);
  for (uint64_t at = 0; at < piece->count; at += bucket, code += bucket_bytes(codec, bucket)) {
    size_t n = piece->count - at < bucket ? piece->count - at : bucket;
    float unit = get_float(code);
    if (bits_of(unit) == FP32_NAN) spoil(sum + at, n);
    else if (!is_unit(unit, levels.most) || !kernels->levels_add(sum + at, code + UNIT_BYTES, n, &levels, unit))
      return 0;
  }
  return 1;
}

const struct tt_codec_row tt_codec_qsgd = {.name = "qsgd",
                                           .example = "qsgd:4,512",
                                           .route = TT_CODEC_OWNER,
                                           .parameters = {{"BITS", 2, 8, 0, 1}, {"BUCKET", 1, 1 << 24, 512, 1}},
                                           .grain = grain,
                                           .bytes = bytes,
                                           .encode = encode,
                                           .decode_add = decode_add};
