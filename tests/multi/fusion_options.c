/* SPDX-License-Identifier: BSD-3-Clause */
/* What a fusion's options promise: averages, factors, wire types and norms are those of each tensor alone, to the last
 * bit where the communicator is deterministic, whatever the plan; an overflow is told of its own step, to all ranks.
 * Labels: slow, plain. */
#include <math.h>

#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define STEPS (IS_SLOW ? 7 : 14) /* plans are made again after the 3rd, the 6th and the 12th */

static const tuttiFusionTensor_t all_types[] = {
    {"w0", 1000, tuttiFloat32},   {"b0", 1, tuttiFloat32},      {"none", 0, tuttiFloat32},  {"w1", 2049, tuttiFloat32},
    {"i8", 77, tuttiInt8},        {"u8", 300, tuttiUint8},      {"i32", 33, tuttiInt32},    {"u32", 257, tuttiUint32},
    {"i64", 101, tuttiInt64},     {"u64", 3, tuttiUint64},      {"d0", 511, tuttiFloat64},  {"d1", 20, tuttiFloat64},
    {"h0", 900, tuttiFloat16},    {"h1", 7, tuttiFloat16}, {"bf", 1023, tuttiBfloat16}, {"e4", 65, tuttiFloat8e4m3},
    {"e5", 129, tuttiFloat8e5m2}, {"w2", 500, tuttiFloat32},    {"i16", 121, tuttiInt16},  {"u16", 5, tuttiUint16},
    {"c8", 301, tuttiComplexFloat32}, {"c16", 90, tuttiComplexFloat64}};
enum { ALL_TYPES = sizeof all_types / sizeof *all_types };

/* Integers take no factors. */
static const tuttiFusionTensor_t floats[] = {
    {"w0", 1000, tuttiFloat32}, {"b0", 5, tuttiFloat32},    {"w1", 2049, tuttiFloat32},   {"d0", 511, tuttiFloat64},
    {"h0", 900, tuttiFloat16},  {"bf", 333, tuttiBfloat16}, {"e4", 65, tuttiFloat8e4m3}, {"e5", 64, tuttiFloat8e5m2},
    {"w2", 1500, tuttiFloat32}, {"b2", 1, tuttiFloat32}};
enum { FLOATS = sizeof floats / sizeof *floats };

/* ---- the bits of each tensor alone ---- */

/* Values that sums do round; of integers, any. */
static void mixed_fill(const struct gradients *g, int rank, uint64_t step)
{
  for (int t = 0; t < g->n; t++)
    for (size_t i = 0; i < g->tensors[t].count; i++) {
      uint64_t state = (((uint64_t)t * 64 + (uint64_t)rank) * 4096 + step) * ((uint64_t)1 << 24) + i;
      uint64_t bits = next(&state);
      double fraction = 1 + (double)(bits >> 40) / 16777216.0, x = ldexp(fraction, (int)(bits % 9) - 4);
      int type = (int)g->tensors[t].type, part = tt_type_part(type);
      char *at = g->in + g->at[t] + i * tt_type_size(type);
      if (!tt_type_is_float(type)) memcpy(at, &bits, tt_type_size(type));
      else element_put(at, type, bits >> 20 & 1 ? -x : x);
      if (part != type) element_put(at + tt_type_size(part), part, bits >> 21 & 1 ? -x : x);
    }
}

struct way {
  const tuttiFusionTensor_t *tensors;
  int n, op, wire;
  int is_scaled; /* other factors in each step */
};

static const struct way ways[] = {
    {all_types, ALL_TYPES, tuttiSum, TUTTI_CONFIG_UNDEF_INT, 0}, {all_types, ALL_TYPES, tuttiAvg, tuttiFloat32, 0},
    {floats, FLOATS, tuttiSum, tuttiFloat16, 1},                 {floats, FLOATS, tuttiAvg, tuttiBfloat16, 1},
    {floats, FLOATS, tuttiAvg, TUTTI_CONFIG_UNDEF_INT, 1},       {all_types, ALL_TYPES, tuttiSum, tuttiBfloat16, 0}};
