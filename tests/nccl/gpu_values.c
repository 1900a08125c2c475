/* SPDX-License-Identifier: BSD-3-Clause */
#include "gpu_values.h"

#include <string.h>

#include "gpu_nccl.h"

static const struct {
  size_t size;
  unsigned mantissa, bias; /* bits, of a floating-point type; 0: whole numbers */
} types[ncclNumTypes] = {
    [ncclInt8] = {1, 0, 0},        [ncclUint8] = {1, 0, 0},       [ncclInt32] = {4, 0, 0},
    [ncclUint32] = {4, 0, 0},      [ncclInt64] = {8, 0, 0},       [ncclUint64] = {8, 0, 0},
    [ncclFloat16] = {2, 10, 15},   [ncclFloat32] = {4, 23, 127},  [ncclFloat64] = {8, 52, 1023},
    [ncclBfloat16] = {2, 7, 127},  [ncclFloat8e4m3] = {1, 3, 7},  [ncclFloat8e5m2] = {1, 2, 15},
};

size_t value_size(int type)
{
  return types[type].size;
}

void value_put(void *to, int type, unsigned value)
{
  uint64_t bits = value, mantissa = types[type].mantissa;
  if (mantissa && value) {
    unsigned exponent = 31u - (unsigned)__builtin_clz(value);
    uint64_t fraction = value ^ (1u << exponent);
    fraction = exponent <= mantissa ? fraction << (mantissa - exponent) : fraction >> (exponent - mantissa);
    bits = ((uint64_t)(exponent + types[type].bias) << mantissa) | fraction;
  }
  memcpy(to, &bits, types[type].size); /* the low bytes come first */
}

unsigned value_get(const void *from, int type)
{
  uint64_t bits = 0, mantissa = types[type].mantissa;
  memcpy(&bits, from, types[type].size);
  if (!mantissa || !bits) return (unsigned)bits;
  uint64_t exponent = (bits >> mantissa) - types[type].bias;
  uint64_t whole = ((uint64_t)1 << mantissa) | (bits & (((uint64_t)1 << mantissa) - 1));
  return (unsigned)(exponent <= mantissa ? whole >> (mantissa - exponent) : whole << (exponent - mantissa));
}
