/* SPDX-License-Identifier: BSD-3-Clause */
/* What goes through a fusion is summed up exactly: tensors of all types and lengths, whatever the policy, the fusion
 * buffer and the places of the tensors, which may be others in each step and on each rank.
 * Labels: slow, processes. */
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define STEPS (IS_SLOW ? 7 : 14) /* plans are made again after the 3rd, the 6th and the 12th */

static const tuttiFusionTensor_t of_all_types[] = {
    {"embedding", 1000, tuttiFloat32}, {"a", 1, tuttiFloat32},      {"nothing", 0, tuttiFloat32},
    {NULL, 4001, tuttiFloat32},        {"i8", 777, tuttiInt8},      {"u8", 1, tuttiUint8},
    {"u8.more", 3001, tuttiUint8},     {"i32", 33, tuttiInt32},     {"u32", 257, tuttiUint32},
    {"i64", 101, tuttiInt64},          {"u64", 3, tuttiUint64},     {"half", 2049, tuttiFloat16},
    {"half.more", 7, tuttiFloat16},    {"double", 511, tuttiFloat64}, {"bf", 1023, tuttiBfloat16},
    {"e4m3", 65, tuttiFloat8e4m3},     {"e5m2", 129, tuttiFloat8e5m2}, {"none", 0, tuttiInt64},
    {"b", 100, tuttiFloat32},          {"c", 3, tuttiFloat32},      {"last", 2500, tuttiFloat32}};
enum { TENSORS = sizeof of_all_types / sizeof *of_all_types };

static const tuttiFusionTensor_t of_floats[] = {
    {"w0", 900, tuttiFloat32}, {"b0", 30, tuttiFloat32}, {"w1", 3000, tuttiFloat32}, {"none", 0, tuttiFloat32},
    {"b1", 11, tuttiFloat32},  {"w2", 1, tuttiFloat32},  {"b2", 301, tuttiFloat32}};
enum { FLOATS = sizeof of_floats / sizeof *of_floats };

static tuttiFusionConfig_t config_of(const char *policy, size_t buffer_bytes)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = policy;
  config.buffer_bytes = buffer_bytes;
  return config;
}

/* ---- all types, all policies ---- */

/* Memory of two kinds, taken in turn; where tensors lie together depends on rank and policy. */
static int one_policy(const struct ranks *self, tuttiComm_t comm, int policy, size_t buffer_bytes)
{
  tuttiFusion_t fusion;
  struct gradients g[2];
  tuttiFusionConfig_t config = config_of(fusion_policies[policy], buffer_bytes);
  RANKS_CHECK(gradients_make(&g[0], of_all_types, TENSORS, (self->rank + policy) % 2 ? FUSION_GAP : 0, policy % 3 > 0));
  RANKS_CHECK(gradients_make(&g[1], of_all_types, TENSORS, policy % 4 ? 0 : FUSION_GAP + 3, policy % 2));
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, of_all_types, TENSORS, &config) == tuttiSuccess);
  for (uint64_t step = 0; step < STEPS; step++)
    if (fusion_step(self, fusion, &g[step % 2], step)) {
      fprintf(stderr, "policy %s, buffer of %zu bytes\n", fusion_policies[policy], buffer_bytes);
      return 1;
    }
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  gradients_free(&g[0]);
  gradients_free(&g[1]);
  return 0;
}

static int every_policy_body(const struct ranks *self)
{
  static const size_t buffers[] = {0, 4096, 0, 65536}; /* 4096: less than most groups, and than four of the tensors */
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int p = 0; p < FUSION_POLICIES; p++) {
    if (policy_is_left_out(p, self->nranks)) continue;
    if (one_policy(self, comm, p, buffers[(p + self->nranks) % 4])) return 1;
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void every_policy_gives_every_rank_the_sums(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = ranks_first(1, t); nranks <= 5; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, every_policy_body, NULL), 0);
}

/* ---- a buffer that nothing fits into ---- */

