/* SPDX-License-Identifier: BSD-3-Clause */
/* All-reduce of GPU memory on several ranks; rank r is on GPU r mod their number. */
#include "ranks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "gpu.h"

static int value(int rank, size_t i)
{
  return (int)(((size_t)rank * 5 + i * 3) % 17);
}

static int reduce(const struct ranks *self, tuttiComm_t comm, struct gpu *gpu, size_t count)
{
  const size_t len = count * sizeof(float);
  float *host = malloc(len), *in = gpu_alloc(gpu, len), *out = count % 2 ? in : gpu_alloc(gpu, len);
  RANKS_CHECK(host && in && out);
  for (size_t i = 0; i < count; i++) host[i] = (float)value(self->rank, i);
  RANKS_CHECK(gpu_copy(gpu, in, host, len));
  RANKS_CHECK(tuttiAllReduce(in, out, count, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(gpu_copy(gpu, host, out, len));
  for (size_t i = 0; i < count; i++) {
    float want = 0;
    for (int r = 0; r < self->nranks; r++) want += (float)value(r, i);
    RANKS_CHECK(host[i] == want);
  }
  if (out != in) gpu_free(gpu, out);
  gpu_free(gpu, in);
  free(host);
  return 0;
}

static int body(const struct ranks *self)
{
  static const size_t counts[] = {1, 2, 5, 1000, 70001, 3000000};
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  int failed = 0;
  const char *wrong = gpu_open(&gpu, self->rank);
  if (wrong) {
    fprintf(stderr, "rank %d: %s\n", self->rank, wrong);
    return 1;
  }
  config.device = gpu.ordinal;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (size_t c = 0; c < sizeof counts / sizeof counts[0] && !failed; c++) failed = reduce(self, comm, &gpu, counts[c]);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  gpu_close(&gpu);
  return failed;
}

int check_ranks(int threads)
{
  int failed = 0;
  printf("\nall-reduce of GPU memory, ranks as %s\n", threads ? "threads" : "processes");
  for (int nranks = 1; nranks <= 4; nranks++) {
    int wrong = threads ? ranks_run_threads(nranks, body, NULL, 300) : ranks_run_processes(nranks, body, NULL, 300);
    printf("  %d ranks%51s %s\n", nranks, "", wrong ? "WRONG" : "right");
    fflush(stdout);
    failed += wrong != 0;
  }
  return failed;
}
