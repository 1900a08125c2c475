/* SPDX-License-Identifier: BSD-3-Clause */
/* The subject of loop.c: one library, in a file of its own (loop_tutti.c, loop_mpi.c, loop_gloo.cc). */
#ifndef TUTTI_PERF_LOOP_H
#define TUTTI_PERF_LOOP_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Makes this process a rank. */
void peer_start(int *argc, char ***argv, int *rank, int *nranks);

/* Memory of the library's own allocator, as MPI_Alloc_mem; NULL if there is none to be had. */
void *peer_memory_alloc(size_t bytes);
void peer_memory_free(void *memory);

/* The vector of the all-reduces that follow. Not measured: what can be done once for many calls is done here. */
void peer_prepare(float *data, size_t count);

/* Sum, in place. */
void peer_all_reduce(void);

/* Sum of one value of each rank, while a vector is prepared or not; also a barrier. */
float peer_sum(float value);

void peer_finish(void);

/* Ends the process. */
void fail(const char *what);

#ifdef __cplusplus
}
#endif

#endif
