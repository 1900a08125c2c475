/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls captured into CUDA graphs, on a driver without a GPU: replays between live calls, exact, in the order of the
 * stream, without a call of the driver by any thread of Tutti. */
#include "gpu_rank.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* A graph of a short and a long all-reduce and a ring of messages, replayed between live ones. */
static int graph_body(const struct ranks *self, const struct gpu *gpu, tuttiComm_t comm, tuttiStream_t stream,
                      int32_t *buffers[3])
{
  int next = (self->rank + 1) % self->nranks, before = (self->rank + self->nranks - 1) % self->nranks;
  void *on = gpu->streams[0];
  RANKS_CHECK(tuttiAllReduce(buffers[0], buffers[1], 3, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu_copy(gpu, buffers[0], buffers[1], 12, on) == 0); /* grows from turn to turn */
  RANKS_CHECK(tuttiAllReduce(buffers[0], buffers[1], LONG, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiSend(buffers[0], LONG, tuttiInt32, next, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiRecv(buffers[2], LONG, tuttiInt32, before, comm, stream) == tuttiSuccess);
  return tuttiGroupEnd() != tuttiSuccess;
}

static int graphs(const struct ranks *self)
{
  const int report = report_begin();
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  struct graph *graph;
  struct exec *exec;
  int32_t *buffers[3];
  unsigned power = 1;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  for (int b = 0; b < 3; b++) buffers[b] = gpu_alloc(&gpu, LONG * sizeof(int32_t));
  int32_t *host = pinned(&gpu, 3 * LONG);
  for (int i = 0; i < LONG; i++) host[i] = i < 3 ? 1 : self->rank;
  RANKS_CHECK(gpu_copy(&gpu, buffers[0], host, LONG * sizeof *host, gpu.streams[0]) == 0);
  RANKS_CHECK(gpu.cu.cuStreamBeginCapture_v2(gpu.streams[0], 0) == 0);
  RANKS_CHECK(graph_body(self, &gpu, comm, stream, buffers) == 0);
  RANKS_CHECK(gpu.cu.cuStreamEndCapture(gpu.streams[0], &graph) == 0);
  RANKS_CHECK(gpu.cu.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  for (int turn = 0; turn < 60; turn++) {
    if (turn % 7 == 3) RANKS_CHECK(graph_body(self, &gpu, comm, stream, buffers) == 0);
    else RANKS_CHECK(gpu.cu.cuGraphLaunch(exec, gpu.streams[0]) == 0);
    power *= (unsigned)self->nranks;
    if (turn % 20 != 19) continue;
    for (int b = 0; b < 3; b++)
      RANKS_CHECK(gpu_copy(&gpu, host + b * LONG, buffers[b], LONG * sizeof *host, gpu.streams[0]) == 0);
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
    int sum = self->nranks * (self->nranks - 1) / 2, before = (self->rank + self->nranks - 1) % self->nranks;
    for (int i = 0; i < LONG; i++) {
      RANKS_CHECK((unsigned)host[i] == (i < 3 ? power : (unsigned)self->rank));
      RANKS_CHECK((unsigned)host[LONG + i] == (i < 3 ? power * (unsigned)self->nranks : (unsigned)sum));
      RANKS_CHECK((unsigned)host[2 * LONG + i] == (i < 3 ? power : (unsigned)before));
    }
  }
  RANKS_CHECK(gpu.cu.cuGraphExecDestroy(exec) == 0 && gpu.cu.cuGraphDestroy(graph) == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess && tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(report_look(&gpu, report) == 0);
  return 0;
}

static void graphs_are_replayed(void **state)
{
  (void)state;
  gpu_environment("1", "idle", "1024");
  assert_int_equal(ranks_run_processes(2, graphs, NULL, 120), 0);
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(3, graphs, NULL, 120), 0);
}

/* A graph runs while its ranks make calls without a stream, which move the same communicator. Each rank has replays and
 * calls of its own, as those of several ranks may meet in any order. */
static int beside(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  struct graph *graph;
  struct exec *exec;
  int32_t *host, one = 1, sum = 0;
  (void)self;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *memory = gpu_alloc(&gpu, LONG * sizeof(int32_t));
  host = pinned(&gpu, LONG);
  for (int i = 0; i < LONG; i++) host[i] = i;
  RANKS_CHECK(gpu_copy(&gpu, memory, host, LONG * sizeof *host, gpu.streams[0]) == 0);
  RANKS_CHECK(gpu.cu.cuStreamBeginCapture_v2(gpu.streams[0], 0) == 0);
  for (int k = 0; k < 4; k++)
    RANKS_CHECK(tuttiAllReduce(memory, memory, LONG, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu.cu.cuStreamEndCapture(gpu.streams[0], &graph) == 0);
  RANKS_CHECK(gpu.cu.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
  for (int turn = 0; turn < 30; turn++) RANKS_CHECK(gpu.cu.cuGraphLaunch(exec, gpu.streams[0]) == 0);
  for (int turn = 0; gpu.cu.cuStreamQuery(gpu.streams[0]) == 600; turn++, sum = 0)
    RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess && sum == 1);
  RANKS_CHECK(gpu_copy(&gpu, host, memory, LONG * sizeof *host, gpu.streams[0]) == 0);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
  for (int i = 0; i < LONG; i++) RANKS_CHECK(host[i] == i);
  RANKS_CHECK(gpu.cu.cuGraphExecDestroy(exec) == 0 && gpu.cu.cuGraphDestroy(graph) == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void calls_go_beside_replays(void **state)
{
  (void)state;
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(1, beside, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(graphs_are_replayed),
      cmocka_unit_test(calls_go_beside_replays),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
