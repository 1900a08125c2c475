/* SPDX-License-Identifier: BSD-3-Clause */
/* One thing after the other that the fusion itself asks for (memory, a thread, an operation, a channel) is refused to
 * one rank, from creation to the second plan: each time all ranks get an error, at once; it says which rank lacks what;
 * and nothing leaks. Where a channel stands already the communicator is as good as before, and the next fusion is made
 * of it. What channels allocate for themselves is tried by fault.fusion_allocations.
 * Labels: plain. */
#include <unistd.h>

#include "../multi/fusion_ranks.h"
#include "census.h"
#include "net/net.h"
#include "refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define STEPS 5 /* the plan is made again after the 3rd */
#define MOST_MS 60000 /* only a timeout ends what hangs: that is minutes */
#define HEAP_SLACK 4096 /* 2 KB are what the communicator has heard of failures */

static const tuttiFusionTensor_t tensors[] = {
    {"w0", 900, tuttiFloat32}, {"b0", 3, tuttiFloat32}, {"ids", 20, tuttiInt64}, {"w1", 2000, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

/* ---- trials ---- */

struct trial {
  int victim;
  struct meeting *meeting;
  long n;         /* what is refused now: 1, 2, ... */
  long creations; /* refusals so far before the fusion was there */
  _Atomic int fired;
};

/* With a fusion of comm. *sentence is that of the first error; *is_made: it came after creation. */
static tuttiResult_t attempt(const struct ranks *self, tuttiComm_t comm, int *is_made, char sentence[512])
{
  struct gradients g;
  tuttiFusion_t fusion = NULL;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.buffer_bytes = 65536;
  config.norms = config.overflow = 1;
  config.codec = "drop:0"; /* of w1: all of it is sent as it is, but by a codec with state */
  config.codec_least = 1000;
  if (!gradients_make(&g, tensors, TENSORS, FUSION_GAP, 1)) return tuttiNumResults;
  tuttiResult_t result = tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config);
  *is_made = result == tuttiSuccess;
  if (*is_made) result = fusion_steps(self, fusion, &g, STEPS);
  snprintf(sentence, 512, "%s", tuttiGetLastError(NULL));
  tuttiResult_t end = tuttiFusionDestroy(fusion);
  if (result == tuttiSuccess) result = end;
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

/* Every rank knows who lacked what. */
static int says_what(const struct trial *trial, tuttiResult_t result, const char *sentence)
{
  char rank[24];
  snprintf(rank, sizeof rank, "rank %d ", trial->victim);
  return result == tuttiSystemError && strstr(sentence, rank) &&
         (strstr(sentence, "memory") || strstr(sentence, "no thread"));
}

/* The communicator is as good as before, or, where there was no channel yet, has failed on all ranks. */
static int comm_check(const struct ranks *self, tuttiComm_t *comm, int is_early)
{
  int sum = 1;
  tuttiResult_t result = tuttiAllReduce(&sum, &sum, 1, tuttiInt, tuttiSum, *comm, NULL);
  RANKS_CHECK((result == tuttiSuccess) == !is_early);
  if (!is_early) {
    RANKS_CHECK(sum == RANKS);
    return 0;
  }
  tuttiCommAbort(*comm);
  return comm_make(self, comm);
}

/* 1: it went wrong. *goes_on: something was refused. */
static int refuse_one(const struct ranks *self, tuttiComm_t *comm, int *goes_on)
{
  struct trial *trial = self->argument;
  char sentence[512];
  int is_made;
  long began_ms = meeting_now_ms();
  if (self->rank == trial->victim) atomic_store(&countdown, trial->n);
  tuttiResult_t result = attempt(self, *comm, &is_made, sentence);
  long took_ms = meeting_now_ms() - began_ms;
  if (self->rank == trial->victim) atomic_store(&trial->fired, atomic_exchange(&countdown, 0) <= 0);
  RANKS_CHECK(meeting_wait(trial->meeting));
  *goes_on = atomic_load(&trial->fired);
  int is_well = *goes_on ? says_what(trial, result, sentence) : result == tuttiSuccess;
  if (!is_well || took_ms > MOST_MS * ranks_patience()) {
    fprintf(stderr, "rank %d: no. %ld is refused to rank %d: result %d after %ld ms: %s\n", self->rank, trial->n,
            trial->victim, (int)result, took_ms, sentence);
    return 1;
  }
  if (comm_check(self, comm, *goes_on && trial->n <= 2)) return 1; /* the fusion's struct, the first channel */
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == trial->victim && *goes_on) {
    trial->creations += !is_made;
    trial->n++;
  }
  RANKS_CHECK(meeting_wait(trial->meeting));
  return 0;
}

static int each(const struct ranks *self)
{
  struct trial *trial = self->argument;
  struct census before, after;
  tuttiComm_t comm;
  char sentence[512];
  int is_made, goes_on = 1;
  if (comm_make(self, &comm)) return 1;
  for (int k = 0; k < 3; k++) RANKS_CHECK(attempt(self, comm, &is_made, sentence) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(trial->meeting));
  usleep(100000); /* what ends by itself has ended */
  census_take(&before);
  RANKS_CHECK(meeting_wait(trial->meeting));
  while (goes_on)
    if (refuse_one(self, &comm, &goes_on)) return 1;
  RANKS_CHECK(census_same(&before, &after, HEAP_SLACK));
  RANKS_CHECK(meeting_wait(trial->meeting));
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void whatever_is_refused_to_one_rank_all_are_told(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  setenv("TUTTI_LEARN", "0", 1); /* plans of arms would be memory that comm gets meanwhile */
  for (int victim = 0; victim < 2; victim++) { /* rank 0 says what messages cost */
    struct trial *trial = ranks_shared(sizeof *trial);
    assert_non_null(trial);
    *trial = (struct trial){.victim = victim, .n = 1, .meeting = meeting_make(RANKS)};
    assert_int_equal(ranks_run_processes(RANKS, each, trial, 200), 0);
    printf("rank %d: %ld refusals, %ld of them before the fusion was there\n", victim, trial->n - 1,
           trial->creations);
    assert_true(trial->creations > 40 && trial->n - 1 - trial->creations > 20); /* else they were not found */
    meeting_free(trial->meeting);
  }
}

/* ---- what a rank does alone ---- */

/* All that is printed was found when the plan was made. */
static int print_body(const struct ranks *self)
{
  struct gradients g;
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  FILE *out = fopen("/dev/null", "w");
  RANKS_CHECK(out && gradients_make(&g, tensors, TENSORS, FUSION_GAP, 1));
  RANKS_CHECK(tuttiCommInitRank(&comm, 1, self->id, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  RANKS_CHECK(fusion_steps(self, fusion, &g, STEPS) == tuttiSuccess);
  for (int json = 0; json < 2; json++) {
    atomic_store(&countdown, 1);
    RANKS_CHECK(tuttiFusionPrint(fusion, out, json) == tuttiSuccess);
    RANKS_CHECK(atomic_exchange(&countdown, 0) == 1);
  }
  RANKS_CHECK(fusion_step(self, fusion, &g, 9) == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  fclose(out);
  gradients_free(&g);
  return 0;
}

static void a_plan_is_printed_without_memory(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 1, print_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_is_refused_to_one_rank_all_are_told),
      cmocka_unit_test(a_plan_is_printed_without_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
