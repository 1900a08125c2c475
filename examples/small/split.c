/* SPDX-License-Identifier: BSD-3-Clause */
/* Several communicators: the ranks as the rows and columns of a grid, as in training that is parallel in two ways. */
#include "say.h"

#define COLUMNS 2

int main(void)
{
  int rank, nranks;
  tuttiComm_t comm = join(&rank, &nranks), row, column;

  /* Ranks that give the same color are in one communicator, in the order of their keys. */
  must(tuttiCommSplit(comm, rank / COLUMNS, rank, &row, NULL), "tuttiCommSplit");
  must(tuttiCommSplit(comm, rank % COLUMNS, rank, &column, NULL), "tuttiCommSplit");

  int in_row, in_column;
  must(tuttiAllReduce(&rank, &in_row, 1, tuttiInt32, tuttiSum, row, NULL), "tuttiAllReduce");
  must(tuttiAllReduce(&rank, &in_column, 1, tuttiInt32, tuttiSum, column, NULL), "tuttiAllReduce");
  printf("rank %d: its row adds up to %d, its column to %d\n", rank, in_row, in_column);

  must(tuttiCommDestroy(column), "tuttiCommDestroy"); /* in any order */
  must(tuttiCommDestroy(row), "tuttiCommDestroy");
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
