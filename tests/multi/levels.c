/* SPDX-License-Identifier: BSD-3-Clause */
/* fault_level 1 without a loss: all collectives have the results of level 0; whatever is not carried out at that level
 * is refused with a sentence that names it, and the communicator goes on; a level that is not there is refused; a call
 * that differs between ranks ends all ranks with the same call, by the number that it has for the program. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "tutti_counts.h"
#include "tutti_fusion.h"
#include "tutti_grow.h"
#include "tutti_message.h"
#include "tutti_reduce.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

static tuttiResult_t join(const struct ranks *self, int level, tuttiComm_t *comm)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.fault_level = level;
  return tuttiCommInitRankConfig(comm, self->nranks, self->id, self->rank, &config);
}

static int counted(const struct ranks *self, tuttiComm_t comm)
{
  size_t counts[4] = {1, 0, 3, 2}, displs[4] = {0, 1, 1, 4};
  int32_t mine[3] = {self->rank, self->rank, self->rank}, all[6];
  RANKS_CHECK(tuttiAllGatherV(mine, counts[self->rank], all, counts, displs, tuttiInt32, comm, NULL) == tuttiSuccess);
  const int32_t wanted[6] = {0, 2, 2, 2, 3, 3};
  RANKS_CHECK(memcmp(all, wanted, sizeof wanted) == 0);
  return 0;
}

static int works(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiRedOp_t twice;
  double two = 2, value = self->rank + 1, shares[4], scattered[4] = {1, 2, 3, 4};
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  RANKS_CHECK(!comm_try(self, comm, self->nranks));
  RANKS_CHECK(tuttiAllGather(&value, shares, 1, tuttiDouble, comm, NULL) == tuttiSuccess && shares[3] == 4);
  RANKS_CHECK(tuttiScatter(scattered, &value, 1, tuttiDouble, 2, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(value == self->rank + 1);
  RANKS_CHECK(tuttiReduceScatter(scattered, &value, 1, tuttiDouble, tuttiAvg, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(value == self->rank + 1);
  RANKS_CHECK(tuttiRedOpCreatePreMulSum(&twice, &two, tuttiDouble, tuttiScalarHostImmediate, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&value, &value, 1, tuttiDouble, twice, comm, NULL) == tuttiSuccess && value == 20);
  RANKS_CHECK(tuttiRedOpDestroy(twice, comm) == tuttiSuccess);
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(!counted(self, comm));
  RANKS_CHECK(tuttiCommFinalize(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

#define REFUSED(call, what) \
  RANKS_CHECK((call) == tuttiInvalidUsage && says("fault_level 1, with which " what " are not"))

static int refuses(const struct ranks *self)
{
  tuttiComm_t comm, other;
  tuttiStream_t stream;
  tuttiFusion_t fusion;
  float value = 1;
  int from = 0;
  const char *name;
  void *handle = &value;
  tuttiUniqueId id;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  const tuttiFusionTensor_t tensor = {.count = 1, .type = tuttiFloat};
  options.codec = "int8";
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  REFUSED(tuttiAllReduce(&value, &value, 1, tuttiFloat, tuttiSum, comm, stream), "streams and groups");
  tuttiGroupStart();
  REFUSED(tuttiAllReduce(&value, &value, 1, tuttiFloat, tuttiSum, comm, NULL), "streams and groups");
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage);
  REFUSED(tuttiSend(&value, 1, tuttiFloat, 0, comm, NULL), "sends and receives");
  REFUSED(tuttiRecv(&value, 1, tuttiFloat, 0, comm, NULL), "sends and receives");
  REFUSED(tuttiSendTag(&value, 1, tuttiFloat, 0, 1, comm), "messages with tags");
  REFUSED(tuttiRecvTag(&value, 1, tuttiFloat, 0, 1, comm, NULL), "messages with tags");
  REFUSED(tuttiAllReduceWith(&value, &value, 1, tuttiFloat, tuttiSum, &options, comm, NULL), "codecs");
  REFUSED(tuttiFusionCreate(&fusion, comm, &tensor, 1, NULL), "fusions");
  REFUSED(tuttiCommSplit(comm, 0, 0, &other, NULL), "splits");
  REFUSED(tuttiCommShrink(comm, &from, 0, &other, NULL, TUTTI_SHRINK_ABORT), "shrinks");
  REFUSED(tuttiCommGetUniqueId(comm, &id), "grows");
  REFUSED(tuttiCommGrow(comm, self->nranks + 1, NULL, -1, &other, NULL), "grows");
  REFUSED(tuttiCommGetTransport(comm, 0, &name), "questions for transports");
  REFUSED(tuttiCommSuspend(comm, 0), "suspends");
  RANKS_CHECK(tuttiCommRegister(comm, &value, sizeof value, &handle) == tuttiSuccess && !handle);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(!comm_try(self, comm, self->nranks));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int refuses_levels(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(join(self, 2, &comm) == tuttiInvalidArgument && says("fault_level is 2, and holder groups are not"));
  RANKS_CHECK(join(self, 3, &comm) == tuttiInvalidUsage && says("nranks is 1, which is no multiple of 3"));
  RANKS_CHECK(join(self, 4, &comm) == tuttiInvalidArgument && says("config.fault_level is 4"));
  return 0;
}

static int differs(const struct ranks *self)
{
  tuttiComm_t comm;
  float value[2] = {0};
  tuttiResult_t result = tuttiSuccess, state;
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  for (int k = 0; k < 5; k++) RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  result = tuttiAllReduce(value, value, self->rank == 1 ? 2 : 1, tuttiFloat, tuttiSum, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage && says("calls differ") && says("AllReduce #6 "));
  RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiInvalidUsage);
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiInvalidUsage);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

/* The same in a later view. */
static int differs_later(const struct ranks *self)
{
  tuttiComm_t comm;
  float value[2] = {0};
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  for (int k = 0; k < 3; k++) RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  if (self->rank == 0) return tuttiCommAbort(comm) != tuttiSuccess;
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("collective #4 "));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  tuttiResult_t result = tuttiAllReduce(value, value, self->rank == 1 ? 2 : 1, tuttiFloat, tuttiSum, comm, NULL);
  RANKS_CHECK(result == tuttiInvalidUsage && says("calls differ") && says("AllReduce #6 "));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiInvalidUsage);
  return 0;
}

