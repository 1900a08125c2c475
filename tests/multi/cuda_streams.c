/* SPDX-License-Identifier: BSD-3-Clause */
/* Collectives on CUDA streams (tuttiStreamFromCuda), on a driver without a GPU: exact for every collective, size and
 * kind of memory; in the order of their streams; and finished without a call of the driver by any thread of Tutti, even
 * if a GPU does one thing after the other and nothing may be made once there is a communicator. */
#include <pthread.h>
#include <stdatomic.h>

#include "gpu_rank.h"
#include "slow.h"
#include "tutti.h"
#include "tutti_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* What a call of these tests is. */
struct what {
  int collective; /* 0 .. 7: as in names */
  size_t count;
  int in_place, stream;
};

enum { ALL_REDUCE, REDUCE, BROADCAST, REDUCE_SCATTER, ALL_GATHER, ALL_TO_ALL, GATHER, SCATTER, COLLECTIVES };

static int value(int rank, size_t i)
{
  return (int)(((size_t)rank * 7919 + i * 31) % 100003);
}

/* Shares of the buffers of a rank. */
static size_t ins(const struct what *what, int rank, int n, int root)
{
  switch (what->collective) {
  case ALL_REDUCE:
  case REDUCE: return 1;
  case BROADCAST: return rank == root;
  case REDUCE_SCATTER:
  case ALL_TO_ALL: return (size_t)n;
  case SCATTER: return rank == root ? (size_t)n : 0;
  default: return 1;
  }
}

static size_t outs(const struct what *what, int rank, int n, int root)
{
  switch (what->collective) {
  case REDUCE: return rank == root;
  case ALL_GATHER:
  case ALL_TO_ALL: return (size_t)n;
  case GATHER: return rank == root ? (size_t)n : 0;
  default: return 1;
  }
}

/* Element i of OUT of a rank, where element i of IN of rank r is value(r, i). */
static int64_t wanted(const struct what *what, int rank, int n, int root, size_t i)
{
  size_t share = i / (what->count ? what->count : 1), at = what->count ? i % what->count : 0;
  int64_t sum = 0;
  switch (what->collective) {
  case BROADCAST: return value(root, i);
  case ALL_GATHER:
  case GATHER: return value((int)share, at);
  case ALL_TO_ALL: return value((int)share, (size_t)rank * what->count + at);
  case SCATTER: return value(root, (size_t)rank * what->count + at);
  case REDUCE_SCATTER: i += (size_t)rank * what->count; break;
  default: break;
  }
  for (int r = 0; r < n; r++) sum += value(r, i);
  return sum;
}

static tuttiResult_t call(const struct what *what, const void *in, void *out, int root, tuttiComm_t comm,
                          tuttiStream_t stream)
{
  const size_t count = what->count;
  switch (what->collective) {
  case ALL_REDUCE: return tuttiAllReduce(in, out, count, tuttiInt64, tuttiSum, comm, stream);
  case REDUCE: return tuttiReduce(in, out, count, tuttiInt64, tuttiSum, root, comm, stream);
  case BROADCAST: return tuttiBroadcast(in, out, count, tuttiInt64, root, comm, stream);
  case REDUCE_SCATTER: return tuttiReduceScatter(in, out, count, tuttiInt64, tuttiSum, comm, stream);
  case ALL_GATHER: return tuttiAllGather(in, out, count, tuttiInt64, comm, stream);
  case ALL_TO_ALL: return tuttiAlltoAll(in, out, count, tuttiInt64, comm, stream);
  case GATHER: return tuttiGather(in, out, count, tuttiInt64, root, comm, stream);
  default: return tuttiScatter(in, out, count, tuttiInt64, root, comm, stream);
  }
}

/* ---- one call, with its buffers ---- */

struct turn {
  struct what what;
  int root, is_host; /* is_host: in memory of the host, without a stream */
  int waits;         /* without a stream, in memory of the GPU */
  size_t nin, nout;  /* elements */
  void *in, *out;    /* of the call */
  int64_t *host_in, *host_out; /* pinned */
};

