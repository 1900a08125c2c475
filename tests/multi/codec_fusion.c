/* SPDX-License-Identifier: BSD-3-Clause */
/* Fusions with a codec: whatever the plan, the buffer, the transport and the number of ranks, the bits of every coded
 * tensor are, step after step, those that one process makes by the plain C codec with planes of its own. So are they
 * after a change of codec, of the scale, after a step that overflowed, and in a fusion that took over the state of
 * another one.
 * Labels: processes. */
#include <math.h>
#include <signal.h>

#include "codecs.h"
#include "fusion_ranks.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static const tuttiFusionTensor_t tensors[] = {
    {"w0", 5000, tuttiFloat32}, {"b0", 10, tuttiFloat32},   {"none", 0, tuttiFloat32}, {"w1", 2049, tuttiFloat32},
    {"d", 300, tuttiFloat64},   {"w2", 12345, tuttiFloat32}, {"w3", 1024, tuttiFloat32}, {"b3", 700, tuttiFloat32}};
enum { TENSORS = sizeof tensors / sizeof *tensors };

#define LEAST 1000
static const uint32_t rows[TENSORS] = {50, 0, 0, 0, 0, 123, 0, 0};

/* ---- the reference ---- */

struct reference {
  struct codec_world worlds[TENSORS];
  int has_rows;
  uint64_t steps; /* since the fusion was made */
};

static int is_coded(int t)
{
  return tensors[t].type == tuttiFloat32 && tensors[t].count >= LEAST;
}

static struct tt_codec codec_for(const char *text, int has_rows, int t)
{
  struct tt_codec codec = codec_of(text);
  if (has_rows && rows[t] && strncmp(text, "1bit", 4) == 0) codec.number[0] = rows[t];
  return codec;
}

static void reference_make(struct reference *reference, const char *text, int nranks, int has_rows)
{
  *reference = (struct reference){.has_rows = has_rows};
  for (int t = 0; t < TENSORS; t++) {
    if (!is_coded(t)) continue;
    codec_world_create(&reference->worlds[t], text, nranks, tensors[t].count);
    reference->worlds[t].codec = codec_for(text, has_rows, t);
    reference->worlds[t].seed = 0;
    reference->worlds[t].tensor = (uint32_t)t;
  }
}

static void reference_free(struct reference *reference)
{
  for (int t = 0; t < TENSORS; t++)
    if (is_coded(t)) codec_world_destroy(&reference->worlds[t]);
}

/* Contributions of a step. The same for all who ask. */
static void values_draw(int t, int rank, uint64_t step, float *to)
{
  uint64_t state = ((uint64_t)t * 64 + (uint64_t)rank) * 4096 + step;
  floats_draw(to, tensors[t].count, &state);
}

struct way {
  const char *text, *policy;
  size_t buffer;
  int avg, has_rows, norms;
};

/* One step, from 1 on. spoilt: a contribution of rank 0 is infinite. */
struct step {
  uint64_t number;
  float before, after;
  int spoilt;
};

static float *planes_all(const struct codec_world *world, int k)
{
  return k < world->nranks * TT_CODEC_PLANES ? world->planes[k] : world->owner[k - world->nranks * TT_CODEC_PLANES];
}

/* The sum of tensor t by the plain codec. A step that overflowed leaves the planes as they were. */
static void reference_step(struct reference *reference, const struct way *way, const struct step *step, int t,
                           float *result)
{
  struct codec_world *world = &reference->worlds[t];
  const char *kernels = tt_reduce_table()->name;
  int nplanes = (world->nranks + 1) * TT_CODEC_PLANES;
  float **values = calloc((size_t)world->nranks, sizeof *values), **kept = calloc((size_t)nplanes, sizeof *kept);
  uint32_t wanted = world->wanted;
  tt_reduce_choose("plain");
  for (int k = 0; k < nplanes; k++) {
    kept[k] = floats(world->count);
    if (planes_all(world, k)) memcpy(kept[k], planes_all(world, k), world->count * sizeof(float));
  }
  for (int rank = 0; rank < world->nranks; rank++) {
    values[rank] = floats(world->count);
    values_draw(t, rank, step->number, values[rank]);
    if (step->spoilt && rank == 0) values[rank][7] = INFINITY;
    for (uint64_t e = 0; e < world->count; e++) values[rank][e] *= step->before;
  }
  world->step = (uint32_t)reference->steps + 1;
  codec_world_reduce(world, (const float *const *)values, result, NULL);
  float factor = (float)((double)step->after / (way->avg ? world->nranks : 1));
  for (uint64_t e = 0; e < world->count; e++) result[e] *= factor;
  for (int k = 0; k < nplanes; k++) {
    if (step->spoilt && planes_all(world, k)) memcpy(planes_all(world, k), kept[k], world->count * sizeof(float));
    free(kept[k]);
  }
  if (step->spoilt) world->wanted = wanted;
  for (int rank = 0; rank < world->nranks; rank++) free(values[rank]);
  free(values);
  free(kept);
  tt_reduce_choose(kernels);
}

