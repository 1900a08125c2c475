/* SPDX-License-Identifier: BSD-3-Clause */
/* The public functions where calls meet: groups and ends, streams made anew, inits that fail together. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "comm/private.h"
#include "ranks.h"
#include "slow.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COUNT 64

/* ---- streams ---- */

/* The progress thread may end with the last stream before it has taken an idle communicator off its list. */
static int streams_come_and_go_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float x[COUNT] = {1};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 200; k++) {
    tuttiStream_t stream;
    RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(x, x, COUNT, tuttiFloat, tuttiMax, comm, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiStreamSynchronize(stream) == tuttiSuccess);
    pthread_mutex_lock(&tt_process.mutex);
    tt_progress_add_locked(comm);
    pthread_mutex_unlock(&tt_process.mutex);
    RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void streams_come_and_go(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, streams_come_and_go_body, NULL, 60), 0);
}

/* ---- inits ---- */

static int ready(tuttiComm_t comm)
{
  tuttiResult_t state = tuttiInProgress;
  while (tuttiCommGetAsyncError(comm, &state) == tuttiSuccess && state == tuttiInProgress) usleep(500);
  return state == tuttiSuccess;
}

static int init_all_need_not_block_body(const struct ranks *self)
{
  enum { RANKS = 3 };
  tuttiComm_t comms[RANKS] = {NULL};
  float x[RANKS] = {1, 2, 3};
  setenv("TUTTI_COMM_BLOCKING", "0", 1);
  RANKS_CHECK(tuttiCommInitAll(comms, RANKS, NULL) == tuttiInProgress);
  for (int r = 0; r < RANKS; r++) RANKS_CHECK(comms[r] && ready(comms[r]));
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  for (int r = 0; r < RANKS; r++)
    RANKS_CHECK(tuttiAllReduce(&x[r], &x[r], 1, tuttiFloat, tuttiSum, comms[r], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess && x[0] == 6 && x[2] == 6);
  for (int r = 0; r < RANKS; r++) RANKS_CHECK(tuttiCommDestroy(comms[r]) == tuttiSuccess);
  return 0;
}

static void init_all_need_not_block(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, init_all_need_not_block_body, NULL, 60), 0);
}

/* One of two inits fails: neither handle is written, and nothing stays behind. */
static int inits_of_a_group_succeed_together_body(const struct ranks *self)
{
  tuttiComm_t good = NULL, bad = NULL;
  tuttiUniqueId lonely;
  setenv("TUTTI_INIT_TIMEOUT_MS", "1500", 1); /* for which this process is not held up */
  RANKS_CHECK(tuttiGetUniqueId(&lonely) == tuttiSuccess && tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&good, 1, self->id, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&bad, 2, lonely, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiRemoteError && says("rank 1"));
  RANKS_CHECK(!good && !bad);
  return 0;
}

static void inits_of_a_group_succeed_together(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, inits_of_a_group_succeed_together_body, NULL, 60), 0);
}

/* The process of rank 0 made the id: its root takes the limit of rank 0, unless the environment has one. */
static int rank_0_waits_as_long_as_it_says_body(const struct ranks *self)
{
  const int scale = IS_TSAN ? 8 : 1; /* to reach the own root takes that much longer there */
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  for (int is_set = 0; is_set < 2; is_set++) {
    tuttiComm_t comm = NULL;
    tuttiUniqueId id;
    int limit_ms = scale * (is_set ? 125 : 250);
    char text[32], within[32];
    snprintf(text, sizeof text, "%d", limit_ms);
    snprintf(within, sizeof within, "within %g s", limit_ms / 1e3);
    config.init_timeout_ms = is_set ? 300000 : limit_ms;
    if (is_set) setenv("TUTTI_INIT_TIMEOUT_MS", text, 1);
    RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
    RANKS_CHECK(tuttiCommInitRankConfig(&comm, 2, id, 0, &config) == tuttiRemoteError && !comm);
    RANKS_CHECK(says("rank 1 of 2 did not come within") && says(within));
  }
  config.init_timeout_ms = 0;
  tuttiComm_t comm = NULL;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 2, self->id, 0, &config) == tuttiInvalidArgument);
  RANKS_CHECK(says("config.init_timeout_ms is 0") && !comm);
  return 0;
}

static void rank_0_waits_as_long_as_it_says(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, rank_0_waits_as_long_as_it_says_body, NULL, 60), 0);
}

static int a_refused_group_starts_no_init_body(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  setenv("TUTTI_COMM_BLOCKING", "0", 1);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiSuccess && !comm);
  RANKS_CHECK(tuttiCommInitAll(&comm, 0, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidArgument && says("ndev is 0") && !comm);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  tuttiUniqueId id;
  RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, id, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInProgress && comm && ready(comm));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_refused_group_starts_no_init(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_refused_group_starts_no_init_body, NULL, 60), 0);
}

