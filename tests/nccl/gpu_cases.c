/* SPDX-License-Identifier: BSD-3-Clause */
/* Graphs, groups over several communicators, a storm of frees, speed. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "gpu_client.h"

#define WORDS_OF_GRAPH 3001u /* elements of a captured all-reduce */
#define GRAPHS 2

/* In KiB. */
static long resident(void)
{
  long size = 0, pages = 0;
  FILE *file = fopen("/proc/self/statm", "r");
  if (!file || fscanf(file, "%ld %ld", &size, &pages) != 2) lost("no /proc/self/statm");
  fclose(file);
  return pages * (sysconf(_SC_PAGESIZE) / 1024);
}

/* ---- capture ---- */

/* in: what is summed; out: the sum; want: the sum of sums so far; behind it, what in grows by. */
struct places {
  uint64_t in, out, sum, step;
};

static struct places places_of(const struct rank *rank)
{
  return (struct places){rank->in, rank->out, rank->want, rank->want + 4 * WORDS_OF_GRAPH + 12};
}

/* in = rank + 1 and step = 1 everywhere. */
static void places_set(const struct rank *rank, void *stream)
{
  const struct places at = places_of(rank);
  CU(cuMemsetD32Async(at.in, (unsigned)rank->number + 1, WORDS_OF_GRAPH, stream));
  CU(cuMemsetD32Async(at.sum, 0, WORDS_OF_GRAPH, stream));
  CU(cuMemsetD32Async(at.step, 1, WORDS_OF_GRAPH, stream));
  CU(cuStreamSynchronize(stream));
}

/* Puts so many times: out = all-reduce of in; sum += out; in += step. */
static void body(struct team *team, int stream)
{
  uint64_t n = WORDS_OF_GRAPH;
  for (int k = 0; k < team->options->operations; k++) {
    if (team->count > 1) NCCL(ncclGroupStart());
    for (int r = 0; r < team->count; r++) {
      const struct rank *rank = &team->ranks[r];
      const struct places at = places_of(rank);
      enter_gpu(rank);
      NCCL(ncclAllReduce((void *)(uintptr_t)at.in, (void *)(uintptr_t)at.out, n, ncclUint32, ncclSum, rank->comm,
                         rank->streams[stream]));
    }
    if (team->count > 1) NCCL(ncclGroupEnd());
    for (int r = 0; r < team->count; r++) {
      const struct rank *rank = &team->ranks[r];
      struct places at = places_of(rank);
      enter_gpu(rank);
      launch(rank, rank->add, rank->streams[stream], (void *[]){&at.sum, &at.out, &n});
      launch(rank, rank->add, rank->streams[stream], (void *[]){&at.in, &at.step, &n});
    }
  }
}

static void graph_make(struct team *team, struct exec **execs)
{
  struct graph *graph;
  for (int r = 0; r < team->count; r++) {
    enter_gpu(&team->ranks[r]);
    CU(cuStreamBeginCapture_v2(team->ranks[r].streams[3], team->options->mode == PROCESSES ? 0 : 1));
  }
  body(team, 3);
  for (int r = 0; r < team->count; r++) {
    enter_gpu(&team->ranks[r]);
    CU(cuStreamEndCapture(team->ranks[r].streams[3], &graph));
    CU(cuGraphInstantiateWithFlags(&execs[r], graph, 0));
    CU(cuGraphDestroy(graph));
  }
}

/* Each word of the sum is that of all inputs in turn: `turns` all-reduces of (rank + 1) + turn. */
static void sums_check(struct team *team, uint32_t turns)
{
  uint32_t ranks = (uint32_t)team->options->nranks, got[2];
  uint32_t wanted = turns * (ranks * (ranks + 1) / 2) + ranks * (turns * (turns - 1) / 2);
  for (int r = 0; r < team->count; r++) {
    const struct places at = places_of(&team->ranks[r]);
    enter_gpu(&team->ranks[r]);
    CU(cuStreamSynchronize(team->ranks[r].streams[3]));
    CU(cuMemcpyDtoH_v2(&got[0], at.sum, 4));
    CU(cuMemcpyDtoH_v2(&got[1], at.sum + 4 * (WORDS_OF_GRAPH - 1), 4));
    if (got[0] != wanted || got[1] != wanted)
      lost("after %u all-reduces of graphs and calls the sum is %u and %u, not %u", turns, got[0], got[1], wanted);
  }
}

