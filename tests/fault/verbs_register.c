/* SPDX-License-Identifier: BSD-3-Clause */
/* Calls of communicators on the double of libibverbs: what lies in memory of tuttiMemAlloc, or was registered, is
 * written straight into place; registrations are checked and taken back, also those of CUDA memory, on a driver without
 * a GPU. */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/base.h"
#include "fake_driver.h"
#include "fake_verbs.h"
#include "meeting.h"
#include "ranks.h"

#define RANKS 3
#define COUNT 600000
#define SLOT 65536 /* what is written into a ring is no longer */
#define LIMIT_S 60

static const struct fake_verbs *fake;

static int value(int rank, int i)
{
  return rank * 1000003 + i;
}

static int reduces(const struct ranks *self, tuttiComm_t comm, int *in, int *out)
{
  for (int i = 0; i < COUNT; i++) in[i] = value(self->rank, i);
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiInt, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < COUNT; i++) RANKS_CHECK(out[i] == value(0, i) + value(1, i) + value(2, i));
  return 0;
}

static int broadcasts(const struct ranks *self, tuttiComm_t comm, int *data)
{
  for (int i = 0; i < COUNT; i++) data[i] = self->rank == 1 ? value(7, i) : -1;
  RANKS_CHECK(tuttiBcast(data, COUNT, tuttiInt, 1, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < COUNT; i++) RANKS_CHECK(data[i] == value(7, i));
  return 0;
}

/* The longest write while all ranks reduce, or, without `out`, broadcast. */
static long longest_of(const struct ranks *self, tuttiComm_t comm, int *in, int *out)
{
  struct meeting *meeting = self->argument;
  meeting_wait(meeting);
  if (self->rank == 0) fake->reset();
  meeting_wait(meeting);
  int bad = out ? reduces(self, comm, in, out) : broadcasts(self, comm, in);
  meeting_wait(meeting);
  return bad ? -1 : fake->count().longest;
}

static int of_the_heap(const struct ranks *self)
{
  tuttiComm_t comm;
  void *in, *out;
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiMemAlloc(&in, COUNT * sizeof(int)) == tuttiSuccess);
  RANKS_CHECK(tuttiMemAlloc(&out, COUNT * sizeof(int)) == tuttiSuccess);
  RANKS_CHECK(longest_of(self, comm, in, out) > SLOT);
  RANKS_CHECK(longest_of(self, comm, in, NULL) > SLOT);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiMemFree(in) == tuttiSuccess);
  RANKS_CHECK(tuttiMemFree(out) == tuttiSuccess);
  return 0;
}

static int registered(const struct ranks *self)
{
  tuttiComm_t comm;
  void *data = malloc(COUNT * sizeof(int)), *handle = NULL, *again = NULL;
  RANKS_CHECK(data && tuttiCommInitRank(&comm, RANKS, self->id, self->rank) == tuttiSuccess);
  long longest = longest_of(self, comm, data, NULL);
  RANKS_CHECK(longest > 0 && longest <= SLOT);
  RANKS_CHECK(tuttiCommRegister(comm, data, COUNT * sizeof(int), &handle) == tuttiSuccess && handle);
  RANKS_CHECK(longest_of(self, comm, data, NULL) > SLOT);
  RANKS_CHECK(tuttiCommRegister(comm, data, 100, &again) == tuttiSuccess && again);
  RANKS_CHECK(tuttiCommDeregister(comm, handle) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDeregister(comm, handle) == tuttiInvalidArgument);
  longest = longest_of(self, comm, data, NULL);
  RANKS_CHECK(longest > 0 && longest <= SLOT);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess); /* takes `again` back */
  free(data);
  return 0;
}

