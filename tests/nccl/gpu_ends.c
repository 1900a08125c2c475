/* SPDX-License-Identifier: BSD-3-Clause */
/* Ends that are not peaceful: while streams wait a call is aborted, a rank dies, its host is cut off, or calls differ.
 * The others are told by ncclCommGetAsyncError, their streams stay parked, and abort releases them. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "gpu_client.h"

#define COUNT 1000

static void reduce(const struct rank *rank, ncclComm_t comm, size_t count)
{
  NCCL(ncclAllReduce((void *)(uintptr_t)rank->in, (void *)(uintptr_t)rank->out, count, ncclFloat32, ncclSum, comm,
                     rank->streams[3]));
}

static void end_begin(const struct team *team, const char *name)
{
  processes_only(team, name);
  trial_name("%s", name);
  deadline(team->options->limit_s);
  meet(team);
}

static int is_last(const struct team *team)
{
  return team->ranks[0].number == team->options->nranks - 1;
}

/* Returns the result of which the rank is told; its stream is parked then. */
static int error_await(const struct rank *rank)
{
  int error = ncclSuccess;
  while (error == ncclSuccess || error == ncclInProgress) {
    NCCL(ncclCommGetAsyncError(rank->comm, &error));
    usleep(500);
  }
  if (cu.cuStreamQuery(rank->streams[3]) == 0) lost("the stream went on although the all-reduce has failed");
  return error;
}

/* Waits for the error, and aborts. `word` holds the stream, too; NULL: nothing does. */
static void told_and_released(struct rank *rank, const char *what, uint32_t *word, double began)
{
  int error = error_await(rank);
  double told_s = seconds_now() - began;
  began = seconds_now();
  NCCL(ncclCommAbort(rank->comm));
  if (word) word_set(word, 1);
  CU(cuStreamSynchronize(rank->streams[3]));
  printf("%s: rank %d, told after %.1f ms (result %d), released %.1f ms after abort\n", what, rank->number,
         1e3 * told_s, error, 1e3 * (seconds_now() - began));
  rank->comm = NULL;
}

struct aborter {
  ncclComm_t comm;
  double began, after_s;
};

static void *abort_later(void *argument)
{
  struct aborter *aborter = argument;
  usleep(50000);
  aborter->began = seconds_now();
  NCCL(ncclCommAbort(aborter->comm));
  aborter->after_s = seconds_now() - aborter->began;
  return NULL;
}

/* Rank 0 does not come. The others wait in the driver until another thread aborts. */
void abort_run(struct team *team)
{
  struct rank *rank = &team->ranks[0];
  struct aborter aborter = {.comm = rank->comm};
  pthread_t thread;
  end_begin(team, "abort");
  if (rank->number) {
    reduce(rank, rank->comm, COUNT);
    if (cu.cuStreamQuery(rank->streams[3]) == 0) lost("an all-reduce is done without rank 0");
    if (pthread_create(&thread, NULL, abort_later, &aborter) != 0) lost("no thread");
    CU(cuStreamSynchronize(rank->streams[3]));
    double released_s = seconds_now();
    pthread_join(thread, NULL);
    released_s -= aborter.began;
    printf("abort: rank %d, stream released after %.1f ms, call took %.1f ms\n", rank->number, 1e3 * released_s,
           1e3 * aborter.after_s);
  }
  meet(team);
  if (rank->number == 0) NCCL(ncclCommAbort(rank->comm));
  rank->comm = NULL;
}

static void last_dies(const struct team *team)
{
  if (!is_last(team)) return;
  team->meeting->is_dead = 1;
  raise(SIGKILL);
}

void kill_run(struct team *team)
{
  end_begin(team, "kill");
  last_dies(team);
  reduce(&team->ranks[0], team->ranks[0].comm, COUNT);
  told_and_released(&team->ranks[0], "kill", NULL, seconds_now());
}

/* As kill_run, but nobody asks for the error: the stream ends with one. */
void trap_run(struct team *team)
{
  const struct rank *rank = &team->ranks[0];
  end_begin(team, "trap");
  last_dies(team);
  double began = seconds_now();
  reduce(rank, rank->comm, COUNT);
  int code = cu.cuStreamSynchronize(rank->streams[3]);
  if (code == 0) lost("the stream went on although the all-reduce has failed");
  printf("trap: rank %d, the stream failed after %.1f ms with CUDA error %d\n", rank->number,
         1e3 * (seconds_now() - began), code);
  fflush(stdout);
  _exit(0); /* nothing of the context can be used any more */
}

/* The survivors go on in a communicator of their own, while those streams of the first one wait that they have given
 * to it. */
void shrink_run(struct team *team)
{
  struct rank *rank = &team->ranks[0];
  ncclComm_t smaller;
  int dead = team->options->nranks - 1;
  float sum, wanted = (float)(dead * (dead + 1) / 2), mine = (float)(rank->number + 1);
  end_begin(team, "shrink");
  if (dead == 0) lost("the case shrink wants two ranks");
  last_dies(team);
  reduce(rank, rank->comm, COUNT);
  error_await(rank);
  NCCL(ncclCommShrink(rank->comm, &dead, 1, &smaller, NULL, ncclShrinkAbort));
  NCCL(ncclCommAbort(rank->comm));
  rank->comm = NULL;
  CU(cuStreamSynchronize(rank->streams[3]));
  CU(cuMemcpyHtoD_v2(rank->in, &mine, sizeof mine));
  CU(cuCtxSynchronize()); /* copies of memory that is not pinned may return before they have reached the GPU */
  reduce(rank, smaller, 1);
  CU(cuStreamSynchronize(rank->streams[3]));
  CU(cuMemcpyDtoH_v2(&sum, rank->out, sizeof sum));
  if (sum != wanted) lost("the sum over the survivors is %g, not %g", (double)sum, (double)wanted);
  NCCL(ncclCommDestroy(smaller));
  printf("shrink: rank %d, right sum of %d survivors\n", rank->number, dead);
}

/* The last rank's call waits for its stream, that of the others for the last rank: then --cut is run. */
void outage_run(struct team *team)
{
  struct rank *rank = &team->ranks[0];
  uint64_t word = (uintptr_t)&rank->words[0];
  uint32_t open = 1;
  if (!team->options->cut) lost("the case outage wants --cut");
  word_set(&rank->words[0], 0);
  end_begin(team, "outage");
  if (is_last(team)) launch(rank, rank->spin, rank->streams[3], (void *[]){&word, &open});
  reduce(rank, rank->comm, COUNT);
  meet(team);
  if (rank->number == 0 && system(team->options->cut) != 0) lost("%s has failed", team->options->cut);
  meet(team);
  told_and_released(rank, "outage", is_last(team) ? &rank->words[0] : NULL, seconds_now());
}

/* The last rank brings one element more. */
void mismatch_run(struct team *team)
{
  end_begin(team, "mismatch");
  double began = seconds_now();
  reduce(&team->ranks[0], team->ranks[0].comm, (size_t)COUNT + (size_t)is_last(team));
  told_and_released(&team->ranks[0], "mismatch", NULL, began);
}
