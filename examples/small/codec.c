/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs: the same sum in fewer bits, and what that costs. */
#include "say.h"

#include <math.h>

#define COUNT 100000

int main(void)
{
  static const char *const codecs[] = {"fp16", "int8", "qsgd:4", "terngrad"};
  static float x[COUNT], exact[COUNT], sum[COUNT];
  int rank, nranks;
  tuttiComm_t comm = join(&rank, &nranks);
  for (int i = 0; i < COUNT; i++) x[i] = sinf((float)(i + 1) * (float)(rank + 1));
  must(tuttiAllReduce(x, exact, COUNT, tuttiFloat, tuttiSum, comm, NULL), "tuttiAllReduce");

  for (int c = 0; c < (int)(sizeof codecs / sizeof codecs[0]); c++) {
    tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
    options.codec = codecs[c];
    must(tuttiAllReduceWith(x, sum, COUNT, tuttiFloat, tuttiSum, &options, comm, NULL), "tuttiAllReduceWith");
    double error = 0, all = 0;
    for (int i = 0; i < COUNT; i++) {
      error += pow((double)sum[i] - (double)exact[i], 2);
      all += pow((double)exact[i], 2);
    }
    if (rank == 0) printf("%-8s is off by %.2g of the sum\n", codecs[c], sqrt(error / all));
  }
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return 0;
}
