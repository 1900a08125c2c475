/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions with servers: with a quorum of all ranks weights have the bits of a fusion without servers, and with a codec
 * those of an update by what the public functions of codecs decode of each rank; with a smaller quorum each step has
 * one set of contributors, for all tensors and ranks, and what comes later counts in no step; with a staleness each
 * contribution counts at most once, within the bound. Values are tagged with rank and step, so that a weight tells
 * which contributions are in it.
 * Labels: processes. */
#include <signal.h>
#include <unistd.h>

#include "tagged_ranks.h"
#include "update_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST (IS_SLOW ? 4 : 6) /* ranks */

/* Ranks wait for so many seconds; 0: as ever. Their errors are wanted, and not logged meanwhile. */
static void timeout_set(int s)
{
  char text[16];
  snprintf(text, sizeof text, "%d", 1000 * s * ranks_patience());
  if (s) setenv("TUTTI_TIMEOUT_MS", text, 1);
  else unsetenv("TUTTI_TIMEOUT_MS");
  if (s) setenv("TUTTI_DEBUG", "NONE", 1);
  else unsetenv("TUTTI_DEBUG");
}

/* ---- all ranks ---- */

static const struct way ways[] = {
    {"sgd", "servers", "none", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"momentum:0.875,0.0009765625", "servers", "none", wide, 0, 1, tuttiFloat32, tuttiFloat32, 0},
    {"function:3", "servers", "none", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"momentum:0.875", "servers", "none", wide, 0, 0, tuttiFloat16, tuttiBfloat16, 0},
    {"momentum:0.875,0.0009765625", "servers", "none", narrow, 0, 1, tuttiFloat32, tuttiFloat32, 0},
    {"momentum:0.875", "servers", "1bit:64", wide, 0, 1, tuttiFloat32, tuttiFloat16, 0},
    {"sgd", "servers", "qsgd:4", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"sgd", "servers", "terngrad", wide, 0, 1, tuttiFloat32, tuttiFloat32, 0},
    {"sgd:0.0009765625", "servers", "int8", wide, 0, 0, tuttiBfloat16, tuttiFloat32, 0},
    {"momentum:0.875", "servers", "drop:0.9", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"sgd", "servers", "threshold:0.5", wide, 0, 1, tuttiFloat32, tuttiFloat32, 0},
    {"function:3", "servers", "dgc:0.9", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"sgd", "servers", "dryden:0.01", wide, 0, 0, tuttiFloat32, tuttiBfloat16, 0},
    {"sgd", "servers", "adacomp:50", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
};
enum { WAYS = sizeof ways / sizeof *ways };

/* In the middle of its steps each fusion moves to another communicator; lengths of codecs begin anew then. */
static int bits_body(const struct ranks *self)
{
  tuttiComm_t comm, exact, beside;
  int many = self->nranks > 3 ? 2 : 1, apart = IS_SLOW ? 3 : many; /* slow: each way once, with 2 to 4 ranks */
  RANKS_CHECK(comms_make(self, &comm, &exact) == 0);
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &beside, NULL) == tuttiSuccess);
  for (int k = 0; k < WAYS; k++) {
    struct reference reference;
    tuttiFusion_t fusion;
    tuttiFusionInfo_t info = {.size = sizeof info};
    if ((k + self->nranks) % apart) continue;
    RANKS_CHECK(fusion_make(&fusion, comm, &ways[k]) == tuttiSuccess);
    reference_make(&reference, self, &ways[k], exact);
    RANKS_CHECK(weights_give(self, fusion, &reference) == 0);
    struct step step = {.before = 1, .after = 1, .rate = 0.25f};
    for (step.number = 1; step.number <= 6; step.number++) {
      int moves = step.number == 4 && strncmp(ways[k].codec, "adacomp", 7) && strncmp(ways[k].codec, "threshold", 9);
      if (moves) RANKS_CHECK(tuttiFusionMove(&fusion, beside) == tuttiSuccess);
      if (step.number == 3) step.rate = 0.0625f;
      if (step.number == 3) RANKS_CHECK(tuttiFusionRate(fusion, step.rate) == tuttiSuccess);
      if (step.number == 5) step.before = 3, step.after = 0.375f;
      if (step.number == 5) reference_scale(&reference, 1, step.after);
      if (step.number == 5) RANKS_CHECK(tuttiFusionScale(fusion, step.before, step.after) == tuttiSuccess);
      if (step_run(self, fusion, &reference, &step)) return 1;
    }
    RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess);
    RANKS_CHECK(info.updates == 6 && info.dropped == 0 && info.stalest == 0 && info.state_step == 6);
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    reference_free(&reference);
  }
  RANKS_CHECK(tuttiCommDestroy(beside) == tuttiSuccess);
  return comms_destroy(self, comm, exact);
}

