/* SPDX-License-Identifier: BSD-3-Clause */
/* One thing after the other that a fusion with servers asks for while it moves (memory, a thread, a channel) is refused
 * to one rank: all ranks get an error, or none, and by themselves, also those for whom the old fusion has ended while
 * it goes on for others. Then it moves once more, and goes on: no contribution is lost, or counts twice.
 * Labels: plain. */
#include <unistd.h>

#include "../multi/fusion_ranks.h"
#include "refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define LEAST 10         /* refusals: else they were not found */
#define TELL_MS 20000    /* within a second, if nothing holds them up */
#define COUNT 900

static const tuttiFusionTensor_t tensors[] = {{"long", COUNT, tuttiFloat32}, {"short", 3, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

struct trial {
  int victim, quorum;
  struct meeting *meeting;
  long n, failed;
  _Atomic int fired;
  _Atomic int moved[RANKS]; /* 1 + the result; 0: not yet */
};

struct life {
  tuttiComm_t first, comm; /* comm: that of the fusion; NULL: first */
  tuttiFusion_t fusion;
  float in[TENSORS][COUNT], out[TENSORS][COUNT];
};

static tuttiResult_t add(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] += shard->gradient[i];
  return tuttiSuccess;
}

/* So many contributions of 1 as the quorum are in each update. */
static int step(const struct ranks *self, struct life *life)
{
  const struct trial *trial = self->argument;
  tuttiFusionInfo_t info = {.size = sizeof info};
  for (int t = 0; t < TENSORS; t++)
    RANKS_CHECK(tuttiFusionPush(life->fusion, t, life->in[t], life->out[t], tensors[t].count, tuttiFloat32, NULL) ==
                tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(life->fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(life->fusion, &info) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++)
    for (size_t e = 0; e < tensors[t].count; e++)
      RANKS_CHECK(life->out[t][e] == (float)info.updates * (float)trial->quorum);
  return 0;
}

static int life_make(const struct ranks *self, struct life *life)
{
  const struct trial *trial = self->argument;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = "function";
  config.function = add;
  config.quorum = trial->quorum;
  RANKS_CHECK(tuttiCommInitRank(&life->first, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&life->fusion, life->first, tensors, TENSORS, &config) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) {
    for (size_t e = 0; e < tensors[t].count; e++) life->in[t][e] = 1;
    RANKS_CHECK(tuttiFusionState(life->fusion, t, 0, life->out[t], tensors[t].count, 1) == tuttiSuccess);
  }
  return step(self, life);
}

/* All come back by themselves, with an error or without one. */
static int are_alike(const struct ranks *self, tuttiResult_t result)
{
  struct trial *trial = self->argument;
  int failed = 0, back = 0;
  char sentence[512];
  snprintf(sentence, sizeof sentence, "%s", tuttiGetLastError(NULL));
  atomic_store(&trial->moved[self->rank], 1 + (int)result);
  long until_ms = meeting_now_ms() + TELL_MS * ranks_patience();
  while (back < RANKS && meeting_now_ms() < until_ms) {
    usleep(200);
    back = failed = 0;
    for (int r = 0; r < RANKS; r++) {
      int code = atomic_load(&trial->moved[r]);
      back += code > 0;
      failed += code > 1 + tuttiSuccess;
    }
  }
  if (back == RANKS && (failed == 0 || failed == RANKS)) return 1;
  fprintf(stderr, "rank %d, quorum %d: no. %ld is refused to rank %d: %d are back, %d with an error, here: %s\n",
          self->rank, trial->quorum, trial->n, trial->victim, back, failed, sentence);
  return 0;
}

/* Over a new communicator of all. */
static int move(const struct ranks *self, struct life *life, int is_refused)
{
  struct trial *trial = self->argument;
  tuttiComm_t comm, old = life->comm;
  RANKS_CHECK(tuttiCommSplit(life->first, 0, self->rank, &comm, NULL) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(trial->meeting));
  if (self->rank == trial->victim && is_refused) atomic_store(&countdown, trial->n);
  tuttiResult_t result = tuttiFusionMove(&life->fusion, comm);
  if (is_refused && !are_alike(self, result)) return 1;
  RANKS_CHECK(is_refused || result == tuttiSuccess);
  if (self->rank == trial->victim && is_refused) atomic_store(&trial->fired, atomic_exchange(&countdown, 0) <= 0);
  RANKS_CHECK(meeting_wait(trial->meeting));
  atomic_store(&trial->moved[self->rank], 0);
  if (result != tuttiSuccess) {
    if (self->rank == trial->victim) trial->failed++;
    tuttiCommAbort(comm);
    return move(self, life, 0);
  }
  life->comm = comm;
  if (old) tuttiCommAbort(old); /* it may have failed with a fusion */
  return 0;
}

static int each(const struct ranks *self)
{
  static struct life life;
  struct trial *trial = self->argument;
  RANKS_CHECK(life_make(self, &life) == 0);
  for (int goes_on = 1; goes_on;) {
    RANKS_CHECK(move(self, &life, 1) == 0);
    RANKS_CHECK(step(self, &life) == 0);
    RANKS_CHECK(meeting_wait(trial->meeting));
    goes_on = atomic_load(&trial->fired);
    RANKS_CHECK(meeting_wait(trial->meeting));
    if (self->rank == trial->victim) trial->n++;
  }
  RANKS_CHECK(tuttiFusionDestroy(life.fusion) == tuttiSuccess);
  tuttiCommAbort(life.comm);
  return tuttiCommDestroy(life.first) != tuttiSuccess;
}

static void whatever_is_refused_in_a_move_all_come_back(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  for (int quorum = RANKS - 1; quorum <= RANKS; quorum++) {
    struct trial *trial = ranks_shared(sizeof *trial);
    assert_non_null(trial);
    *trial = (struct trial){.victim = RANKS - quorum, .quorum = quorum, .n = 1, .meeting = meeting_make(RANKS)};
    assert_int_equal(ranks_run_processes(RANKS, each, trial, 200), 0);
    printf("quorum %d: %ld refusals, %ld of them with an error\n", quorum, trial->n - 2, trial->failed);
    assert_true(trial->failed > LEAST);
    meeting_free(trial->meeting);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whatever_is_refused_in_a_move_all_come_back),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
