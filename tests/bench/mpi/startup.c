/* SPDX-License-Identifier: BSD-3-Clause */
/* What ../startup.c measures, with MPI: scripts/test-long startup builds and times it. */
#include <mpi.h>
#include <stdio.h>

int main(int argc, char **argv)
{
  int rank, nranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &nranks);
  double x = rank + 1;
  MPI_Allreduce(MPI_IN_PLACE, &x, 1, MPI_DOUBLE, MPI_SUM, MPI_COMM_WORLD);
  MPI_Finalize();
  return x != (double)nranks * (nranks + 1) / 2;
}
