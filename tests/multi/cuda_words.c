/* SPDX-License-Identifier: BSD-3-Clause */
/* A call on a CUDA stream, on a driver without a GPU, enqueues copies, words of pinned
 * memory and the order of streams, and nothing by which a GPU calls the host or the host waits for a GPU. */
#include "gpu_rank.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define FUNCTIONS 64

struct counts {
  int n;
  struct {
    char name[48];
    long count;
  } of[FUNCTIONS];
};

static long *count_of(struct counts *counts, const char *name)
{
  int k = 0;
  while (k < counts->n && strcmp(counts->of[k].name, name) != 0) k++;
  if (k == FUNCTIONS) abort();
  if (k == counts->n) snprintf(counts->of[counts->n++].name, sizeof counts->of[k].name, "%s", name);
  return &counts->of[k].count;
}

/* Calls of each function until now, by all threads. */
static int counts_take(const struct ranks *self, const struct gpu *gpu, int report, struct counts *counts)
{
  char line[256], name[48];
  long count;
  *counts = (struct counts){.n = 0};
  RANKS_CHECK(ftruncate(report, 0) == 0);
  gpu->cu.report();
  FILE *file = fdopen(dup(report), "r");
  RANKS_CHECK(file != NULL);
  rewind(file);
  while (fgets(line, sizeof line, file))
    if (sscanf(line, "%*d call %*s %47s %ld", name, &count) == 2) *count_of(counts, name) += count;
  fclose(file);
  return counts->n == 0;
}

/* By these a GPU and the host do not meet but in the words of cuStreamBatchMemOp. */
static int is_allowed(const char *name)
{
  static const char *const names[] = {"cuCtxPushCurrent", "cuCtxPopCurrent", "cuPointerGetAttributes",
                                      "cuStreamGetCaptureInfo", "cuMemcpyAsync", "cuMemcpy2DAsync",
                                      "cuStreamBatchMemOp", "cuStreamWaitEvent", "cuEventRecord"};
  for (size_t k = 0; k < sizeof names / sizeof *names; k++)
    if (strcmp(name, names[k]) == 0) return 1;
  return 0;
}

static int difference_check(const struct ranks *self, struct counts *before, const struct counts *after)
{
  long words = 0;
  for (int k = 0; k < after->n; k++) {
    const char *name = after->of[k].name;
    long calls = after->of[k].count - *count_of(before, name);
    if (strcmp(name, "cuStreamBatchMemOp") == 0) words = calls;
    if (!calls || is_allowed(name)) continue;
    fprintf(stderr, "%s was called %ld times\n", name, calls);
    return 1;
  }
  RANKS_CHECK(words > 0);
  return 0;
}

enum what { SHORT, IN_PIECES, OF_SHARES, MESSAGES, TWO_STREAMS, WHATS };

static tuttiResult_t call(const struct ranks *self, enum what what, int32_t *memory[2], tuttiComm_t comm,
                          const tuttiStream_t *streams)
{
  int peer = 1 - self->rank;
  switch (what) {
  case SHORT: return tuttiAllReduce(memory[0], memory[1], 3, tuttiInt32, tuttiSum, comm, streams[0]);
  case IN_PIECES: return tuttiAllReduce(memory[0], memory[1], LONG, tuttiInt32, tuttiSum, comm, streams[0]);
  case OF_SHARES: return tuttiAlltoAll(memory[0], memory[1], LONG / 2, tuttiInt32, comm, streams[0]);
  default: break;
  }
  tuttiGroupStart();
  tuttiSend(memory[0], LONG, tuttiInt32, peer, comm, streams[0]);
  tuttiRecv(memory[1], LONG, tuttiInt32, peer, comm, streams[what == TWO_STREAMS]);
  return tuttiGroupEnd();
}

static int body(const struct ranks *self)
{
  const int report = report_begin();
  struct gpu gpu;
  struct counts before, after;
  struct graph *graph;
  struct exec *exec;
  tuttiComm_t comm;
  tuttiStream_t streams[2];
  int32_t *memory[2];
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamFromCuda(&streams[s], gpu.streams[s]) == tuttiSuccess);
  for (int b = 0; b < 2; b++) RANKS_CHECK((memory[b] = gpu_alloc(&gpu, LONG * sizeof(int32_t))) != NULL);
  for (int k = 0; k < 2 * WHATS; k++) {
    enum what what = (enum what)(k % WHATS);
    int is_captured = k >= WHATS && what != TWO_STREAMS; /* the other stream would have to join the capture */
    if (is_captured) RANKS_CHECK(gpu.cu.cuStreamBeginCapture_v2(gpu.streams[0], 0) == 0);
    RANKS_CHECK(counts_take(self, &gpu, report, &before) == 0);
    RANKS_CHECK(call(self, what, memory, comm, streams) == tuttiSuccess);
    RANKS_CHECK(counts_take(self, &gpu, report, &after) == 0);
    RANKS_CHECK(difference_check(self, &before, &after) == 0);
    if (is_captured) {
      RANKS_CHECK(gpu.cu.cuStreamEndCapture(gpu.streams[0], &graph) == 0);
      RANKS_CHECK(gpu.cu.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0);
      RANKS_CHECK(gpu.cu.cuGraphLaunch(exec, gpu.streams[0]) == 0);
    }
    for (int s = 0; s < 2; s++) RANKS_CHECK(gpu_wait(&gpu, gpu.streams[s]) == 0);
    if (is_captured) RANKS_CHECK(gpu.cu.cuGraphExecDestroy(exec) == 0 && gpu.cu.cuGraphDestroy(graph) == 0);
  }
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(report_look(&gpu, report) == 0); /* no words but pinned ones, and no thread of Tutti's */
  return 0;
}

static void gpus_and_hosts_meet_in_pinned_words_alone(void **state)
{
  (void)state;
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(2, body, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(gpus_and_hosts_meet_in_pinned_words_alone),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
