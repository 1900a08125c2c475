/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank with a GPU that is none: the driver double (tests/cuda), a context, and buffers that only the GPU reaches. */
#ifndef GPU_RANK_H
#define GPU_RANK_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "driver_load.h"
#include "ranks.h"

#define GPU_STREAMS 3
#define SLOT_BYTES 4096 /* so short that messages of a few KiB have several pieces */
#define LONG 2100 /* elements: several pieces */

struct gpu {
  struct driver cu;
  void *context;
  void *streams[GPU_STREAMS]; /* that wait for no other one */
  void *module, *spin;
  uint32_t *words; /* for a kernel that spins until words[0] is what it should be */
};

/* Loads the driver as a program would, and makes the context of GPU `device` current. 0: it is done. */
static inline int gpu_begin(struct gpu *gpu, int device)
{
  const char *wrong = driver_load(&gpu->cu, CUDA_DOUBLE);
  void *memory = NULL;
  if (wrong) fprintf(stderr, "%s\n", wrong);
  if (wrong || gpu->cu.cuInit(0) || gpu->cu.cuDevicePrimaryCtxRetain(&gpu->context, device)) return 1;
  if (gpu->cu.cuCtxSetCurrent(gpu->context)) return 1;
  for (int s = 0; s < GPU_STREAMS; s++)
    if (gpu->cu.cuStreamCreate(&gpu->streams[s], 1)) return 1;
  if (gpu->cu.cuMemHostAlloc(&memory, 4096, 3)) return 1;
  gpu->words = memory;
  memset(memory, 0, 4096);
  return 0;
}

static inline void *gpu_alloc(const struct gpu *gpu, size_t len)
{
  uint64_t pointer = 0;
  return gpu->cu.cuMemAlloc_v2(&pointer, len ? len : 1) ? NULL : (void *)(uintptr_t)pointer;
}

static inline void gpu_free(const struct gpu *gpu, void *pointer)
{
  gpu->cu.cuMemFree_v2((uintptr_t)pointer);
}

/* Copies in the order of the stream, from and to memory that lives until then. */
static inline int gpu_copy(const struct gpu *gpu, void *to, const void *from, size_t len, void *stream)
{
  return len ? gpu->cu.cuMemcpyAsync((uintptr_t)to, (uintptr_t)from, len, stream) : 0;
}

/* Parks the stream until gpu_open says `number` or a later one. */
static inline int gpu_hold(const struct gpu *gpu, void *stream, uint32_t number)
{
  return gpu->cu.cuStreamWaitValue32_v2(stream, (uintptr_t)gpu->words, number, 0);
}

static inline void gpu_open(const struct gpu *gpu, uint32_t number)
{
  __atomic_store_n(gpu->words, number, __ATOMIC_SEQ_CST);
}

static inline int gpu_wait(const struct gpu *gpu, void *stream)
{
  return gpu->cu.cuStreamSynchronize(stream);
}

static inline int32_t *pinned(const struct gpu *gpu, size_t count)
{
  void *memory = NULL;
  return gpu->cu.cuMemHostAlloc(&memory, count * sizeof(int32_t), 3) ? NULL : memory;
}

static inline int gpu_comm_make(const struct ranks *self, tuttiComm_t *comm)
{
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  return 0;
}

/* Settings of the library and of the double, before ranks are started. */
static inline void gpu_environment(const char *channels, const char *frees, const char *push)
{
  char slot[16];
  snprintf(slot, sizeof slot, "%d", SLOT_BYTES);
  setenv("TUTTI_CUDA_SLOT_BYTES", slot, 1);
  setenv("FAKE_CHANNELS", channels, 1);
  setenv("FAKE_FREE", frees, 1);
  setenv("FAKE_PUSH", push, 1);
  setenv("FAKE_DELAY_US", "5", 1);
}

/* Has the double write its report to memory: how often a thread of Tutti called the driver, and what was wrong. */
static inline int report_begin(void)
{
  char path[64];
  int fd = memfd_create("report", 0);
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  setenv("FAKE_REPORT", path, 1);
  return fd;
}

static inline long report_look(const struct gpu *gpu, int fd)
{
  char line[256], thread[64], function[64];
  long n = 0, count, breaches, refused, lines = 0;
  gpu->cu.report();
  FILE *file = fdopen(dup(fd), "r");
  if (!file) return -1;
  rewind(file);
  while (fgets(line, sizeof line, file)) {
    lines++;
    if (sscanf(line, "%*d call %63s %63s %ld", thread, function, &count) == 3 && strncmp(thread, "tutti", 5) == 0) {
      fprintf(stderr, "thread %s called %s %ld times\n", thread, function, count);
      n += count;
    }
    if (sscanf(line, "%*d sum calls %*d breaches %ld refused %ld", &breaches, &refused) == 2) n += breaches + refused;
  }
  fclose(file);
  return lines ? n : -1;
}

/* Things of that kind that are alive, by the last line of the report about it; -1: there is none. */
static inline long report_alive(const struct gpu *gpu, int fd, const char *wanted)
{
  char line[256], kind[64];
  long made, freed, alive = -1;
  gpu->cu.report();
  FILE *file = fdopen(dup(fd), "r");
  if (!file) return -1;
  rewind(file);
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "%*d thing %63s %ld %ld", kind, &made, &freed) == 3 && strcmp(kind, wanted) == 0)
      alive = made - freed;
  fclose(file);
  return alive;
}

#endif
