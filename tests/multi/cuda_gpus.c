/* SPDX-License-Identifier: BSD-3-Clause */
/* Several GPUs of one process, on a driver without one: each has a progress thread of its own, communicators belong to
 * the context that was current when they were made, and calls leave the current one alone. */
#include <dirent.h>

#include "gpu_rank.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define GPUS 2

/* Threads of the process that carry out operations on streams. */
static int progress_threads(void)
{
  char path[300], name[32];
  int n = 0;
  DIR *folder = opendir("/proc/self/task");
  for (struct dirent *entry = NULL; folder && (entry = readdir(folder)) != NULL;) {
    snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
    FILE *file = fopen(path, "r");
    if (!file) continue;
    n += fgets(name, sizeof name, file) && strncmp(name, "tutti-progress", 14) == 0;
    fclose(file);
  }
  if (folder) closedir(folder);
  return n;
}

static int reduce(const struct ranks *self, struct gpu gpus[GPUS], tuttiComm_t comms[GPUS],
                  tuttiStream_t streams[GPUS], int32_t *memory[GPUS], int round)
{
  void *current = gpus[round % GPUS].context, *after = NULL;
  for (int g = 0; g < GPUS; g++) {
    RANKS_CHECK(gpus[g].cu.cuCtxSetCurrent(gpus[g].context) == 0);
    RANKS_CHECK(gpus[g].cu.cuMemsetD32Async((uintptr_t)memory[g], (unsigned)(g + round), LONG,
                                            gpus[g].streams[0]) == 0);
  }
  RANKS_CHECK(gpus[0].cu.cuCtxSetCurrent(current) == 0 && tuttiGroupStart() == tuttiSuccess);
  for (int g = 0; g < GPUS; g++)
    RANKS_CHECK(tuttiAllReduce(memory[g], memory[g], LONG, tuttiInt32, tuttiSum, comms[g], streams[g]) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  RANKS_CHECK(gpus[0].cu.cuCtxGetCurrent(&after) == 0 && after == current);
  for (int g = 0; g < GPUS; g++) {
    int32_t *host = pinned(&gpus[g], LONG);
    RANKS_CHECK(gpus[g].cu.cuCtxSetCurrent(gpus[g].context) == 0);
    RANKS_CHECK(gpu_copy(&gpus[g], host, memory[g], LONG * sizeof *host, gpus[g].streams[0]) == 0);
    RANKS_CHECK(gpu_wait(&gpus[g], gpus[g].streams[0]) == 0);
    for (int i = 0; i < LONG; i++) RANKS_CHECK(host[i] == 2 * round + 1);
    RANKS_CHECK(gpus[g].cu.cuMemFreeHost(host) == 0);
  }
  return 0;
}

static int body(const struct ranks *self)
{
  static const int devices[GPUS] = {0, 1};
  struct gpu gpus[GPUS];
  tuttiComm_t comms[GPUS], host;
  tuttiStream_t streams[GPUS], of_host;
  int32_t *memory[GPUS], one = 1, sum = 0;
  for (int g = 0; g < GPUS; g++) {
    RANKS_CHECK(gpu_begin(&gpus[g], g) == 0 && tuttiStreamFromCuda(&streams[g], gpus[g].streams[0]) == tuttiSuccess);
    RANKS_CHECK((memory[g] = gpu_alloc(&gpus[g], LONG * sizeof(int32_t))) != NULL);
  }
  RANKS_CHECK(progress_threads() == 0);
  RANKS_CHECK(tuttiCommInitAll(comms, GPUS, devices) == tuttiSuccess);
  RANKS_CHECK(progress_threads() == GPUS);
  for (int round = 0; round < 6; round++) RANKS_CHECK(reduce(self, gpus, comms, streams, memory, round) == 0);
  /* A stream of the host, and a communicator of the context that is current, GPU 1's. */
  RANKS_CHECK(gpus[1].cu.cuCtxSetCurrent(gpus[1].context) == 0 && tuttiCommInitAll(&host, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(progress_threads() == GPUS && tuttiStreamCreate(&of_host) == tuttiSuccess);
  RANKS_CHECK(progress_threads() == GPUS + 1);
  RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, host, of_host) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamSynchronize(of_host) == tuttiSuccess && sum == 1);
  RANKS_CHECK(tuttiAllReduce(memory[1], memory[1], LONG, tuttiInt32, tuttiSum, host, streams[1]) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpus[1], gpus[1].streams[0]) == 0 && tuttiCommDestroy(host) == tuttiSuccess);
  for (int g = 0; g < GPUS; g++) RANKS_CHECK(tuttiCommDestroy(comms[g]) == tuttiSuccess);
  RANKS_CHECK(progress_threads() == 1 && tuttiStreamDestroy(of_host) == tuttiSuccess);
  for (int g = 0; g < GPUS; g++) RANKS_CHECK(tuttiStreamDestroy(streams[g]) == tuttiSuccess);
  return progress_threads();
}

static void each_gpu_has_a_progress_thread(void **state)
{
  (void)state;
  gpu_environment("4", "idle", "1024");
  assert_int_equal(ranks_run_processes(1, body, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_gpu_has_a_progress_thread),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
