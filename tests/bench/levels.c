/* SPDX-License-Identifier: BSD-3-Clause */
/* What fault_level 1, or 3, costs while nothing fails: all-reduces of 8 B, 4 KiB and 1 MiB on two communicators of the
 * same ranks, one of each level, in turns of batches. At level 3 ranks are those of a third of the processes: with
 * level 0 the others wait. Prints the time of a call at both levels, of the slowest rank (us), the median ratio of
 * neighbouring batches, and the ratio of the least times.
 *
 *   tutti run -n 2 bench_levels [BATCHES [LEVEL]] */
#include "base/base.h"
#include "bench.h"

static const size_t sizes[] = {8, 4096, 1048576};
enum { SIZES = sizeof sizes / sizeof sizes[0], MOST = 1000 };

/* The time of a call, on the slowest rank: us. */
static double batch(tuttiComm_t comm, float *data, size_t bytes, int calls)
{
  must(tuttiBarrier(comm, NULL));
  uint64_t began_ns = tt_now_ns();
  for (int k = 0; k < calls; k++)
    must(tuttiAllReduce(data, data, bytes / sizeof *data, tuttiFloat32, tuttiMax, comm, NULL));
  double us = (double)(tt_now_ns() - began_ns) / 1000 / calls;
  must(tuttiAllReduce(&us, &us, 1, tuttiFloat64, tuttiMax, comm, NULL));
  return us;
}

static tuttiComm_t join(const tuttiLaunch_t *launch, tuttiComm_t first, int level)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiUniqueId id = launch->id;
  tuttiComm_t comm;
  config.fault_level = level;
  config.learn = 0; /* both with the same algorithm */
  if (first) {
    if (launch->proc == 0) must(tuttiGetUniqueId(&id));
    must(tuttiBcast(&id, sizeof id, tuttiUint8, 0, first, NULL));
  }
  must(tuttiCommInitRankConfig(&comm, launch->nprocs, id, launch->proc, &config));
  return comm;
}

int main(int argc, char **argv)
{
  static double us[2][MOST], ratios[MOST];
  int batches = argc > 1 ? atoi(argv[1]) : 40, level = argc > 2 ? atoi(argv[2]) : 1;
  tuttiLaunch_t launch;
  void *data;
  if (batches < 1 || batches > MOST) return 2;
  must(tuttiGetLaunch(&launch));
  tuttiComm_t comms[2];
  tuttiComm_t all = join(&launch, NULL, 0);
  int replicas = level == 3 ? 3 : 1, leads = launch.proc % replicas == 0;
  must(tuttiCommSplit(all, leads ? 0 : TUTTI_SPLIT_NOCOLOR, 0, &comms[0], NULL));
  comms[1] = join(&launch, all, level);
  must(tuttiMemAlloc(&data, sizes[SIZES - 1]));
  if (launch.proc == 0)
    printf("%d ranks: bytes, us at level 0, us at level %d (medians), ratio, of minima\n", launch.nprocs / replicas,
           level);
  for (int s = 0; s < SIZES; s++) {
    int calls = sizes[s] > 65536 ? 50 : 1000;
    for (int b = -2; b < batches; b++) {
      double of[2] = {1, 1};
      if (leads) of[0] = batch(comms[0], data, sizes[s], calls);
      must(tuttiBarrier(all, NULL));
      of[1] = batch(comms[1], data, sizes[s], calls);
      must(tuttiBarrier(all, NULL));
      if (b < 0) continue; /* the first ones open links */
      us[0][b] = of[0];
      us[1][b] = of[1];
      ratios[b] = of[1] / of[0];
    }
    sort(us[0], batches);
    sort(us[1], batches);
    sort(ratios, batches);
    if (launch.proc == 0)
      printf("%8zu %10.2f %10.2f %6.2f %6.2f\n", sizes[s], us[0][batches / 2], us[1][batches / 2], ratios[batches / 2],
             us[1][0] / us[0][0]);
  }
  must(tuttiMemFree(data));
  must(tuttiCommDestroy(comms[1]));
  if (leads) must(tuttiCommDestroy(comms[0]));
  must(tuttiCommDestroy(all));
  return 0;
}
