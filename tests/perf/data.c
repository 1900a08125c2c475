/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of perf/ hold for right: each collective played on the buffers of all ranks, one element at a
 * time and in another order than theirs, leaves nothing wrong. One element changed anywhere is one wrong element; a
 * rank that is missing or taken twice, blocks in each other's places, shifted and stale results are found.
 * Labels: serial. */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"
#include "reduce_reference.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define RANKS 7
#define FEW 9
#define PIECE 4093 /* perf/data.c makes values for so many elements */
#define MANY 9700
#define PROGRAMS 10

static const char *const programs[PROGRAMS] = {"allreduce_perf",  "reduce_perf",   "broadcast_perf",
                                               "reduce_scatter_perf", "all_gather_perf", "alltoall_perf",
                                               "gather_perf",     "scatter_perf",  "sendrecv_perf", "hypercube_perf"};

/* All ranks' buffers, and what each of them sends. */
struct world {
  struct work work; /* of rank 0 */
  char *send[RANKS], *recv[RANKS], *input[RANKS];
};

static struct work work_of(const struct world *world, int rank)
{
  struct work work = world->work;
  work.rank = rank;
  return work;
}

static void world_open(struct world *world)
{
  size_t len = work_elements(&world->work) * type_sizes[world->work.type] + 1;
  for (int r = 0; r < world->work.nranks; r++) {
    struct work work = work_of(world, r);
    size_t in, out;
    work_offsets(&work, &in, &out);
    in *= type_sizes[work.type];
    world->send[r] = malloc(len);
    world->recv[r] = malloc(len);
    world->input[r] = malloc(len);
    assert_true(world->send[r] && world->recv[r] && world->input[r]);
    data_fill(&work, world->send[r], world->recv[r]);
    memcpy(world->input[r], (work.in_place ? world->recv[r] : world->send[r]) + in, len - 1 - in);
  }
}

static void world_close(struct world *world)
{
  for (int r = 0; r < world->work.nranks; r++) {
    free(world->send[r]);
    free(world->recv[r]);
    free(world->input[r]);
  }
}

static size_t rank_wrong(const struct world *world, int rank)
{
  struct work work = work_of(world, rank);
  return data_wrong(&work, world->send[rank], world->recv[rank]);
}

static size_t world_wrong(const struct world *world)
{
  size_t wrong = 0;
  for (int r = 0; r < world->work.nranks; r++) wrong += rank_wrong(world, r);
  return wrong;
}

/* ---- reductions, from the last rank to the first ---- */

static uint64_t element(const struct world *world, int rank, size_t i)
{
  uint64_t bits = 0;
  size_t size = type_sizes[world->work.type];
  memcpy(&bits, world->input[rank] + i * size, size);
  return bits;
}

static double decode(int type, uint64_t bits)
{
  double value;
  if (type != tuttiFloat64) return reference_decode(type, (uint32_t)bits);
  memcpy(&value, &bits, sizeof value);
  return value;
}

static uint64_t encode(int type, double value)
{
  uint64_t bits;
  if (type != tuttiFloat64) return reference_encode(type, value);
  memcpy(&bits, &value, sizeof bits);
  return bits;
}

static double combine_floats(int op, double a, double b)
{
  if (op == tuttiProd) return a * b;
  if (op == tuttiMax) return a > b ? a : b;
  if (op == tuttiMin) return a < b ? a : b;
  return a + b;
}

/* Floats may travel in a shorter type: then they are rounded to that. */
static uint64_t reduce_floats(const struct world *world, size_t i)
{
  int type = world->work.type, op = world->work.op, n = world->work.nranks;
  int wire = world->work.wire ? world->work.wire : type;
  double all = 0;
  for (int r = n - 1; r >= 0; r--) {
    double value = decode(type, element(world, r, i));
    if (op == OP_MULSUM) value *= r % 2 ? 2 : 1;
    if (op == tuttiAvg) value = type == tuttiFloat64 ? value / n : (double)((float)value / (float)n);
    value = decode(wire, encode(wire, value));
    all = r == n - 1 ? value : decode(wire, encode(wire, combine_floats(op, all, value)));
  }
  return encode(type, all);
}

