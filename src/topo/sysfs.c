/* SPDX-License-Identifier: BSD-3-Clause */
/* The hardware as the kernel shows it: Documentation/ABI/stable/sysfs-devices-system-cpu and -node. Files are read once
 * for each core, socket and cache, not for each processor, because they list all processors that share it. */
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "topo/machine_private.h"

#define FILE_BYTES 65536 /* longer than a list of every other processor */
#define CACHE_INDEXES 10

struct reader {
  const char *root;
  char path[512];
  char text[FILE_BYTES];
  struct tt_processors online;
  struct tt_machine *machine;
};

/* Reads ROOT/devices/system/PATH into r->text without its last newline. 0: there is no such file, or it is too long. */
__attribute__((format(printf, 2, 3))) static int file_read(struct reader *r, const char *format, ...)
{
  char path[256];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(path, sizeof path, format, arguments);
  va_end(arguments);
  int n = snprintf(r->path, sizeof r->path, "%s/devices/system/%s", r->root, path);
  if (n < 0 || (size_t)n >= sizeof r->path) return 0;
  int fd = open(r->path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  size_t used = 0;
  ssize_t got = 1;
  for (; got > 0 && used < FILE_BYTES; used += got > 0 ? (size_t)got : 0)
    got = read(fd, r->text + used, FILE_BYTES - used);
  close(fd);
  if (got != 0) return 0;
  if (used && r->text[used - 1] == '\n') used--;
  r->text[used] = 0;
  return 1;
}

/* Reads "0-3,8" as a set; 0: the text is no such list. */
static int list_parse(const char *text, struct tt_processors *set)
{
  memset(set, 0, sizeof *set);
  while (*text) {
    char *end;
    if (*text < '0' || *text > '9') return 0;
    unsigned long first = strtoul(text, &end, 10), last = first;
    if (*end == '-') {
      text = end + 1;
      if (*text < '0' || *text > '9') return 0;
      last = strtoul(text, &end, 10);
    }
    if (*end == ',') end++;
    else if (*end) return 0;
    for (unsigned long p = first; p <= last && p < TT_MAX_PROCESSORS; p++) set->bits[p / 64] |= (uint64_t)1 << p % 64;
    text = end;
  }
  return 1;
}

/* The field of row p at `offset`. */
static int32_t *part(struct reader *r, int32_t p, size_t offset)
{
  return (int32_t *)((char *)&r->machine->processor[p] + offset);
}

/* r->text is a list of processors that share something. Names it by the lowest that is online, in the rows of those
 * that are online and have no name of it yet. */
static void shared_note(struct reader *r, size_t offset)
{
  struct tt_processors set;
  int32_t lowest = -1;
  if (!list_parse(r->text, &set)) return;
  for (int32_t p = 0; p < r->machine->nprocessors; p++) {
    if (!tt_processor_is_in(&set, p) || !r->machine->processor[p].is_online) continue;
    if (lowest < 0) lowest = p;
    if (*part(r, p, offset) < 0) *part(r, p, offset) = lowest;
  }
}

/* The files have changed their names; the first name of each is the one since Linux 5.3. */
static void core_and_socket_read(struct reader *r, int32_t p)
{
  struct tt_processor *row = &r->machine->processor[p];
  if (row->core < 0 && (file_read(r, "cpu/cpu%d/topology/core_cpus_list", (int)p) ||
                        file_read(r, "cpu/cpu%d/topology/thread_siblings_list", (int)p)))
    shared_note(r, offsetof(struct tt_processor, core));
  if (row->core < 0) row->core = p;
  if (row->socket < 0 && (file_read(r, "cpu/cpu%d/topology/package_cpus_list", (int)p) ||
                          file_read(r, "cpu/cpu%d/topology/core_siblings_list", (int)p)))
    shared_note(r, offsetof(struct tt_processor, socket));
}

/* The last-level cache is the one of the highest level that holds data. */
static void cache_read(struct reader *r, int32_t p)
{
  long highest = 0;
  int last = -1;
  if (r->machine->processor[p].cache >= 0) return;
  for (int index = 0; index < CACHE_INDEXES; index++) {
    if (!file_read(r, "cpu/cpu%d/cache/index%d/type", (int)p, index) || strcmp(r->text, "Instruction") == 0) continue;
    if (!file_read(r, "cpu/cpu%d/cache/index%d/level", (int)p, index)) continue;
    long level = strtol(r->text, NULL, 10);
    if (level <= highest) continue;
    highest = level;
    last = index;
  }
  if (last >= 0 && file_read(r, "cpu/cpu%d/cache/index%d/shared_cpu_list", (int)p, last))
    shared_note(r, offsetof(struct tt_processor, cache));
}

/* A processor near several NUMA nodes belongs to the first. A kernel without NUMA has one node and does not show it. */
static void numa_read(struct reader *r)
{
  struct tt_processors nodes, set;
  int has_nodes = file_read(r, "node/online") && list_parse(r->text, &nodes);
  for (int32_t node = 0; has_nodes && node < TT_MAX_PROCESSORS; node++) {
    if (!tt_processor_is_in(&nodes, node) || !file_read(r, "node/node%d/cpulist", (int)node) ||
        !list_parse(r->text, &set))
      continue;
    for (int32_t p = 0; p < r->machine->nprocessors; p++)
      if (tt_processor_is_in(&set, p) && r->machine->processor[p].numa < 0) r->machine->processor[p].numa = node;
  }
  for (int32_t p = 0; p < r->machine->nprocessors; p++)
    if (!r->machine->processor[p].is_online) r->machine->processor[p].numa = -1;
    else if (!has_nodes) r->machine->processor[p].numa = 0;
}

/* 1 + the highest processor that is online; 0: the file does not say. */
static int32_t online_read(struct reader *r)
{
  int32_t n = TT_MAX_PROCESSORS;
  if (!file_read(r, "cpu/online") || !list_parse(r->text, &r->online)) return 0;
  while (n > 0 && !tt_processor_is_in(&r->online, n - 1)) n--;
  return n;
}

static int machine_read(struct reader *r, int32_t n)
{
  r->machine = tt_machine_create("sysfs", n);
  if (!r->machine) return 0;
  for (int32_t p = 0; p < n; p++) r->machine->processor[p].is_online = tt_processor_is_in(&r->online, p);
  for (int32_t p = 0; p < n; p++) {
    if (!r->machine->processor[p].is_online) continue;
    core_and_socket_read(r, p);
    cache_read(r, p);
  }
  numa_read(r);
  return 1;
}

tuttiResult_t tt_machine_sysfs(struct tt_machine **machine, const char *root, char why[TT_WHY_BYTES])
{
  struct reader *r = tt_alloc(1, sizeof *r);
  if (!r) return tt_fail(tuttiSystemError, "no memory to read sysfs: give the process more");
  r->root = root;
  int32_t n = online_read(r);
  int is_whole = n == 0 || machine_read(r, n);
  if (n == 0) snprintf(why, TT_WHY_BYTES, "%s/devices/system/cpu/online is not a list of processors", root);
  if (is_whole) *machine = r->machine;
  tt_free(r);
  if (!is_whole) return tt_fail(tuttiSystemError, "no memory to describe this machine: give the process more");
  return tuttiSuccess;
}
