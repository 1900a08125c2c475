/* SPDX-License-Identifier: BSD-3-Clause */
/* An event ends with the operations that its stream had when it was recorded, neither earlier nor later, with the
 * result of the newest of them, and whatever becomes of ranks, communicators and streams. */
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "ranks.h"
#include "tutti_event.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define LIMIT_S 60
#define LONG_MS 40000 /* ends a test that hangs */
#define CALLS 40

/* Shared by all ranks: how many operations ranks other than 0 may begin, and how many ranks have come to the end. */
struct gate {
  _Atomic int open, ended;
};

static void pass(struct gate *gate, int k)
{
  while (atomic_load(&gate->open) <= k) usleep(200);
}

static int is_readable(tuttiEvent_t event, int wait_ms)
{
  struct pollfd look = {.fd = -1, .events = POLLIN};
  if (tuttiEventDescriptor(event, &look.fd) != tuttiSuccess) return -1;
  int n = poll(&look, 1, wait_ms);
  return n == 1 ? look.revents == POLLIN : n;
}

static int is_pending(tuttiEvent_t event)
{
  return tuttiEventQuery(event) == tuttiInProgress && tuttiEventSynchronize(event, 0) == tuttiInProgress;
}

static void run_by(int (*runner)(int, ranks_body, void *, int), int nranks, ranks_body body)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    assert_int_equal(runner(nranks, body, ranks_shared(sizeof(struct gate)), LIMIT_S), 0);
  }
}

static void run(int nranks, ranks_body body)
{
  run_by(ranks_run_processes, nranks, body);
}

/* ---- order ---- */

/* Rank 0 has all operations on its stream at once, with events between them, and lets the others come to one after the
 * other. */
static int check_order(const struct ranks *self, tuttiEvent_t *events, const int *x)
{
  struct gate *gate = self->argument;
  int fd, again;
  RANKS_CHECK(tuttiEventDescriptor(events[CALLS - 1], &fd) == tuttiSuccess);
  for (int k = 0; k < CALLS; k++) {
    for (int later = k; later < CALLS; later++) RANKS_CHECK(is_pending(events[later]));
    if (k % 3) RANKS_CHECK(is_readable(events[k], 0) == 0);
    RANKS_CHECK(is_readable(events[CALLS - 1], 0) == 0);
    atomic_store(&gate->open, k + 1);
    if (k % 3) RANKS_CHECK(is_readable(events[k], LONG_MS) == 1);
    else RANKS_CHECK(tuttiEventSynchronize(events[k], LONG_MS) == tuttiSuccess);
    for (int i = 0; i < 2; i++) RANKS_CHECK(tuttiEventQuery(events[k]) == tuttiSuccess);
    RANKS_CHECK(x[k] == (k + 1) * self->nranks);
    for (int i = 0; i < 2; i++) RANKS_CHECK(is_readable(events[k], 0) == 1);
  }
  RANKS_CHECK(tuttiEventDescriptor(events[CALLS - 1], &again) == tuttiSuccess && again == fd);
  return 0;
}

