/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank that adds, with a pause, until the file STOP exists, and says how that ended: for `outages`, which takes links
 * away meanwhile. Prints "rank R: began", then "rank R: right sums" or "rank R: ERROR: sentence". With
 * TUTTI_FAULT_LEVEL=1 it goes on without lost ranks, and says so: "rank R: goes on as one of N after MS ms".
 *
 * usage: outage_ranks STOP, as one of the ranks that a launcher starts */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tutti.h"

#define COUNT_LONG 100000 /* every 16th sum is long */
#define COUNT_SHORT 64

static int nranks, rank; /* of comm: those of level 3 are several processes each */
static int has_changed;

/* The sums of one operation; rank 0 says in the last element whether it is the last one. */
static tuttiResult_t add(tuttiComm_t comm, const tuttiLaunch_t *job, int k, int *is_last)
{
  static int x[COUNT_LONG];
  int count = k % 16 ? COUNT_SHORT : COUNT_LONG;
  for (int i = 0; i < count - 1; i++) x[i] = (rank + 1) * (i + k);
  x[count - 1] = *is_last;
  tuttiResult_t result = tuttiAllReduce(x, x, (size_t)count, tuttiInt, tuttiSum, comm, NULL);
  if (result != tuttiSuccess) return result;
  for (int i = 0; i < count - 1 && !has_changed; i++) {
    if (x[i] == nranks * (nranks + 1) / 2 * (i + k)) continue;
    printf("rank %d: wrong sum in operation %d\n", job->proc, k);
    exit(1);
  }
  *is_last = x[count - 1];
  return result;
}

static long now_ms(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* 1: comm goes on after this result. */
static int goes_on(tuttiComm_t comm, const tuttiLaunch_t *job, tuttiResult_t result, long began_ms)
{
  if (result == tuttiSuccess) return 1;
  if (!comm || tuttiCommGetAsyncError(comm, &result) != tuttiSuccess || result != tuttiSuccess) return 0;
  tuttiCommCount(comm, &nranks);
  has_changed = 1;
  printf("rank %d: goes on as one of %d after %ld ms\n", job->proc, nranks, now_ms() - began_ms);
  return 1;
}

int main(int argc, char **argv)
{
  tuttiLaunch_t job;
  tuttiComm_t comm = NULL;
  int is_last = 0;
  if (argc != 2) return 2;
  setvbuf(stdout, NULL, _IOLBF, 0);
  tuttiResult_t result = tuttiGetLaunch(&job);
  if (result == tuttiSuccess) result = tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc);
  if (result == tuttiSuccess) result = tuttiCommCount(comm, &nranks);
  if (result == tuttiSuccess) result = tuttiCommUserRank(comm, &rank);
  for (int k = 1, goes = 1; goes && result == tuttiSuccess && !is_last; k++) {
    long began_ms = now_ms();
    is_last = rank == 0 && access(argv[1], F_OK) == 0;
    result = add(comm, &job, k, &is_last);
    goes = goes_on(comm, &job, result, began_ms);
    if (goes) result = tuttiSuccess;
    if (k == 1 && result == tuttiSuccess) printf("rank %d: began\n", job.proc);
    usleep(1000);
  }
  if (result == tuttiSuccess) printf("rank %d: right sums\n", job.proc);
  else printf("rank %d: %s: %s\n", job.proc, tuttiGetErrorString(result), tuttiGetLastError(comm));
  tuttiCommDestroy(comm);
  return result != tuttiSuccess;
}
