/* SPDX-License-Identifier: BSD-3-Clause */
/* A row of the table of codecs, and tools that several rows use. Private to codec.
 *
 * Functions of a row run in the default floating-point environment and get checked arguments; see README.md for how to
 * add one more. */
#ifndef TT_CODEC_PRIVATE_H
#define TT_CODEC_PRIVATE_H

#include <string.h>

#include "codec/codec.h"

struct tt_codec_parameter {
  const char *name; /* as the help calls it; NULL: there is none */
  double low, high;
  double fallback; /* value where the text has none; < low: the text must have one */
  int is_whole;
};

struct tt_codec_row {
  const char *name;
  const char *example;
  enum tt_codec_route route;
  struct tt_codec_parameter parameters[TT_CODEC_PARAMETERS];
  int8_t planes[2]; /* of fp32 for each element, by stage */
  uint32_t (*grain)(const struct tt_codec *codec);                      /* route owner */
  uint32_t (*capacity)(const struct tt_codec *codec, uint64_t count, uint32_t wanted); /* route gather */
  uint64_t (*bytes)(const struct tt_codec *codec, const struct tt_codec_piece *piece);
  void (*prepare)(const struct tt_codec *codec, const float *values, uint64_t count, struct tt_codec_facts *facts);
  int (*encode)(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                float *const *planes, uint8_t *code);
  int (*decode_add)(const struct tt_codec *codec, const struct tt_codec_piece *piece, const uint8_t *code,
                    float *sum); /* 0: damaged */
};

#define TT_CODEC(row, ...) extern const struct tt_codec_row tt_codec_##row;
#include "base/codecs.def"
#undef TT_CODEC

#define FP32_NAN 0x7fc00000u
#define FP32_HUGE 0x7f000000u /* 2^127: larger magnitudes count as infinite */

static inline uint32_t bits_of(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float float_of(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint32_t magnitude_of(float value)
{
  return bits_of(value) & 0x7fffffffu;
}

static inline int is_huge(float value) /* or infinite or NaN */
{
  return magnitude_of(value) >= FP32_HUGE;
}

static inline void put_float(uint8_t *to, float value)
{
  memcpy(to, &value, sizeof value);
}

static inline float get_float(const uint8_t *from)
{
  float value;
  memcpy(&value, from, sizeof value);
  return value;
}

/* The block of greatest magnitude `peak` (its bits) in steps from -nsteps to nsteps: the value of a step, NaN if the
 * block is not finite, and steps for each unit of value. Both are 0 below a peak at which the second could overflow. */
#define UNIT_BYTES 4
#define FP32_TINY 0x0d800000u /* 2^-100 */

static inline float unit_of(uint32_t peak, int nsteps)
{
  if (peak >= FP32_HUGE) return float_of(FP32_NAN);
  return peak < FP32_TINY ? 0 : float_of(peak) / (float)nsteps;
}

static inline float inverse_of(uint32_t peak, int nsteps)
{
  return peak < FP32_TINY || peak >= FP32_HUGE ? 0 : (float)nsteps / float_of(peak);
}

/* 1: unit_of can give it. A step beyond them would be infinite. */
static inline int is_unit(float unit, int nsteps)
{
  return bits_of(unit) <= bits_of(float_of(FP32_HUGE) / (float)nsteps);
}

/* Writes NaN over a block of a sum. */
static inline void spoil(float *sum, uint64_t count)
{
  for (uint64_t i = 0; i < count; i++) sum[i] = float_of(FP32_NAN);
}

#define LANES 16 /* elements of a row: sums have so many lanes, and bits are stored in words of 16 */

static inline uint64_t rows_of(uint64_t count)
{
  return (count + LANES - 1) / LANES;
}

#endif
