/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions of 5 ranks, drawn by a seed: tensors, policy, channels and transport; and in each step the order in which
 * each rank pushes, its pauses, and the tensors that it holds back until all others are there. No step is stuck, and
 * all sums are exact. The seed is printed; it gives the same worlds again.
 *
 *   test_multi_fusion_random [--long] [--seed N]      --long: 10,000 steps
 *
 * Labels: processes. */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 5
#define TENSORS 16
#define PHASES 3 /* of a step: what some rank holds back comes in a later one */
#define STEPS (IS_SLOW ? 20 : 50)

static uint64_t seed;
static int worlds_wanted = IS_SLOW ? 2 : 8;

struct world {
  uint64_t seed;
  const char *policy, *transport;
  tuttiFusionTensor_t tensors[TENSORS];
  int n, channels;
  int holds_back; /* tensors are sent alone, so that none holds up another one */
};

static void world_draw(struct world *world, uint64_t of)
{
  static const int types[] = {tuttiFloat32, tuttiFloat32, tuttiFloat32, tuttiInt64, tuttiFloat64, tuttiFloat16};
  static const size_t most[] = {1, 8, 300, 3000, 20000};
  uint64_t chance = of;
  int ntransports = 0;
  while (ranks_transports(ntransports)) ntransports++;
  *world = (struct world){.seed = of, .policy = fusion_policies[below(&chance, FUSION_POLICIES)]};
  world->transport = ranks_transports((int)below(&chance, (size_t)ntransports));
  world->holds_back = strcmp(world->policy, "wfbp") == 0 || strncmp(world->policy, "p3:", 3) == 0;
  world->channels = 1 + (int)below(&chance, 4);
  world->n = 1 + (int)below(&chance, TENSORS);
  for (int t = 0; t < world->n; t++)
    world->tensors[t] = (tuttiFusionTensor_t){.count = below(&chance, most[below(&chance, 5)] + 1),
                                              .type = (tuttiDataType_t)types[below(&chance, 6)]};
}

/* The phase of a step in which the rank pushes the tensor: all ranks know. */
static int phase_of(const struct world *world, int rank, int tensor, uint64_t step)
{
  uint64_t chance = world->seed + 1 + ((step * RANKS + (uint64_t)rank) * TENSORS + (uint64_t)tensor);
  if (!world->holds_back || step % 3 == 0 || below(&chance, 4)) return 0;
  return (int)below(&chance, PHASES);
}

static int last_phase(const struct world *world, int tensor, uint64_t step)
{
  int last = 0;
  for (int r = 0; r < RANKS; r++) {
    int phase = phase_of(world, r, tensor, step);
    if (phase > last) last = phase;
  }
  return last;
}

static void pause_somewhat(uint64_t *own, size_t one_of, size_t most_us)
{
  if (below(own, one_of) == 0) usleep((useconds_t)below(own, most_us));
}

/* Pushes what is due in this phase, and mostly waits for what all have pushed then. */
static int phase_run(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step,
                     int phase, uint64_t *own)
{
  const struct world *world = self->argument;
  int order[TENSORS];
  shuffled(order, g->n, own);
  for (int k = 0; k < g->n; k++) {
    if (phase_of(world, self->rank, order[k], step) != phase) continue;
    pause_somewhat(own, 16, 300);
    gradient_fill(g, order[k], self->rank, step);
    RANKS_CHECK(gradient_push(fusion, g, order[k], NULL) == tuttiSuccess);
  }
  shuffled(order, g->n, own);
  int nwaits = below(own, 4) ? g->n : 0;
  for (int k = 0; k < nwaits; k++) {
    if (last_phase(world, order[k], step) != phase) continue;
    if (tuttiFusionWait(fusion, order[k]) != tuttiSuccess) {
      fprintf(stderr, "rank %d, step %llu, tensor %d, which all have pushed: %s\n", self->rank,
              (unsigned long long)step, order[k], tuttiGetLastError(NULL));
      return 1;
    }
    if (gradient_check(self, g, order[k], step, 1)) return 1;
  }
  return 0;
}

static int world_body(const struct ranks *self)
{
  const struct world *world = self->argument;
  uint64_t own = world->seed * 64 + (uint64_t)self->rank;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  config.policy = world->policy;
  RANKS_CHECK(gradients_make(&g, world->tensors, world->n, below(&own, 2) ? FUSION_GAP : 0, (int)below(&own, 2)));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, world->tensors, world->n, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < (uint64_t)STEPS; step++) {
    pause_somewhat(&own, 10, 2000);
    for (int phase = 0; phase < PHASES; phase++)
      if (phase_run(self, fusion, &g, step, phase, &own)) return 1;
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    if (gradients_check(self, &g, step, 1)) return 1;
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void every_step_ends_with_the_right_sums(void **state)
{
  (void)state;
  setenv("TUTTI_TIMEOUT_MS", "30000", 1); /* a rank that is stuck says in what */
  for (int w = 0; w < worlds_wanted; w++) {
    struct world world;
    char channels[8];
    world_draw(&world, seed + (uint64_t)w);
    printf("seed %llu: %s, %s, %d tensors, %d channels\n", (unsigned long long)world.seed, world.transport,
           world.policy, world.n, world.channels);
    fflush(stdout);
    snprintf(channels, sizeof channels, "%d", world.channels);
    setenv("TUTTI_FUSION_CHANNELS", channels, 1);
    assert_int_equal(run_fusion(world.transport, RANKS, world_body, &world), 0);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(every_step_ends_with_the_right_sums)};
  seed = (uint64_t)time(NULL) * 1000;
  for (int i = 1; i < argc; i++) {
    if (strcmp(argv[i], "--long") == 0) worlds_wanted = 10000 / STEPS;
    else if (strcmp(argv[i], "--seed") == 0 && i + 1 < argc) seed = strtoull(argv[++i], NULL, 10);
    else return 2;
  }
  return cmocka_run_group_tests(tests, NULL, NULL);
}
