/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions: refusals, groups, streams, inits of every kind, several communicators and threads. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "ranks.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT 1000

static void fill(float *data, size_t count, int rank)
{
  for (size_t i = 0; i < count; i++) data[i] = (float)(rank + (int)(i % 11));
}

/* data is the sum over nranks ranks of what fill made. */
static int is_sum(const float *data, size_t count, int nranks)
{
  for (size_t i = 0; i < count; i++)
    if (data[i] != (float)(nranks * (nranks - 1) / 2 + nranks * (int)(i % 11))) return 0;
  return 1;
}

/* ---- refusals ---- */

static int refusals_leave_the_communicator_usable_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float in[COUNT], out[COUNT];
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(NULL, out, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidArgument &&
              says("sendbuff"));
  RANKS_CHECK(tuttiAllReduce(in, NULL, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidArgument &&
              says("recvbuff"));
  RANKS_CHECK(tuttiAllReduce(in, in + 1, COUNT - 1, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidArgument &&
              says("overlaps"));
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, (tuttiDataType_t)17, tuttiSum, comm, NULL) == tuttiInvalidArgument &&
              says("type is 17"));
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, (tuttiDataType_t)-1, tuttiSum, comm, NULL) == tuttiInvalidArgument &&
              says("type is -1"));
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiFloat, tuttiNumOps, comm, NULL) == tuttiInvalidArgument &&
              says("op is 8"));
  RANKS_CHECK(tuttiAllReduce(in, out, SIZE_MAX / 2, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidArgument &&
              says("count is"));
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiFloat, tuttiSum, NULL, NULL) == tuttiInvalidArgument && says("comm"));
  char bytes[256] = {0};
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiFloat, tuttiSum, (tuttiComm_t)(void *)bytes, NULL) ==
              tuttiInvalidArgument);
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiFloat, tuttiSum, comm, (tuttiStream_t)(void *)bytes) ==
                  tuttiInvalidArgument &&
              says("stream"));
  fill(in, COUNT, self->rank);
  RANKS_CHECK(tuttiAllReduce(in, out, COUNT, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(is_sum(out, COUNT, self->nranks));
  RANKS_CHECK(tuttiAllReduce(NULL, NULL, 0, tuttiFloat, tuttiSum, comm, NULL) ==
              tuttiSuccess); /* count 0 reads nothing */
  tuttiResult_t state;
  RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void refusals_leave_the_communicator_usable(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, refusals_leave_the_communicator_usable_body, NULL, 60), 0);
}

static int wrong_inits_are_refused_body(const struct ranks *self)
{
  tuttiComm_t comm = (tuttiComm_t)(void *)0x1;
  tuttiUniqueId garbage;
  memset(&garbage, 0x5a, sizeof garbage);
  RANKS_CHECK(tuttiCommInitRank(NULL, 1, self->id, 0) == tuttiInvalidArgument && says("comm"));
  RANKS_CHECK(tuttiCommInitRank(&comm, 0, self->id, 0) == tuttiInvalidArgument && says("nranks is 0"));
  RANKS_CHECK(tuttiCommInitRank(&comm, INT32_MAX, self->id, 0) == tuttiInvalidArgument && says("nranks is 2147483647"));
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, 2) == tuttiInvalidArgument && says("rank is 2"));
  RANKS_CHECK(tuttiCommInitRank(&comm, 2, self->id, -1) == tuttiInvalidArgument && says("rank is -1"));
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, garbage, 0) == tuttiInvalidArgument);
  tuttiConfig_t config;
  memset(&config, 0, sizeof config);
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, self->id, 0, &config) == tuttiInvalidArgument &&
              says("TUTTI_CONFIG_INITIALIZER"));
  config = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
  config.blocking = 7;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, self->id, 0, &config) == tuttiInvalidArgument && says("blocking is 7"));
  config = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
  config.name = "two\nlines";
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, self->id, 0, &config) == tuttiInvalidArgument && says("config.name"));
  config = (tuttiConfig_t)TUTTI_CONFIG_INITIALIZER;
  config.transports = "pigeon";
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, self->id, 0, &config) == tuttiInvalidArgument && says("pigeon"));
  RANKS_CHECK(tuttiGetUniqueId(NULL) == tuttiInvalidArgument && tuttiGetVersion(NULL) == tuttiInvalidArgument);
  RANKS_CHECK(comm == (tuttiComm_t)(void *)0x1); /* outputs are written only on success */
  setenv("TUTTI_LANES", "99", 1);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiInvalidArgument && says("TUTTI_LANES"));
  setenv("TUTTI_LANES", "", 1);
  setenv("TUTTI_ALGO", "teleport", 1);
  tuttiUniqueId fresh;
  RANKS_CHECK(tuttiGetUniqueId(&fresh) == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, fresh, 0) == tuttiInvalidArgument && says("teleport") && says("ring"));
  return 0;
}

