/* SPDX-License-Identifier: BSD-3-Clause */
/* Exchanges of weights: one after the other they have the bits of the header's equations; at the same time the sum of
 * all weights stays, exactly, as weights are whole numbers and halves of them; with gossip nobody waits for a rank that
 * never pushes, and its weights change at most as often as the bound says.
 * Labels: processes. */
#include <unistd.h>

#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define KINDS 7   /* of elements: weights of a rank repeat after so many */
#define RANKS 6
#define STEPS 3   /* each exchange takes a bit or two: sums of six ranks are exact */
static const tuttiFusionTensor_t tensors[] = {
    {"first", 5000, tuttiFloat32}, {"few", 3, tuttiFloat32}, {"none", 0, tuttiFloat32}, {"last", 4097, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors, ELEMENTS = 5000 + 3 + 4097 };

struct job {
  const char *update;
  int is_gossip, staleness;
  float x[ELEMENTS], plane[ELEMENTS]; /* the program's weights; as State has them */
  tuttiFusion_t fusion;
  tuttiFusionInfo_t info;
};

struct shared {
  _Atomic int done; /* ranks that have made their steps */
};

static float first_weight(int rank, int kind)
{
  return (float)((5 * rank + 3 * kind) % 16 - 8);
}

static int state_move(const struct ranks *self, struct job *job, int plane, float *data, int sets)
{
  for (int t = 0; t < TENSORS; t++) {
    RANKS_CHECK(tuttiFusionState(job->fusion, t, plane, data, tensors[t].count, sets) == tuttiSuccess);
    data += tensors[t].count;
  }
  return 0;
}

/* easgd: the center begins as rank 0's weights. */
static int job_make(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = job->update;
  config.staleness = job->staleness;
  job->info.size = sizeof job->info;
  RANKS_CHECK(tuttiFusionCreate(&job->fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  size_t e = 0;
  for (int t = 0; t < TENSORS; t++)
    for (size_t i = 0; i < tensors[t].count; i++, e++) {
      job->x[e] = first_weight(self->rank, (int)(i % KINDS));
      job->plane[e] = first_weight(job->is_gossip ? self->rank : 0, (int)(i % KINDS));
    }
  return state_move(self, job, 0, job->plane, 1);
}

static int job_step(const struct ranks *self, struct job *job)
{
  static float sent[ELEMENTS];
  uint64_t state = job->info.steps * RANKS + (uint64_t)self->rank;
  int order[TENSORS], in_place = (int)(job->info.steps % 2);
  size_t at[TENSORS + 1] = {0};
  for (int t = 0; t < TENSORS; t++) at[t + 1] = at[t] + tensors[t].count;
  shuffled(order, TENSORS, &state);
  memcpy(sent, job->x, sizeof sent);
  for (int k = 0; k < TENSORS; k++) {
    int t = order[k];
    const float *from = in_place ? job->x + at[t] : sent + at[t];
    RANKS_CHECK(tuttiFusionPush(job->fusion, t, from, job->x + at[t], tensors[t].count, tuttiFloat32, NULL) ==
                tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(job->fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  return 0;
}

static int job_end(const struct ranks *self, struct job *job)
{
  RANKS_CHECK(tuttiFusionDestroy(job->fusion) == tuttiSuccess);
  free(job);
  return 0;
}

static struct job *job_new(const char *update, int staleness)
{
  struct job *job = calloc(1, sizeof *job);
  job->update = update;
  job->is_gossip = strcmp(update, "gossip") == 0;
  job->staleness = staleness;
  return job;
}

/* ---- one after the other ---- */

/* All ranks, by the header's equations. */
struct reference {
  float x[RANKS][KINDS], y[RANKS][KINDS], unseen[RANKS][KINDS]; /* easgd: y[0] is the center */
};

static int partner_of(int rank, int nranks, int step)
{
  int levels = 1;
  while (1 << levels < nranks) levels++;
  int other = (rank + (1 << step % levels)) % nranks;
  return other == rank ? -1 : other;
}

static void exchange(struct reference *r, const struct job *job, int rank, int nranks, int step)
{
  int partner = job->is_gossip ? partner_of(rank, nranks, step) : 0;
  float alpha = job->is_gossip ? 0.5f : strcmp(job->update, "easgd") == 0 ? (float)(0.9 / nranks) : 0.25f;
  for (int k = 0; k < KINDS; k++) {
    float *x = &r->x[rank][k];
    if (job->is_gossip) *x = r->y[rank][k] = *x + r->unseen[rank][k];
    r->unseen[rank][k] = 0;
    if (partner < 0) continue;
    float *y = &r->y[partner][k], d = alpha * (*x - *y);
    *y += d;
    r->unseen[partner][k] += d;
    *x -= d;
    if (job->is_gossip) r->y[rank][k] = *x;
  }
}

static int weights_check(const struct ranks *self, const struct job *job, const struct reference *r)
{
  const float *x = job->x;
  for (int t = 0; t < TENSORS; t++)
    for (size_t i = 0; i < tensors[t].count; i++, x++) RANKS_CHECK(*x == r->x[self->rank][i % KINDS]);
  return 0;
}

/* The center, or this rank's own weights. */
static int plane_check(const struct ranks *self, struct job *job, const struct reference *r, tuttiComm_t comm)
{
  int owner = job->is_gossip ? self->rank : 0;
  RANKS_CHECK(state_move(self, job, 0, job->plane, 0) == 0);
  if (!job->is_gossip)
    RANKS_CHECK(tuttiAllReduce(job->plane, job->plane, ELEMENTS, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess);
  const float *y = job->plane;
  for (int t = 0; t < TENSORS; t++)
    for (size_t i = 0; i < tensors[t].count; i++, y++) RANKS_CHECK(*y == r->y[owner][i % KINDS]);
  return 0;
}

static int turns_job(const struct ranks *self, tuttiComm_t comm, const char *update)
{
  static struct reference r;
  struct job *job = job_new(update, 0);
  RANKS_CHECK(job_make(self, job, comm) == 0);
  memset(&r, 0, sizeof r);
  for (int rank = 0; rank < self->nranks; rank++)
    for (int k = 0; k < KINDS; k++) {
      r.x[rank][k] = first_weight(rank, k);
      r.y[rank][k] = first_weight(rank, k);
    }
  for (int step = 0; step < 2 * STEPS; step++)
    for (int rank = 0; rank < self->nranks; rank++) {
      RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
      if (rank == self->rank) RANKS_CHECK(job_step(self, job) == 0);
      exchange(&r, job, rank, self->nranks, step);
      if (rank == self->rank) RANKS_CHECK(weights_check(self, job, &r) == 0);
      for (size_t e = 0; e < ELEMENTS && rank == self->rank; e++) job->x[e] += 1; /* it trains */
      for (int k = 0; k < KINDS; k++) r.x[rank][k] += 1;
    }
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(plane_check(self, job, &r, comm) == 0);
  RANKS_CHECK(job->info.dropped == 0 && (!job->is_gossip || job->info.updates == 2 * STEPS));
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  return job_end(self, job);
}

static int turns_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(turns_job(self, comm, "easgd") == 0);
  RANKS_CHECK(turns_job(self, comm, "easgd:0.25") == 0);
  RANKS_CHECK(turns_job(self, comm, "gossip") == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void exchanges_have_the_bits_of_the_equations(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 1 + t; nranks <= RANKS; nranks += 2)
      assert_int_equal(run_fusion(ranks_transports(t), nranks, turns_body, NULL), 0);
}

/* ---- at the same time ---- */

/* All weights together: what was given and trained. */
static int sum_check(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  static float whole[ELEMENTS];
  RANKS_CHECK(state_move(self, job, 0, whole, 0) == 0);
  for (size_t e = 0; e < ELEMENTS && !job->is_gossip; e++) whole[e] += job->x[e];
  RANKS_CHECK(tuttiAllReduce(whole, whole, ELEMENTS, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess);
  const float *sum = whole;
  for (int t = 0; t < TENSORS; t++)
    for (size_t i = 0; i < tensors[t].count; i++, sum++) {
      float wanted = job->is_gossip ? 0 : first_weight(0, (int)(i % KINDS));
      for (int rank = 0; rank < self->nranks; rank++)
        wanted += first_weight(rank, (int)(i % KINDS)) + (STEPS - 1) * (float)(1 + rank % 2);
      RANKS_CHECK(*sum == wanted);
    }
  return 0;
}

static int sum_job(const struct ranks *self, tuttiComm_t comm, const char *update)
{
  struct job *job = job_new(update, 0);
  RANKS_CHECK(job_make(self, job, comm) == 0);
  for (int step = 0; step < STEPS; step++) {
    for (size_t e = 0; e < ELEMENTS && step; e++) job->x[e] += (float)(1 + self->rank % 2);
    RANKS_CHECK(job_step(self, job) == 0);
    if (self->rank == self->nranks - 1) usleep(3000);
  }
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(sum_check(self, job, comm) == 0);
  return job_end(self, job);
}

static int sum_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(sum_job(self, comm, "easgd:0.5") == 0);
  RANKS_CHECK(sum_job(self, comm, "gossip") == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void the_sum_of_all_weights_stays(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 2 + t; nranks <= RANKS; nranks += 2)
      assert_int_equal(run_fusion(ranks_transports(t), nranks, sum_body, NULL), 0);
}

/* ---- a rank that never pushes ---- */

/* The last rank begins when all others have made their steps; its bound is two exchanges. */
static int idle_body(const struct ranks *self)
{
  struct shared *shared = self->argument;
  struct job *job = job_new("gossip", 2);
  int is_idle = self->rank == self->nranks - 1, asked = 0, steps = 8;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, job, comm) == 0);
  for (int step = 0; step < steps && !is_idle; step++) {
    for (int rank = 0; rank < self->nranks - 1; rank++)
      asked += partner_of(rank, self->nranks, step) == self->nranks - 1;
    RANKS_CHECK(job_step(self, job) == 0);
  }
  atomic_fetch_add(&shared->done, !is_idle);
  while (atomic_load(&shared->done) < self->nranks - 1) usleep(500);
  RANKS_CHECK(tuttiBarrier(comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  RANKS_CHECK(job->info.stalest <= 2);
  if (is_idle) RANKS_CHECK(job->info.stalest == 2 && job->info.updates == 0);
  else RANKS_CHECK(job->info.updates == (uint64_t)steps && asked > 2);
  uint64_t dropped = job->info.dropped;
  RANKS_CHECK(tuttiAllReduce(&dropped, &dropped, 1, tuttiUint64, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(is_idle || dropped >= (uint64_t)asked - 2);
  RANKS_CHECK(job_end(self, job) == 0 && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void nobody_waits_for_a_rank_that_never_pushes(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    struct shared *shared = ranks_shared(sizeof *shared);
    assert_int_equal(run_fusion(ranks_transports(t), 3 + t, idle_body, shared), 0);
  }
}

/* ---- wrong uses ---- */

static int refused(const struct ranks *self, tuttiComm_t comm, const tuttiFusionConfig_t *config, const char *words)
{
  tuttiFusion_t fusion;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, config) == tuttiInvalidArgument && says(words));
  return 0;
}

static int wrong_body(const struct ranks *self)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  struct job *job = job_new("gossip", 0);
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  config.update = "easgd:2";
  RANKS_CHECK(refused(self, comm, &config, "ALPHA is \"2\"") == 0);
  config.update = "gossip:1";
  RANKS_CHECK(refused(self, comm, &config, "\":1\" is too much") == 0);
  config.update = "gossip";
  config.quorum = 1;
  RANKS_CHECK(refused(self, comm, &config, "config.quorum is 1: with update \"gossip\"") == 0);
  config.update = "easgd";
  config.quorum = 0;
  config.staleness = 1;
  RANKS_CHECK(refused(self, comm, &config, "config.staleness is 1: update \"easgd\"") == 0);
  config.staleness = 0;
  config.codec = "int8";
  RANKS_CHECK(refused(self, comm, &config, "codec int8 is for gradients") == 0);
  config.codec = NULL;
  config.weights_type = tuttiFloat16;
  RANKS_CHECK(refused(self, comm, &config, "another weights_type than float: with easgd and gossip") == 0);
  RANKS_CHECK(job_make(self, job, comm) == 0);
  RANKS_CHECK(tuttiFusionScale(job->fusion, 1, 2) == tuttiInvalidUsage && says("leave both 1"));
  RANKS_CHECK(tuttiFusionScale(job->fusion, 1, 1) == tuttiSuccess);
  RANKS_CHECK(job_step(self, job) == 0 && job_end(self, job) == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_uses_are_named(void **state)
{
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 2, wrong_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(exchanges_have_the_bits_of_the_equations), cmocka_unit_test(the_sum_of_all_weights_stays),
      cmocka_unit_test(nobody_waits_for_a_rank_that_never_pushes), cmocka_unit_test(wrong_uses_are_named)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
