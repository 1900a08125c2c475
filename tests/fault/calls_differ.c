/* SPDX-License-Identifier: BSD-3-Clause */
/* Ranks that call differently, come late, or give up: an error or a warning that says who and what, on every
 * rank, and never a hang. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/private.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define ODD 2 /* the rank that differs */

struct call {
  size_t count;
  tuttiDataType_t type;
  tuttiRedOp_t op;
  const char *words; /* what the sentence must say of it */
};

struct difference {
  struct call usual, odd;
};

static int differ(const struct ranks *self)
{
  const struct difference *difference = self->argument;
  const struct call *call = self->rank == ODD ? &difference->odd : &difference->usual;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  char *data = calloc(1000000, 8);
  tuttiResult_t result = tuttiSuccess;
  /* A rank may still be inside #3 when the others find that #4 differs: then #3 ends with that error. */
  for (int k = 0; k < 3 && result == tuttiSuccess; k++)
    result = tuttiAllReduce(data, data, 10, tuttiFloat, tuttiSum, comm, NULL);
  if (result == tuttiSuccess) result = tuttiAllReduce(data, data, call->count, call->type, call->op, comm, NULL);
  /* Who called with count 0 waits for nobody: it learns at its next call. */
  if (call->count == 0 && result == tuttiSuccess)
    result = tuttiAllReduce(data, data, 10, tuttiFloat, tuttiSum, comm, NULL);
  const char *sentence = tuttiGetLastError(comm);
  RANKS_CHECK(result == tuttiInvalidUsage);
  /* Over shm there is an exchange of the kind of memory before the first long call, which has a number, too. */
  int is_fifth = difference->usual.count >= 100000 && strcmp(getenv("TUTTI_TRANSPORTS"), "shm") == 0;
  RANKS_CHECK(strstr(sentence, "rank 2") && strstr(sentence, is_fifth ? "AllReduce #5 " : "AllReduce #4 "));
  RANKS_CHECK(strstr(sentence, difference->usual.words) && strstr(sentence, difference->odd.words));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  free(data);
  return 0;
}

static void differing_calls_are_named_on_all_ranks(void **state)
{
  static const struct difference kinds[] = {
      {{10, tuttiFloat, tuttiSum, "count 10,"}, {11, tuttiFloat, tuttiSum, "count 11,"}},
      {{100000, tuttiFloat, tuttiSum, "count 100000,"}, {100001, tuttiFloat, tuttiSum, "count 100001,"}},
      {{10, tuttiFloat, tuttiSum, "count 10,"}, {1000000, tuttiFloat, tuttiSum, "count 1000000,"}},
      {{10, tuttiFloat, tuttiSum, "count 10,"}, {0, tuttiFloat, tuttiSum, "count 0,"}},
      {{10, tuttiFloat, tuttiSum, "float"}, {10, tuttiInt32, tuttiSum, "int32"}},
      {{10, tuttiFloat, tuttiSum, "sum"}, {10, tuttiFloat, tuttiMax, "max"}},
  };
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++)
    for (int nranks = 3; nranks <= 5; nranks++) {
      setenv("TUTTI_TRANSPORTS", "shm", 1);
      assert_int_equal(ranks_run_processes(nranks, differ, (void *)(uintptr_t)&kinds[k], 30), 0);
      setenv("TUTTI_TRANSPORTS", "tcp", 1);
      assert_int_equal(ranks_run_processes(nranks, differ, (void *)(uintptr_t)&kinds[k], 30), 0);
    }
}

