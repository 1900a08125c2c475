/* SPDX-License-Identifier: BSD-3-Clause */
/* Four ranks of a fusion with servers, of which two make the updates, and the link from rank 1 to rank 3 is slow: what
 * waits for it stays within the bound of the header, and the memory of no rank grows, however many updates there are.
 * "--shaped": the links to rank 3 are slow by themselves (netns/slow_link).
 * Labels: slow, processes. */
#include "fusion_ranks.h"
#include "slow.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT (1 << 19)
#define UPDATES (IS_SLOW ? 30 : 100)
#define WARM 30          /* updates after which memory is looked at */
#define GROWTH_KIB 20480 /* ten times the weights; rank 1 would have ten times that */
#define WORDS 4096       /* bytes of the short messages on their way */

/* KiB of memory that the process has touched. */
static long memory_kib(void)
{
  char line[256];
  long kib = 0;
  FILE *file = fopen("/proc/self/status", "r");
  while (file && fgets(line, sizeof line, file))
    if (strncmp(line, "VmRSS:", 6) == 0) kib = strtol(line + 6, NULL, 10);
  if (file) fclose(file);
  return kib;
}

static int slow_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensor = {"all", COUNT, tuttiFloat32};
  static float gradient[COUNT], weights[COUNT];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusionInfo_t info = {.size = sizeof info};
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  long before = 0, most = 0;
  config.update = "sgd";
  config.quorum = 2;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &tensor, 1, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, weights, COUNT, 1) == tuttiSuccess);
  while (info.updates < UPDATES) {
    RANKS_CHECK(tuttiFusionPush(fusion, 0, gradient, weights, COUNT, tuttiFloat32, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess);
    long now = memory_kib();
    if (!before && info.updates >= WARM) before = now;
    if (now > most) most = now;
  }
  RANKS_CHECK(info.queued_most > 0 && info.queued_most <= 2 * sizeof weights + WORDS);
  RANKS_CHECK(!before || IS_SLOW || most - before <= GROWTH_KIB); /* a sanitizer keeps what was freed */
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int is_shaped;

static void nothing_piles_up_behind_a_slow_link(void **state)
{
  (void)state;
  if (is_shaped) {
    assert_int_equal(run_fusion("tcp", 4, slow_body, NULL), 0);
    return;
  }
  setenv("TUTTI_FAULT", "rank=1,peer=3,action=delay:20ms", 1);
  for (int t = 0; ranks_transports(t); t++) assert_int_equal(run_fusion(ranks_transports(t), 4, slow_body, NULL), 0);
  unsetenv("TUTTI_FAULT");
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_piles_up_behind_a_slow_link)};
  is_shaped = argc > 1 && strcmp(argv[1], "--shaped") == 0;
  return cmocka_run_group_tests(tests, NULL, NULL);
}
