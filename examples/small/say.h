/* SPDX-License-Identifier: BSD-3-Clause */
/* For all examples: joins the job, and ends the program where a call fails. */
#ifndef SAY_H
#define SAY_H

#include <stdio.h>
#include <stdlib.h>
#include <tutti.h>

/* The library has logged why the call failed; the program adds which one it was. */
static inline void must(tuttiResult_t result, const char *call)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "%s: %s\n", call, tuttiGetErrorString(result));
  exit(1);
}

static inline tuttiComm_t join(int *rank, int *nranks)
{
  tuttiLaunch_t job;
  tuttiComm_t comm;
  must(tuttiGetLaunch(&job), "tuttiGetLaunch");
  must(tuttiCommInitRank(&comm, job.nprocs, job.id, job.proc), "tuttiCommInitRank");
  *rank = job.proc;
  *nranks = job.nprocs;
  return comm;
}

#endif