static int order_body(const struct ranks *self)
{
  tuttiEvent_t events[CALLS];
  tuttiComm_t comm;
  tuttiStream_t stream;
  int x[CALLS];
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int k = 0; k < CALLS; k++) {
    x[k] = k + 1;
    if (self->rank) pass(self->argument, k);
    RANKS_CHECK(tuttiAllReduce(&x[k], &x[k], 1, tuttiInt, tuttiSum, comm, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiEventCreate(&events[k]) == tuttiSuccess);
    RANKS_CHECK(tuttiEventRecord(events[k], stream) == tuttiSuccess);
  }
  if (self->rank == 0) RANKS_CHECK(check_order(self, events, x) == 0);
  RANKS_CHECK(tuttiEventSynchronize(events[CALLS - 1], -1) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  for (int k = 0; k < CALLS; k++) /* they outlive both */
    RANKS_CHECK(tuttiEventQuery(events[k]) == tuttiSuccess && tuttiEventDestroy(events[k]) == tuttiSuccess);
  return 0;
}

static void events_end_in_order_and_not_before_their_operations(void **state)
{
  (void)state;
  run(2, order_body);
  run(3, order_body);
}

/* ---- many at one place, forgotten, recorded again ---- */

#define MANY 300

static int check_many(const struct ranks *self, tuttiEvent_t *events, tuttiStream_t stream, tuttiStream_t empty)
{
  struct gate *gate = self->argument;
  for (int i = 0; i < MANY; i++) RANKS_CHECK(is_pending(events[i]));
  for (int i = 0; i < MANY; i += 3) RANKS_CHECK(tuttiEventDestroy(events[i]) == tuttiSuccess); /* while they wait */
  RANKS_CHECK(is_readable(events[1], 0) == 0);
  RANKS_CHECK(tuttiEventRecord(events[1], empty) == tuttiSuccess); /* it stands for nothing any more */
  RANKS_CHECK(tuttiEventQuery(events[1]) == tuttiSuccess && is_readable(events[1], 0) == 1);
  RANKS_CHECK(tuttiEventRecord(events[1], stream) == tuttiSuccess); /* now behind all of them */
  RANKS_CHECK(is_pending(events[1]) && is_readable(events[1], 0) == 0);
  atomic_store(&gate->open, 1);
  for (int i = 2; i < MANY / 2; i += 1 + i % 3)
    RANKS_CHECK(i % 3 == 0 || tuttiEventSynchronize(events[i], LONG_MS) == tuttiSuccess);
  RANKS_CHECK(is_pending(events[1]) && is_pending(events[MANY - 1]));
  atomic_store(&gate->open, 2);
  RANKS_CHECK(tuttiEventSynchronize(events[1], LONG_MS) == tuttiSuccess && is_readable(events[1], 0) == 1);
  for (int i = 2; i < MANY; i++) RANKS_CHECK(i % 3 == 0 || tuttiEventQuery(events[i]) == tuttiSuccess);
  return 0;
}

static int many_body(const struct ranks *self)
{
  tuttiEvent_t events[MANY];
  tuttiComm_t comm;
  tuttiStream_t stream, empty;
  int x[] = {1, 1};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess && tuttiStreamCreate(&empty) == tuttiSuccess);
  for (int i = 0; i < MANY; i++) RANKS_CHECK(tuttiEventCreate(&events[i]) == tuttiSuccess);
  for (int k = 0; k < 2; k++) {
    if (self->rank) pass(self->argument, k);
    RANKS_CHECK(tuttiAllReduce(&x[k], &x[k], 1, tuttiInt, tuttiSum, comm, stream) == tuttiSuccess);
    for (int i = k * MANY / 2; i < (k + 1) * MANY / 2; i++)
      RANKS_CHECK(tuttiEventRecord(events[i], stream) == tuttiSuccess);
  }
  if (self->rank == 0) RANKS_CHECK(check_many(self, events, stream, empty) == 0);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiSuccess && x[0] == self->nranks && x[1] == self->nranks);
  for (int i = 0; i < MANY; i++) /* rank 0 has ended some */
    RANKS_CHECK((self->rank == 0 && i % 3 == 0) || tuttiEventDestroy(events[i]) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(empty) == tuttiSuccess);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void many_events_wait_are_forgotten_and_recorded_again(void **state)
{
  (void)state;
  run(2, many_body);
}

/* ---- other threads wait ---- */

struct waiter {
  tuttiEvent_t event;
  int polls;
  tuttiResult_t result;
};

static void *wait_there(void *context)
{
  struct waiter *waiter = context;
  if (waiter->polls && is_readable(waiter->event, LONG_MS) != 1) return NULL;
  waiter->result = waiter->polls ? tuttiEventQuery(waiter->event) : tuttiEventSynchronize(waiter->event, LONG_MS);
  return NULL;
}

static int threads_body(const struct ranks *self)
{
  struct waiter waiters[4];
  pthread_t threads[4];
  tuttiComm_t comm;
  tuttiStream_t stream;
  tuttiEvent_t event;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess && tuttiEventCreate(&event) == tuttiSuccess);
  for (int round = 0; round < 20; round++) {
    int x = self->rank;
    RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiMax, comm, stream) == tuttiSuccess);
    RANKS_CHECK(tuttiEventRecord(event, stream) == tuttiSuccess);
    for (int i = 0; i < 4; i++) {
      waiters[i] = (struct waiter){.event = event, .polls = i % 2, .result = tuttiInternalError};
      RANKS_CHECK(pthread_create(&threads[i], NULL, wait_there, &waiters[i]) == 0);
    }
    for (int i = 0; i < 4; i++) RANKS_CHECK(pthread_join(threads[i], NULL) == 0 && waiters[i].result == tuttiSuccess);
    RANKS_CHECK(x == self->nranks - 1);
  }
  RANKS_CHECK(tuttiEventDestroy(event) == tuttiSuccess && tuttiStreamDestroy(stream) == tuttiSuccess);
  return tuttiCommDestroy(comm) != tuttiSuccess;
}

static void several_threads_wait_for_one_event(void **state)
{
  (void)state;
  run(2, threads_body);
}

