/* SPDX-License-Identifier: BSD-3-Clause */
/* The n-th allocation (or thread) of one rank fails while a fusion is made, used and destroyed: all ranks get an error,
 * or none (it did without), from creation alike and with the name of a rank or what it lacks, nobody hangs, nothing
 * leaks, sums are never wrong, and the next communicator and fusion work. Most of these are those of the
 * communicators of the fusion; its own are tried by fault.fusion_allocations_own.
 * Labels: plain. */
#include <unistd.h>

#include "../multi/fusion_ranks.h"
#include "census.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define DENSE 60  /* every n up to here: the first channel is being made */
#define SPARSE 307 /* then every so many-th: what channels allocate is tried by fault.allocations */
#define STEPS 5   /* the plan is made again after the 3rd */
#define MOST_MS 40000 /* the communicator's limits are longer */
#define HEAP_SLACK 1024 /* as in allocations.c */
#define TELL_MS 20000 /* within a second, if nothing holds them up */

static const tuttiFusionTensor_t tensors[] = {
    {"w0", 900, tuttiFloat32}, {"b0", 3, tuttiFloat32}, {"ids", 20, tuttiInt64}, {"w1", 2000, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

struct trial {
  int victim;
  struct meeting *meeting;
  long n, tolerated;
  _Atomic int fired;
  _Atomic int results[RANKS];
  _Atomic int creations[RANKS]; /* 1 + result; 0: not yet */
};

/* All ranks come back from creation by themselves: nobody aborts anything before. Where one has failed, all have, and
 * say who (where it is the root of a start-up: who was the first to notice) or what. */
static int created_alike(const struct ranks *self, tuttiResult_t result)
{
  struct trial *trial = self->argument;
  char sentence[512];
  int failed = 0, back = 0;
  snprintf(sentence, sizeof sentence, "%s", tuttiGetLastError(NULL));
  atomic_store(&trial->creations[self->rank], 1 + (int)result);
  long until_ms = meeting_now_ms() + TELL_MS * ranks_patience();
  while (back < RANKS && meeting_now_ms() < until_ms) {
    usleep(200);
    back = failed = 0;
    for (int r = 0; r < RANKS; r++) {
      int code = atomic_load(&trial->creations[r]);
      back += code > 0;
      failed += code > 1 + tuttiSuccess;
    }
  }
  int is_told = self->rank == trial->victim || strstr(sentence, "rank ") || strstr(sentence, "memory");
  if (back == RANKS && (failed == 0 || failed == RANKS) && (!failed || is_told)) return 1;
  fprintf(stderr, "rank %d: allocation %ld of rank %d failed: %d are back, %d with an error, here: %s\n", self->rank,
          trial->n, trial->victim, back, failed, sentence);
  return 0;
}

/* With comm, which is aborted after an error so that the others learn of it, as programs do. */
static tuttiResult_t attempt(const struct ranks *self, tuttiComm_t comm, int is_trial)
{
  struct gradients g;
  tuttiFusion_t fusion = NULL;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  int x = 1;
  config.buffer_bytes = 65536;
  config.norms = config.overflow = 1;
  config.codec = "drop:0"; /* of w1: all of it is sent as it is, but by a codec with state */
  config.codec_least = 1000;
  if (!gradients_make(&g, tensors, TENSORS, FUSION_GAP, 1)) return tuttiNumResults;
  tuttiResult_t result = tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config);
  if (is_trial && !created_alike(self, result)) result = tuttiNumResults;
  if (result == tuttiSuccess) result = fusion_steps(self, fusion, &g, STEPS);
  tuttiResult_t end = tuttiFusionDestroy(fusion);
  if (result == tuttiSuccess) result = end;
  if (result == tuttiSuccess) result = tuttiAllReduce(&x, &x, 1, tuttiInt, tuttiSum, comm, NULL);
  gradients_free(&g);
  return result;
}

static int comm_make(const struct ranks *self, tuttiComm_t *comm)
{
  struct trial *trial = self->argument;
  tuttiUniqueId id;
  RANKS_CHECK(meeting_id(trial->meeting, self->rank == 0, &id));
  RANKS_CHECK(tuttiCommInitRank(comm, RANKS, id, self->rank) == tuttiSuccess);
  return 0;
}

static int recover(const struct ranks *self)
{
  tuttiComm_t comm;
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(attempt(self, comm, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
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

static int fail_one(const struct ranks *self)
{
  struct trial *trial = self->argument;
  tuttiComm_t comm;
  if (comm_make(self, &comm)) return 1;
  long began_ms = meeting_now_ms();
  if (self->rank == trial->victim) tt_alloc_fail_at(trial->n);
  tuttiResult_t result = attempt(self, comm, 1);
  RANKS_CHECK(result != tuttiNumResults);
  RANKS_CHECK(result == tuttiSuccess || tuttiGetLastError(NULL)[0]);
  if (result != tuttiSuccess) tuttiCommAbort(comm);
  atomic_store(&trial->results[self->rank], (int)result);
  RANKS_CHECK(meeting_wait(trial->meeting));
  RANKS_CHECK(all_alike(self, trial, began_ms));
  if (self->rank == trial->victim) {
    atomic_store(&trial->fired, atomic_load(&tt_process.alloc_countdown) <= 0);
    tt_alloc_fail_at(0);
    if (atomic_load(&trial->fired)) trial->n += trial->n > DENSE ? SPARSE : 1;
    trial->tolerated += result == tuttiSuccess;
    for (int r = 0; r < RANKS; r++) atomic_store(&trial->creations[r], 0);
  }
  if (result == tuttiSuccess) RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(trial->meeting));
  return 0;
}

static int every_n(const struct ranks *self)
{
  struct trial *trial = self->argument;
  struct census before, after;
  for (int k = 0; k < 3; k++)
    if (recover(self)) return 1;
  RANKS_CHECK(meeting_wait(trial->meeting));
  usleep(100000); /* what ends by itself has ended */
  census_take(&before);
  RANKS_CHECK(meeting_wait(trial->meeting));
  do {
    if (fail_one(self)) return 1;
    if (trial->n % 5 == 0 && recover(self)) return 1;
  } while (atomic_load(&trial->fired));
  if (recover(self)) return 1;
  RANKS_CHECK(meeting_wait(trial->meeting));
  RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  return !meeting_wait(trial->meeting);
}

static void a_fusion_without_memory_is_an_error_for_all(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  for (int victim = 0; victim < 2; victim++) { /* rank 0 says what messages cost */
    struct trial *trial = ranks_shared(sizeof *trial);
    assert_non_null(trial);
    *trial = (struct trial){.victim = victim, .n = 1, .meeting = meeting_make(RANKS)};
    assert_int_equal(ranks_run_processes(RANKS, every_n, trial, 200), 0);
    printf("rank %d: %ld allocations, %ld of them done without\n", victim, trial->n - 1, trial->tolerated - 1);
    assert_true(trial->n > 10); /* else nothing was tried */
    meeting_free(trial->meeting);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_fusion_without_memory_is_an_error_for_all),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
