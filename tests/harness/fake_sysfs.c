/* SPDX-License-Identifier: BSD-3-Clause */
#include "fake_sysfs.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void must(int is_ok, const char *what)
{
  if (is_ok) return;
  perror(what);
  abort();
}

void fake_sysfs_write(const char *root, const char *path, const char *text)
{
  char full[512];
  int n = snprintf(full, sizeof full, "%s/sys/devices/system/%s", root, path);
  must(n > 0 && (size_t)n < sizeof full, path);
  if (!text) {
    must(unlink(full) == 0, full);
    return;
  }
  for (char *slash = full + 1; (slash = strchr(slash, '/')); slash++) {
    *slash = 0;
    must(mkdir(full, 0700) == 0 || errno == EEXIST, full);
    *slash = '/';
  }
  FILE *file = fopen(full, "w");
  must(file != NULL, full);
  fputs(text, file);
  must(fclose(file) == 0, full);
}

static uint64_t range(int first, int n)
{
  return n <= 0 ? 0 : (n >= 64 ? ~0ull : ((uint64_t)1 << n) - 1) << first;
}

/* PREFIXmask_name as the kernel's bit mask, PREFIXlist_name as its list. */
static void set_write(const char *root, const char *mask_path, const char *list_path, uint64_t set)
{
  char text[512] = "";
  size_t used = 0;
  snprintf(text, sizeof text, "%08x,%08x\n", (unsigned)(set >> 32), (unsigned)set);
  if (mask_path) fake_sysfs_write(root, mask_path, text);
  text[0] = 0;
  for (int p = 0; p < 64; p++)
    if (set >> p & 1) used += (size_t)snprintf(text + used, sizeof text - used, used ? ",%d" : "%d", p);
  snprintf(text + used, sizeof text - used, "\n");
  fake_sysfs_write(root, list_path, text);
}

static void topology_write(const char *root, int p, const char *mask_name, const char *list_name, uint64_t set)
{
  char mask[128], list[128];
  snprintf(mask, sizeof mask, "cpu/cpu%d/topology/%s", p, mask_name);
  snprintf(list, sizeof list, "cpu/cpu%d/topology/%s", p, list_name);
  set_write(root, mask, list, set);
}

struct level {
  const char *type, *size;
  int level;
  uint64_t set;
};

static void cache_write(const char *root, int p, int index, const struct level *cache)
{
  char path[128], other[128], text[32];
  snprintf(path, sizeof path, "cpu/cpu%d/cache/index%d/type", p, index);
  fake_sysfs_write(root, path, cache->type);
  snprintf(path, sizeof path, "cpu/cpu%d/cache/index%d/level", p, index);
  snprintf(text, sizeof text, "%d\n", cache->level);
  fake_sysfs_write(root, path, text);
  snprintf(path, sizeof path, "cpu/cpu%d/cache/index%d/size", p, index);
  fake_sysfs_write(root, path, cache->size);
  snprintf(path, sizeof path, "cpu/cpu%d/cache/index%d/shared_cpu_map", p, index);
  snprintf(other, sizeof other, "cpu/cpu%d/cache/index%d/shared_cpu_list", p, index);
  set_write(root, path, other, cache->set);
}

static void processor_write(const char *root, int p, const struct fake_machine *m, uint64_t online)
{
  int in_core = m->threads, in_cache = in_core * m->cores, in_socket = in_cache * m->caches * m->numas;
  uint64_t core = range(p / in_core * in_core, in_core) & online;
  uint64_t socket = range(p / in_socket * in_socket, in_socket) & online;
  char path[128], text[32];
  snprintf(path, sizeof path, "cpu/cpu%d/topology/core_id", p);
  snprintf(text, sizeof text, "%d\n", p % in_socket / in_core);
  fake_sysfs_write(root, path, text);
  snprintf(path, sizeof path, "cpu/cpu%d/topology/physical_package_id", p);
  snprintf(text, sizeof text, "%d\n", p / in_socket);
  fake_sysfs_write(root, path, text);
  topology_write(root, p, m->old_names ? "thread_siblings" : "core_cpus",
                 m->old_names ? "thread_siblings_list" : "core_cpus_list", core);
  topology_write(root, p, m->old_names ? "core_siblings" : "package_cpus",
                 m->old_names ? "core_siblings_list" : "package_cpus_list", socket);
  const struct level caches[] = {
      {"Data\n", "32K\n", 1, core},
      {"Instruction\n", "32K\n", 1, core},
      {"Unified\n", "16384K\n", 3, range(p / in_cache * in_cache, in_cache) & online},
      {"Unified\n", "1024K\n", 2, core},
  };
  for (int i = 0; i < 4; i++) cache_write(root, p, i, &caches[i]);
}

void fake_sysfs_create(char root[FAKE_ROOT_BYTES], const struct fake_machine *m)
{
  int in_numa = m->threads * m->cores * m->caches, nnumas = m->sockets * m->numas, n = nnumas * in_numa;
  uint64_t online = range(0, n) & ~m->offline;
  char path[128], other[128];
  /* Thousands of files: in memory where that can be. */
  snprintf(root, FAKE_ROOT_BYTES, "%s/tutti_sysfs_XXXXXX", access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp");
  must(mkdtemp(root) != NULL, root);
  set_write(root, NULL, "cpu/online", online);
  set_write(root, NULL, "cpu/possible", range(0, n));
  set_write(root, NULL, "cpu/present", range(0, n));
  for (int p = 0; p < n; p++) {
    snprintf(path, sizeof path, "cpu/cpu%d/online", p);
    fake_sysfs_write(root, path, online >> p & 1 ? "1\n" : "0\n");
    if (online >> p & 1) processor_write(root, p, m, online);
  }
  set_write(root, NULL, "node/online", range(0, nnumas));
  for (int node = 0; node < nnumas; node++) {
    snprintf(path, sizeof path, "node/node%d/cpumap", node);
    snprintf(other, sizeof other, "node/node%d/cpulist", node);
    set_write(root, path, other, range(node * in_numa, in_numa) & online);
  }
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *where)
{
  (void)status, (void)type, (void)where;
  return remove(path);
}

void fake_sysfs_destroy(const char *root)
{
  must(nftw(root, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0, root);
}
