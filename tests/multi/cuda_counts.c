/* SPDX-License-Identifier: BSD-3-Clause */
/* All-gathers and reduce-scatters with counts on CUDA streams, on a driver without a GPU: exact for any counts, in one
 * piece and in several, in place or not, live and from a graph, and where a rank has memory of the host. */
#include "chance.h"
#include "gpu_rank.h"
#include "tutti.h"
#include "tutti_counts.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define MOST 9000 /* elements of a share: with SLOT_BYTES there are several pieces */
#define ROUNDS 24

struct job {
  int mixed; /* rank 1 has memory of the host */
};

struct round {
  size_t counts[RANKS], starts[RANKS];
  int gathers, in_place, averages;
};

static void draw(struct round *round, int number, uint64_t *chance)
{
  size_t at = 0, one = below(chance, RANKS);
  for (size_t r = 0; r < RANKS; r++) {
    static const size_t mosts[] = {0, 3, 400, 2000, MOST};
    size_t most = mosts[below(chance, 5)];
    if (number % 4 == 0) most = r == one ? MOST : 0; /* one has all */
    round->counts[r] = most ? 1 + below(chance, most) : 0;
    round->starts[r] = at + below(chance, 5);
    at = round->starts[r] + round->counts[r];
  }
  round->gathers = number % 2;
  round->in_place = number / 2 % 2;
  round->averages = !round->gathers && number % 3 == 0;
}

static int32_t value(int rank, size_t i)
{
  return (int32_t)((size_t)(rank + 1) * RANKS * (i % 1001));
}

/* Element i of the share of rank r behind a call. */
static int32_t wanted(const struct round *round, int r, size_t i)
{
  int32_t sum = 0;
  if (round->gathers) return value(r, i);
  for (int k = 0; k < RANKS; k++) sum += value(k, round->starts[r] + i);
  return round->averages ? sum / RANKS : sum;
}

struct side {
  int32_t *all, *own; /* of the call */
  int32_t *host_all, *host_own;
  tuttiComm_t comm;
  tuttiStream_t stream; /* NULL: memory of the host */
};

static tuttiResult_t call(const struct round *round, const struct side *side, int rank)
{
  int32_t *own = round->in_place ? side->all + round->starts[rank] : side->own;
  if (round->gathers)
    return tuttiAllGatherV(own, round->counts[rank], side->all, round->counts, round->starts, tuttiInt32, side->comm,
                           side->stream);
  return tuttiReduceScatterV(side->all, own, round->counts, round->starts, tuttiInt32,
                             round->averages ? tuttiAvg : tuttiSum, side->comm, side->stream);
}

#define ROOM ((MOST + 8) * RANKS * sizeof(int32_t))

/* Fills the contributions, also where they are in place. */
static void fill(const struct round *round, const struct side *side, int rank)
{
  int32_t *own = round->in_place ? side->host_all + round->starts[rank] : side->host_own;
  memset(side->host_all, 0x11, ROOM);
  memset(side->host_own, 0x22, ROOM);
  for (size_t i = 0; i < round->counts[rank] && round->gathers; i++) own[i] = value(rank, i);
  for (int r = 0; r < RANKS && !round->gathers; r++)
    for (size_t i = 0; i < round->counts[r]; i++)
      side->host_all[round->starts[r] + i] = value(rank, round->starts[r] + i);
}

static int check(const struct ranks *self, const struct round *round, const struct side *side)
{
  int rank = self->rank;
  const int32_t *own = round->in_place ? side->host_all + round->starts[rank] : side->host_own;
  for (size_t i = 0; i < round->counts[rank] && !round->gathers; i++) RANKS_CHECK(own[i] == wanted(round, rank, i));
  for (int r = 0; r < RANKS && round->gathers; r++)
    for (size_t i = 0; i < round->counts[r]; i++)
      RANKS_CHECK(side->host_all[round->starts[r] + i] == wanted(round, r, i));
  return 0;
}

/* Every third round is captured and replayed, on ranks with a GPU. */
static int round_run(const struct ranks *self, const struct round *round, const struct gpu *gpu,
                     const struct side *side, int is_captured)
{
  void *on = gpu->streams[0];
  struct graph *graph;
  struct exec *exec = NULL;
  fill(round, side, self->rank);
  if (is_captured) RANKS_CHECK(gpu->cu.cuStreamBeginCapture_v2(on, 0) == 0);
  if (side->stream) {
    RANKS_CHECK(gpu_copy(gpu, side->all, side->host_all, ROOM, on) == 0);
    RANKS_CHECK(gpu_copy(gpu, side->own, side->host_own, ROOM, on) == 0);
  }
  RANKS_CHECK(call(round, side, self->rank) == tuttiSuccess);
  if (side->stream) {
    RANKS_CHECK(gpu_copy(gpu, side->host_all, side->all, ROOM, on) == 0);
    RANKS_CHECK(gpu_copy(gpu, side->host_own, side->own, ROOM, on) == 0);
  }
  if (is_captured) {
    RANKS_CHECK(gpu->cu.cuStreamEndCapture(on, &graph) == 0);
    RANKS_CHECK(gpu->cu.cuGraphInstantiateWithFlags(&exec, graph, 0) == 0 && gpu->cu.cuGraphDestroy(graph) == 0);
    RANKS_CHECK(gpu->cu.cuGraphLaunch(exec, on) == 0);
  }
  RANKS_CHECK(gpu_wait(gpu, on) == 0 && check(self, round, side) == 0);
  if (exec) RANKS_CHECK(gpu->cu.cuGraphExecDestroy(exec) == 0);
  return 0;
}

static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  const int report = report_begin();
  struct gpu gpu;
  struct round round;
  struct side side;
  tuttiStream_t stream;
  uint64_t chance = 7;
  int is_host = job->mixed && self->rank == 1;
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &side.comm) == 0);
  RANKS_CHECK(tuttiStreamFromCuda(&stream, gpu.streams[0]) == tuttiSuccess);
  side.host_all = pinned(&gpu, ROOM / sizeof(int32_t));
  side.host_own = pinned(&gpu, ROOM / sizeof(int32_t));
  side.all = is_host ? side.host_all : gpu_alloc(&gpu, ROOM);
  side.stream = is_host ? NULL : stream;
  side.own = is_host ? side.host_own : gpu_alloc(&gpu, ROOM);
  for (int k = 0; k < ROUNDS; k++) {
    draw(&round, k, &chance);
    RANKS_CHECK(round_run(self, &round, &gpu, &side, !job->mixed && k % 3 == 2) == 0);
  }
  RANKS_CHECK(tuttiCommDestroy(side.comm) == tuttiSuccess && tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(report_look(&gpu, report) == 0);
  return 0;
}

static void counts_on_streams_are_exact(void **state)
{
  struct job job = {.mixed = 0};
  (void)state;
  for (; job.mixed < 2; job.mixed++) {
    gpu_environment(job.mixed ? "8" : "1", "idle", "1024");
    assert_int_equal(ranks_run_processes(RANKS, body, &job, 60), 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(counts_on_streams_are_exact),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
