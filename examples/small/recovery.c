/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank dies, and the others go on. Start it with --keep-going, so that `tutti run` does not end them. */
#include "say.h"

#include <signal.h>

#define STEPS 6
#define RANKS_MOST 1024

/* The communicator of those that are left, which agree on the step to go on from: some may have finished one more. */
static tuttiComm_t shrink(tuttiComm_t comm, int *step)
{
  int failed[RANKS_MOST], n = RANKS_MOST;
  tuttiComm_t next;
  must(tuttiCommGetFailed(comm, failed, &n), "tuttiCommGetFailed");
  must(tuttiCommShrink(comm, failed, n, &next, NULL, TUTTI_SHRINK_ABORT), "tuttiCommShrink");
  tuttiCommDestroy(comm); /* returns the first error of comm, which is known */
  must(tuttiAllReduce(step, step, 1, tuttiInt32, tuttiMin, next, NULL), "tuttiAllReduce");
  return next;
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
      comm = shrink(comm, &step);
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
