/* SPDX-License-Identifier: BSD-3-Clause */
/* threshold: the sign of all that has grown beyond TAU.
 *
 * Strom, Interspeech 2015. Where acc = error + value is above TAU or below -TAU that much is sent, and error = acc -+
 * TAU; a large element takes several steps. TAU is in units of one rank's contribution. If it is too small nearly all
 * elements are sent in each step, and errors grow all the same.
 *
 * The number of entries is not known before: what finds no room, the last elements, stays in the plane, and the next
 * step has more room. Code: `marks` of sparse_private.h, of TAU and -TAU. */
#include "codec/sparse_private.h"

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  const float tau = (float)codec->number[0];
  struct tt_sparse_writer writer = {.at = code + HEAD_BYTES};
  struct tt_sparse_head head = {.a = tau, .b = -tau};
  float *error = planes[0];
  memset(code, 0, tt_sparse_marks_bytes(codec, piece));
  uint64_t added = tt_sparse_errors_add(error, values, piece->count, NULL);
  int is_spoiled = added < piece->count;
  if (is_spoiled) tt_sparse_marks_spoil(piece, values, error, added, &writer, &head);
  struct tt_sparse_scan scan = tt_sparse_scan_begin(error, is_spoiled ? 0 : piece->count, bits_of(tau) + 1);
  for (uint64_t i; tt_sparse_scan_next(&scan, &i);) {
    int is_negative = error[i] < 0;
    if (head.wanted++ == piece->capacity) {
      head.wanted += (uint32_t)tt_sparse_scan_rest(&scan);
      break;
    }
    tt_sparse_mark_put(&writer, i, is_negative);
    error[i] -= is_negative ? -tau : tau;
  }
  head.count = writer.count;
  tt_sparse_head_put(code, &head);
  return is_spoiled;
}

const struct tt_codec_row tt_codec_threshold = {.name = "threshold",
                                                .example = "threshold:0.5",
                                                .route = TT_CODEC_GATHER,
                                                .parameters = {{"TAU", 1e-30, 1e30, 0, 0}},
                                                .planes = {1, 0},
                                                .capacity = tt_sparse_capacity,
                                                .bytes = tt_sparse_marks_bytes,
                                                .encode = encode,
                                                .decode_add = tt_sparse_marks_add};