/* ---- results ---- */

enum { BEFORE, FAILED, NEXT, GROUP, LATE, EVENTS };

/* One stream, two communicators; what is queued on `bad` never happens. */
static int queue_two(const struct ranks *self, tuttiComm_t good, tuttiComm_t bad, tuttiStream_t stream,
                     tuttiEvent_t *events)
{
  static int nothing[2]; /* one rank of a process writes there */
  int *x = self->rank ? NULL : nothing;
  RANKS_CHECK(tuttiBarrier(good, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(events[BEFORE], stream) == tuttiSuccess);
  if (x) RANKS_CHECK(tuttiAllReduce(&x[0], &x[0], 1, tuttiInt, tuttiSum, bad, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(events[FAILED], stream) == tuttiSuccess);
  RANKS_CHECK(tuttiBarrier(good, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(events[NEXT], stream) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(events[GROUP], stream) == tuttiInvalidUsage && says("after tuttiGroupEnd"));
  if (x) RANKS_CHECK(tuttiAllReduce(&x[1], &x[1], 1, tuttiInt, tuttiSum, bad, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiBarrier(good, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(events[GROUP], stream) == tuttiSuccess);
  return 0;
}

static int check_failed(const struct ranks *self, tuttiEvent_t event, tuttiResult_t code, const char *words)
{
  RANKS_CHECK(tuttiEventSynchronize(event, LONG_MS) == code && says(words));
  RANKS_CHECK(is_readable(event, 0) == 1);
  RANKS_CHECK(tuttiEventQuery(NULL) == tuttiInvalidArgument); /* another error of this thread */
  RANKS_CHECK(tuttiEventQuery(event) == code && says(words));
  return 0;
}

static int results_body(const struct ranks *self, int aborts)
{
  struct gate *gate = self->argument;
  tuttiEvent_t events[EVENTS];
  tuttiComm_t good, bad;
  tuttiStream_t stream;
  tuttiResult_t code = aborts ? tuttiRemoteError : tuttiInvalidUsage;
  const char *words = aborts ? "was aborted" : "has revoked";
  RANKS_CHECK(tuttiCommInitRank(&good, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(good, 0, 0, &bad, NULL) == tuttiSuccess && tuttiStreamCreate(&stream) == tuttiSuccess);
  for (int i = 0; i < EVENTS; i++) RANKS_CHECK(tuttiEventCreate(&events[i]) == tuttiSuccess);
  RANKS_CHECK(queue_two(self, good, bad, stream, events) == 0);
  if (self->rank == 0) {
    RANKS_CHECK(tuttiEventSynchronize(events[BEFORE], LONG_MS) == tuttiSuccess);
    RANKS_CHECK(is_readable(events[FAILED], 0) == 0 && is_pending(events[FAILED]) && is_pending(events[NEXT]));
    RANKS_CHECK((aborts ? tuttiCommAbort(bad) : tuttiCommRevoke(bad, TUTTI_REVOKE_DEFAULT)) == tuttiSuccess);
    RANKS_CHECK(check_failed(self, events[FAILED], code, words) == 0);
    RANKS_CHECK(tuttiEventSynchronize(events[NEXT], LONG_MS) == tuttiSuccess); /* unlike the stream */
    RANKS_CHECK(check_failed(self, events[GROUP], code, words) == 0);
    RANKS_CHECK(tuttiStreamSynchronize(stream) == code);
    RANKS_CHECK(tuttiEventRecord(events[LATE], stream) == tuttiSuccess); /* all has ended */
    RANKS_CHECK(check_failed(self, events[LATE], code, words) == 0);
    atomic_store(&gate->ended, 1);
  } else {
    for (int i = 0; i < LATE; i++) RANKS_CHECK(tuttiEventSynchronize(events[i], LONG_MS) == tuttiSuccess);
    while (!atomic_load(&gate->ended)) usleep(1000);
  }
  RANKS_CHECK(tuttiBarrier(good, stream) == tuttiSuccess && tuttiEventRecord(events[LATE], stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventSynchronize(events[LATE], LONG_MS) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamDestroy(stream) == (self->rank ? tuttiSuccess : code));
  RANKS_CHECK(self->rank || check_failed(self, events[FAILED], code, words) == 0);
  for (int i = 0; i < EVENTS; i++) RANKS_CHECK(tuttiEventDestroy(events[i]) == tuttiSuccess);
  if (self->rank || !aborts) tuttiCommDestroy(bad);
  return tuttiCommDestroy(good) != tuttiSuccess;
}

static int abort_body(const struct ranks *self)
{
  return results_body(self, 1);
}

static int revoke_body(const struct ranks *self)
{
  return results_body(self, 0);
}

static void an_event_has_the_result_of_its_own_operation(void **state)
{
  (void)state;
  run(2, abort_body);
  run(2, revoke_body);
}

/* ---- two failures at once ---- */

struct aborter {
  tuttiComm_t comm;
  pthread_barrier_t *start;
};

static void *abort_there(void *context)
{
  struct aborter *aborter = context;
  pthread_barrier_wait(aborter->start);
  tuttiCommAbort(aborter->comm);
  return NULL;
}

#define STREAMS 50

static int has_one_sentence(tuttiStream_t stream)
{
  if (tuttiStreamSynchronize(stream) != tuttiRemoteError) return 0;
  const char *sentence = tuttiGetLastError(NULL);
  return strcmp(sentence, "the communicator aaaaaaaaaaaaaaaaaaaa of rank 0 was aborted") == 0 ||
         strcmp(sentence, "the communicator bbb of rank 0 was aborted") == 0;
}

/* Each stream of rank 0 has an operation of both, which never happens. */
static int abort_both(const struct ranks *self, tuttiComm_t *comms)
{
  tuttiStream_t streams[STREAMS];
  pthread_barrier_t start;
  pthread_t threads[2];
  struct aborter aborters[2];
  int x[2 * STREAMS];
  RANKS_CHECK(pthread_barrier_init(&start, NULL, 2) == 0);
  for (int i = 0; i < STREAMS; i++) RANKS_CHECK(tuttiStreamCreate(&streams[i]) == tuttiSuccess);
  for (int i = 0; i < 2 * STREAMS; i++)
    RANKS_CHECK(tuttiAllReduce(&x[i], &x[i], 1, tuttiInt, tuttiSum, comms[i % 2], streams[i / 2]) == tuttiSuccess);
  for (int c = 0; c < 2; c++) {
    aborters[c] = (struct aborter){comms[c], &start};
    RANKS_CHECK(pthread_create(&threads[c], NULL, abort_there, &aborters[c]) == 0);
  }
  for (int c = 0; c < 2; c++) RANKS_CHECK(pthread_join(threads[c], NULL) == 0);
  for (int i = 0; i < STREAMS; i++) {
    RANKS_CHECK(has_one_sentence(streams[i]));
    RANKS_CHECK(tuttiStreamDestroy(streams[i]) == tuttiRemoteError);
  }
  return pthread_barrier_destroy(&start);
}

static int at_once_body(const struct ranks *self)
{
  struct gate *gate = self->argument;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  tuttiComm_t whole, comms[2];
  RANKS_CHECK(tuttiCommInitRank(&whole, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int round = 1; round <= 10; round++) {
    for (int c = 0; c < 2; c++) {
      config.name = c ? "bbb" : "aaaaaaaaaaaaaaaaaaaa";
      RANKS_CHECK(tuttiCommSplit(whole, 0, 0, &comms[c], &config) == tuttiSuccess);
    }
    if (self->rank == 0) {
      RANKS_CHECK(abort_both(self, comms) == 0);
      atomic_store(&gate->ended, round);
      continue;
    }
    while (atomic_load(&gate->ended) < round) usleep(200);
    for (int c = 0; c < 2; c++) tuttiCommDestroy(comms[c]);
  }
  return tuttiCommDestroy(whole) != tuttiSuccess;
}

/* The thread sanitizer sees who writes it. */
static void two_failures_at_once_leave_a_stream_one_sentence(void **state)
{
  (void)state;
  run_by(ranks_run_threads, 2, at_once_body);
}

/* ---- a rank dies ---- */

static int die_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiStream_t stream;
  tuttiEvent_t seen, waited;
  int x = 0, y = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0);
  if (self->rank == 1) {
    pass(self->argument, self->nranks - 2);
    raise(SIGKILL);
  }
  RANKS_CHECK(tuttiStreamCreate(&stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventCreate(&seen) == tuttiSuccess && tuttiEventCreate(&waited) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(seen, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(&y, &y, 1, tuttiInt, tuttiSum, comm, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventRecord(waited, stream) == tuttiSuccess);
  RANKS_CHECK(tuttiEventSynchronize(waited, 20) == tuttiInProgress && is_readable(seen, 0) == 0);
  atomic_fetch_add(&((struct gate *)self->argument)->open, 1);
  RANKS_CHECK(is_readable(seen, LONG_MS) == 1);
  RANKS_CHECK(check_failed(self, seen, tuttiRemoteError, "rank 1 (") == 0);
  RANKS_CHECK(check_failed(self, waited, tuttiRemoteError, "rank 1 (") == 0);
  RANKS_CHECK(tuttiStreamDestroy(stream) == tuttiRemoteError && tuttiCommDestroy(comm) == tuttiRemoteError);
  RANKS_CHECK(check_failed(self, seen, tuttiRemoteError, "rank 1 (") == 0);
  return tuttiEventDestroy(seen) != tuttiSuccess || tuttiEventDestroy(waited) != tuttiSuccess;
}

static void an_event_ends_when_a_rank_dies(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; ranks_transports(t); t++) {
    int pids[3];
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    assert_int_equal(ranks_start(3, die_body, ranks_shared(sizeof(struct gate)), pids), 0);
    assert_int_equal(ranks_wait(pids[0], LIMIT_S), 0);
    assert_int_equal(ranks_wait(pids[1], LIMIT_S), 128 + SIGKILL);
    assert_int_equal(ranks_wait(pids[2], LIMIT_S), 0);
  }
}

/* The thread sanitizer sees these. */
static void it_is_the_same_with_ranks_as_threads(void **state)
{
  (void)state;
  static const ranks_body bodies[] = {order_body, many_body, threads_body, abort_body, revoke_body};
  for (size_t i = 0; i < sizeof bodies / sizeof bodies[0]; i++) run_by(ranks_run_threads, 2, bodies[i]);
}

/* ---- nothing queued, wrong arguments ---- */

static void an_event_of_nothing_has_ended(void **state)
{
  tuttiStream_t stream;
  tuttiEvent_t event;
  (void)state;
  assert_int_equal(tuttiEventCreate(&event), tuttiSuccess);
  assert_int_equal(tuttiEventQuery(event), tuttiSuccess);
  assert_int_equal(is_readable(event, 0), 1);
  assert_int_equal(tuttiStreamCreate(&stream), tuttiSuccess);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(tuttiEventRecord(event, stream), tuttiSuccess);
    assert_int_equal(tuttiEventSynchronize(event, -1), tuttiSuccess);
    assert_int_equal(is_readable(event, 0), 1);
  }
  assert_int_equal(tuttiStreamDestroy(stream), tuttiSuccess);
  assert_int_equal(tuttiEventDestroy(event), tuttiSuccess);
}

static void wrong_arguments_are_refused(void **state)
{
  tuttiEvent_t event;
  int fd = -7;
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  assert_int_equal(tuttiEventCreate(NULL), tuttiInvalidArgument);
  assert_int_equal(tuttiEventRecord(NULL, NULL), tuttiInvalidArgument);
  assert_int_equal(tuttiEventQuery(NULL), tuttiInvalidArgument);
  assert_int_equal(tuttiEventSynchronize(NULL, 0), tuttiInvalidArgument);
  assert_int_equal(tuttiEventDescriptor(NULL, &fd), tuttiInvalidArgument);
  assert_true(says("event is NULL"));
  assert_int_equal(tuttiEventDestroy(NULL), tuttiSuccess);
  assert_int_equal(tuttiEventQuery((tuttiEvent_t)(void *)&(char[4096]){1}), tuttiInvalidArgument);
  assert_true(says("is no event"));
  assert_int_equal(tuttiEventCreate(&event), tuttiSuccess);
  assert_int_equal(tuttiEventRecord(event, NULL), tuttiInvalidArgument);
  assert_true(says("stream is NULL"));
  assert_int_equal(tuttiEventDescriptor(event, NULL), tuttiInvalidArgument);
  struct rlimit limit, none;
  assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
  none = (struct rlimit){.rlim_cur = 0, .rlim_max = limit.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
  assert_int_equal(tuttiEventDescriptor(event, &fd), tuttiSystemError);
  assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
  assert_true(says("ulimit -n") && fd == -7);
  assert_int_equal(is_readable(event, 0), 1); /* now it can be made */
  assert_int_equal(tuttiEventDestroy(event), tuttiSuccess);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(events_end_in_order_and_not_before_their_operations),
      cmocka_unit_test(many_events_wait_are_forgotten_and_recorded_again),
      cmocka_unit_test(several_threads_wait_for_one_event),
      cmocka_unit_test(an_event_has_the_result_of_its_own_operation),
      cmocka_unit_test(an_event_ends_when_a_rank_dies),
      cmocka_unit_test(it_is_the_same_with_ranks_as_threads), /* from here on this process uses Tutti */
      cmocka_unit_test(two_failures_at_once_leave_a_stream_one_sentence),
      cmocka_unit_test(an_event_of_nothing_has_ended),
      cmocka_unit_test(wrong_arguments_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