static int64_t widen(int type, uint64_t bits)
{
  switch (type) {
  case tuttiInt8: return (int8_t)bits;
  case tuttiUint8: return (uint8_t)bits;
  case tuttiInt16: return (int16_t)bits;
  case tuttiUint16: return (uint16_t)bits;
  case tuttiInt32: return (int32_t)bits;
  case tuttiUint32: return (uint32_t)bits;
  default: return (int64_t)bits;
  }
}

static uint64_t combine_integers(int type, int op, uint64_t a, uint64_t b)
{
  int a_is_less = type == tuttiUint64 ? a < b : widen(type, a) < widen(type, b);
  if (op == tuttiProd) return a * b;
  if (op == tuttiMax) return a_is_less ? b : a;
  if (op == tuttiMin) return a_is_less ? a : b;
  if (op == tuttiBitAnd) return a & b;
  if (op == tuttiBitOr) return a | b;
  if (op == tuttiBitXor) return a ^ b;
  return a + b;
}

static uint64_t reduce_bools(const struct world *world, size_t i)
{
  int op = world->work.op, n = world->work.nranks, trues = 0;
  for (int r = 0; r < n; r++) trues += element(world, r, i) != 0;
  if (op == tuttiBitXor) return (uint64_t)trues % 2;
  return op == tuttiProd || op == tuttiMin || op == tuttiBitAnd ? trues == n : trues > 0;
}

static uint64_t reduce_integers(const struct world *world, size_t i)
{
  int type = world->work.type, op = world->work.op, n = world->work.nranks;
  uint64_t all = 0;
  for (int r = n - 1; r >= 0; r--) {
    uint64_t value = element(world, r, i) << (op == OP_MULSUM && r % 2);
    all = r == n - 1 ? value : combine_integers(type, op, all, value);
  }
  if (op != tuttiAvg) return all;
  return type == tuttiUint64 ? all / (uint64_t)n : (uint64_t)(widen(type, all) / n);
}

/* ---- the collectives, as tutti.h defines them ---- */

static int is(const struct world *world, const char *program)
{
  return strcmp(world->work.collective->program, program) == 0;
}

/* Elements that `rank` receives. */
static size_t received(const struct world *world, int rank)
{
  size_t count = world->work.count, all = count * (size_t)world->work.nranks;
  if (is(world, "reduce_perf")) return rank == world->work.root ? count : 0;
  if (is(world, "gather_perf")) return rank == world->work.root ? all : 0;
  return is(world, "all_gather_perf") || is(world, "alltoall_perf") || is(world, "hypercube_perf") ? all : count;
}

static uint64_t result(const struct world *world, int rank, size_t i)
{
  size_t count = world->work.count, own = (size_t)rank * count;
  int share = (int)(i / count), n = world->work.nranks;
  if (is(world, "all_gather_perf") || is(world, "hypercube_perf") || is(world, "gather_perf"))
    return element(world, share, i % count);
  if (is(world, "alltoall_perf")) return element(world, share, own + i % count);
  if (is(world, "broadcast_perf")) return element(world, world->work.root, i);
  if (is(world, "scatter_perf")) return element(world, world->work.root, own + i);
  if (is(world, "sendrecv_perf")) return element(world, (rank + n - 1) % n, i);
  if (is(world, "reduce_scatter_perf")) i += own;
  if (world->work.type == tuttiBool) return reduce_bools(world, i);
  return reference_is_float(world->work.type) ? reduce_floats(world, i) : reduce_integers(world, i);
}

static void play(struct world *world)
{
  size_t size = type_sizes[world->work.type];
  for (int r = 0; r < world->work.nranks; r++) {
    struct work work = work_of(world, r);
    size_t in, out;
    work_offsets(&work, &in, &out);
    for (size_t i = 0; i < received(world, r); i++) {
      uint64_t bits = result(world, r, i);
      memcpy(world->recv[r] + (out + i) * size, &bits, size);
    }
  }
}