static void a_quorum_of_all_has_the_bits_of_no_servers(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 1 + t; nranks <= MOST; nranks += 2)
      assert_int_equal(run_fusion(ranks_transports(t), nranks, bits_body, NULL), 0);
}

/* ---- backup workers ---- */

struct shared {
  _Atomic uint64_t updates; /* that rank 0 has seen */
};

/* The last rank begins when the others have ended half of the steps, which they can do without it, and is slow then. */
static int backup_body(const struct ranks *self)
{
  struct shared *shared = self->argument;
  struct job job = {.quorum = self->nranks > 4 ? self->nranks - 2 : self->nranks - 1};
  tuttiComm_t comm;
  int is_slow = self->rank == self->nranks - 1, n = 0;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  while (is_slow && atomic_load(&shared->updates) < TAGS / 2) usleep(500);
  for (; job.info.updates < TAGS; n++) {
    RANKS_CHECK(job_step(self, &job, (int)job.info.updates, (float)(1 << self->rank)) == 0);
    RANKS_CHECK(job.wrong == 0 && sets_check(self, &job) == 0);
    if (is_slow && n == 0) RANKS_CHECK(job.info.dropped == 1);
    if (is_slow) usleep(2000);
    if (self->rank == 0) atomic_store(&shared->updates, job.info.updates);
  }
  for (int tag = 0; tag < TAGS; tag++) { /* the sets are the same on all ranks */
    float value = weight_of(&job, 0, (size_t)tag), most, least;
    RANKS_CHECK(tuttiAllReduce(&value, &most, 1, tuttiFloat32, tuttiMax, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(&value, &least, 1, tuttiFloat32, tuttiMin, comm, NULL) == tuttiSuccess);
    RANKS_CHECK(most == least);
  }
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  gradients_free(&job.g);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void late_contributions_count_in_no_step(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 2 + t; nranks <= (IS_SLOW ? 5 : MOST); nranks += 2) { /* 5: two are not waited for */
      struct shared *shared = ranks_shared(sizeof *shared);
      assert_int_equal(run_fusion(ranks_transports(t), nranks, backup_body, shared), 0);
    }
}

/* ---- staleness ---- */

/* A rank's own step has the tag of both. */
static int tag_of(const struct ranks *self, int rank, int step)
{
  return step * self->nranks + rank;
}

/* ssp: after a step the weights have all steps that the bound leaves no choice about. */
static int ahead_check(const struct ranks *self, const struct job *job, int step)
{
  for (int rank = 0; rank < self->nranks; rank++)
    for (int q = 0; q <= step - job->staleness; q++)
      for (size_t e = (size_t)tag_of(self, rank, q); e < tagged[0].count; e += TAGS)
        RANKS_CHECK(weight_of(job, 0, e) == 1);
  return 0;
}

/* Each contribution is in the weights once, or not at all. */
static int once_check(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  int64_t dropped = (int64_t)job->info.dropped;
  RANKS_CHECK(tuttiAllReduce(&dropped, &dropped, 1, tuttiInt64, tuttiSum, comm, NULL) == tuttiSuccess);
  for (int t = 0; t < TAGGED; t++) {
    float *plane = floats(tagged[t].count);
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, plane, tagged[t].count, 0) == tuttiSuccess);
    RANKS_CHECK(tuttiAllReduce(plane, plane, tagged[t].count, tuttiFloat32, tuttiSum, comm, NULL) == tuttiSuccess);
    for (size_t e = 0; e < tagged[t].count; e++) {
      int is_used = (int)(e % TAGS) < job->steps * self->nranks;
      RANKS_CHECK(plane[e] == 0 || (plane[e] == 1 && is_used));
      if (job->quorum < 2 && !dropped) RANKS_CHECK(plane[e] == (float)is_used);
    }
    free(plane);
  }
  RANKS_CHECK(job->quorum || !dropped);
  return 0;
}