static int refused(const struct ranks *self)
{
  tuttiComm_t comm;
  struct meeting *meeting = self->argument;
  static char data[RANKS][100];
  void *handle = &handle;
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommRegister(NULL, data, 100, &handle) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommRegister(comm, NULL, 100, &handle) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommRegister(comm, data, 0, &handle) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommRegister(comm, data, SIZE_MAX, &handle) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommRegister(comm, data, 100, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommDeregister(comm, &handle) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiCommDeregister(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(meeting));
  if (self->rank == 0) {
    fake->break_at("ibv_reg_mr", 1, ENOMEM);
    RANKS_CHECK(tuttiCommRegister(comm, data[0], 100, &handle) == tuttiSystemError && handle == &handle);
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "ulimit -l") != NULL);
    fake->break_at(NULL, 0, 0);
  }
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(tuttiCommRegister(comm, data[self->rank], 100, &handle) == tuttiSuccess); /* it is as good as before */
  RANKS_CHECK(tuttiCommDeregister(comm, handle) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int on_a_gpu(const struct ranks *self)
{
  const struct fake_cuda *cuda = fake_driver_load();
  struct meeting *meeting = self->argument;
  tuttiComm_t comm;
  void *handle = NULL;
  char *data = cuda->alloc(self->rank % 2, FAKE_DEVICE, 3 << 20);
  RANKS_CHECK(data && tuttiCommInitRank(&comm, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(meeting));
  long before = fake->count().registered;
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(tuttiCommRegister(comm, data + 100, 2 << 20, &handle) == tuttiSuccess && handle);
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(fake->count().registered == before + RANKS * (2l << 20));
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(tuttiCommDeregister(comm, handle) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(fake->count().registered == before);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  cuda->free(data);
  return 0;
}

static int by_default(const struct ranks *self)
{
  const size_t len = 64 << 20;
  struct meeting *meeting = self->argument;
  tuttiComm_t comm;
  void *in, *out;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiMemAlloc(&in, len) == tuttiSuccess && tuttiMemAlloc(&out, len) == tuttiSuccess);
  memset(in, 1 << self->rank, len);
  RANKS_CHECK(tuttiAllReduce(in, out, len, tuttiInt8, tuttiSum, comm, NULL) == tuttiSuccess);
  for (size_t i = 0; i < len; i++) RANKS_CHECK(((char *)out)[i] == (1 << self->nranks) - 1);
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(fake->count().longest > SLOT);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiMemFree(in) == tuttiSuccess && tuttiMemFree(out) == tuttiSuccess);
  return 0;
}

struct job {
  int nranks;
  ranks_body body;
  struct meeting *meeting;
};

static int as_threads(const struct ranks *self)
{
  const struct job *job = self->argument;
  if (ranks_run_threads(job->nranks, job->body, job->meeting, LIMIT_S)) return 1;
  return !fake->is_clean();
}

/* Ranks as threads, in a process of their own. */
static void try_it(int nranks, ranks_body body)
{
  struct job job = {nranks, body, meeting_make(nranks)};
  fake->reset();
  assert_int_equal(ranks_run_processes(1, as_threads, &job, LIMIT_S), 0);
  meeting_free(job.meeting);
}

static void memory_of_the_heap_is_written_straight_into_place(void **state)
{
  (void)state;
  try_it(RANKS, of_the_heap);
}

static void registered_memory_is_written_straight_into_place(void **state)
{
  (void)state;
  try_it(RANKS, registered);
}

static void bad_registrations_are_refused_with_a_sentence(void **state)
{
  (void)state;
  try_it(RANKS, refused);
}

static void memory_of_a_gpu_is_shown_to_the_device(void **state)
{
  (void)state;
  try_it(RANKS, on_a_gpu);
}

static void long_calls_are_written_straight_into_place_by_default(void **state)
{
  (void)state;
  unsetenv("TUTTI_IB_DIRECT_BYTES");
  unsetenv("TUTTI_SEGMENT_BYTES");
  try_it(2, by_default);
  try_it(4, by_default);
}

int main(void)
{
  fake = fake_verbs();
  setenv("TUTTI_TRANSPORTS", "verbs", 1);
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_CACHE", "none", 1);
  setenv("TUTTI_IB_DIRECT_BYTES", "131072", 1);
  setenv("TUTTI_SEGMENT_BYTES", "1048576", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(memory_of_the_heap_is_written_straight_into_place),
      cmocka_unit_test(registered_memory_is_written_straight_into_place),
      cmocka_unit_test(bad_registrations_are_refused_with_a_sentence),
      cmocka_unit_test(memory_of_a_gpu_is_shown_to_the_device),
      cmocka_unit_test(long_calls_are_written_straight_into_place_by_default), /* takes settings away */
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