/* Calls `try` for each program, place and root of n ranks, after the collective was done. */
static void for_all_with(int n, int type, int op, int wire, size_t count, void (*try)(struct world *world))
{
  for (int p = 0; p < PROGRAMS; p++) {
    const struct collective *collective = collective_find(programs[p]);
    assert_non_null(collective);
    if (collective_reduces(collective) && !op_takes(op, type)) continue;
    if (IS_SLOW && count > 1000 && (p + n + type) % 3) continue; /* each program with some types */
    struct world world = {{.collective = collective, .nranks = n, .type = type, .seed = 3}, {0}, {0}, {0}};
    world.work.count = count;
    world.work.wire = wire;
    world.work.op = collective_reduces(collective) ? op : OP_NONE;
    for (world.work.root = 0; world.work.root < (collective_has_root(collective) ? n : 1); world.work.root++)
      for (world.work.in_place = 0; world.work.in_place < (collective->never_in_place ? 1 : 2); world.work.in_place++) {
        world_open(&world);
        play(&world);
        try(&world);
        world_close(&world);
      }
  }
}

static void for_all(int n, int type, int op, void (*try)(struct world *world))
{
  for_all_with(n, type, op, 0, FEW, try);
}

static void expect_nothing_wrong(struct world *world)
{
  size_t wrong = world_wrong(world);
  if (wrong)
    fail_msg("%s, %d ranks, root %d, type %s, op %s, in place %d: %zu wrong", world->work.collective->program,
             world->work.nranks, world->work.root, type_names[world->work.type], op_names[world->work.op],
             world->work.in_place, wrong);
}

static void what_is_right_is_found_right(void **state)
{
  (void)state;
  for (int n = 1; n <= RANKS; n += n < 4 ? 1 : 3)
    for (int type = 0; type < tuttiComplexFloat32; type++) /* of pairs of floats the floats are looked at */
      for (int op = 0; op < OP_NONE; op++)
        if (!IS_SLOW || (n + type + op) % 4 == 0) for_all(n, type, op, expect_nothing_wrong);
}

static void what_travels_in_a_shorter_type_is_found_right(void **state)
{
  static const int wires[2] = {tuttiFloat16, tuttiBfloat16};
  (void)state;
  for (int n = 1; n <= RANKS; n += n < 4 ? 1 : 3)
    for (int op = 0; op < OP_NONE; op++)
      for (int w = 0; w < 2; w++) for_all_with(n, tuttiFloat32, op, wires[w], FEW, expect_nothing_wrong);
}

/* Reduce-scatter in place may leave anything in the other ranks' shares. */
static int is_undefined(const struct world *world, int rank, size_t i)
{
  return is(world, "reduce_scatter_perf") && world->work.in_place && i / world->work.count != (size_t)rank;
}

static void expect_one_wrong(struct world *world)
{
  size_t size = type_sizes[world->work.type];
  for (int r = 0; r < world->work.nranks; r++)
    for (size_t i = 0; i < work_elements(&world->work); i++) {
      char *sent = world->send[r] + (i + 1) * size - 1, *got = world->recv[r] + (i + 1) * size - 1;
      *sent ^= 0x40;
      assert_int_equal(world_wrong(world), 1);
      *sent ^= 0x40;
      *got ^= 0x40;
      assert_int_equal(world_wrong(world), !is_undefined(world, r, i));
      *got ^= 0x40;
    }
}

/* In results, in what was sent, and in what belongs to neither. */
static void a_changed_element_is_found(void **state)
{
  (void)state;
  for_all(3, tuttiFloat32, tuttiSum, expect_one_wrong);
  for_all(3, tuttiInt8, tuttiAvg, expect_one_wrong);
  for_all(2, tuttiFloat64, OP_MULSUM, expect_one_wrong);
  for_all(1, tuttiFloat8e5m2, tuttiMax, expect_one_wrong);
  for_all_with(3, tuttiFloat32, tuttiSum, tuttiFloat16, FEW, expect_one_wrong);
  for_all_with(3, tuttiFloat32, tuttiAvg, tuttiBfloat16, FEW, expect_one_wrong);
}

/* ---- errors of whole blocks and ranks ---- */

/* Where a rank's result is. */
static char *result_of(const struct world *world, int rank)
{
  struct work work = work_of(world, rank);
  size_t in, out;
  work_offsets(&work, &in, &out);
  return world->recv[rank] + out * type_sizes[work.type];
}

