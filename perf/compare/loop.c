/* SPDX-License-Identifier: BSD-3-Clause */
/* The same all-reduce loop for Tutti and for MPI: float, sum, in place, ranks as processes.
 * Prints one line per size on rank 0: bytes, median and minimum of the batches, in us per operation.
 *
 * usage: loop BYTES...      compiled with -DUSE_MPI for an MPI */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#ifdef USE_MPI
#include <mpi.h>
#else
#include "tutti.h"
static tuttiComm_t comm;
#endif

#define BATCHES 9
#define BATCH_US 4000.0 /* a batch takes about this long */

static int rank, nranks;

static void fail(const char *what)
{
  fprintf(stderr, "loop: rank %d: %s\n", rank, what);
  exit(1);
}

static void start(int *argc, char ***argv)
{
#ifdef USE_MPI
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
#else
  (void)argc;
  (void)argv;
  tuttiLaunch_t launch;
  if (tuttiGetLaunch(&launch) != tuttiSuccess) fail(tuttiGetLastError(NULL));
  rank = launch.proc;
  nranks = launch.nprocs;
  if (tuttiCommInitRank(&comm, nranks, launch.id, rank) != tuttiSuccess) fail(tuttiGetLastError(NULL));
#endif
}

static void all_reduce(float *data, size_t count)
{
#ifdef USE_MPI
  MPI_Allreduce(MPI_IN_PLACE, data, (int)count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
#else
  if (tuttiAllReduce(data, data, count, tuttiFloat, tuttiSum, comm, NULL) != tuttiSuccess)
    fail(tuttiGetLastError(comm));
#endif
}

static void finish(void)
{
#ifdef USE_MPI
  MPI_Finalize();
#else
  tuttiCommDestroy(comm);
#endif
}

static double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void check(float *data, size_t count)
{
  for (size_t i = 0; i < count; i++) data[i] = (float)(rank + (int)(i % 7));
  all_reduce(data, count);
  float ranks = (float)(nranks * (nranks - 1) / 2);
  for (size_t i = 0; i < count; i++)
    if (data[i] != ranks + (float)nranks * (float)(i % 7)) fail("wrong result");
}

static double batch(float *data, size_t count, int iterations)
{
  float nothing = 0;
  all_reduce(&nothing, 1);
  double begin = now_us();
  for (int i = 0; i < iterations; i++) all_reduce(data, count);
  return (now_us() - begin) / iterations;
}

static void measure(size_t bytes)
{
  size_t count = bytes / sizeof(float);
  float *data = malloc(bytes);
  double times[BATCHES];
  check(data, count);
  for (size_t i = 0; i < count; i++) data[i] = 0; /* stays 0: no slow numbers */
  float iterations = (float)(BATCH_US / batch(data, count, 3));
  all_reduce(&iterations, 1); /* the same everywhere */
  int n = (int)(iterations / (float)nranks);
  n = n < 1 ? 1 : n > 20000 ? 20000 : n;
  for (int b = 0; b < BATCHES; b++) times[b] = batch(data, count, n);
  qsort(times, BATCHES, sizeof *times, by_value);
  if (rank == 0) {
    printf("%zu %.4f %.4f\n", bytes, times[BATCHES / 2], times[0]);
    fflush(stdout);
  }
  free(data);
}

int main(int argc, char **argv)
{
  start(&argc, &argv);
  for (int a = 1; a < argc; a++) measure(strtoull(argv[a], NULL, 10));
  finish();
  return 0;
}