enum { WAYS = sizeof ways / sizeof *ways };

/* `g` holds what the fusion made of `given`. */
static int same_as_alone(const struct ranks *self, tuttiComm_t comm, const struct way *way,
                         const tuttiReduceOptions_t *options, const struct gradients *given, const struct gradients *g)
{
  for (int t = 0; t < way->n; t++) {
    tuttiReduceOptions_t own = TUTTI_REDUCE_OPTIONS_INITIALIZER;
    if (way->is_scaled) own = *options;
    if (way->tensors[t].type == tuttiFloat32) own.wire_type = way->wire;
    RANKS_CHECK(tuttiAllReduceWith(given->in + given->at[t], given->out + given->at[t], way->tensors[t].count,
                                   way->tensors[t].type, (tuttiRedOp_t)way->op, &own, comm, NULL) == tuttiSuccess);
    if (memcmp(given->out + given->at[t], g->out + g->at[t], gradient_bytes(g, t)) != 0) {
      fprintf(stderr, "rank %d of %d: tensor %s has other bits than alone\n", self->rank, self->nranks,
              way->tensors[t].name);
      return 1;
    }
  }
  return 0;
}

static int alone_step(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t fusion, const struct way *way,
                      const struct gradients *g, uint64_t step)
{
  struct gradients given;
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  RANKS_CHECK(gradients_make(&given, way->tensors, way->n, 0, 0));
  mixed_fill(&given, self->rank, step);
  for (int t = 0; t < way->n; t++) memcpy(g->in + g->at[t], given.in + given.at[t], gradient_bytes(g, t));
  if (way->is_scaled) {
    options.scale_before = 0.3f + 0.1f * (float)self->rank + (float)step; /* this rank's own */
    options.scale_after = step % 2 ? 1.7f : -0.25f;
    RANKS_CHECK(tuttiFusionScale(fusion, options.scale_before, options.scale_after) == tuttiSuccess);
  }
  for (int k = 0; k < way->n; k++) {
    int t = (k * 7 + (int)step + self->rank) % way->n; /* 7 and the numbers of tensors have no divisor in common */
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  if (same_as_alone(self, comm, way, &options, &given, g) || gaps_check(self, g)) return 1;
  gradients_free(&given);
  return 0;
}

static int alone_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiConfig_t with = TUTTI_CONFIG_INITIALIZER;
  with.deterministic = 1;
  with.wire_type = self->nranks % 2 ? tuttiFloat16 : TUTTI_CONFIG_UNDEF_INT;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &with) == tuttiSuccess);
  for (int k = 0; k < WAYS * FUSION_POLICIES; k++) {
    const struct way *way = &ways[k % WAYS];
    tuttiFusion_t fusion;
    struct gradients g;
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    if ((k / WAYS + k + self->nranks + 3 * is_second_transport()) % 6) continue; /* each way with some policies */
    config.policy = fusion_policies[k / WAYS];
    config.op = way->op;
    config.wire_type = way->wire;
    config.buffer_bytes = k % 2 ? 0 : 4096;
    RANKS_CHECK(gradients_make(&g, way->tensors, way->n, k % 4 < 2 ? 0 : FUSION_GAP, k % 3 == 0));
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, way->tensors, way->n, &config) == tuttiSuccess);
    for (uint64_t step = 0; step < STEPS; step++)
      if (alone_step(self, comm, fusion, way, &g, step)) {
        fprintf(stderr, "way %d, policy %s, step %llu\n", k % WAYS, config.policy, (unsigned long long)step);
        return 1;
      }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void deterministic_bits_are_those_of_each_tensor_alone(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = 1 + t; nranks <= 4 - IS_SLOW; nranks += 1 + IS_SLOW)
      assert_int_equal(run_fusion(ranks_transports(t), nranks, alone_body, NULL), 0);
}

/* ---- exact values ---- */

