/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared memory that travels as a descriptor. */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/process.h"
#include "memory/private.h"

#ifndef MFD_NOEXEC_SEAL
#define MFD_NOEXEC_SEAL 8u
#endif

static const char *remedy_of(int error)
{
  if (error == EFBIG) return ": a limit on the length of files counts here, too (see `ulimit -f`)";
  return error == ENOSPC || error == ENOMEM ? ": TUTTI_SHM_SLOTS and TUTTI_SHM_SLOT_BYTES make it smaller, the memory "
                                              "limit of the container larger"
                                            : "";
}

static tuttiResult_t memory_fail(const char *what, size_t len)
{
  int error = errno;
  return tt_fail(tuttiSystemError, "%s of %zu bytes of shared memory: %s%s", what, len, strerror(error),
                 remedy_of(error));
}

#define LOOK_BYTES (1u << 20) /* so many are allocated between two looks at what is available */

/* The number after `key` in a file of lines, or the first number if key is ""; UINT64_MAX if there is no such file or
 * number (a control group says "max"). */
static uint64_t number_in(const char *path, const char *key)
{
  char line[128];
  unsigned long long number = 0;
  uint64_t found = UINT64_MAX;
  FILE *file = fopen(path, "re");
  if (!file) return found;
  while (found == UINT64_MAX && fgets(line, sizeof line, file))
    if (strncmp(line, key, strlen(key)) == 0 && sscanf(line + strlen(key), "%llu", &number) == 1)
      found = number;
  fclose(file);
  return found;
}

static uint64_t memory_available(void)
{
  uint64_t machine = number_in("/proc/meminfo", "MemAvailable:");
  uint64_t limit = number_in("/sys/fs/cgroup/memory.max", "");
  if (machine != UINT64_MAX) machine *= 1024;
  if (limit == UINT64_MAX) return machine;
  uint64_t used = number_in("/sys/fs/cgroup/memory.current", "");
  uint64_t cold = number_in("/sys/fs/cgroup/memory.stat", "inactive_file ");
  uint64_t warm = number_in("/sys/fs/cgroup/memory.stat", "active_file ");
  if (used == UINT64_MAX || cold == UINT64_MAX || warm == UINT64_MAX) return machine;
  /* The container's page cache counts as used, but is dropped when memory is needed. */
  used = used > cold + warm ? used - cold - warm : 0;
  uint64_t container = used < limit ? limit - used : 0;
  return container < machine ? container : machine;
}

int tt_memory_fits(size_t len, uint64_t *available)
{
  uint64_t before = atomic_fetch_add_explicit(&tt_process.memory_asked, len, memory_order_relaxed);
  if (before && len < LOOK_BYTES && before / LOOK_BYTES == (before + len) / LOOK_BYTES) return 1;
  *available = memory_available();
  if (len <= *available) return 1;
  atomic_store_explicit(&tt_process.memory_asked, 0, memory_order_relaxed); /* so the next one looks */
  return 0;
}

/* Pages are mapped when they are touched. Mapping all of them here would hold the lock of the process's address space,
 * for which its other ranks wait (1,024 threads started in 40 s instead of 10). */
static tuttiResult_t map_shared(int fd, size_t len, int protection, void **map)
{
  void *made = mmap(NULL, len, protection, MAP_SHARED, fd, 0);
  if (made == MAP_FAILED) return memory_fail("mmap", len);
  /* A forked child must not keep the memory alive, and a core file must not hold all ranks' data. */
  madvise(made, len, MADV_DONTFORK);
  madvise(made, len, MADV_DONTDUMP);
  *map = made;
  return tuttiSuccess;
}

int tt_memory_descriptor(const char *name)
{
  unsigned flags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
  int made = memfd_create(name, flags | MFD_NOEXEC_SEAL);
  if (made < 0 && errno == EINVAL) made = memfd_create(name, flags); /* before Linux 6.3 */
  return made;
}

int tt_memory_allocate(int fd, size_t at, size_t len)
{
  const size_t most = (size_t)64 << 20; /* a call that a signal interrupts may undo its work */
  int error = 0;
  sigset_t before;
  tt_file_limit_begin(&before);
  for (size_t done = 0; done < len && !error;) {
    size_t n = len - done < most ? len - done : most;
    error = fallocate(fd, 0, (off_t)(at + done), (off_t)n) != 0 ? errno : 0;
    if (!error) done += n;
    else if (error == EINTR) error = 0;
  }
  errno = error;
  tt_file_limit_end(&before);
  return error;
}

tuttiResult_t tt_memory_create(const char *name, size_t len, int *fd, void **map)
{
  if (len == 0) return tt_fail(tuttiInternalError, "shared memory \"%s\" of 0 bytes", name);
  uint64_t available;
  if (!tt_memory_fits(len, &available))
    return tt_fail(tuttiSystemError,
                   "%zu bytes of shared memory do not fit into the %llu available: "
                   "TUTTI_SHM_SLOTS and TUTTI_SHM_SLOT_BYTES make it smaller",
                   len, (unsigned long long)available);
  int made = tt_memory_descriptor(name);
  if (made < 0) return memory_fail("memfd_create", len);
  void *at = NULL;
  tuttiResult_t result = tuttiSuccess;
  errno = tt_memory_allocate(made, 0, len);
  if (errno) result = memory_fail("fallocate", len);
  else if (fcntl(made, F_ADD_SEALS, TT_MEMORY_SEALS) != 0) result = memory_fail("sealing", len);
  else result = map_shared(made, len, PROT_READ | PROT_WRITE, &at);
  if (result != tuttiSuccess) {
    close(made);
    return result;
  }
  *fd = made;
  *map = at;
  return tuttiSuccess;
}

static tuttiResult_t map_received(int fd, size_t len, int protection, void **map)
{
  struct stat status;
  int seals = fcntl(fd, F_GET_SEALS);
  if (fstat(fd, &status) != 0) return memory_fail("fstat", len);
  if (!S_ISREG(status.st_mode) || len == 0 || (uint64_t)status.st_size != len)
    return tt_fail(tuttiRemoteError, "shared memory of %lld bytes came where %zu bytes were due",
                   (long long)status.st_size, len);
  if (seals < 0 || (seals & TT_MEMORY_SEALS) != TT_MEMORY_SEALS)
    return tt_fail(tuttiRemoteError, "shared memory came without its seals (%#x, due %#x)", seals,
                   TT_MEMORY_SEALS);
  return map_shared(fd, len, protection, map);
}

tuttiResult_t tt_memory_map(int fd, size_t len, void **map)
{
  return map_received(fd, len, PROT_READ | PROT_WRITE, map);
}

tuttiResult_t tt_memory_view(int fd, size_t len, const void **view)
{
  void *map = NULL;
  tuttiResult_t result = map_received(fd, len, PROT_READ, &map);
  if (result == tuttiSuccess) *view = map;
  return result;
}
