/* SPDX-License-Identifier: BSD-3-Clause */
/* What the schedules of the collectives other than all-reduce do, in facts that can be told without running them: who
 * sends what to whom. That they are right is proved in tests/proof.
 * Labels: serial, planner. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "algos/algos.h"
#include "schedule/text_private.h"

struct message {
  int32_t from, to, first, nblocks;
};

struct traffic {
  struct message *list;
  int32_t n;
};

static struct tt_shape shape_of(int collective, const char *name, int32_t nranks, int32_t root)
{
  struct tt_shape shape = {.nranks = nranks, .root = root, .middle = -1};
  tt_algo_shape(tt_algo_find(collective, name), &shape);
  return shape;
}

static void generated(struct tt_schedule *schedule, const char *name, const struct tt_shape *shape)
{
  tt_schedule_init(schedule, shape);
  tt_algo_find(shape->collective, name)->generate(schedule, shape);
  assert_int_equal(schedule->error, tuttiSuccess);
}

/* All messages, sender by sender; free the list. */
static struct traffic traffic_of(const char *name, struct tt_shape shape)
{
  struct traffic traffic = {NULL, 0};
  for (shape.rank = 0; shape.rank < shape.nranks; shape.rank++) {
    struct tt_schedule s;
    generated(&s, name, &shape);
    traffic.list = realloc(traffic.list, (size_t)(traffic.n + s.npeers + 1) * sizeof *traffic.list);
    for (int32_t i = 0; i < s.nsteps; i++)
      for (int32_t k = 0; k < s.steps[i].nto; k++)
        traffic.list[traffic.n++] = (struct message){shape.rank, s.peers[s.steps[i].to + k], s.steps[i].first,
                                                     s.steps[i].nblocks};
    tt_schedule_destroy(&s);
  }
  return traffic;
}

static int32_t received(const struct traffic *traffic, int32_t rank)
{
  int32_t n = 0;
  for (int32_t i = 0; i < traffic->n; i++) n += traffic->list[i].to == rank ? traffic->list[i].nblocks : 0;
  return n;
}

static int32_t sent(const struct traffic *traffic, int32_t rank)
{
  int32_t n = 0;
  for (int32_t i = 0; i < traffic->n; i++) n += traffic->list[i].from == rank ? traffic->list[i].nblocks : 0;
  return n;
}

static int32_t log2_up(int32_t n)
{
  int32_t bits = 0;
  while (1 << bits < n) bits++;
  return bits;
}

static struct tt_cost claim_of(const char *name, struct tt_shape shape, int32_t rank)
{
  struct tt_cost cost;
  shape.rank = rank;
  tt_algo_find(shape.collective, name)->claim(&shape, &cost);
  return cost;
}

/* ---- texts ----------------------------------------------------------------------- */

/* The schedule of one rank is the text of that name in tests/golden. */
static void is_golden(const char *file, const char *name, struct tt_shape shape)
{
  char path[1024], wanted[4096] = "", *is = NULL;
  size_t size = 0;
  snprintf(path, sizeof path, "%s/%s", GOLDEN, file);
  FILE *in = fopen(path, "r"), *out = open_memstream(&is, &size);
  if (!in) fail_msg("cannot open %s", path);
  assert_true(fread(wanted, 1, sizeof wanted - 1, in) > 0);
  fclose(in);
  struct tt_schedule s;
  generated(&s, name, &shape);
  assert_int_equal(tt_schedule_print(&s, out), tuttiSuccess);
  fclose(out);
  tt_schedule_destroy(&s);
  assert_string_equal(is, wanted);
  free(is);
}

static struct tt_shape shape_at(int collective, const char *name, int32_t nranks, int32_t root, int32_t rank)
{
  struct tt_shape shape = shape_of(collective, name, nranks, root);
  shape.rank = rank;
  return shape;
}

static void schedules_are_as_in_the_golden_files(void **state)
{
  (void)state;
  is_golden("reduce_scatter_ring_4_rank1.txt", "ring", shape_at(TT_REDUCE_SCATTER, "ring", 4, -1, 1));
  is_golden("all_gather_ring_4_rank1.txt", "ring", shape_at(TT_ALL_GATHER, "ring", 4, -1, 1));
  is_golden("reduce_chain_3_root1_rank2.txt", "chain", shape_at(TT_REDUCE, "chain", 3, 1, 2));
  is_golden("gather_binomial_6_root1_rank3.txt", "binomial", shape_at(TT_GATHER, "binomial", 6, 1, 3));
  is_golden("scatter_binomial_6_root1_rank3.txt", "binomial", shape_at(TT_SCATTER, "binomial", 6, 1, 3));
  is_golden("broadcast_scatter_allgather_6_root1_rank3.txt", "scatter_allgather",
            shape_at(TT_BROADCAST, "scatter_allgather", 6, 1, 3));
  is_golden("all_to_all_bruck_7_rank0.txt", "bruck", shape_at(TT_ALL_TO_ALL, "bruck", 7, -1, 0));
}