static int small_buffer_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int p = 0; p < FUSION_POLICIES; p++)
    if (one_policy(self, comm, p, 4096)) return 1;
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_buffer_smaller_than_a_tensor_will_do(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 3, small_buffer_body, NULL), 0);
  assert_int_equal(run_fusion("tcp", 2, small_buffer_body, NULL), 0);
}

/* ---- what is copied ---- */

struct place {
  const char *policy;
  size_t gap;
  int in_place, is_copied;
};

static const struct place places[] = {{"single", 0, 1, 0}, {"single", 0, 0, 0}, {"single", FUSION_GAP, 1, 1},
                                      {"single", FUSION_GAP, 0, 1}, {"wfbp", FUSION_GAP, 1, 0}, {"wfbp", 0, 0, 0}};

static int copies_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (size_t k = 0; k < sizeof places / sizeof *places; k++) {
    tuttiFusion_t fusion;
    struct gradients g, other;
    tuttiFusionInfo_t info = {.size = sizeof info};
    tuttiFusionConfig_t config = config_of(places[k].policy, 0);
    size_t bytes = 0;
    for (int t = 0; t < FLOATS; t++) bytes += of_floats[t].count * 4;
    RANKS_CHECK(gradients_make(&g, of_floats, FLOATS, places[k].gap, places[k].in_place));
    RANKS_CHECK(gradients_make(&other, of_floats, FLOATS, places[k].gap ? 0 : FUSION_GAP, 1));
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, of_floats, FLOATS, &config) == tuttiSuccess);
    /* The last rank's tensors lie the other way: what is copied is each rank's own affair. */
    int is_other = self->rank == self->nranks - 1 && self->nranks > 1;
    int is_copied = is_other ? !places[k].gap && !strcmp(places[k].policy, "single") : places[k].is_copied;
    for (uint64_t step = 0; step < 4; step++) {
      if (fusion_step(self, fusion, is_other ? &other : &g, step)) return 1;
      RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess);
      if (info.copied_bytes != (is_copied ? bytes : 0))
        fprintf(stderr, "place %zu, step %llu: %llu bytes copied\n", k, (unsigned long long)step,
                (unsigned long long)info.copied_bytes);
      RANKS_CHECK(info.copied_bytes == (is_copied ? bytes : 0));
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
    gradients_free(&other);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void tensors_that_lie_together_are_not_copied(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 3; nranks++)
    assert_int_equal(run_fusion(nranks % 2 ? "shm" : "tcp", nranks, copies_body, NULL), 0);
}

/* ---- memory of tuttiMemAlloc, and one tensor ---- */

static int shared_memory_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t one = {"all", 300000, tuttiFloat32};
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  void *memory;
  struct gradients g;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiMemAlloc(&memory, one.count * 4 + 2 * FUSION_GAP) == tuttiSuccess);
  RANKS_CHECK(gradients_make(&g, &one, 1, 0, 1));
  memset(memory, FUSION_FILL, one.count * 4 + 2 * FUSION_GAP);
  free(g.in);
  g.in = g.out = memory;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &one, 1, NULL) == tuttiSuccess);
  for (uint64_t step = 0; step < 5; step++)
    if (fusion_step(self, fusion, &g, step)) return 1;
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  RANKS_CHECK(tuttiMemFree(memory) == tuttiSuccess);
  free(g.at);
  return 0;
}

static void memory_that_peers_can_read_will_do(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 3, shared_memory_body, NULL), 0);
}

/* From here on this process itself uses the library, so nothing can be forked any more. */
static void ranks_may_be_threads(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++) {
    setenv("TUTTI_TRANSPORTS", ranks_transports(t), 1);
    for (int nranks = ranks_first(1, t); nranks <= 4; nranks += ranks_step())
      assert_int_equal(ranks_run_threads(nranks, every_policy_body, NULL, 120), 0);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_policy_gives_every_rank_the_sums),
      cmocka_unit_test(a_buffer_smaller_than_a_tensor_will_do),
      cmocka_unit_test(tensors_that_lie_together_are_not_copied),
      cmocka_unit_test(memory_that_peers_can_read_will_do),
      cmocka_unit_test(ranks_may_be_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