static int turn_make(struct turn *turn, const struct ranks *self, const struct gpu *gpu)
{
  const struct what *what = &turn->what;
  int rank = self->rank, n = self->nranks;
  void *memory = NULL;
  turn->nin = ins(what, rank, n, turn->root) * what->count;
  turn->nout = outs(what, rank, n, turn->root) * what->count;
  size_t room = (turn->nin > turn->nout ? turn->nin : turn->nout) * 8 + 8;
  RANKS_CHECK(gpu->cu.cuMemHostAlloc(&memory, room, 3) == 0);
  turn->host_in = memory;
  RANKS_CHECK(gpu->cu.cuMemHostAlloc(&memory, room, 3) == 0);
  turn->host_out = memory;
  for (size_t i = 0; i < turn->nin; i++) turn->host_in[i] = value(rank, i);
  memset(turn->host_out, 0x55, room);
  turn->out = turn->is_host ? malloc(room) : gpu_alloc(gpu, room);
  turn->in = what->in_place ? turn->out : turn->is_host ? malloc(room) : gpu_alloc(gpu, room);
  RANKS_CHECK(turn->in && turn->out);
  return 0;
}

/* Where the call reads and writes: in place a share lies in the midst of all. */
static char *in_at(const struct turn *turn, const struct ranks *self)
{
  int moves = turn->what.in_place && turn->nout > turn->nin;
  return (char *)turn->in + (moves ? (size_t)self->rank * turn->what.count * 8 : 0);
}

static char *out_at(const struct turn *turn, const struct ranks *self)
{
  int moves = turn->what.in_place && turn->nin > turn->nout && turn->nout;
  return (char *)turn->out + (moves ? (size_t)self->rank * turn->what.count * 8 : 0);
}

static int turn_call(struct turn *turn, const struct ranks *self, const struct gpu *gpu, tuttiComm_t comm,
                     void *stream, tuttiStream_t tutti)
{
  char *in = in_at(turn, self), *out = out_at(turn, self);
  if (turn->is_host) memcpy(in, turn->host_in, turn->nin * 8);
  else RANKS_CHECK(gpu_copy(gpu, in, turn->host_in, turn->nin * 8, stream) == 0);
  if (turn->waits) RANKS_CHECK(gpu_wait(gpu, stream) == 0);
  int has_none = turn->is_host || turn->waits;
  RANKS_CHECK(call(&turn->what, in, out, turn->root, comm, has_none ? NULL : tutti) == tuttiSuccess);
  if (turn->is_host) memcpy(turn->host_out, out, turn->nout * 8);
  else RANKS_CHECK(gpu_copy(gpu, turn->host_out, out, turn->nout * 8, stream) == 0);
  return 0;
}

/* After the stream has come so far. */
static int turn_check(struct turn *turn, const struct ranks *self)
{
  for (size_t i = 0; i < turn->nout; i++) {
    int64_t want = wanted(&turn->what, self->rank, self->nranks, turn->root, i);
    if (turn->host_out[i] == want) continue;
    fprintf(stderr, "rank %d, collective %d of %zu%s, root %d: element %zu is %lld instead of %lld\n", self->rank,
            turn->what.collective, turn->what.count, turn->what.in_place ? " in place" : "", turn->root, i,
            (long long)turn->host_out[i], (long long)want);
    return 1;
  }
  return 0;
}

static void turn_end(struct turn *turn, const struct gpu *gpu)
{
  for (int k = 0; k < (turn->in == turn->out ? 1 : 2); k++) {
    void *memory = k ? turn->in : turn->out;
    if (turn->is_host) free(memory);
    else gpu_free(gpu, memory);
  }
  gpu->cu.cuMemFreeHost(turn->host_in);
  gpu->cu.cuMemFreeHost(turn->host_out);
}

/* ---- what a rank does ---- */

