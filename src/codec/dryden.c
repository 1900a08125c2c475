/* SPDX-License-Identifier: BSD-3-Clause */
/* dryden: of each side the elements of greatest magnitude, as their mean.
 *
 * Dryden, Moon, Jacobs and Van Essen, MLHPC 2016. With acc = error + value the greatest share SENT of the positive acc
 * is sent as its mean, and the same of the negative ones; error = acc - mean there. dryden:0.01 sends 1 % of each sign.
 * Numbers are rounded up, and the first of equal elements are sent; a side without elements sends nothing.
 *
 * Code: `marks` of sparse_private.h, of the two means. */
#include "codec/sparse_private.h"

static uint32_t capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted)
{
  uint64_t entries = (uint64_t)tt_sparse_share(codec->number[0], count) + 2; /* both sides are rounded up */
  (void)wanted;
  return (uint32_t)(entries < count ? entries : count);
}

/* Writes the marks of both sides' greatest elements, of all[side], and leaves error - mean there. */
static void sides_encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, float *error,
                         const uint64_t all[2], struct tt_sparse_writer *writer, struct tt_sparse_head *head)
{
  const uint8_t *marks = writer->at;
  uint64_t wanted[2];
  struct tt_sparse_top tops[2];
  double sum[2] = {0, 0};
  float mean[2] = {0, 0};
  for (int side = 0; side < 2; side++)
    wanted[side] = all[side] ? tt_sparse_share(codec->number[0], all[side]) : 0;
  tt_sparse_tops(tops, 2, error, piece->count, wanted);
  uint32_t bound = tops[0].bound < tops[1].bound ? tops[0].bound : tops[1].bound;
  struct tt_sparse_scan scan = tt_sparse_scan_begin(error, piece->count, bound);
  for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
    int side = error[i] < 0;
    if (writer->count >= piece->capacity || !top_has(&tops[side], error[i])) continue;
    tt_sparse_mark_put(writer, i, side);
    sum[side] += (double)error[i];
  }
  for (int side = 0; side < 2; side++)
    if (wanted[side]) mean[side] = (float)(sum[side] / (double)wanted[side]);
  for (uint32_t k = 0; k < writer->count; k++) {
    int side;
    uint32_t i = tt_sparse_mark_get(marks + k * MARK_BYTES, &side);
    error[i] -= mean[side];
  }
  *head = (struct tt_sparse_head){.wanted = writer->count, .a = mean[0], .b = mean[1]};
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  struct tt_sparse_writer writer = {.at = code + HEAD_BYTES};
  struct tt_sparse_head head = {0};
  float *error = planes[0];
  memset(code, 0, tt_sparse_marks_bytes(codec, piece));
  uint64_t sides[2] = {0, 0}, added = tt_sparse_errors_add(error, values, piece->count, sides);
  int is_spoiled = added < piece->count;
  if (is_spoiled) tt_sparse_marks_spoil(piece, values, error, added, &writer, &head);
  else sides_encode(codec, piece, error, sides, &writer, &head);
  head.count = writer.count;
  tt_sparse_head_put(code, &head);
  return is_spoiled;
}

const struct tt_codec_row tt_codec_dryden = {.name = "dryden",
                                             .example = "dryden:0.01",
                                             .route = TT_CODEC_GATHER,
                                             .parameters = {{"SENT", 1e-7, 1, 0, 0}},
                                             .planes = {1, 0},
                                             .capacity = capacity,
                                             .bytes = tt_sparse_marks_bytes,
                                             .encode = encode,
                                             .decode_add = tt_sparse_marks_add};
