/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank dies, and the others go on. Start it with --keep-going, so that `tutti run` does not end them. */
#include "say.h"

#include <signal.h>

#define STEPS 6

/* They agree on the step to go on from, since some may have finished one more; if one dies, those that are left do. */
static tuttiComm_t recover(tuttiComm_t comm, int *step)
{
  tuttiResult_t result;
  int first;
  do {
    tuttiComm_t left = survivors(comm);
    tuttiCommDestroy(comm); /* returns the first error of comm, which is known */
    comm = left;
    result = tuttiAllReduce(step, &first, 1, tuttiInt32, tuttiMin, comm, NULL);
  } while (result == tuttiRemoteError);
  must(result, "tuttiAllReduce");
  *step = first;
  return comm;
}

int main(void)
{
  int rank, nranks, sum, left;
  tuttiComm_t comm = join(&rank, &nranks);
  for (int step = 0; step < STEPS; step++) {
    if (step == 3 && rank == nranks - 1 && nranks > 1) raise(SIGKILL);
    tuttiResult_t result = tuttiAllReduce(&step, &sum, 1, tuttiInt32, tuttiSum, comm, NULL);
    if (result == tuttiRemoteError) {
      printf("rank %d, step %d: %s\n", rank, step, tuttiGetLastError(comm));
      comm = recover(comm, &step);
      step--; /* once more */
    } else {
      must(result, "tuttiAllReduce");
    }
  }
  must(tuttiCommCount(comm, &left), "tuttiCommCount");
  printf("rank %d: %d ranks have done %d steps, the sum of the last is %d\n", rank, left, STEPS, sum);
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
