/* SPDX-License-Identifier: BSD-3-Clause */
/* One thing after the other that a fusion with a quorum asks for in its steps (memory of packets) is refused to one
 * rank: the fusion fails on all, moves, and goes on. Then the weights are the sum of what counted, less what the codec
 * of each rank has left out: so a rank knows of a step that had not ended whether that counted.
 * "--apart N": of so many refusals that may be made one is.
 * Labels: plain. */
#include "../multi/fusion_ranks.h"
#include "refused.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define RANKS 3
#define QUORUM 2
#define STEPS 2      /* in which something is refused */
#define LEAST 10     /* failures: else they were not found */
#define COUNT 600
#define UPDATES 599  /* of all trials: fewer elements than COUNT, so these have no codec */

static long apart = 2;

static const tuttiFusionTensor_t tensors[] = {{"coded", COUNT, tuttiFloat32}, {"counted", UPDATES, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

struct trial {
  int victim;
  struct meeting *meeting;
  long n, failed;
  _Atomic int fired;
  /* of each rank, between two steps: what its codec has left out, and what it owns of the weights */
  float rests[RANKS][COUNT], weights[RANKS][COUNT], counted[RANKS][UPDATES];
};

struct life {
  tuttiComm_t first, comm; /* comm: that of the fusion */
  tuttiFusion_t fusion;
  tuttiFusionInfo_t info;
  float in[TENSORS][COUNT], out[TENSORS][COUNT];
  double sum[COUNT]; /* of all contributions that counted in updates before `summed` */
  int summed;
};

static tuttiResult_t add(void *context, const tuttiFusionShard_t *shard)
{
  (void)context;
  for (size_t i = 0; i < shard->count; i++) shard->planes[0][i] += shard->gradient[i];
  return tuttiSuccess;
}

static float value_of(int rank, int update, int e)
{
  return (float)(1 + (e * 7 + update * 13 + rank * 31) % 97);
}

static int life_make(const struct ranks *self, struct life *life)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = "function";
  config.function = add;
  config.quorum = QUORUM;
  config.codec = "drop:0.5";
  config.codec_least = COUNT;
  life->info.size = sizeof life->info;
  RANKS_CHECK(tuttiCommInitRank(&life->first, RANKS, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(life->first, 0, self->rank, &life->comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCreate(&life->fusion, life->comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++)
    RANKS_CHECK(tuttiFusionState(life->fusion, t, 0, life->out[t], tensors[t].count, 1) == tuttiSuccess);
  return 0;
}

static tuttiResult_t step(const struct ranks *self, struct life *life)
{
  int update = (int)life->info.updates;
  tuttiResult_t result = tuttiSuccess;
  for (int e = 0; e < COUNT; e++) life->in[0][e] = value_of(self->rank, update, e);
  memset(life->in[1], 0, sizeof life->in[1]);
  life->in[1][update] = (float)(1 << self->rank);
  for (int t = 0; t < TENSORS && result == tuttiSuccess; t++)
    result = tuttiFusionPush(life->fusion, t, life->in[t], life->out[t], tensors[t].count, tuttiFloat32, NULL);
  if (result == tuttiSuccess) result = tuttiFusionWaitAll(life->fusion);
  return result;
}

/* So many updates more, up to the first error. A rank may be behind those that were there before. */
static int steps(const struct ranks *self, struct life *life, tuttiResult_t *result)
{
  uint64_t end = (uint64_t)life->summed + STEPS;
  RANKS_CHECK(end <= UPDATES);
  RANKS_CHECK(tuttiFusionGetInfo(life->fusion, &life->info) == tuttiSuccess);
  while (life->info.updates < end && *result == tuttiSuccess) {
    *result = step(self, life);
    RANKS_CHECK(tuttiFusionGetInfo(life->fusion, &life->info) == tuttiSuccess);
  }
  return 0;
}

/* To a new communicator of all. */
static int move(const struct ranks *self, struct life *life)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommSplit(life->first, 0, self->rank, &comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionMove(&life->fusion, comm) == tuttiSuccess);
  tuttiCommAbort(life->comm); /* it may have failed with the fusion */
  life->comm = comm;
  return 0;
}

/* Takes what counted since the last time. Returns the updates that two ranks or more are in. */
static int counted_take(const struct trial *trial, struct life *life)
{
  for (; life->summed < UPDATES; life->summed++) {
    float value = 0;
    for (int r = 0; r < RANKS; r++) value += trial->counted[r][life->summed];
    if (value == 0 || value >= 1 << RANKS || __builtin_popcount((unsigned)value) < QUORUM) break;
    for (int r = 0; r < RANKS; r++)
      for (int e = 0; e < COUNT && (unsigned)value >> r & 1; e++) life->sum[e] += value_of(r, life->summed, e);
  }
  return life->summed;
}

/* No step is under way. */
static int weights_check(const struct ranks *self, struct life *life)
{
  struct trial *trial = self->argument;
  int r = self->rank;
  RANKS_CHECK(tuttiFusionState(life->fusion, 0, 1, trial->rests[r], COUNT, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(life->fusion, 0, 0, trial->weights[r], COUNT, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(life->fusion, 1, 0, trial->counted[r], UPDATES, 0) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(trial->meeting));
  RANKS_CHECK(counted_take(trial, life) >= (int)life->info.updates);
  for (int e = 0; e < COUNT; e++) {
    double is = 0;
    for (int k = 0; k < RANKS; k++) is += (double)trial->weights[k][e] + (double)trial->rests[k][e];
    if (is == life->sum[e]) continue;
    fprintf(stderr, "rank %d: no. %ld was refused to rank %d: element %d is %g behind %d updates, not %g\n", r,
            trial->n, trial->victim, e, is, life->summed, life->sum[e]);
    return 1;
  }
  RANKS_CHECK(meeting_wait(trial->meeting));
  return 0;
}

static int each(const struct ranks *self)
{
  static struct life life;
  struct trial *trial = self->argument;
  RANKS_CHECK(life_make(self, &life) == 0);
  for (int misses = 0; misses < 2;) { /* a rank that is late may ask for less than it does at other times */
    tuttiResult_t result = tuttiSuccess;
    RANKS_CHECK(meeting_wait(trial->meeting));
    if (self->rank == trial->victim) atomic_store(&countdown, trial->n);
    RANKS_CHECK(steps(self, &life, &result) == 0);
    RANKS_CHECK(meeting_wait(trial->meeting));
    if (self->rank == trial->victim) {
      atomic_store(&trial->fired, atomic_exchange(&countdown, 0) <= 0);
      trial->failed += result != tuttiSuccess;
      trial->n += atomic_load(&trial->fired) ? apart : 0;
    }
    RANKS_CHECK(move(self, &life) == 0);
    RANKS_CHECK(meeting_wait(trial->meeting));
    RANKS_CHECK(weights_check(self, &life) == 0);
    misses = atomic_load(&trial->fired) ? 0 : misses + 1;
  }
  RANKS_CHECK(tuttiFusionDestroy(life.fusion) == tuttiSuccess);
  tuttiCommAbort(life.comm);
  return tuttiCommDestroy(life.first) != tuttiSuccess;
}

static void what_counted_is_in_the_weights_and_what_did_not_is_left(void **state)
{
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  for (int victim = 0; victim < 2; victim++) {
    struct trial *trial = ranks_shared(sizeof *trial);
    assert_non_null(trial);
    *trial = (struct trial){.victim = victim, .n = 1 + victim, .meeting = meeting_make(RANKS)};
    assert_int_equal(ranks_run_processes(RANKS, each, trial, 200), 0);
    printf("rank %d: %ld refusals that failed its steps\n", victim, trial->failed);
    assert_true(trial->failed > LEAST);
    meeting_free(trial->meeting);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(what_counted_is_in_the_weights_and_what_did_not_is_left),
  };
  if (argc > 2 && strcmp(argv[1], "--apart") == 0) apart = atol(argv[2]);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
