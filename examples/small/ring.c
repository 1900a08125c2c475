/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages between two ranks: a value goes once round the ring, and neighbours exchange vectors. */
#include "say.h"

int main(void)
{
  int rank, nranks, mine[2], theirs[2];
  tuttiComm_t comm = join(&rank, &nranks);
  int next = (rank + 1) % nranks, before = (rank + nranks - 1) % nranks;

  /* Both directions at once stand in a group: without it each rank may wait in its send for a receive. */
  mine[0] = rank;
  mine[1] = rank * 10;
  must(tuttiGroupStart(), "tuttiGroupStart");
  must(tuttiSend(mine, 2, tuttiInt32, next, comm, NULL), "tuttiSend");
  must(tuttiRecv(theirs, 2, tuttiInt32, before, comm, NULL), "tuttiRecv");
  must(tuttiGroupEnd(), "tuttiGroupEnd");
  printf("rank %d has %d and %d of rank %d\n", rank, theirs[0], theirs[1], before);

  /* One after the other: rank 0 begins, and each rank adds its number. */
  int value = 0;
  if (rank > 0) must(tuttiRecv(&value, 1, tuttiInt32, before, comm, NULL), "tuttiRecv");
  value += rank;
  if (rank < nranks - 1) must(tuttiSend(&value, 1, tuttiInt32, next, comm, NULL), "tuttiSend");
  if (rank == nranks - 1) printf("at the end of the chain: %d\n", value);
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
