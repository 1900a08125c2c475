/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_reference.h"

#include <math.h>
#include <string.h>

#include "chance.h"

#if defined(__SIZEOF_FLOAT128__)
typedef __float128 wide; /* 113 bits: rounding a sum or product of fp64 twice is harmless */
#else
typedef long double wide;
#endif

/* A float of 1 + exponent + mantissa bits. */
struct format {
  int exponent, mantissa;
  int has_infinity;
};

static struct format format_of(int type)
{
  switch (type) {
  case tuttiFloat16: return (struct format){5, 10, 1};
  case tuttiBfloat16: return (struct format){8, 7, 1};
  case tuttiFloat8e4m3: return (struct format){4, 3, 0};
  case tuttiFloat8e5m2: return (struct format){5, 2, 1};
  default: return (struct format){8, 23, 1};
  }
}

int reference_is_float(int type)
{
  return type >= tuttiFloat16 && type <= tuttiFloat8e5m2;
}

/* The value that a code without sign would have if the format had no infinity and NaN. */
static double value_of(struct format f, uint32_t code)
{
  int bias = (1 << (f.exponent - 1)) - 1;
  int exponent = (int)(code >> f.mantissa);
  double fraction = ldexp((double)(code & ((1u << f.mantissa) - 1)), -f.mantissa);
  return exponent ? ldexp(1 + fraction, exponent - bias) : ldexp(fraction, 1 - bias);
}

/* The least code that is not a finite value. */
static uint32_t special_of(struct format f)
{
  uint32_t top = (1u << (f.exponent + f.mantissa)) - 1;
  return f.has_infinity ? top - ((1u << f.mantissa) - 1) : top;
}

/* value_of of every code of a format of at most 16 bits, made once: they are looked up all the time. */
static const double *values_of(int type)
{
  static double values[tuttiNumTypes][1 << 15];
  struct format f = format_of(type);
  if (values[type][1] == 0)
    for (uint32_t code = 0; code < 1u << (f.exponent + f.mantissa); code++) values[type][code] = value_of(f, code);
  return values[type];
}

static double decode_fp32(uint32_t bits)
{
  float value;
  memcpy(&value, &bits, 4);
  return value;
}

static uint32_t encode_fp32(double x)
{
  float value = (float)x;
  uint32_t bits;
  memcpy(&bits, &value, 4);
  return isnan(x) ? 0x7fc00000u : bits;
}

double reference_decode(int type, uint32_t bits)
{
  struct format f = format_of(type);
  uint32_t sign = 1u << (f.exponent + f.mantissa), code = bits & (sign - 1);
  if (type == tuttiFloat32) return decode_fp32(bits);
  double value = values_of(type)[code];
  if (code >= special_of(f)) value = f.has_infinity && code == special_of(f) ? INFINITY : NAN;
  return bits & sign ? -value : value;
}

uint32_t reference_encode(int type, double x)
{
  struct format f = format_of(type);
  uint32_t sign = signbit(x) ? 1u << (f.exponent + f.mantissa) : 0;
  uint32_t low = 0, high = special_of(f);
  if (type == tuttiFloat32) return encode_fp32(x);
  const double *values = values_of(type);
  x = fabs(x);
  if (isnan(x)) return high | (f.has_infinity ? 1u << (f.mantissa - 1) : 0);
  if (!f.has_infinity && x >= values[high - 1]) return sign | (high - 1);
  if (x >= values[high]) return sign | high;
  while (high - low > 1) { /* value(low) <= x < value(high) */
    uint32_t middle = low + (high - low) / 2;
    if (x >= values[middle]) low = middle;
    else high = middle;
  }
  double twice = values[low] + values[high];
  if (2 * x != twice) return sign | (2 * x > twice ? high : low);
  return sign | (low % 2 ? high : low);
}

static double larger_or_smaller(int redop, double a, double b)
{
  if (isnan(a) || isnan(b)) return isnan(a) ? b : a;
  if (a == 0 && b == 0) {
    int negative = redop == tuttiMax ? signbit(a) && signbit(b) : signbit(a) || signbit(b);
    return negative ? -0.0 : 0.0;
  }
  return (redop == tuttiMax) == (a > b) ? a : b;
}

/* In fp32, by way of fp64. */
static float combine_fp32(int redop, float a, float b)
{
  if (redop == tuttiMax || redop == tuttiMin) return (float)larger_or_smaller(redop, a, b);
  return (float)(redop == tuttiProd ? (double)a * (double)b : (double)a + (double)b);
}

