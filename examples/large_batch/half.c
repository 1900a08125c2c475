/* SPDX-License-Identifier: BSD-3-Clause */
#include "half.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

float half_round(float x)
{
  uint32_t bits;
  float size = fabsf(x);
  if (isnan(x)) return x;
  if (size >= 65520) return copysignf(INFINITY, x);
  if (size < 0x1p-14f) return copysignf((size + 0.5f) - 0.5f, x); /* floats from 0.5 to 1 lie 2^-24 apart */
  memcpy(&bits, &x, sizeof bits);
  bits += 0xfff + (bits >> 13 & 1); /* 13 bits of the significand are rounded away */
  bits &= ~(uint32_t)0x1fff;
  memcpy(&x, &bits, sizeof x);
  return x;
}