static void expect_found(size_t wrong, const struct world *world, const char *error, int rank)
{
  if (wrong == 0)
    fail_msg("%s, root %d, type %s, op %s, in place %d: %s, on rank %d, is not found", world->work.collective->program,
             world->work.root, type_names[world->work.type], op_names[world->work.op], world->work.in_place, error,
             rank);
}

static void swap_blocks(char *a, char *b, size_t len)
{
  for (size_t i = 0; i < len; i++) {
    char kept = a[i];
    a[i] = b[i];
    b[i] = kept;
  }
}

static void expect_moves_found(struct world *world)
{
  size_t size = type_sizes[world->work.type];
  expect_nothing_wrong(world);
  for (int r = 0; r < world->work.nranks; r++) {
    size_t n = received(world, r);
    char *at = result_of(world, r);
    for (int k = 0; n && k < 4; k++) {
      size_t block = k % 2 ? 61 : PIECE, to = k < 2 ? PIECE : n - block;
      swap_blocks(at, at + to * size, block * size);
      expect_found(rank_wrong(world, r), world, "a block in the place of another one", r);
      swap_blocks(at, at + to * size, block * size);
    }
    memmove(at, at + size, (n ? n - 1 : 0) * size);
    if (n) expect_found(rank_wrong(world, r), world, "a shift by one element", r);
  }
}

static void blocks_that_moved_are_found(void **state)
{
  (void)state;
  for_all_with(3, tuttiFloat32, tuttiSum, 0, MANY, expect_moves_found);
  for_all_with(2, tuttiInt8, tuttiSum, 0, MANY, expect_moves_found);
  for_all_with(3, tuttiFloat16, tuttiAvg, 0, MANY, expect_moves_found);
  for_all_with(3, tuttiFloat32, tuttiAvg, tuttiFloat16, MANY, expect_moves_found);
  for_all_with(2, tuttiFloat8e4m3, tuttiProd, 0, MANY, expect_moves_found);
}

/* Each rank's contribution in turn is that of the next one, so it is missing and the other one is there twice. */
static void expect_ranks_found(struct world *world)
{
  int n = world->work.nranks;
  for (int r = 0; r < n; r++) {
    char *own = world->input[r];
    world->input[r] = world->input[(r + 1) % n];
    play(world);
    world->input[r] = own;
    int is_used = world->work.collective->source != ROOT || world->work.root == r;
    if (is_used) expect_found(world_wrong(world), world, "another rank's elements", r);
    else expect_nothing_wrong(world);
  }
}

static void a_missing_or_doubled_rank_is_found(void **state)
{
  (void)state;
  for_all_with(2, tuttiFloat32, tuttiSum, 0, MANY, expect_ranks_found);
  for (int op = 0; op < OP_NONE; op++) {
    for_all_with(3, tuttiFloat32, op, 0, 20 * FEW, expect_ranks_found);
    for_all_with(3, tuttiInt8, op, 0, 2 * FEW, expect_ranks_found);
    for_all_with(3, tuttiFloat32, op, tuttiBfloat16, 20 * FEW, expect_ranks_found);
  }
}

/* What an iteration before had, with other values, is no result, wherever it is. */
static void expect_stale_found(struct world *world)
{
  struct world before = *world;
  before.work.seed++;
  world_open(&before);
  play(&before);
  for (int r = 0; r < world->work.nranks; r++) {
    size_t size = type_sizes[world->work.type], n = received(world, r), block = n < 512 ? n : 512;
    for (size_t first = 0; n && first + block <= n; first += 3001) {
      char *at = result_of(world, r) + first * size, *stale = result_of(&before, r) + first * size;
      swap_blocks(at, stale, block * size);
      expect_found(rank_wrong(world, r), world, "a block of the iteration before", r);
      swap_blocks(at, stale, block * size);
    }
  }
  world_close(&before);
}

static void stale_results_are_found(void **state)
{
  (void)state;
  for_all_with(2, tuttiFloat32, tuttiMax, 0, MANY, expect_stale_found);
  for_all_with(3, tuttiUint8, tuttiSum, 0, MANY, expect_stale_found);
}

