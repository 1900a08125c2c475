/* SPDX-License-Identifier: BSD-3-Clause */
/* Starts ranks for a test: as forked processes or as threads of this one. */
#ifndef RANKS_H
#define RANKS_H

#include "tutti.h"

struct ranks {
  int rank, nranks;
  tuttiUniqueId id; /* made by rank 0, copied to all */
  void *argument;
};

/* What a rank does; 0 is success. */
typedef int (*ranks_body)(const struct ranks *self);

/* The n-th of the transports that tests try, as text for TUTTI_TRANSPORTS, or NULL: shm, then tcp; if TUTTI_TRANSPORTS
 * was set when the program was started, that alone. */
const char *ranks_transports(int n);
/* The one of a case that is drawn by this seed. */
const char *ranks_transport_of(uint64_t seed);

/* TEST_INTERFACES in the environment, e.g. "v0,v1": rank r of processes is on the interface r modulo their number,
 * and ranks on different interfaces are on different hosts. TEST_NAMESPACES, e.g. "hosts-0,hosts-1": likewise network
 * namespaces (perf/hosts). TEST_PATIENCE: all limits here are so many times longer. TEST_STACKS: gdb tells where a rank
 * is that has to be ended at a limit. */
int ranks_patience(void); /* 1 where nothing says so: for limits that a test itself sets */

/* Where a test goes through numbers of ranks on each transport: from `first` on, or the next one on transport 1, and so
 * on, in steps of 2, so that each number is tried on one of two; in steps of 1 with TEST_WHOLE=1. */
int ranks_first(int first, int transport);
int ranks_step(void);

/* Runs body on nranks forked processes; returns how many of them did not return 0. After limit_s seconds
 * (three times as many where IS_SLOW) all are killed, which counts as failed. The calling process must not have used
 * Tutti before. */
int ranks_run_processes(int nranks, ranks_body body, void *argument, int limit_s);

/* The same as threads of this process. alarm(2) ends the process after limit_s. */
int ranks_run_threads(int nranks, ranks_body body, void *argument, int limit_s);

/* For tests that kill: starts the processes and returns at once; pids[rank] are theirs. */
int ranks_start(int nranks, ranks_body body, void *argument, int *pids);
/* Waits for one of them: its exit status, 128 + signal if it was killed, -1 after limit_s (and kills it). */
int ranks_wait(int pid, int limit_s);

/* Memory shared by all processes started later; zeroed. */
void *ranks_shared(unsigned long len);

/* Has all ranks of comm add: 0 if it has n ranks and the sum is right. */
int comm_try(const struct ranks *self, tuttiComm_t comm, int n);

/* Makes the communicator of the ranks that live when one of comm, this one, is known to be dead. */
int comm_shrink(const struct ranks *self, tuttiComm_t comm, int dead, tuttiComm_t *left);

/* 1 if the last error of this thread, or of comm, has these words in it; else 0, and both are on stderr. */
int says(const char *words);
int comm_says(tuttiComm_t comm, const char *words);

#define RANKS_CHECK(condition)                              \
  do {                                                      \
    if (!(condition)) {                                     \
      ranks_complain(self, __FILE__, __LINE__, #condition); \
      return 1;                                             \
    }                                                       \
  } while (0)
void ranks_complain(const struct ranks *self, const char *file, int line, const char *condition);

#endif