/* ---- ring ------------------------------------------------------------------------ */

static void ring_sends_one_share_a_round_to_the_right(void **state)
{
  (void)state;
  const int collectives[] = {TT_REDUCE_SCATTER, TT_ALL_GATHER};
  for (int c = 0; c < 2; c++) {
    struct tt_shape shape = shape_of(collectives[c], "ring", 7, -1);
    struct traffic traffic = traffic_of("ring", shape);
    assert_int_equal(shape.nblocks, 1);
    assert_int_equal(traffic.n, 7 * 6);
    for (int32_t i = 0; i < traffic.n; i++) {
      int32_t round = i % 6, first = traffic.list[i].from + (c == 0 ? 6 : 7) - round;
      assert_int_equal(traffic.list[i].to, (traffic.list[i].from + 1) % 7);
      assert_int_equal(traffic.list[i].first, first % 7);
      assert_int_equal(traffic.list[i].nblocks, 1);
    }
    free(traffic.list);
  }
}

static void ring_reduce_scatter_writes_its_own_share_only_and_keeps_two_sums(void **state)
{
  (void)state;
  struct tt_shape shape = shape_of(TT_REDUCE_SCATTER, "ring", 9, -1);
  struct tt_schedule s;
  int32_t outs = 0;
  shape.rank = 4;
  generated(&s, "ring", &shape);
  for (int32_t i = 0; i < s.nsteps; i++)
    if (s.steps[i].dst.place == TT_OUT) {
      assert_int_equal(s.steps[i].dst.at, 4);
      outs++;
    }
  assert_int_equal(outs, 1);
  assert_int_equal(s.nslots, 2);
  tt_schedule_destroy(&s);
}

static void reduce_by_parts_sends_every_element_once_from_each_rank(void **state)
{
  (void)state;
  for (int32_t nranks = 2; nranks < 20; nranks++) {
    struct tt_shape shape = shape_of(TT_REDUCE, "reduce_scatter_gather", nranks, nranks / 3);
    struct traffic traffic = traffic_of("reduce_scatter_gather", shape);
    for (int32_t rank = 0; rank < nranks; rank++)
      assert_int_equal(sent(&traffic, rank), rank == shape.root ? nranks - 1 : nranks);
    assert_int_equal(claim_of("reduce_scatter_gather", shape, 0).rounds, nranks);
    free(traffic.list);
  }
}

/* ---- chain ----------------------------------------------------------------------- */

static void chain_passes_every_block_to_the_next_rank(void **state)
{
  (void)state;
  for (int32_t root = 0; root < 5; root++) {
    struct tt_shape shape = shape_of(TT_BROADCAST, "chain", 5, root);
    struct traffic down = traffic_of("chain", shape);
    assert_true(shape.nblocks >= 2 * 4);
    assert_int_equal(down.n, 4 * shape.nblocks);
    for (int32_t i = 0; i < down.n; i++) {
      assert_int_equal(down.list[i].to, (down.list[i].from + 1) % 5);
      assert_int_not_equal(down.list[i].to, root);
      assert_int_equal(down.list[i].first, i % shape.nblocks);
    }
    shape.collective = TT_REDUCE;
    struct traffic up = traffic_of("chain", shape);
    assert_int_equal(up.n, down.n);
    for (int32_t i = 0; i < up.n; i++) {
      assert_int_equal(up.list[i].from, (up.list[i].to + 1) % 5);
      assert_int_not_equal(up.list[i].from, root);
    }
    free(down.list);
    free(up.list);
  }
}

/* The second block is on its way to a rank before the first one has left it. */
static void chain_takes_the_next_block_while_it_sends_the_last(void **state)
{
  (void)state;
  const int collectives[] = {TT_BROADCAST, TT_REDUCE};
  for (int c = 0; c < 2; c++) {
    struct tt_shape shape = shape_of(collectives[c], "chain", 5, 0);
    struct tt_schedule s;
    shape.rank = 2;
    generated(&s, "chain", &shape);
    struct tt_order *order = calloc((size_t)s.nsteps, sizeof *order);
    tt_order_derive(&s, order);
    assert_int_equal(s.steps[1].nto, 1);
    assert_int_equal(s.steps[2].nto, 0);
    assert_int_equal((order[2].finished | order[2].started) & 1, 0);
    free(order);
    tt_schedule_destroy(&s);
  }
}

