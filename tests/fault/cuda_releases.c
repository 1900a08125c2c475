/* SPDX-License-Identifier: BSD-3-Clause */
/* A rank dies while streams of another one wait for it in two communicators, and a thread of that frees memory: it is
 * inside the driver, waits there for the streams, and keeps all others out, on a driver without a GPU. Yet the error is
 * told, and abort, destroy and revoke, one communicator after the other, release the streams: they call no driver.
 * Labels: processes. */
#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>

#include "../multi/gpu_rank.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum end { BY_ABORT, BY_DESTROY, BY_REVOKE, ENDS };

struct job {
  enum end end;
  int *is_parked; /* shared: the streams of rank 1 wait */
};

struct freer {
  const struct gpu *gpu;
  void *memory;
  pthread_t thread;
  int comes; /* to its free */
};

static void *free_it(void *argument)
{
  struct freer *freer = argument;
  freer->gpu->cu.cuCtxSetCurrent(freer->gpu->context);
  __atomic_store_n(&freer->comes, 1, __ATOMIC_SEQ_CST);
  gpu_free(freer->gpu, freer->memory);
  return NULL;
}

static tuttiResult_t end(enum end how, tuttiComm_t comm)
{
  if (how == BY_REVOKE) return tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT);
  return how == BY_ABORT ? tuttiCommAbort(comm) : tuttiCommDestroy(comm);
}

#define COMMS 2

static int calls(const struct ranks *self, const struct gpu *gpu, const tuttiComm_t *comms, tuttiStream_t *streams)
{
  for (int c = 0; c < COMMS; c++) {
    void *memory = gpu_alloc(gpu, LONG * sizeof(float));
    RANKS_CHECK(tuttiStreamFromCuda(&streams[c], gpu->streams[c]) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(memory, memory, LONG, tuttiFloat, tuttiSum, comms[c], streams[c]) == tuttiSuccess);
  }
  return 0;
}

static int ends(const struct ranks *self, enum end how, const tuttiComm_t *comms)
{
  tuttiResult_t state = tuttiSuccess, wanted = how == BY_DESTROY ? tuttiRemoteError : tuttiSuccess;
  for (int c = 0; c < COMMS; c++, state = tuttiSuccess)
    while (state != tuttiRemoteError) {
      RANKS_CHECK(tuttiCommGetAsyncError(comms[c], &state) == tuttiSuccess);
      usleep(1000);
    }
  for (int c = 0; c < COMMS; c++) RANKS_CHECK(end(how, comms[c]) == wanted);
  return 0;
}

static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  struct gpu gpu;
  struct freer freer = {.gpu = &gpu};
  tuttiComm_t comms[COMMS];
  tuttiStream_t streams[COMMS];
  RANKS_CHECK(gpu_begin(&gpu, 0) == 0 && gpu_comm_make(self, &comms[0]) == 0);
  RANKS_CHECK(tuttiCommSplit(comms[0], 0, self->rank, &comms[1], NULL) == tuttiSuccess);
  if (self->rank == 0) {
    while (!__atomic_load_n(job->is_parked, __ATOMIC_SEQ_CST)) usleep(1000);
    raise(SIGKILL);
  }
  RANKS_CHECK((freer.memory = gpu_alloc(&gpu, 64)) != NULL && calls(self, &gpu, comms, streams) == 0);
  RANKS_CHECK(pthread_create(&freer.thread, NULL, free_it, &freer) == 0);
  while (!__atomic_load_n(&freer.comes, __ATOMIC_SEQ_CST)) usleep(1000);
  usleep(100000); /* it is inside */
  __atomic_store_n(job->is_parked, 1, __ATOMIC_SEQ_CST);
  RANKS_CHECK(pthread_tryjoin_np(freer.thread, NULL) != 0 && ends(self, job->end, comms) == 0);
  RANKS_CHECK(pthread_join(freer.thread, NULL) == 0);
  for (int c = 0; c < COMMS; c++) {
    RANKS_CHECK(gpu_wait(&gpu, gpu.streams[c]) == 0 && tuttiStreamDestroy(streams[c]) == tuttiSuccess);
    if (job->end == BY_REVOKE) RANKS_CHECK(tuttiCommDestroy(comms[c]) == tuttiSuccess);
  }
  return 0;
}

static void release_beside_a_free(enum end how)
{
  struct job job = {how, ranks_shared(sizeof(int))};
  int pids[2];
  *job.is_parked = 0;
  gpu_environment("4", "lock", "1024");
  ranks_start(2, body, &job, pids);
  assert_int_equal(ranks_wait(pids[0], 60), 128 + SIGKILL);
  assert_int_equal(ranks_wait(pids[1], 60), 0);
}

static void abort_needs_no_driver(void **state)
{
  (void)state;
  release_beside_a_free(BY_ABORT);
}

static void destroy_needs_no_driver(void **state)
{
  (void)state;
  release_beside_a_free(BY_DESTROY);
}

static void revoke_needs_no_driver(void **state)
{
  (void)state;
  release_beside_a_free(BY_REVOKE);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(abort_needs_no_driver),
      cmocka_unit_test(destroy_needs_no_driver),
      cmocka_unit_test(revoke_needs_no_driver),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
