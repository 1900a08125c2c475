/* SPDX-License-Identifier: BSD-3-Clause */
/* The n-th allocation of one rank fails, for every n (where there are thousands, beyond the first ones for some): that
 * rank gets an error (or does without), the others get one too and never hang, nothing leaks, and the next communicator
 * works. And: who has called once allocates no more.
 * Labels: slow, plain. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/base.h"
#include "census.h"
#include "meeting.h"
#include "ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define COUNT 3000
#define DENSE 130 /* rank 0's creation has thousands of allocations: what choices take is played */
#define SPARSE 199
#define MOST_MS 15000   /* for all ranks to know; the promise is one second, if nothing holds them up */
#define HEAP_SLACK 2048 /* the C library keeps up to 700 bytes: of the environment, the time zone, threads' variables */
#define ROOTS_SLACK 131072 /* rendezvous that nobody came to stay: some 60, of 1.6 KB each */

static int is_long; /* --long: every n, for ranks as threads too, every kind on every transport */

struct trial {
  /* Joins with the id, arms, and returns the first error. *comm stays NULL if there is none (any more). */
  tuttiResult_t (*run)(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm);
  int victim;
  struct meeting *meeting;
  _Atomic int fired;
  _Atomic int results[RANKS];
  int is_threads;
  long n, stride, tolerated;
  long sparse; /* stride beyond DENSE */
};

/* From here on. */
static void arm(const struct ranks *self)
{
  const struct trial *trial = self->argument;
  if (self->rank == trial->victim) tt_alloc_fail_at(trial->n);
}

static tuttiResult_t reduce(const struct ranks *self, tuttiComm_t comm, tuttiStream_t stream)
{
  static _Thread_local float data[COUNT];
  for (int i = 0; i < COUNT; i++) data[i] = (float)(self->rank + i % 7);
  tuttiResult_t result = tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, stream);
  if (result == tuttiSuccess && stream) result = tuttiStreamSynchronize(stream);
  for (int i = 0; i < COUNT && result == tuttiSuccess; i++)
    if (data[i] != (float)(RANKS * (RANKS - 1) / 2 + RANKS * (i % 7))) result = tuttiNumResults;
  return result;
}

/* ---- scenarios ---- */

static tuttiResult_t init(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm)
{
  arm(self);
  return tuttiCommInitRank(comm, RANKS, id, self->rank);
}

static tuttiResult_t first_call(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm)
{
  tuttiResult_t result = tuttiCommInitRank(comm, RANKS, id, self->rank);
  arm(self);
  return result == tuttiSuccess ? reduce(self, *comm, NULL) : result;
}

/* A stream that cannot be created is no fault of the communicator: its rank leaves. */
static tuttiResult_t stream(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm)
{
  tuttiStream_t made = NULL;
  tuttiResult_t result = tuttiCommInitRank(comm, RANKS, id, self->rank), end;
  if (result != tuttiSuccess) return result;
  arm(self);
  result = tuttiStreamCreate(&made);
  if (result != tuttiSuccess) {
    tuttiCommAbort(*comm);
    *comm = NULL;
    return result;
  }
  for (int k = 0; k < 2 && result == tuttiSuccess; k++) result = reduce(self, *comm, made);
  end = tuttiStreamDestroy(made);
  return result == tuttiSuccess ? end : result;
}

static tuttiResult_t in_a_group(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm)
{
  float data[4][2] = {{0}};
  tuttiResult_t result = tuttiCommInitRank(comm, RANKS, id, self->rank);
  if (result != tuttiSuccess) return result;
  arm(self);
  tuttiGroupStart();
  for (int k = 0; k < 4; k++) tuttiAllReduce(data[k], data[k], 2, tuttiFloat, tuttiSum, *comm, NULL);
  return tuttiGroupEnd();
}

static tuttiResult_t later(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.blocking = 0;
  arm(self);
  tuttiResult_t result = tuttiCommInitRankConfig(comm, RANKS, id, self->rank, &config);
  while (result == tuttiInProgress) {
    usleep(200);
    tuttiCommGetAsyncError(*comm, &result);
  }
  return result;
}