/* One rank aborts; the others go on without it. */
static int aborts(const struct ranks *self)
{
  tuttiComm_t comm;
  int nranks, rank;
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  if (self->rank == 0) {
    RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
    return 0;
  }
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("rank 0"));
  RANKS_CHECK(says("collective #2") && says("which are 3 from now on"));
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == 3);
  RANKS_CHECK(tuttiCommUserRank(comm, &rank) == tuttiSuccess && rank == self->rank - 1);
  double value = 6, average = 0;
  RANKS_CHECK(tuttiAllReduce(&value, &average, 1, tuttiDouble, tuttiAvg, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(average >= 5.999 && average <= 6.001); /* 1/3 is rounded */
  int failed[4], n = 4;
  RANKS_CHECK(tuttiCommGetFailed(comm, failed, &n) == tuttiSuccess && n >= 1 && failed[0] == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Rank 3 is late in the second view; the others go on without it, and it is told. */
static int is_late(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  tuttiResult_t state;
  int nranks;
  config.fault_level = 1;
  config.timeout_ms = 1000;
  config.init_timeout_ms = 60000; /* the views' start-ups are not what is late */
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (self->rank == 0) return tuttiCommAbort(comm) != tuttiSuccess;
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("rank 0"));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  if (self->rank == 3) {
    usleep(4000000);
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("the other ranks took rank 3"));
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiRemoteError);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    return 0;
  }
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("rank 3"));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Rank 3 learns of the first loss and never makes another call in time. */
static int never_comes(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t comm;
  int nranks;
  config.fault_level = 1;
  config.timeout_ms = 1000;
  config.init_timeout_ms = 60000;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  if (self->rank == 0) return tuttiCommAbort(comm) != tuttiSuccess;
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("rank 0"));
  if (self->rank == 3) {
    usleep(4000000);
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("the other ranks took rank 3"));
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiRemoteError);
    return 0;
  }
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("rank 3"));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == 2);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void *revoke_soon(void *comm)
{
  usleep(200000);
  tuttiCommRevoke(comm, TUTTI_REVOKE_DEFAULT);
  return NULL;
}