/* Both ranks are made by this thread and given up in the midst of the second or third round. */
static int a_half_made_communicator_is_freed_body(const struct ranks *self)
{
  struct tt_settings settings;
  setenv("TUTTI_SOCKET_IFNAME", "=nosuch0", 1);
  RANKS_CHECK(tt_settings_load(&settings) == tuttiSuccess);
  struct tuttiComm *comms[2] = {NULL, NULL};
  for (int r = 0; r < 2; r++) {
    struct tt_comm_spec spec = {.id = &self->id, .nranks = 2, .rank = r, .device = -1, .settings = &settings};
    RANKS_CHECK(tt_comm_create(&comms[r], &spec) == tuttiSuccess);
  }
  while (!comms[0]->parts.ntransports)
    for (int r = 0; r < 2; r++) RANKS_CHECK(tt_comm_create_poll(comms[r]) == tuttiInProgress);
  tt_comm_destroy(comms[0]);
  tt_comm_destroy(comms[1]);
  return 0;
}

static void a_half_made_communicator_is_freed(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_half_made_communicator_is_freed_body, NULL, 60), 0);
}

static int a_transport_is_named_once_body(const struct ranks *self)
{
  tuttiComm_t comm = NULL;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.transports = "shm,tcp,shm";
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, 1, self->id, 0, &config) == tuttiInvalidArgument && says("shm,tcp,shm"));
  return 0;
}

static void a_transport_is_named_once(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_transport_is_named_once_body, NULL, 60), 0);
}

static int nonblocking_inits_are_aborted_at_any_time_body(const struct ranks *self)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  for (int k = 0; k < 60; k += 1 + 2 * IS_SLOW) {
    tuttiComm_t comms[2];
    tuttiUniqueId id;
    RANKS_CHECK(tuttiGetUniqueId(&id) == tuttiSuccess);
    for (int r = 0; r < 2; r++)
      RANKS_CHECK(tuttiCommInitRankConfig(&comms[r], 2, id, r, &config) == tuttiInProgress);
    usleep((useconds_t)(k * 300));
    for (int r = 0; r < 2; r++) RANKS_CHECK(tuttiCommAbort(comms[r]) == tuttiSuccess);
  }
  return 0;
}

static void nonblocking_inits_are_aborted_at_any_time(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, nonblocking_inits_are_aborted_at_any_time_body, NULL, 60), 0);
}

/* ---- groups ---- */

static int the_first_refusal_is_told_at_the_end_body(const struct ranks *self)
{
  tuttiComm_t comm;
  float x[4] = {0};
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiSuccess && tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(NULL, x, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiAllReduce(x, NULL, 4, tuttiFloat, tuttiSum, comm, NULL) == tuttiInvalidArgument);
  RANKS_CHECK(tuttiGroupEnd() == tuttiInvalidArgument && says("sendbuff"));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void the_first_refusal_is_told_at_the_end(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, the_first_refusal_is_told_at_the_end_body, NULL, 60), 0);
}

static int a_group_outlives_its_communicators_body(const struct ranks *self)
{
  tuttiComm_t comms[2];
  tuttiStream_t stream;
  float x[3][COUNT] = {{0}};
  (void)self;
  for (int aborted = 0; aborted < 2; aborted++) {
    RANKS_CHECK(tuttiCommInitAll(comms, 2, NULL) == tuttiSuccess && tuttiStreamCreate(&stream) == tuttiSuccess);
    RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    for (int r = 0; r < 2; r++)
      RANKS_CHECK(tuttiAllReduce(x[r], x[r], COUNT, tuttiFloat, tuttiSum, comms[r], NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(x[2], x[2], COUNT, tuttiFloat, tuttiSum, comms[0], stream) == tuttiSuccess);
    if (aborted) RANKS_CHECK(tuttiCommAbort(comms[0]) == tuttiSuccess);
    else RANKS_CHECK(tuttiCommDestroy(comms[0]) == tuttiInvalidUsage && says("2 calls wait"));
    RANKS_CHECK(tuttiGroupEnd() == tuttiRemoteError && says("aborted"));
    RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess && tuttiCommDestroy(comms[1]) == tuttiSuccess);
  }
  return 0;
}

static void a_group_outlives_its_communicators(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_group_outlives_its_communicators_body, NULL, 60), 0);
}

struct victim {
  tuttiComm_t comm;
  _Atomic int queued; /* its calls are in the group; after that the handle may go */
};

static void *abort_soon(void *context)
{
  struct victim *victim = context;
  while (!atomic_load(&victim->queued)) usleep(100);
  usleep(3000);
  tuttiCommAbort(victim->comm);
  return NULL;
}