/* Averages over 1, 2 and 4 ranks, factors that are powers of two, and short wires lose nothing here. */
static int exact_body(const struct ranks *self)
{
  static const int wires[] = {tuttiFloat32, tuttiFloat16, tuttiBfloat16};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < FUSION_POLICIES; k++) {
    tuttiFusion_t fusion;
    struct gradients g;
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    if (policy_is_left_out(k, self->nranks)) continue;
    config.policy = fusion_policies[k];
    config.op = k % 2 ? tuttiAvg : tuttiSum;
    config.wire_type = wires[k % 3];
    RANKS_CHECK(gradients_make(&g, floats, FLOATS, FUSION_GAP, 0));
    g.values = 3;
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, floats, FLOATS, &config) == tuttiSuccess);
    for (uint64_t step = 0; step < STEPS; step++) {
      float before = step % 3 ? 0.5f : 1, after = step % 2 ? -4 : 1;
      RANKS_CHECK(tuttiFusionScale(fusion, before, after) == tuttiSuccess);
      for (int t = FLOATS - 1; t >= 0; t--) {
        gradient_fill(&g, t, self->rank, step);
        RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
      }
      RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
      if (gradients_check(self, &g, step, (double)(before * after) / (k % 2 ? self->nranks : 1))) return 1;
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void averages_factors_and_short_wires_are_exact_where_they_can_be(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 4; nranks *= 2) {
    assert_int_equal(run_fusion("shm", nranks, exact_body, NULL), 0);
    assert_int_equal(run_fusion("tcp", nranks, exact_body, NULL), 0);
  }
}

/* ---- overflow ---- */

static const tuttiFusionTensor_t few[] = {{"w0", 700, tuttiFloat32}, {"ids", 9, tuttiInt32}, {"b0", 3, tuttiFloat32},
                                          {"w1", 3000, tuttiFloat32}, {"w2", 900, tuttiFloat16}};
enum { FEW = sizeof few / sizeof *few };

/* One element of one tensor of one rank, in every third step; ranks start the next step while others still wait. */
static int overflow_body(const struct ranks *self)
{
  static const float bad[] = {INFINITY, NAN, 70000, -INFINITY};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int p = self->nranks % 2; p < FUSION_POLICIES; p += 2) {
    tuttiFusion_t fusion;
    struct gradients g;
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    uint64_t chance = (uint64_t)p;
    config.policy = fusion_policies[p];
    config.wire_type = tuttiFloat16;
    config.overflow = 1;
    RANKS_CHECK(gradients_make(&g, few, FEW, p % 4 < 2 ? 0 : FUSION_GAP, 1));
    g.values = 50;
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, few, FEW, &config) == tuttiSuccess);
    for (uint64_t step = 0; step < 30; step++) {
      int overflow = 77, rank = (int)below(&chance, (size_t)self->nranks), tensor = (int)below(&chance, 3);
      tensor += tensor > 0; /* not the integers */
      size_t place = below(&chance, few[tensor].count);
      for (int t = FEW - 1; t >= 0; t--) gradient_fill(&g, t, self->rank, step);
      if (step % 3 == 1 && rank == self->rank)
        element_put(g.in + g.at[tensor] + 4 * place, tuttiFloat32, (double)bad[step % 4]);
      for (int t = FEW - 1; t >= 0; t--) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
      RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
      RANKS_CHECK(tuttiFusionOverflow(fusion, &overflow) == tuttiSuccess);
      if (overflow != (step % 3 == 1))
        fprintf(stderr, "policy %s, step %llu, rank %d, tensor %d: %d\n", config.policy, (unsigned long long)step, rank,
                tensor, overflow);
      RANKS_CHECK(overflow == (step % 3 == 1));
      if (!overflow && gradients_check(self, &g, step, 1)) return 1;
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void an_overflow_is_told_of_its_step_to_all_ranks(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = ranks_first(1, t); nranks <= 4; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, overflow_body, NULL), 0);
}

/* ---- norms ---- */

