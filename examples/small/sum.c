/* SPDX-License-Identifier: BSD-3-Clause */
/* An all-reduce: every rank gets the sum of all ranks' vectors. */
#include "say.h"

int main(void)
{
  int rank, nranks;
  tuttiComm_t comm = join(&rank, &nranks);
  double x[3] = {1, rank, rank * rank}, sum[3];
  must(tuttiAllReduce(x, sum, 3, tuttiDouble, tuttiSum, comm, NULL), "tuttiAllReduce");
  printf("rank %d of %d: ranks %g, sum of numbers %g, of squares %g\n", rank, nranks, sum[0], sum[1], sum[2]);

  /* In place: the same buffer twice. Each rank gets the largest element at each place. */
  must(tuttiAllReduce(x, x, 3, tuttiDouble, tuttiMax, comm, NULL), "tuttiAllReduce");
  printf("rank %d: largest number %g\n", rank, x[1]);
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
