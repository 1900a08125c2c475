/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs whose exact result does not depend on the order of summation, and the exact comparison.
 *
 * Integers wrap, so any values do. Floats: for sum, whole numbers so small that no partial sum needs more bits than the
 * type has (also not where odd ranks multiply theirs by 2); for prod, plus or minus powers of two of few ranks; for
 * avg, two ranks that are not zero, within 2 units of the last place; for max and min anything finite. What is only
 * copied may be any bits. Floats that travel in a shorter type have values of that. */
#include <math.h>
#include <string.h>

#include "perf.h"

const char *const type_names[tuttiNumTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                               "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2"};
const char *const op_names[OPS] = {"sum", "prod", "max", "min", "avg", "mulsum", "none"};
const size_t type_sizes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

#define PATTERN 0xa5 /* in memory that nobody may write */

/* Layout of the float types: bits of the significand without the hidden one, and of the exponent. */
static const struct {
  int mantissa, exponent;
} layouts[tuttiNumTypes] = {
    [tuttiFloat16] = {10, 5}, [tuttiFloat32] = {23, 8},   [tuttiFloat64] = {52, 11},
    [tuttiBfloat16] = {7, 8}, [tuttiFloat8e4m3] = {3, 4}, [tuttiFloat8e5m2] = {2, 5},
};

/* The type in which elements are combined. */
static int carrier_of(const struct work *work)
{
  int shortens = work->wire == tuttiFloat16 || work->wire == tuttiBfloat16;
  return work->type == tuttiFloat32 && shortens ? work->wire : work->type;
}

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

/* What a rank multiplies its elements with. */
static int factor_of(int op, int rank)
{
  return op == OP_MULSUM && rank % 2 ? 2 : 1;
}

/* The float contribution, exact in the type, and in that in which it travels. */
static double float_value(const struct work *work, int rank, size_t i)
{
  uint64_t random = random_of(work, rank, i);
  int place = turn(work, rank, i), digits = layouts[carrier_of(work)].mantissa + 1;
  double sign = random & 1 ? -1 : 1;
  if (digits > 24) digits = 24;
  double limit = (double)(1 << digits);
  switch (work->op) {
  case tuttiSum:
  case OP_MULSUM: {
    double share = limit / factor_of(work->op, 1), each = floor(share / work->nranks);
    if (each < 1) return place < (int)share ? sign : 0;
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

static int is_float(int type)
{
  return layouts[type].mantissa > 0;
}

uint64_t data_scalar(int type, int rank)
{
  int factor = factor_of(OP_MULSUM, rank);
  return is_float(type) ? float_bits(type, factor) : (uint64_t)factor;
}

static uint64_t mask_of(int type)
{
  return ~(uint64_t)0 >> (64 - 8 * type_sizes[type]);
}

/* Element i of what `rank` contributes. */
static uint64_t input_bits(const struct work *work, int rank, size_t i)
{
  if (is_float(work->type) && collective_reduces(work->collective))
    return float_bits(work->type, float_value(work, rank, i));
  return random_of(work, rank, i) & mask_of(work->type);
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
    uint64_t next = widen(type, random_of(work, r, i)) * (uint64_t)factor_of(work->op, r);
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
    double next = float_value(work, r, i) * factor_of(work->op, r);
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

/* Whether an average, fp32, is one of the shorter type and near enough to what it has to be. */
static int is_average(const struct work *work, uint64_t got, double wanted)
{
  int carrier = carrier_of(work);
  uint32_t bits = (uint32_t)got, behind = ((uint32_t)1 << (23 - layouts[carrier].mantissa)) - 1;
  float value;
  memcpy(&value, &bits, sizeof value);
  if (bits & behind || !(value > 0) || (double)value > 2 * wanted) return 0;
  return distance(carrier, float_bits(carrier, (double)value), float_bits(carrier, wanted)) <= 2;
}

/* Whether `got` is the reduction of all ranks' elements i. */
static int is_result(const struct work *work, size_t i, uint64_t got)
{
  if (!is_float(work->type)) return got == (int_result(work, i) & mask_of(work->type));
  double wanted = float_result(work, i);
  if (work->op == tuttiAvg && carrier_of(work) != work->type) return is_average(work, got, wanted);
  return distance(work->type, got, float_bits(work->type, wanted)) <= (work->op == tuttiAvg ? 2 : 0);
}

/* Whether `got` is element i of this rank's output. */
static int is_output(const struct work *work, size_t i, uint64_t got)
{
  const struct collective *collective = work->collective;
  size_t share = collective->out & PER_RANK ? i / work->count : 0;
  size_t from = collective->in & PER_RANK ? (size_t)work->rank * work->count : 0;
  int rank = work->root;
  i = from + i - share * work->count;
  if (collective->source == ALL_RANKS) return is_result(work, i, got);
  if (collective->source == RANK_OF_SHARE) rank = (int)share;
  if (collective->source == RANK_BEFORE) rank = (work->rank + work->nranks - 1) % work->nranks;
  return got == input_bits(work, rank, i);
}

/* Elements that a buffer has of what is `sides`: in or out. */
static size_t side_count(const struct work *work, int side)
{
  if (side & ROOT_ONLY && work->rank != work->root) return 0;
  return side & PER_RANK ? work->count * (size_t)work->nranks : work->count;
}

/* What a buffer holds: a contribution, a result or both, the result on top; the rest is the pattern. */
struct image {
  size_t in_first, in_count, out_first, out_count;
  int has_remains; /* the rest of the contribution is undefined */
};

static void images_of(const struct work *work, struct image *send, struct image *recv)
{
  const struct collective *collective = work->collective;
  size_t in, out, in_count = side_count(work, collective->in);
  work_offsets(work, &in, &out);
  *send = (struct image){.in_first = in, .in_count = work->in_place ? 0 : in_count};
  *recv = (struct image){.in_first = in, .in_count = work->in_place ? in_count : 0, .out_first = out,
                         .out_count = side_count(work, collective->out)};
  recv->has_remains = work->in_place && collective_reduces(collective) && collective->in & PER_RANK;
}

static void image_fill(const struct work *work, const struct image *image, void *buffer)
{
  size_t size = type_sizes[work->type];
  memset(buffer, PATTERN, work_elements(work) * size);
  for (size_t i = 0; i < image->in_count; i++) {
    uint64_t bits = input_bits(work, work->rank, i);
    memcpy((char *)buffer + (image->in_first + i) * size, &bits, size); /* little endian */
  }
}

static int is_right(const struct work *work, const struct image *image, size_t i, uint64_t got)
{
  if (i - image->out_first < image->out_count) return is_output(work, i - image->out_first, got); /* or wrapped */
  if (i - image->in_first >= image->in_count) return got == (PATTERN * 0x0101010101010101u & mask_of(work->type));
  return image->has_remains || got == input_bits(work, work->rank, i - image->in_first);
}

static size_t image_wrong(const struct work *work, const struct image *image, const void *buffer)
{
  size_t n = work_elements(work), size = type_sizes[work->type], wrong = 0;
  for (size_t i = 0; i < n; i++) {
    uint64_t got = 0;
    memcpy(&got, (const char *)buffer + i * size, size);
    wrong += !is_right(work, image, i, got);
  }
  return wrong;
}

void data_fill(const struct work *work, void *send, void *recv)
{
  struct image in, out;
  images_of(work, &in, &out);
  image_fill(work, &in, send);
  image_fill(work, &out, recv);
}

size_t data_wrong(const struct work *work, const void *send, const void *recv)
{
  struct image in, out;
  images_of(work, &in, &out);
  return image_wrong(work, &in, send) + image_wrong(work, &out, recv);
}