static void wrong_inits_are_refused(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, wrong_inits_are_refused_body, NULL, 60), 0);
}

/* ---- groups and InitAll: one thread drives all ranks ---- */

static int one_thread_drives_all_ranks_body(const struct ranks *self)
{
  enum { RANKS = 5 };
  tuttiComm_t comms[RANKS];
  static float in[RANKS][COUNT], out[RANKS][COUNT];
  int devices[RANKS] = {4, 3, 2, 1, 0}, device = -2;
  RANKS_CHECK(tuttiCommInitAll(comms, RANKS, devices) == tuttiSuccess);
  for (int round = 0; round < 3; round++) {
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess && tuttiGroupStart() == tuttiSuccess);
    for (int r = 0; r < RANKS; r++) {
      fill(in[r], COUNT, r);
      RANKS_CHECK(tuttiAllReduce(in[r], out[r], COUNT, tuttiFloat, tuttiSum, comms[r], NULL) == tuttiSuccess);
    }
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess); /* inner: nothing runs yet */
    RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    for (int r = 0; r < RANKS; r++) RANKS_CHECK(is_sum(out[r], COUNT, RANKS));
  }
  RANKS_CHECK(tuttiCommDevice(comms[0], &device) == tuttiSuccess && device == 4);
  for (int r = 0; r < RANKS; r++) RANKS_CHECK(tuttiCommDestroy(comms[r]) == tuttiSuccess);
  (void)self;
  return 0;
}

static void one_thread_drives_all_ranks(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, one_thread_drives_all_ranks_body, NULL, 60), 0);
}

static int a_refusal_keeps_the_whole_group_from_running_body(const struct ranks *self)
{
  tuttiComm_t comms[2];
  float in[2][4] = {{1, 1, 1, 1}, {2, 2, 2, 2}}, out[2][4] = {{0}};
  RANKS_CHECK(tuttiCommInitAll(comms, 2, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage); /* without a start */
  tuttiGroupStart();
  RANKS_CHECK(tuttiAllReduce(in[0], out[0], 4, tuttiFloat, tuttiSum, comms[0], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(in[1], NULL, 4, tuttiFloat, tuttiSum, comms[1], NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidArgument);
  RANKS_CHECK(out[0][0] == 0);
  tuttiGroupStart(); /* and nothing is left over */
  for (int r = 0; r < 2; r++)
    RANKS_CHECK(tuttiAllReduce(in[r], out[r], 4, tuttiFloat, tuttiSum, comms[r], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  RANKS_CHECK(out[0][0] == 3 && out[1][3] == 3);
  tuttiUniqueId id;
  tuttiComm_t extra;
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
  tuttiGroupStart();
  tuttiCommInitRank(&extra, 1, id, 0);
  tuttiAllReduce(in[0], out[0], 4, tuttiFloat, tuttiSum, comms[0], NULL);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidUsage && says("inits"));
  for (int r = 0; r < 2; r++) RANKS_CHECK(tuttiCommDestroy(comms[r]) == tuttiSuccess);
  (void)self;
  return 0;
}

static void a_refusal_keeps_the_whole_group_from_running(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_refusal_keeps_the_whole_group_from_running_body, NULL, 60), 0);
}

/* ---- streams ---- */

static int streams_keep_order_body(const struct ranks *self)
{
  enum { OPS = 40 };
  tuttiComm_t a;
  tuttiStream_t one, two;
  float(*data)[COUNT] = calloc(OPS, sizeof *data);
  RANKS_CHECK(data && tuttiCommInitRank(&a, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&one) == tuttiSuccess && tuttiStreamCreate(&two) == tuttiSuccess);
  float chain[COUNT];
  for (size_t i = 0; i < COUNT; i++) chain[i] = 1;
  for (int k = 0; k < 10; k++) /* each doubles (2 ranks): only right if they run one after the other */
    RANKS_CHECK(tuttiAllReduce(chain, chain, COUNT, tuttiFloat, tuttiSum, a, one) == tuttiSuccess);
  for (int k = 0; k < OPS; k++) {
    fill(data[k], COUNT, self->rank);
    RANKS_CHECK(tuttiAllReduce(data[k], data[k], COUNT, tuttiFloat, tuttiSum, a, k % 2 ? one : two) == tuttiSuccess);
  }
  float now[COUNT];
  fill(now, COUNT, self->rank); /* on this thread, behind all that is queued */
  RANKS_CHECK(tuttiAllReduce(now, now, COUNT, tuttiFloat, tuttiSum, a, NULL) == tuttiSuccess);
  RANKS_CHECK(is_sum(now, COUNT, self->nranks));
  RANKS_CHECK(tuttiStreamSynchronize(one) == tuttiSuccess && tuttiStreamSynchronize(two) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamQuery(one) == tuttiSuccess);
  float expected = 1;
  for (int k = 0; k < 10; k++) expected *= (float)self->nranks;
  for (size_t i = 0; i < COUNT; i++) RANKS_CHECK(chain[i] == expected);
  for (int k = 0; k < OPS; k++) RANKS_CHECK(is_sum(data[k], COUNT, self->nranks));
  RANKS_CHECK(tuttiCommFinalize(a) == tuttiSuccess);
  RANKS_CHECK(tuttiCommFinalize(a) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiAllReduce(now, now, 1, tuttiFloat, tuttiSum, a, NULL) == tuttiInvalidUsage && says("finalized"));
  RANKS_CHECK(tuttiStreamDestroy(one) == tuttiSuccess && tuttiStreamDestroy(two) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(a) == tuttiSuccess);
  free(data);
  return 0;
}

static void streams_keep_order(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, streams_keep_order_body, NULL, 60), 0);
  assert_int_equal(ranks_run_threads(4, streams_keep_order_body, NULL, 100), 0);
}

