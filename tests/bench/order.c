/* SPDX-License-Identifier: BSD-3-Clause */
/* Measures the cost, in a step, of agreeing on the order of messages: 32 tensors of 40 KB, each sent alone, pushed so
 * many us apart. Steps in which all ranks push in the plan's order take turns with such in which one rank, another one
 * each time, pushes its first tensor last, and with such in which each rank pushes in an order of its own. Prints us of
 * the slowest rank, median and mean, and rounds and frames of a rank per step.
 *
 *   tutti run -n 2 bench_order [APART_US [STEPS]] */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "chance.h"
#include "fusion/private.h"
#include "tutti_fusion.h"

#define TENSORS 32
#define COUNT 10000
#define WARM 21 /* steps in the plan's order: plans were made by their times */

enum { IN_ORDER, ONE_LATE, SHUFFLED, KINDS };

static float gradients[TENSORS][COUNT];

static void check(tuttiResult_t result)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "bench_order: %s\n", tuttiGetLastError(NULL));
  exit(1);
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void order_make(int *order, int kind, int step, const tuttiLaunch_t *job)
{
  uint64_t chance = (uint64_t)step * 1000 + (uint64_t)job->proc;
  for (int k = 0; k < TENSORS; k++) order[k] = TENSORS - 1 - k;
  for (int k = 0; kind == ONE_LATE && step / KINDS % job->nprocs == job->proc && k < TENSORS; k++)
    order[k] = k < TENSORS - 1 ? TENSORS - 2 - k : TENSORS - 1;
  for (int k = TENSORS - 1; kind == SHUFFLED && k > 0; k--) {
    int other = (int)below(&chance, (size_t)k + 1), was = order[k];
    order[k] = order[other];
    order[other] = was;
  }
}

static void sleep_until(uint64_t ns)
{
  struct timespec at = {(time_t)(ns / 1000000000), (long)(ns % 1000000000)};
  clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, NULL);
}

/* us of the slowest rank. */
static double step(tuttiFusion_t fusion, tuttiComm_t comm, const int *order, uint64_t apart_us)
{
  double us = 0;
  check(tuttiAllReduce(&us, &us, 1, tuttiFloat64, tuttiMax, comm, NULL)); /* all are here */
  uint64_t began_ns = tt_now_ns();
  for (int k = 0; k < TENSORS; k++) {
    if (apart_us) sleep_until(began_ns + (uint64_t)k * apart_us * 1000);
    check(tuttiFusionPush(fusion, order[k], gradients[order[k]], gradients[order[k]], COUNT, tuttiFloat32, NULL));
  }
  check(tuttiFusionWaitAll(fusion));
  us = (double)(tt_now_ns() - began_ns) / 1000;
  check(tuttiAllReduce(&us, &us, 1, tuttiFloat64, tuttiMax, comm, NULL));
  return us;
}

static void tell(int kind, double *us, int n, uint64_t rounds, const struct tt_fusion_round *round)
{
  static const char *const names[KINDS] = {"in the plan's order", "one rank's first one late", "orders of their own"};
  double sum = 0;
  int frames = round->nphases > 1 ? 2 * round->nphases - 1 : round->nphases;
  for (int k = 0; k < n; k++) sum += us[k];
  qsort(us, (size_t)n, sizeof *us, by_size);
  printf("%2d ranks, %-26s %9.0f %9.0f %8.2f %8.2f\n", (int)round->nranks, names[kind], us[n / 2], sum / n,
         (double)rounds / n, (double)rounds * frames / n);
}

int main(int argc, char **argv)
{
  static tuttiFusionTensor_t tensors[TENSORS];
  int apart_us = argc > 1 ? atoi(argv[1]) : 100, n = argc > 2 ? atoi(argv[2]) : 200, order[TENSORS];
  double *us[KINDS];
  uint64_t rounds[KINDS] = {0};
  tuttiLaunch_t job;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = "wfbp";
  for (int kind = 0; kind < KINDS; kind++)
    if (n < 1 || !(us[kind] = calloc((size_t)n, sizeof **us))) return 1;
  for (int t = 0; t < TENSORS; t++) tensors[t] = (tuttiFusionTensor_t){.count = COUNT, .type = tuttiFloat32};
  check(tuttiGetLaunch(&job));
  check(tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc));
  check(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config));
  const struct tt_fusion_round *round = &fusion->engine.ordering.round;
  for (int s = -WARM; s < n * KINDS; s++) {
    int kind = s < 0 ? IN_ORDER : s % KINDS;
    uint64_t before = round->number;
    order_make(order, kind, s, &job);
    double took_us = step(fusion, comm, order, (uint64_t)apart_us);
    if (s < 0) continue;
    us[kind][s / KINDS] = took_us;
    rounds[kind] += round->number - before;
  }
  if (job.proc == 0) printf("%-36s %9s %9s %8s %8s\n", "", "median us", "mean us", "rounds", "frames");
  for (int kind = 0; kind < KINDS && job.proc == 0; kind++) tell(kind, us[kind], n, rounds[kind], round);
  check(tuttiFusionDestroy(fusion));
  check(tuttiCommDestroy(comm));
  for (int kind = 0; kind < KINDS; kind++) free(us[kind]);
  return 0;
}