/* ---- scatter and gather ---------------------------------------------------------- */

static int compare(const void *a, const void *b)
{
  return memcmp(a, b, sizeof(struct message));
}

static void gather_is_scatter_backwards(void **state)
{
  (void)state;
  const char *const names[] = {"binomial", "direct"};
  for (int32_t nranks = 1; nranks < 36; nranks++)
    for (int k = 0; k < 2; k++) {
      struct traffic down = traffic_of(names[k], shape_of(TT_SCATTER, names[k], nranks, nranks / 2));
      struct traffic up = traffic_of(names[k], shape_of(TT_GATHER, names[k], nranks, nranks / 2));
      assert_int_equal(down.n, nranks - 1);
      assert_int_equal(up.n, nranks - 1);
      for (int32_t i = 0; i < up.n; i++) {
        int32_t from = up.list[i].from;
        up.list[i].from = up.list[i].to;
        up.list[i].to = from;
      }
      qsort(down.list, (size_t)down.n, sizeof *down.list, compare);
      qsort(up.list, (size_t)up.n, sizeof *up.list, compare);
      if (up.n) assert_memory_equal(down.list, up.list, (size_t)up.n * sizeof *up.list);
      free(down.list);
      free(up.list);
    }
}

/* Root 3 of 7: v = 0 .. 6 is rank 3 4 5 6 0 1 2. */
static void binomial_gather_of_seven_ranks_goes_round_over_rank_0(void **state)
{
  (void)state;
  const struct message wanted[] = {
    {0, 3, 0, 3}, /* v = 4 has 4, 5, 6 */
    {1, 0, 1, 1}, {2, 0, 2, 1}, {4, 3, 4, 1}, {5, 3, 5, 2}, {6, 5, 6, 1},
  };
  struct traffic traffic = traffic_of("binomial", shape_of(TT_GATHER, "binomial", 7, 3));
  assert_int_equal(traffic.n, 6);
  assert_memory_equal(traffic.list, wanted, sizeof wanted);
  free(traffic.list);
  traffic = traffic_of("binomial", shape_of(TT_GATHER, "binomial", 7, 5));
  assert_int_equal(traffic.list[5].from, 6); /* v = 1 */
  assert_int_equal(traffic.list[0].from, 0); /* v = 2: ranks 0 and 1 */
  assert_int_equal(traffic.list[0].nblocks, 2);
  free(traffic.list);
}

static void root_of_a_binomial_tree_has_as_many_messages_as_the_number_of_ranks_has_bits(void **state)
{
  (void)state;
  for (int32_t nranks = 1; nranks < 70; nranks++) {
    struct tt_shape shape = shape_of(TT_SCATTER, "binomial", nranks, 0);
    struct tt_cost cost = claim_of("binomial", shape, 0);
    assert_int_equal(cost.messages, log2_up(nranks));
    assert_int_equal(cost.blocks, nranks - 1);
    assert_int_equal(cost.slots, 0);
  }
}

/* ---- broadcast by parts ---------------------------------------------------------- */

static void broadcast_by_parts_brings_every_element_once(void **state)
{
  (void)state;
  for (int32_t nranks = 2; nranks < 40; nranks++) {
    struct tt_shape shape = shape_of(TT_BROADCAST, "scatter_allgather", nranks, nranks - 1);
    struct traffic traffic = traffic_of("scatter_allgather", shape);
    for (int32_t rank = 0; rank < nranks; rank++) {
      assert_int_equal(received(&traffic, rank), rank == shape.root ? 0 : nranks);
      assert_true(sent(&traffic, rank) <= 2 * (nranks - 1));
      assert_true(claim_of("scatter_allgather", shape, rank).messages <= 2 * log2_up(nranks));
    }
    assert_true(claim_of("scatter_allgather", shape, 0).rounds <= 2 * log2_up(nranks));
    free(traffic.list);
  }
  assert_int_equal(claim_of("scatter_allgather", shape_of(TT_BROADCAST, "scatter_allgather", 8, 0), 0).rounds, 5);
}

/* ---- all-to-all ------------------------------------------------------------------ */

static void direct_all_to_all_is_one_message_for_each_pair(void **state)
{
  (void)state;
  struct traffic traffic = traffic_of("direct", shape_of(TT_ALL_TO_ALL, "direct", 6, -1));
  int seen[6][6] = {{0}};
  assert_int_equal(traffic.n, 30);
  for (int32_t i = 0; i < traffic.n; i++) {
    seen[traffic.list[i].from][traffic.list[i].to]++;
    assert_int_equal(traffic.list[i].first, traffic.list[i].to);
    assert_int_equal(traffic.list[i].to, (traffic.list[i].from + 1 + i % 5) % 6);
  }
  for (int k = 0; k < 36; k++) assert_int_equal(seen[k / 6][k % 6], k / 6 != k % 6);
  free(traffic.list);
}