static void reference_scale(struct reference *reference, float factor)
{
  for (int t = 0; t < TENSORS; t++)
    for (int k = 0; is_coded(t) && k < (reference->worlds[t].nranks + 1) * TT_CODEC_PLANES; k++) {
      float *plane = planes_all(&reference->worlds[t], k);
      for (uint64_t e = 0; plane && e < tensors[t].count; e++) plane[e] *= factor;
    }
}

/* ---- the fusion ---- */

static int same_floats(const float *a, const float *b, size_t count)
{
  for (size_t i = 0; i < count; i++)
    if (memcmp(&a[i], &b[i], sizeof a[i]) != 0 && !(isnan(a[i]) && isnan(b[i]))) return 0;
  return 1;
}

static tuttiResult_t fusion_make(tuttiFusion_t *fusion, tuttiComm_t comm, const struct way *way)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.codec = way->text;
  config.codec_least = LEAST;
  config.rows = way->has_rows ? rows : NULL;
  config.policy = way->policy;
  config.buffer_bytes = way->buffer;
  config.op = way->avg ? tuttiAvg : tuttiSum;
  config.overflow = 1;
  config.norms = way->norms;
  return tuttiFusionCreate(fusion, comm, tensors, TENSORS, &config);
}

static void gradients_draw(const struct gradients *g, int rank, const struct step *step)
{
  for (int t = 0; t < TENSORS; t++) {
    float *to = (float *)(void *)(g->in + g->at[t]);
    if (tensors[t].type == tuttiFloat64) memset(to, 0, tensors[t].count * sizeof(double));
    else values_draw(t, rank, step->number, to);
    if (step->spoilt && rank == 0 && is_coded(t)) to[7] = INFINITY;
  }
}

/* Tensors that are not coded have sums without rounding. */
static int plain_check(const struct ranks *self, const struct gradients *g, const struct way *way,
                       const struct step *step, int t)
{
  if (step->before != 1 || step->after != 1 || way->avg || tensors[t].type != tuttiFloat32) return 0;
  const float *out = (const float *)(const void *)(g->out + g->at[t]);
  float *sum = floats(tensors[t].count), *one = floats(tensors[t].count);
  for (int rank = 0; rank < self->nranks; rank++) {
    values_draw(t, rank, step->number, one);
    for (size_t e = 0; e < tensors[t].count; e++) sum[e] += one[e];
  }
  RANKS_CHECK(same_floats(out, sum, tensors[t].count));
  free(sum);
  free(one);
  return 0;
}

static int step_run(const struct ranks *self, tuttiFusion_t fusion, struct reference *reference, const struct way *way,
                    const struct step *step)
{
  struct gradients g;
  int overflow = 7;
  uint64_t state = step->number * 64 + (uint64_t)self->rank;
  int order[TENSORS];
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, step->number % 2 ? 64 : 0, step->number % 3 == 0));
  gradients_draw(&g, self->rank, step);
  shuffled(order, TENSORS, &state);
  for (int k = 0; k < TENSORS; k++) RANKS_CHECK(gradient_push(fusion, &g, order[k], NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionOverflow(fusion, &overflow) == tuttiSuccess && overflow == step->spoilt);
  for (int t = 0; t < TENSORS; t++) {
    float *want = floats(tensors[t].count);
    const float *out = (const float *)(const void *)(g.out + g.at[t]);
    if (!is_coded(t)) RANKS_CHECK(plain_check(self, &g, way, step, t) == 0);
    if (is_coded(t)) reference_step(reference, way, step, t, want);
    if (is_coded(t) && !same_floats(out, want, tensors[t].count))
      fprintf(stderr, "codec %s, policy %s, buffer %zu, rows %d, step %llu, tensor %d\n", way->text, way->policy,
              way->buffer, way->has_rows, (unsigned long long)step->number, t);
    RANKS_CHECK(!is_coded(t) || same_floats(out, want, tensors[t].count));
    free(want);
  }
  RANKS_CHECK(gaps_check(self, &g) == 0);
  gradients_free(&g);
  reference->steps++;
  return 0;
}