struct job {
  int mixed; /* odd ranks use host memory and no stream in every third call */
  int holds; /* the first stream is held until all calls have returned */
  int seals; /* nothing may be made, pinned or freed while calls are made and carried out */
  int waits; /* every rank makes every third call without a stream, each rank others */
  int frees; /* another thread allocates and frees all the time, and a free keeps all others out of the driver */
};

/* The other thread. */
struct storm {
  const struct gpu *gpu;
  pthread_t thread;
  _Atomic int is_over;
};

static void *storm_main(void *argument)
{
  struct storm *storm = argument;
  storm->gpu->cu.cuCtxSetCurrent(storm->gpu->context);
  while (!atomic_load(&storm->is_over)) {
    void *memory = gpu_alloc(storm->gpu, 65536);
    gpu_free(storm->gpu, memory);
    usleep(50);
  }
  return NULL;
}

static void *stream_of(const struct gpu *gpu, int s)
{
  static char *const defaults[] = {NULL, (char *)1, (char *)2};
  return s < GPU_STREAMS ? gpu->streams[s] : defaults[s - GPU_STREAMS];
}

/* Counts of a share: none, one, odd, and around one slot and several. */
static const size_t counts[] = {0, 1, 3, 127, 511, 512, 513, 1700, 7001};

#define NCOUNTS (sizeof counts / sizeof *counts)
#define TURNS 8 /* queued before the first is waited for */

static int turns_take(struct turn *turns, const struct ranks *self, const struct gpu *gpu, size_t first, size_t step)
{
  const struct job *job = self->argument;
  for (size_t t = 0; t < TURNS; t++) {
    size_t k = first + t * step;
    turns[t] = (struct turn){.what = {.collective = (int)(k % COLLECTIVES), .count = counts[k / COLLECTIVES % NCOUNTS],
                                      .in_place = (int)(k / 3 % 2), .stream = (int)(k % (2 * GPU_STREAMS))},
                             .root = (int)(k / 5 % (size_t)self->nranks),
                             .is_host = job->mixed && self->rank % 2 && k % 3 == 0,
                             .waits = job->waits && (k + (size_t)self->rank) % 3 == 0};
    if (turns[t].what.collective == BROADCAST && turns[t].what.in_place == 0 && self->rank != turns[t].root)
      turns[t].what.in_place = 1; /* IN is not looked at */
    RANKS_CHECK(turn_make(&turns[t], self, gpu) == 0);
  }
  return 0;
}

static int turns_do(struct turn *turns, const struct ranks *self, const struct gpu *gpu, tuttiComm_t comm,
                    tuttiStream_t *streams, uint32_t number)
{
  const struct job *job = self->argument;
  void *first = stream_of(gpu, turns[0].what.stream);
  if (job->seals) gpu->cu.seal(1);
  if (job->holds) RANKS_CHECK(gpu_hold(gpu, first, number) == 0);
  for (int t = 0; t < TURNS; t++) {
    int s = turns[t].what.stream;
    RANKS_CHECK(turn_call(&turns[t], self, gpu, comm, stream_of(gpu, s), streams[s]) == 0);
  }
  if (job->holds) RANKS_CHECK(gpu->cu.cuStreamQuery(first) == 600);
  gpu_open(gpu, number);
  for (int s = 0; s < 2 * GPU_STREAMS; s++) RANKS_CHECK(gpu_wait(gpu, stream_of(gpu, s)) == 0);
  if (job->seals) gpu->cu.seal(0);
  for (int t = 0; t < TURNS; t++) RANKS_CHECK(turn_check(&turns[t], self) == 0);
  return 0;
}

