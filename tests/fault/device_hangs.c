/* SPDX-License-Identifier: BSD-3-Clause */
/* A GPU that does not come to a copy keeps nobody in a call without a stream: who waits there hears of failures of
 * other ranks, of an abort, and of the limit; on a driver without a GPU. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "driver_load.h"
#include "fake_driver.h"
#include "meeting.h"
#include "ranks.h"
#include "tutti_fusion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 2, LIMIT_S = 60, COUNT = 1000 };

static int comm_make(tuttiComm_t *comm, const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = self->rank;
  return tuttiCommInitRankConfig(comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess;
}

/* Copies are enqueued, and none begins. */
static void copy_await(void)
{
  while (fake_driver_load()->count().pending == 0) usleep(1000);
}

/* ---- a call ---- */

struct job {
  int is_own; /* this rank aborts, not the other one */
  _Atomic(tuttiComm_t) comm;
  atomic_int has_ended; /* rank 0's call */
  atomic_long copies;   /* before it; -1: not known yet */
};

static void *abort_later(void *argument)
{
  struct job *job = argument;
  copy_await();
  tuttiCommAbort(job->comm);
  return NULL;
}

/* The GPU has done all that rank 0's call has enqueued: nothing is called any more. */
static void rest_await(struct job *job)
{
  for (long calls = 0;;) {
    struct fake_cuda_counts now = fake_driver_load()->count();
    int rests = atomic_load(&job->copies) >= 0 && now.copies > job->copies && !now.pending && now.calls == calls;
    if (rests) return;
    calls = now.calls;
    usleep(100000);
  }
}

/* Two pieces of work are held: that of somebody else, and of the call. */
static void *let_go_later(void *argument)
{
  while (fake_driver_load()->count().pending < 3) usleep(1000);
  fake_driver_load()->hold(0);
  return argument;
}

static int call_body(const struct ranks *self)
{
  struct job *job = self->argument;
  const struct fake_cuda *fake = fake_driver_load();
  tuttiComm_t comm;
  pthread_t thread;
  float *data = fake->alloc(self->rank, FAKE_DEVICE, COUNT * sizeof *data);
  RANKS_CHECK(data && comm_make(&comm, self));
  if (self->rank == 0) {
    fake->hold(1);
    job->comm = comm;
    if (job->is_own) RANKS_CHECK(pthread_create(&thread, NULL, abort_later, job) == 0);
    RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "aborted"));
    fake->hold(0);
    atomic_store(&job->has_ended, 1);
    if (job->is_own) pthread_join(thread, NULL);
    else tuttiCommDestroy(comm);
  } else {
    copy_await();
    while (job->is_own && !atomic_load(&job->has_ended)) usleep(1000);
    if (job->is_own) tuttiCommDestroy(comm); /* it may have heard of the abort */
    else RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
    while (!atomic_load(&job->has_ended)) usleep(1000);
  }
  fake->free(data);
  return 0;
}

static void who_waits_for_a_gpu_hears_of_an_abort(void **state)
{
  (void)state;
  for (int is_own = 0; is_own < 2; is_own++) {
    struct job job = {.is_own = is_own};
    assert_int_equal(ranks_run_threads(RANKS, call_body, &job, LIMIT_S), 0);
  }
}

/* Rank 0's GPU is stuck with the results of a call for which nothing else is missing. */
static int results_body(const struct ranks *self)
{
  struct job *job = self->argument;
  const struct fake_cuda *fake = fake_driver_load();
  tuttiComm_t comm;
  pthread_t thread;
  float *data = fake->alloc(self->rank, FAKE_DEVICE, COUNT * sizeof *data), host[COUNT] = {0};
  RANKS_CHECK(data && comm_make(&comm, self));
  if (self->rank == 0) {
    job->comm = comm;
    atomic_store(&job->copies, fake->count().copies);
    RANKS_CHECK(pthread_create(&thread, NULL, abort_later, job) == 0);
    RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "aborted"));
    fake->hold(0);
    atomic_store(&job->has_ended, 1);
    pthread_join(thread, NULL);
  } else {
    rest_await(job);
    fake->hold(1);
    tuttiAllReduce(host, host, COUNT, tuttiFloat, tuttiSum, comm, NULL);
    while (!atomic_load(&job->has_ended)) usleep(1000);
    tuttiCommDestroy(comm);
  }
  fake->free(data);
  return 0;
}

