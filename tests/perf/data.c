/* SPDX-License-Identifier: BSD-3-Clause */
/* What the programs of perf/ hold for right: each collective played on the buffers of all ranks, one element at a
 * time and in another order than theirs, leaves nothing wrong; one element changed anywhere is one wrong element. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "perf.h"
#include "reduce_reference.h"

#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

#define RANKS 7
#define PROGRAMS 9

static const char *const programs[PROGRAMS] = {"allreduce_perf",  "reduce_perf",   "broadcast_perf",
                                               "reduce_scatter_perf", "all_gather_perf", "alltoall_perf",
                                               "gather_perf",     "scatter_perf",  "sendrecv_perf"};

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

static size_t world_wrong(const struct world *world)
{
  size_t wrong = 0;
  for (int r = 0; r < world->work.nranks; r++) {
    struct work work = work_of(world, r);
    wrong += data_wrong(&work, world->send[r], world->recv[r]);
  }
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
  return a + b;
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
  return is(world, "all_gather_perf") || is(world, "alltoall_perf") ? all : count;
}

static uint64_t result(const struct world *world, int rank, size_t i)
{
  size_t count = world->work.count, own = (size_t)rank * count;
  int share = (int)(i / count), n = world->work.nranks;
  if (is(world, "all_gather_perf") || is(world, "gather_perf")) return element(world, share, i % count);
  if (is(world, "alltoall_perf")) return element(world, share, own + i % count);
  if (is(world, "broadcast_perf")) return element(world, world->work.root, i);
  if (is(world, "scatter_perf")) return element(world, world->work.root, own + i);
  if (is(world, "sendrecv_perf")) return element(world, (rank + n - 1) % n, i);
  if (is(world, "reduce_scatter_perf")) i += own;
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
static void for_all_with(int n, int type, int op, int wire, void (*try)(struct world *world))
{
  for (int p = 0; p < PROGRAMS; p++) {
    const struct collective *collective = collective_find(programs[p]);
    assert_non_null(collective);
    struct world world = {{.collective = collective, .nranks = n, .type = type, .count = 9, .seed = 3}, {0}, {0}, {0}};
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
  for_all_with(n, type, op, 0, try);
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
    for (int type = 0; type < tuttiNumTypes; type++)
      for (int op = 0; op < OP_NONE; op++) for_all(n, type, op, expect_nothing_wrong);
}

static void what_travels_in_a_shorter_type_is_found_right(void **state)
{
  static const int wires[2] = {tuttiFloat16, tuttiBfloat16};
  (void)state;
  for (int n = 1; n <= RANKS; n += n < 4 ? 1 : 3)
    for (int op = 0; op < OP_NONE; op++)
      for (int w = 0; w < 2; w++) for_all_with(n, tuttiFloat32, op, wires[w], expect_nothing_wrong);
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
  for_all_with(3, tuttiFloat32, tuttiSum, tuttiFloat16, expect_one_wrong);
  for_all_with(3, tuttiFloat32, tuttiAvg, tuttiBfloat16, expect_one_wrong);
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
  for_all_with(3, tuttiFloat32, tuttiAvg, tuttiFloat16, expect_last_bits_seen);
  for_all_with(2, tuttiFloat32, tuttiAvg, tuttiBfloat16, expect_last_bits_seen);
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
                        {"gather_perf", 10, 0},        {"scatter_perf", 0, 10},   {"sendrecv_perf", 0, 0}};
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
  static const int shares[PROGRAMS] = {2, 0, 0, 1, 1, 1, 1, 1, 0};
  for (int p = 0; p < PROGRAMS; p++)
    assert_true(bus_factor(collective_find(programs[p]), 4) == (shares[p] ? shares[p] * 0.75 : 1));
}

int main(void)
{
  alarm(60);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_is_right_is_found_right),
      cmocka_unit_test(what_travels_in_a_shorter_type_is_found_right),
      cmocka_unit_test(a_changed_element_is_found),
      cmocka_unit_test(an_average_that_did_not_travel_in_the_shorter_type_is_found),
      cmocka_unit_test(what_was_not_done_is_found),
      cmocka_unit_test(sizes_are_cut_as_nccl_tests_does),
      cmocka_unit_test(in_place_lies_where_nccl_has_it),
      cmocka_unit_test(bus_bandwidth_has_the_known_factors),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