static void expect_few_wrong(struct world *world)
{
  size_t size = type_sizes[world->work.type];
  expect_nothing_wrong(world);
  for (int r = 0; r < world->work.nranks; r++) {
    size_t n = received(world, r);
    for (size_t i = 0; i < n; i += i + 1 < n && i + 2003 >= n ? n - 1 - i : 2003) { /* the last one, too */
      char *at = result_of(world, r) + (i + 1) * size - 1;
      *at ^= 0x40;
      assert_int_equal(rank_wrong(world, r), 1);
      *at ^= 0x40;
    }
  }
}

static void one_of_many_elements_is_found(void **state)
{
  (void)state;
  for_all_with(2, tuttiBfloat16, tuttiSum, 0, MANY, expect_few_wrong);
  for_all_with(2, tuttiFloat64, tuttiAvg, 0, MANY, expect_few_wrong);
  for_all_with(2, tuttiFloat32, tuttiAvg, tuttiBfloat16, MANY, expect_few_wrong);
  for (int type = 0; type < tuttiComplexFloat32; type++)
    for_all_with(2, type, type % OP_NONE, 0, MANY / 2, expect_nothing_wrong);
}

/* An average may be two units of the last place off, of the type in which it was combined: one that is right may be, so
 * five more are too many. */
static void expect_rounding_bounded(struct world *world)
{
  size_t size = type_sizes[world->work.type], n = received(world, 0);
  for (size_t i = 0; world->work.op == tuttiAvg && i < n; i++) {
    char *at = result_of(world, 0) + i * size;
    uint64_t bits = 0;
    memcpy(&bits, at, size);
    bits += (uint64_t)5 << (world->work.wire ? 16 : 0);
    memcpy(at, &bits, size);
  }
  if (world->work.op == tuttiAvg) assert_int_equal(rank_wrong(world, 0), n);
}

static void an_average_that_is_not_near_enough_is_found(void **state)
{
  (void)state;
  for_all_with(2, tuttiFloat32, tuttiAvg, 0, MANY, expect_rounding_bounded);
  for_all_with(3, tuttiBfloat16, tuttiAvg, 0, FEW, expect_rounding_bounded);
  for_all_with(2, tuttiFloat32, tuttiAvg, tuttiBfloat16, MANY, expect_rounding_bounded);
}

static long floats_made;