static double combine_fp64(int redop, double a, double b)
{
  if (redop == tuttiMax || redop == tuttiMin) return larger_or_smaller(redop, a, b);
  return (double)(redop == tuttiProd ? (wide)a * (wide)b : (wide)a + (wide)b);
}

static uint32_t bits_at(const void *source, size_t i, size_t size)
{
  uint32_t bits = 0;
  memcpy(&bits, (const char *)source + i * size, size);
  return bits;
}

static int is_scaled(const struct reference *call, int k)
{
  return (call->redop == tuttiAvg || call->redop == TT_PREMUL_SUM) && call->arg->scaled == k;
}

/* One source, of which every bit is kept. */
static int is_copy(const struct reference *call)
{
  return call->nsrc == 1 && !is_scaled(call, 0) && call->arg->wide < 0 && !call->arg->dst_wide;
}

/* Element i of source k as it is combined. */
static float operand(const struct reference *call, int k, size_t i)
{
  const int type = call->type, from = k == call->arg->wide ? tuttiFloat32 : type;
  float value = (float)reference_decode(from, bits_at(call->sources[k], i, tt_type_size(from)));
  if (is_scaled(call, k)) value = (float)((double)value * (double)(float)call->arg->scale);
  else if (from == type) return value;
  return (float)reference_decode(type, reference_encode(type, value));
}

static void put(void *out, size_t i, size_t size, uint64_t bits)
{
  memcpy((char *)out + i * size, &bits, size);
}

/* A float of at most 32 bits. */
static void reduce_small(const struct reference *call, void *dst, size_t i)
{
  size_t size = tt_type_size(call->type);
  float acc = operand(call, 0, i);
  for (int k = 1; k < call->nsrc; k++) acc = combine_fp32(call->redop, acc, operand(call, k, i));
  uint32_t bits = is_copy(call) ? bits_at(call->sources[0], i, size) : reference_encode(call->type, acc);
  if (call->arg->also) put(call->arg->also, i, size, bits);
  if (call->arg->dst_wide) put(dst, i, 4, encode_fp32(reference_decode(call->type, bits)));
  else put(dst, i, size, bits);
}

static void reduce_double(const struct reference *call, void *dst, size_t i)
{
  const uint64_t nan = 0x7ff8000000000000u;
  double acc = 0, value;
  for (int k = 0; k < call->nsrc; k++) {
    memcpy(&value, (const char *)call->sources[k] + 8 * i, 8);
    if (is_scaled(call, k)) value = (double)((wide)value * (wide)call->arg->scale);
    acc = k ? combine_fp64(call->redop, acc, value) : value;
  }
  if (isnan(acc) && !is_copy(call)) memcpy(&acc, &nan, 8);
  memcpy((char *)dst + 8 * i, &acc, 8);
  if (call->arg->also) memcpy((char *)call->arg->also + 8 * i, &acc, 8);
}

__extension__ typedef __int128 int128;
__extension__ typedef unsigned __int128 uint128;

/* The value modulo 2^bits, in the type's range. */
static int128 wrap(int128 value, int bits, int is_signed)
{
  int128 modulus = (int128)1 << bits, rest = value % modulus;
  if (rest < 0) rest += modulus;
  return is_signed && rest >= modulus / 2 ? rest - modulus : rest;
}

static int128 combine_integer(int redop, int128 a, int128 b)
{
  switch (redop) {
  case tuttiProd: return (int128)((uint128)a * (uint128)b);
  case tuttiMax: return a > b ? a : b;
  case tuttiMin: return a < b ? a : b;
  case tuttiBitAnd: return a & b;
  case tuttiBitOr: return a | b;
  case tuttiBitXor: return a ^ b;
  default: return a + b;
  }
}

static void reduce_integer(const struct reference *call, void *dst, size_t i)
{
  const int type = call->type;
  const int is_signed = type == tuttiInt8 || type == tuttiInt16 || type == tuttiInt32 || type == tuttiInt64;
  size_t size = tt_type_size(type);
  int bits = (int)size * 8;
  int128 acc = 0;
  for (int k = 0; k < call->nsrc; k++) {
    uint64_t stored = 0;
    memcpy(&stored, (const char *)call->sources[k] + i * size, size);
    int128 value = wrap((int128)stored, bits, is_signed);
    if (is_scaled(call, k))
      value = wrap((int128)((uint128)value * call->arg->multiplier), bits, is_signed);
    acc = wrap(k ? combine_integer(call->redop, acc, value) : value, bits, is_signed);
  }
  if (call->arg->divisor > 1) acc = acc / call->arg->divisor;
  put(dst, i, size, (uint64_t)acc);
  if (call->arg->also) put(call->arg->also, i, size, (uint64_t)acc);
}

