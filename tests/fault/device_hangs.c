/* SPDX-License-Identifier: BSD-3-Clause */
/* A device whose work does not end keeps nobody in a call: who waits there for a scalar or for a copy of a fusion hears
 * of failures of other ranks, and of an abort. */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fake_device.h"
#include "meeting.h"
#include "ranks.h"
#include "tutti_fusion.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

enum { RANKS = 2, LIMIT_S = 60 };

/* Somebody waits for the device. */
static void hang_await(const struct tt_device *device)
{
  while (fake_device_count(device).waits == 0) usleep(1000);
}

/* ---- the scalar of a sum ---- */

struct job {
  const struct tt_device *device;
  int is_own; /* this rank aborts, not the other one */
  _Atomic(tuttiComm_t) comm;
  atomic_int has_ended; /* rank 0's call */
};

static void *abort_later(void *argument)
{
  struct job *job = argument;
  hang_await(job->device);
  tuttiCommAbort(job->comm);
  return NULL;
}

/* Rank 0 waits for its scalar. */
static int scalar_body(const struct ranks *self)
{
  struct job *job = self->argument;
  tuttiComm_t comm;
  tuttiRedOp_t op;
  pthread_t thread;
  float data[4] = {1, 2, 3, 4}, *scalar = job->device->alloc(job->device, sizeof *scalar);
  RANKS_CHECK(scalar && tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) {
    job->comm = comm;
    RANKS_CHECK(tuttiRedOpCreatePreMulSum(&op, scalar, tuttiFloat, tuttiScalarDevice, comm) == tuttiSuccess);
    if (job->is_own) RANKS_CHECK(pthread_create(&thread, NULL, abort_later, job) == 0);
    RANKS_CHECK(tuttiAllReduce(data, data, 4, tuttiFloat, op, comm, NULL) == tuttiRemoteError);
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "aborted"));
    atomic_store(&job->has_ended, 1);
    if (job->is_own) pthread_join(thread, NULL);
    else tuttiCommDestroy(comm);
  } else {
    hang_await(job->device);
    while (job->is_own && !atomic_load(&job->has_ended)) usleep(1000);
    if (job->is_own) tuttiCommDestroy(comm); /* it may have heard of the abort */
    else RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  }
  job->device->free(job->device, scalar);
  return 0;
}

static void who_waits_for_a_scalar_hears_of_an_abort(void **state)
{
  (void)state;
  for (int is_own = 0; is_own < 2; is_own++) {
    struct job job = {.device = fake_device_create(3), .is_own = is_own};
    assert_non_null(job.device);
    fake_device_hang(job.device, 1);
    assert_int_equal(ranks_run_threads(RANKS, scalar_body, &job, LIMIT_S), 0);
    fake_device_destroy(job.device);
  }
}

/* ---- a copy of a fusion ---- */

/* Rank 0 copies its tensors together when the other rank dies. */
static int fusion_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensors[] = {{"a", 1000, tuttiFloat}, {"b", 1000, tuttiFloat}};
  const struct tt_device *device = fake_device_create(3);
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  config.policy = "single";
  RANKS_CHECK(device && tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, 2, &config) == tuttiSuccess);
  if (self->rank == 1) {
    RANKS_CHECK(meeting_wait(self->argument));
    raise(SIGKILL);
  }
  fake_device_hang(device, 1);
  for (int t = 0; t < 2; t++) {
    void *data = device->alloc(device, 4000);
    RANKS_CHECK(data && tuttiFusionPush(fusion, t, data, data, 1000, tuttiFloat, NULL) == tuttiSuccess);
  }
  hang_await(device);
  RANKS_CHECK(meeting_wait(self->argument));
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiRemoteError);
  RANKS_CHECK(strstr(tuttiGetLastError(NULL), "rank 1 "));
  tuttiFusionDestroy(fusion);
  tuttiCommDestroy(comm);
  fake_device_destroy(device);
  return 0;
}

/* After 5 s, for the copy writes to the caller's memory. */
static void a_fusion_ends_though_a_copy_does_not(void **state)
{
  (void)state;
  int pids[RANKS];
  struct meeting *meeting = meeting_make(RANKS);
  assert_non_null(meeting);
  assert_int_equal(ranks_start(RANKS, fusion_body, meeting, pids), 0);
  assert_int_equal(ranks_wait(pids[1], LIMIT_S), 128 + SIGKILL);
  assert_int_equal(ranks_wait(pids[0], LIMIT_S), 0);
  meeting_free(meeting);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fusion_ends_though_a_copy_does_not),
      cmocka_unit_test(who_waits_for_a_scalar_hears_of_an_abort),
  };
  setenv("TUTTI_DEBUG", "NONE", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
