/* SPDX-License-Identifier: BSD-3-Clause */
#include "census.h"

#include <dirent.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif

#ifndef SANITIZED
/* Starts a program that counts once more, with a malloc that keeps no freed memory for its threads: mallinfo2 counts
 * that as allocated, and it may be 300 KB. glibc is told so by the environment only. */
__attribute__((constructor)) static void heap_choose(int argc, char **argv)
{
  (void)argc;
  if (getenv("GLIBC_TUNABLES")) return;
  setenv("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.malloc.arena_max=1", 1);
  execv("/proc/self/exe", argv);
}
#endif

/* Entries of a folder without the dots; those of /proc/self/fd without the one that reads it. */
static int entries(const char *path, const char *with)
{
  DIR *folder = opendir(path);
  int found = 0;
  for (struct dirent *entry; folder && (entry = readdir(folder));)
    found += entry->d_name[0] != '.' && (!with || strstr(entry->d_name, with));
  if (folder) closedir(folder);
  return found;
}

int census_descriptors(void)
{
  return entries("/proc/self/fd", NULL) - 1;
}

int census_threads(void)
{
  return entries("/proc/self/task", NULL);
}

static int memfds(int show)
{
  FILE *maps = fopen("/proc/self/maps", "r");
  char line[512];
  int found = 0;
  while (maps && fgets(line, sizeof line, maps)) {
    if (!strstr(line, "memfd:")) continue;
    found++;
    if (show) fprintf(stderr, "  %s", line);
  }
  if (maps) fclose(maps);
  return found;
}

void census_take(struct census *census)
{
  *census = (struct census){.descriptors = census_descriptors(),
                            .threads = census_threads(),
                            .memfds = memfds(0)};
#ifndef SANITIZED
  struct mallinfo2 heap = mallinfo2();
  census->heap = heap.uordblks + heap.hblkhd;
#endif
  FILE *statm = fopen("/proc/self/statm", "r");
  size_t pages = 0;
  if (statm && fscanf(statm, "%*u %zu", &pages) == 1) census->resident = pages * (size_t)sysconf(_SC_PAGESIZE);
  if (statm) fclose(statm);
}

static void show(const struct census *before, const struct census *after)
{
  fprintf(stderr, "pid %d: descriptors %d -> %d, threads %d -> %d, memfd mappings %d -> %d, heap %zu -> %zu bytes\n",
          (int)getpid(), before->descriptors, after->descriptors, before->threads, after->threads, before->memfds,
          after->memfds, before->heap, after->heap);
  for (int fd = 0; fd < 256; fd++) {
    char path[64], target[256];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    ssize_t len = readlink(path, target, sizeof target - 1);
    if (len > 0) fprintf(stderr, "  %d -> %.*s\n", fd, (int)len, target);
  }
  memfds(1);
}

int census_same(const struct census *before, struct census *after, size_t heap)
{
  for (int tries = 0; tries < 500; tries++) {
    census_take(after);
    if (after->descriptors <= before->descriptors && after->threads <= before->threads &&
        after->memfds <= before->memfds && after->heap <= before->heap + heap)
      return 1;
    usleep(10000);
  }
  show(before, after);
  return 0;
}

int census_dev_shm(void)
{
  return entries("/dev/shm", "tutti");
}
