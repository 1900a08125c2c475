/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions whose owners update weights: whatever the plan, the transport and the number of ranks, the weights have, step
 * after step, the bits that an all-reduce with `deterministic` and an update by each rank for itself give; with a
 * codec, those of an update by the sum that owners decode. So do they after a change of the rate or the codec, after a
 * step that overflowed, and in a fusion of other ranks that took over the state.
 * Labels: processes. */
#include <math.h>
#include <signal.h>

#include "update_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

/* ---- bits ---- */

static const struct way ways[] = {
    {"sgd", "wfbp", "none", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"momentum:0.875", "p3:700", "none", wide, 4096, 1, tuttiFloat32, tuttiFloat16, 1},
    {"lars:0.875,0.0009765625,0.125", "p3:700", "none", wide, 4096, 0, tuttiFloat32, tuttiFloat32, 1},
    {"sgd:0.0009765625", "auto", "none", wide, 0, 0, tuttiFloat16, tuttiFloat16, 1},
    {"function:3", "threshold:6K,1K", "none", wide, 0, 1, tuttiBfloat16, tuttiFloat32, 0},
    {"momentum:0.875,0.0009765625", "single", "none", narrow, 0, 0, tuttiFloat32, tuttiFloat32, 1},
    {"lars:0.875,0.0009765625,0.125", "mgwfbp", "none", narrow, 0, 1, tuttiFloat32, tuttiFloat32, 0},
    {"momentum:0.875", "wfbp", "1bit:64", wide, 0, 1, tuttiFloat32, tuttiFloat16, 0},
    {"lars:0.875,0.0009765625,0.125", "single", "int8", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
    {"sgd", "p3:700", "terngrad", wide, 0, 0, tuttiFloat32, tuttiFloat32, 0},
};
enum { WAYS = sizeof ways / sizeof *ways };

static int bits_body(const struct ranks *self)
{
  tuttiComm_t comm, exact;
  RANKS_CHECK(comms_make(self, &comm, &exact) == 0);
  for (int k = 0; k < WAYS; k++) {
    struct reference reference;
    tuttiFusion_t fusion;
    if ((k + self->nranks) % 2 && (IS_SLOW || self->nranks > 3)) continue;
    RANKS_CHECK(fusion_make(&fusion, comm, &ways[k]) == tuttiSuccess);
    reference_make(&reference, self, &ways[k], exact);
    RANKS_CHECK(weights_give(self, fusion, &reference) == 0);
    struct step step = {.before = 1, .after = 1, .rate = 0.25f};
    for (step.number = 1; step.number <= 6; step.number++) {
      step.spoilt = step.number == 4 && ways[k].overflow;
      if (step.number == 3) step.rate = 0.0625f;
      if (step.number == 3) RANKS_CHECK(tuttiFusionRate(fusion, step.rate) == tuttiSuccess);
      if (step.number == 5) step.before = 3, step.after = 0.375f;
      if (step.number == 5) reference_scale(&reference, 1, step.after);
      if (step.number == 5) RANKS_CHECK(tuttiFusionScale(fusion, step.before, step.after) == tuttiSuccess);
      if (step_run(self, fusion, &reference, &step)) return 1;
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    reference_free(&reference);
  }
  return comms_destroy(self, comm, exact);
}

static void bits_are_those_of_an_all_reduce_and_a_local_update(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 1 + t; nranks <= 6; nranks += 1 + t + IS_SLOW + (nranks == 3))
      assert_int_equal(run_fusion(ranks_transports(t), nranks, bits_body, NULL), 0);
}

/* ---- changes ---- */

/* Weights and velocities move with the owners of elements, which differ between these codecs. */
static int codecs_body(const struct ranks *self)
{
  static const char *const texts[] = {"none", "1bit:64", "qsgd:4,100", "none"};
  tuttiComm_t comm, exact;
  tuttiFusion_t fusion;
  struct reference reference;
  struct way way = ways[1];
  struct step step = {.before = 1, .after = 1, .rate = 0.25f};
  RANKS_CHECK(comms_make(self, &comm, &exact) == 0);
  RANKS_CHECK(fusion_make(&fusion, comm, &way) == tuttiSuccess);
  reference_make(&reference, self, &way, exact);
  RANKS_CHECK(weights_give(self, fusion, &reference) == 0);
  for (int k = 0; k < 4; k++) {
    worlds_free(&reference);
    way.codec = texts[k];
    worlds_make(&reference);
    RANKS_CHECK(tuttiFusionCodec(fusion, texts[k]) == tuttiSuccess);
    for (int n = 0; n < 2; n++) {
      step.number++;
      if (step_run(self, fusion, &reference, &step)) return 1;
    }
  }
  RANKS_CHECK(tuttiFusionCodec(fusion, "drop:0.9") == tuttiInvalidArgument && says("update on each rank"));
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  reference_free(&reference);
  return comms_destroy(self, comm, exact);
}

static void weights_move_to_the_owners_of_another_codec(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 5; nranks += 2) assert_int_equal(run_fusion("shm", nranks, codecs_body, NULL), 0);
}

