/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks as threads of one process: no launcher is needed. Start it by itself. */
#include "say.h"

#include <pthread.h>

#define RANKS 4

static tuttiUniqueId id; /* made once, known to all threads; processes would get it by any channel */

static void *rank_run(void *number)
{
  int rank = *(int *)number, sum;
  tuttiComm_t comm;
  must(tuttiCommInitRank(&comm, RANKS, id, rank), "tuttiCommInitRank"); /* returns when all ranks are there */
  must(tuttiAllReduce(&rank, &sum, 1, tuttiInt32, tuttiSum, comm, NULL), "tuttiAllReduce");
  printf("thread %d: %d\n", rank, sum);
  must(tuttiCommDestroy(comm), "tuttiCommDestroy");
  return NULL;
}

int main(void)
{
  pthread_t threads[RANKS];
  int numbers[RANKS];
  must(tuttiGetUniqueId(&id), "tuttiGetUniqueId");
  for (int i = 0; i < RANKS; i++) {
    numbers[i] = i;
    if (pthread_create(&threads[i], NULL, rank_run, &numbers[i])) return 1;
  }
  for (int i = 0; i < RANKS; i++) pthread_join(threads[i], NULL);
  return 0;
}
