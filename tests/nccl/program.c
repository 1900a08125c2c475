/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs worlds of 1 to 5 processes through every operation of nccl.h, with exact results.
 *
 *   program      prints the file of the library that it found, last
 *
 * The processes are forked before anything of the library is called, as launchers do. */
#include "program.h"

#include <dlfcn.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define IDS_MAX 16
#define WORLD_SECONDS 100

/* Memory of all ranks of a world. */
struct page {
  _Atomic int ids;
  ncclUniqueId id[IDS_MAX];
};

static struct page *page;
static int ids_taken;

void want(ncclResult_t wanted, ncclResult_t got, const char *file, int line, const char *what)
{
  if (got == wanted) return;
  fprintf(stderr, "%s:%d: %s gives %d (%s), not %d: %s\n", file, line, what, (int)got, ncclGetErrorString(got),
          (int)wanted, ncclGetLastError(NULL));
  exit(1);
}

void holds(int condition, const char *file, int line, const char *what)
{
  if (condition) return;
  fprintf(stderr, "%s:%d: does not hold: %s\n", file, line, what);
  exit(1);
}

ncclUniqueId next_id(const struct world *world)
{
  int mine = ids_taken++;
  HOLDS(mine < IDS_MAX);
  if (world->rank == 0) {
    OK(ncclGetUniqueId(&page->id[mine]));
    atomic_store(&page->ids, mine + 1);
  }
  while (atomic_load(&page->ids) <= mine) usleep(500);
  return page->id[mine];
}

static int run_rank(int nranks, int rank)
{
  struct world world = {nranks, rank, NULL};
  int version = 0, count = 0, own = -1, device = -1;
  alarm(WORLD_SECONDS);
  OK(ncclGetVersion(&version));
  HOLDS(version == NCCL_VERSION_CODE);
  ncclUniqueId id = next_id(&world);
  OK(ncclCommInitRank(&world.comm, nranks, id, rank));
  OK(ncclCommCount(world.comm, &count));
  OK(ncclCommUserRank(world.comm, &own));
  OK(ncclCommCuDevice(world.comm, &device));
  HOLDS(count == nranks && own == rank && device == 0);
  try_reductions(&world);
  try_moves(&world);
  try_messages(&world);
  try_life(&world);
  OK(ncclCommFinalize(world.comm));
  OK(ncclCommDestroy(world.comm));
  return 0;
}

/* 0 if every rank ends well. */
static int run_world(int nranks)
{
  int failed = 0, status;
  memset(page, 0, sizeof *page);
  for (int rank = 0; rank < nranks; rank++) {
    pid_t child = fork();
    if (child == 0) exit(run_rank(nranks, rank));
    if (child < 0) return 1;
  }
  while (wait(&status) > 0) failed |= status != 0;
  if (failed) fprintf(stderr, "world of %d ranks failed\n", nranks);
  return failed;
}

int main(void)
{
  Dl_info library;
  int failed = 0;
  page = mmap(NULL, sizeof *page, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return 1;
  for (int nranks = 1; nranks <= RANKS_MAX && !failed; nranks++) failed = run_world(nranks);
  if (dladdr((void *)ncclGetVersion, &library)) printf("%s\n", library.dli_fname);
  return failed;
}