/* Rank 1 never calls; the group waits for it on the NULL stream and on a stream until another thread aborts. */
static int an_abort_ends_a_waiting_group_body(const struct ranks *self)
{
  (void)self;
  for (int k = 0; k < (IS_SLOW ? 20 : 50); k++) {
    tuttiComm_t comms[2];
    tuttiStream_t stream;
    pthread_t thread;
    static float x[3][COUNT];
    RANKS_CHECK(tuttiCommInitAll(comms, 2, NULL) == tuttiSuccess && tuttiStreamCreate(&stream) == tuttiSuccess);
    struct victim victim = {.comm = comms[0]};
    RANKS_CHECK(pthread_create(&thread, NULL, abort_soon, &victim) == 0 && tuttiGroupStart() == tuttiSuccess);
    for (int n = 0; n < 3; n++)
      RANKS_CHECK(tuttiAllReduce(x[n], x[n], COUNT, tuttiFloat, tuttiSum, comms[0], n == 1 ? stream : NULL) ==
                  tuttiSuccess);
    atomic_store(&victim.queued, 1);
    RANKS_CHECK(tuttiGroupEnd() == tuttiRemoteError);
    RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiRemoteError);
    pthread_join(thread, NULL);
    RANKS_CHECK(tuttiCommAbort(comms[1]) == tuttiSuccess);
  }
  return 0;
}

static void an_abort_ends_a_waiting_group(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, an_abort_ends_a_waiting_group_body, NULL, 60), 0);
}

/* ---- errors ---- */

static int a_sentence_stays_until_the_next_is_asked_for_body(const struct ranks *self)
{
  int rank;
  (void)self;
  RANKS_CHECK(tuttiGetVersion(NULL) == tuttiInvalidArgument);
  const char *sentence = tuttiGetLastError(NULL);
  RANKS_CHECK(tuttiCommUserRank(NULL, &rank) == tuttiInvalidArgument);
  RANKS_CHECK(strstr(sentence, "version") != NULL);
  return 0;
}

static void a_sentence_stays_until_the_next_is_asked_for(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, a_sentence_stays_until_the_next_is_asked_for_body, NULL, 60), 0);
}

/* ---- lengths ---- */

/* Scratch of a lane that was made for a shorter element must grow with a longer one. */
static int scratch_suits_every_type_body(const struct ranks *self)
{
  enum { MANY = 4097 };
  static float a[MANY];
  static double b[MANY];
  tuttiComm_t comm;
  setenv("TUTTI_ALGO", "recursive_doubling", 1);
  setenv("TUTTI_SEGMENT_BYTES", "16388", 1); /* 4097 floats; only 2048 doubles */
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(a, a, MANY, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(b, b, MANY, tuttiDouble, tuttiSum, comm, NULL) == tuttiSuccess);
  static float c[4 * MANY];
  for (int i = 0; i < 4 * MANY; i++) c[i] = (float)i;
  RANKS_CHECK(tuttiAllReduce(c, c, 4 * MANY, tuttiFloat, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int i = 0; i < 4 * MANY; i++) RANKS_CHECK(c[i] == (float)(i * self->nranks));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void scratch_suits_every_type(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(2, scratch_suits_every_type_body, NULL, 60), 0);
}

/* ---- fork ---- */

static int memory_is_refused_in_a_forked_child_body(const struct ranks *self)
{
  void *memory = NULL, *more = NULL;
  RANKS_CHECK(tuttiMemAlloc(&memory, 100) == tuttiSuccess);
  pid_t child = fork();
  if (child == 0) {
    int refused = tuttiMemAlloc(&more, 100) == tuttiInvalidUsage && tuttiMemFree(memory) == tuttiInvalidUsage;
    _exit(refused && says("forked") ? 0 : 1);
  }
  RANKS_CHECK(ranks_wait(child, 20) == 0 && tuttiMemFree(memory) == tuttiSuccess);
  return 0;
}

static void memory_is_refused_in_a_forked_child(void **state)
{
  (void)state;
  assert_int_equal(ranks_run_processes(1, memory_is_refused_in_a_forked_child_body, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_come_and_go),
      cmocka_unit_test(init_all_need_not_block),
      cmocka_unit_test(inits_of_a_group_succeed_together),
      cmocka_unit_test(rank_0_waits_as_long_as_it_says),
      cmocka_unit_test(a_refused_group_starts_no_init),
      cmocka_unit_test(a_half_made_communicator_is_freed),
      cmocka_unit_test(a_transport_is_named_once),
      cmocka_unit_test(nonblocking_inits_are_aborted_at_any_time),
      cmocka_unit_test(the_first_refusal_is_told_at_the_end),
      cmocka_unit_test(a_group_outlives_its_communicators),
      cmocka_unit_test(an_abort_ends_a_waiting_group),
      cmocka_unit_test(a_sentence_stays_until_the_next_is_asked_for),
      cmocka_unit_test(scratch_suits_every_type),
      cmocka_unit_test(memory_is_refused_in_a_forked_child),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