/* ---- one n ---- */

/* A rank that fails before it can tell anybody is only missed: not for long. Everybody waits meanwhile, so that
 * one thread of a process may change its environment. */
static int patience(const struct ranks *self, const char *ms)
{
  struct trial *trial = self->argument;
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (!trial->is_threads || self->rank == 0) setenv("TUTTI_INIT_TIMEOUT_MS", ms, 1);
  RANKS_CHECK(meeting_wait(trial->meeting));
  return 0;
}

static int all_alike(const struct ranks *self, const struct trial *trial, long began_ms)
{
  int errors = 0, results[RANKS];
  long took = meeting_now_ms() - began_ms;
  for (int r = 0; r < RANKS; r++) {
    results[r] = atomic_load(&trial->results[r]);
    errors += results[r] != tuttiSuccess;
  }
  if ((errors == 0 || errors == RANKS) && took < MOST_MS) return 1;
  fprintf(stderr, "rank %d: allocation %ld of rank %d failed: after %ld ms the ranks have results %d, %d, %d\n",
          self->rank, trial->n, trial->victim, took, results[0], results[1], results[2]);
  return 0;
}

static int recover(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm;
  RANKS_CHECK(meeting_id(trial->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(&comm, RANKS, id, self->rank) == tuttiSuccess);
  RANKS_CHECK(reduce(self, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static int finish(const struct ranks *self, tuttiComm_t comm, tuttiResult_t result)
{
  tuttiResult_t state;
  if (!comm) return 0;
  RANKS_CHECK(tuttiCommGetAsyncError(comm, &state) == tuttiSuccess);
  RANKS_CHECK((state == tuttiSuccess) == (result == tuttiSuccess));
  RANKS_CHECK(tuttiCommDestroy(comm) == state);
  return 0;
}

static int fail_one(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiUniqueId id;
  tuttiComm_t comm = NULL;
  if (patience(self, trial->run == init || trial->run == later ? "150" : "20000")) return 1;
  RANKS_CHECK(meeting_id(trial->meeting, self->rank == 0, &id));
  long began_ms = meeting_now_ms();
  tuttiResult_t result = trial->run(self, id, &comm);
  RANKS_CHECK(result == tuttiSuccess || tuttiGetLastError(NULL)[0]);
  /* Who noticed nothing learns it at the next call. */
  if (result == tuttiSuccess) result = reduce(self, comm, NULL);
  RANKS_CHECK(result != tuttiNumResults); /* wrong data */
  atomic_store(&trial->results[self->rank], (int)result);
  RANKS_CHECK(meeting_wait(trial->meeting));
  RANKS_CHECK(all_alike(self, trial, began_ms));
  if (self->rank == trial->victim) {
    atomic_store(&trial->fired, atomic_load(&tt_process.alloc_countdown) <= 0);
    tt_alloc_fail_at(0);
    if (atomic_load(&trial->fired)) trial->n += trial->n > DENSE ? trial->sparse : trial->stride;
    if (result == tuttiSuccess) trial->tolerated++;
  }
  if (patience(self, "20000")) return 1;
  return finish(self, comm, result);
}

static int every_n(const struct ranks *self)
{
  struct trial *trial = self->argument;
  struct census before, after;
  int is_lead = !trial->is_threads || self->rank == 0; /* of its process */
  for (int k = 0; k < 3; k++)
    if (recover(self)) return 1;
  RANKS_CHECK(meeting_wait(trial->meeting));
  usleep(100000); /* what ends by itself has ended */
  if (is_lead) census_take(&before);
  RANKS_CHECK(meeting_wait(trial->meeting));
  do {
    if (fail_one(self) || recover(self)) return 1;
  } while (atomic_load(&trial->fired));
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (is_lead) RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  return !meeting_wait(trial->meeting);
}

static int as_threads(const struct ranks *self)
{
  return ranks_run_threads(RANKS, every_n, self->argument, 200);
}

struct kind {
  const char *name;
  tuttiResult_t (*run)(const struct ranks *self, tuttiUniqueId id, tuttiComm_t *comm);
  int everywhere; /* the transport matters */
  int algos;      /* to try; 0: whatever is chosen */
};

static void try_one(const struct kind *kind, int victim, int threads)
{
  struct trial *trial = ranks_shared(sizeof *trial);
  assert_non_null(trial);
  *trial = (struct trial){.run = kind->run, .victim = victim, .is_threads = threads, .n = 1};
  trial->stride = is_long ? 1 : threads ? 11 : 2;
  trial->sparse = is_long ? trial->stride : SPARSE;
  trial->meeting = meeting_make(RANKS);
  long began_ms = meeting_now_ms();
  int bad = threads ? ranks_run_processes(1, as_threads, trial, 200) : ranks_run_processes(RANKS, every_n, trial, 200);
  printf("%s, %s %s, rank %d%s: %ld allocations, %ld of them done without, %ld ms\n", kind->name,
         getenv("TUTTI_TRANSPORTS"), getenv("TUTTI_ALGO"), victim, threads ? " as a thread" : "", trial->n - 1,
         trial->tolerated - 1, meeting_now_ms() - began_ms);
  assert_int_equal(bad, 0);
  assert_true(trial->n > 1); /* else nothing was tried */
  meeting_free(trial->meeting);
}

/* Rank 0 is the one whose process has the rendezvous. */
static void try_all(const struct kind *kind)
{
  static const char *const transports[] = {"shm", "tcp"}, *const algos[] = {"", "ring", "recursive_doubling"};
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int t = 0; t < 1 + (kind->everywhere || is_long); t++)
    for (int a = kind->algos ? 1 : 0; a <= kind->algos; a++) {
      setenv("TUTTI_TRANSPORTS", transports[t], 1);
      setenv("TUTTI_ALGO", algos[a], 1);
      try_one(kind, 1, 0);
      if (kind->run == init || is_long) try_one(kind, 0, 0);
      if (t == 0 && a < 2) try_one(kind, 2, 1);
    }
  unsetenv("TUTTI_ALGO");
}

static void an_init_without_memory_is_an_error_for_all(void **state)
{
  (void)state;
  try_all(&(struct kind){"init", init, 1, 0});
}

static void a_nonblocking_init_without_memory_is_an_error_for_all(void **state)
{
  (void)state;
  try_all(&(struct kind){"non-blocking init", later, 0, 0});
}

static void a_first_call_without_memory_is_an_error_for_all(void **state)
{
  (void)state;
  try_all(&(struct kind){"first call", first_call, 1, 2});
}

static void a_stream_without_memory_is_an_error_for_all(void **state)
{
  (void)state;
  try_all(&(struct kind){"stream", stream, 0, 0});
}

static void a_group_without_memory_is_an_error_for_all(void **state)
{
  (void)state;
  try_all(&(struct kind){"group", in_a_group, 0, 0});
}

/* ---- one process with all ranks ---- */

static tuttiResult_t work_alone(tuttiComm_t *comms)
{
  float data[RANKS] = {0};
  void *memory = NULL;
  tuttiUniqueId id;
  tuttiResult_t result = tuttiGetUniqueId(&id), end;
  if (result != tuttiSuccess) return result;
  tuttiComm_t comm;
  result = tuttiCommInitRank(&comm, 1, id, 0);
  if (result != tuttiSuccess) return result;
  result = tuttiMemAlloc(&memory, 5000);
  if (result == tuttiSuccess) result = tuttiMemFree(memory);
  end = tuttiCommDestroy(comm);
  if (result == tuttiSuccess) result = end;
  if (result != tuttiSuccess) return result;
  result = tuttiCommInitAll(comms, RANKS, NULL);
  if (result != tuttiSuccess) return comms[0] || comms[1] || comms[2] ? tuttiNumResults : result;
  tuttiGroupStart();
  for (int r = 0; r < RANKS; r++) tuttiAllReduce(&data[r], &data[r], 1, tuttiFloat, tuttiSum, comms[r], NULL);
  return tuttiGroupEnd();
}

static int alone(const struct ranks *self)
{
  struct census before, after;
  long fired = 1;
  for (long n = -3; fired; n++) { /* three rounds to get warm */
    tuttiComm_t comms[RANKS] = {NULL};
    long began_ms = meeting_now_ms();
    if (n == 1) census_take(&before);
    tt_alloc_fail_at(n > 0 ? n : 0);
    tuttiResult_t result = work_alone(comms);
    fired = n <= 0 || atomic_load(&tt_process.alloc_countdown) <= 0;
    tt_alloc_fail_at(0);
    for (int r = 0; r < RANKS; r++) tuttiCommAbort(comms[r]);
    RANKS_CHECK(result != tuttiNumResults); /* outputs are written only on success */
    RANKS_CHECK(result == tuttiSuccess || (fired && tuttiGetLastError(NULL)[0]));
    RANKS_CHECK(meeting_now_ms() - began_ms < MOST_MS);
    if (!fired) printf("alone: %ld allocations\n", n - 1);
    if (n > 3 * DENSE && !is_long) n += SPARSE - 1;
    usleep(n == 0 ? 100000 : 0);
  }
  fflush(stdout);
  RANKS_CHECK(census_same(&before, &after, ROOTS_SLACK));
  return 0;
}

static void a_process_with_all_ranks_gets_an_error(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm,tcp", 1);
  assert_int_equal(ranks_run_processes(1, alone, NULL, 100), 0);
}

/* ---- steady state ---- */

static int warm(const struct ranks *self)
{
  static float data[COUNT];
  tuttiComm_t comm;
  tuttiStream_t queue;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiStreamCreate(&queue) == tuttiSuccess);
  for (int k = 0; k < 1500; k++) {
    int grouped = k % 3 == 2;
    if (k == 3) { /* one call of each kind was made */
      tuttiStreamSynchronize(queue);
      tt_alloc_fail_at(1);
    }
    if (grouped) RANKS_CHECK(tuttiGroupStart() == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(data, data, COUNT, tuttiFloat, tuttiSum, comm, k % 3 == 1 ? queue : NULL) ==
                tuttiSuccess);
    if (grouped) RANKS_CHECK(tuttiGroupEnd() == tuttiSuccess);
    if (k % 3 == 1) RANKS_CHECK(tuttiStreamSynchronize(queue) == tuttiSuccess);
  }
  RANKS_CHECK(atomic_load(&tt_process.alloc_countdown) == 1);
  tt_alloc_fail_at(0);
  RANKS_CHECK(tuttiStreamDestroy(queue) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_repeated_call_allocates_nothing(void **state)
{
  static const char *const transports[] = {"shm", "tcp"}, *const algos[] = {"ring", "recursive_doubling"};
  (void)state;
  for (int k = 0; k < 4; k++) {
    setenv("TUTTI_TRANSPORTS", transports[k % 2], 1);
    setenv("TUTTI_ALGO", algos[k / 2], 1);
    assert_int_equal(ranks_run_processes(RANKS, warm, NULL, 60), 0);
  }
  unsetenv("TUTTI_ALGO");
}

int main(int argc, char **argv)
{
  is_long = argc > 1 && strcmp(argv[1], "--long") == 0;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_repeated_call_allocates_nothing),
      cmocka_unit_test(an_init_without_memory_is_an_error_for_all),
      cmocka_unit_test(a_nonblocking_init_without_memory_is_an_error_for_all),
      cmocka_unit_test(a_first_call_without_memory_is_an_error_for_all),
      cmocka_unit_test(a_stream_without_memory_is_an_error_for_all),
      cmocka_unit_test(a_group_without_memory_is_an_error_for_all),
      cmocka_unit_test(a_process_with_all_ranks_gets_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
