/* SPDX-License-Identifier: BSD-3-Clause */
/* For all examples: joins the job, ends the program where a call fails, and finds who lives after a death. */
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

/* The communicator of the ranks that live: tried again if one more dies, or if not all know of the same deaths yet. */
static inline tuttiComm_t survivors(tuttiComm_t comm)
{
  int failed[1024], n, tries = 0;
  tuttiComm_t left;
  tuttiResult_t result;
  do {
    n = 1024;
    must(tuttiCommGetFailed(comm, failed, &n), "tuttiCommGetFailed");
    result = tuttiCommShrink(comm, failed, n, &left, NULL, TUTTI_SHRINK_ABORT);
  } while (result != tuttiSuccess && ++tries < 10);
  must(result, "tuttiCommShrink");
  return left;
}

#endif
