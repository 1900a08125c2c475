/* SPDX-License-Identifier: BSD-3-Clause */
/* The fusion on memory of GPUs, on a driver without a GPU: tensors alone in a message and in groups, cut into slices,
 * beside others in host memory and on another GPU; exact sums, norms and reports, and nothing of CUDA is left.
 * Labels: processes. */
#include <math.h>

#include "fake_driver.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define STEPS 5 /* the plan is made again after the 3rd */

/* Some are longer than what is copied or fetched at once. */
static const tuttiFusionTensor_t tensors[] = {
    {"w0", 1000, tuttiFloat32}, {"b0", 1, tuttiFloat32},     {"none", 0, tuttiFloat32}, {"w1", 80001, tuttiFloat32},
    {"b1", 33, tuttiFloat32},   {"h0", 900, tuttiFloat16},   {"i32", 33, tuttiInt32},   {"w2", 5000, tuttiFloat32},
    {"d0", 511, tuttiFloat64},  {"bf", 1023, tuttiBfloat16}, {"w3", 7, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

enum layout { APART, TOGETHER, MIXED, LAYOUTS };

struct job {
  int wire, in_place, shift;
};

/* The mirror holds what is on the GPUs. */
struct places {
  const struct fake_cuda *fake;
  enum layout layout;
  int in_place;
  struct gradients mirror;
  char *whole[2];             /* in one piece: sends, sums */
  char *at[2][TENSORS];
  int is_host[TENSORS];
};

static char *place_make(const struct ranks *self, const struct places *p, int tensor)
{
  static const enum fake_memory kinds[] = {FAKE_DEVICE, FAKE_POOLED, FAKE_MANAGED};
  size_t len = gradient_bytes(&p->mirror, tensor) + 1;
  int gpu = p->layout == MIXED ? (self->rank + tensor / 3) % 2 : self->rank % 2;
  return p->is_host[tensor] ? malloc(len) : p->fake->alloc(gpu, kinds[tensor % 3], len);
}

static int places_make(const struct ranks *self, struct places *p)
{
  RANKS_CHECK(gradients_make(&p->mirror, tensors, TENSORS, 0, p->in_place));
  p->mirror.values = 50; /* sums are exact in half */
  size_t len = p->mirror.at[TENSORS] + FUSION_GAP;
  for (int which = 0; which < 2; which++) {
    int is_same = which && p->in_place;
    p->whole[which] = NULL;
    if (p->layout == TOGETHER)
      p->whole[which] = is_same ? p->whole[0] : p->fake->alloc(self->rank % 2, FAKE_DEVICE, len);
    for (int t = 0; t < TENSORS; t++) {
      p->is_host[t] = p->layout == MIXED && (t + self->rank) % 3 == 0;
      p->at[which][t] = is_same ? p->at[0][t]
                        : p->whole[which] ? p->whole[which] + p->mirror.at[t]
                                          : place_make(self, p, t);
      RANKS_CHECK(p->at[which][t]);
    }
  }
  return 0;
}

static void places_free(struct places *p)
{
  for (int which = 0; which < (p->in_place ? 1 : 2); which++) {
    if (p->whole[which]) p->fake->free(p->whole[which]);
    for (int t = 0; t < TENSORS && !p->whole[which]; t++) {
      if (p->is_host[t]) free(p->at[which][t]);
      else p->fake->free(p->at[which][t]);
    }
  }
  gradients_free(&p->mirror);
}

static void put(const struct places *p, int tensor)
{
  size_t len = gradient_bytes(&p->mirror, tensor);
  const char *from = p->mirror.in + p->mirror.at[tensor];
  if (p->is_host[tensor]) memcpy(p->at[0][tensor], from, len);
  else if (len) p->fake->write(p->at[0][tensor], from, len);
}

static void get(const struct places *p, int tensor, int which)
{
  size_t len = gradient_bytes(&p->mirror, tensor);
  char *to = (which ? p->mirror.out : p->mirror.in) + p->mirror.at[tensor];
  if (p->is_host[tensor]) memcpy(to, p->at[which][tensor], len);
  else if (len) p->fake->read(to, p->at[which][tensor], len);
}

/* Squares of integers: no sum of them rounds. */
static double norm_of(const struct ranks *self, const struct places *p, int tensor, uint64_t step)
{
  double squares = 0;
  for (size_t i = 0; i < tensors[tensor].count; i++) {
    double sum = gradient_sum(&p->mirror, tensor, self->nranks, step, i % FUSION_PERIOD);
    squares += sum * sum;
  }
  return sqrt(squares);
}

static int step_run(const struct ranks *self, tuttiFusion_t fusion, struct places *p, uint64_t step)
{
  int order[TENSORS], overflow = 7;
  double norm;
  uint64_t state = step * 100 + (uint64_t)self->rank;
  shuffled(order, TENSORS, &state);
  for (int k = 0; k < TENSORS; k++) {
    int t = order[k];
    gradient_fill(&p->mirror, t, self->rank, step);
    put(p, t);
    RANKS_CHECK(tuttiFusionPush(fusion, t, p->at[0][t], p->at[1][t], tensors[t].count, tensors[t].type, NULL) ==
                tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) {
    get(p, t, 1);
    if (!p->in_place) get(p, t, 0);
    RANKS_CHECK(tuttiFusionNorm(fusion, t, &norm) == tuttiSuccess && norm == norm_of(self, p, t, step));
  }
  if (step == 0 && !p->is_host[0]) {
    RANKS_CHECK(tuttiFusionState(fusion, 0, 0, (void *)p->at[0][0], tensors[0].count, 1) == tuttiInvalidArgument);
    RANKS_CHECK(says("is CUDA memory: give host memory"));
  }
  RANKS_CHECK(tuttiFusionOverflow(fusion, &overflow) == tuttiSuccess && overflow == 0);
  return gradients_check(self, &p->mirror, step, 1);
}

static int policy_run(const struct ranks *self, tuttiComm_t comm, const char *policy, enum layout layout)
{
  const struct job *job = self->argument;
  tuttiFusion_t fusion;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  struct places places = {.fake = fake_driver_load(), .layout = layout, .in_place = job->in_place};
  config.policy = policy;
  config.wire_type = job->wire;
  config.overflow = config.norms = 1;
  if (places_make(self, &places)) return 1;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < STEPS; step++)
    if (step_run(self, fusion, &places, step)) {
      fprintf(stderr, "policy %s, layout %d\n", policy, (int)layout);
      return 1;
    }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  places_free(&places);
  return 0;
}

static int body(const struct ranks *self)
{
  const struct job *job = self->argument;
  tuttiComm_t comm;
  RANKS_CHECK(fake_driver_load());
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.device = self->rank % 2;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  for (int k = 0; k < FUSION_POLICIES; k++)
    if (policy_run(self, comm, fusion_policies[k], (enum layout)((k + job->shift) % LAYOUTS))) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(fake_driver_is_clean());
  return 0;
}

static void device_tensors_have_exact_sums_alone_and_in_groups(void **state)
{
  (void)state;
  for (int shift = 0; shift < LAYOUTS; shift++)
    for (int k = IS_SLOW * (shift % 2); k < 2 - IS_SLOW * (shift % 2 == 0); k++) {
      struct job job = {k ? tuttiFloat16 : TUTTI_CONFIG_UNDEF_INT, (shift + k) % 2, shift};
      assert_int_equal(run_fusion(shift == 1 ? "tcp" : "shm", 2 + k, body, &job), 0);
    }
}

#define SLOT 65536
#define HEAD 4096 /* words, before the slots */

static long pinned_bytes(void)
{
  return fake_driver_load()->count().registered;
}

/* A communicator pins four slots for streams and two for calls without one; a fusion has two, of its first channel. */
static int slots_body(const struct ranks *self)
{
  tuttiComm_t comm, other;
  tuttiFusion_t fusion;
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  RANKS_CHECK(fake_driver_load());
  config.device = self->rank % 2;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &config) == tuttiSuccess);
  const long of_comm = pinned_bytes();
  RANKS_CHECK(of_comm == HEAD + 4 * SLOT + HEAD + 2 * SLOT);
  for (int k = 0; k < 3; k++) { /* the second and third one take over the slots of the first */
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, NULL) == tuttiSuccess);
    RANKS_CHECK(pinned_bytes() == of_comm + HEAD + 2 * SLOT);
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiCommSplit(comm, 0, self->rank, &other, NULL) == tuttiSuccess); /* so does a child, in part */
  RANKS_CHECK(pinned_bytes() == 2 * of_comm);
  RANKS_CHECK(tuttiCommDestroy(other) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(fake_driver_is_clean());
  return 0;
}

static void a_fusion_pins_two_slots(void **state)
{
  (void)state;
  setenv("TUTTI_CUDA_SLOT_BYTES", "65536", 1);
  setenv("TUTTI_FUSION_CHANNELS", "3", 1);
  assert_int_equal(ranks_run_processes(2, slots_body, NULL, 60), 0);
  unsetenv("TUTTI_CUDA_SLOT_BYTES");
  unsetenv("TUTTI_FUSION_CHANNELS");
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(device_tensors_have_exact_sums_alone_and_in_groups),
      cmocka_unit_test(a_fusion_pins_two_slots),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
