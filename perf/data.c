/* SPDX-License-Identifier: BSD-3-Clause */
/* Inputs whose exact result does not depend on the order of summation, and the exact comparison.
 *
 * Values are made for PERIOD slots only, and buffers are filled and compared with them piece by piece, so that a check
 * costs about what moving the memory does. A piece of PERIOD elements has the values of all slots, from one on that is
 * drawn for each piece and seed: pieces and blocks that change places, shift or are stale are wrong nearly everywhere.
 *
 * Integers wrap, so any values do. Floats: for sum, whole numbers so small that no partial sum needs more bits than the
 * type has (also not where odd ranks multiply theirs by 2); for prod, plus or minus powers of two of few ranks; for
 * avg, two ranks that are not zero, within 2 units of the last place; for max and min anything finite. Elements that
 * are only copied may be any bits. Floats that travel in a shorter type have values of that. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "perf.h"

const char *const type_names[tuttiNumTypes] = {"int8", "uint8", "int32",  "uint32",   "int64",  "uint64",
                                               "half", "float", "double", "bfloat16", "f8e4m3", "f8e5m2",
                                               "int16", "uint16", "bool", "complex64", "complex128"};
const char *const op_names[OPS] = {"sum", "prod", "max", "min", "avg", "and", "or", "xor", "mulsum", "none"};
const size_t type_sizes[tuttiNumTypes] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1, 2, 2, 1, 8, 16};

#define PATTERN 0xa5 /* in memory that nobody may write */

/* Slots: a prime, so that no block is a whole number of pieces, of which doubles fit in the L1 cache. */
#define PERIOD 4093
#define RESULT (-1) /* in the place of a rank: what the operation makes of all ranks' elements */

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

static uint64_t random_of(const struct work *work, int rank, size_t slot)
{
  return mix(work->seed + (uint64_t)slot * 1048583u + (uint64_t)rank * 0x632be59bd9b4e019u);
}

/* Place of a rank among the contributors of a slot: 0 .. nranks - 1. */
static int turn(const struct work *work, int rank, size_t slot)
{
  return (int)((slot + (size_t)rank) % (size_t)work->nranks);
}

/* The factor by which a rank multiplies its elements. */
static int factor_of(int op, int rank)
{
  return op == OP_MULSUM && rank % 2 ? 2 : 1;
}

