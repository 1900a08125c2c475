/* SPDX-License-Identifier: BSD-3-Clause */
/* dryden: of each side the elements of greatest magnitude, as their mean.
 *
 * Dryden, Moon, Jacobs and Van Essen, MLHPC 2016. With acc = error + value the greatest share SENT of the positive acc
 * is sent as its mean, and the same of the negative ones; error = acc - mean there. dryden:0.01 sends 1 % of each sign.
 * Numbers are rounded up, and the first of equal elements are sent; a side without elements sends nothing.
 *
 * Code: `marks` of sparse_private.h, of the two means. */
#include <math.h>

#include "codec/sparse_private.h"

static uint32_t capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted)
{
  uint64_t entries = (uint64_t)tt_sparse_share(codec->number[0], count) + 2; /* both sides are rounded up */
  (void)wanted;
  return (uint32_t)(entries < count ? entries : count);
}

/* The elements of one side that are sent. */
struct side {
  struct tt_sparse_top top;
  float mean;
};

static uint64_t npositive(const float *error, uint64_t count)
{
  uint32_t n = 0;
  for (uint64_t i = 0; i < count; i++) n += error[i] > 0;
  return n;
}

static uint64_t nnegative(const float *error, uint64_t count)
{
  uint32_t n = 0;
  for (uint64_t i = 0; i < count; i++) n += error[i] < 0;
  return n;
}

static struct side side_of(const struct tt_codec *codec, const float *error, uint64_t count, enum tt_sparse_side which)
{
  struct side side = {.top = {FP32_HUGE, 0}, .mean = 0};
  uint64_t all = which == TT_SPARSE_POSITIVE ? npositive(error, count) : nnegative(error, count);
  double sum = 0;
  if (!all) return side;
  uint32_t sent = tt_sparse_share(codec->number[0], all);
  side.top = tt_sparse_top(error, count, which, sent);
  struct tt_sparse_top top = side.top;
  struct tt_sparse_scan scan = tt_sparse_scan_begin(error, count, top.bound);
  for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
    int is_on = which == TT_SPARSE_POSITIVE ? error[i] > 0 : error[i] < 0;
    if (is_on && top_has(&top, error[i])) sum += (double)error[i];
  }
  side.mean = (float)(sum / sent);
  return side;
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  struct tt_sparse_writer writer = {.at = code + HEAD_BYTES};
  struct tt_sparse_head head = {0};
  float *error = planes[0];
  memset(code, 0, tt_sparse_marks_bytes(codec, piece));
  uint64_t added = tt_sparse_errors_add(error, values, piece->count);
  int is_spoiled = added < piece->count;
  if (is_spoiled) {
    tt_sparse_marks_spoil(piece, values, error, added, &writer, &head);
  } else {
    struct side positive = side_of(codec, error, piece->count, TT_SPARSE_POSITIVE);
    struct side negative = side_of(codec, error, piece->count, TT_SPARSE_NEGATIVE);
    head.a = positive.mean;
    head.b = negative.mean;
    uint32_t bound = positive.top.bound < negative.top.bound ? positive.top.bound : negative.top.bound;
    struct tt_sparse_scan scan = tt_sparse_scan_begin(error, piece->count, bound);
    for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
      struct side *side = error[i] > 0 ? &positive : &negative;
      if (writer.count >= piece->capacity || !top_has(&side->top, error[i])) continue;
      tt_sparse_mark_put(&writer, i, side == &negative);
      error[i] -= side->mean;
    }
    head.wanted = writer.count;
  }
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
