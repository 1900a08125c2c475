/* SPDX-License-Identifier: BSD-3-Clause */
/* Single values: conversions between small floats and fp32, and max and min of
 * floats. Private to reduce. No tables and no branches, only selects, so that the
 * loops of small.inc become vector code. All want the default environment of
 * fpenv.h: two of the additions below round, the others are exact.
 *
 * A small float of 1 + e + m bits has an exponent bias of 2^(e-1) - 1. Its bits,
 * shifted to the place of fp32's and with the difference of the biases added, are its
 * value in fp32, except for subnormals and for the largest exponent. */
#ifndef TT_REDUCE_CONVERT_H
#define TT_REDUCE_CONVERT_H

#include <stdint.h>
#include <string.h>

#define FP32_INFINITY 0x7f800000u
#define FP32_QUIET_NAN 0x7fc00000u
#define FP64_QUIET_NAN 0x7ff8000000000000u

static inline uint32_t fp32_bits(float value)
{
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline float fp32_of(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static inline uint64_t fp64_bits(double value)
{
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static inline double fp64_of(uint64_t bits)
{
  double value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* yes ? a : b, in arithmetic. The compiler turns a conditional into a branch, which it
 * then cannot vectorise, as soon as one side is an addition of floats. */
static inline uint32_t pick(int yes, uint32_t a, uint32_t b)
{
  uint32_t mask = -(uint32_t)yes;
  return (a & mask) | (b & ~mask);
}

/* The sign bit of an fp32, 0 for a NaN: all NaN that are written are the same one. */
static inline uint32_t sign_of(uint32_t bits)
{
  return pick((int32_t)(bits & 0x7fffffffu) > (int32_t)FP32_INFINITY, 0, bits & 0x80000000u);
}

/* The value; for every NaN the one that is written. */
static inline float one_nan_fp32(float value)
{
  uint32_t bits = fp32_bits(value);
  return fp32_of(pick((int32_t)(bits & 0x7fffffffu) > (int32_t)FP32_INFINITY, FP32_QUIET_NAN, bits));
}

static inline double one_nan_fp64(double value)
{
  uint64_t bits = fp64_bits(value), nan = -(uint64_t)(value != value);
  return fp64_of((FP64_QUIET_NAN & nan) | (bits & ~nan));
}

/* Bits of |value| in fp32, in a format whose largest exponent is an ordinary one. A
 * subnormal is m * 2^(1 - bias - mantissa). It gets the exponent of the least normal,
 * which adds that number to its value; it is subtracted again, exactly. */
static inline uint32_t widen_finite(uint32_t magnitude, int mantissa, uint32_t bias)
{
  const uint32_t least = (128u - bias) << 23;
  uint32_t shifted = magnitude << (23 - mantissa);
  uint32_t subnormal = fp32_bits(fp32_of(shifted + least) - fp32_of(least));
  uint32_t normal = shifted + ((127u - bias) << 23);
  return pick((int32_t)magnitude < 1 << mantissa, subnormal, normal);
}

/* As widen_finite, but the largest exponent means infinity and NaN. */
static inline uint32_t widen_ieee(uint32_t magnitude, int mantissa, uint32_t bias)
{
  uint32_t finite = widen_finite(magnitude, mantissa, bias);
  uint32_t special = magnitude << (23 - mantissa) | FP32_INFINITY;
  return pick((int32_t)magnitude < (int32_t)((2 * bias + 1) << mantissa), finite, special);
}

/* |value| rounded to nearest even, if it does not overflow; `bits` are those of an fp32
 * >= 0. Below the least normal the addition of a number whose last place is the format's
 * smallest step does the rounding; above, adding just under half a step to the bits does. */
static inline uint32_t narrow_finite(uint32_t bits, int mantissa, uint32_t bias)
{
  const uint32_t step = (128u - bias + 23u - (uint32_t)mantissa) << 23;
  const int dropped = 23 - mantissa;
  uint32_t subnormal = fp32_bits(fp32_of(bits) + fp32_of(step)) - step;
  uint32_t rebased = bits - ((127u - bias) << 23);
  uint32_t normal = (rebased + (1u << (dropped - 1)) - 1u + (bits >> dropped & 1u)) >> dropped;
  return pick((int32_t)bits < (int32_t)((128u - bias) << 23), subnormal, normal);
}

/* As narrow_finite, with infinity and NaN. Just below 2^(bias + 1) the rounding itself
 * carries into the exponent of infinity. */
static inline uint32_t narrow_ieee(uint32_t bits, int mantissa, uint32_t bias)
{
  const uint32_t infinity = (2 * bias + 1) << mantissa;
  uint32_t small = narrow_finite(bits, mantissa, bias);
  small = pick((int32_t)bits < (int32_t)((128u + bias) << 23), small, infinity);
  return pick((int32_t)bits > (int32_t)FP32_INFINITY, infinity | 1u << (mantissa - 1), small);
}

/* round_ is widen_ of narrow_ without the two conversions: |value| rounded to the format's
 * precision; where it overflows, the exponent is larger than the format's largest. */
static inline uint32_t round_finite(uint32_t bits, int mantissa, uint32_t bias)
{
  const uint32_t step = (128u - bias + 23u - (uint32_t)mantissa) << 23;
  const int dropped = 23 - mantissa;
  uint32_t subnormal = fp32_bits(fp32_of(bits) + fp32_of(step) - fp32_of(step));
  uint32_t normal = bits + (1u << (dropped - 1)) - 1u + (bits >> dropped & 1u);
  normal &= ~((1u << dropped) - 1u);
  return pick((int32_t)bits < (int32_t)((128u - bias) << 23), subnormal, normal);
}

static inline uint32_t round_ieee(uint32_t bits, int mantissa, uint32_t bias)
{
  uint32_t small = round_finite(bits, mantissa, bias);
  small = pick((int32_t)small < (int32_t)((128u + bias) << 23), small, FP32_INFINITY);
  return pick((int32_t)bits > (int32_t)FP32_INFINITY, FP32_QUIET_NAN, small);
}

static inline float widen_fp16(uint16_t value)
{
  return fp32_of(widen_ieee(value & 0x7fffu, 10, 15) | (value & 0x8000u) << 16);
}

static inline uint16_t narrow_fp16(float value)
{
  uint32_t bits = fp32_bits(value);
  return (uint16_t)(narrow_ieee(bits & 0x7fffffffu, 10, 15) | (sign_of(bits) >> 16));
}

static inline float round_fp16(float value)
{
  uint32_t bits = fp32_bits(value);
  return fp32_of(round_ieee(bits & 0x7fffffffu, 10, 15) | sign_of(bits));
}

static inline float widen_bf16(uint16_t value)
{
  return fp32_of((uint32_t)value << 16);
}

static inline uint16_t narrow_bf16(float value)
{
  uint32_t bits = fp32_bits(value);
  uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1u)) >> 16;
  return (uint16_t)pick((int32_t)(bits & 0x7fffffffu) > (int32_t)FP32_INFINITY, 0x7fc0u, rounded);
}

static inline float round_bf16(float value)
{
  return widen_bf16(narrow_bf16(value));
}

static inline float widen_e5m2(uint8_t value)
{
  return fp32_of(widen_ieee(value & 0x7fu, 2, 15) | (value & 0x80u) << 24);
}

static inline uint8_t narrow_e5m2(float value)
{
  uint32_t bits = fp32_bits(value);
  return (uint8_t)(narrow_ieee(bits & 0x7fffffffu, 2, 15) | (sign_of(bits) >> 24));
}

static inline float round_e5m2(float value)
{
  uint32_t bits = fp32_bits(value);
  return fp32_of(round_ieee(bits & 0x7fffffffu, 2, 15) | sign_of(bits));
}

static inline float widen_e4m3(uint8_t value)
{
  uint32_t magnitude = value & 0x7fu;
  uint32_t finite = widen_finite(magnitude, 3, 7);
  uint32_t bits = pick(magnitude == 0x7fu, FP32_QUIET_NAN, finite);
  return fp32_of(bits | (value & 0x80u) << 24);
}

#define E4M3_LARGEST 0x43e00000u /* 448 in fp32 */

static inline uint8_t narrow_e4m3(float value)
{
  uint32_t bits = fp32_bits(value), magnitude = bits & 0x7fffffffu;
  uint32_t small = narrow_finite(magnitude, 3, 7);
  small = pick((int32_t)magnitude < (int32_t)E4M3_LARGEST, small, 0x7eu);
  small = pick((int32_t)magnitude > (int32_t)FP32_INFINITY, 0x7fu, small);
  return (uint8_t)(small | (sign_of(bits) >> 24));
}

static inline float round_e4m3(float value)
{
  uint32_t bits = fp32_bits(value), magnitude = bits & 0x7fffffffu;
  uint32_t small = round_finite(magnitude, 3, 7);
  small = pick((int32_t)magnitude < (int32_t)E4M3_LARGEST, small, E4M3_LARGEST);
  small = pick((int32_t)magnitude > (int32_t)FP32_INFINITY, FP32_QUIET_NAN, small);
  return fp32_of(small | sign_of(bits));
}

/* Equal numbers have equal bits, except zeros of different sign: their `and` is +0, their
 * `or` is -0. A comparison with a NaN is false, so b is taken unless b is the NaN. */
static inline float larger_fp32(float a, float b)
{
  uint32_t x = fp32_bits(a), y = fp32_bits(b), equal = x & y;
  uint32_t chosen = a > b ? x : y;
  chosen = a == b ? equal : chosen;
  return fp32_of(b != b ? x : chosen);
}

static inline float smaller_fp32(float a, float b)
{
  uint32_t x = fp32_bits(a), y = fp32_bits(b), equal = x | y;
  uint32_t chosen = a < b ? x : y;
  chosen = a == b ? equal : chosen;
  return fp32_of(b != b ? x : chosen);
}

static inline double larger_fp64(double a, double b)
{
  uint64_t x = fp64_bits(a), y = fp64_bits(b), equal = x & y;
  uint64_t chosen = a > b ? x : y;
  chosen = a == b ? equal : chosen;
  return fp64_of(b != b ? x : chosen);
}

static inline double smaller_fp64(double a, double b)
{
  uint64_t x = fp64_bits(a), y = fp64_bits(b), equal = x | y;
  uint64_t chosen = a < b ? x : y;
  chosen = a == b ? equal : chosen;
  return fp64_of(b != b ? x : chosen);
}

#endif
