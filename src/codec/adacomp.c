/* SPDX-License-Identifier: BSD-3-Clause */
/* adacomp: of each bin the elements that the newest value would make the greatest.
 *
 * Chen, Choi, Brand, Agrawal, Zhang and Gopalakrishnan, AAAI 2018. With G = error + g and H = G + g, an element of a
 * bin of BIN is sent if |H| >= max |G| of its bin, as the sign of G times the mean of all bins' max |G|; error = G -
 * sent. So an error may change its sign. A bin of zeros sends nothing, nor does a G of 0.
 *
 * The number of entries is not known before: what finds no room, the last elements, stays in the plane. Code: a head
 * (sparse_private.h: a is the mean), the number of entries of each bin, the entries of all bins in turn. Numbers and
 * entries have 8 bits if BIN is at most 64, else 16: an entry is the place in the bin, and in the upper two bits 1 for
 * the sign of + and 3 for -. */
#include "codec/kernels_private.h"
#include "codec/sparse_private.h"

#define SMALL_BIN 64
#define PIECE 1024 /* elements that are looked at together */

/* The layout of a code. */
struct layout {
  uint32_t bin;
  uint64_t nbins;
  size_t width; /* bytes of a number */
};

static struct layout layout_of(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  uint32_t bin = (uint32_t)codec->number[0];
  return (struct layout){bin, (piece->count + bin - 1) / bin, bin > SMALL_BIN ? 2 : 1};
}

static uint64_t bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  struct layout layout = layout_of(codec, piece);
  return HEAD_BYTES + (layout.nbins + piece->capacity) * layout.width;
}

static void number_put(uint8_t **to, size_t width, uint32_t number)
{
  const uint16_t wide = (uint16_t)number;
  if (width == 1) **to = (uint8_t)number;
  else memcpy(*to, &wide, sizeof wide);
  *to += width;
}

static uint32_t number_get(const uint8_t **from, size_t width)
{
  uint16_t wide = **from;
  if (width != 1) memcpy(&wide, *from, sizeof wide);
  *from += width;
  return wide;
}

/* Writes entries behind the bins' numbers. */
struct writer {
  uint8_t *bins, *entries;
  struct layout layout;
  uint64_t nelements; /* elements of the tensor */
  uint32_t wanted, count, capacity;
  uint32_t in_bin; /* entries of the bin so far */
};

/* The end of the bin that begins at `at`. */
static uint64_t bin_last(const struct writer *writer, uint64_t at)
{
  return writer->nelements - at < writer->layout.bin ? writer->nelements : at + writer->layout.bin;
}

/* 1: there was room. */
static int entry_put(struct writer *writer, uint64_t element, int is_negative)
{
  const uint32_t sign = is_negative ? 3 : 1, shift = (uint32_t)(8 * writer->layout.width - 2);
  if (writer->wanted++ >= writer->capacity) return 0;
  number_put(&writer->entries, writer->layout.width, (uint32_t)(element % writer->layout.bin) | sign << shift);
  writer->count++;
  writer->in_bin++;
  return 1;
}

static void bin_end(struct writer *writer)
{
  number_put(&writer->bins, writer->layout.width, writer->in_bin);
  writer->in_bin = 0;
}

static float peak_of(const float *values, uint64_t n)
{
  return float_of(tt_codec_kernels()->peak(values, n));
}

/* The mean of the bins' greatest magnitudes. */
static float scale_of(const struct writer *writer, const float *error)
{
  double sum = 0;
  for (uint64_t at = 0; at < writer->nelements; at += writer->layout.bin)
    sum += (double)peak_of(error + at, bin_last(writer, at) - at);
  return writer->layout.nbins ? (float)(sum / (double)writer->layout.nbins) : 0;
}

/* Encodes elements at .. end - 1, at most PIECE; error: G; peak: the greatest |G| of their bin, above 0. */
static void piece_encode(struct writer *writer, const float *values, float *error, const uint64_t at[2],
                         const float scale_and_peak[2])
{
  const float scale = scale_and_peak[0];
  float soft[PIECE];
  for (uint64_t i = at[0]; i < at[1]; i++) soft[i - at[0]] = error[i] + values[i];
  struct tt_sparse_scan scan = tt_sparse_scan_begin(soft, at[1] - at[0], bits_of(scale_and_peak[1]));
  for (uint64_t place; tt_sparse_scan_next(&scan, &place);) {
    uint64_t i = at[0] + place;
    if (error[i] != 0 && entry_put(writer, i, error[i] < 0)) error[i] -= error[i] < 0 ? -scale : scale;
  }
}

