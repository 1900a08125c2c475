/* SPDX-License-Identifier: BSD-3-Clause */
/* What is wrong with a fusion's arguments or use is refused with a sentence that names it, and the fusion works on;
 * what differs between ranks is told to all of them.
 * Labels: processes. */
#include <math.h>
#include <unistd.h>

#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static const tuttiFusionTensor_t tensors[] = {
    {"weight", 300, tuttiFloat32}, {"bias", 3, tuttiFloat32}, {NULL, 0, tuttiFloat32}, {"scale", 9, tuttiFloat64}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

static const tuttiFusionTensor_t integers[] = {{"weight", 300, tuttiFloat32}, {"counts", 4, tuttiInt32}};

#define REFUSED(call, code, first, second) RANKS_CHECK((call) == (code) && says(first) && says(second))

static int comm_make(const struct ranks *self, tuttiComm_t *comm)
{
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  return 0;
}

/* ---- creation ---- */

static int tensors_refused(const struct ranks *self, tuttiComm_t comm)
{
  tuttiFusion_t kept = (tuttiFusion_t)(void *)&kept, fusion = kept;
  tuttiFusionTensor_t own[TENSORS];
  char name[200];
  memset(name, 'n', sizeof name);
  name[128] = 0;
  for (int k = 0; k < 4; k++) {
    memcpy(own, tensors, sizeof own);
    if (k == 0) own[1].type = tuttiNumTypes;
    if (k == 1) own[1].type = (tuttiDataType_t)-1;
    if (k == 2) own[1].count = SIZE_MAX / 2;
    if (k == 3) own[1].name = name;
    static const char *const words[] = {"17", "-1", "count", "127"};
    REFUSED(tuttiFusionCreate(&fusion, comm, own, TENSORS, NULL), tuttiInvalidArgument, words[k],
            k < 3 ? "tensors[1]" : "tensors[1].name");
  }
  RANKS_CHECK(fusion == kept);
  return 0;
}

static int options_refused(const struct ranks *self, tuttiComm_t comm)
{
  static const char *const words[][2] = {{"policy", "fastest"}, {"policy", "threshold"}, {"op", "2"},
                                         {"wire_type", "2"},    {"overflow", "2"},       {"norms", "-1"},
                                         {"TUTTI_FUSION_CONFIG_INITIALIZER", "config"},  {"BYTES", "threshold:25M"}};
  tuttiFusion_t kept = (tuttiFusion_t)(void *)&kept, fusion = kept;
  for (int k = 0; k < 8; k++) {
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    if (k == 0) config.policy = "fastest";
    if (k == 1) config.policy = "threshold:many";
    if (k == 2) config.op = tuttiMax;
    if (k == 3) config.wire_type = tuttiInt32;
    if (k == 4) config.overflow = 2;
    if (k == 5) config.norms = -1;
    if (k == 6) config.magic = 0;
    if (k == 7) config.policy = "threshold";
    REFUSED(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config), tuttiInvalidArgument, words[k][0],
            words[k][1]);
  }
  RANKS_CHECK(fusion == kept);
  return 0;
}

static int create_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  if (comm_make(self, &comm)) return 1;
  REFUSED(tuttiFusionCreate(NULL, comm, tensors, TENSORS, NULL), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionCreate(&fusion, NULL, tensors, TENSORS, NULL), tuttiInvalidArgument, "comm", "NULL");
  REFUSED(tuttiFusionCreate(&fusion, comm, NULL, TENSORS, NULL), tuttiInvalidArgument, "tensors", "NULL");
  REFUSED(tuttiFusionCreate(&fusion, comm, tensors, 0, NULL), tuttiInvalidArgument, "ntensors is 0", "16384");
  REFUSED(tuttiFusionCreate(&fusion, comm, tensors, -7, NULL), tuttiInvalidArgument, "ntensors is -7", "16384");
  REFUSED(tuttiFusionCreate(&fusion, comm, tensors, 16385, NULL), tuttiInvalidArgument, "ntensors is 16385", "16384");
  if (tensors_refused(self, comm) || options_refused(self, comm)) return 1;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  if (fusion_step(self, fusion, &g, 0)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiFusionDestroy(NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void wrong_tensors_and_options_are_named(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 2; nranks++) assert_int_equal(run_fusion("shm", nranks, create_body, NULL), 0);
}

/* What is set is read when the communicator is made. */
static int environment_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  setenv("TUTTI_FUSION_BYTES", "-5", 1);
  REFUSED(tuttiCommInitRank(&comm, 1, self->id, 0), tuttiInvalidArgument, "TUTTI_FUSION_BYTES", "-5");
  unsetenv("TUTTI_FUSION_BYTES");
  setenv("TUTTI_FUSION_POLICY", "slowest", 1);
  if (comm_make(self, &comm)) return 1;
  REFUSED(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL), tuttiInvalidArgument, "policy", "slowest");
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_settings_are_named(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 1, environment_body, NULL), 0);
}

