/* SPDX-License-Identifier: BSD-3-Clause */
/* The smallest consumer, valid C and C++: one rank adds up its own vector. */
#include <stdio.h>

#include "tutti.h"
#include "tutti_tools.h"

int main(void)
{
  int version = 0;
  float vector[3] = {1, 2, 3}, sum[3] = {0, 0, 0};
  tuttiLaunch_t launch;
  tuttiComm_t comm = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  int overflow = 1;
  tuttiResult_t result = tuttiGetVersion(&version);
  if (result == tuttiSuccess) result = tuttiGetLaunch(&launch);
  if (result == tuttiSuccess) result = tuttiCommInitRankConfig(&comm, launch.nprocs, launch.id, launch.proc, &config);
  if (result == tuttiSuccess) result = tuttiAllReduce(vector, sum, 3, tuttiFloat, tuttiSum, comm, NULL);
  options.wire_type = tuttiFloat16;
  options.overflow = &overflow;
  if (result == tuttiSuccess)
    result = tuttiAllReduceWith(vector, sum, 3, tuttiFloat, tuttiSum, &options, comm, NULL);
  if (result != tuttiSuccess) fprintf(stderr, "consumer: %s\n", tuttiGetLastError(comm));
  tuttiCommDestroy(comm);
  printf("version %d sum %g %g %g\n", version, (double)sum[0], (double)sum[1], (double)sum[2]);
  return result != tuttiSuccess || version != TUTTI_VERSION_CODE || sum[2] != 3 || overflow;
}