void reference_reduce(const struct reference *call, void *dst, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (!reference_is_float(call->type)) reduce_integer(call, dst, i);
    else if (call->type == tuttiFloat64) reduce_double(call, dst, i);
    else reduce_small(call, dst, i);
  }
}

int reference_finite(int type, const void *data, size_t count)
{
  size_t size = tt_type_size(type), i = 0;
  int finite = 1;
  for (; reference_is_float(type) && i < count && finite; i++) {
    double value;
    if (type == tuttiFloat64) memcpy(&value, (const char *)data + 8 * i, 8);
    else value = reference_decode(type, bits_at(data, i, size));
    finite = isfinite(value);
  }
  return finite;
}

static size_t hard_integers(int type, void *out)
{
  size_t n = 0, size = tt_type_size(type);
  uint64_t top = (uint64_t)1 << (8 * size - 1);
  for (uint64_t near = 0; near < 4; near++) {
    put(out, n++, size, near);
    put(out, n++, size, ~near);
    put(out, n++, size, top + near);
    put(out, n++, size, top - 1 - near);
    put(out, n++, size, (top >> (4 * size - 1)) + near); /* its square just wraps */
  }
  return n;
}

size_t reference_hard(int type, void *out)
{
  if (!reference_is_float(type)) return hard_integers(type, out);
  const struct format f = type == tuttiFloat64 ? (struct format){11, 52, 1} : format_of(type);
  const uint64_t one = (uint64_t)1 << f.mantissa, bias = (1u << (f.exponent - 1)) - 1;
  const uint64_t top = ((uint64_t)1 << (f.exponent + f.mantissa)) - 1;
  const uint64_t special = f.has_infinity ? top - (one - 1) : top;
  const uint64_t ulps = (uint64_t)f.mantissa + 1, over = (special - 1) / one - ulps;
  const uint64_t codes[] = {
      0, 1, 2, 3, one - 1, one, one + 1,                      /* subnormals and the least normal */
      bias * one, bias * one + 1, bias * one + 2, bias * one + 3, (bias + 1) * one, /* 1 .. 2 */
      (bias - ulps) * one, (bias - ulps) * one + 1,           /* half a step of 1: ties */
      (bias + ulps) * one, (bias + ulps) * one + 1,           /* half a step of it is 1 */
      special / 2, special - 2, special - 1, special, top - 1, top,
      over * one - 1, over * one,                             /* half a step of the largest number: overflows */
      special + 1, (special | one / 2) + 1};                  /* more NaN: signalling, quiet with a payload */
  size_t n = 0, size = tt_type_size(type);
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    put(out, n++, size, codes[i]);
    put(out, n++, size, codes[i] | (top + 1));
  }
  return n;
}

void reference_tame(int type, void *element, uint64_t *seed)
{
  uint64_t bits = next(seed);
  double value = ldexp((double)(int64_t)bits, -62);
  if (type == tuttiFloat64) memcpy(&bits, &value, 8);
  else if (reference_is_float(type)) bits = reference_encode(type, (float)value);
  put(element, 0, tt_type_size(type), bits);
}

uint32_t reference_border(int type, uint64_t *seed)
{
  struct format f = format_of(type);
  uint32_t code = (uint32_t)below(seed, special_of(f));
  double here = values_of(type)[code], next_one = values_of(type)[code + 1];
  uint32_t bits = encode_fp32(next(seed) % 4 ? (here + next_one) / 2 : here) + (uint32_t)below(seed, 3);
  return (bits ? bits - 1 : 0) | (uint32_t)below(seed, 2) << 31;
}

void reference_arg(struct tt_reduce_arg *arg, int redop, int type, int scaled, uint64_t *seed)
{
  uint64_t hard[REFERENCE_HARD] = {0}, scalar = 0;
  int nranks = next(seed) % 4 ? 2 + (int)below(seed, 30) : 1 + (int)below(seed, INT32_MAX);
  size_t n = reference_hard(type, hard), size = tt_type_size(type);
  if (next(seed) % 2) reference_tame(type, &scalar, seed);
  else memcpy(&scalar, (const char *)hard + below(seed, n) * size, size);
  tt_reduce_arg_make(arg, redop, type, nranks, scalar, scaled);
  if (tt_reduce_finishes(redop, type, nranks) && next(seed) % 2) tt_reduce_arg_finish(arg, nranks);
  if (!tt_reduce_scales(redop, type)) return;
  if (!reference_is_float(type) && size < 8) arg->multiplier |= next(seed) << 8 * size;
  if (reference_is_float(type) && type != tuttiFloat64 && next(seed) % 4 == 0)
    arg->scale = decode_fp32((uint32_t)next(seed));
}