/* Each rank has a loss scale of its own, which its contributions lose again. */
static int stale_job(const struct ranks *self, tuttiComm_t comm, int quorum, int staleness)
{
  float scale = (float)(1 << self->rank);
  struct job job = {.quorum = quorum, .staleness = staleness, .steps = TAGS / self->nranks};
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  RANKS_CHECK(tuttiFusionScale(job.fusion, 4, 0.25f / scale) == tuttiSuccess);
  for (int k = 0; k < job.steps; k++) {
    RANKS_CHECK(job_step(self, &job, tag_of(self, self->rank, k), scale) == 0);
    if (!quorum) RANKS_CHECK(ahead_check(self, &job, k) == 0);
    if (self->rank == self->nranks - 1) usleep(3000);
  }
  RANKS_CHECK(once_check(self, &job, comm) == 0);
  RANKS_CHECK(tuttiFusionGetInfo(job.fusion, &job.info) == tuttiSuccess);
  RANKS_CHECK(job.wrong == 0 && (!quorum || job.info.stalest <= (uint64_t)staleness));
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  gradients_free(&job.g);
  return 0;
}

static int stale_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(stale_job(self, comm, 1, 2) == 0);
  RANKS_CHECK(stale_job(self, comm, self->nranks, 1) == 0);
  RANKS_CHECK(stale_job(self, comm, 0, 1) == 0);
  RANKS_CHECK(stale_job(self, comm, 0, 3) == 0);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void stale_contributions_count_once_and_within_the_bound(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 2 + t; nranks <= MOST; nranks += 2)
      assert_int_equal(run_fusion(ranks_transports(t), nranks, stale_body, NULL), 0);
}

/* ---- nothing to add up ---- */

static const tuttiFusionTensor_t nothing[] = {{"a", 0, tuttiFloat32}, {"b", 0, tuttiFloat32}};

static int nothing_body(const struct ranks *self)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiFusionInfo_t info = {.size = sizeof info};
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  float x = 0;
  uint64_t steps = 3 + (uint64_t)self->rank;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  config.update = "sgd";
  config.quorum = 1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, nothing, 2, &config) == tuttiSuccess);
  for (int t = 0; t < 2; t++) RANKS_CHECK(tuttiFusionState(fusion, t, 0, &x, 0, 1) == tuttiSuccess);
  for (uint64_t k = 0; k < steps; k++) {
    for (int t = 0; t < 2; t++) RANKS_CHECK(tuttiFusionPush(fusion, t, &x, &x, 0, tuttiFloat32, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess && info.updates == steps && !info.dropped);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void steps_without_elements_end(void **state)
{
  (void)state;
  timeout_set(2);
  assert_int_equal(run_fusion("shm", 3, nothing_body, NULL), 0);
  timeout_set(0);
}

/* ---- waits that last too long ---- */

enum late { IN_WAIT, IN_DESTROY, AFTER_A_STEP, LATES };

/* Rank 0 waits for the last one, which does nothing, and then finds the fusion ended. */
static int late_body(const struct ranks *self)
{
  enum late late = *(const enum late *)self->argument;
  struct job job = {.quorum = self->nranks};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  if (late == AFTER_A_STEP) RANKS_CHECK(job_step(self, &job, 0, (float)(1 << self->rank)) == 0);
  for (int t = 0; t < TAGGED && late != AFTER_A_STEP && self->rank == 0; t++)
    RANKS_CHECK(gradient_push(job.fusion, &job.g, t, NULL) == tuttiSuccess);
  if (self->rank == 0 && late == IN_WAIT) {
    RANKS_CHECK(tuttiFusionWaitAll(job.fusion) != tuttiSuccess && says("no contribution of rank 1"));
    RANKS_CHECK(tuttiFusionRate(job.fusion, 1) != tuttiSuccess && says("no contribution of rank 1"));
  }
  while (self->rank && tuttiFusionRate(job.fusion, 1) == tuttiSuccess) usleep(1000);
  if (self->rank) RANKS_CHECK(says(late == AFTER_A_STEP ? "not destroyed by rank 1" : "no contribution of rank 1"));
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) != tuttiSuccess);
  gradients_free(&job.g);
  tuttiCommAbort(comm);
  return 0;
}

static void waits_without_an_end_end_the_fusion(void **state)
{
  (void)state;
  timeout_set(2);
  for (enum late late = IN_WAIT; late < LATES; late++) assert_int_equal(run_fusion("shm", 2, late_body, &late), 0);
  timeout_set(0);
}

