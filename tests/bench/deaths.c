/* SPDX-License-Identifier: BSD-3-Clause */
/* How long a fusion with a quorum stands still when a rank is killed: the time from SIGKILL to the end of the first
 * step that was begun after it, on the slowest of the others; ms. The dead rank owned its share of the weights, and
 * each rank in turn is the one that dies.
 *
 *   bench_deaths [TRANSPORT [RANKS [KILLS [KILOBYTES]]]] */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/base.h"
#include "ranks.h"
#include "tutti_fusion.h"

#define BEFORE 20 /* updates before the death, and after it */
#define RANKS_MOST 64

static struct shared {
  int victim;
  size_t count;
  _Atomic uint64_t killed_ns;
  uint64_t next_ns[RANKS_MOST]; /* the end of the first step that was begun after the death */
} *shared;

static void check(tuttiResult_t result)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "bench_deaths: %s\n", tuttiGetLastError(NULL));
  exit(1);
}

static int body(const struct ranks *self)
{
  tuttiFusionTensor_t tensor = {"x", shared->count, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusionInfo_t info = {.size = sizeof info};
  float *x = calloc(2 * shared->count, sizeof *x), *w = x + shared->count;
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  if (!x) return 1;
  check(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank));
  config.update = "momentum";
  config.quorum = self->nranks - 1;
  check(tuttiFusionCreate(&fusion, comm, &tensor, 1, &config));
  check(tuttiFusionState(fusion, 0, 0, x, shared->count, 1));
  while (info.updates < 2 * BEFORE) {
    if (self->rank == shared->victim && info.updates >= BEFORE) {
      atomic_store(&shared->killed_ns, tt_now_ns());
      raise(SIGKILL);
    }
    uint64_t began_ns = tt_now_ns();
    check(tuttiFusionPush(fusion, 0, x, w, shared->count, tuttiFloat32, NULL));
    check(tuttiFusionWait(fusion, 0));
    check(tuttiFusionGetInfo(fusion, &info));
    uint64_t killed_ns = atomic_load(&shared->killed_ns);
    if (killed_ns && began_ns > killed_ns && !shared->next_ns[self->rank]) shared->next_ns[self->rank] = tt_now_ns();
  }
  check(tuttiFusionDestroy(fusion));
  tuttiCommAbort(comm);
  free(x);
  return 0;
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

int main(int argc, char **argv)
{
  const char *transport = argc > 1 ? argv[1] : "shm";
  int nranks = argc > 2 ? atoi(argv[2]) : 4, kills = argc > 3 ? atoi(argv[3]) : 20;
  double *ms = calloc((size_t)kills + 1, sizeof *ms);
  if (nranks < 3 || nranks > RANKS_MOST || kills < 1 || !ms) return 2;
  setenv("TUTTI_TRANSPORTS", transport, 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < kills; k++) {
    shared = ranks_shared(sizeof *shared);
    shared->victim = k % nranks;
    shared->count = (argc > 4 ? (size_t)atoi(argv[4]) : 100) * 256;
    if (ranks_run_processes(nranks, body, NULL, 60) != 1) return 1;
    for (int rank = 0; rank < nranks; rank++) {
      double its = (double)(shared->next_ns[rank] - atomic_load(&shared->killed_ns)) / 1e6;
      if (rank != shared->victim && its > ms[k]) ms[k] = its;
    }
  }
  qsort(ms, (size_t)kills, sizeof *ms, by_size);
  printf("%s, %d ranks, %d kills: p50 %.1f ms, max %.1f ms\n", transport, nranks, kills, ms[kills / 2], ms[kills - 1]);
  free(ms);
  return 0;
}