/* The root has nothing to take, and from then on nobody but the root sends. */
static int differ_before(const struct ranks *self)
{
  int hosts = *(const int *)self->argument;
  char host[32];
  snprintf(host, sizeof host, "host-%d", self->rank % hosts);
  setenv("TUTTI_HOSTID", host, 1);
  tuttiComm_t comm;
  float data[7] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  size_t count = self->rank == 0 ? 0 : 7;
  tuttiResult_t result = tuttiReduce(data, data, count, tuttiFloat, tuttiSum, 0, comm, NULL);
  for (int k = 0; k < 20000 && result == tuttiSuccess; k++) {
    result = tuttiBroadcast(data, data, 7, tuttiFloat, 0, comm, NULL);
    if (k >= 4) usleep(1000); /* the root learns of it from the others */
  }
  const char *sentence = tuttiGetLastError(comm);
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(strstr(sentence, "rank 0"));
  int is_known = strstr(sentence, "Reduce #1 (count 0") && strstr(sentence, "Reduce #1 (count 7");
  RANKS_CHECK(is_known || strstr(sentence, "but differed in a call before it"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

static void an_earlier_call_that_differed_is_found_at_the_next_message(void **state)
{
  static int hosts[] = {1, 2, 3};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_run_processes(3, differ_before, &hosts[0], 30), 0);
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  for (int h = 0; h < 3; h++) assert_int_equal(ranks_run_processes(3, differ_before, &hosts[h], 30), 0);
}

/* A split begins with an all-gather of 8 bytes, which nobody else's is. */
static int split_or_gather(const struct ranks *self)
{
  char mine[8] = "", all[8 * 8];
  tuttiComm_t comm, child = NULL;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  tuttiResult_t result = self->rank == ODD ? tuttiCommSplit(comm, 0, 0, &child, NULL)
                                           : tuttiAllGather(mine, all, sizeof mine, tuttiUint8, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage && !child);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "AllGather #1") && strstr(tuttiGetLastError(comm), "CommSplit #1"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

static void a_split_is_not_taken_for_an_all_gather(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_run_processes(4, split_or_gather, NULL, 30), 0);
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  assert_int_equal(ranks_run_processes(4, split_or_gather, NULL, 30), 0);
}

/* A barrier is an all-reduce of a byte, which nobody else's is. On rank 0 it is on a stream. */
static int barrier_or_sum(const struct ranks *self)
{
  unsigned char byte = 0;
  tuttiComm_t comm;
  tuttiStream_t stream = NULL;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  tuttiResult_t result = self->rank == ODD ? tuttiAllReduce(&byte, &byte, 1, tuttiUint8, tuttiMax, comm, NULL)
                                           : tuttiBarrier(comm, stream);
  if (stream) result = tuttiStreamDestroy(stream);
  RANKS_CHECK(result == tuttiInvalidUsage);
  RANKS_CHECK(comm_says(comm, "Barrier #1") && comm_says(comm, "AllReduce #1 (count 1, uint8, max)"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

static void a_barrier_is_not_taken_for_an_all_reduce(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_run_processes(4, barrier_or_sum, NULL, 30), 0);
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  assert_int_equal(ranks_run_processes(4, barrier_or_sum, NULL, 30), 0);
}

/* ---- late ranks ---- */

/* Waits for a warning about ODD that came to the log after *at: 1 if rank 1 is not in it. */
static int is_missed_alone(const char *log, long *at)
{
  char line[1024] = "";
  FILE *file = fopen(log, "r");
  while (file) {
    fseek(file, *at, SEEK_SET);
    if (!fgets(line, sizeof line, file) || !strchr(line, '\n')) {
      usleep(1000);
      continue;
    }
    *at = ftell(file);
    if (strstr(line, "WARN") && strstr(line, "rank 2")) break;
  }
  if (file) fclose(file);
  return file && !strstr(line, "rank 1 (");
}

/* ODD enters each call when it is missed. Where rank 1 was held up, and is named with it, once more. */
static int come_late(const struct ranks *self)
{
  tuttiComm_t comm;
  long at = 0;
  int alone = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 20 && !alone; k++) {
    alone = self->rank == ODD && is_missed_alone(self->argument, &at);
    RANKS_CHECK(tuttiAllReduce(&alone, &alone, 1, tuttiInt, tuttiMax, comm, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(alone);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_late_rank_is_warned_about_by_name(void **state)
{
  (void)state;
  char name[] = "/tmp/tutti-late-XXXXXX";
  int fd = mkstemp(name);
  assert_true(fd >= 0);
  close(fd);
  setenv("TUTTI_DEBUG", "WARN", 1);
  setenv("TUTTI_DEBUG_FILE", name, 1);
  setenv("TUTTI_LATE_WARN_MS", "200", 1);
  int bad = ranks_run_processes(3, come_late, name, 30);
  unlink(name);
  unsetenv("TUTTI_DEBUG_FILE");
  unsetenv("TUTTI_LATE_WARN_MS");
  assert_int_equal(bad, 0);
}

/* The argument of what follows counts, in memory that all ranks share, those that have seen what they had to see. */
static void seen(const struct ranks *self)
{
  atomic_fetch_add((_Atomic int *)self->argument, 1);
}

static void await_seen(const struct ranks *self, int ranks)
{
  while (atomic_load((_Atomic int *)self->argument) < ranks) usleep(1000);
}

static int run_and_count(int nranks, ranks_body body)
{
  return ranks_run_processes(nranks, body, ranks_shared(sizeof(_Atomic int)), 30);
}

static int never_come(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.timeout_ms = 1500;
  float x = 1;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (self->rank == ODD) await_seen(self, 2);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiRemoteError);
  seen(self);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "rank 2"));
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static void a_rank_later_than_the_timeout_is_an_error(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_ALGO", "ring", 1); /* the late rank needs an answer, else all that it needs may be there */
  assert_int_equal(run_and_count(3, never_come), 0);
  unsetenv("TUTTI_ALGO");
}

/* ---- abort ---- */

/* Once the call is inside, and probably sleeps. */
static void *abort_soon(void *context)
{
  tuttiComm_t comm = context;
  while (!atomic_load(&comm->life.inside)) usleep(1000);
  usleep(100000);
  tuttiCommAbort(comm);
  return NULL;
}

/* Rank ODD never enters. Rank 0 is aborted from another thread while it waits; the others see it leave. */
static int be_aborted(const struct ranks *self)
{
  tuttiComm_t comm;
  float *x = calloc(100000, sizeof *x);
  pthread_t thread;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == ODD) {
    await_seen(self, 2);
    tuttiCommDestroy(comm); /* an error or not, whatever it has heard */
    free(x);
    return 0;
  }
  if (self->rank == 0) pthread_create(&thread, NULL, abort_soon, comm);
  tuttiResult_t result = tuttiAllReduce(x, x, 100000, tuttiFloat, tuttiSum, comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError);
  if (self->rank == 0) {
    RANKS_CHECK(strstr(tuttiGetLastError(NULL), "aborted"));
    pthread_join(thread, NULL);
  } else {
    RANKS_CHECK(strstr(tuttiGetLastError(comm), "rank 0"));
    RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  }
  seen(self);
  free(x);
  return 0;
}

static void an_abort_releases_a_blocked_call(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int round = 0; round < 2; round++) {
    setenv("TUTTI_TRANSPORTS", round ? "tcp" : "shm", 1);
    assert_int_equal(run_and_count(3, be_aborted), 0);
  }
}

static int abort_streams(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiStream_t stream;
  float x[8] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  if (self->rank == 0) { /* the other never calls */
    for (int k = 0; k < 8; k++)
      RANKS_CHECK(tuttiAllReduce(&x[k], &x[k], 1, tuttiFloat, tuttiSum, comm, stream) == tuttiSuccess);
    usleep(100000);
    RANKS_CHECK(tuttiStreamQuery(stream) == tuttiInProgress);
    RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
    RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiRemoteError);
    RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiRemoteError);
    seen(self);
    return 0;
  }
  await_seen(self, 1);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static void an_abort_ends_queued_operations(void **state)
{
  (void)state;
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(run_and_count(2, abort_streams), 0);
}

static int leave_early(const struct ranks *self)
{
  tuttiComm_t comm;
  float x = 1;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == ODD) {
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
    return 0;
  }
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiRemoteError);
  RANKS_CHECK(strstr(tuttiGetLastError(comm), "rank 2") && strstr(tuttiGetLastError(comm), "left"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
  return 0;
}

static void a_rank_that_left_is_an_error_for_who_waits(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  assert_int_equal(ranks_run_processes(3, leave_early, NULL, 30), 0);
  setenv("TUTTI_TRANSPORTS", "tcp", 1);
  assert_int_equal(ranks_run_processes(3, leave_early, NULL, 30), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(differing_calls_are_named_on_all_ranks),
      cmocka_unit_test(an_earlier_call_that_differed_is_found_at_the_next_message),
      cmocka_unit_test(a_split_is_not_taken_for_an_all_gather),
      cmocka_unit_test(a_barrier_is_not_taken_for_an_all_reduce),
      cmocka_unit_test(a_late_rank_is_warned_about_by_name),
      cmocka_unit_test(a_rank_later_than_the_timeout_is_an_error),
      cmocka_unit_test(an_abort_releases_a_blocked_call),
      cmocka_unit_test(an_abort_ends_queued_operations),
      cmocka_unit_test(a_rank_that_left_is_an_error_for_who_waits),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