/* Both ranks have said that they leave, but the bytes of rank 0's farewell, behind their head, do not go. */
static int farewell_body(const struct ranks *self)
{
  struct job job = {.quorum = 2};
  tuttiComm_t comm;
  if (self->rank) unsetenv("TUTTI_TIMEOUT_MS");
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) != tuttiSuccess && says("messages not taken by rank 1"));
  gradients_free(&job.g);
  tuttiCommAbort(comm);
  return 0;
}

static void a_farewell_that_is_not_taken_ends_the_fusion(void **state)
{
  (void)state;
  timeout_set(2);
  setenv("TUTTI_LANES", "1", 1); /* lane 1 is that of messages */
  setenv("TUTTI_FAULT", "rank=0,lane=1,side=send,nth=2,action=delay:3600s", 1);
  assert_int_equal(run_fusion("shm", 2, farewell_body, NULL), 0);
  unsetenv("TUTTI_FAULT");
  unsetenv("TUTTI_LANES");
  timeout_set(0);
}

/* Each of two ranks lacks what the other one has pushed. They meet before whatever has to end within the timeout. */
static int own_body(const struct ranks *self)
{
  struct meeting *meeting = self->argument;
  struct job job = {.quorum = 2};
  tuttiComm_t comm;
  int first = self->rank ? 0 : 3;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(meeting_wait(meeting));
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  for (int t = 0; t < TAGGED; t++)
    if ((t == 3) == self->rank) RANKS_CHECK(gradient_push(job.fusion, &job.g, t, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWait(job.fusion, 3 - first) == tuttiInvalidUsage);
  RANKS_CHECK(says(first ? "tensor 3 (last) was not pushed in this step, 1 in all"
                         : "tensor 0 (first) was not pushed in this step, 3 in all"));
  RANKS_CHECK(meeting_wait(meeting));
  for (int t = 0; t < TAGGED; t++)
    if ((t == 3) != self->rank) RANKS_CHECK(gradient_push(job.fusion, &job.g, t, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(job.fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  gradients_free(&job.g);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_rank_that_lacks_a_push_names_it(void **state)
{
  (void)state;
  timeout_set(2);
  assert_int_equal(run_fusion("shm", 2, own_body, meeting_make(2)), 0);
  timeout_set(0);
}

/* Rank 1 owns nothing, and leaves long before rank 0. */
static int patient_body(const struct ranks *self)
{
  tuttiFusionTensor_t tensor = {"x", 10, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  float x[10] = {1, 1, 1, 1, 1, 1, 1, 1, 1, 1};
  tuttiFusion_t fusion;
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  config.update = "sgd";
  config.quorum = config.staleness = 1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &tensor, 1, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, x, 10, 1) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, x, 10, 0) == tuttiSuccess);
  RANKS_CHECK((x[0] == 0) == self->rank);
  for (int k = 0; k < 12 && self->rank == 0; k++) {
    usleep(200000);
    RANKS_CHECK(tuttiFusionPush(fusion, 0, x, x, 10, tuttiFloat32, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWait(fusion, 0) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_rank_that_has_left_waits_for_those_that_go_on(void **state)
{
  (void)state;
  timeout_set(2);
  assert_int_equal(run_fusion("shm", 2, patient_body, NULL), 0);
  timeout_set(0);
}

/* ---- ends and wrong uses ---- */

/* The last rank has given no weights when it destroys the fusion to which rank 0 contributes; before that a fusion that
 * nobody uses. */
static int ungiven_body(const struct ranks *self)
{
  struct job job = {.quorum = 1, .staleness = 2};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_begin(self, &job, comm) == 0);
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) == tuttiSuccess);
  gradients_free(&job.g);
  RANKS_CHECK((self->rank ? job_begin(self, &job, comm) : job_make(self, &job, comm)) == 0);
  if (self->rank == 0) {
    for (int t = 0; t < TAGGED; t++) gradient_push(job.fusion, &job.g, t, NULL);
    RANKS_CHECK(tuttiFusionWaitAll(job.fusion) != tuttiSuccess);
    RANKS_CHECK(says("rank 1 has destroyed the fusion before its weights were given"));
  }
  RANKS_CHECK(tuttiFusionDestroy(job.fusion) != tuttiSuccess);
  gradients_free(&job.g);
  tuttiCommAbort(comm);
  return 0;
}

static void weights_that_were_not_given_are_not_served(void **state)
{
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 2, ungiven_body, NULL), 0);
  assert_int_equal(run_fusion_quietly("tcp", 2, ungiven_body, NULL), 0);
}

/* The last rank destroys its fusion a step before the others, or dies. */
static int end_body(const struct ranks *self)
{
  int dies = *(const int *)self->argument, is_last = self->rank == self->nranks - 1;
  struct job job = {.quorum = self->nranks};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(job_make(self, &job, comm) == 0);
  RANKS_CHECK(job_step(self, &job, 0, (float)(1 << self->rank)) == 0);
  RANKS_CHECK(comm_try(self, comm, self->nranks) == 0); /* all have their weights */
  if (is_last && dies) raise(SIGKILL);
  if (!is_last) {
    for (int t = 0; t < TAGGED; t++) gradient_push(job.fusion, &job.g, t, NULL);
    RANKS_CHECK(tuttiFusionWaitAll(job.fusion) == tuttiRemoteError);
    if (!dies) RANKS_CHECK(says("have destroyed the fusion after 1 updates"));
  }
  tuttiResult_t result = tuttiFusionDestroy(job.fusion);
  RANKS_CHECK(!is_last || result == tuttiRemoteError);
  gradients_free(&job.g);
  tuttiCommAbort(comm);
  return 0;
}

static void too_few_ranks_are_named(void **state)
{
  int dies = 0;
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 3, end_body, &dies), 0);
  assert_int_equal(run_fusion_quietly("tcp", 2, end_body, &dies), 0);
  dies = 1;
  assert_int_equal(run_fusion_quietly("shm", 3, end_body, &dies), 1); /* that died */
}