/* ---- each codec, with some policies ---- */

static int is_tcp(void)
{
  return strcmp(getenv("TUTTI_TRANSPORTS"), "tcp") == 0;
}

static int bits_body(const struct ranks *self)
{
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int c = 0; codecs[c]; c++) {
    struct reference reference;
    tuttiFusion_t fusion;
    const struct way way = {.text = codecs[c],
                            .policy = fusion_policies[(c + 2 * self->nranks) % FUSION_POLICIES],
                            .buffer = c % 2 ? 0 : 4096,
                            .avg = c % 3 == 0,
                            .has_rows = c % 4 == 2 || strcmp(codecs[c], "1bit:50") == 0,
                            .norms = c % 5 == 0};
    if (IS_SLOW && c % 4) continue;
    if (is_tcp() && c % 3 != self->nranks % 3) continue; /* the transport changes little here */
    reference_make(&reference, way.text, self->nranks, way.has_rows);
    RANKS_CHECK(fusion_make(&fusion, comm, &way) == tuttiSuccess);
    for (uint64_t n = 1; n <= 4; n++) {
      const struct step step = {.number = n, .before = 1, .after = 1, .spoilt = n == 3 && c % 2};
      if (step_run(self, fusion, &reference, &way, &step)) return 1;
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    reference_free(&reference);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void bits_are_those_of_the_plain_codec(void **state)
{
  (void)state;
  for (int t = 0; ranks_transports(t); t++)
    for (int nranks = ranks_first(1, t); nranks <= 5; nranks += ranks_step())
      assert_int_equal(run_fusion(ranks_transports(t), nranks, bits_body, NULL), 0);
}

/* ---- changes ---- */

/* stays: planes do. */
static void reference_change(struct reference *reference, const char *to, int nranks, int stays)
{
  uint64_t steps = reference->steps;
  for (int t = 0; t < TENSORS; t++)
    if (is_coded(t)) reference->worlds[t].codec = codec_of(to);
  if (!stays) {
    reference_free(reference);
    reference_make(reference, to, nranks, 0);
  }
  reference->steps = steps;
}

static int changes_body(const struct ranks *self)
{
  static const char *const from[] = {"dgc:0.75", "none", "1bit"}, *const to[] = {"dgc:0.99", "1bit", "qsgd:4"};
  tuttiComm_t comm;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  for (int k = 0; k < 3; k++) {
    struct reference reference;
    tuttiFusion_t fusion;
    struct way way = {.text = from[k], .policy = k ? "p3:700" : "auto"};
    struct step step = {.before = 1, .after = 1};
    int is_dense = strcmp(from[k], "none") == 0, stays = k == 0;
    reference_make(&reference, is_dense ? "fp16" : from[k], self->nranks, 0);
    RANKS_CHECK(fusion_make(&fusion, comm, &way) == tuttiSuccess);
    for (step.number = 1; step.number <= 8; step.number++) {
      if (step.number == 4) {
        RANKS_CHECK(tuttiFusionCodec(fusion, to[k]) == tuttiSuccess);
        way.text = to[k];
        reference_change(&reference, to[k], self->nranks, stays);
        is_dense = 0;
      }
      if (step.number == 6) { /* planes keep their part of results */
        RANKS_CHECK(tuttiFusionScale(fusion, 4, 0.25f) == tuttiSuccess);
        step.before = 4;
        step.after = 0.25f;
        reference_scale(&reference, 4);
      }
      if (!is_dense && step_run(self, fusion, &reference, &way, &step)) return 1;
      if (!is_dense) continue;
      struct gradients g;
      RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
      RANKS_CHECK(fusion_step(self, fusion, &g, step.number) == 0);
      gradients_free(&g);
      reference.steps++;
    }
    RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
    reference_free(&reference);
  }
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void codecs_and_scales_change_between_steps(void **state)
{
  (void)state;
  for (int nranks = 2; nranks <= 3; nranks++) assert_int_equal(run_fusion("shm", nranks, changes_body, NULL), 0);
}

/* A step with a factor of results so small that planes in units of contributions would be infinite. */
static int tiny_step(const struct ranks *self, tuttiFusion_t fusion, const struct step *step, int *is_finite)
{
  struct gradients g;
  *is_finite = 1;
  RANKS_CHECK(tuttiFusionScale(fusion, step->before, step->after) == tuttiSuccess);
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1));
  gradients_draw(&g, self->rank, step);
  for (int t = 0; t < TENSORS; t++) RANKS_CHECK(gradient_push(fusion, &g, t, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  for (int t = 0; t < TENSORS; t++) {
    const float *out = (const float *)(const void *)(g.out + g.at[t]);
    for (size_t e = 0; is_coded(t) && e < tensors[t].count; e++) *is_finite &= isfinite(out[e]) != 0;
  }
  gradients_free(&g);
  return 0;
}

/* If such a step overflows, planes are as if it had not been; if not, they are finite. */
static int tiny_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct reference reference;
  int is_finite;
  const struct way way = {.text = "drop:0.5", .policy = "p3:700"};
  struct step step = {.before = 1, .after = 1}, tiny = {.number = 9, .before = 1, .after = 0x1p-149f};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, comm, &way) == tuttiSuccess);
  reference_make(&reference, way.text, self->nranks, 0);
  for (step.number = 1; step.number <= 4; step.number++) {
    tiny.spoilt = step.number == 3;
    if (tiny.spoilt) RANKS_CHECK(tiny_step(self, fusion, &tiny, &is_finite) == 0 && !is_finite);
    reference.steps += (uint64_t)tiny.spoilt;
    RANKS_CHECK(tuttiFusionScale(fusion, 1, 1) == tuttiSuccess);
    RANKS_CHECK(step_run(self, fusion, &reference, &way, &step) == 0);
  }
  tiny.spoilt = 0;
  RANKS_CHECK(tiny_step(self, fusion, &tiny, &is_finite) == 0 && is_finite);
  RANKS_CHECK(tiny_step(self, fusion, &step, &is_finite) == 0 && is_finite);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  reference_free(&reference);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void a_tiny_factor_of_results_spoils_no_plane(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 2, tiny_body, NULL), 0);
}