static void who_waits_for_results_hears_of_an_abort(void **state)
{
  (void)state;
  struct job job = {.copies = -1};
  assert_int_equal(ranks_run_threads(RANKS, results_body, &job, LIMIT_S), 0);
}

/* Other work spoils the context when the copies are enqueued. */
static int spoilt_body(const struct ranks *self)
{
  const struct fake_cuda *fake = fake_driver_load();
  struct driver cu;
  void *context, *stream;
  tuttiComm_t comm;
  pthread_t thread;
  float *data = fake->alloc(0, FAKE_DEVICE, COUNT * sizeof *data);
  RANKS_CHECK(data && !driver_load(&cu, CUDA_DOUBLE) && comm_make(&comm, self));
  RANKS_CHECK(!cu.cuDevicePrimaryCtxRetain(&context, 0) && !cu.cuCtxSetCurrent(context));
  RANKS_CHECK(!cu.cuStreamCreate(&stream, 1));
  fake->hold(1);
  RANKS_CHECK(!cu.cuMemsetD8Async(64, 0, 4, stream)); /* no memory is there */
  RANKS_CHECK(pthread_create(&thread, NULL, let_go_later, NULL) == 0);
  RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiUnhandledCudaError);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "an illegal memory access was encountered"));
  pthread_join(thread, NULL);
  tuttiCommDestroy(comm);
  return 0;
}

static void who_waits_for_a_gpu_hears_of_its_error(void **state)
{
  (void)state;
  setenv("FAKE_CHANNELS", "1", 1);
  assert_int_equal(ranks_run_processes(1, spoilt_body, NULL, LIMIT_S), 0);
  unsetenv("FAKE_CHANNELS");
}

/* One rank, for which no other one can be late. */
static int limit_body(const struct ranks *self)
{
  const struct fake_cuda *fake = fake_driver_load();
  tuttiComm_t comm;
  float *data = fake->alloc(0, FAKE_DEVICE, COUNT * sizeof *data);
  RANKS_CHECK(data && comm_make(&comm, self));
  fake->hold(1);
  RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiUnhandledCudaError);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "GPU 0 has not ended a copy of a call for 300 ms (TUTTI_TIMEOUT_MS)"));
  fake->hold(0);
  tuttiCommDestroy(comm);
  fake->free(data);
  return 0;
}

static void waiting_for_a_gpu_has_a_limit(void **state)
{
  (void)state;
  setenv("TUTTI_TIMEOUT_MS", "300", 1);
  assert_int_equal(ranks_run_threads(1, limit_body, NULL, LIMIT_S), 0);
  unsetenv("TUTTI_TIMEOUT_MS");
}

/* ---- a push ---- */

struct holder {
  tuttiComm_t comm;
  pthread_t thread;
  atomic_int lets_go;
};

/* The GPU comes to its work a little after the death is known. */
static void *let_go_after_death(void *argument)
{
  struct holder *holder = argument;
  tuttiResult_t state = tuttiSuccess;
  while (state == tuttiSuccess && tuttiCommGetAsyncError(holder->comm, &state) == tuttiSuccess) usleep(1000);
  usleep(200000);
  atomic_store(&holder->lets_go, 1);
  fake_driver_load()->hold(0);
  return NULL;
}

/* The GPU has not come to rank 0's tensor when the other rank dies. The push ends when the copy is over, which reads
 * the tensor. */
