/* SPDX-License-Identifier: BSD-3-Clause */
/* Failures while CUDA streams wait, on a driver without a GPU: a rank that dies is reported, the streams of the others
 * stay parked, and abort, destroy or revoke releases them without a call of the driver that waits.
 * Labels: processes. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
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

/* A driver whose streams have no memory operations, or lose what these write: said at the first call on a stream. */
static int words_lost(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  int32_t one = 1, sum = 0;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, stream) == tuttiUnhandledCudaError);
  RANKS_CHECK(says("memory operations of streams do not work with GPU 0") && says(self->argument));
  RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, NULL) == tuttiSuccess && sum == 1);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void lost_words_are_told(void **state)
{
  (void)state;
  setenv("FAKE_MEMOPS", "0", 1);
  assert_int_equal(ranks_run_processes(1, words_lost, (void *)(uintptr_t)"not supported", 60), 0);
  setenv("FAKE_MEMOPS", "2", 1);
  assert_int_equal(ranks_run_processes(1, words_lost, (void *)(uintptr_t)"not seen by the host", 60), 0);
  unsetenv("FAKE_MEMOPS");
}

/* A captured and a live stream in one group; the communicator stays usable. */
static int group_mixed(const struct ranks *self)
{
  struct gpu gpu;
  struct graph *graph;
  tuttiComm_t comm;
  tuttiStream_t streams[2];
  int32_t one = 1, sum = 0;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamFromCuda(&streams[s], gpu.streams[s]) == tuttiSuccess);
  for (int are_messages = 0; are_messages < 2; are_messages++) {
    RANKS_CHECK(gpu.cu.cuStreamBeginCapture_v2(gpu.streams[0], 0) == 0);
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int s = 0; s < 2; s++)
      if (!are_messages)
        RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, streams[s]) == tuttiSuccess);
      else if (s) RANKS_CHECK(tuttiSend(&one, 1, tuttiInt32, 0, comm, streams[s]) == tuttiSuccess);
      else RANKS_CHECK(tuttiRecv(&sum, 1, tuttiInt32, 0, comm, streams[s]) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage && says("not captured into one CUDA graph"));
    RANKS_CHECK(gpu.cu.cuStreamEndCapture(gpu.streams[0], &graph) == 0 && gpu.cu.cuGraphDestroy(graph) == 0);
  }
  RANKS_CHECK(tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, streams[1]) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[1]) == 0 && sum == 1 && tuttiCommDestroy(comm) == tuttiSuccess);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  (void)self;
  return 0;
}

static void mixed_groups_are_refused(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, group_mixed, NULL, 60), 0);
}

static _Atomic int *sums; /* so many ranks have the first one */