/* ---- state ---- */

/* Takes the planes of all tensors to another fusion. Planes of sums are added up, and given to all. */
static int state_carry(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t from, tuttiFusion_t to)
{
  for (int t = 0; t < TENSORS; t++) {
    float *plane = floats(tensors[t].count);
    for (int p = 0; is_coded(t) && p < 2; p++) {
      RANKS_CHECK(tuttiFusionState(from, t, p, plane, tensors[t].count, 0) == tuttiSuccess);
      if (p) RANKS_CHECK(tuttiAllReduce(plane, plane, tensors[t].count, tuttiFloat, tuttiSum, comm, NULL) == 0);
      RANKS_CHECK(tuttiFusionState(to, t, p, plane, tensors[t].count, 1) == tuttiSuccess);
    }
    free(plane);
  }
  return 0;
}

/* Another ROW moves elements to other owners: of the two planes only that of contributions stays. */
static int owners_move(const struct ranks *self, tuttiFusion_t fusion)
{
  float *plane = floats(tensors[0].count);
  int nonzero[2] = {0, 0};
  RANKS_CHECK(tuttiFusionCodec(fusion, "1bit:100") == tuttiSuccess);
  for (int p = 0; p < 2; p++) {
    RANKS_CHECK(tuttiFusionState(fusion, 0, p, plane, tensors[0].count, 0) == tuttiSuccess);
    for (size_t e = 0; e < tensors[0].count; e++) nonzero[p] += plane[e] != 0;
  }
  free(plane);
  RANKS_CHECK(nonzero[0] > 0 && nonzero[1] == 0);
  return 0;
}

