/* SPDX-License-Identifier: BSD-3-Clause */
/* Simulates the cost of each choice of HIDES (src/fusion/rounds.c): a rank asks for a round for a more urgent message
 * only if what goes next takes so many times as long as a round. Simulated as in tests/unit/fusion_ready.c: plans by
 * priority whose tensors are ready in drawn orders. Prints, for each value, by how many percent iterations (the forward
 * pass waits for layer after layer) take longer than with the best one, and rounds a step. */
int ready_main(int argc, char **argv);
#define main ready_main
#include "../unit/fusion_ready.c"
#undef main

#define LAYERS 24
#define STEPS 200
#define DELAY 20 /* a frame takes half of it */
#define VALUES 7

/* A slice of a long layer takes some rounds, a short layer less than one. */
static struct sim *case_make(int nranks, uint64_t seeded, int long_part)
{
  struct sim *sim = sim_new(seeded);
  sim->shape = (struct shape){.nranks = nranks, .credit = 1, .delay = DELAY, .gap = 300, .lag = 300, .slow = -1,
                              .is_shuffled = 1};
  sim->shape.bound = (uint64_t)1 << 40; /* nothing is checked here */
  sim->plan = (struct tt_sequence_plan){.ngroups = LAYERS, .nchannels = 2, .by_priority = 1, .groups = sim->groups,
                                        .bytes = sim->bytes};
  for (int g = LAYERS - 1; g >= 0; g--)
    for (int k = g % long_part ? 2 : 0; k < 3; k++) {
      sim->groups[sim->plan.nmessages] = g;
      sim->bytes[sim->plan.nmessages++] = g % long_part ? 20 : 400;
    }
  sim_make(sim);
  return sim;
}

/* When forward has ended, if that of a layer takes 100. */
static double step_time(struct sim *sim, uint64_t step, uint64_t worth)
{
  uint64_t done[LAYERS] = {0}, from = sim->now, now;
  step_begin(sim, step, worth);
  while (sim->nheap && !sim->wrong) {
    struct event event = event_take(sim);
    sim->now = event.at;
    int32_t message = event.kind == OVER ? sim->ranks[event.rank].order.channels[event.what].under_way : -1;
    if (message >= 0 && sim->now > done[sim->groups[message]]) done[sim->groups[message]] = sim->now;
    event_do(sim, &event);
  }
  now = from;
  for (int g = 0; g < LAYERS; g++) now = (done[g] > now ? done[g] : now) + 100;
  return (double)(now - from);
}

/* By how many percent steps take longer than with the best value, and rounds a step. */
static int row_print(int nranks, int long_part)
{
  static const int values[VALUES] = {0, 1, 2, 4, 8, 16, 1000};
  double us[VALUES] = {0}, rounds[VALUES], best = 0;
  int hops = nranks == 2 ? 1 : nranks == 4 ? 3 : 6; /* of a round, as sequence_private.h counts them */
  for (int v = 0; v < VALUES; v++) {
    struct sim *sim = case_make(nranks, 1, long_part);
    for (uint64_t step = 1; step <= STEPS; step++)
      us[v] += step_time(sim, step, (uint64_t)(values[v] * hops * DELAY / 2));
    if (sim->wrong) return 1;
    rounds[v] = (double)sim->ranks[0].joined / STEPS;
    if (v == 0 || us[v] < best) best = us[v];
    sim_free(sim);
  }
  printf("| %d | 1 long in %d |", nranks, long_part);
  for (int v = 0; v < VALUES; v++) printf(" %.2f (%.1f) |", 100 * (us[v] / best - 1), rounds[v]);
  printf("\n");
  return 0;
}

int main(void)
{
  printf("| ranks | layers | 0 | 1 | 2 | 4 | 8 | 16 | never |\n|---|---|---|---|---|---|---|---|---|\n");
  for (int nranks = 2; nranks <= 8; nranks *= 2)
    for (int long_part = 1; long_part <= 8; long_part *= 2)
      if (row_print(nranks, long_part)) return 1;
  return 0;
}