/* Two communicators in one stream: the second operation reads what the first one makes. */
static int a_stream_orders_several_communicators_body(const struct ranks *self)
{
  tuttiUniqueId *second = self->argument;
  tuttiComm_t a, b;
  tuttiStream_t stream;
  static _Thread_local float x[COUNT];
  RANKS_CHECK(tuttiCommInitRank(&a, self->nranks, self->id, self->rank) == tuttiSuccess);
  if (self->rank == 0) RANKS_CHECK(tuttiGetUniqueId(second) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 1, tuttiFloat, tuttiSum, a, NULL) == tuttiSuccess); /* the id is there */
  RANKS_CHECK(tuttiCommInitRank(&b, self->nranks, *second, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int round = 0; round < 5; round++) {
    for (size_t i = 0; i < COUNT; i++) x[i] = 1;
    if (self->rank == 1) usleep(20000); /* rank 0 has to wait with its second one */
    RANKS_CHECK(tuttiAllReduce(x, x, COUNT, tuttiFloat, tuttiSum, a, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(x, x, COUNT, tuttiFloat, tuttiSum, b, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
    for (size_t i = 0; i < COUNT; i++) RANKS_CHECK(x[i] == (float)(self->nranks * self->nranks));
  }
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(a) == tuttiSuccess && tuttiCommDestroy(b) == tuttiSuccess);
  return 0;
}

static void a_stream_orders_several_communicators(void **state)
{
  (void)state;
  assert_int_equal(
      ranks_run_processes(2, a_stream_orders_several_communicators_body, ranks_shared(sizeof(tuttiUniqueId)), 60), 0);
}

/* ---- non-blocking init ---- */

static int a_nonblocking_init_becomes_ready_body(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  config.name = "late starter";
  float x[4] = {1, 2, 3, 4};
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiInProgress);
  RANKS_CHECK(comm != NULL);
  tuttiResult_t state = tuttiInProgress;
  while (state == tuttiInProgress) {
    RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
    usleep(500);
  }
  RANKS_CHECK(state == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(x[3] == (float)(4 * self->nranks));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_nonblocking_init_becomes_ready(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(3, a_nonblocking_init_becomes_ready_body, NULL, 60), 0);
}

static int a_nonblocking_init_can_be_aborted_body(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 2, self->id, 0, &config) == tuttiInProgress); /* rank 1 never comes */
  usleep(50000);
  RANKS_CHECK(tuttiCommAbort(comm) == tuttiSuccess);
  return 0;
}