/* Rank 0 gives 3 and 4 somewhere, the others zeros. */
static int known_norms(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g, uint64_t step)
{
  double norm = -1;
  memset(g->in + g->at[0], 0, g->at[g->n] - g->at[0]);
  for (int t = 0; t < g->n; t++) {
    size_t size = tt_type_size((int)g->tensors[t].type), count = g->tensors[t].count;
    char *at = g->in + g->at[t];
    if (self->rank == 0 && count) element_put(at + step * 7 % count * size, (int)g->tensors[t].type, 3);
    if (self->rank == 0 && count > 1) element_put(at + (step * 7 + 1) % count * size, (int)g->tensors[t].type, 4);
    RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  }
  for (int t = 0; t < g->n; t++) {
    size_t count = g->tensors[t].count;
    RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess && tuttiFusionNorm(fusion, t, &norm) == tuttiSuccess);
    if (norm != (count > 1 ? 5 : count ? 3 : 0)) fprintf(stderr, "tensor %d has norm %g\n", t, norm);
    RANKS_CHECK(norm == (count > 1 ? 5 : count ? 3 : 0));
  }
  return 0;
}

/* The norms of a step of mixed values: the same bits on all ranks, and as with the policy before. */
static int mixed_norms(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t fusion, const struct gradients *g,
                       uint64_t known[ALL_TYPES])
{
  double norm = -1;
  uint64_t bits[ALL_TYPES], high[ALL_TYPES], low[ALL_TYPES];
  mixed_fill(g, self->rank, 9);
  for (int t = g->n - 1; t >= 0; t--) RANKS_CHECK(gradient_push(fusion, g, t, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  for (int t = 0; t < g->n; t++) {
    RANKS_CHECK(tuttiFusionNorm(fusion, t, &norm) == tuttiSuccess && (norm > 0 || g->tensors[t].count < 4));
    memcpy(&bits[t], &norm, 8);
  }
  RANKS_CHECK(tuttiAllReduce(bits, high, (size_t)g->n, tuttiUint64, tuttiMax, comm, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiAllReduce(bits, low, (size_t)g->n, tuttiUint64, tuttiMin, comm, NULL) == tuttiSuccess);
  for (int t = 0; t < g->n; t++) {
    RANKS_CHECK(high[t] == low[t] && (!known[t] || known[t] == bits[t]));
    known[t] = bits[t];
  }
  return 0;
}

static int norms_body(const struct ranks *self)
{
  tuttiComm_t comm;
  uint64_t known[ALL_TYPES] = {0};
  tuttiConfig_t with = TUTTI_CONFIG_INITIALIZER;
  with.deterministic = 1;
  RANKS_CHECK(tuttiCommInitRankConfig(&comm, self->nranks, self->id, self->rank, &with) == tuttiSuccess);
  for (int p = 0; p < FUSION_POLICIES; p++) {
    tuttiFusion_t fusion;
    struct gradients g;
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    config.policy = fusion_policies[p];
    config.norms = 1;
    config.buffer_bytes = p % 2 ? 4096 : 0;
    RANKS_CHECK(gradients_make(&g, all_types, ALL_TYPES, p % 3 ? 0 : FUSION_GAP + 5, p % 4 < 2));
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, all_types, ALL_TYPES, &config) == tuttiSuccess);
    for (uint64_t step = 0; step < STEPS; step++)
      if (known_norms(self, fusion, &g, step) || mixed_norms(self, comm, fusion, &g, known)) {
        fprintf(stderr, "policy %s, step %llu\n", config.policy, (unsigned long long)step);
        return 1;
      }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    gradients_free(&g);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void norms_are_those_of_the_sums_and_the_same_on_all_ranks(void **state)
{
  (void)state;
  for (int nranks = 1; nranks <= 4; nranks += 1 + IS_SLOW)
    assert_int_equal(run_fusion(nranks % 2 ? "shm" : "tcp", nranks, norms_body, NULL), 0);
}

/* Some slices of a tensor come long before the one in front of them: its norm is that of the whole. */
static int overtaken_body(const struct ranks *self)
{
  static const tuttiFusionTensor_t tensor = {"w", 3001, tuttiFloat64};
  static const char *const policies[] = {"single", "p3:300,1M"};
  tuttiComm_t comm;
  struct gradients g;
  double norm, whole = 0;
  RANKS_CHECK(gradients_make(&g, &tensor, 1, 0, 1));
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int p = 0; p < 2; p++) {
    tuttiFusion_t fusion;
    tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
    config.policy = policies[p];
    config.norms = 1;
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, &tensor, 1, &config) == tuttiSuccess);
    for (int step = 0; step < 60; step++) {
      for (size_t i = 0; i < 3001; i++) { /* numbers whose squares and sums are rounded */
        double x = 1 / (double)(1 + i * 7919 % 3001);
        element_put(g.in + g.at[0] + i * sizeof x, tuttiFloat64, x);
      }
      RANKS_CHECK(gradient_push(fusion, &g, 0, NULL) == tuttiSuccess && tuttiFusionWaitAll(fusion) == tuttiSuccess);
      RANKS_CHECK(tuttiFusionNorm(fusion, 0, &norm) == tuttiSuccess);
      if (p == 0 && step == 0) whole = norm;
      RANKS_CHECK(norm == whole);
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  }
  gradients_free(&g);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

/* The communicators of a fusion count their messages each by itself, so not all of them are late at once. */
static void slices_that_overtake_each_other_change_no_norm(void **state)
{
  char rules[256] = "";
  (void)state;
  for (size_t k = 0, n = 0; k < 9; k++)
    n += (size_t)snprintf(rules + n, sizeof rules - n, "%snth=%zu,action=delay:20ms", k ? ";" : "", 100 + 23 * k);
  setenv("TUTTI_FAULT", rules, 1);
  int bad = run_fusion("shm", 2, overtaken_body, NULL);
  unsetenv("TUTTI_FAULT");
  assert_int_equal(bad, 0);
}

/* ---- the environment ---- */

static int environment_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct gradients g;
  tuttiUniqueId id;
  tuttiFusionInfo_t info = {.size = sizeof info};
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.policy = "single";
  config.buffer_bytes = 1 << 20;
  RANKS_CHECK(gradients_make(&g, floats, FLOATS, 0, 1));
  for (int k = 0; k < 2; k++) { /* it is read when the communicator is made */
    if (k) {
      setenv("TUTTI_FUSION_POLICY", "wfbp", 1);
      setenv("TUTTI_FUSION_BYTES", "32768", 1);
    }
    RANKS_CHECK(meeting_id(self->argument, self->rank == 0, &id));
    RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, id, self->rank) == tuttiSuccess);
    RANKS_CHECK(tuttiFusionCreate(&fusion, comm, floats, FLOATS, &config) == tuttiSuccess);
    if (fusion_step(self, fusion, &g, 3)) return 1;
    RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess);
    RANKS_CHECK(info.groups == (k ? FLOATS : 6)); /* groups have one type each, and it has six */
    RANKS_CHECK(info.messages == (k ? FLOATS : 6));
    RANKS_CHECK(k ? info.buffer_bytes == 32768 : info.buffer_bytes > 32768);
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess && tuttiCommDestroy(comm) == tuttiSuccess);
  }
  gradients_free(&g);
  return 0;
}

static void the_environment_overrides_the_program(void **state)
{
  (void)state;
  struct meeting *meeting = meeting_make(2);
  assert_int_equal(run_fusion("shm", 2, environment_body, meeting), 0);
  meeting_free(meeting);
}

/* From here on this process itself uses the library, so nothing can be forked any more. */
static void ranks_may_be_threads(void **state)
{
  static const ranks_body bodies[] = {alone_body, overflow_body, norms_body};
  (void)state;
  setenv("TUTTI_TRANSPORTS", "shm", 1);
  for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
    assert_int_equal(ranks_run_threads(3, bodies[b], NULL, 120), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(deterministic_bits_are_those_of_each_tensor_alone),
      cmocka_unit_test(averages_factors_and_short_wires_are_exact_where_they_can_be),
      cmocka_unit_test(an_overflow_is_told_of_its_step_to_all_ranks),
      cmocka_unit_test(norms_are_those_of_the_sums_and_the_same_on_all_ranks),
      cmocka_unit_test(slices_that_overtake_each_other_change_no_norm),
      cmocka_unit_test(the_environment_overrides_the_program),
      cmocka_unit_test(ranks_may_be_threads),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