/* ---- state ---- */

/* Adds up a plane over the ranks, and compares it. */
static int plane_check(const struct ranks *self, tuttiFusion_t fusion, tuttiComm_t comm, int t, int plane,
                       const float *want)
{
  float *data = floats(wide[t].count);
  RANKS_CHECK(tuttiFusionState(fusion, t, plane, data, wide[t].count, 0) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(data, data, wide[t].count, tuttiUint32, tuttiSum, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(memcmp(data, want, wide[t].count * sizeof *data) == 0);
  free(data);
  return 0;
}

/* A fusion of all but the last rank goes on with the state of one of all, which each rank has read. */
static int state_body(const struct ranks *self)
{
  tuttiComm_t comm, exact, fewer = NULL;
  tuttiFusion_t fusion = NULL, next = NULL;
  struct reference reference;
  struct step step = {.before = 1, .after = 1, .rate = 0.25f};
  int is_last = self->rank == self->nranks - 1;
  struct ranks left = {.rank = self->rank, .nranks = self->nranks - 1};
  RANKS_CHECK(comms_make(self, &comm, &exact) == 0);
  RANKS_CHECK(fusion_make(&fusion, comm, &ways[5]) == tuttiSuccess);
  reference_make(&reference, self, &ways[5], exact);
  RANKS_CHECK(weights_give(self, fusion, &reference) == 0);
  for (step.number = 1; step.number <= 3; step.number++) RANKS_CHECK(step_run(self, fusion, &reference, &step) == 0);
  for (int t = 0; t < TENSORS; t++) {
    RANKS_CHECK(plane_check(self, fusion, comm, t, 0, reference.w[t]) == 0);
    RANKS_CHECK(plane_check(self, fusion, comm, t, 1, reference.v[t]) == 0);
  }
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.deterministic = 1;
  RANKS_CHECK(tuttiCommSplit(comm, is_last ? TUTTI_SPLIT_NOCOLOR : 0, self->rank, &fewer, &config) == tuttiSuccess);
  if (!is_last) {
    RANKS_CHECK(fusion_make(&next, fewer, &ways[5]) == tuttiSuccess);
    RANKS_CHECK(weights_give(&left, next, &reference) == 0);
    for (int t = 0; t < TENSORS; t++)
      RANKS_CHECK(tuttiFusionState(next, t, 1, reference.v[t], wide[t].count, 1) == tuttiSuccess);
    reference.exact = fewer;
    reference.nranks = left.nranks;
    for (int n = 0; n < 2; n++, step.number++) RANKS_CHECK(step_run(&left, next, &reference, &step) == 0);
    RANKS_CHECK(tuttiFusionDestroy(next) == tuttiSuccess);
    RANKS_CHECK(tuttiCommDestroy(fewer) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  reference_free(&reference);
  return comms_destroy(self, comm, exact);
}

static void state_goes_on_with_fewer_ranks(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 4, state_body, NULL), 0);
}

/* ---- a death ---- */

/* The last rank dies in the third step. Those that are left have the planes of the step that they name. */
static int death_body(const struct ranks *self)
{
  tuttiComm_t comm, exact;
  tuttiFusion_t fusion;
  struct reference reference;
  struct gradients g;
  tuttiFusionInfo_t info = {.size = sizeof info};
  struct step step = {.before = 1, .after = 1, .rate = 0.25f};
  RANKS_CHECK(comms_make(self, &comm, &exact) == 0);
  RANKS_CHECK(fusion_make(&fusion, comm, &ways[0]) == tuttiSuccess);
  reference_make(&reference, self, &ways[0], exact);
  RANKS_CHECK(weights_give(self, fusion, &reference) == 0);
  for (step.number = 1; step.number <= 2; step.number++) RANKS_CHECK(step_run(self, fusion, &reference, &step) == 0);
  RANKS_CHECK(gradients_make(&g, wide, TENSORS, 0, 0));
  if (self->rank == self->nranks - 1) {
    RANKS_CHECK(gradient_push(fusion, &g, 4, NULL) == tuttiSuccess && tuttiFusionWait(fusion, 4) == tuttiSuccess);
    raise(SIGKILL);
  }
  RANKS_CHECK(step_push(self, fusion, &g, &reference, &step) == 0);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiRemoteError);
  RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess && info.state_step == 2);
  for (int t = 0; t < TENSORS; t++) {
    float *plane = floats(wide[t].count);
    RANKS_CHECK(tuttiFusionState(fusion, t, 0, plane, wide[t].count, 0) == tuttiSuccess);
    for (size_t e = 0; e < wide[t].count; e++) RANKS_CHECK(plane[e] == 0 || plane[e] == reference.w[t][e]);
    RANKS_CHECK(tuttiFusionState(fusion, t, 0, plane, wide[t].count, 1) == tuttiRemoteError);
    free(plane);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) != tuttiInProgress && tuttiCommAbort(comm) == tuttiSuccess);
  reference_free(&reference);
  gradients_free(&g);
  return 0;
}

