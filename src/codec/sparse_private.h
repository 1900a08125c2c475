/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse codes: tools of the rows of the route gather. Private to codec.
 *
 * A code begins with a head of 16 bytes. Behind it there is room for `capacity` entries: the first `count` count, and
 * the others are zeros. Two formats of entries are shared by rows:
 *
 *   values   u16 gap, fp32 value: the element `gap` places behind the one after the entry before; a gap of 65535 and a
 *            value of 0 skip that many elements. There is room for `capacity` values and all gaps that may be needed.
 *   marks    u32: the element's number, and in the highest bit 0 for an element of value head.a, 1 for head.b.
 *
 * Elements ascend. A tensor with a value that is not finite is a code of nothing but the first such values, as NaN. */
#ifndef TT_CODEC_SPARSE_H
#define TT_CODEC_SPARSE_H

#include "codec/private.h"

#define HEAD_BYTES 16
#define VALUE_BYTES 6
#define MARK_BYTES 4
#define GAP_SKIP 65535u

struct tt_sparse_head {
  uint32_t wanted; /* entries that would have been sent with enough room */
  uint32_t count;
  float a, b;
};

void tt_sparse_head_put(uint8_t *code, const struct tt_sparse_head *head);
struct tt_sparse_head tt_sparse_head_get(const uint8_t *code);

/* ceil(share * count), but 1 to count (0 of 0). The product may be 1e-9 of itself above a whole number, because shares
 * are decimal fractions. */
uint32_t tt_sparse_share(double share, uint64_t count);

/* The capacity of rows whose codes have no fixed number of entries. */
uint32_t tt_sparse_capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted);

/* ---- errors ---- */

/* Adds values to the plane of errors. Returns how many it has added: fewer than count if one of the next sums, which
 * are then not added, is not finite. sides: NULL, or to these is added how many sums are positive, and negative. */
uint64_t tt_sparse_errors_add(float *error, const float *values, uint64_t count, uint64_t *sides);

/* The same for one element. */
static inline int error_add(float *error, float value)
{
  float sum = *error + value;
  if (is_huge(sum)) return 1;
  *error = sum;
  return 0;
}

/* ---- selection ---- */

/* The values of greatest magnitude: all above `bound`, and the first `nties` that have it. */
struct tt_sparse_top {
  uint32_t bound;
  uint64_t nties;
};

/* The greatest wanted[0] of all values (nsides 1), or (2) of the positive ones, and wanted[1] of the negative ones, of
 * which there are at least so many. 0: no value is one of that top. */
void tt_sparse_tops(struct tt_sparse_top *tops, int nsides, const float *values, uint64_t count,
                    const uint64_t *wanted);

/* 1 if the value, of the right side, is one of them. To be asked in the order of values. */
static inline int top_has(struct tt_sparse_top *top, float value)
{
  if (magnitude_of(value) != top->bound) return magnitude_of(value) > top->bound;
  if (!top->nties) return 0;
  top->nties--;
  return 1;
}

/* ---- scans ---- */

#define SCAN_WORDS 16 /* of 64 elements, of which bits are made at once */

/* The elements of a tensor whose magnitudes have bits of at least `bound`, all if that is 0, in ascending order. An
 * element that has been given may be changed meanwhile. */
struct tt_sparse_scan {
  const float *values;
  uint64_t count;
  uint32_t bound;
  uint64_t first, next; /* the elements that have bits now begin and end there */
  int word;
  uint64_t words[SCAN_WORDS]; /* element i at bit i modulo 64 */
};

struct tt_sparse_scan tt_sparse_scan_begin(const float *values, uint64_t count, uint32_t bound);

/* 0: there is no further one. */
int tt_sparse_scan_next(struct tt_sparse_scan *scan, uint64_t *element);

/* How many further ones there are. The scan has ended then. */
uint64_t tt_sparse_scan_rest(struct tt_sparse_scan *scan);

/* ---- entries ---- */

struct tt_sparse_writer {
  uint8_t *at;
  uint64_t next;  /* number of the element behind the last one */
  uint32_t count; /* entries so far */
};

uint64_t tt_sparse_values_bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece);
uint64_t tt_sparse_marks_bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece);
void tt_sparse_value_put(struct tt_sparse_writer *writer, uint64_t element, float value);
void tt_sparse_mark_put(struct tt_sparse_writer *writer, uint64_t element, int is_b);

/* The element of a mark, and whether it is one of value b. */
static inline uint32_t tt_sparse_mark_get(const uint8_t *from, int *is_b)
{
  uint32_t mark;
  memcpy(&mark, from, sizeof mark);
  *is_b = (int)(mark >> 31);
  return mark & 0x7fffffffu;
}

/* Encodes a tensor with a value that is not finite, from the element on that is the first not added to errors; the
 * others are added there. */
void tt_sparse_marks_spoil(const struct tt_codec_piece *piece, const float *values, float *error, uint64_t from,
                           struct tt_sparse_writer *writer, struct tt_sparse_head *head);
int tt_sparse_values_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                         float *sum);
int tt_sparse_marks_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                        float *sum);

/* Adds to a sum as an entry says. */
static inline void entry_add(float *sum, float value)
{
  *sum = value != value ? float_of(FP32_NAN) : *sum + value;
}

#endif