/* Three fusions, each with the state of the one before it. */
static int state_body(const struct ranks *self)
{
  static const char *const policies[] = {"wfbp", "single", "p3:500"};
  tuttiComm_t comm;
  struct reference reference;
  tuttiFusion_t fusion = NULL, before = NULL;
  float x[10] = {0};
  struct way way = {.text = "1bit"};
  struct step step = {.number = 1, .before = 4, .after = 0.25f};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  reference_make(&reference, way.text, self->nranks, 0);
  for (int life = 0; life < 3; life++, before = fusion) {
    way.policy = policies[life];
    RANKS_CHECK(fusion_make(&fusion, comm, &way) == tuttiSuccess);
    if (life) RANKS_CHECK(state_carry(self, comm, before, fusion) == 0);
    RANKS_CHECK(tuttiFusionDestroy(before) == tuttiSuccess);
    reference.steps = 0;
    for (int k = 0; k < 2; k++, step.number++) RANKS_CHECK(step_run(self, fusion, &reference, &way, &step) == 0);
  }
  RANKS_CHECK(tuttiFusionState(fusion, 0, 2, x, 5000, 0) == tuttiInvalidArgument && says("no such plane"));
  RANKS_CHECK(tuttiFusionState(fusion, 1, 0, x, 10, 0) == tuttiInvalidArgument && says("no such plane"));
  RANKS_CHECK(tuttiFusionState(fusion, 0, 0, x, 10, 0) == tuttiInvalidArgument && says("5000"));
  RANKS_CHECK(tuttiFusionCodec(fusion, "zip") == tuttiInvalidArgument && says("zip"));
  RANKS_CHECK(owners_move(self, fusion) == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  reference_free(&reference);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void state_goes_on_in_another_fusion(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 3, state_body, NULL), 0);
}

/* ---- a death ---- */

/* The planes of this rank are those of the reference. */
static int state_check(const struct ranks *self, tuttiFusion_t fusion, const struct reference *reference)
{
  for (int t = 0; t < TENSORS; t++) {
    const float *want = is_coded(t) ? reference->worlds[t].planes[self->rank * TT_CODEC_PLANES] : NULL;
    float *plane = floats(tensors[t].count);
    if (want) RANKS_CHECK(tuttiFusionState(fusion, t, 0, plane, tensors[t].count, 0) == tuttiSuccess);
    if (want) RANKS_CHECK(memcmp(plane, want, tensors[t].count * sizeof *plane) == 0);
    free(plane);
  }
  return 0;
}

/* The fusion of those that are left begins with the planes of the failed one, and its steps are those of a reference
 * that does. */
static int others_go_on(const struct ranks *self, tuttiComm_t comm, tuttiFusion_t failed,
                        const struct reference *before, const struct way *way)
{
  tuttiComm_t child = NULL;
  tuttiFusion_t fusion;
  struct reference reference;
  int dead = self->nranks - 1;
  struct ranks left = {.rank = self->rank, .nranks = dead};
  struct step step = {.number = 4, .before = 1, .after = 1};
  RANKS_CHECK(tuttiCommShrink(comm, &dead, 1, &child, NULL, TUTTI_SHRINK_ABORT) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, child, way) == tuttiSuccess);
  reference_make(&reference, way->text, dead, 0);
  for (int t = 0; t < TENSORS; t++) {
    float *plane = floats(tensors[t].count);
    for (int r = 0; is_coded(t) && r < dead; r++)
      memcpy(reference.worlds[t].planes[r * TT_CODEC_PLANES], before->worlds[t].planes[r * TT_CODEC_PLANES],
             tensors[t].count * sizeof *plane);
    if (is_coded(t)) RANKS_CHECK(tuttiFusionState(failed, t, 0, plane, tensors[t].count, 0) == tuttiSuccess);
    if (is_coded(t)) RANKS_CHECK(tuttiFusionState(fusion, t, 0, plane, tensors[t].count, 1) == tuttiSuccess);
    if (is_coded(t)) reference.worlds[t].wanted = 0;
    free(plane);
  }
  RANKS_CHECK(step_run(&left, fusion, &reference, way, &step) == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(child) == tuttiSuccess);
  reference_free(&reference);
  return 0;
}

