/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures while CUDA streams wait, on a driver without a GPU: a rank that dies is reported, the streams of the others
 * stay parked, and abort, destroy or revoke releases them without a call of the driver that waits.
 * Labels: processes. */
#include <signal.h>
#include <sys/mman.h>

#include "../multi/gpu_rank.h"
#include "slow.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define REPLAYS 3 /* of a graph of two operations, that wait for a rank that is dead */

enum end { BY_ABORT, BY_DESTROY, BY_REVOKE, ENDS };

struct job {
  enum end end;
  int has_graph; /* 1: the operations that wait are those of a graph */
  int *is_parked; /* shared: ranks whose stream waits */
};

#define COUNT 3000 /* elements: several pieces */

static int end(const struct job *job, tuttiComm_t comm)
{
  if (job->end == BY_ABORT) return tuttiCommAbort(comm) != tuttiSuccess;
  if (job->end == BY_DESTROY) return tuttiCommDestroy(comm) != tuttiRemoteError;
  return tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT) != tuttiSuccess;
}

struct captured { /* NULL: nothing was */
  struct graph *graph;
  struct exec *exec;
};

/* Enqueues operations that rank 0 does not join. */
static int wait_in_vain(const struct ranks *self, const struct gpu *gpu, void *memory, tuttiComm_t comm,
                        tuttiStream_t stream, struct captured *captured)
{
  int has_graph = ((const struct job *)self->argument)->has_graph;
  if (has_graph) RANKS_CHECK(gpu->cu.cuStreamBeginCapture_v2(gpu->streams[0], 0) == 0);
  for (int k = 0; k < 2; k++)
    RANKS_CHECK(tuttiAllReduce(memory, memory, COUNT, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  if (!has_graph) return 0;
  RANKS_CHECK(gpu->cu.cuStreamEndCapture(gpu->streams[0], &captured->graph) == 0);
  RANKS_CHECK(gpu->cu.cuGraphInstantiateWithFlags(&captured->exec, captured->graph, 0) == 0);
  for (int k = 0; k < REPLAYS; k++) RANKS_CHECK(gpu->cu.cuGraphLaunch(captured->exec, gpu->streams[0]) == 0);
  return 0;
}

/* Rank 0 dies while all others wait for it. */
static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  struct captured captured = {0};
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  tuttiResult_t state = tuttiSuccess;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *memory = gpu_alloc(&gpu, COUNT * sizeof(float));
  RANKS_CHECK(tuttiAllReduce(memory, memory, COUNT, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  if (self->rank) RANKS_CHECK(wait_in_vain(self, &gpu, memory, comm, stream, &captured) == 0);
  if (self->rank == 0) {
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
    while (__atomic_load_n(job->is_parked, __ATOMIC_SEQ_CST) < self->nranks - 1) usleep(1000);
    raise(SIGKILL);
  }
  __atomic_add_fetch(job->is_parked, 1, __ATOMIC_SEQ_CST);
  while (state == tuttiSuccess) {
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
    usleep(1000);
  }
  RANKS_CHECK(state == tuttiRemoteError && comm_says(comm, "rank 0"));
  usleep(20000);
  RANKS_CHECK(gpu.cu.cuStreamQuery(gpu.streams[0]) == 600);
  RANKS_CHECK(tuttiAllReduce(memory, memory, 1, tuttiFloat, tuttiSum, comm, stream) == tuttiRemoteError);
  RANKS_CHECK(end(job, comm) == 0);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
  if (job->end == BY_REVOKE) RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  if (captured.exec) RANKS_CHECK(gpu.cu.cuGraphExecDestroy(captured.exec) == 0);
  if (captured.graph) RANKS_CHECK(gpu.cu.cuGraphDestroy(captured.graph) == 0);
  /* The context is as good as before. */
  RANKS_CHECK(tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(memory, memory, COUNT, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0 && tuttiCommDestroy(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void release(enum end how, int has_graph)
{
  struct job job = {how, has_graph, ranks_shared(sizeof(int))};
  int pids[3];
  *job.is_parked = 0;
  setenv("TUTTI_CUDA_SLOT_BYTES", "4096", 1);
  ranks_start(3, body, &job, pids);
  assert_int_equal(ranks_wait(pids[0], 60), 128 + SIGKILL);
  assert_int_equal(ranks_wait(pids[1], 60), 0);
  assert_int_equal(ranks_wait(pids[2], 60), 0);
}

static void abort_releases(void **state)
{
  (void)state;
  release(BY_ABORT, 0);
  release(BY_ABORT, 1);
}

static void destroy_releases(void **state)
{
  (void)state;
  release(BY_DESTROY, 0);
  release(BY_DESTROY, 1);
}

static void revoke_releases(void **state)
{
  (void)state;
  release(BY_REVOKE, 0);
  release(BY_REVOKE, 1);
}

/* Refusals come in a sentence, and the communicator stays usable. */
static int refusals(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm, plain;
  tuttiStream_t stream;
  int32_t one = 1, sum = 0;
  RANKS_CHECK(tuttiCommInitAll(&plain, 1, NULL) == tuttiSuccess); /* without a context */
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, plain, stream) == tuttiInvalidUsage);
  RANKS_CHECK(says("no CUDA context"));
  RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiInvalidUsage && says("CUDA's functions"));
  RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0 && sum == 1);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess && tuttiCommDestroy(plain) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void refusals_name_the_reason(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, refusals, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(abort_releases),
      cmocka_unit_test(destroy_releases),
      cmocka_unit_test(revoke_releases),
      cmocka_unit_test(refusals_name_the_reason),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
