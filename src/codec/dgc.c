/* SPDX-License-Identifier: BSD-3-Clause */
/* dgc: momentum is corrected for what is sent late.
 *
 * Lin, Han, Mao, Wang and Dally, ICLR 2018. With N ranks and values g, clipped to a norm of CLIP / sqrt(N) (0: not):
 *
 *   u = MOMENTUM u + g, v = v + u; of v all but the share LEFTOUT of smallest magnitude is sent, v = u = 0 there.
 *
 * Momentum is inside, so the optimiser is SGD without. u is set to 0 (factor masking) because momentum of what was sent
 * late points the wrong way; where nothing is left out nothing is late, so with LEFTOUT 0 u stays, and this is SGD with
 * momentum. LEFTOUT may change from step to step, as warm-up does: 0.75, 0.9375, 0.984375, 0.996, 0.999 in the paper.
 * The number of elements sent is exact, as in drop.c. Planes: v, u.
 *
 * Code: `values` of sparse_private.h. */
#include <math.h>

#include "codec/kernels_private.h"
#include "codec/sparse_private.h"
#include "reduce/norm.h"

static uint32_t capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted)
{
  (void)wanted;
  return tt_sparse_share(1 - codec->number[0], count);
}

/* The factor by which values are clipped. */
static float factor_of(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values)
{
  struct tt_norm norm = {{0}};
  if (codec->number[2] <= 0) return 1;
  tt_norm_add(&norm, tuttiFloat32, values, 0, piece->count);
  double limit = codec->number[2] / sqrt((double)piece->nranks), length = tt_norm_get(&norm);
  return length > limit && isfinite(length) ? (float)(limit / length) : 1;
}

#define PIECE 1024 /* elements whose planes are made beside the old ones first */

/* Adds values, clipped by `factor`, to the planes. Where one is not finite the planes stay as they are, and an entry is
 * NaN. */
struct accumulation {
  const struct tt_codec_piece *piece;
  struct tt_sparse_writer *writer;
  float momentum, factor;
  uint32_t nspoiled;
};

static void accumulate(struct accumulation *sum, float *v, float *u, const float *values, uint64_t first)
{
  const float momentum = sum->momentum, factor = sum->factor;
  const uint64_t left = sum->piece->count - first, n = left < PIECE ? left : PIECE;
  float velocity[PIECE], total[PIECE];
  for (uint64_t i = 0; i < n; i++) {
    velocity[i] = momentum * u[first + i] + values[first + i] * factor;
    total[i] = v[first + i] + velocity[i];
  }
  int is_well = tt_codec_kernels()->peak(velocity, n) < FP32_HUGE && tt_codec_kernels()->peak(total, n) < FP32_HUGE;
  for (uint64_t i = 0; i < n && !is_well; i++) {
    if (!is_huge(velocity[i]) && !is_huge(total[i])) continue;
    velocity[i] = u[first + i];
    total[i] = v[first + i];
    if (sum->nspoiled++ < sum->piece->capacity) tt_sparse_value_put(sum->writer, first + i, float_of(FP32_NAN));
  }
  memcpy(u + first, velocity, n * sizeof *u);
  memcpy(v + first, total, n * sizeof *v);
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  struct tt_sparse_writer writer = {.at = code + HEAD_BYTES};
  struct tt_sparse_head head = {0};
  float *v = planes[0], *u = planes[1];
  memset(code, 0, tt_sparse_values_bytes(codec, piece));
  if (!piece->count) return 0;
  struct accumulation sum = {piece, &writer, (float)codec->number[1], factor_of(codec, piece, values), 0};
  for (uint64_t at = 0; at < piece->count; at += PIECE) accumulate(&sum, v, u, values, at);
  int is_spoiled = sum.nspoiled > 0, is_masked = piece->capacity < piece->count;
  head.wanted = sum.nspoiled;
  if (!is_spoiled) {
    struct tt_sparse_top top;
    tt_sparse_tops(&top, 1, v, piece->count, (const uint64_t[1]){piece->capacity});
    struct tt_sparse_scan scan = tt_sparse_scan_begin(v, piece->count, top.bound);
    for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
      if (!top_has(&top, v[i])) continue;
      tt_sparse_value_put(&writer, i, v[i]);
      v[i] = 0;
      if (is_masked) u[i] = 0;
    }
    head.wanted = piece->capacity;
  }
  head.count = writer.count;
  tt_sparse_head_put(code, &head);
  return is_spoiled;
}

const struct tt_codec_row tt_codec_dgc = {
    .name = "dgc",
    .example = "dgc:0.999,0.9,0",
    .route = TT_CODEC_GATHER,
    .parameters = {{"LEFTOUT", 0, 0.9999999, -1, 0}, {"MOMENTUM", 0, 0.9999999, 0.9, 0}, {"CLIP", 0, 1e9, 0, 0}},
    .planes = {2, 0},
    .capacity = capacity,
    .bytes = tt_sparse_values_bytes,
    .encode = encode,
    .decode_add = tt_sparse_values_add};
