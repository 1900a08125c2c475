/* SPDX-License-Identifier: BSD-3-Clause */
/* What a push costs its thread: 160 tensors of 20 KB, the last layer first, as many us apart as told, by several
 * policies in turn; us, of the slowest rank. A push that completes a message wakes the engine where that sleeps, by a
 * system call; the others are a lock and some stores.
 *
 *   tutti run -n 2 bench_push [APART_US [STEPS]] */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "tutti.h"
#include "tutti_fusion.h"

#define TENSORS 160
#define COUNT 5000
#define WARM 32 /* steps: plans are made, and auto has tried some */

static const char *const policies[] = {"single", "auto", "threshold:25M,1M", "wfbp"};
enum { POLICIES = sizeof policies / sizeof policies[0] };

static float gradients[POLICIES][TENSORS][COUNT];

static void check(tuttiResult_t result)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "bench_push: %s\n", tuttiGetLastError(NULL));
  exit(1);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A step; what each of its pushes took. */
static void step(tuttiFusion_t fusion, float (*gradient)[COUNT], unsigned apart_us, double *us)
{
  for (int i = TENSORS - 1; i >= 0; i--) {
    usleep(apart_us);
    uint64_t began_ns = tt_now_ns();
    check(tuttiFusionPush(fusion, i, gradient[i], gradient[i], COUNT, tuttiFloat32, NULL));
    *us++ = (double)(tt_now_ns() - began_ns) / 1000;
  }
  check(tuttiFusionWaitAll(fusion));
}

static void tell(tuttiComm_t comm, int rank, int p, tuttiFusion_t fusion, double *us, size_t n)
{
  tuttiFusionInfo_t info = {.size = sizeof info};
  double sum = 0;
  check(tuttiFusionGetInfo(fusion, &info));
  qsort(us, n, sizeof *us, by_size);
  for (size_t k = 0; k < n; k++) sum += us[k];
  double told[4] = {us[n / 2], sum / (double)n, us[n * 9 / 10], us[n * 99 / 100]};
  check(tuttiAllReduce(told, told, 4, tuttiFloat64, tuttiMax, comm, NULL));
  if (rank == 0)
    printf("%-18s %8d %8.2f %8.2f %8.2f %8.2f\n", policies[p], info.messages, told[0], told[1], told[2], told[3]);
}

int main(int argc, char **argv)
{
  unsigned apart_us = argc > 1 ? (unsigned)atoi(argv[1]) : 300;
  int steps = argc > 2 ? atoi(argv[2]) : 30;
  static tuttiFusionTensor_t tensors[TENSORS];
  tuttiLaunch_t launch;
  tuttiComm_t comm;
  tuttiFusion_t fusions[POLICIES];
  double *us = calloc((size_t)(steps + WARM) * POLICIES * TENSORS, sizeof *us);
  if (!us || steps < 1) return 1;
  check(tuttiGetLaunch(&launch));
  check(tuttiCommInitRank(&comm, launch.nprocs, launch.id, launch.proc));
  for (int i = 0; i < TENSORS; i++) tensors[i] = (tuttiFusionTensor_t){.count = COUNT, .type = tuttiFloat32};
  for (int p = 0; p < POLICIES; p++) {
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    config.policy = policies[p];
    check(tuttiFusionCreate(&fusions[p], comm, tensors, TENSORS, &config));
  }
  size_t each = (size_t)(steps + WARM) * TENSORS;
  for (int s = 0; s < steps + WARM; s++)
    for (int p = 0; p < POLICIES; p++)
      step(fusions[p], gradients[p], apart_us, us + (size_t)p * each + (size_t)s * TENSORS);
  if (launch.proc == 0)
    printf("%-18s %8s %8s %8s %8s %8s\n", "policy", "messages", "median", "mean", "90 %", "99 %");
  for (int p = 0; p < POLICIES; p++)
    tell(comm, launch.proc, p, fusions[p], us + (size_t)p * each + WARM * TENSORS, (size_t)steps * TENSORS);
  for (int p = 0; p < POLICIES; p++) check(tuttiFusionDestroy(fusions[p]));
  check(tuttiCommDestroy(comm));
  free(us);
  return 0;
}
