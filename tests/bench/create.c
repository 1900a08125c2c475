/* SPDX-License-Identifier: BSD-3-Clause */
/* Milliseconds that ranks of a launcher take, from a barrier on, to make a communicator, a split of the same ranks, and
 * a fusion: median, shortest and longest of some rounds, on rank 0.
 *
 *   bench_create [ROUNDS] */
#include "bench.h"
#include "tutti_fusion.h"

enum { COMM, SPLIT, FUSION, KINDS };
#define ROUNDS_MOST 1000

/* All ranks are here. The id of rank 0. */
static tuttiUniqueId meet(tuttiComm_t comm, int rank)
{
  tuttiUniqueId id = {{0}};
  if (rank == 0) must(tuttiGetUniqueId(&id));
  must(tuttiBroadcast(&id, &id, sizeof id, tuttiUint8, 0, comm, NULL));
  int x = 1;
  must(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL));
  return id;
}

static double make(int kind, const tuttiLaunch_t *job, tuttiComm_t comm)
{
  static const tuttiFusionTensor_t tensors[] = {
      {"0", 100000, tuttiFloat}, {"1", 1000, tuttiFloat}, {"2", 100000, tuttiFloat}};
  tuttiComm_t made = NULL;
  tuttiFusion_t fusion = NULL;
  tuttiUniqueId id = meet(comm, job->proc);
  double began_us = now_us();
  if (kind == COMM) must(tuttiCommInitRank(&made, job->nprocs, id, job->proc));
  if (kind == SPLIT) must(tuttiCommSplit(comm, 0, job->proc, &made, NULL));
  if (kind == FUSION) must(tuttiFusionCreate(&fusion, comm, tensors, 3, NULL));
  double took_ms = (now_us() - began_us) / 1e3;
  meet(comm, job->proc);
  if (made) must(tuttiCommDestroy(made));
  if (fusion) must(tuttiFusionDestroy(fusion));
  return took_ms;
}

int main(int argc, char **argv)
{
  static double ms[ROUNDS_MOST];
  static const char *const names[KINDS] = {"communicator", "split", "fusion"};
  int rounds = argc > 1 ? atoi(argv[1]) : 21;
  tuttiLaunch_t job;
  tuttiComm_t comm;
  if (rounds < 1 || rounds > ROUNDS_MOST) return 2;
  must(tuttiGetLaunch(&job));
  must(tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc));
  for (int kind = 0; kind < KINDS; kind++) {
    for (int k = 0; k < rounds; k++) ms[k] = make(kind, &job, comm);
    sort(ms, rounds);
    if (job.proc == 0)
      printf("%2d ranks: %-12s %6.2f ms (%.2f to %.2f)\n", job.nprocs, names[kind], ms[rounds / 2], ms[0],
             ms[rounds - 1]);
  }
  must(tuttiCommDestroy(comm));
  return 0;
}
