/* SPDX-License-Identifier: BSD-3-Clause */
/* A call of the driver fails in the midst of a group over two communicators with CUDA streams, each call once, on a
 * driver without a GPU: at most the communicator for which it was made fails; the other one's sums are right, streams
 * go on, and both end.
 * Labels: processes. */
#include "fake_driver.h"
#include "../multi/gpu_rank.h"
#include "tutti.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define COMMS 2
#define CALLS 2 /* of each communicator, on streams of their own */
#define REFUSED 999 /* any code of the driver */

struct side {
  struct gpu gpu;
  tuttiComm_t comms[COMMS];
  tuttiStream_t streams[COMMS][CALLS];
  int32_t *memory[COMMS][CALLS], *host;
  void *cuda[COMMS][CALLS];
};

static int side_make(const struct ranks *self, struct side *side)
{
  RANKS_CHECK(gpu_begin(&side->gpu, 0) == 0 && (side->host = pinned(&side->gpu, LONG)) != NULL);
  for (int c = 0; c < COMMS; c++)
    for (int k = 0; k < CALLS; k++) {
      RANKS_CHECK(side->gpu.cu.cuStreamCreate(&side->cuda[c][k], 1) == 0);
      RANKS_CHECK(tuttiStreamFromCuda(&side->streams[c][k], side->cuda[c][k]) == tuttiSuccess);
      RANKS_CHECK((side->memory[c][k] = gpu_alloc(&side->gpu, LONG * sizeof(int32_t))) != NULL);
    }
  return 0;
}

/* 1: the n-th call of the driver has failed. */
static int group_fails(struct side *side, long n, tuttiResult_t *result)
{
  const struct fake_cuda *fake = fake_driver_load();
  tuttiGroupStart();
  for (int k = 0; k < CALLS; k++)
    for (int c = 0; c < COMMS; c++)
      tuttiAllReduce(side->memory[c][k], side->memory[c][k], LONG, tuttiInt32, tuttiSum, side->comms[c],
                     side->streams[c][k]);
  fake->fail_at(n, REFUSED);
  *result = tuttiGroupEnd();
  int has_failed = fake->failed() != NULL;
  fake->fail_at(0, 0);
  return has_failed;
}

static int sums_check(const struct ranks *self, struct side *side, int c, int32_t wanted)
{
  for (int k = 0; k < CALLS; k++) {
    RANKS_CHECK(gpu_copy(&side->gpu, side->host, side->memory[c][k], LONG * sizeof *side->host, side->cuda[c][k]) == 0);
    RANKS_CHECK(gpu_wait(&side->gpu, side->cuda[c][k]) == 0);
    for (int i = 0; i < LONG; i++) RANKS_CHECK(side->host[i] == wanted);
  }
  return 0;
}

/* Returns 0 if all is right; *has_failed: the n-th call of the driver was there. */
static int attempt(const struct ranks *self, struct side *side, long n, int *has_failed)
{
  tuttiResult_t result, state[COMMS];
  int nfailed = 0;
  for (int c = 0; c < COMMS; c++) {
    RANKS_CHECK(tuttiCommInitAll(&side->comms[c], 1, NULL) == tuttiSuccess);
    for (int k = 0; k < CALLS; k++)
      RANKS_CHECK(side->gpu.cu.cuMemsetD32Async((uintptr_t)side->memory[c][k], 7, LONG, side->cuda[c][k]) == 0 &&
                  gpu_wait(&side->gpu, side->cuda[c][k]) == 0);
  }
  *has_failed = group_fails(side, n, &result);
  for (int c = 0; c < COMMS; c++) {
    RANKS_CHECK(tuttiCommGetAsyncError(side->comms[c], &state[c]) == tuttiSuccess);
    nfailed += state[c] != tuttiSuccess;
    if (state[c] == tuttiSuccess) RANKS_CHECK(sums_check(self, side, c, 7) == 0);
    RANKS_CHECK((state[c] ? tuttiCommAbort : tuttiCommDestroy)(side->comms[c]) == tuttiSuccess);
  }
  RANKS_CHECK(nfailed <= 1 && (nfailed == 1) == (result != tuttiSuccess) && nfailed <= *has_failed);
  for (int c = 0; c < COMMS; c++)
    for (int k = 0; k < CALLS; k++) RANKS_CHECK(gpu_wait(&side->gpu, side->cuda[c][k]) == 0);
  return 0;
}

static int body(const struct ranks *self)
{
  struct side side;
  int has_failed = 1;
  long n = 1;
  RANKS_CHECK(side_make(self, &side) == 0);
  for (; has_failed; n++)
    if (attempt(self, &side, n, &has_failed)) {
      fprintf(stderr, "call %ld of the driver\n", n);
      return 1;
    }
  RANKS_CHECK(n > 20);
  for (int c = 0; c < COMMS; c++)
    for (int k = 0; k < CALLS; k++) RANKS_CHECK(tuttiStreamDestroy(side.streams[c][k]) == tuttiSuccess);
  return 0;
}

static void a_failed_call_of_the_driver_ends_one_communicator(void **state)
{
  (void)state;
  gpu_environment("4", "idle", "1024");
  assert_int_equal(ranks_run_processes(1, body, NULL, 60), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(a_failed_call_of_the_driver_ends_one_communicator),
  };
  setenv("TUTTI_DEBUG", "NONE", 0);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
