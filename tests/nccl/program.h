/* SPDX-License-Identifier: BSD-3-Clause */
/* A program written against NVIDIA's nccl.h: what its files share. */
#ifndef TEST_NCCL_PROGRAM_H
#define TEST_NCCL_PROGRAM_H

#include <nccl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define RANKS_MAX 5
#define COUNT 1000 /* elements of a rank's share: several blocks of any algorithm */

struct world {
  int nranks, rank;
  ncclComm_t comm;
};

/* Ends this rank, and with it the world, unless the call gives `wanted`. */
#define WANT(wanted, call) want((wanted), (call), __FILE__, __LINE__, #call)
#define OK(call) WANT(ncclSuccess, call)

/* Ends this rank unless the condition holds. */
#define HOLDS(condition) holds((condition) != 0, __FILE__, __LINE__, #condition)

void want(ncclResult_t wanted, ncclResult_t got, const char *file, int line, const char *what);
void holds(int condition, const char *file, int line, const char *what);

/* The next id of the job: rank 0 makes it, the others get it. */
ncclUniqueId next_id(const struct world *world);

/* Element i of rank's contribution: tells rank and place, and sums stay exact. */
static inline int64_t value_of(int rank, size_t i)
{
  return (int64_t)(rank + 1) * 1000003 + (int64_t)(i % 977);
}

/* The sum over all ranks of element i. */
static inline int64_t sum_of(int nranks, size_t i)
{
  int64_t sum = 0;
  for (int r = 0; r < nranks; r++) sum += value_of(r, i);
  return sum;
}

void try_reductions(const struct world *world);
void try_moves(const struct world *world);
void try_messages(const struct world *world);
void try_life(const struct world *world);

#endif