/* Replays two graphs in a drawn order, with the same work live in between. A launch has all of one rank's graph, so
 * ranks of one process need contexts of their own: in one channel the second launch would come too late. */
void capture_run(struct team *team)
{
  struct exec *execs[GRAPHS][RANKS];
  uint32_t turns = 0;
  long before = 0;
  if (team->options->mode != PROCESSES && team->options->nranks > team->options->gpus)
    lost("the case capture wants a GPU for each rank of a process");
  trial_name("capture");
  deadline(team->options->limit_s);
  for (int r = 0; r < team->count; r++) {
    enter_gpu(&team->ranks[r]);
    places_set(&team->ranks[r], team->ranks[r].streams[3]);
  }
  meet(team);
  for (int g = 0; g < GRAPHS; g++) graph_make(team, execs[g]);
  for (int k = 0; k < team->options->rounds; k++) {
    uint64_t kind = drawn(&team->common, 5);
    trial_name("replay %d of %d", k, team->options->rounds);
    deadline(team->options->limit_s);
    turns += (uint32_t)team->options->operations;
    if (kind == 4) {
      body(team, 3);
      continue;
    }
    for (int r = 0; r < team->count; r++) {
      enter_gpu(&team->ranks[r]);
      CU(cuGraphLaunch(execs[kind % GRAPHS][r], team->ranks[r].streams[3]));
    }
    if (k % 16 == 15) sums_check(team, turns);
    if (k == team->options->rounds / 2) before = resident();
  }
  sums_check(team, turns);
  if (team->options->rounds >= 1000 && team->ranks[0].number == 0)
    printf("capture: %d launches of graphs of %d all-reduces, memory %ld KiB in the middle, %ld KiB at the end\n",
           team->options->rounds, team->options->operations, before, resident());
  for (int g = 0; g < GRAPHS; g++)
    for (int r = 0; r < team->count; r++) CU(cuGraphExecDestroy(execs[g][r]));
}

/* ---- several communicators ---- */

#define COMMS_COUNT 20000u

/* The parent adds up what is at in, the child what is behind it; both add rank + 1. */
static void both(struct team *team, ncclComm_t child, int round)
{
  const struct rank *rank = &team->ranks[0];
  const size_t half = (size_t)COMMS_COUNT * 4;
  int parent_is_first = (rank->number + round) % 2;
  NCCL(ncclGroupStart());
  for (int k = 0; k < 2; k++) {
    int is_parent = k ? !parent_is_first : parent_is_first;
    size_t at = is_parent ? 0 : half;
    NCCL(ncclAllReduce((void *)(uintptr_t)(rank->in + at), (void *)(uintptr_t)(rank->out + at), COMMS_COUNT,
                       ncclUint32, ncclSum, is_parent ? rank->comm : child, rank->streams[is_parent ? 3 : 4]));
  }
  NCCL(ncclGroupEnd());
}

static void both_check(const struct rank *rank, uint32_t wanted)
{
  uint32_t got[4];
  for (int k = 0; k < 2; k++) {
    CU(cuStreamSynchronize(rank->streams[3 + k]));
    CU(cuMemcpyDtoH_v2(&got[2 * k], rank->out + (uint64_t)k * COMMS_COUNT * 4, 4));
    CU(cuMemcpyDtoH_v2(&got[2 * k + 1], rank->out + ((uint64_t)(k + 1) * COMMS_COUNT - 1) * 4, 4));
  }
  for (int k = 0; k < 4; k++)
    if (got[k] != wanted) lost("the sum over %s is %u, not %u", k < 2 ? "all" : "the child", got[k], wanted);
}

/* The child has all ranks in the opposite order. */
void comms_run(struct team *team)
{
  struct rank *rank = &team->ranks[0];
  ncclComm_t child;
  uint32_t ranks = (uint32_t)team->options->nranks;
  if (team->count > 1) lost("the case comms is for ranks that are processes or threads");
  trial_name("split");
  deadline(team->options->limit_s);
  NCCL(ncclCommSplit(rank->comm, 0, -rank->number, &child, NULL));
  meet(team);
  for (int round = 0; round < team->options->rounds; round++) {
    trial_name("group %d of %d over two communicators", round, team->options->rounds);
    deadline(team->options->limit_s);
    CU(cuMemsetD32Async(rank->in, (unsigned)rank->number + 1, 2 * COMMS_COUNT, rank->side));
    CU(cuMemsetD32Async(rank->out, 0, 2 * COMMS_COUNT, rank->side));
    CU(cuStreamSynchronize(rank->side));
    both(team, child, round);
    both_check(rank, ranks * (ranks + 1) / 2);
  }
  NCCL(ncclCommFinalize(child));
  NCCL(ncclCommDestroy(child));
}