/* ---- ranks that differ ---- */

enum difference { COUNT, TYPE, NAME, FEWER, POLICY, OP, WIRE, OVERFLOW, NORMS, BUFFER, DIFFERENCES };

static tuttiResult_t create_differently(tuttiFusion_t *fusion, tuttiComm_t comm, int difference)
{
  tuttiFusionTensor_t own[TENSORS];
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  memcpy(own, tensors, sizeof own);
  if (difference == COUNT) own[1].count = 4;
  if (difference == TYPE) own[1].type = tuttiInt32;
  if (difference == NAME) own[1].name = "slope";
  if (difference == POLICY) config.policy = "single";
  if (difference == OP) config.op = tuttiAvg;
  if (difference == WIRE) config.wire_type = tuttiFloat16;
  if (difference == OVERFLOW) config.overflow = 1;
  if (difference == NORMS) config.norms = 1;
  if (difference == BUFFER) config.buffer_bytes = 1 << 20;
  return tuttiFusionCreate(fusion, comm, own, TENSORS - (difference == FEWER), &config);
}

static int differs_body(const struct ranks *self)
{
  static const char *const words[DIFFERENCES][2] = {
      [COUNT] = {"tensor 1 is bias (4 elements of float) on", "and bias (3 elements of float) on rank 0"},
      [TYPE] = {"tensor 1 is bias (3 elements of int32) on", "and bias (3 elements of float) on rank 0"},
      [NAME] = {"tensor 1 is slope (3 elements of float) on", "and bias (3 elements of float) on rank 0"},
      [FEWER] = {"ntensors is 3 on", "and 4 on rank 0"},
      [POLICY] = {"policy (TUTTI_FUSION_POLICY) is single on", "and auto on rank 0"},
      [OP] = {"op is avg on", "and sum on rank 0"},
      [WIRE] = {"wire_type is half on", "and float on rank 0"},
      [OVERFLOW] = {"overflow is 1 on", "and 0 on rank 0"},
      [NORMS] = {"norms is 1 on", "and 0 on rank 0"},
      [BUFFER] = {"buffer_bytes (TUTTI_FUSION_BYTES) is 1048576 on", "and 67108864 on rank 0"}};
  tuttiComm_t comm;
  tuttiFusion_t fusion, kept = (tuttiFusion_t)(void *)&kept;
  struct gradients g;
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
  for (int d = 0; d < DIFFERENCES; d++) {
    int other = 1 + d % (self->nranks - 1);
    char rank[24];
    snprintf(rank, sizeof rank, "on rank %d and", other);
    fusion = kept;
    tuttiResult_t result = create_differently(&fusion, comm, self->rank == other ? d : -1);
    if (result != tuttiInvalidUsage) fprintf(stderr, "difference %d\n", d);
    RANKS_CHECK(result == tuttiInvalidUsage && fusion == kept && says(rank) && says(words[d][0]) && says(words[d][1]));
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
    if (fusion_step(self, fusion, &g, (uint64_t)d)) return 1;
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void what_differs_between_ranks_is_told_to_all(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 3; nranks++)
    assert_int_equal(run_fusion(nranks % 2 ? "shm" : "tcp", nranks, differs_body, NULL), 0);
}

/* ---- pushing and waiting ---- */

static int push_refused(const struct ranks *self, tuttiFusion_t fusion)
{
  float x[600] = {0};
  char bytes[256] = {0};
  const tuttiDataType_t type = tuttiFloat32;
  REFUSED(tuttiFusionPush(NULL, 0, x, x, 300, type, NULL), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionPush(fusion, -1, x, x, 300, type, NULL), tuttiInvalidArgument, "tensor is -1", "3");
  REFUSED(tuttiFusionPush(fusion, TENSORS, x, x, 300, type, NULL), tuttiInvalidArgument, "tensor is 4", "3");
  REFUSED(tuttiFusionPush(fusion, 0, NULL, x, 300, type, NULL), tuttiInvalidArgument, "sendbuff", "NULL");
  REFUSED(tuttiFusionPush(fusion, 0, x, NULL, 300, type, NULL), tuttiInvalidArgument, "recvbuff", "NULL");
  REFUSED(tuttiFusionPush(fusion, 0, x, x + 299, 300, type, NULL), tuttiInvalidArgument, "overlap", "weight");
  REFUSED(tuttiFusionPush(fusion, 0, x + 1, x, 300, type, NULL), tuttiInvalidArgument, "overlap", "weight");
  REFUSED(tuttiFusionPush(fusion, 0, x, x, 299, type, NULL), tuttiInvalidArgument, "count is 299", "weight");
  REFUSED(tuttiFusionPush(fusion, 2, x, x, 1, type, NULL), tuttiInvalidArgument, "count is 1", "tensor 2");
  REFUSED(tuttiFusionPush(fusion, 1, x, x, 3, tuttiInt32, NULL), tuttiInvalidArgument, "type is", "bias");
  REFUSED(tuttiFusionPush(fusion, 1, x, x, 3, (tuttiDataType_t)12, NULL), tuttiInvalidArgument, "12", "bias");
  REFUSED(tuttiFusionPush(fusion, 1, x, x, 3, type, (tuttiStream_t)(void *)bytes), tuttiInvalidArgument, "stream", "");
  return 0;
}

/* Nothing, one tensor, and all but one were pushed. */
static int wait_refused(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step)
{
  REFUSED(tuttiFusionWait(NULL, 0), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionQuery(NULL, 0), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionWaitAll(NULL), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionWait(fusion, 4), tuttiInvalidArgument, "tensor is 4", "3");
  REFUSED(tuttiFusionQuery(fusion, -1), tuttiInvalidArgument, "tensor is -1", "3");
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess); /* no step has begun */
  if (step == 0) REFUSED(tuttiFusionWait(fusion, 0), tuttiInvalidUsage, "weight", "push");
  for (int t = TENSORS - 1; t >= 1; t--) gradient_fill(g, t, self->rank, step);
  RANKS_CHECK(gradient_push(fusion, g, 3, NULL) == tuttiSuccess);
  REFUSED(tuttiFusionWaitAll(fusion), tuttiInvalidUsage, "weight", "3");
  REFUSED(gradient_push(fusion, g, 3, NULL), tuttiInvalidUsage, "scale", "push");
  if (step == 0) { /* later there is the sum of the step before */
    REFUSED(tuttiFusionWait(fusion, 1), tuttiInvalidUsage, "bias", "push");
    REFUSED(tuttiFusionQuery(fusion, 1), tuttiInvalidUsage, "bias", "push");
  }
  RANKS_CHECK(gradient_push(fusion, g, 2, NULL) == tuttiSuccess && gradient_push(fusion, g, 1, NULL) == tuttiSuccess);
  REFUSED(tuttiFusionWaitAll(fusion), tuttiInvalidUsage, "weight", "push");
  gradient_fill(g, 0, self->rank, step);
  RANKS_CHECK(gradient_push(fusion, g, 0, NULL) == tuttiSuccess && tuttiFusionWaitAll(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWait(fusion, 0) == tuttiSuccess && tuttiFusionQuery(fusion, 3) == tuttiSuccess);
  return gradients_check(self, g, step, 1);
}

static int use_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  if (comm_make(self, &comm)) return 1;
  for (int p = 0; p < FUSION_POLICIES; p++) {
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    config.policy = fusion_policies[p];
    RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, p % 2));
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
    for (uint64_t step = 0; step < 12; step += 2)
      if (push_refused(self, fusion) || wait_refused(self, fusion, &g, step) || fusion_step(self, fusion, &g, step + 1))
        return 1;
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_pushes_and_waits_are_named_and_change_nothing(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 3; nranks++)
    assert_int_equal(run_fusion(nranks % 2 ? "shm" : "tcp", nranks, use_body, NULL), 0);
}