static int refused(const struct ranks *self, tuttiComm_t comm, const tuttiFusionConfig_t *config, const char *words)
{
  tuttiFusion_t fusion;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, config) != tuttiSuccess && says(words));
  return 0;
}

static int options_body(const struct ranks *self, tuttiComm_t comm)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.quorum = 1;
  RANKS_CHECK(refused(self, comm, &config, "owners update no weights") == 0);
  config.update = "lars";
  RANKS_CHECK(refused(self, comm, &config, "update \"lars\"") == 0);
  config.update = "sgd";
  config.quorum = 3;
  RANKS_CHECK(refused(self, comm, &config, "config.quorum is 3") == 0);
  config.quorum = 0;
  config.staleness = -1;
  RANKS_CHECK(refused(self, comm, &config, "config.staleness is -1") == 0);
  config.staleness = 1 + self->rank;
  RANKS_CHECK(refused(self, comm, &config, "staleness is 2 on rank 1 and 1 on rank 0") == 0);
  config.staleness = self->rank;
  RANKS_CHECK(refused(self, comm, &config, "staleness is 1 on rank 1 and 0 on rank 0") == 0);
  config.staleness = 1;
  config.norms = 1;
  RANKS_CHECK(refused(self, comm, &config, "do not have that yet") == 0);
  return 0;
}

static int wrong_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  float x[10] = {0};
  tuttiFusionTensor_t tensor = {"x", 10, tuttiFloat32};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(options_body(self, comm) == 0);
  config.update = "sgd";
  config.quorum = 2;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &tensor, 1, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionPrint(fusion, stderr, 0) == tuttiInvalidUsage && says("no plan"));
  RANKS_CHECK(tuttiFusionCodec(fusion, "none") == tuttiInvalidUsage);
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, x, 10, 1) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionRate(fusion, (float)(1 + self->rank)) == tuttiSuccess);
  tuttiFusionPush(fusion, 0, x, x, 10, tuttiFloat32, NULL);
  RANKS_CHECK(tuttiFusionWait(fusion, 0) != tuttiSuccess && says("give the same for the same number of updates"));
  RANKS_CHECK(tuttiFusionDestroy(fusion) != tuttiInProgress);
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
      cmocka_unit_test(a_quorum_of_all_has_the_bits_of_no_servers),
      cmocka_unit_test(late_contributions_count_in_no_step),
      cmocka_unit_test(stale_contributions_count_once_and_within_the_bound),
      cmocka_unit_test(steps_without_elements_end),
      cmocka_unit_test(waits_without_an_end_end_the_fusion),
      cmocka_unit_test(a_farewell_that_is_not_taken_ends_the_fusion),
      cmocka_unit_test(a_rank_that_lacks_a_push_names_it),
      cmocka_unit_test(a_rank_that_has_left_waits_for_those_that_go_on),
      cmocka_unit_test(weights_that_were_not_given_are_not_served),
      cmocka_unit_test(too_few_ranks_are_named),
      cmocka_unit_test(wrong_uses_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