static int body(const struct ranks *self)
{
  struct gpu gpu;
  struct turn turns[TURNS];
  tuttiComm_t comm;
  tuttiStream_t streams[2 * GPU_STREAMS];
  const int report = report_begin();
  const size_t rounds = IS_SLOW ? 6 : 18;
  const struct job *job = self->argument;
  struct storm storm = {.gpu = &gpu};
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  for (int s = 0; s < 2 * GPU_STREAMS; s++)
    RANKS_CHECK(tuttiStreamFromCuda(&streams[s], stream_of(&gpu, s)) == tuttiSuccess);
  if (job->frees) RANKS_CHECK(pthread_create(&storm.thread, NULL, storm_main, &storm) == 0);
  for (size_t round = 0; round < rounds; round++) {
    RANKS_CHECK(turns_take(turns, self, &gpu, round * 29, 1 + round % 5) == 0);
    RANKS_CHECK(turns_do(turns, self, &gpu, comm, streams, (uint32_t)round + 1) == 0);
    for (int t = 0; t < TURNS; t++) turn_end(&turns[t], &gpu);
  }
  atomic_store(&storm.is_over, 1);
  if (job->frees) pthread_join(storm.thread, NULL);
  void *current = NULL;
  RANKS_CHECK(gpu.cu.cuCtxGetCurrent(&current) == 0 && current == gpu.context);
  for (int s = 0; s < 2 * GPU_STREAMS; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(report_look(&gpu, report) == 0);
  return 0;
}

/* ---- messages ---- */

#define MOST 30000

static size_t bytes_of(int from, int to, int k)
{
  static const size_t sizes[] = {0, 1, 2047, 2048, 2049, 9000, MOST};
  return sizes[(from * 3 + to * 5 + k) % 7];
}

static uint8_t byte_of(int from, int to, int k, size_t i)
{
  return (uint8_t)((size_t)(from * 71 + to * 31 + k * 7) + i * 13);
}

/* Where message k of the group between this rank and a peer is. */
struct post {
  uint8_t *host;
  void *memory;
};

static int post_make(struct post *post, const struct ranks *self, const struct gpu *gpu, int is_host)
{
  void *memory = NULL;
  RANKS_CHECK(gpu->cu.cuMemHostAlloc(&memory, MOST + 1, 3) == 0);
  post->host = memory;
  post->memory = is_host ? memory : gpu_alloc(gpu, MOST + 1);
  RANKS_CHECK(post->memory != NULL);
  return 0;
}

#define EACH 2 /* messages from each rank to each */
#define RANKS 3

/* One group: two messages from each rank to each, also itself, on two streams. */
static int exchange(const struct ranks *self, const struct gpu *gpu, tuttiComm_t comm, const tuttiStream_t *streams,
                    struct post posts[2][RANKS][EACH])
{
  int is_host = ((const struct job *)self->argument)->mixed && self->rank == 1, rank = self->rank;
  for (int p = 0; p < RANKS; p++)
    for (int k = 0; k < EACH; k++) {
      struct post *to = &posts[0][p][k], *from = &posts[1][p][k];
      for (size_t i = 0; i < bytes_of(rank, p, k); i++) to->host[i] = byte_of(rank, p, k, i);
      memset(from->host, 0x11, MOST);
      if (!is_host) RANKS_CHECK(gpu_copy(gpu, to->memory, to->host, bytes_of(rank, p, k), gpu->streams[k]) == 0);
    }
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int p = 0; p < RANKS; p++)
    for (int k = 0; k < EACH; k++) {
      tuttiStream_t stream = is_host ? NULL : streams[k];
      RANKS_CHECK(tuttiSend(posts[0][p][k].memory, bytes_of(rank, p, k), tuttiUint8, p, comm, stream) == tuttiSuccess);
      RANKS_CHECK(tuttiRecv(posts[1][p][k].memory, bytes_of(p, rank, k), tuttiUint8, p, comm, stream) == tuttiSuccess);
    }
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  for (int p = 0; p < RANKS && !is_host; p++)
    for (int k = 0; k < EACH; k++) {
      struct post *from = &posts[1][p][k]; /* on the other stream: both wait for all of the group */
      RANKS_CHECK(gpu_copy(gpu, from->host, from->memory, bytes_of(p, rank, k), gpu->streams[!k]) == 0);
    }
  for (int k = 0; k < EACH; k++) RANKS_CHECK(gpu_wait(gpu, gpu->streams[k]) == 0);
  for (int p = 0; p < RANKS; p++)
    for (int k = 0; k < EACH; k++)
      for (size_t i = 0; i < bytes_of(p, rank, k); i++)
        RANKS_CHECK(posts[1][p][k].host[i] == byte_of(p, rank, k, i));
  return 0;
}