static void masters_are_those_of_the_last_step_after_a_death(void **state)
{
  (void)state;
  assert_int_equal(run_fusion_quietly("shm", 3, death_body, NULL), 1); /* that died */
  assert_int_equal(run_fusion_quietly("tcp", 3, death_body, NULL), 1);
}

/* ---- wrong uses ---- */

static tuttiResult_t failing(void *context, const tuttiFusionShard_t *shard)
{
  return *(const int *)context == 1 && shard->tensor == 4 ? tuttiInvalidUsage : tuttiSuccess;
}

/* A step that the call ends with an error on all ranks. */
static int step_fails(const struct ranks *self, tuttiFusion_t fusion, const char *words)
{
  struct gradients g;
  RANKS_CHECK(gradients_make(&g, wide, TENSORS, 0, 1));
  for (int t = 0; t < TENSORS; t++) {
    memset(g.in + g.at[t], 0, gradient_bytes(&g, t));
    gradient_push(fusion, &g, t, NULL);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) != tuttiSuccess && says(words));
  RANKS_CHECK(tuttiFusionDestroy(fusion) != tuttiInProgress);
  gradients_free(&g);
  return 0;
}

static int refusals(const struct ranks *self, tuttiComm_t comm)
{
  static const struct {
    const char *update, *words;
  } wrong[] = {{"adam", "there is no update \"adam\""}, {"sgd:2", "DECAY"},        {"sgd:0,1", "too much"},
               {"momentum:x", "MOMENTUM"},              {"function", "is NULL"},   {"function:4", "PLANES"},
               {"lars:0.9,0,", "ETA"}};
  tuttiFusion_t fusion;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  for (size_t k = 0; k < sizeof wrong / sizeof *wrong; k++) {
    config.update = wrong[k].update;
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiInvalidArgument);
    RANKS_CHECK(says(wrong[k].words));
  }
  config.update = "sgd";
  config.codec = "drop:0.9";
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiInvalidArgument);
  RANKS_CHECK(says("codec drop gives all ranks the sum, so no owner updates weights"));
  config.codec = NULL;
  config.rate = -1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiInvalidArgument && says("rate is -1"));
  config.rate = 0;
  config.weights_type = tuttiInt8;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiInvalidArgument);
  RANKS_CHECK(says("weights_type is 0"));
  config.weights_type = self->rank ? tuttiFloat16 : tuttiFloat32;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiInvalidUsage);
  RANKS_CHECK(says("weights_type is half on rank 1 and float on rank 0"));
  config.weights_type = tuttiFloat32;
  config.update = self->rank ? "sgd:0.5" : "sgd";
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiInvalidUsage);
  RANKS_CHECK(says("update is sgd:0.5 on rank 1 and sgd:0 on rank 0"));
  return 0;
}

static int wrong_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  float x[10] = {0};
  int rank = self->rank;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(refusals(self, comm) == 0);
  for (int k = 0; k < 2; k++) {
    config.update = k ? "sgd" : "function";
    config.function = k ? NULL : failing;
    config.context = &rank;
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionPush(fusion, 1, x, x, 10, tuttiFloat32, NULL) == tuttiInvalidUsage && says("no weights"));
    RANKS_CHECK(tuttiFusionState(fusion, 1, 1, x, 10, 0) == tuttiInvalidArgument && says("no such plane"));
    RANKS_CHECK(tuttiFusionRate(fusion, INFINITY) == tuttiInvalidArgument);
    RANKS_CHECK(tuttiFusionRate(fusion, k ? (float)self->rank : 1) == tuttiSuccess);
    for (int t = 0; t < TENSORS; t++) {
      float *zeros = floats(wide[t].count);
      RANKS_CHECK(tuttiFusionState(fusion, t, 0, zeros, wide[t].count, 1) == tuttiSuccess);
      free(zeros);
    }
    RANKS_CHECK(step_fails(self, fusion, k ? "rate 1" : "config.function has failed for tensor 4 (w2)") == 0);
  }
  config.update = NULL;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, wide, TENSORS, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionRate(fusion, 1) == tuttiInvalidUsage && says("set update"));
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
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
      cmocka_unit_test(bits_are_those_of_an_all_reduce_and_a_local_update),
      cmocka_unit_test(weights_move_to_the_owners_of_another_codec),
      cmocka_unit_test(state_goes_on_with_fewer_ranks),
      cmocka_unit_test(masters_are_those_of_the_last_step_after_a_death),
      cmocka_unit_test(wrong_uses_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
