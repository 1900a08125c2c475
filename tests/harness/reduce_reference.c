/* SPDX-License-Identifier: BSD-3-Clause */
#include "reduce_reference.h"

#include <math.h>
#include <string.h>

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
  return type >= tuttiFloat16;
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

double reference_decode(int type, uint32_t bits)
{
  struct format f = format_of(type);
  uint32_t sign = 1u << (f.exponent + f.mantissa), code = bits & (sign - 1);
  double value = value_of(f, code);
  if (code >= special_of(f)) value = f.has_infinity && code == special_of(f) ? INFINITY : NAN;
  return bits & sign ? -value : value;
}

uint32_t reference_encode(int type, double x)
{
  struct format f = format_of(type);
  uint32_t sign = signbit(x) ? 1u << (f.exponent + f.mantissa) : 0;
  uint32_t low = 0, high = special_of(f);
  x = fabs(x);
  if (isnan(x)) return sign | (high + (f.has_infinity ? 1u : 0u));
  if (!f.has_infinity && x >= value_of(f, high - 1)) return sign | (high - 1);
  if (x >= value_of(f, high)) return sign | high;
  while (high - low > 1) { /* value(low) <= x < value(high) */
    uint32_t middle = low + (high - low) / 2;
    if (x >= value_of(f, middle)) low = middle;
    else high = middle;
  }
  double twice = value_of(f, low) + value_of(f, high);
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
  return call->redop >= tuttiAvg && call->arg->scaled == k;
}

static void reduce_small(const struct reference *call, void *dst, size_t i)
{
  size_t size = tt_type_size(call->type);
  float acc = 0;
  for (int k = 0; k < call->nsrc; k++) {
    float value = (float)reference_decode(call->type, bits_at(call->sources[k], i, size));
    if (is_scaled(call, k)) {
      value = (float)((double)value * (double)(float)call->arg->scale);
      value = (float)reference_decode(call->type, reference_encode(call->type, value));
    }
    acc = k ? combine_fp32(call->redop, acc, value) : value;
  }
  uint32_t bits = reference_encode(call->type, acc);
  memcpy((char *)dst + i * size, &bits, size);
}

static void reduce_double(const struct reference *call, void *dst, size_t i)
{
  double acc = 0, value;
  for (int k = 0; k < call->nsrc; k++) {
    memcpy(&value, (const char *)call->sources[k] + 8 * i, 8);
    if (is_scaled(call, k)) value = (double)((wide)value * (wide)call->arg->scale);
    acc = k ? combine_fp64(call->redop, acc, value) : value;
  }
  memcpy((char *)dst + 8 * i, &acc, 8);
}

/* The value modulo 2^bits, in the type's range. */
static __int128 wrap(__int128 value, int bits, int is_signed)
{
  __int128 modulus = (__int128)1 << bits, rest = value % modulus;
  if (rest < 0) rest += modulus;
  return is_signed && rest >= modulus / 2 ? rest - modulus : rest;
}

static __int128 combine_integer(int redop, __int128 a, __int128 b)
{
  switch (redop) {
  case tuttiProd: return (__int128)((unsigned __int128)a * (unsigned __int128)b);
  case tuttiMax: return a > b ? a : b;
  case tuttiMin: return a < b ? a : b;
  default: return a + b;
  }
}

static void reduce_integer(const struct reference *call, void *dst, size_t i)
{
  const int type = call->type;
  const int is_signed = type == tuttiInt8 || type == tuttiInt32 || type == tuttiInt64;
  size_t size = tt_type_size(type);
  int bits = (int)size * 8;
  __int128 acc = 0;
  for (int k = 0; k < call->nsrc; k++) {
    uint64_t stored = 0;
    memcpy(&stored, (const char *)call->sources[k] + i * size, size);
    __int128 value = wrap((__int128)stored, bits, is_signed);
    if (is_scaled(call, k))
      value = wrap((__int128)((unsigned __int128)value * call->arg->multiplier), bits, is_signed);
    acc = wrap(k ? combine_integer(call->redop, acc, value) : value, bits, is_signed);
  }
  if (call->redop >= tuttiAvg && call->arg->divisor > 1) acc = acc / call->arg->divisor;
  uint64_t result = (uint64_t)acc;
  memcpy((char *)dst + i * size, &result, size);
}