static int messages(const struct ranks *self)
{
  const int report = report_begin();
  struct gpu gpu;
  struct post posts[2][RANKS][EACH];
  tuttiComm_t comm;
  tuttiStream_t streams[2];
  int is_host = ((const struct job *)self->argument)->mixed && self->rank == 1;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamFromCuda(&streams[s], gpu.streams[s]) == tuttiSuccess);
  for (int m = 0; m < 2 * RANKS * EACH; m++)
    RANKS_CHECK(post_make(&posts[m / (RANKS * EACH)][m / EACH % RANKS][m % EACH], self, &gpu, is_host) == 0);
  for (int round = 0; round < 6; round++) RANKS_CHECK(exchange(self, &gpu, comm, streams, posts) == 0);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(report_look(&gpu, report) == 0);
  return 0;
}

/* All-to-alls with counts: none, few, and more than the slots hold. */
static int with_counts(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  size_t sends[RANKS], recvs[RANKS], starts[RANKS];
  int is_host = ((const struct job *)self->argument)->mixed && self->rank == 1, rank = self->rank;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  uint8_t *host_in = (uint8_t *)pinned(&gpu, RANKS * MOST), *host_out = (uint8_t *)pinned(&gpu, RANKS * MOST);
  void *in = is_host ? host_in : gpu_alloc(&gpu, RANKS * MOST);
  void *out = is_host ? host_out : gpu_alloc(&gpu, RANKS * MOST);
  for (int round = 0; round < 7; round++) {
    for (int p = 0; p < RANKS; p++) {
      starts[p] = (size_t)p * MOST;
      sends[p] = bytes_of(rank, p, round);
      recvs[p] = bytes_of(p, rank, round);
      for (size_t i = 0; i < sends[p]; i++) host_in[starts[p] + i] = byte_of(rank, p, round, i);
    }
    if (!is_host) RANKS_CHECK(gpu_copy(&gpu, in, host_in, RANKS * MOST, gpu.streams[0]) == 0);
    RANKS_CHECK(tuttiAlltoAllV(in, sends, starts, out, recvs, starts, tuttiUint8, comm, is_host ? NULL : stream) ==
                tuttiSuccess);
    if (!is_host) RANKS_CHECK(gpu_copy(&gpu, host_out, out, RANKS * MOST, gpu.streams[0]) == 0);
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
    for (int p = 0; p < RANKS; p++)
      for (size_t i = 0; i < recvs[p]; i++) RANKS_CHECK(host_out[starts[p] + i] == byte_of(p, rank, round, i));
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void exchanges_with_counts_are_exact(void **state)
{
  struct job job = {.mixed = 0};
  (void)state;
  for (; job.mixed < 2; job.mixed++) {
    gpu_environment(job.mixed ? "8" : "1", "idle", "64");
    assert_int_equal(ranks_run_processes(RANKS, with_counts, &job, 60), 0);
  }
}

static void collectives_are_exact(void **state)
{
  struct job job = {.holds = 1};
  (void)state;
  gpu_environment("8", "idle", "8192");
  assert_int_equal(ranks_run_processes(2, body, &job, 120), 0);
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  assert_int_equal(ranks_run_processes(3, body, &job, 120), 0);
  unsetenv("TUTTI_TRANSPORTS");
}

/* Among others on streams: in one queue, where nothing may be made; over TCP; while frees keep others out. */
static void calls_without_a_stream_are_exact(void **state)
{
  struct job job = {.waits = 1, .seals = 1};
  (void)state;
  gpu_environment("1", "idle", "64");
  assert_int_equal(ranks_run_processes(2, body, &job, 120), 0);
  job.seals = 0;
  job.frees = 1;
  gpu_environment("2", "lock", "1024");
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  assert_int_equal(ranks_run_processes(3, body, &job, 120), 0);
  unsetenv("TUTTI_TRANSPORTS");
}

static void kinds_of_memory_may_differ(void **state)
{
  struct job job = {.mixed = 1};
  (void)state;
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(3, body, &job, 120), 0);
}

/* One queue for all streams; then one so short that a call fills it, whose caller waits there for the GPU. */
static void one_queue_is_enough(void **state)
{
  struct job job = {.holds = 1};
  (void)state;
  gpu_environment("1", "idle", "8192");
  assert_int_equal(ranks_run_processes(3, body, &job, 120), 0);
  job.holds = 0;
  gpu_environment("1", "idle", "16");
  assert_int_equal(ranks_run_processes(3, body, &job, 120), 0);
}

static void operations_make_nothing(void **state)
{
  struct job job = {.seals = 1, .holds = 1};
  (void)state;
  gpu_environment("4", "idle", "8192");
  assert_int_equal(ranks_run_processes(2, body, &job, 120), 0);
}

static void frees_may_lock_the_driver(void **state)
{
  struct job job = {.frees = 1};
  (void)state;
  gpu_environment("2", "lock", "1024");
  assert_int_equal(ranks_run_processes(2, body, &job, 120), 0);
}

/* ---- several ranks of a process on one GPU that does one thing after the other ---- */

/* All ranks in one thread and one group, those of two communicators in orders of their own. */
static int one_thread(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comms[2][RANKS];
  tuttiStream_t streams[2];
  int32_t *buffers[2][RANKS];
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0);
  for (int c = 0; c < 2; c++) RANKS_CHECK(tuttiCommInitAll(comms[c], RANKS, NULL) == tuttiSuccess);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamFromCuda(&streams[s], gpu.streams[s]) == tuttiSuccess);
  for (int b = 0; b < 2 * RANKS; b++) buffers[b / RANKS][b % RANKS] = gpu_alloc(&gpu, LONG * sizeof(int32_t));
  int32_t *host = pinned(&gpu, LONG);
  for (int round = 0; round < 5; round++) {
    for (int b = 0; b < 2 * RANKS; b++)
      RANKS_CHECK(gpu.cu.cuMemsetD32Async((uintptr_t)buffers[b / RANKS][b % RANKS], (unsigned)(b + round), LONG,
                                          gpu.streams[b % 2]) == 0);
    for (int s = 0; s < 2; s++) RANKS_CHECK(gpu_wait(&gpu, gpu.streams[s]) == 0);
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int b = 0; b < 2 * RANKS; b++) {
      int c = (b + round) % 2, r = (b / 2 + round) % RANKS;
      int32_t *buffer = buffers[c][r];
      RANKS_CHECK(tuttiAllReduce(buffer, buffer, LONG, tuttiInt32, tuttiSum, comms[c][r], streams[r % 2]) ==
                  tuttiSuccess);
    }
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    for (int b = 0; b < 2 * RANKS; b++) {
      int c = b / RANKS, r = b % RANKS;
      RANKS_CHECK(gpu_copy(&gpu, host, buffers[c][r], LONG * sizeof *host, gpu.streams[r % 2]) == 0);
      RANKS_CHECK(gpu_wait(&gpu, gpu.streams[r % 2]) == 0);
      for (int i = 0; i < LONG; i++) RANKS_CHECK(host[i] == RANKS * (c * RANKS + round) + RANKS * (RANKS - 1) / 2);
    }
  }
  for (int b = 0; b < 2 * RANKS; b++) RANKS_CHECK(tuttiCommDestroy(comms[b / RANKS][b % RANKS]) == tuttiSuccess);
  for (int s = 0; s < 2; s++) RANKS_CHECK(tuttiStreamDestroy(streams[s]) == tuttiSuccess);
  return 0;
}