/* ---- storm ---- */

void processes_only(const struct team *team, const char *name)
{
  if (team->options->mode != PROCESSES) lost("the case %s is for ranks that are processes", name);
}

struct storm {
  const struct rank *rank;
  int ends;
  long frees;
};

static void *storm(void *argument)
{
  struct storm *storm = argument;
  uint64_t memory;
  void *pinned;
  enter_gpu(storm->rank);
  while (!__atomic_load_n(&storm->ends, __ATOMIC_ACQUIRE)) {
    CU(cuMemAlloc_v2(&memory, 4096));
    CU(cuMemHostAlloc(&pinned, 4096, 3));
    CU(cuMemFreeHost(pinned));
    CU(cuMemFree_v2(memory));
    storm->frees += 2;
  }
  return NULL;
}

/* All calls of a process are in its queues before it is asked to wait, so a free ends whenever it comes. */
void storm_run(struct team *team)
{
  pthread_t thread;
  struct storm state = {.rank = &team->ranks[0]};
  processes_only(team, "storm");
  team->may_hold = 0; /* a held stream would keep the free, and the free could keep the call that ends it */
  if (pthread_create(&thread, NULL, storm, &state) != 0) lost("no thread");
  for (int round = 1; round <= team->options->rounds; round++) jobs_round(team, round);
  __atomic_store_n(&state.ends, 1, __ATOMIC_RELEASE);
  pthread_join(thread, NULL);
  if (team->ranks[0].number == 0) printf("storm: %ld frees beside %d rounds\n", state.frees, team->options->rounds);
}

/* ---- speed ---- */

#define SPEED_MOST ((size_t)128 << 20)

/* Prints what a call costs its caller, and what an all-reduce costs by itself and in a row of them. */
static void speed_of(struct team *team, uint64_t in, uint64_t out, size_t bytes)
{
  const struct rank *rank = &team->ranks[0];
  const int times = bytes < (1u << 20) ? 200 : 20;
  double called_s = 0, alone_s = 0;
  deadline(team->options->limit_s * 10);
  trial_name("speed of %zu bytes", bytes);
  meet(team);
  for (int k = 0; k < times; k++) {
    double began = seconds_now();
    NCCL(ncclAllReduce((void *)(uintptr_t)in, (void *)(uintptr_t)out, bytes / 4, ncclFloat32, ncclSum, rank->comm,
                       rank->streams[3]));
    called_s += seconds_now() - began;
    CU(cuStreamSynchronize(rank->streams[3]));
    alone_s += seconds_now() - began;
  }
  meet(team);
  double began = seconds_now();
  for (int k = 0; k < times; k++)
    NCCL(ncclAllReduce((void *)(uintptr_t)in, (void *)(uintptr_t)out, bytes / 4, ncclFloat32, ncclSum, rank->comm,
                       rank->streams[3]));
  CU(cuStreamSynchronize(rank->streams[3]));
  double row_s = (seconds_now() - began) / times;
  if (rank->number == 0)
    printf("| all-reduce of %zu bytes, %d ranks | call %.1f us, alone %.1f us, in a row %.1f us, %.2f GB/s |\n", bytes,
           team->options->nranks, 1e6 * called_s / times, 1e6 * alone_s / times, 1e6 * row_s,
           1e-9 * (double)bytes / row_s);
}

void speed_run(struct team *team)
{
  uint64_t in, out;
  if (team->count > 1) lost("the case speed is for ranks that are processes or threads");
  CU(cuMemAlloc_v2(&in, SPEED_MOST));
  CU(cuMemAlloc_v2(&out, SPEED_MOST));
  CU(cuMemsetD32Async(in, 0, SPEED_MOST / 4, team->ranks[0].streams[3]));
  for (size_t bytes = 8; bytes <= SPEED_MOST && bytes / 8 <= team->options->most; bytes *= 8)
    speed_of(team, in, out, bytes);
  meet(team);
  CU(cuMemFree_v2(in));
  CU(cuMemFree_v2(out));
}
