/* SPDX-License-Identifier: BSD-3-Clause */
/* An MPI for loop.c. */
#include <mpi.h>

#include "loop.h"

static float *vector;
static int length;

void peer_start(int *argc, char ***argv, int *rank, int *nranks)
{
  MPI_Init(argc, argv);
  MPI_Comm_rank(MPI_COMM_WORLD, rank);
  MPI_Comm_size(MPI_COMM_WORLD, nranks);
}

void *peer_memory_alloc(size_t bytes)
{
  void *memory = NULL;
  return MPI_Alloc_mem((MPI_Aint)bytes, MPI_INFO_NULL, &memory) == MPI_SUCCESS ? memory : NULL;
}

void peer_memory_free(void *memory)
{
  MPI_Free_mem(memory);
}

void peer_prepare(float *data, size_t count)
{
  vector = data;
  length = (int)count;
}

void peer_all_reduce(void)
{
  MPI_Allreduce(MPI_IN_PLACE, vector, length, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
}

float peer_sum(float value)
{
  MPI_Allreduce(MPI_IN_PLACE, &value, 1, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  return value;
}

void peer_finish(void)
{
  MPI_Finalize();
}
