/* SPDX-License-Identifier: BSD-3-Clause */
/* The machine: its caches, and the sizes of working sets that stay in them. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "kernels.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

const char *const level_names[LEVELS] = {"L1", "L2", "L3", "memory"};

/* Sizes that are assumed where the machine does not tell. */
static const size_t assumed[LEVELS] = {[L1] = 32 * KIB, [L2] = 1 * MIB, [L3] = 32 * MIB};

double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

/* One word of /sys/devices/system/cpu/cpuCPU/cache/indexINDEX/NAME; "" if it is not there. */
static void cache_read(char word[32], int cpu, int index, const char *name)
{
  char path[128];
  word[0] = '\0';
  snprintf(path, sizeof path, "/sys/devices/system/cpu/cpu%d/cache/index%d/%s", cpu, index, name);
  FILE *file = fopen(path, "r");
  if (!file) return;
  if (fscanf(file, "%31s", word) != 1) word[0] = '\0';
  fclose(file);
}

static size_t size_of(const char *word)
{
  char *end;
  size_t size = strtoull(word, &end, 10);
  return *end == 'K' ? size * KIB : *end == 'M' ? size * MIB : size;
}

/* 0: nothing is known of any cache. */
static int caches_read(struct machine *machine, int cpu)
{
  char word[32];
  int found = 0;
  for (int index = 0; index < 8; index++) {
    cache_read(word, cpu, index, "type");
    if (!word[0] || !strcmp(word, "Instruction")) continue;
    cache_read(word, cpu, index, "level");
    int level = atoi(word) - 1;
    if (level < L1 || level > L3) continue;
    cache_read(word, cpu, index, "size");
    machine->levels[level].cache_bytes = size_of(word);
    found |= machine->levels[level].cache_bytes > 0;
  }
  return found;
}

/* Half of L1 and of L2, so that nothing else has to leave; a quarter of L3, which is shared; four times L3, of which
 * nothing that is needed again is left there. A level that is not well above the one below is none. */
static void sets_choose(struct machine *machine, int quick)
{
  struct level *levels = machine->levels;
  size_t largest = 0, most = quick ? 256 * MIB : 1024 * MIB, least = 64 * MIB;
  size_t ram = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
  if (most > ram / 8) most = ram / 8;
  for (int level = L1; level <= L3; level++) {
    size_t set = levels[level].cache_bytes / (level == L3 ? 4 : 2);
    if (set >= 2 * largest) levels[level].set_bytes = set;
    if (levels[level].cache_bytes > largest) largest = levels[level].cache_bytes;
  }
  size_t set = largest * 4;
  if (set < least) set = least;
  levels[MEMORY].set_bytes = set > most ? most : set;
}

static void model_read(struct machine *machine)
{
  char line[256];
  FILE *file = fopen("/proc/cpuinfo", "r");
  snprintf(machine->model, sizeof machine->model, "unknown processor");
  while (file && fgets(line, sizeof line, file))
    if (sscanf(line, "model name : %95[^\n]", machine->model) == 1) break;
  if (file) fclose(file);
}

static int pin(void)
{
  cpu_set_t one;
  int cpu = sched_getcpu();
  if (cpu < 0 || cpu >= CPU_SETSIZE) return -1;
  CPU_ZERO(&one);
  CPU_SET((size_t)cpu, &one);
  return sched_setaffinity(0, sizeof one, &one) ? -1 : cpu;
}

void machine_read(struct machine *machine, int quick)
{
  memset(machine, 0, sizeof *machine);
  model_read(machine);
  if (getloadavg(&machine->load, 1) != 1) machine->load = -1;
  machine->cpu = pin();
  if (!caches_read(machine, machine->cpu < 0 ? 0 : machine->cpu))
    for (int level = L1; level <= L3; level++)
      machine->levels[level] = (struct level){.cache_bytes = assumed[level], .is_assumed = 1};
  sets_choose(machine, quick);
}
