/* SPDX-License-Identifier: BSD-3-Clause */
/* As much of MPI as nccl-tests calls, in C++, between processes of one host: they then have several ranks on one GPU
 * where no MPI is installed. The environment has RANKS, RANK and RANKS_FILE, a file of 1 MiB of zeros, in which each
 * rank has a part to write. */
#ifndef MPI_OF_ONE_HOST_H
#define MPI_OF_ONE_HOST_H

#include <fcntl.h>
#include <sched.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

typedef int MPI_Comm, MPI_Datatype, MPI_Op;
enum { MPI_COMM_WORLD };
enum { MPI_DATATYPE_NULL, MPI_BYTE, MPI_INT, MPI_DOUBLE, MPI_LONG, MPI_INT64_T = MPI_LONG, MPI_LONG_LONG = MPI_LONG };
enum { MPI_OP_NULL, MPI_SUM, MPI_MIN, MPI_MAX };
#define MPI_IN_PLACE ((void *)-1)
#define RANKS_PART 65536

struct ranks_of_host {
  int ranks, rank;
  unsigned round;
  char *file;
};
__attribute__((weak)) struct ranks_of_host ranks_own;

static inline char *ranks_part(int rank)
{
  return ranks_own.file + (size_t)(rank + 1) * RANKS_PART;
}

static inline size_t ranks_size(int count, MPI_Datatype type)
{
  return (size_t)count * (type == MPI_BYTE ? 1 : type == MPI_INT ? 4 : 8);
}

static inline int MPI_Barrier(MPI_Comm)
{
  unsigned *arrived = (unsigned *)ranks_own.file, all = ++ranks_own.round * (unsigned)ranks_own.ranks;
  __atomic_add_fetch(arrived, 1, __ATOMIC_SEQ_CST);
  while ((int)(__atomic_load_n(arrived, __ATOMIC_SEQ_CST) - all) < 0) sched_yield();
  return 0;
}

static inline int MPI_Init(int *, char ***)
{
  const char *ranks = getenv("RANKS"), *rank = getenv("RANK"), *file = getenv("RANKS_FILE");
  int fd = ranks && rank && file ? open(file, O_RDWR) : -1;
  void *pages = fd < 0 ? MAP_FAILED : mmap(NULL, 1 << 20, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (pages == MAP_FAILED) abort();
  ranks_own = {atoi(ranks), atoi(rank), 0, (char *)pages};
  return MPI_Barrier(MPI_COMM_WORLD);
}

static inline int MPI_Finalize()
{
  return MPI_Barrier(MPI_COMM_WORLD);
}

static inline int MPI_Comm_size(MPI_Comm, int *ranks)
{
  *ranks = ranks_own.ranks;
  return 0;
}

static inline int MPI_Comm_rank(MPI_Comm, int *rank)
{
  *rank = ranks_own.rank;
  return 0;
}

/* All ranks, whatever the color. */
static inline int MPI_Comm_split(MPI_Comm, int, int, MPI_Comm *comm)
{
  *comm = MPI_COMM_WORLD;
  return 0;
}

static inline int MPI_Comm_free(MPI_Comm *)
{
  return 0;
}

/* Each rank's bytes into its part, and all parts to `out` where that is wanted. */
static inline int ranks_exchange(const void *in, size_t len, void *out, int is_wanted)
{
  memcpy(ranks_part(ranks_own.rank), in, len);
  MPI_Barrier(MPI_COMM_WORLD);
  for (int r = 0; r < ranks_own.ranks && is_wanted; r++) memcpy((char *)out + (size_t)r * len, ranks_part(r), len);
  return MPI_Barrier(MPI_COMM_WORLD);
}

static inline int MPI_Gather(const void *in, int count, MPI_Datatype type, void *out, int, MPI_Datatype, int root,
                             MPI_Comm)
{
  return ranks_exchange(in, ranks_size(count, type), out, ranks_own.rank == root);
}

static inline int MPI_Allgather(const void *in, int, MPI_Datatype, void *out, int count, MPI_Datatype type, MPI_Comm)
{
  size_t len = ranks_size(count, type);
  return ranks_exchange(in == MPI_IN_PLACE ? (char *)out + (size_t)ranks_own.rank * len : in, len, out, 1);
}

static inline int MPI_Bcast(void *bytes, int count, MPI_Datatype type, int root, MPI_Comm)
{
  size_t len = ranks_size(count, type);
  if (ranks_own.rank == root) memcpy(ranks_part(root), bytes, len);
  MPI_Barrier(MPI_COMM_WORLD);
  memcpy(bytes, ranks_part(root), len);
  return MPI_Barrier(MPI_COMM_WORLD);
}

template <class T> static inline T ranks_combine(T a, T b, MPI_Op op)
{
  return op == MPI_SUM ? a + b : op == MPI_MIN ? (b < a ? b : a) : b > a ? b : a;
}

template <class T> static inline void ranks_reduce(T *out, int count, MPI_Op op)
{
  for (int i = 0; i < count; i++) {
    T all = ((T *)ranks_part(0))[i];
    for (int r = 1; r < ranks_own.ranks; r++) all = ranks_combine(all, ((T *)ranks_part(r))[i], op);
    out[i] = all;
  }
}

static inline int MPI_Allreduce(const void *in, void *out, int count, MPI_Datatype type, MPI_Op op, MPI_Comm)
{
  memcpy(ranks_part(ranks_own.rank), in == MPI_IN_PLACE ? out : in, ranks_size(count, type));
  MPI_Barrier(MPI_COMM_WORLD);
  if (type == MPI_INT) ranks_reduce((int *)out, count, op);
  else if (type == MPI_DOUBLE) ranks_reduce((double *)out, count, op);
  else ranks_reduce((int64_t *)out, count, op);
  return MPI_Barrier(MPI_COMM_WORLD);
}

#endif