/* A revoke ends the calls of its rank, and the other one goes on without it. */
static int is_revoked(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiResult_t state;
  pthread_t thread;
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  if (self->rank == 1) {
    RANKS_CHECK(pthread_create(&thread, NULL, revoke_soon, comm) == 0);
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiInvalidUsage && says("rank 1") && says("has revoked"));
    RANKS_CHECK(pthread_join(thread, NULL) == 0);
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiInvalidUsage && says("has revoked"));
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiInvalidUsage);
    RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
    return 0;
  }
  usleep(600000);
  tuttiResult_t result = tuttiBarrier(comm, NULL); /* succeeds if rank 1 had done its part: then the next fails */
  if (result == tuttiSuccess) result = tuttiBarrier(comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError && says("rank 1"));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void *abort_soon(void *comm)
{
  usleep(200000);
  tuttiCommAbort(comm);
  return NULL;
}

/* A call in the second view, which another communicator carries out, ends when a thread aborts the first one. */
static int is_aborted(const struct ranks *self)
{
  tuttiComm_t comm;
  pthread_t thread;
  int nranks;
  RANKS_CHECK(join(self, 1, &comm) == tuttiSuccess);
  if (self->rank == 0) return tuttiCommAbort(comm) != tuttiSuccess;
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("rank 0"));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  if (self->rank == 1) {
    RANKS_CHECK(pthread_create(&thread, NULL, abort_soon, comm) == 0);
    RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiRemoteError && says("aborted"));
    return pthread_join(thread, NULL);
  }
  usleep(600000);
  tuttiResult_t result = tuttiBarrier(comm, NULL); /* succeeds if rank 1 had done its part: then the next fails */
  if (result == tuttiSuccess) result = tuttiBarrier(comm, NULL);
  RANKS_CHECK(result == tuttiRemoteError && says("rank 1"));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommCount(comm, &nranks) == tuttiSuccess && nranks == 1);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void collectives_have_the_results_of_level_0(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(4, works, NULL, 60), 0);
}

static void other_calls_are_refused_by_name(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(2, refuses, NULL, 60), 0);
}

static void other_levels_are_refused_by_name(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(1, refuses_levels, NULL, 60), 0);
}

static void calls_that_differ_end_all_ranks_alike(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(4, differs, NULL, 60), 0);
  assert_int_equal(ranks_run_threads(4, differs_later, NULL, 60), 0);
}

static void ranks_that_abort_are_left_behind(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(4, aborts, NULL, 60), 0);
}

static void late_ranks_are_left_behind_and_told(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(4, is_late, NULL, 60), 0);
}

static void calls_in_later_views_can_be_aborted(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(3, is_aborted, NULL, 60), 0);
}

static void ranks_that_never_come_to_a_later_view_are_left_behind(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(4, never_comes, NULL, 60), 0);
}

static void a_revoke_ends_the_calls_of_its_rank(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_threads(2, is_revoked, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(collectives_have_the_results_of_level_0), cmocka_unit_test(other_calls_are_refused_by_name),
    cmocka_unit_test(other_levels_are_refused_by_name), cmocka_unit_test(calls_that_differ_end_all_ranks_alike),
    cmocka_unit_test(ranks_that_abort_are_left_behind), cmocka_unit_test(late_ranks_are_left_behind_and_told),
    cmocka_unit_test(calls_in_later_views_can_be_aborted), cmocka_unit_test(a_revoke_ends_the_calls_of_its_rank),
    cmocka_unit_test(ranks_that_never_come_to_a_later_view_are_left_behind)};
  setenv("TUTTI_DEBUG", "NONE", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
