/* SPDX-License-Identifier: BSD-3-Clause */
/* How long rank 0 takes to make its table, by nodes and ranks; by hand. Usage: bench_table [PROFILE]. */
#include <stdlib.h>

#include "tuned.h"

static const struct {
  int32_t nodes, each;
  const char *transport;
} sizes[] = {{1, 2, "shm"},  {1, 4, "shm"},  {1, 8, "shm"},   {1, 8, "tcp"},   {2, 4, "shm"},   {1, 16, "shm"},
             {4, 4, "shm"},  {1, 32, "shm"}, {4, 8, "shm"},   {1, 64, "shm"},  {64, 1, "shm"},  {8, 8, "shm"},
             {2, 32, "shm"}, {5, 13, "shm"}, {1, 128, "shm"}, {16, 16, "shm"}, {128, 8, "shm"}, {2048, 1, "shm"}};

static void topology_make(struct tt_topology *topology, int32_t nodes, int32_t each)
{
  char text[128];
  int n = snprintf(text, sizeof text, "tutti topology 1\nnodes %d ranks %d each\n", (int)nodes, (int)each);
  FILE *in = fmemopen(text, (size_t)n, "r");
  if (!in || tt_topology_parse(topology, in, "text", nodes * each) != tuttiSuccess) exit(1);
  fclose(in);
}

int main(int argc, char **argv)
{
  static struct tt_profile profile;
  if (argc > 1 && tt_profile_load(&profile, argv[1]) != tuttiSuccess) return 1;
  for (size_t s = 0; s < sizeof sizes / sizeof sizes[0]; s++) {
    struct tt_topology topology;
    struct tt_arrangement wire;
    struct tt_prices prices;
    struct tt_table table;
    struct tt_settings settings = {.lanes = 4};
    topology_make(&topology, sizes[s].nodes, sizes[s].each);
    if (tt_topology_arrange(&wire, &topology, 0) != tuttiSuccess) return 1;
    struct tt_cluster cluster = {topology.nranks, sizes[s].each, &topology, {NULL}, 0, NULL};
    tuned_join(&cluster, TT_LINK_NODE, sizes[s].each > 1 ? sizes[s].transport : NULL);
    tuned_join(&cluster, TT_LINK_NET, sizes[s].nodes > 1 ? "tcp" : NULL);
    tt_prices_make(&prices, argc > 1 ? &profile : NULL, &cluster);
    const struct tt_tuning tuning = {.nranks = topology.nranks, .groups = &wire.groups, .order = wire.order,
                                     .cluster = &cluster, .prices = &prices};
    double least_ms = 1e9;
    for (int k = 0; k < 5; k++) {
      uint64_t began_ns = tt_now_ns();
      if (tt_table_make(&table, &settings, &tuning) != tuttiSuccess) return 1;
      double ms = (double)(tt_now_ns() - began_ns) / 1e6;
      if (ms < least_ms) least_ms = ms;
    }
    printf("%4d nodes of %3d ranks, %s: %8.2f ms\n", (int)sizes[s].nodes, (int)sizes[s].each, sizes[s].transport,
           least_ms);
    for (int c = 0; c < TT_COLLECTIVES && getenv("TABLES"); c++) {
      char text[1000];
      if (tt_kinds[c].name) tt_table_text(&table, c, text, sizeof text);
      if (tt_kinds[c].name) printf("    %s: %s\n", tt_kinds[c].name, text);
    }
    tt_arrangement_destroy(&wire);
    tt_topology_destroy(&topology);
  }
  tt_profile_destroy(&profile);
  return 0;
}