void reference_reduce(const struct reference *call, void *dst, size_t count)
{
  for (size_t i = 0; i < count; i++) {
    if (!reference_is_float(call->type)) reduce_integer(call, dst, i);
    else if (call->type == tuttiFloat64) reduce_double(call, dst, i);
    else reduce_small(call, dst, i);
  }
}

int reference_is_nan(int type, const void *element)
{
  double value;
  if (!reference_is_float(type)) return 0;
  if (type != tuttiFloat64) return isnan(reference_decode(type, bits_at(element, 0, tt_type_size(type))));
  memcpy(&value, element, 8);
  return isnan(value);
}

int reference_same(int type, const void *a, const void *b)
{
  if (memcmp(a, b, tt_type_size(type)) == 0) return 1;
  return reference_is_nan(type, a) && reference_is_nan(type, b);
}

static size_t put(void *out, size_t at, size_t size, uint64_t bits)
{
  memcpy((char *)out + at * size, &bits, size);
  return at + 1;
}

static size_t hard_integers(int type, void *out)
{
  size_t n = 0, size = tt_type_size(type);
  uint64_t top = (uint64_t)1 << (8 * size - 1);
  for (uint64_t near = 0; near < 4; near++) {
    n = put(out, n, size, near);
    n = put(out, n, size, ~near);
    n = put(out, n, size, top + near);
    n = put(out, n, size, top - 1 - near);
    n = put(out, n, size, (top >> (4 * size - 1)) + near); /* its square just wraps */
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
  const uint64_t ulps = (uint64_t)f.mantissa + 1;
  const uint64_t codes[] = {
      0, 1, 2, 3, one - 1, one, one + 1,                      /* subnormals and the least normal */
      bias * one, bias * one + 1, bias * one + 2, bias * one + 3, (bias + 1) * one, /* 1 .. 2 */
      (bias - ulps) * one, (bias - ulps) * one + 1,           /* half a step of 1: ties */
      (bias + ulps) * one, (bias + ulps) * one + 1,           /* half a step of it is 1 */
      special / 2, special - 2, special - 1, special, top - 1, top};
  size_t n = 0, size = tt_type_size(type);
  for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
    n = put(out, n, size, codes[i]);
    n = put(out, n, size, codes[i] | (top + 1));
  }
  return n;
}

void reference_tame(int type, void *element, uint64_t *seed)
{
  uint64_t bits = reference_random(seed);
  double value = ldexp((double)(int64_t)bits, -62);
  uint32_t code = reference_is_float(type) ? reference_encode(type, (float)value) : 0;
  if (type == tuttiFloat64) memcpy(element, &value, 8);
  else if (reference_is_float(type)) memcpy(element, &code, tt_type_size(type));
  else memcpy(element, &bits, tt_type_size(type));
}

void reference_arg(struct tt_reduce_arg *arg, int redop, int type, int scaled, uint64_t *seed)
{
  uint64_t hard[REFERENCE_HARD] = {0}, scalar = 0;
  int nranks = 2 + (int)(reference_random(seed) % 30);
  size_t n = reference_hard(type, hard), size = tt_type_size(type);
  if (reference_random(seed) % 2) reference_tame(type, &scalar, seed);
  else memcpy(&scalar, (const char *)hard + reference_random(seed) % n * size, size);
  tt_reduce_arg_make(arg, redop, type, nranks, scalar, scaled);
  if (tt_reduce_finishes(redop, type) && reference_random(seed) % 2) tt_reduce_arg_finish(arg, nranks);
}

uint64_t reference_random(uint64_t *state)
{
  uint64_t x = *state;
  x ^= x << 13;
  x ^= x >> 7;
  x ^= x << 17;
  return *state = x;
}
