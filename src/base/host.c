/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/host.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PF_EXITING 0x4 /* include/linux/sched.h: the kernel is taking the process down */

#define HASH_START 0xcbf29ce484222325u

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t len)
{
  const unsigned char *bytes = data;
  for (size_t i = 0; i < len; i++) hash = (hash ^ bytes[i]) * 0x100000001b3u;
  return hash;
}

/* Reads a small file; returns its length, or -1. */
static ssize_t slurp(const char *path, char *buffer, size_t size)
{
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return -1;
  ssize_t n = read(fd, buffer, size - 1);
  int saved = errno;
  close(fd);
  errno = saved;
  if (n >= 0) buffer[n] = 0;
  return n;
}

static uint64_t namespace_inode(const char *path)
{
  struct stat status;
  return stat(path, &status) == 0 ? (uint64_t)status.st_ino : 0;
}

uint64_t tt_kernel_id(void)
{
  char boot[64];
  ssize_t n = slurp("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  return n > 0 ? hash_bytes(HASH_START, boot, (size_t)n) : 0;
}

uint64_t tt_host_id(const char *override)
{
  uint64_t hash = HASH_START;
  if (override && *override) return hash_bytes(hash, override, strlen(override));
  char boot[64], name[TT_HOST_NAME_BYTES];
  ssize_t n = slurp("/proc/sys/kernel/random/boot_id", boot, sizeof boot);
  if (n > 0) hash = hash_bytes(hash, boot, (size_t)n);
  tt_host_name(name);
  hash = hash_bytes(hash, name, strlen(name));
  uint64_t network = namespace_inode("/proc/self/ns/net");
  return hash_bytes(hash, &network, sizeof network);
}

void tt_host_name(char name[TT_HOST_NAME_BYTES])
{
  if (gethostname(name, TT_HOST_NAME_BYTES) != 0) strcpy(name, "unknown");
  name[TT_HOST_NAME_BYTES - 1] = 0;
}

/* The name is the text after the colon of the first line "model name". */
void tt_host_cpu(char *name, size_t size)
{
  char line[512];
  FILE *file = fopen("/proc/cpuinfo", "re");
  snprintf(name, size, "unknown");
  while (file && fgets(line, sizeof line, file)) {
    char *colon = strchr(line, ':');
    if (strncmp(line, "model name", 10) || !colon) continue;
    colon += 1 + strspn(colon + 1, " \t");
    colon[strcspn(colon, "\n")] = 0;
    snprintf(name, size, "%s", colon);
    break;
  }
  if (file) fclose(file);
  for (char *at = name; *at; at++)
    if (*at == '"' || *at == '#' || (unsigned char)*at < ' ') *at = ' ';
}

uint64_t tt_text_hash(uint64_t hash, const char *text)
{
  return hash_bytes(hash ? hash : HASH_START, text, strlen(text));
}

uint64_t tt_machine_id(void)
{
  char id[64];
  ssize_t n = slurp("/etc/machine-id", id, sizeof id);
  return n > 0 ? hash_bytes(HASH_START, id, (size_t)n) : 0;
}

/* As large as any kernel's mask, because a smaller one is refused where there are more than 1,024 processors. */
struct cores {
  cpu_set_t set[8];
};

static int cores_usable(struct cores *cores)
{
  memset(cores, 0, sizeof *cores);
  return sched_getaffinity(0, sizeof cores->set, cores->set) == 0;
}

int tt_host_cores(void)
{
  struct cores cores;
  if (cores_usable(&cores)) return CPU_COUNT_S(sizeof cores.set, cores.set);
  long online = sysconf(_SC_NPROCESSORS_ONLN);
  return online > 0 ? (int)online : 1;
}

void tt_host_core_mask(uint8_t mask[TT_CORE_MASK_BYTES])
{
  struct cores cores;
  memset(mask, 0, TT_CORE_MASK_BYTES);
  if (!cores_usable(&cores)) return;
  for (size_t core = 0; core < 8 * sizeof cores.set; core++)
    if (CPU_ISSET_S(core, sizeof cores.set, cores.set)) mask[core / 8 % TT_CORE_MASK_BYTES] |= (uint8_t)(1 << core % 8);
}

uint64_t tt_pid_namespace(void)
{
  return namespace_inode("/proc/self/ns/pid");
}

struct stat_fields {
  char state;
  unsigned flags;
  uint64_t start;
};

/* Fields 3, 9 and 22 of a stat file; the name in field 2 may hold anything. */
static int stat_read_at(const char *path, struct stat_fields *fields)
{
  char text[1024];
  if (slurp(path, text, sizeof text) <= 0) return -1;
  char *at = strrchr(text, ')');
  unsigned long long start = 0;
  if (!at || sscanf(at + 1,
                    " %c %*d %*d %*d %*d %*d %u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d %*d %*d %llu",
                    &fields->state, &fields->flags, &start) != 3) {
    errno = EINVAL;
    return -1;
  }
  fields->start = start;
  return 0;
}

static int stat_read(pid_t pid, struct stat_fields *fields)
{
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
  return stat_read_at(path, fields);
}

static int is_ending(const struct stat_fields *fields)
{
  return fields->flags & PF_EXITING || fields->state == 'Z' || fields->state == 'X';
}

/* 1 if another thread of the process lives on after the first one has ended (main may call pthread_exit). */
static int others_live(pid_t pid)
{
  char path[320];
  struct stat_fields fields;
  int live = 0;
  snprintf(path, sizeof path, "/proc/%d/task", (int)pid);
  DIR *tasks = opendir(path);
  if (!tasks) return 0;
  for (const struct dirent *task; !live && (task = readdir(tasks));) {
    snprintf(path, sizeof path, "/proc/%d/task/%s/stat", (int)pid, task->d_name);
    live = task->d_name[0] != '.' && stat_read_at(path, &fields) == 0 && !is_ending(&fields);
  }
  closedir(tasks);
  return live;
}

uint64_t tt_process_start(pid_t pid)
{
  struct stat_fields fields;
  return stat_read(pid, &fields) == 0 ? fields.start : 0;
}

enum tt_life tt_process_life(pid_t pid, uint64_t start)
{
  struct stat_fields fields;
  if (stat_read(pid, &fields) != 0) {
    if (errno != ENOENT && errno != ESRCH) return TT_LIFE_UNKNOWN;
    /* Without /proc nothing is known. */
    return access("/proc/self/stat", R_OK) == 0 ? TT_LIFE_DEAD : TT_LIFE_UNKNOWN;
  }
  if (start && fields.start != start) return TT_LIFE_DEAD;
  if (is_ending(&fields)) return others_live(pid) ? TT_LIFE_ALIVE : TT_LIFE_DEAD;
  switch (fields.state) {
  case 'T': return TT_LIFE_FROZEN;
  case 't': return TT_LIFE_TRACED;
  default: return TT_LIFE_ALIVE;
  }
}

/* While the process lives its number is nobody else's, so the descriptor, which is older than the look, is of it. */
int tt_process_end_fd(pid_t pid, uint64_t start)
{
#ifdef SYS_pidfd_open
  int fd = (int)syscall(SYS_pidfd_open, pid, 0);
#else
  int fd = -1;
#endif
  if (fd < 0 || tt_process_life(pid, start) != TT_LIFE_DEAD) return fd;
  close(fd);
  return -1;
}