static void a_nonblocking_init_can_be_aborted(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_nonblocking_init_can_be_aborted_body, NULL, 60), 0);
}

/* ---- several communicators at once ---- */

struct pair {
  tuttiUniqueId id;
  int rank, wrong;
};

static void *use_a_communicator(void *context)
{
  struct pair *pair = context;
  tuttiComm_t comm;
  float data[COUNT];
  pair->wrong = tuttiCommInitRank(&comm, 2, pair->id, pair->rank) != tuttiSuccess;
  for (int k = 0; k < 100 && !pair->wrong; k++) {
    fill(data, COUNT, pair->rank);
    pair->wrong =
        tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, NULL) != tuttiSuccess || !is_sum(data, COUNT, 2);
  }
  if (!pair->wrong) pair->wrong = tuttiCommDestroy(comm) != tuttiSuccess;
  return NULL;
}

static void threads_use_communicators_of_their_own(void **state)
{
  (void)state;
  enum { COMMS = 4 };
  struct pair pairs[2 * COMMS];
  pthread_t threads[2 * COMMS];
  alarm(100);
  for (int c = 0; c < COMMS; c++) {
    assert_int_equal(tuttiGetUniqueId(&pairs[2 * c].id), tuttiSuccess);
    for (int r = 0; r < 2; r++) {
      pairs[2 * c + r].id = pairs[2 * c].id;
      pairs[2 * c + r].rank = r;
    }
  }
  for (int t = 0; t < 2 * COMMS; t++) pthread_create(&threads[t], NULL, use_a_communicator, &pairs[t]);
  for (int t = 0; t < 2 * COMMS; t++) {
    pthread_join(threads[t], NULL);
    assert_int_equal(pairs[t].wrong, 0);
  }
  alarm(0);
}

/* ---- fork ---- */

static int a_forked_child_is_refused_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float x[4] = {1, 1, 1, 1};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  pid_t child = fork();
  if (child == 0) {
    int refused = tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidUsage && says("forked");
    tuttiUniqueId id;
    refused = refused && tuttiGetUniqueId(&id) == tuttiInvalidUsage;
    _exit(refused ? 0 : 1);
  }
  RANKS_CHECK(ranks_wait(child, 20) == 0);
  RANKS_CHECK(tuttiAllReduce(x, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess); /* the parent goes on */
  RANKS_CHECK(x[0] == (float)(self->nranks * self->nranks));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_forked_child_is_refused(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, a_forked_child_is_refused_body, NULL, 60), 0);
}

/* ---- memory ---- */

static void memory_is_page_aligned_and_freed_once(void **state)
{
  (void)state;
  void *memory = NULL;
  assert_int_equal(tuttiMemAlloc(&memory, 100000), tuttiSuccess);
  assert_int_equal((uintptr_t)memory % 4096, 0);
  memset(memory, 1, 100000);
  assert_int_equal(tuttiMemFree((char *)memory + 4096), tuttiInvalidArgument);
  assert_int_equal(tuttiMemFree(memory), tuttiSuccess);
  assert_int_equal(tuttiMemFree(memory), tuttiInvalidArgument);
  assert_int_equal(tuttiMemFree(NULL), tuttiSuccess);
  assert_int_equal(tuttiMemAlloc(NULL, 1), tuttiInvalidArgument);
  assert_int_equal(tuttiMemAlloc(&memory, SIZE_MAX), tuttiSystemError);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(refusals_leave_the_communicator_usable),
      cmocka_unit_test(wrong_inits_are_refused),
      cmocka_unit_test(one_thread_drives_all_ranks),
      cmocka_unit_test(a_refusal_keeps_the_whole_group_from_running),
      cmocka_unit_test(a_nonblocking_init_becomes_ready),
      cmocka_unit_test(a_nonblocking_init_can_be_aborted),
      cmocka_unit_test(a_forked_child_is_refused),
      cmocka_unit_test(a_stream_orders_several_communicators),
      cmocka_unit_test(streams_keep_order), /* from here on this process itself uses the library */
      cmocka_unit_test(threads_use_communicators_of_their_own),
      cmocka_unit_test(memory_is_page_aligned_and_freed_once),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