/* The float contribution, exact in the type, and in that in which it travels. */
static double float_value(const struct work *work, int rank, size_t slot)
{
  uint64_t random = random_of(work, rank, slot);
  int place = turn(work, rank, slot), digits = layouts[carrier_of(work)].mantissa + 1;
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

static int is_signed(int type)
{
  return type == tuttiInt8 || type == tuttiInt16 || type == tuttiInt32 || type == tuttiInt64;
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

/* A bool is true where its byte is not 0; so many bytes are. */
static uint64_t bool_bits(const struct work *work, int rank, size_t slot)
{
  uint64_t random = random_of(work, rank, slot);
  return random & 3 ? 0 : 1 + (random >> 8) % 255;
}

static uint64_t bool_result(const struct work *work, size_t slot)
{
  int trues = 0;
  for (int r = 0; r < work->nranks; r++) trues += bool_bits(work, r, slot) != 0;
  if (work->op == tuttiBitXor) return (uint64_t)trues % 2;
  int is_and = work->op == tuttiProd || work->op == tuttiMin || work->op == tuttiBitAnd;
  return is_and ? trues == work->nranks : trues > 0;
}

static uint64_t int_result(const struct work *work, size_t slot)
{
  int type = work->type;
  uint64_t all = widen(type, random_of(work, 0, slot));
  for (int r = 1; r < work->nranks; r++) {
    uint64_t next = widen(type, random_of(work, r, slot)) * (uint64_t)factor_of(work->op, r);
    switch (work->op) {
    case tuttiProd: all *= next; break;
    case tuttiMax: all = less(type, all, next) ? next : all; break;
    case tuttiMin: all = less(type, next, all) ? next : all; break;
    case tuttiBitAnd: all &= next; break;
    case tuttiBitOr: all |= next; break;
    case tuttiBitXor: all ^= next; break;
    default: all += next;
    }
  }
  if (work->op != tuttiAvg) return all;
  all = widen(type, all);
  return is_signed(type) ? (uint64_t)((int64_t)all / work->nranks) : all / (uint64_t)work->nranks;
}

static double float_result(const struct work *work, size_t slot)
{
  double all = float_value(work, 0, slot);
  for (int r = 1; r < work->nranks; r++) {
    double next = float_value(work, r, slot) * factor_of(work->op, r);
    switch (work->op) {
    case tuttiProd: all *= next; break;
    case tuttiMax: all = next > all ? next : all; break;
    case tuttiMin: all = next < all ? next : all; break;
    default: all += next;
    }
  }
  return work->op == tuttiAvg ? all / work->nranks : all;
}

/* The value of a float's bits, finite. */
static double float_decode(int type, uint64_t bits)
{
  int mantissa = layouts[type].mantissa, bias = (1 << (layouts[type].exponent - 1)) - 1;
  int exponent = (int)(bits >> mantissa & (((uint64_t)1 << layouts[type].exponent) - 1));
  double digits = (double)(bits & (((uint64_t)1 << mantissa) - 1));
  if (exponent) digits += (double)((uint64_t)1 << mantissa);
  digits = ldexp(digits, (exponent ? exponent : 1) - bias - mantissa);
  return bits >> (mantissa + layouts[type].exponent) ? -digits : digits;
}

/* The value in a slot of a rank's contribution, or the one that is due in that of the result. */
static uint64_t slot_bits(const struct work *work, int from, size_t slot)
{
  int type = work->type, carrier = carrier_of(work);
  if (from == RESULT && is_float(type)) {
    double wanted = float_result(work, slot);
    return float_bits(type, carrier == type ? wanted : float_decode(carrier, float_bits(carrier, wanted)));
  }
  if (type == tuttiBool) return from == RESULT ? bool_result(work, slot) : bool_bits(work, from, slot);
  if (from == RESULT) return int_result(work, slot);
  if (is_float(type) && collective_reduces(work->collective)) return float_bits(type, float_value(work, from, slot));
  return random_of(work, from, slot);
}

/* ---- pieces ---- */

/* Elements next .. end - 1 of a contribution, or of the result, in runs whose slots follow one another. */
struct pieces {
  const struct work *work;
  int from; /* a rank, or RESULT */
  int is_whole; /* all values were made at once */
  size_t next, end;
  char values[PERIOD * sizeof(uint64_t)];
};

static void values_make(struct pieces *p, size_t slot, size_t n)
{
  size_t size = type_sizes[p->work->type];
  for (size_t end = slot + n; slot < end; slot++) {
    uint64_t bits = slot_bits(p->work, p->from, slot);
    memcpy(p->values + slot * size, &bits, size); /* little endian */
  }
}

static void pieces_begin(struct pieces *p, const struct work *work, int from, size_t first, size_t n)
{
  p->work = work;
  p->from = from;
  p->next = first;
  p->end = first + n;
  p->is_whole = n > PERIOD;
  if (p->is_whole) values_make(p, 0, PERIOD);
}

/* How many elements the next run has, and their values; 0 at the end. */
static size_t piece_next(struct pieces *p, const char **values)
{
  size_t piece = p->next / PERIOD, at = p->next % PERIOD;
  size_t slot = (size_t)((at + mix(~p->work->seed + piece * 0x632be59bd9b4e019u) % PERIOD) % PERIOD);
  size_t n = PERIOD - (at > slot ? at : slot);
  if (n > p->end - p->next) n = p->end - p->next;
  if (!p->is_whole) values_make(p, slot, n);
  *values = p->values + slot * type_sizes[p->work->type];
  p->next += n;
  return n;
}

/* ---- what is right ---- */

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

/* Whether `got` is what it has to be, `wanted`. */
static int is_result(const struct work *work, uint64_t got, uint64_t wanted)
{
  if (!is_float(work->type)) return got == wanted;
  if (work->op == tuttiAvg && carrier_of(work) != work->type)
    return is_average(work, got, float_decode(work->type, wanted));
  return distance(work->type, got, wanted) <= (work->op == tuttiAvg ? 2 : 0);
}

static size_t differing(const struct pieces *p, const char *got, const char *wanted, size_t n)
{
  size_t size = type_sizes[p->work->type], wrong = 0;
  for (size_t i = 0; i < n * size; i += size) {
    uint64_t a = 0, b = 0;
    memcpy(&a, got + i, size);
    memcpy(&b, wanted + i, size);
    wrong += p->from == RESULT ? !is_result(p->work, a, b) : a != b;
  }
  return wrong;
}

/* Whether floats are at most two `steps` from what they have to be, and whole numbers of steps. Quick, as the compiler
 * knows their size: averages are seldom equal. Others may be near enough, too. */
static inline __attribute__((always_inline)) int are_near(const char *got, const char *wanted, size_t n, size_t size,
                                                          uint64_t step)
{
  uint64_t far = 0;
  for (size_t i = 0; i < n * size; i += size) {
    uint64_t a = 0, b = 0;
    memcpy(&a, got + i, size);
    memcpy(&b, wanted + i, size);
    far |= (a - b + 2 * step > 4 * step) | (a & (step - 1));
  }
  return !far;
}

static int are_averages(const struct work *work, const char *got, const char *wanted, size_t n)
{
  switch (type_sizes[work->type]) {
  case 1: return are_near(got, wanted, n, 1, 1);
  case 2: return are_near(got, wanted, n, 2, 1);
  case 4: return are_near(got, wanted, n, 4, (uint64_t)1 << (23 - layouts[carrier_of(work)].mantissa));
  default: return are_near(got, wanted, n, 8, 1);
  }
}

/* How many of n elements from `first` on are not those of `from`. */
static size_t span_wrong(const struct work *work, int from, size_t first, size_t n, const char *got)
{
  struct pieces p;
  const char *wanted;
  size_t run, size = type_sizes[work->type], wrong = 0;
  int is_near = from == RESULT && is_float(work->type) && work->op == tuttiAvg;
  pieces_begin(&p, work, from, first, n);
  for (; (run = piece_next(&p, &wanted)); got += run * size) {
    if (memcmp(got, wanted, run * size) == 0 || (is_near && are_averages(work, got, wanted, run))) continue;
    wrong += differing(&p, got, wanted, run);
  }
  return wrong;
}

/* How many elements are not those of this rank's output, which has `n`. */
static size_t output_wrong(const struct work *work, size_t n, const char *got)
{
  const struct collective *collective = work->collective;
  size_t shares = collective->out & PER_RANK ? (size_t)work->nranks : 1, wrong = 0;
  for (size_t s = 0; s < shares && n; s++) {
    int rank = work->root;
    if (collective->source == ALL_RANKS) rank = RESULT;
    if (collective->source == RANK_OF_SHARE) rank = (int)s;
    if (collective->source == RANK_BEFORE) rank = (work->rank + work->nranks - 1) % work->nranks;
    struct work theirs = *work;
    if (rank >= 0) theirs.rank = rank;
    size_t from = collective->in & PER_RANK ? work_start(&theirs, 0, work->rank) : 0;
    size_t at = shares > 1 ? work_start(work, 1, (int)s) : 0, count = work_share(work, (int)s, work->rank);
    wrong += span_wrong(work, rank, from, count, got + at * type_sizes[work->type]);
  }
  return wrong;
}

/* How many of n elements nobody may write were written. */
static size_t pattern_wrong(const struct work *work, size_t n, const char *got)
{
  size_t size = type_sizes[work->type], wrong = 0;
  uint64_t wanted;
  memset(&wanted, PATTERN, sizeof wanted);
  if (n == 0 || (memcmp(got, &wanted, size) == 0 && memcmp(got, got + size, (n - 1) * size) == 0)) return 0;
  for (size_t i = 0; i < n; i++) wrong += memcmp(got + i * size, &wanted, size) != 0;
  return wrong;
}

/* ---- buffers ---- */

/* Elements that the input has, or the output (1). */
static size_t side_count(const struct work *work, int is_out)
{
  int side = is_out ? work->collective->out : work->collective->in;
  if (side & ROOT_ONLY && work->rank != work->root) return 0;
  return side & PER_RANK ? work_start(work, is_out, work->nranks) : work_share(work, work->rank, work->rank);
}

/* The contents of a buffer: a contribution, a result or both, the result on top; the rest is the pattern. */
struct image {
  size_t in_first, in_count, out_first, out_count;
  int has_remains; /* the rest of the contribution is undefined */
};

static void images_of(const struct work *work, struct image *send, struct image *recv)
{
  const struct collective *collective = work->collective;
  size_t in, out, in_count = side_count(work, 0);
  work_offsets(work, &in, &out);
  *send = (struct image){.in_first = in, .in_count = work->in_place ? 0 : in_count};
  *recv = (struct image){.in_first = in, .in_count = work->in_place ? in_count : 0, .out_first = out,
                         .out_count = side_count(work, 1)};
  recv->has_remains = work->in_place && collective_reduces(collective) && collective->in & PER_RANK;
}

static void image_fill(const struct work *work, const struct image *image, char *buffer)
{
  struct pieces p;
  const char *values;
  size_t run, size = type_sizes[work->type], end = image->in_first + image->in_count;
  memset(buffer, PATTERN, image->in_first * size);
  memset(buffer + end * size, PATTERN, (work_elements(work) - end) * size);
  buffer += image->in_first * size;
  pieces_begin(&p, work, work->rank, 0, image->in_count);
  for (; (run = piece_next(&p, &values)); buffer += run * size) memcpy(buffer, values, run * size);
}

/* Wrong elements first .. end - 1 of a buffer, where it has no result. */
static size_t rest_wrong(const struct work *work, const struct image *image, size_t first, size_t end,
                         const char *buffer)
{
  size_t size = type_sizes[work->type], in = image->in_first, in_end = in + image->in_count, wrong = 0;
  if (in < first) in = first;
  if (in_end > end) in_end = end;
  if (in >= in_end) return end > first ? pattern_wrong(work, end - first, buffer + first * size) : 0;
  wrong = pattern_wrong(work, in - first, buffer + first * size);
  wrong += pattern_wrong(work, end - in_end, buffer + in_end * size);
  if (image->has_remains) return wrong;
  return wrong + span_wrong(work, work->rank, in - image->in_first, in_end - in, buffer + in * size);
}

static size_t image_wrong(const struct work *work, const struct image *image, const char *buffer)
{
  size_t size = type_sizes[work->type], out_end = image->out_first + image->out_count;
  if (image->out_count == 0) return rest_wrong(work, image, 0, work_elements(work), buffer);
  return output_wrong(work, image->out_count, buffer + image->out_first * size) +
         rest_wrong(work, image, 0, image->out_first, buffer) +
         rest_wrong(work, image, out_end, work_elements(work), buffer);
}

int op_takes(int op, int type)
{
  int is_complex = type == tuttiComplexFloat32 || type == tuttiComplexFloat64;
  int is_sum = op == tuttiSum || op == tuttiAvg;
  int is_bitwise = op == tuttiBitAnd || op == tuttiBitOr || op == tuttiBitXor;
  if (op == OP_NONE) return 1;
  if (is_complex) return is_sum;
  if (type == tuttiBool) return op != tuttiAvg && op != OP_MULSUM;
  return !is_bitwise || !is_float(type);
}

/* The same work on the parts of complex numbers. */
static struct work parts_of(const struct work *work)
{
  struct work parts = *work;
  if (work->type != tuttiComplexFloat32 && work->type != tuttiComplexFloat64) return parts;
  parts.type = work->type == tuttiComplexFloat32 ? tuttiFloat32 : tuttiFloat64;
  parts.wire = parts.type;
  parts.count = 2 * work->count;
  parts.parts = 2;
  return parts;
}

void data_fill(const struct work *whole, void *send, void *recv)
{
  const struct work parts = parts_of(whole), *work = &parts;
  struct image in, out;
  images_of(work, &in, &out);
  image_fill(work, &in, send);
  image_fill(work, &out, recv);
}

size_t data_wrong(const struct work *whole, const void *send, const void *recv)
{
  const struct work parts = parts_of(whole), *work = &parts;
  struct image in, out;
  images_of(work, &in, &out);
  return image_wrong(work, &in, send) + image_wrong(work, &out, recv);
}

float *data_gradients(size_t count, int rank)
{
  float *values = malloc(count ? count * sizeof *values : 1);
  for (size_t i = 0; values && i < count; i++) {
    uint64_t random[2] = {mix(2 * i + 1 + ((uint64_t)rank << 40)), mix(2 * i + 2 + ((uint64_t)rank << 40))};
    int sum = 0; /* of eight uniform numbers, whose deviation is 65536 / sqrt(12) */
    for (int k = 0; k < 8; k++) sum += (int)(random[k / 4] >> (k % 4 * 16) & 0xffff);
    values[i] = (float)(sum - 4 * 65535) * (float)(1 / (65536 * 0.816496580927726)); /* sqrt(8 / 12) */
    if ((random[0] ^ random[1]) % 128 == 0) values[i] *= 32;
  }
  return values;
}
