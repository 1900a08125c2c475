/* SPDX-License-Identifier: BSD-3-Clause */
/* Milliseconds in which the last of the ranks of a launcher joins the others, from a barrier on: until its first
 * all-reduce with them is done, and, with a fusion that the others have, until its first step with them is done.
 * Median, shortest and longest of some rounds, on rank 0.
 *
 *   bench_join [ROUNDS] */
#include "bench.h"
#include "tutti_fusion.h"

#define ROUNDS_MOST 1000
#define TENSORS 3
#define COUNT 100000

enum { JOIN, REDUCED, STEPPED, TIMES };

static const tuttiFusionTensor_t tensors[TENSORS] = {
    {"0", COUNT, tuttiFloat}, {"1", 1000, tuttiFloat}, {"2", COUNT, tuttiFloat}};
static float data[TENSORS][COUNT];

static void step(tuttiFusion_t fusion)
{
  for (int t = TENSORS - 1; t >= 0; t--)
    must(tuttiFusionPush(fusion, t, data[t], data[t], tensors[t].count, tuttiFloat, NULL));
  must(tuttiFusionWaitAll(fusion));
}

/* small: of all ranks but the last one, which has NULL. */
static void join(const tuttiLaunch_t *job, tuttiComm_t comm, tuttiComm_t small, double ms[TIMES])
{
  int is_new = !small, x = 1;
  tuttiComm_t grown;
  tuttiFusion_t fusion = NULL;
  tuttiUniqueId id = {{0}};
  if (!is_new) must(tuttiFusionCreate(&fusion, small, tensors, TENSORS, NULL));
  if (!is_new) step(fusion);
  if (job->proc == 0) must(tuttiCommGetUniqueId(small, &id));
  must(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm, NULL));
  must(tuttiBarrier(comm, NULL));
  double began_us = now_us();
  must(tuttiCommGrow(small, job->nprocs, &id, is_new ? job->proc : -1, &grown, NULL));
  ms[JOIN] = (now_us() - began_us) / 1e3;
  must(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, grown, NULL));
  ms[REDUCED] = (now_us() - began_us) / 1e3;
  if (is_new) must(tuttiFusionCreate(&fusion, grown, tensors, TENSORS, NULL));
  else must(tuttiFusionMove(&fusion, grown));
  step(fusion);
  ms[STEPPED] = (now_us() - began_us) / 1e3;
  must(tuttiFusionDestroy(fusion));
  must(tuttiCommDestroy(grown));
}

int main(int argc, char **argv)
{
  static double all[TIMES][ROUNDS_MOST];
  static const char *const names[TIMES] = {"grow", "first all-reduce", "first step of the fusion"};
  int rounds = argc > 1 ? atoi(argv[1]) : 20;
  tuttiLaunch_t job;
  tuttiComm_t comm, small = NULL;
  if (rounds < 1 || rounds > ROUNDS_MOST) return 2;
  must(tuttiGetLaunch(&job));
  must(tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc));
  must(tuttiCommSplit(comm, job.proc < job.nprocs - 1 ? 0 : TUTTI_SPLIT_NOCOLOR, job.proc, &small, NULL));
  for (int round = 0; round < rounds; round++) {
    double ms[TIMES];
    join(&job, comm, small, ms);
    for (int k = 0; k < TIMES; k++) all[k][round] = ms[k];
  }
  for (int k = 0; k < TIMES && job.proc == 0; k++) {
    sort(all[k], rounds);
    printf("%-26s %8.2f ms, %.2f to %.2f\n", names[k], all[k][rounds / 2], all[k][0], all[k][rounds - 1]);
  }
  if (small) must(tuttiCommDestroy(small));
  must(tuttiCommDestroy(comm));
  return 0;
}