/* The last rank dies in the third step, of which it has pushed one tensor. */
static int death_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  struct reference reference;
  struct gradients g;
  const struct way way = {.text = self->argument, .policy = "p3:700"};
  struct step step = {.before = 1, .after = 1};
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(fusion_make(&fusion, comm, &way) == tuttiSuccess);
  reference_make(&reference, way.text, self->nranks, 0);
  for (step.number = 1; step.number <= 2; step.number++)
    if (step_run(self, fusion, &reference, &way, &step)) return 1;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 0));
  gradients_draw(&g, self->rank, &step);
  RANKS_CHECK(gradient_push(fusion, &g, TENSORS - 1, NULL) == tuttiSuccess);
  RANKS_CHECK(gradient_push(fusion, &g, 5, NULL) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWait(fusion, 5) == tuttiSuccess);
  if (self->rank == self->nranks - 1) raise(SIGKILL);
  for (int t = 0; t < TENSORS - 1; t++)
    if (t != 5) gradient_push(fusion, &g, t, NULL);
  tuttiFusionInfo_t info = {.size = sizeof info};
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiRemoteError);
  RANKS_CHECK(tuttiFusionGetInfo(fusion, &info) == tuttiSuccess && info.state_step == 2);
  RANKS_CHECK(state_check(self, fusion, &reference) == 0);
  RANKS_CHECK(others_go_on(self, comm, fusion, &reference, &way) == 0);
  RANKS_CHECK(tuttiFusionDestroy(fusion) != tuttiInProgress && tuttiCommAbort(comm) == tuttiSuccess);
  reference_free(&reference);
  gradients_free(&g);
  return 0;
}

static void state_is_that_of_the_last_step_after_a_death(void **state)
{
  static const char *const texts[] = {"1bit", "drop:0.9", "threshold:0.5"};
  (void)state;
  setenv("TUTTI_DEBUG", "NONE", 1);
  for (int k = 0; k < 3; k++)
    assert_int_equal(run_fusion(k % 2 ? "tcp" : "shm", 3, death_body, (void *)(uintptr_t)texts[k]), 1); /* that died */
  unsetenv("TUTTI_DEBUG");
}

/* ---- differences ---- */

static int differ_body(const struct ranks *self)
{
  tuttiComm_t comm;
  tuttiFusion_t fusion;
  const uint32_t *had = NULL;
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  RANKS_CHECK(tuttiCommInitRank(&comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  config.codec = self->rank == 1 ? "int8" : "1bit:64";
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiInvalidUsage);
  RANKS_CHECK(says("codec (TUTTI_FUSION_CODEC) is int8:256 on rank 1 and 1bit:64 on rank 0"));
  config.codec = "1bit";
  config.rows = self->rank == 1 ? rows : had;
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiInvalidUsage && says("rows of 50"));
  config.rows = NULL;
  config.codec = "zip";
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiInvalidArgument && says("\"zip\""));
  config.codec = "none";
  RANKS_CHECK(tuttiFusionCreate(&fusion, comm, tensors, TENSORS, &config) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionCodec(fusion, self->rank == 1 ? "fp16" : "bf16") == tuttiInvalidUsage);
  RANKS_CHECK(says("codec is fp16 on rank 1 and bf16 on rank 0"));
  struct gradients g;
  RANKS_CHECK(gradients_make(&g, tensors, TENSORS, 0, 1) && fusion_step(self, fusion, &g, 1) == 0);
  gradients_free(&g);
  RANKS_CHECK(tuttiFusionDestroy(fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

static void differing_codecs_are_named(void **state)
{
  (void)state;
  assert_int_equal(run_fusion("shm", 3, differ_body, NULL), 0);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bits_are_those_of_the_plain_codec),
      cmocka_unit_test(codecs_and_scales_change_between_steps),
      cmocka_unit_test(a_tiny_factor_of_results_spoils_no_plane),
      cmocka_unit_test(state_goes_on_in_another_fusion),
      cmocka_unit_test(state_is_that_of_the_last_step_after_a_death),
      cmocka_unit_test(differing_codecs_are_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