static void bruck_sends_half_of_the_shares_in_each_of_log2_messages(void **state)
{
  (void)state;
  struct traffic traffic = traffic_of("bruck", shape_of(TT_ALL_TO_ALL, "bruck", 16, -1));
  assert_int_equal(traffic.n, 16 * 4);
  for (int32_t i = 0; i < traffic.n; i++) {
    assert_int_equal(traffic.list[i].to, (traffic.list[i].from + (1 << i % 4)) % 16);
    assert_int_equal(traffic.list[i].nblocks, 8);
  }
  free(traffic.list);
  const int32_t shares_of_11[] = {5, 5, 4, 3};
  traffic = traffic_of("bruck", shape_of(TT_ALL_TO_ALL, "bruck", 11, -1));
  assert_int_equal(traffic.n, 11 * 4);
  for (int32_t i = 0; i < traffic.n; i++) assert_int_equal(traffic.list[i].nblocks, shares_of_11[i % 4]);
  free(traffic.list);
}

/* ---- all ------------------------------------------------------------------------- */

struct touched {
  int in, out;
};

static struct touched touches(const char *name, struct tt_shape shape, int32_t rank)
{
  struct touched touched = {0, 0};
  struct tt_schedule s;
  shape.rank = rank;
  generated(&s, name, &shape);
  for (int32_t i = 0; i < s.nsteps; i++) touched.out |= s.steps[i].dst.place == TT_OUT;
  for (int32_t k = 0; k < s.noperands; k++) {
    touched.in |= s.operands[k].place == TT_IN;
    touched.out |= s.operands[k].place == TT_OUT;
  }
  tt_schedule_destroy(&s);
  return touched;
}

static void buffers_that_only_the_root_has_are_not_touched_elsewhere(void **state)
{
  (void)state;
  for (int i = 0; i < tt_algo_count; i++) {
    const struct tt_kind *kind = &tt_kinds[tt_algos[i].collective];
    struct tt_shape shape = shape_of(tt_algos[i].collective, tt_algos[i].name, 11, 7);
    for (int32_t rank = 0; kind->has_root && rank < 11; rank++) {
      struct touched touched = touches(tt_algos[i].name, shape, rank);
      if (rank == 7) assert_true(touched.in && touched.out);
      if (rank != 7 && kind->in == TT_COVER_ROOT) assert_false(touched.in);
      if (rank != 7 && kind->out == TT_COVER_ROOT) assert_false(touched.out);
    }
  }
}

static void one_rank_copies_what_there_is(void **state)
{
  (void)state;
  for (int i = 0; i < tt_algo_count; i++) {
    struct tt_shape shape = shape_of(tt_algos[i].collective, tt_algos[i].name, 1, 0);
    struct tt_schedule s;
    int32_t copied = 0;
    shape.nblocks = 3;
    generated(&s, tt_algos[i].name, &shape);
    assert_int_equal(s.npeers, 0);
    for (int32_t k = 0; k < s.nsteps; k++) copied += s.steps[k].nblocks;
    assert_int_equal(copied, 3);
    tt_schedule_destroy(&s);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(schedules_are_as_in_the_golden_files),
    cmocka_unit_test(ring_sends_one_share_a_round_to_the_right),
    cmocka_unit_test(ring_reduce_scatter_writes_its_own_share_only_and_keeps_two_sums),
    cmocka_unit_test(reduce_by_parts_sends_every_element_once_from_each_rank),
    cmocka_unit_test(chain_passes_every_block_to_the_next_rank),
    cmocka_unit_test(chain_takes_the_next_block_while_it_sends_the_last),
    cmocka_unit_test(gather_is_scatter_backwards),
    cmocka_unit_test(binomial_gather_of_seven_ranks_goes_round_over_rank_0),
    cmocka_unit_test(root_of_a_binomial_tree_has_as_many_messages_as_the_number_of_ranks_has_bits),
    cmocka_unit_test(broadcast_by_parts_brings_every_element_once),
    cmocka_unit_test(direct_all_to_all_is_one_message_for_each_pair),
    cmocka_unit_test(bruck_sends_half_of_the_shares_in_each_of_log2_messages),
    cmocka_unit_test(buffers_that_only_the_root_has_are_not_touched_elsewhere),
    cmocka_unit_test(one_rank_copies_what_there_is),
  };
  alarm(60);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