/* A thread for each rank: their calls meet. */
static int in_threads(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  int32_t *memory = gpu_alloc(&gpu, LONG * sizeof(int32_t)), *host = pinned(&gpu, LONG);
  for (int round = 0; round < 20; round++) {
    int count = round % 4 ? LONG : 3;
    unsigned mine = (unsigned)(self->rank + round);
    RANKS_CHECK(gpu.cu.cuMemsetD32Async((uintptr_t)memory, mine, LONG, gpu.streams[0]) == 0);
    RANKS_CHECK(tuttiAllReduce(memory, memory, (size_t)count, tuttiInt32, tuttiSum, comm, stream) == tuttiSuccess);
    RANKS_CHECK(gpu_copy(&gpu, host, memory, LONG * sizeof *host, gpu.streams[0]) == 0);
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
    for (int i = 0; i < count; i++) RANKS_CHECK(host[i] == RANKS * round + RANKS * (RANKS - 1) / 2);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static int threads(const struct ranks *self)
{
  RANKS_CHECK(ranks_run_threads(RANKS, in_threads, NULL, 100) == 0);
  return 0;
}

static void ranks_of_one_process_share_a_queue(void **state)
{
  (void)state;
  gpu_environment("1", "idle", "64");
  assert_int_equal(ranks_run_processes(1, one_thread, NULL, 120), 0);
  assert_int_equal(ranks_run_processes(1, threads, NULL, 120), 0);
}

/* A call that is short enough for the quick path, and cut as one side goes through slots. */
static int short_and_cut(const struct ranks *self)
{
  struct gpu gpu;
  tuttiComm_t comm;
  tuttiStream_t stream;
  int32_t *memory, *host;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  host = pinned(&gpu, LONG);
  memory = self->rank ? host : gpu_alloc(&gpu, LONG * sizeof(int32_t));
  for (int count = 1000; count < 2048; count += 64) {
    for (int i = 0; i < count; i++) host[i] = i + self->rank;
    if (self->rank == 0) RANKS_CHECK(gpu_copy(&gpu, memory, host, (size_t)count * 4, gpu.streams[0]) == 0);
    RANKS_CHECK(tuttiAllReduce(memory, memory, (size_t)count, tuttiInt32, tuttiSum, comm,
                               self->rank ? NULL : stream) == tuttiSuccess);
    if (self->rank == 0) RANKS_CHECK(gpu_copy(&gpu, host, memory, (size_t)count * 4, gpu.streams[0]) == 0);
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[0]) == 0);
    for (int i = 0; i < count; i++) RANKS_CHECK(host[i] == 2 * i + 1);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return tuttiStreamDestroy(stream) != tuttiSuccess;
}

static void short_calls_are_cut_alike(void **state)
{
  (void)state;
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(2, short_and_cut, NULL, 60), 0);
}

static void messages_are_exact(void **state)
{
  struct job job = {.mixed = 0};
  (void)state;
  gpu_environment("1", "idle", "64");
  assert_int_equal(ranks_run_processes(RANKS, messages, &job, 120), 0);
  job.mixed = 1;
  gpu_environment("8", "idle", "1024");
  assert_int_equal(ranks_run_processes(RANKS, messages, &job, 120), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(collectives_are_exact),   cmocka_unit_test(kinds_of_memory_may_differ),
      cmocka_unit_test(one_queue_is_enough),     cmocka_unit_test(operations_make_nothing),
      cmocka_unit_test(frees_may_lock_the_driver), cmocka_unit_test(messages_are_exact),
      cmocka_unit_test(short_calls_are_cut_alike), cmocka_unit_test(exchanges_with_counts_are_exact),
      cmocka_unit_test(ranks_of_one_process_share_a_queue), cmocka_unit_test(calls_without_a_stream_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
