/* SPDX-License-Identifier: BSD-3-Clause */
/* The arithmetic of single elements on the GPU, with the bits of the tables of reduce.h. The same source also compiles
 * as C++ for the CPU, where a test compares it with the plain table.
 *
 * Each type has a struct: `bits` is the type in memory, `value` the type in which it is combined, and widen and narrow
 * convert between the two. narrow turns every NaN into the one that is written. No fused multiply-add, no flush to
 * zero: see cmake/cuda.cmake. */
#ifndef TT_CUDA_ELEMENTS_CUH
#define TT_CUDA_ELEMENTS_CUH

#include <stdint.h>
#include <string.h>

#ifdef __CUDACC__
#define TT_EITHER __host__ __device__ __forceinline__
#else
#define TT_EITHER inline
#endif

namespace {

template <class To, class From> TT_EITHER To bits_as(From from)
{
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}

const uint32_t fp32_infinity = 0x7f800000u, fp32_sign = 0x80000000u;

/* ---- integers: they wrap ---- */

/* Signed: the type whose order max and min use; Divisor: the type in which avg divides. */
template <class Unsigned, class Signed, class Divisor> struct integer {
  typedef Unsigned bits;
  typedef Unsigned value;
  static const bool has_wide = false, is_always_finite = true;

  static TT_EITHER value widen(bits b) { return b; }
  static TT_EITHER bits narrow(value v) { return v; }
  static TT_EITHER value sum(value a, value b) { return (value)(a + b); }
  static TT_EITHER value prod(value a, value b) { return (value)(a * b); }
  static TT_EITHER value max(value a, value b) { return (Signed)a > (Signed)b ? a : b; }
  static TT_EITHER value min(value a, value b) { return (Signed)a < (Signed)b ? a : b; }
  static TT_EITHER value scale(value v, double, uint64_t multiplier) { return (value)(v * (value)multiplier); }
  static TT_EITHER value divide(value v, int32_t divisor) { return (value)((Divisor)(Signed)v / (Divisor)divisor); }
  static TT_EITHER bool is_finite(bits) { return true; }
};

typedef integer<uint8_t, int8_t, int32_t> element_int8;
typedef integer<uint8_t, uint8_t, int32_t> element_uint8;
typedef integer<uint32_t, int32_t, int32_t> element_int32;
typedef integer<uint32_t, uint32_t, uint32_t> element_uint32;
typedef integer<uint64_t, int64_t, int64_t> element_int64;
typedef integer<uint64_t, uint64_t, uint64_t> element_uint64;

/* ---- arithmetic of floats ---- */

/* max and min prefer a number to a NaN. Equal numbers have equal bits, except zeros of different sign: their `and` is
 * +0, their `or` is -0. */
template <class Float, class Bits> struct arithmetic {
  typedef Float value;

  static TT_EITHER value sum(value a, value b) { return a + b; }
  static TT_EITHER value prod(value a, value b) { return a * b; }
  static TT_EITHER value max(value a, value b)
  {
    if (a == b) return bits_as<Float, Bits>(bits_as<Bits>(a) & bits_as<Bits>(b));
    return a > b || b != b ? a : b;
  }
  static TT_EITHER value min(value a, value b)
  {
    if (a == b) return bits_as<Float, Bits>(bits_as<Bits>(a) | bits_as<Bits>(b));
    return a < b || b != b ? a : b;
  }
  static TT_EITHER value divide(value v, int32_t) { return v; }
};

/* A float that is combined in itself. */
template <class Float, class Bits, Bits quiet_nan, Bits infinity> struct whole_float : arithmetic<Float, Bits> {
  typedef Bits bits;
  typedef Float value;
  static const bool has_wide = false, is_always_finite = false;

  static TT_EITHER value widen(bits b) { return bits_as<Float>(b); }
  static TT_EITHER bits narrow(value v) { return v != v ? quiet_nan : bits_as<Bits>(v); }
  static TT_EITHER value scale(value v, double factor, uint64_t) { return v * (Float)factor; }
  static TT_EITHER bool is_finite(bits b) { return (b & ~((Bits)1 << (8 * sizeof(Bits) - 1))) < infinity; }
};

typedef whole_float<float, uint32_t, 0x7fc00000u, fp32_infinity> element_float;
typedef whole_float<double, uint64_t, 0x7ff8000000000000u, 0x7ff0000000000000u> element_double;

/* ---- small floats, combined in fp32 ---- */

/* Bits of |v| rounded to nearest even; `a` is the bits of |v|, which does not overflow. Below the least normal, the
 * addition of a number whose last place is the format's smallest step rounds; above, adding just under half a step to
 * the bits does, and may carry into the exponent. */
template <int mantissa, int bias> TT_EITHER uint32_t narrow_magnitude(uint32_t a)
{
  const uint32_t least_normal = (uint32_t)(128 - bias) << 23, step = (uint32_t)(151 - bias - mantissa) << 23;
  const int dropped = 23 - mantissa;
  uint32_t tiny = bits_as<uint32_t>(bits_as<float>(a) + bits_as<float>(step)) - step;
  uint32_t even = a >> dropped & 1u;
  uint32_t normal = (a - ((uint32_t)(127 - bias) << 23) + (1u << (dropped - 1)) - 1u + even) >> dropped;
  return a < least_normal ? tiny : normal;
}

/* The GPU converts fp16 itself; on the CPU the conversion uses integers. Both keep subnormals. */
#ifdef __CUDA_ARCH__
TT_EITHER float half_widen(uint16_t b)
{
  float v;
  asm("cvt.f32.f16 %0, %1;" : "=f"(v) : "h"(b));
  return v;
}

TT_EITHER uint16_t half_narrow(float v)
{
  uint16_t b;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(b) : "f"(v));
  return b;
}
#else
TT_EITHER float half_widen(uint16_t b)
{
  uint32_t magnitude = b & 0x7fffu, sign = (uint32_t)(b & 0x8000u) << 16, v;
  if (magnitude >= 0x7c00u) v = magnitude << 13 | fp32_infinity;
  else if (magnitude >= 0x400u) v = (magnitude << 13) + (112u << 23);
  else v = bits_as<uint32_t>((float)magnitude * 5.9604644775390625e-8f); /* 2^-24 */
  return bits_as<float>(v | sign);
}

