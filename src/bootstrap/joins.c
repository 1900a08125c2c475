/* SPDX-License-Identifier: BSD-3-Clause */
/* Joins: the ids at which processes that `tutti run` has started again meet the ranks that are at work.
 *
 * The launcher makes them all before it starts anything, and their roots are in its process. They lie in memory that
 * all processes of the job inherit, in the order in which processes are started again: the k-th such process waits at
 * the k-th join until the ranks at work have come to it, which say there how many they will be with it. */
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bootstrap/bootstrap.h"

#define MAGIC 0x6e696f6au /* "join" */
#define SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)
#define FD_MOST (1 << 20)
#define PAUSE_NS 1000000

struct join {
  tuttiUniqueId id;
  _Atomic int32_t nranks; /* of the communicator that is made here; 0: nobody has come */
};

struct joins {
  uint32_t magic;
  int32_t n;
  _Atomic int32_t ended; /* 1: no rank is left that could come to a join */
  struct join joins[];
};

/* The mapped memory, and how many it had then: all processes of the job may write there. */
struct mapping {
  struct joins *joins;
  int n;
};

static size_t bytes_of(int n)
{
  return sizeof(struct joins) + (size_t)n * sizeof(struct join);
}

static tuttiResult_t fill(int fd, const tuttiUniqueId *ids, int n)
{
  struct joins *joins = MAP_FAILED;
  size_t bytes = bytes_of(n);
  if (ftruncate(fd, (off_t)bytes) == 0) joins = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (joins == MAP_FAILED || fcntl(fd, F_ADD_SEALS, SEALS) != 0)
    return tt_fail(tuttiSystemError, "no memory for %d restarts: %s", n, strerror(errno));
  joins->magic = MAGIC;
  joins->n = n;
  for (int k = 0; k < n; k++) joins->joins[k].id = ids[k];
  munmap(joins, bytes);
  return tuttiSuccess;
}

tuttiResult_t tt_joins_make(const tuttiUniqueId *ids, int n, int *fd)
{
  int made = memfd_create("tutti-joins", MFD_ALLOW_SEALING);
  if (made < 0) return tt_fail(tuttiSystemError, "no descriptor for restarts: memfd_create: %s", strerror(errno));
  tuttiResult_t result = fill(made, ids, n);
  if (result == tuttiSuccess) *fd = made;
  else close(made);
  return result;
}

/* A number from 0 on that `tutti run --restart` has put into the environment; -1: it has not. */
static int number_of(const char *name)
{
  const char *text = tt_env(name);
  char *end;
  long number = text ? strtol(text, &end, 10) : -1;
  return text && end != text && !*end && number >= 0 && number <= FD_MOST ? (int)number : -1;
}

static tuttiResult_t map(int fd, struct mapping *mapping)
{
  struct stat status;
  int seals = fcntl(fd, F_GET_SEALS);
  struct joins *memory = MAP_FAILED;
  if (seals >= 0 && (seals & SEALS) == SEALS && fstat(fd, &status) == 0 && status.st_size >= (off_t)bytes_of(0))
    memory = mmap(NULL, (size_t)status.st_size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED)
    return tt_fail(tuttiInvalidUsage, "TUTTI_LAUNCH_JOINS is %d, which is no descriptor of `tutti run`: something "
                   "between that and this program closes inherited descriptors", fd);
  *mapping = (struct mapping){memory, __atomic_load_n(&memory->n, __ATOMIC_RELAXED)};
  if (memory->magic == MAGIC && mapping->n >= 0 && bytes_of(mapping->n) == (size_t)status.st_size) return tuttiSuccess;
  munmap(memory, (size_t)status.st_size);
  return tt_fail(tuttiInvalidUsage, "TUTTI_LAUNCH_JOINS is %d, which another version of Tutti has made: install the "
                 "`tutti` command and libtutti.so of one version", fd);
}

static tuttiResult_t map_inherited(struct mapping *mapping)
{
  int fd = number_of("TUTTI_LAUNCH_JOINS");
  if (fd < 0)
    return tt_fail(tuttiInvalidUsage, "this process was not started by `tutti run --restart N`: start the job so, or "
                   "hand an id of tuttiCommGetUniqueId to new processes, and call tuttiCommGrow");
  tuttiResult_t result = map(fd, mapping);
  if (result == tuttiSuccess) fcntl(fd, F_SETFD, FD_CLOEXEC); /* it holds keys */
  return result;
}

static void unmap(const struct mapping *mapping)
{
  munmap(mapping->joins, bytes_of(mapping->n));
}

tuttiResult_t tt_joins_running(int fd, const int *restarts, int n, int *can_join)
{
  struct mapping all;
  tuttiResult_t result = map(fd, &all);
  if (result != tuttiSuccess) return result;
  *can_join = 0;
  for (int k = 0; k < n; k++) {
    int number = restarts[k];
    *can_join |= number < 1 || (number <= all.n && atomic_load(&all.joins->joins[number - 1].nranks));
  }
  if (!*can_join) atomic_store(&all.joins->ended, 1);
  unmap(&all);
  return tuttiSuccess;
}

tuttiResult_t tt_join_take(int nranks, tuttiUniqueId *id, int *has)
{
  struct mapping all;
  tuttiResult_t result = map_inherited(&all);
  if (result != tuttiSuccess) return result;
  *has = 0;
  for (int k = 0; k < all.n && !*has; k++) {
    struct join *join = &all.joins->joins[k];
    int32_t none = 0;
    *has = atomic_compare_exchange_strong(&join->nranks, &none, nranks);
    if (*has) *id = join->id;
  }
  unmap(&all);
  return tuttiSuccess;
}

tuttiResult_t tt_join_await(int limit_ms, tuttiUniqueId *id, int *nranks)
{
  struct mapping all;
  int number = number_of("TUTTI_LAUNCH_RESTART");
  if (number < 1)
    return tt_fail(tuttiInvalidUsage, "comm is NULL, but `tutti run --restart N` has not started this process in place "
                   "of another one: give the communicator that is to grow");
  tuttiResult_t result = map_inherited(&all);
  if (result != tuttiSuccess) return result;
  if (number > all.n)
    result = tt_fail(tuttiInvalidUsage, "TUTTI_LAUNCH_RESTART is %d, but the job has %d restarts", number, all.n);
  uint64_t until_ns = tt_now_ns() + (uint64_t)limit_ms * 1000000u;
  while (result == tuttiSuccess && !(*nranks = atomic_load(&all.joins->joins[number - 1].nranks))) {
    if (atomic_load(&all.joins->ended))
      result = tt_fail(tuttiRemoteError, "restart %d has nobody to join: all ranks that were at work have ended",
                       number);
    else if (tt_now_ns() < until_ns) nanosleep(&(struct timespec){0, PAUSE_NS}, NULL);
    else
      result = tt_fail(tuttiRemoteError, "no rank of this job has called tuttiLaunchGrow within %.1f s for restart %d: "
                       "TUTTI_INIT_TIMEOUT_MS sets the limit", limit_ms / 1e3, number);
  }
  if (result == tuttiSuccess && *nranks < 2)
    result = tt_fail(tuttiRemoteError, "restart %d is to join a communicator of %d ranks, which cannot be: a process "
                     "of this job has damaged the memory of its restarts", number, *nranks);
  if (result == tuttiSuccess) *id = all.joins->joins[number - 1].id;
  unmap(&all);
  return result;
}
