/* SPDX-License-Identifier: BSD-3-Clause */
/* Tutti for loop.c. */
#include "loop.h"
#include "tutti.h"

static tuttiComm_t comm;
static float *vector;
static size_t length;

void peer_start(int *argc, char ***argv, int *rank, int *nranks)
{
  tuttiLaunch_t launch;
  (void)argc;
  (void)argv;
  if (tuttiGetLaunch(&launch) != tuttiSuccess) fail(tuttiGetLastError(NULL));
  *rank = launch.proc;
  *nranks = launch.nprocs;
  if (tuttiCommInitRank(&comm, *nranks, launch.id, *rank) != tuttiSuccess) fail(tuttiGetLastError(NULL));
}

void *peer_memory_alloc(size_t bytes)
{
  void *memory = NULL;
  return tuttiMemAlloc(&memory, bytes) == tuttiSuccess ? memory : NULL;
}

void peer_memory_free(void *memory)
{
  tuttiMemFree(memory);
}

void peer_prepare(float *data, size_t count)
{
  vector = data;
  length = count;
}

void peer_all_reduce(void)
{
  if (tuttiAllReduce(vector, vector, length, tuttiFloat, tuttiSum, comm, NULL) != tuttiSuccess)
    fail(tuttiGetLastError(comm));
}

float peer_sum(float value)
{
  if (tuttiAllReduce(&value, &value, 1, tuttiFloat, tuttiSum, comm, NULL) != tuttiSuccess)
    fail(tuttiGetLastError(comm));
  return value;
}

void peer_finish(void)
{
  tuttiCommDestroy(comm);
}