/* Rank 0 dies, and rank 1 does nothing but wait for its stream: CUDA tells it. */
static int waits_only(const struct ranks *self)
{
  const struct job *job = self->argument;
  static struct captured captured; /* CUDA frees nothing after a trap */
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  int32_t *host = pinned(&gpu, 1);
  *host = 1;
  RANKS_CHECK(tuttiAllReduce(host, host, 1, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0 && *host == 2);
  atomic_fetch_add(sums, 1);
  while (self->rank == 0 && atomic_load(sums) < 2) usleep(1000);
  if (self->rank == 0) raise(SIGKILL);
  void *memory = gpu_alloc(&gpu, COUNT * sizeof(float));
  RANKS_CHECK(wait_in_vain(self, &gpu, memory, comm, stream, &captured) == 0);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 719);
  RANKS_CHECK(job->end == BY_ABORT && tuttiCommAbort(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void an_error_traps(void **state)
{
  (void)state;
  setenv("TUTTI_CUDA_ON_ERROR", "trap", 1);
  for (int has_graph = 0; has_graph < 2; has_graph++) {
    struct job job = {BY_ABORT, has_graph, NULL};
    int pids[2];
    sums = ranks_shared(sizeof *sums);
    ranks_start(2, waits_only, &job, pids);
    assert_int_equal(ranks_wait(pids[0], 60), 128 + SIGKILL);
    assert_int_equal(ranks_wait(pids[1], 60), 0);
  }
  unsetenv("TUTTI_CUDA_ON_ERROR");
}

#define CYCLES 12

/* The last communicator of the process ends again and again while its stream is parked: its memory is used again. */
static int last_ones(const struct ranks *self)
{
  const int report = report_begin();
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  long alive = 0;
  (void)self;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *memory = gpu_alloc(&gpu, COUNT * sizeof(float));
  for (uint32_t cycle = 1; cycle <= CYCLES; cycle++) {
    RANKS_CHECK(tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
    RANKS_CHECK(gpu_hold(&gpu, gpu.streams[0], cycle) == 0);
    RANKS_CHECK(tuttiAllReduce(memory, memory, COUNT, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
    gpu_open(&gpu, cycle);
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
    long now = report_alive(&gpu, report, "registrations");
    if (cycle == 2) alive = now;
    RANKS_CHECK(now > 0 && (cycle <= 2 || now <= alive));
  }
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void memory_of_last_ones_is_used_again(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, last_ones, NULL, 60), 0);
}

#define SLOT (1 << 20)  /* no transport carries a chunk of half of it before the other end asks for it */
#define CUT (12 * SLOT) /* bytes of a message that is longer than the slots of a communicator */

/* Rank 0 sends and receives in one group, rank 1 one after the other. */
static int groups_differ(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  tuttiResult_t state = tuttiSuccess;
  int peer = 1 - self->rank, receives_first = self->argument != NULL;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0);
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *in = gpu_alloc(&gpu, CUT), *out = gpu_alloc(&gpu, CUT);
  if (self->rank == 0) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int k = 0; k < 2; k++)
    if (k == receives_first) RANKS_CHECK(tuttiSend(in, CUT, tuttiUint8, peer, comm, stream) == tuttiSuccess);
    else RANKS_CHECK(tuttiRecv(out, CUT, tuttiUint8, peer, comm, stream) == tuttiSuccess);
  if (self->rank == 0) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  while (state == tuttiSuccess) {
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
    usleep(1000);
  }
  RANKS_CHECK(state == tuttiInvalidUsage && comm_says(comm, "alike at both ends of a message"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess && gpu_wait(&gpu, gpu.streams[0]) == 0);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void groups_that_differ_are_told(void **state)
{
  (void)state;
  setenv("TUTTI_CUDA_SLOT_BYTES", "1048576", 1);
  setenv("TUTTI_LATE_WARN_MS", "200", 1);
  assert_int_equal(ranks_run_processes(2, groups_differ, NULL, 60), 0);
  assert_int_equal(ranks_run_processes(2, groups_differ, (void *)(uintptr_t)"receives first", 60), 0);
  unsetenv("TUTTI_LATE_WARN_MS");
}

/* ---- ranks of a process on one GPU, whose calls wait for each other ---- */

static tuttiResult_t reduce(tuttiComm_t comm, void *memory, tuttiStream_t stream)
{
  return tuttiAllReduce(memory, memory, COUNT, tuttiFloat, tuttiSum, comm, stream);
}

static tuttiResult_t reduce_both(const tuttiComm_t comms[2], void *memory, tuttiStream_t stream)
{
  tuttiGroupStart();
  for (int r = 0; r < 2; r++) reduce(comms[r], memory, stream);
  return tuttiGroupEnd();
}

/* A thread that has called both ranks waits with the call of one for what it would call for the other. */
static int alone(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comms[2];
  tuttiStream_t stream;
  int is_message = self->argument != NULL;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(comms, 2, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *memory = gpu_alloc(&gpu, COUNT * sizeof(float));
  RANKS_CHECK(reduce_both(comms, memory, stream) == tuttiSuccess);
  tuttiResult_t result = is_message ? tuttiSend(memory, COUNT, tuttiFloat, 1, comms[0], stream)
                                    : reduce(comms[0], memory, stream);
  RANKS_CHECK(result == tuttiInvalidUsage && says("which this thread has on the same GPU: call both in one group"));
  RANKS_CHECK(tuttiCommAbort(comms[0]) == tuttiSuccess && tuttiCommAbort(comms[1]) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void a_thread_does_not_wait_for_itself(void **state)
{
  (void)state;
  setenv("TUTTI_LATE_WARN_MS", "100", 1);
  assert_int_equal(ranks_run_processes(1, alone, NULL, 60), 0);
  assert_int_equal(ranks_run_processes(1, alone, (void *)(uintptr_t)"a message", 60), 0);
  unsetenv("TUTTI_LATE_WARN_MS");
}

struct worker {
  tuttiComm_t comm;
  struct gpu gpu;
  int is_wrong;
};

static void *come_late(void *argument)
{
  struct worker *worker = argument;
  tuttiStream_t stream;
  usleep(500000);
  worker->is_wrong = gpu_begin(&worker->gpu, 0) || tuttiStreamFromCuda(&stream, worker->gpu.streams[0]) ||
                     reduce(worker->comm, gpu_alloc(&worker->gpu, COUNT * sizeof(float)), stream) ||
                     gpu_wait(&worker->gpu, worker->gpu.streams[0]) || tuttiStreamDestroy(stream);
  return NULL;
}

/* The thread that made both ranks has handed one to another thread, which is busy for long. */
static int handed_over(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comms[2];
  tuttiStream_t stream;
  pthread_t thread;
  (void)self;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(comms, 2, NULL) == tuttiSuccess);
  struct worker worker = {.comm = comms[1]};
  RANKS_CHECK(pthread_create(&thread, NULL, come_late, &worker) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  RANKS_CHECK(reduce(comms[0], gpu_alloc(&gpu, COUNT * sizeof(float)), stream) == tuttiSuccess);
  RANKS_CHECK(pthread_join(thread, NULL) == 0 && !worker.is_wrong && gpu_wait(&gpu, gpu.streams[0]) == 0);
  RANKS_CHECK(tuttiCommAbort(comms[0]) == tuttiSuccess && tuttiCommAbort(comms[1]) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void a_thread_may_have_handed_a_rank_to_another(void **state)
{
  (void)state;
  setenv("TUTTI_LATE_WARN_MS", "100", 1);
  assert_int_equal(ranks_run_processes(1, handed_over, NULL, 60), 0);
  unsetenv("TUTTI_LATE_WARN_MS");
}

/* A thread for each rank: rank 0 sends in a group in which rank 1 has nothing. Its stream is held, so that the send
 * itself does not begin, and has no limit yet. */
static int sends_alone(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  tuttiResult_t state = tuttiSuccess;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *memory = gpu_alloc(&gpu, COUNT * sizeof(float));
  if (self->rank == 0) {
    RANKS_CHECK(gpu_hold(&gpu, gpu.streams[0], 1) == 0);
    state = tuttiSend(memory, COUNT, tuttiFloat, 1, comm, stream);
  }
  while (state == tuttiSuccess) {
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
    usleep(1000);
  }
  RANKS_CHECK(state == tuttiRemoteError && comm_says(comm, "has not called what that has waited 600 ms for"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  if (self->rank == 0) gpu_open(&gpu, 1);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static int threads_that_send(const struct ranks *self)
{
  (void)self;
  RANKS_CHECK(ranks_run_threads(2, sends_alone, NULL, 60) == 0);
  return 0;
}

static void a_missing_call_has_a_limit(void **state)
{
  (void)state;
  setenv("TUTTI_TIMEOUT_MS", "600", 1);
  assert_int_equal(ranks_run_processes(1, threads_that_send, NULL, 60), 0);
  unsetenv("TUTTI_TIMEOUT_MS");
}

/* One group of both ranks, with a collective of those in `collectives` and messages of those in `senders`. */
static tuttiResult_t group_of(const tuttiComm_t comms[2], int collectives, int senders, int32_t *memory[2],
                              tuttiStream_t stream)
{
  tuttiGroupStart();
  for (int r = 0; r < 2; r++) {
    if (collectives >> r & 1) tuttiAllReduce(memory[r], memory[r], 2, tuttiInt32, tuttiSum, comms[r], stream);
    if (!(senders >> r & 1)) continue;
    tuttiSend(memory[r], 1, tuttiInt32, senders == 3 ? 1 - r : r, comms[r], stream);
    tuttiRecv(memory[r] + 2, 1, tuttiInt32, senders == 3 ? 1 - r : r, comms[r], stream);
  }
  return tuttiGroupEnd();
}

static int kinds_differ(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comms[2];
  tuttiStream_t stream;
  int32_t *memory[2];
  (void)self;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(comms, 2, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  for (int r = 0; r < 2; r++) {
    memory[r] = pinned(&gpu, 3);
    memory[r][0] = memory[r][1] = r + 1;
  }
  for (int k = 0; k < 2; k++) { /* one has a collective, and the other, or both, messages */
    RANKS_CHECK(group_of(comms, 1, k ? 3 : 2, memory, stream) == tuttiInvalidUsage);
    RANKS_CHECK(says("put collectives and messages into two groups"));
  }
  RANKS_CHECK(group_of(comms, 3, 3, memory, stream) == tuttiSuccess && gpu_wait(&gpu, gpu.streams[0]) == 0);
  for (int r = 0; r < 2; r++) RANKS_CHECK(memory[r][0] == 3 && memory[r][1] == 3 && memory[r][2] == 3);
  for (int r = 0; r < 2; r++) RANKS_CHECK(tuttiCommDestroy(comms[r]) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void collectives_do_not_meet_messages(void **state)
{
  (void)state;
  gpu_environment("1", "idle", "64");
  assert_int_equal(ranks_run_processes(1, kinds_differ, NULL, 60), 0);
}

/* A group with a call on a stream, and one without a stream on memory of a GPU that does one thing after the other. */
static int two_ways(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && tuttiCommInitAll(&comm, 1, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  void *memory[2] = {gpu_alloc(&gpu, COUNT * sizeof(float)), gpu_alloc(&gpu, COUNT * sizeof(float))};
  for (int is_first = 0; is_first < 2; is_first++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int k = 0; k < 2; k++) reduce(comm, memory[k], k == is_first ? stream : NULL);
    RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage && says("put them into two groups"));
  }
  for (int k = 0; k < 2; k++) RANKS_CHECK(reduce(comm, memory[k], k ? stream : NULL) == tuttiSuccess);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0 && tuttiCommDestroy(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void groups_have_one_way_to_a_gpu(void **state)
{
  (void)state;
  gpu_environment("1", "idle", "64");
  assert_int_equal(ranks_run_processes(1, two_ways, NULL, 60), 0);
}

/* Rank 0 replays a graph, and rank 1 calls without a stream first, because its stream is held. */
static int takes_turns(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  struct captured captured;
  tuttiResult_t state = tuttiSuccess;
  int32_t one = 1, sum;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  int32_t *memory = pinned(&gpu, 2);
  RANKS_CHECK(gpu.cu.cuStreamBeginCapture_v2(gpu.streams[0], 0) == 0);
  RANKS_CHECK(tuttiAllReduce(memory, memory, 2, tuttiInt32, tuttiMax, comm, stream) == tuttiSuccess);
  RANKS_CHECK(gpu.cu.cuStreamEndCapture(gpu.streams[0], &captured.graph) == 0);
  RANKS_CHECK(gpu.cu.cuGraphInstantiateWithFlags(&captured.exec, captured.graph, 0) == 0);
  if (self->rank == 1) RANKS_CHECK(gpu_hold(&gpu, gpu.streams[0], 1) == 0);
  RANKS_CHECK(gpu.cu.cuGraphLaunch(captured.exec, gpu.streams[0]) == 0);
  if (self->rank == 1) state = tuttiAllReduce(&one, &sum, 1, tuttiInt32, tuttiSum, comm, NULL);
  while (state == tuttiSuccess) {
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
    usleep(1000);
  }
  RANKS_CHECK(state == tuttiInvalidUsage && comm_says(comm, "count 2") && comm_says(comm, "count 1"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  gpu_open(&gpu, 1);
  RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
  RANKS_CHECK(gpu.cu.cuGraphExecDestroy(captured.exec) == 0 && gpu.cu.cuGraphDestroy(captured.graph) == 0);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void replays_and_calls_in_other_orders_are_told(void **state)
{
  (void)state;
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(2, takes_turns, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(abort_releases),
      cmocka_unit_test(destroy_releases),
      cmocka_unit_test(revoke_releases),
      cmocka_unit_test(refusals_name_the_reason),
      cmocka_unit_test(memory_of_last_ones_is_used_again),
      cmocka_unit_test(an_error_traps),
      cmocka_unit_test(lost_words_are_told),
      cmocka_unit_test(mixed_groups_are_refused),
      cmocka_unit_test(groups_that_differ_are_told),
      cmocka_unit_test(a_thread_does_not_wait_for_itself),
      cmocka_unit_test(a_thread_may_have_handed_a_rank_to_another),
      cmocka_unit_test(a_missing_call_has_a_limit),
      cmocka_unit_test(collectives_do_not_meet_messages),
      cmocka_unit_test(groups_have_one_way_to_a_gpu),
      cmocka_unit_test(replays_and_calls_in_other_orders_are_told),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
