/* SPDX-License-Identifier: BSD-3-Clause */
/* The simulator: what messages pay where links differ, and ranks of a node share one.
 * Labels: serial, planner. */
#include "plays.h"

static void a_message_pays_for_the_link_between_its_ranks(void **state)
{
  (void)state;
  static const char text[] = "tutti topology 1\nnode a ranks 0,1\nnode b ranks 2\n"
                             "link node alpha_us 1 beta_us_per_mib 10\nlink net alpha_us 100 beta_us_per_mib 1000\n";
  struct tt_topology topology;
  FILE *in = fmemopen((void *)(uintptr_t)text, sizeof text - 1, "r");
  assert_int_equal(tt_topology_parse(&topology, in, "text", 3), tuttiSuccess);
  fclose(in);
  struct tt_sim_play play = play_of("broadcast", "star", 3, 1 << 20, &topology.prices);
  play.shape.root = 0;
  play.topology = &topology;
  struct tt_sim_result result = run(&play);
  assert_true(result.time_us == 100 + 1000 && result.first_us == 1 + 10); /* two ports: neither waits for the other */
  const int32_t order[] = {2, 1, 0};
  play.order = order; /* now the root is alone on its node */
  assert_true(run(&play).time_us == 100 + 2 * 1000);
  tt_topology_destroy(&topology);
}

/* Every rank gives its vector to the one with the same place on the other node. */
static void across_generate(struct tt_schedule *schedule, const struct tt_shape *shape, void *context)
{
  int32_t peer = (shape->rank + shape->nranks / 2) % shape->nranks;
  (void)context;
  tt_send(schedule, (struct tt_blocks){0, 1}, tt_in(0), peer);
  tt_recv(schedule, (struct tt_blocks){0, 1}, peer, tt_scratch(0)); /* OUT may be what is still being sent */
  tt_reduce2(schedule, (struct tt_blocks){0, 1}, tt_in(0), tt_scratch(0), tt_out(0));
}

static const char two_nodes[] = "tutti topology 1\nnodes 2 ranks 4 each\nlink cache alpha_us 0 beta_us_per_mib 0\n"
                                "link node alpha_us 1 beta_us_per_mib 10\nlink net alpha_us 100 beta_us_per_mib 1000\n"
                                "gamma_us_per_mib 0\n";

static void topology_read(struct tt_topology *topology, const char *text, int32_t nranks)
{
  FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  assert_int_equal(tt_topology_parse(topology, in, "text", nranks), tuttiSuccess);
  fclose(in);
}

static void ranks_of_a_node_share_its_link(void **state)
{
  (void)state;
  struct tt_topology topology;
  topology_read(&topology, two_nodes, 8);
  struct tt_sim_play play = play_of("all_reduce", "star", 8, 1 << 20, &topology.prices);
  play.generate = across_generate;
  play.topology = &topology;
  struct tt_sim_result result = run(&play);
  assert_true(result.time_us == 100 + 4 * 1000 && result.first_us == 100 + 1000);
  assert_true(result.busiest_us == 4 * 1000);
  tt_topology_destroy(&topology);
}

/* Its lanes send four messages at once, and those of the other ranks go in between. */
static void ranks_have_the_link_of_their_node_in_turn(void **state)
{
  (void)state;
  struct sequence sequence = {.n = 0};
  struct tt_topology topology;
  topology_read(&topology, two_nodes, 8);
  struct tt_sim_play play = play_of("all_reduce", "star", 8, 4 << 10, &topology.prices);
  play.generate = across_generate;
  play.topology = &topology;
  play.block_bytes = 1 << 10;
  play.lanes = 4;
  play.watcher = (struct tt_sim_watcher){.message = sequence_note, .context = &sequence};
  run(&play);
  assert_int_equal(sequence.n, 32);
  int at[2] = {0, 0};
  for (int k = 0; k < 32; k++) {
    int node = sequence.from[k] / 4;
    assert_int_equal(sequence.from[k] % 4, at[node]++ % 4);
  }
  tt_topology_destroy(&topology);
}

static void across_nodes_the_hierarchy_beats_a_flat_exchange(void **state)
{
  (void)state;
  struct tt_topology topology;
  topology_read(&topology, two_nodes, 8);
  int32_t group[] = {0, 0, 0, 0, 1, 1, 1, 1};
  struct tt_groups groups = {.nlevels = 1, .group = {group}};
  for (size_t count = 8; count <= 1 << 24; count *= 64) {
    struct tt_sim_play flat = play_of("all_reduce", "recursive_doubling", 8, count, &topology.prices);
    struct tt_sim_play high = play_of("all_reduce", "hierarchical_shards", 8, count, &topology.prices);
    flat.topology = high.topology = &topology;
    high.shape.groups = &groups;
    high.shape.middle = (int32_t)(tt_algo_find(TT_ALL_REDUCE, "recursive_doubling") - tt_algos);
    tt_algo_shape(high.context, &high.shape);
    assert_true(run(&high).time_us < run(&flat).time_us);
  }
  tt_topology_destroy(&topology);
}

/* Sending to many keeps a rank busy for that long each; one message takes alpha as before. */
static void overhead_is_paid_for_each_message(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&(struct prices){16, 0, 0});
  prices.link[TT_LINK_NET].overhead_us = 4;
  struct tt_sim_play play = play_of("broadcast", "star", 2, 100, &prices);
  assert_true(run(&play).time_us == 16);
  play = play_of("broadcast", "star", 9, 100, &prices);
  assert_true(run(&play).time_us == 16 + 7 * 4);
}

static void a_message_takes_what_the_curve_says(void **state)
{
  (void)state;
  struct tt_link_prices prices = uniform(&(struct prices){1, 0, 0});
  prices.link[TT_LINK_NET] =
      (struct tt_curve){.nparts = 3, .part = {{1 << 10, 2, 1 << 10}, {1 << 20, 4, 1 << 9}, {UINT64_MAX, 0, 1 << 11}}};
  for (size_t bytes = 1; bytes <= 1 << 22; bytes *= 4) {
    struct tt_sim_play play = play_of("broadcast", "star", 2, bytes, &prices);
    assert_true(run(&play).time_us == tt_curve_us(&prices.link[TT_LINK_NET], bytes));
  }
}

static void copies_cost_what_the_link_to_itself_does(void **state)
{
  (void)state;
  struct tt_link_prices prices = {.gamma_us_per_mib = 7};
  prices.link[TT_LINK_SELF] = tt_curve_line(3, 5);
  struct tt_sim_play play = play_of("all_reduce", "ring", 1, 2 << 20, &prices);
  assert_true(run(&play).time_us == 3 + 2 * 5);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_message_pays_for_the_link_between_its_ranks),
      cmocka_unit_test(ranks_of_a_node_share_its_link),
      cmocka_unit_test(ranks_have_the_link_of_their_node_in_turn),
      cmocka_unit_test(across_nodes_the_hierarchy_beats_a_flat_exchange),
      cmocka_unit_test(overhead_is_paid_for_each_message),
      cmocka_unit_test(a_message_takes_what_the_curve_says),
      cmocka_unit_test(copies_cost_what_the_link_to_itself_does),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
