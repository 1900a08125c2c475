/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of the GPUs: pages that are mapped twice, once without access for the program. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "double.h"

static struct {
  pthread_mutex_t mutex;
  struct region *list;
  int count, room;
  unsigned long long ids;
} regions = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static int is_of_host(const struct region *region)
{
  return region->kind == IS_PINNED || region->kind == IS_REGISTERED;
}

static const char *kind_name(enum memory_kind kind)
{
  return kind == IS_REGISTERED ? "registrations" : kind == IS_PINNED ? "pinned" : "memory";
}

/* Maps the same new pages twice. */
static int pages_map(struct region *region)
{
  int fd = memfd_create("cuda_double", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)region->room) != 0) abort();
  region->at = mmap(NULL, region->room, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  region->inner = mmap(NULL, region->room, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  return region->at != MAP_FAILED && region->inner != MAP_FAILED;
}

static int region_open(struct region *region, void *host)
{
  region->room = (region->len + PAGE) / PAGE * PAGE;
  if (region->kind == IS_REGISTERED) {
    region->at = region->inner = host;
    region->room = region->len;
    return 1;
  }
  if (region->kind == IS_PINNED) region->at = region->inner = aligned_alloc(PAGE, region->room);
  else if (!pages_map(region)) return 0;
  if (region->inner) memset(region->inner, JUNK, region->room);
  return region->inner != NULL;
}

void *memory_make(struct context *context, enum memory_kind kind, size_t len, void *host)
{
  struct region region = {.kind = kind, .context = context, .len = len};
  if (len > (size_t)1 << 34 || !region_open(&region, host)) return NULL;
  pthread_mutex_lock(&regions.mutex);
  if (regions.count == regions.room) {
    regions.room = regions.room ? 2 * regions.room : 64;
    regions.list = realloc(regions.list, (size_t)regions.room * sizeof region);
    if (!regions.list) abort();
  }
  region.id = ++regions.ids;
  regions.list[regions.count++] = region;
  pthread_mutex_unlock(&regions.mutex);
  count_thing(kind_name(kind), 1, 0);
  return region.at;
}

static void region_close(struct region *region)
{
  if (region->kind != IS_REGISTERED) memset(region->inner, JUNK, region->len);
  if (region->kind == IS_PINNED) free(region->at);
  if (is_of_host(region)) return;
  munmap(region->at, region->room);
  munmap(region->inner, region->room);
}

/* The mutex is held. */
static struct region *find(const void *pointer)
{
  for (int r = regions.count - 1; r >= 0; r--) {
    struct region *region = &regions.list[r];
    if ((const char *)pointer >= region->at && (const char *)pointer < region->at + region->room) return region;
  }
  return NULL;
}

int memory_end(const void *at, int is_host)
{
  pthread_mutex_lock(&regions.mutex);
  struct region *found = find(at), region;
  int is_there = found && found->at == at && is_of_host(found) == is_host;
  if (is_there) {
    region = *found;
    *found = regions.list[--regions.count];
    region_close(&region);
  }
  pthread_mutex_unlock(&regions.mutex);
  if (is_there) count_thing(kind_name(region.kind), 0, 1);
  return is_there;
}

int memory_find(const void *pointer, struct region *region)
{
  pthread_mutex_lock(&regions.mutex);
  const struct region *found = find(pointer);
  if (found) *region = *found;
  pthread_mutex_unlock(&regions.mutex);
  return found != NULL;
}

void *reach(const void *pointer, size_t len)
{
  struct region region;
  if (!memory_find(pointer, &region)) return NULL;
  size_t offset = (size_t)((const char *)pointer - region.at);
  return offset + len <= region.len ? region.inner + offset : NULL;
}

size_t memory_registered(void)
{
  size_t bytes = 0;
  pthread_mutex_lock(&regions.mutex);
  for (int r = 0; r < regions.count; r++)
    if (regions.list[r].kind == IS_REGISTERED) bytes += regions.list[r].len;
  pthread_mutex_unlock(&regions.mutex);
  return bytes;
}

void memory_forget(void)
{
  pthread_mutex_lock(&regions.mutex);
  while (regions.count) region_close(&regions.list[--regions.count]);
  pthread_mutex_unlock(&regions.mutex);
}