static int push_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensor = {"a", COUNT, tuttiFloat};
  const struct fake_cuda *fake = fake_driver_load();
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  struct holder holder;
  void *data = fake->alloc(self->rank, FAKE_DEVICE, COUNT * sizeof(float));
  RANKS_CHECK(data && comm_make(&comm, self));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &tensor, 1, NULL) == tuttiSuccess);
  holder = (struct holder){.comm = comm};
  if (self->rank == 1) {
    RANKS_CHECK(meeting_wait(self->argument));
    raise(SIGKILL);
  }
  fake->hold(1);
  RANKS_CHECK(pthread_create(&holder.thread, NULL, let_go_after_death, &holder) == 0);
  RANKS_CHECK(meeting_wait(self->argument));
  RANKS_CHECK(tuttiFusionPush(fusion, 0, data, data, COUNT, tuttiFloat, NULL) == tuttiRemoteError);
  RANKS_CHECK(strstr(tuttiGetLastError(NULL), "rank 1 ") && atomic_load(&holder.lets_go));
  pthread_join(holder.thread, NULL);
  tuttiFusionDestroy(fusion);
  tuttiCommDestroy(comm);
  return 0;
}

static void who_pushes_hears_of_a_death(void **state)
{
  (void)state;
  int pids[RANKS];
  struct meeting *meeting = meeting_make(RANKS);
  assert_non_null(meeting);
  assert_int_equal(ranks_start(RANKS, push_body, meeting, pids), 0);
  assert_int_equal(ranks_wait(pids[1], LIMIT_S), 128 + SIGKILL);
  assert_int_equal(ranks_wait(pids[0], LIMIT_S), 0);
  meeting_free(meeting);
}

struct pusher {
  tuttiFusion_t fusion;
  void *data, *sum;
  tuttiResult_t result;
};

static void *push_it(void *argument)
{
  struct pusher *its = argument;
  its->result = tuttiFusionPush(its->fusion, 0, its->data, its->sum, COUNT, tuttiFloat, NULL);
  return NULL;
}

/* A push that comes while another one of the same tensor is copied is refused, and changes nothing. */
static int twice_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensor = {"a", COUNT, tuttiFloat};
  const struct fake_cuda *fake = fake_driver_load();
  float values[COUNT];
  struct pusher its[2];
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  pthread_t threads[2];
  RANKS_CHECK(comm_make(&comm, self) && tuttiFusionCreate(&fusion, comm, &tensor, 1, NULL) == tuttiSuccess);
  fake->hold(1);
  for (int k = 0; k < 2; k++) {
    its[k] = (struct pusher){.fusion = fusion, .data = fake->alloc(0, FAKE_DEVICE, sizeof values),
                             .sum = fake->alloc(0, FAKE_DEVICE, sizeof values)};
    for (int i = 0; i < COUNT; i++) values[i] = (float)(k + 1);
    fake->write(its[k].data, values, sizeof values);
    RANKS_CHECK(pthread_create(&threads[k], NULL, push_it, &its[k]) == 0);
    copy_await();
    usleep(100000);
  }
  fake->hold(0);
  for (int k = 0; k < 2; k++) pthread_join(threads[k], NULL);
  RANKS_CHECK(its[0].result == tuttiSuccess && its[1].result == tuttiInvalidUsage);
  RANKS_CHECK(tuttiFusionWait(fusion, 0) == tuttiSuccess);
  fake->read(values, its[0].sum, sizeof values);
  for (int i = 0; i < COUNT; i++) RANKS_CHECK(values[i] == 1);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void who_pushes_beside_another_changes_nothing(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, twice_body, NULL, LIMIT_S), 0);
}

/* The processes come first: they must be the first to use the library. */
int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(who_pushes_hears_of_a_death),
      cmocka_unit_test(who_pushes_beside_another_changes_nothing),
      cmocka_unit_test(who_waits_for_a_gpu_hears_of_its_error),
      cmocka_unit_test(who_waits_for_a_gpu_hears_of_an_abort),
      cmocka_unit_test(who_waits_for_results_hears_of_an_abort),
      cmocka_unit_test(waiting_for_a_gpu_has_a_limit),
  };
  setenv("TUTTI_DEBUG", "NONE", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