TT_EITHER uint16_t half_narrow(float v)
{
  uint32_t bits = bits_as<uint32_t>(v), a = bits & ~fp32_sign, sign = (bits & fp32_sign) >> 16;
  uint32_t magnitude = a >= 0x47800000u ? 0x7c00u : narrow_magnitude<10, 15>(a); /* 65536 */
  return (uint16_t)(magnitude | sign);
}
#endif

struct format_half {
  typedef uint16_t bits;
  static const bits quiet_nan = 0x7e00, beyond_finite = 0x7c00;
  static const bool has_wide = true;
  static TT_EITHER float widen(bits b) { return half_widen(b); }
  static TT_EITHER bits narrow(float v) { return half_narrow(v); }
};

struct format_bfloat16 {
  typedef uint16_t bits;
  static const bits quiet_nan = 0x7fc0, beyond_finite = 0x7f80;
  static const bool has_wide = true;
  static TT_EITHER float widen(bits b) { return bits_as<float>((uint32_t)b << 16); }
  static TT_EITHER bits narrow(float v)
  {
    uint32_t a = bits_as<uint32_t>(v);
    return (bits)((a + 0x7fffu + (a >> 16 & 1u)) >> 16);
  }
};

/* e5m2 is the upper byte of an fp16. */
struct format_f8e5m2 {
  typedef uint8_t bits;
  static const bits quiet_nan = 0x7e, beyond_finite = 0x7c;
  static const bool has_wide = false;
  static TT_EITHER float widen(bits b) { return half_widen((uint16_t)(b << 8)); }
  static TT_EITHER bits narrow(float v)
  {
    uint32_t b = bits_as<uint32_t>(v), a = b & ~fp32_sign;
    uint32_t magnitude = a >= 0x47800000u ? 0x7cu : narrow_magnitude<2, 15>(a); /* 65536 */
    return (bits)(magnitude | (b & fp32_sign) >> 24);
  }
};

/* e4m3 has no infinity; larger values become 448. Read as fp16, its exponents are 8 too low. */
struct format_f8e4m3 {
  typedef uint8_t bits;
  static const bits quiet_nan = 0x7f, beyond_finite = 0x7f;
  static const bool has_wide = false;
  static TT_EITHER float widen(bits b)
  {
    uint32_t magnitude = b & 0x7fu;
    uint16_t half = magnitude == 0x7fu ? 0x7e00u : magnitude << 7;
    return half_widen((uint16_t)(half | (b & 0x80u) << 8)) * 256.0f;
  }
  static TT_EITHER bits narrow(float v)
  {
    uint32_t b = bits_as<uint32_t>(v), a = b & ~fp32_sign;
    uint32_t magnitude = a >= 0x43e00000u ? 0x7eu : narrow_magnitude<3, 7>(a); /* 448 */
    return (bits)(magnitude | (b & fp32_sign) >> 24);
  }
};

template <class Format> struct small_float : arithmetic<float, uint32_t> {
  typedef typename Format::bits bits;
  typedef float value;
  static const bool has_wide = Format::has_wide, is_always_finite = false;

  static TT_EITHER value widen(bits b) { return Format::widen(b); }
  static TT_EITHER bits narrow(value v)
  {
    bits b = Format::narrow(v);
    return v != v ? (bits)Format::quiet_nan : b;
  }
  static TT_EITHER value scale(value v, double factor, uint64_t) { return widen(narrow(v * (float)factor)); }
  static TT_EITHER bool is_finite(bits b) { return (b & ((bits)-1 >> 1)) < Format::beyond_finite; }
};

typedef small_float<format_half> element_half;
typedef small_float<format_bfloat16> element_bfloat16;
typedef small_float<format_f8e4m3> element_f8e4m3;
typedef small_float<format_f8e5m2> element_f8e5m2;

} // namespace

#endif
