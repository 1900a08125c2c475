/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs whose exact result does not depend on the order of summation, and the exact comparison.
 *
 * Integers wrap, so any values do. Floats: for sum, whole numbers so small that no partial sum needs more bits than the
 * type has; for prod, plus or minus powers of two of few ranks; for avg, two ranks that are not zero, within 2 units
 * of the last place; for max and min anything finite. */
#include <math.h>
#include <string.h>

#include "perf.h"

const char *const type_names[tuttiNumTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                               "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
const char *const op_names[tuttiNumOps] = {"sum", "prod", "max", "min", "avg"};
const size_t type_sizes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

/* Layout of the float types: bits of the significand without the hidden one, and of the exponent. */
static const struct {
  int mantissa, exponent;
} layouts[tuttiNumTypes] = {
    [tuttiFloat16] = {10, 5}, [tuttiFloat32] = {23, 8},   [tuttiFloat64] = {52, 11},
    [tuttiBfloat16] = {7, 8}, [tuttiFloat8e4m3] = {3, 4}, [tuttiFloat8e5m2] = {2, 5},
};

static uint64_t mix(uint64_t x)
{
  x = (x ^ (x >> 31)) * 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 29)) * 0xbf58476d1ce4e5b9u;
  return x ^ (x >> 32);
}

static uint64_t random_of(const struct work *work, int rank, size_t i)
{
  return mix(work->seed + (uint64_t)i * 1048583u + (uint64_t)rank * 0x632be59bd9b4e019u);
}

/* Place of a rank among the contributors of element i: 0 .. nranks - 1. */
static int turn(const struct work *work, int rank, size_t i)
{
  return (int)((i + (size_t)rank) % (size_t)work->nranks);
}

/* The float contribution, exact in the type. */
static double float_value(const struct work *work, int rank, size_t i)
{
  uint64_t random = random_of(work, rank, i);
  int place = turn(work, rank, i), digits = layouts[work->type].mantissa + 1;
  double sign = random & 1 ? -1 : 1;
  if (digits > 24) digits = 24;
  double limit = (double)(1 << digits);
  switch (work->op) {
  case tuttiSum: {
    double each = floor(limit / work->nranks);
    if (each < 1) return place < (int)limit ? sign : 0;
    return sign * (double)((random >> 8) % (uint64_t)(each + 1));
  }
  case tuttiProd: return place < 4 ? sign * (random & 2 ? 2 : 0.5) : sign;
  case tuttiAvg: return place < 2 ? (double)(1 + (random >> 8) % (uint64_t)(limit / 2)) : 0;
  default: return sign * (double)((random >> 8) % (uint64_t)limit);
  }
}

/* Rounds toward nearest even to the type's bits (values here are far from overflow and underflow). */
static uint64_t float_bits(int type, double value)
{
  int mantissa = layouts[type].mantissa, bias = (1 << (layouts[type].exponent - 1)) - 1, exponent;
  uint64_t sign = signbit(value) ? (uint64_t)1 << (mantissa + layouts[type].exponent) : 0;
  double fraction = frexp(fabs(value), &exponent); /* [0.5, 1) */
  if (fraction == 0) return sign;
  int biased = exponent - 1 + bias;
  int digits = biased > 0 ? mantissa + 1 : mantissa + biased; /* subnormals have fewer */
  uint64_t scaled = (uint64_t)nearbyint(ldexp(fraction, digits));
  if (biased <= 0) return sign | scaled;
  return sign | (((uint64_t)(biased - 1) << mantissa) + scaled); /* a carry moves into the exponent */
}

static void store(void *buffer, size_t i, size_t size, uint64_t bits)
{
  memcpy((char *)buffer + i * size, &bits, size); /* little endian */
}

static int is_float(int type)
{
  return layouts[type].mantissa > 0;
}

void data_fill(const struct work *work, int rank, void *buffer)
{
  size_t size = type_sizes[work->type];
  for (size_t i = 0; i < work->count; i++)
    store(buffer, i, size,
          is_float(work->type) ? float_bits(work->type, float_value(work, rank, i)) : random_of(work, rank, i));
}

static int is_signed(int type)
{
  return type == tuttiInt8 || type == tuttiInt32 || type == tuttiInt64;
}

/* The value of the low bits of an integer type, widened. */
static uint64_t widen(int type, uint64_t bits)
{
  int shift = 64 - 8 * (int)type_sizes[type];
  bits <<= shift;
  return is_signed(type) ? (uint64_t)((int64_t)bits >> shift) : bits >> shift;
}

static int less(int type, uint64_t a, uint64_t b)
{
  return is_signed(type) ? (int64_t)a < (int64_t)b : a < b;
}

static uint64_t int_result(const struct work *work, size_t i)
{
  int type = work->type;
  uint64_t all = widen(type, random_of(work, 0, i));
  for (int r = 1; r < work->nranks; r++) {
    uint64_t next = widen(type, random_of(work, r, i));
    switch (work->op) {
    case tuttiProd: all *= next; break;
    case tuttiMax: all = less(type, all, next) ? next : all; break;
    case tuttiMin: all = less(type, next, all) ? next : all; break;
    default: all += next;
    }
  }
  if (work->op != tuttiAvg) return all;
  all = widen(type, all);
  return is_signed(type) ? (uint64_t)((int64_t)all / work->nranks) : all / (uint64_t)work->nranks;
}

static double float_result(const struct work *work, size_t i)
{
  double all = float_value(work, 0, i);
  for (int r = 1; r < work->nranks; r++) {
    double next = float_value(work, r, i);
    switch (work->op) {
    case tuttiProd: all *= next; break;
    case tuttiMax: all = next > all ? next : all; break;
    case tuttiMin: all = next < all ? next : all; break;
    default: all += next;
    }
  }
  return work->op == tuttiAvg ? all / work->nranks : all;
}

/* Distance in units of the last place between two floats of one sign; large if the signs differ. */
static uint64_t distance(int type, uint64_t a, uint64_t b)
{
  uint64_t top = (uint64_t)1 << (layouts[type].mantissa + layouts[type].exponent);
  if ((a | b) == top || a == b) return 0; /* both are zero, or equal */
  return a > b ? a - b : b - a;
}

size_t data_wrong(const struct work *work, const void *buffer)
{
  size_t size = type_sizes[work->type], wrong = 0;
  uint64_t mask = size == 8 ? ~(uint64_t)0 : ((uint64_t)1 << (8 * size)) - 1;
  uint64_t allowed = work->op == tuttiAvg ? 2 : 0;
  for (size_t i = 0; i < work->count; i++) {
    uint64_t got = 0;
    memcpy(&got, (const char *)buffer + i * size, size);
    if (is_float(work->type))
      wrong += distance(work->type, got, float_bits(work->type, float_result(work, i))) > allowed;
    else wrong += got != (int_result(work, i) & mask);
  }
  return wrong;
}
