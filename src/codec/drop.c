/* SPDX-License-Identifier: BSD-3-Clause */
/* drop: the elements of greatest magnitude, as they are.
 *
 * Aji and Heafield, EMNLP 2017. With acc = error + value the share LEFTOUT of smallest magnitude is left out and stays
 * in the plane; drop:0.99 sends 1 %. The number of elements sent is exact (the paper takes a bound from a sample), and
 * the first of equal ones are sent. The bound is one of the tensor, the paper's local one.
 *
 * Code: `values` of sparse_private.h. */
#include "codec/sparse_private.h"

static uint32_t capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted)
{
  (void)wanted;
  return tt_sparse_share(1 - codec->number[0], count);
}

/* Some value is not finite; those before `from` are added to errors. */
static void spoiled_encode(const struct tt_codec_piece *piece, const float *values, float *error, uint64_t from,
                           struct tt_sparse_writer *writer, struct tt_sparse_head *head)
{
  for (uint64_t i = from; i < piece->count; i++)
    if (error_add(&error[i], values[i]) && head->wanted++ < piece->capacity)
      tt_sparse_value_put(writer, i, float_of(FP32_NAN));
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  struct tt_sparse_writer writer = {.at = code + HEAD_BYTES};
  struct tt_sparse_head head = {0};
  float *error = planes[0];
  memset(code, 0, tt_sparse_values_bytes(codec, piece));
  if (!piece->count) return 0;
  uint64_t added = tt_sparse_errors_add(error, values, piece->count, NULL);
  int is_spoiled = added < piece->count;
  if (is_spoiled) {
    spoiled_encode(piece, values, error, added, &writer, &head);
  } else {
    struct tt_sparse_top top;
    tt_sparse_tops(&top, 1, error, piece->count, (const uint64_t[1]){piece->capacity});
    struct tt_sparse_scan scan = tt_sparse_scan_begin(error, piece->count, top.bound);
    for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
      if (!top_has(&top, error[i])) continue;
      tt_sparse_value_put(&writer, i, error[i]);
      error[i] = 0;
    }
    head.wanted = piece->capacity;
  }
  head.count = writer.count;
  tt_sparse_head_put(code, &head);
  return is_spoiled;
}

const struct tt_codec_row tt_codec_drop = {.name = "drop",
                                           .example = "drop:0.99",
                                           .route = TT_CODEC_GATHER,
                                           .parameters = {{"LEFTOUT", 0, 0.9999999, -1, 0}},
                                           .planes = {1, 0},
                                           .capacity = capacity,
                                           .bytes = tt_sparse_values_bytes,
                                           .encode = encode,
                                           .decode_add = tt_sparse_values_add};