/* Tensors must not lie over one another, as they are pushed now: where they were in steps before does not count. */
static int overlaps_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  float x[2000], apart[3] = {0};
  double y[9];
  const tuttiDataType_t type = tuttiFloat32;
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  for (int step = 0; step < 40; step++) {
    float *weight = x + 3 + 29 * step, *bias = step % 2 ? weight + 300 : weight - 3;
    memset(x, 0, sizeof x);
    memset(y, 0, sizeof y);
    weight[299] = bias[2] = 1;
    RANKS_CHECK(tuttiFusionPush(fusion, 0, weight, weight, 300, type, NULL) == tuttiSuccess);
    for (int k = 0; k < 4; k++) {
      float *over = k == 0 ? weight : k == 1 ? weight + 299 : k == 2 ? weight - 2 : weight + 100;
      REFUSED(tuttiFusionPush(fusion, 1, over, over, 3, type, NULL), tuttiInvalidArgument, "tensor 1 (bias",
              "tensor 0 (weight");
      REFUSED(tuttiFusionPush(fusion, 1, apart, over, 3, type, NULL), tuttiInvalidArgument, "overlaps recvbuff", "own");
    }
    REFUSED(tuttiFusionPush(fusion, 3, weight + 2, weight + 2, 9, tuttiFloat64, NULL), tuttiInvalidArgument,
            "tensor 3 (scale", "tensor 0 (weight");
    RANKS_CHECK(tuttiFusionPush(fusion, 2, weight, weight, 0, type, NULL) == tuttiSuccess); /* it has no elements */
    RANKS_CHECK(tuttiFusionPush(fusion, 3, y, y, 9, tuttiFloat64, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionPush(fusion, 1, bias, bias, 3, type, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    RANKS_CHECK(weight[299] == (float)self->nranks && bias[2] == (float)self->nranks && weight[298] == 0);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void tensors_that_overlap_are_named(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 2; nranks++) assert_int_equal(run_fusion("shm", nranks, overlaps_body, NULL), 0);
}

/* Nor may a sum lie over what another tensor gives, whichever is pushed first, each time anew: what is waited for is in
 * nobody's way, and where one gave in the step before another's sum may come. Two may give the same. */
static int inputs_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  float x[2000], zeros[300] = {0}, weight[300], bias[3];
  double y[9] = {0};
  const tuttiDataType_t type = tuttiFloat32;
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  for (int step = 0; step < 40; step++) {
    float *input = x + 3 + 29 * (step / 4), *to = step % 2 ? input + 300 : input - 3; /* some twice in the same place */
    for (int i = 0; i < 2000; i++) x[i] = 1;
    for (int k = 0; k < 3; k++) {
      float *over = k == 0 ? input : k == 1 ? input + 299 : input - 2;
      if (step % 3) {
        if (k == 0) RANKS_CHECK(tuttiFusionPush(fusion, 0, input, weight, 300, type, NULL) == tuttiSuccess);
        REFUSED(tuttiFusionPush(fusion, 1, over, over, 3, type, NULL), tuttiInvalidArgument, "recvbuff",
                "overlaps sendbuff");
        REFUSED(tuttiFusionPush(fusion, 1, zeros, over, 3, type, NULL), tuttiInvalidArgument, "tensor 1 (bias",
                "tensor 0 (weight");
      } else {
        if (k == 0) RANKS_CHECK(tuttiFusionPush(fusion, 1, zeros, to, 3, type, NULL) == tuttiSuccess);
        float *from = k == 0 ? to : k == 1 ? to - 299 : to + 2;
        if (from < x) from = to;
        REFUSED(tuttiFusionPush(fusion, 0, from, weight, 300, type, NULL), tuttiInvalidArgument, "sendbuff",
                "overlaps recvbuff");
        REFUSED(tuttiFusionPush(fusion, 0, from, weight, 300, type, NULL), tuttiInvalidArgument, "tensor 0 (weight",
                "tensor 1 (bias");
      }
    }
    if (step % 3) RANKS_CHECK(tuttiFusionPush(fusion, 1, input, bias, 3, type, NULL) == tuttiSuccess); /* both do */
    else RANKS_CHECK(tuttiFusionPush(fusion, 0, input, input, 300, type, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionPush(fusion, 2, to, to, 0, type, NULL) == tuttiSuccess); /* it has no elements */
    RANKS_CHECK(tuttiFusionPush(fusion, 3, y, y, 9, tuttiFloat64, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
    if (step % 3) RANKS_CHECK(weight[299] == (float)self->nranks && bias[2] == (float)self->nranks && input[299] == 1);
    else RANKS_CHECK(input[299] == (float)self->nranks && to[2] == 0);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* Where a tensor was in a step before is not taken for free if another one has come there since. */
static int inputs_again_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  float here[300] = {0}, there[300] = {0}, weight[300], bias[3] = {0};
  double y[9] = {0};
  const tuttiDataType_t type = tuttiFloat32;
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  for (int step = 0; step < 12; step++) {
    float *input = step % 3 == 1 ? there : here;
    if (step % 3 == 1) {
      RANKS_CHECK(tuttiFusionPush(fusion, 1, bias, here + 5, 3, type, NULL) == tuttiSuccess);
      REFUSED(tuttiFusionPush(fusion, 0, here, weight, 300, type, NULL), tuttiInvalidArgument, "sendbuff",
              "overlaps recvbuff");
    }
    RANKS_CHECK(tuttiFusionPush(fusion, 0, input, weight, 300, type, NULL) == tuttiSuccess);
    if (step % 3 == 2)
      REFUSED(tuttiFusionPush(fusion, 1, bias, here + 5, 3, type, NULL), tuttiInvalidArgument, "recvbuff",
              "overlaps sendbuff");
    if (step % 3 != 1) RANKS_CHECK(tuttiFusionPush(fusion, 1, bias, bias, 3, type, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionPush(fusion, 2, NULL, NULL, 0, type, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionPush(fusion, 3, y, y, 9, tuttiFloat64, NULL) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_sum_over_what_another_tensor_gives_is_named(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 2; nranks++) {
    assert_int_equal(run_fusion("shm", nranks, inputs_body, NULL), 0);
    assert_int_equal(run_fusion("shm", nranks, inputs_again_body, NULL), 0);
  }
}

/* A tensor is not pushed before it was waited for, also where another one has begun the next step. */
static int not_waited_for(const struct ranks *self, tuttiFusion_t fusion, struct gradients *g)
{
  for (int t = 0; t < TENSORS; t++) {
    gradient_fill(g, t, self->rank, 1);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  for (int t = TENSORS - 1; t >= 0; t--) {
    if (t < TENSORS - 1) REFUSED(gradient_push(fusion, g, t, NULL), tuttiInvalidUsage, "not waited", "tuttiFusionWait");
    RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess && gradient_check(self, g, t, 1, 1) == 0);
    gradient_fill(g, t, self->rank, 2);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  return gradients_check(self, g, 2, 1);
}

/* A tensor that is there already waits for one that was not pushed yet. */
static int too_early_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  tuttiResult_t result;
  config.policy = "wfbp";
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) gradient_fill(&g, t, self->rank, 0);
  RANKS_CHECK(gradient_push(fusion, &g, 3, NULL) == tuttiSuccess); /* what backward makes first goes first */
  RANKS_CHECK(tuttiFusionWait(fusion, 3) == tuttiSuccess);
  if (gradient_check(self, &g, 3, 0, 1)) return 1;
  REFUSED(gradient_push(fusion, &g, 3, NULL), tuttiInvalidUsage, "weight", "push");
  for (int t = 2; t >= 0; t--) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
  result = tuttiFusionWaitAll(fusion);
  RANKS_CHECK(result == tuttiSuccess && gradients_check(self, &g, 0, 1) == 0);
  if (not_waited_for(self, fusion, &g) || fusion_step(self, fusion, &g, 3)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void the_next_step_begins_when_all_of_this_one_were_pushed(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 3; nranks++) assert_int_equal(run_fusion("shm", nranks, too_early_body, NULL), 0);
}

/* ---- the others ---- */

static int scale_refused(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t fusion)
{
  tuttiFusion_t other;
  REFUSED(tuttiFusionScale(NULL, 1, 1), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionScale(fusion, 0, 1), tuttiInvalidArgument, "before is 0", "");
  REFUSED(tuttiFusionScale(fusion, NAN, 1), tuttiInvalidArgument, "before is nan", "finite");
  REFUSED(tuttiFusionScale(fusion, 1, INFINITY), tuttiInvalidArgument, "after is inf", "finite");
  REFUSED(tuttiFusionScale(fusion, 1, -0.0f), tuttiInvalidArgument, "after is -0", "");
  RANKS_CHECK(tuttiFusionCreate(&other, comm, integers, 2, NULL) == tuttiSuccess);
  REFUSED(tuttiFusionScale(other, 0.5f, 1), tuttiInvalidArgument, "before is 0.5", "counts");
  REFUSED(tuttiFusionScale(other, 1, 2), tuttiInvalidArgument, "after is 2", "counts");
  RANKS_CHECK(tuttiFusionScale(other, 1, 1) == tuttiSuccess && tuttiFusionDestroy(other) == tuttiSuccess);
  return 0;
}

/* has: its reports are asked. */
static int reports_refused(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, int has)
{
  int overflow = 7;
  double norm = 7;
  REFUSED(tuttiFusionOverflow(NULL, &overflow), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionOverflow(fusion, NULL), tuttiInvalidArgument, "overflow", "NULL");
  REFUSED(tuttiFusionNorm(NULL, 0, &norm), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionNorm(fusion, 9, &norm), tuttiInvalidArgument, "tensor is 9", "3");
  REFUSED(tuttiFusionNorm(fusion, 0, NULL), tuttiInvalidArgument, "norm", "NULL");
  REFUSED(tuttiFusionOverflow(fusion, &overflow), tuttiInvalidUsage, has ? "step" : "overflow", "");
  REFUSED(tuttiFusionNorm(fusion, 0, &norm), tuttiInvalidUsage, has ? "weight" : "norms", "");
  gradient_fill(g, 3, self->rank, 0);
  RANKS_CHECK(gradient_push(fusion, g, 3, NULL) == tuttiSuccess);
  REFUSED(tuttiFusionOverflow(fusion, &overflow), tuttiInvalidUsage, has ? "step" : "overflow", "");
  REFUSED(tuttiFusionScale(fusion, 2, 2), tuttiInvalidUsage, "step", "");
  REFUSED(tuttiFusionPrint(fusion, stdout, 0), tuttiInvalidUsage, "step", "");
  for (int t = 2; t >= 0; t--) {
    gradient_fill(g, t, self->rank, 0);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  REFUSED(tuttiFusionOverflow(fusion, &overflow), tuttiInvalidUsage, has ? "step" : "overflow", "");
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess && gradients_check(self, g, 0, 1) == 0);
  RANKS_CHECK(overflow == 7 && norm == 7);
  if (has) {
    RANKS_CHECK(tuttiFusionOverflow(fusion, &overflow) == tuttiSuccess && overflow == 0);
    RANKS_CHECK(tuttiFusionNorm(fusion, 0, &norm) == tuttiSuccess && norm >= 0);
  }
  return 0;
}

static int info_refused(const struct ranks *self, tuttiFusion_t fusion)
{
  struct {
    tuttiFusionInfo_t info;
    int64_t more[4];
  } newer;
  FILE *full = fopen("/dev/full", "w"), *well = tmpfile();
  tuttiFusionInfo_t info = {.size = 4};
  char text[4096];
  RANKS_CHECK(full && well);
  REFUSED(tuttiFusionGetInfo(NULL, &info), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionGetInfo(fusion, NULL), tuttiInvalidArgument, "info", "NULL");
  REFUSED(tuttiFusionGetInfo(fusion, &info), tuttiInvalidArgument, "size", "4");
  memset(&newer, 0x77, sizeof newer);
  newer.info.size = sizeof newer;
  RANKS_CHECK(tuttiFusionGetInfo(fusion, &newer.info) == tuttiSuccess);
  RANKS_CHECK(newer.info.size == sizeof newer && newer.info.steps == 1 && newer.more[0] == 0 && newer.more[3] == 0);
  memset(&info, 0x77, sizeof info);
  info.size = offsetof(tuttiFusionInfo_t, plans); /* of an older program */
  RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess && info.steps == 1);
  RANKS_CHECK(info.plans == 0x7777777777777777u);
  REFUSED(tuttiFusionPrint(NULL, stdout, 0), tuttiInvalidArgument, "fusion", "NULL");
  REFUSED(tuttiFusionPrint(fusion, NULL, 0), tuttiInvalidArgument, "out", "NULL");
  setvbuf(full, NULL, _IONBF, 0);
  REFUSED(tuttiFusionPrint(fusion, full, 1), tuttiSystemError, "written", "");
  RANKS_CHECK(tuttiFusionPrint(fusion, well, 0) == tuttiSuccess && ftell(well) > 0);
  rewind(well);
  RANKS_CHECK(tuttiFusionPrint(fusion, well, 1) == tuttiSuccess);
  rewind(well);
  RANKS_CHECK(fgets(text, sizeof text, well) && strstr(text, "]], \"iteration_us\": 0}\n")); /* nothing is measured */
  fclose(full);
  fclose(well);
  return 0;
}

static int others_body(const struct ranks *self)
{
  tuttiComm_t comm;
  if (comm_make(self, &comm)) return 1;
  for (int has = 0; has < 2; has++) {
    tuttiFusion_t fusion;
    struct gradients g;
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    config.overflow = config.norms = has;
    RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
    if (scale_refused(self, comm, fusion) || reports_refused(self, fusion, &g, has) || info_refused(self, fusion))
      return 1;
    if (fusion_step(self, fusion, &g, 1)) return 1;
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void wrong_factors_and_questions_are_named_and_change_nothing(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 2; nranks++) assert_int_equal(run_fusion("shm", nranks, others_body, NULL), 0);
}

/* In a forked child there is no fusion. */
static int forked_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  int pid;
  if (comm_make(self, &comm)) return 1;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
  if (fusion_step(self, fusion, &g, 0)) return 1;
  pid = fork();
  if (pid == 0)
    _exit(gradient_push(fusion, &g, 3, NULL) != tuttiInvalidUsage || tuttiFusionWait(fusion, 3) != tuttiInvalidUsage ||
          tuttiFusionWaitAll(fusion) != tuttiInvalidUsage);
  RANKS_CHECK(pid > 0 && ranks_wait(pid, 20) == 0);
  if (fusion_step(self, fusion, &g, 1)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  gradients_free(&g);
  return 0;
}

static void a_forked_child_is_refused(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 2, forked_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(wrong_tensors_and_options_are_named),
      cmocka_unit_test(wrong_settings_are_named),
      cmocka_unit_test(what_differs_between_ranks_is_told_to_all),
      cmocka_unit_test(wrong_pushes_and_waits_are_named_and_change_nothing),
      cmocka_unit_test(tensors_that_overlap_are_named),
      cmocka_unit_test(a_sum_over_what_another_tensor_gives_is_named),
      cmocka_unit_test(the_next_step_begins_when_all_of_this_one_were_pushed),
      cmocka_unit_test(wrong_factors_and_questions_are_named_and_change_nothing),
      cmocka_unit_test(a_forked_child_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
