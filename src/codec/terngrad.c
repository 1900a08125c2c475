/* SPDX-License-Identifier: BSD-3-Clause */
/* terngrad: -s, 0 or s, with one s for all ranks.
 *
 * Wen, Xu, Yan, Wu, Wang, Chen and Li, NIPS 2017. Elements are clipped to CLIP times the tensor's deviation (0: not at
 * all), s is the greatest magnitude that is left on any rank, and an element is sent as its sign with a probability of
 * |v| / s, so that the mean is the clipped v. Clipping is a bias, the price for fewer zeros. The deviation is taken
 * about 0, where the mean of a gradient is; about their mean, equal values would all be clipped to 0.
 *
 * s is rounded up to 12 bits. So fp32 has all sums of up to 4096 ranks, which are whole multiples of s, exactly, and
 * the owner's code is the sum: there is no second rounding. Magnitudes of 2^115 or more count as infinite, and make the
 * whole tensor NaN on all ranks.
 *
 * Code: as in qsgd.c, without units: s is a fact that all ranks know. A contribution has 2 bits an element, a result of
 * P ranks 1 + ceil(log2(P + 1)). If s is below 2^-100 all are zeros. */
#include <math.h>

#include "codec/kernels_private.h"
#include "reduce/norm.h"

#define HUGE_SCALE 0x79000000u /* 2^115 */
#define LOST_BITS 0xfffu       /* of s */

static uint32_t grain(const struct tt_codec *codec)
{
  (void)codec;
  return LANES * STREAM_ROWS;
}

static int most_of(const struct tt_codec_piece *piece)
{
  return piece->stage == TT_CODEC_CONTRIBUTION ? 1 : piece->nranks;
}

static int bits_for(int most)
{
  int bits = 1;
  while (most >> (bits - 1)) bits++;
  return bits;
}

static struct tt_levels levels_of(const struct tt_codec_piece *piece)
{
  int is_result = piece->stage == TT_CODEC_RESULT;
  return (struct tt_levels){.limit = is_result ? float_of(FP32_HUGE) : piece->facts.own,
                            .inverse = inverse_of(bits_of(piece->facts.shared), 1),
                            .most = most_of(piece),
                            .bits = bits_for(most_of(piece)),
                            .is_random = !is_result,
                            .random = random_of(piece),
                            .start = (uint32_t)piece->first};
}

static uint64_t bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  (void)codec;
  return 2 * (uint64_t)bits_for(most_of(piece)) * rows_of(piece->count);
}

static void prepare(const struct tt_codec *codec, const float *values, uint64_t count, struct tt_codec_facts *facts)
{
  struct tt_norm norm = {{0}};
  uint32_t peak = tt_codec_kernels()->peak(values, count);
  float limit = float_of(peak);
  if (peak >= HUGE_SCALE) {
    *facts = (struct tt_codec_facts){.shared = INFINITY, .own = 0};
    return;
  }
  if (codec->number[0] > 0 && count) {
    tt_norm_add(&norm, tuttiFloat32, values, 0, count);
    double clip = codec->number[0] * tt_norm_get(&norm) / sqrt((double)count);
    if (clip < (double)limit) limit = (float)clip;
  }
  *facts = (struct tt_codec_facts){.shared = float_of((bits_of(limit) + LOST_BITS) & ~LOST_BITS), .own = limit};
}

/* 1: a value of some rank is infinite or NaN. */
static int is_spoiled(const struct tt_codec_piece *piece)
{
  return !(piece->facts.shared >= 0 && piece->facts.shared <= float_of(HUGE_SCALE));
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  (void)planes;
  if (is_spoiled(piece)) {
    memset(code, 0, bytes(codec, piece));
    return 1;
  }
  struct tt_levels levels = levels_of(piece);
  tt_codec_kernels()->levels_put(code, values, piece->count, &levels);
  return 0;
}

static int decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                      float *sum)
{
  (void)codec;
  struct tt_levels levels = levels_of(piece);
  if (!is_spoiled(piece)) return tt_codec_kernels()->levels_add(sum, code, piece->count, &levels, piece->facts.shared);
  spoil(sum, piece->count);
  return 1;
}

const struct tt_codec_row tt_codec_terngrad = {.name = "terngrad",
                                               .example = "terngrad:2.5",
                                               .route = TT_CODEC_OWNER,
                                               .parameters = {{"CLIP", 0, 1000, 2.5, 0}},
                                               .grain = grain,
                                               .bytes = bytes,
                                               .prepare = prepare,
                                               .encode = encode,
                                               .decode_add = decode_add};
