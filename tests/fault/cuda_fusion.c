/* SPDX-License-Identifier: BSD-3-Clause */
/* The engine of a fusion calls no driver: ranks agree on times while a thread of one of them is inside cudaFree, waits
 * there for a stream, and keeps all others out of the driver, on one without a GPU. The stream waits for a call that
 * the other rank makes when its step is over.
 * Labels: processes. */
#include <pthread.h>

#include "../multi/gpu_rank.h"
#include "tutti.h"
#include "tutti_fusion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT 100
#define AGREE 3 /* ranks agree after this step, before it is over */

struct job {
  int report;
  int *comes, *ended; /* shared: rank 0's thread comes to its free; what rank 1 has found, and 1 more */
};

struct freer {
  const struct gpu *gpu;
  void *memory;
  pthread_t thread;
  int *comes;
};

static void *free_it(void *argument)
{
  struct freer *freer = argument;
  freer->gpu->cu.cuCtxSetCurrent(freer->gpu->context);
  __atomic_store_n(freer->comes, 1, __ATOMIC_SEQ_CST);
  gpu_free(freer->gpu, freer->memory);
  return NULL;
}

static int fusion_make(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t *fusion, float *weights)
{
  static const tuttiFusionTensor_t tensor = {"w", COUNT, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = "sgd";
  config.rate = 1;
  RANKS_CHECK(tuttiFusionCreate(fusion, comm, &tensor, 1, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(*fusion, 0, 0, weights, COUNT, 1) == tuttiSuccess);
  return 0;
}

/* Until the other rank says what it has found, or the communicator fails: no call of the driver would return. */
static int found_await(tuttiComm_t comm, const int *ended)
{
  tuttiResult_t state = tuttiSuccess;
  while (!__atomic_load_n(ended, __ATOMIC_SEQ_CST) && state == tuttiSuccess) {
    if (tuttiCommGetAsyncError(comm, &state) != tuttiSuccess) break;
    usleep(1000);
  }
  return __atomic_load_n(ended, __ATOMIC_SEQ_CST) - 1;
}

/* Its free comes behind its push. */
static int frees_amid(const struct ranks *self, struct gpu *gpu, tuttiComm_t comm, tuttiFusion_t fusion, float *values)
{
  const struct job *job = self->argument;
  struct freer freer = {.gpu = gpu, .memory = gpu_alloc(gpu, 64), .comes = job->comes};
  void *memory = gpu_alloc(gpu, LONG * sizeof(float));
  tuttiStream_t stream;
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu->streams[0]) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(memory, memory, LONG, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(pthread_create(&freer.thread, NULL, free_it, &freer) == 0);
  while (!__atomic_load_n(job->comes, __ATOMIC_SEQ_CST)) usleep(1000);
  usleep(100000); /* it is inside */
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess && values[0] == 2 * AGREE);
  int is_wrong = found_await(comm, job->ended) != 0;
  if (is_wrong) tuttiCommAbort(comm);
  RANKS_CHECK(pthread_join(freer.thread, NULL) == 0);
  RANKS_CHECK(!is_wrong && gpu_wait(gpu, gpu->streams[0]) == 0 && tuttiStreamDestroy(stream) == tuttiSuccess);
  return 0;
}

/* Its call comes when the step is over, which it sees by the state. */
static int calls_behind(const struct ranks *self, struct gpu *gpu, tuttiComm_t comm, tuttiFusion_t fusion,
                        float *values)
{
  void *memory = gpu_alloc(gpu, LONG * sizeof(float));
  float weights[COUNT];
  tuttiStream_t stream;
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess && values[0] == 2 * AGREE);
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, weights, COUNT, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu->streams[0]) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(memory, memory, LONG, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(gpu, gpu->streams[0]) == 0 && tuttiStreamDestroy(stream) == tuttiSuccess);
  return 0;
}

static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  float values[COUNT] = {0}, gradient[COUNT];
  for (int e = 0; e < COUNT; e++) gradient[e] = -1;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(fusion_make(self, comm, &fusion, values) == 0);
  for (int step = 1; step <= AGREE; step++) {
    while (self->rank == 1 && step == AGREE && !__atomic_load_n(job->comes, __ATOMIC_SEQ_CST)) usleep(1000);
    if (self->rank == 1 && step == AGREE) usleep(200000);
    RANKS_CHECK(tuttiFusionPush(fusion, 0, gradient, values, COUNT, tuttiFloat32, NULL) == tuttiSuccess);
    if (step < AGREE) RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess && values[0] == (float)(2 * step));
  }
  int wrong = self->rank == 0 ? frees_amid(self, &gpu, comm, fusion, values)
                              : calls_behind(self, &gpu, comm, fusion, values);
  if (self->rank == 1) __atomic_store_n(job->ended, 1 + wrong, __ATOMIC_SEQ_CST);
  RANKS_CHECK(!wrong && tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return report_look(&gpu, job->report) != 0;
}

static void ranks_agree_beside_a_free(void **state)
{
  (void)state;
  struct job job = {report_begin(), ranks_shared(sizeof(int)), ranks_shared(sizeof(int))};
  char limit[16];
  snprintf(limit, sizeof limit, "%d", 8000 * ranks_patience());
  *job.comes = *job.ended = 0;
  setenv("TUTTI_TIMEOUT_MS", limit, 1);
  gpu_environment("4", "lock", "1024");
  assert_int_equal(ranks_run_processes(2, body, &job, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {cmocka_unit_test(ranks_agree_beside_a_free)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