/* The bin that begins at `at`. */
static void bin_encode(struct writer *writer, const float *values, float *error, uint64_t at, float scale)
{
  const uint64_t end = bin_last(writer, at);
  const float peak = peak_of(error + at, end - at);
  for (; at < end && peak > 0; at += PIECE) {
    const uint64_t piece[2] = {at, end - at < PIECE ? end : at + PIECE};
    piece_encode(writer, values, error, piece, (const float[2]){scale, peak});
  }
  bin_end(writer);
}

/* Some value is not finite; those before `from` are added to errors. */
static void spoiled_bin_encode(struct writer *writer, const float *values, float *error, uint64_t at, uint64_t from)
{
  const uint64_t end = bin_last(writer, at);
  for (uint64_t i = at; i < end; i++)
    if (i >= from && error_add(&error[i], values[i])) entry_put(writer, i, 0);
  bin_end(writer);
}

static int encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                  float *const *planes, uint8_t *code)
{
  struct layout layout = layout_of(codec, piece);
  struct writer writer = {.bins = code + HEAD_BYTES,
                          .entries = code + HEAD_BYTES + layout.nbins * layout.width,
                          .layout = layout,
                          .nelements = piece->count,
                          .capacity = piece->capacity};
  memset(code, 0, bytes(codec, piece));
  uint64_t added = tt_sparse_errors_add(planes[0], values, piece->count, NULL);
  int is_spoiled = added < piece->count;
  float scale = is_spoiled ? float_of(FP32_NAN) : scale_of(&writer, planes[0]);
  for (uint64_t at = 0; at < piece->count; at += layout.bin) {
    if (is_spoiled) spoiled_bin_encode(&writer, values, planes[0], at, added);
    else bin_encode(&writer, values, planes[0], at, scale);
  }
  tt_sparse_head_put(code, &(struct tt_sparse_head){.wanted = writer.wanted, .count = writer.count, .a = scale});
  return is_spoiled;
}

/* Entries of a code that is read. */
struct reader {
  const uint8_t *bins, *entries;
  size_t width;
  float scale;
  uint32_t left; /* entries */
};

/* Adds the entries of the next bin, of n elements; 0: damaged. */
static int bin_decode(struct reader *reader, float *sum, uint64_t n)
{
  const uint32_t shift = (uint32_t)(8 * reader->width - 2), count = number_get(&reader->bins, reader->width);
  uint32_t next = 0;
  if (count > reader->left) return 0;
  reader->left -= count;
  for (uint32_t i = 0; i < count; i++) {
    uint32_t entry = number_get(&reader->entries, reader->width), sign = entry >> shift;
    uint32_t place = entry & ((1u << shift) - 1);
    if (place < next || place >= n || (sign != 1 && sign != 3)) return 0;
    entry_add(&sum[place], sign == 3 ? -reader->scale : reader->scale);
    next = place + 1;
  }
  return 1;
}

static int decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                      float *sum)
{
  struct layout layout = layout_of(codec, piece);
  struct tt_sparse_head head = tt_sparse_head_get(code);
  struct reader reader = {.bins = code + HEAD_BYTES,
                          .entries = code + HEAD_BYTES + layout.nbins * layout.width,
                          .width = layout.width,
                          .scale = head.a,
                          .left = head.count};
  if (head.wanted > piece->count || head.count > piece->capacity) return 0;
  if (bits_of(head.a) != FP32_NAN && bits_of(head.a) >= FP32_HUGE) return 0; /* negative ones among them */
  for (uint64_t at = 0; at < piece->count; at += layout.bin)
    if (!bin_decode(&reader, sum + at, piece->count - at < layout.bin ? piece->count - at : layout.bin)) return 0;
  return !reader.left;
}

const struct tt_codec_row tt_codec_adacomp = {.name = "adacomp",
                                              .example = "adacomp:500",
                                              .route = TT_CODEC_GATHER,
                                              .parameters = {{"BIN", 1, 1 << 14, 500, 1}},
                                              .planes = {1, 0},
                                              .capacity = tt_sparse_capacity,
                                              .bytes = bytes,
                                              .encode = encode,
                                              .decode_add = decode_add};