/* Instead of the C library's: perf/data.c makes the bits of each float with it. */
double frexp(double value, int *exponent)
{
  uint64_t bits;
  floats_made++;
  memcpy(&bits, &value, sizeof bits);
  *exponent = value == 0 ? 0 : (int)(bits >> 52 & 0x7ff) - 1022; /* neither subnormal nor infinite */
  if (value == 0) return value;
  bits = (bits & ~((uint64_t)0x7ff << 52)) | (uint64_t)1022 << 52;
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* Filling, and checking what was sent and what came, make the values of one piece each, however long buffers are. */
static void a_check_makes_values_for_one_piece_only(void **state)
{
  (void)state;
  struct world world = {{.collective = collective_find("allreduce_perf"), .nranks = 1}, {0}, {0}, {0}};
  world.work.type = tuttiFloat32;
  world.work.op = tuttiSum;
  world.work.count = 100 * PIECE;
  world_open(&world);
  play(&world);
  floats_made = 0;
  assert_int_equal(data_wrong(&world.work, world.send[0], world.recv[0]), 0);
  data_fill(&world.work, world.send[0], world.recv[0]);
  assert_int_equal(floats_made, 3 * PIECE);
  world_close(&world);
}

/* An average that no value of the shorter type is. */
static void expect_last_bits_seen(struct world *world)
{
  if (world->work.op != tuttiAvg || world->work.in_place) return;
  for (int r = 0; r < world->work.nranks; r++)
    for (size_t i = 0; i < received(world, r); i++) {
      world->recv[r][4 * i] ^= 1;
      assert_int_equal(world_wrong(world), 1);
      world->recv[r][4 * i] ^= 1;
    }
}

static void an_average_that_did_not_travel_in_the_shorter_type_is_found(void **state)
{
  (void)state;
  for_all_with(3, tuttiFloat32, tuttiAvg, tuttiFloat16, FEW, expect_last_bits_seen);
  for_all_with(2, tuttiFloat32, tuttiAvg, tuttiBfloat16, FEW, expect_last_bits_seen);
}

/* Had a rank done nothing, or the collective not been called, no result would be right. */
static void what_was_not_done_is_found(void **state)
{
  (void)state;
  for (int p = 0; p < PROGRAMS; p++) {
    const struct collective *collective = collective_find(programs[p]);
    struct world world = {{.collective = collective, .nranks = 3, .type = tuttiUint64, .count = 9}, {0}, {0}, {0}};
    world.work.op = collective_reduces(collective) ? tuttiProd : OP_NONE;
    world_open(&world);
    for (int r = 0; r < 3; r++) {
      struct work work = work_of(&world, r);
      assert_int_equal(data_wrong(&work, world.send[r], world.recv[r]), received(&world, r));
    }
    world_close(&world);
  }
}

/* nccl-tests: shares are whole multiples of 16 bytes, a size is that of all shares. */
static void sizes_are_cut_as_nccl_tests_does(void **state)
{
  (void)state;
  const struct collective *whole = collective_find("broadcast_perf"), *shared = collective_find("all_gather_perf");
  assert_int_equal(collective_count(whole, 1003, 4, 3), 1003);
  assert_int_equal(collective_count(shared, 1003, 4, 3), 332); /* of 334 */
  assert_int_equal(collective_count(shared, 1003, 1, 3), 320);
  assert_int_equal(collective_count(shared, 1003, 8, 3), 334);
  assert_int_equal(collective_count(shared, 11, 4, 3), 0);
  struct work work = {.collective = shared, .nranks = 3, .count = 332};
  assert_int_equal(work_elements(&work), 996);
  work.collective = whole;
  assert_int_equal(work_elements(&work), 332);
}

static void in_place_lies_where_nccl_has_it(void **state)
{
  (void)state;
  static const struct {
    const char *program;
    size_t in, out;
  } wanted[PROGRAMS] = {{"allreduce_perf", 0, 0},      {"reduce_perf", 0, 0},     {"broadcast_perf", 0, 0},
                        {"reduce_scatter_perf", 0, 10}, {"all_gather_perf", 10, 0}, {"alltoall_perf", 0, 0},
                        {"gather_perf", 10, 0},        {"scatter_perf", 0, 10},   {"sendrecv_perf", 0, 0},
                        {"hypercube_perf", 10, 0}};
  for (int p = 0; p < PROGRAMS; p++) {
    struct work work = {.collective = collective_find(wanted[p].program), .rank = 2, .nranks = 4, .count = 5};
    size_t in, out;
    work_offsets(&work, &in, &out);
    assert_true(in == 0 && out == 0);
    work.in_place = 1;
    work_offsets(&work, &in, &out);
    assert_int_equal(in, wanted[p].in);
    assert_int_equal(out, wanted[p].out);
  }
}

/* PERFORMANCE.md of nccl-tests. */
static void bus_bandwidth_has_the_known_factors(void **state)
{
  (void)state;
  static const int shares[PROGRAMS] = {2, 0, 0, 1, 1, 1, 1, 1, 0, 0};
  for (int p = 0; p < PROGRAMS; p++)
    assert_true(bus_factor(collective_find(programs[p]), 4) == (shares[p] ? shares[p] * 0.75 : 1));
}

int main(void)
{
  alarm(300);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_right_is_found_right),
      cmocka_unit_test(what_travels_in_a_shorter_type_is_found_right),
      cmocka_unit_test(a_changed_element_is_found),
      cmocka_unit_test(blocks_that_moved_are_found),
      cmocka_unit_test(a_missing_or_doubled_rank_is_found),
      cmocka_unit_test(stale_results_are_found),
      cmocka_unit_test(one_of_many_elements_is_found),
      cmocka_unit_test(an_average_that_is_not_near_enough_is_found),
      cmocka_unit_test(a_check_makes_values_for_one_piece_only),
      cmocka_unit_test(an_average_that_did_not_travel_in_the_shorter_type_is_found),
      cmocka_unit_test(what_was_not_done_is_found),
      cmocka_unit_test(sizes_are_cut_as_nccl_tests_does),
      cmocka_unit_test(in_place_lies_where_nccl_has_it),
      cmocka_unit_test(bus_bandwidth_has_the_known_factors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
