/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of fusions whose owners update weights: masters and state of all elements on each rank, updated by an
 * all-reduce with `deterministic` and the equations of tutti_fusion.h; steps that compare a fusion with them. */
#ifndef UPDATE_RANKS_H
#define UPDATE_RANKS_H

#include <math.h>

#include "codecs.h"
#include "comm/coded.h"
#include "fusion_ranks.h"

static const tuttiFusionTensor_t wide[] = {
    {"w0", 5000, tuttiFloat32}, {"b0", 10, tuttiFloat32},    {"none", 0, tuttiFloat32},
    {"w1", 2049, tuttiFloat32}, {"w2", 12345, tuttiFloat32}, {"b2", 700, tuttiFloat32}};
static const tuttiFusionTensor_t narrow[] = {
    {"w0", 5000, tuttiFloat16}, {"b0", 10, tuttiBfloat16},    {"none", 0, tuttiFloat16},
    {"w1", 2049, tuttiFloat16}, {"w2", 12345, tuttiBfloat16}, {"b2", 700, tuttiFloat16}};
enum { TENSORS = sizeof wide / sizeof *wide };

static const uint8_t exempt[TENSORS] = {0, 1, 0, 0, 0, 1};
#define LEAST 1000 /* elements of tensors that have the codec */
#define WORLDS 8   /* ranks, at most */

struct way {
  const char *update, *policy, *codec; /* policy "servers": none, and a quorum of all ranks */
  const tuttiFusionTensor_t *tensors;
  size_t buffer;
  int avg, wire, weights, overflow;
};

/* ---- the reference: masters and state of all elements, on each rank ---- */

struct reference {
  const struct way *way;
  tuttiComm_t exact; /* deterministic */
  int rank, nranks;
  uint64_t steps;
  float *w[TENSORS], *v[TENSORS];
  int nworlds;      /* servers: one for each rank, as they share no facts; else 1 */
  struct codec_world worlds[TENSORS][WORLDS];
};

static inline int has_codec(const struct way *way, int t)
{
  return strcmp(way->codec, "none") != 0 && wide[t].count >= LEAST;
}

static inline void worlds_make(struct reference *r)
{
  r->nworlds = strcmp(r->way->policy, "servers") == 0 ? r->nranks : 1;
  for (int t = 0; t < TENSORS; t++)
    for (int k = 0; k < r->nworlds && has_codec(r->way, t); k++) {
      codec_world_create(&r->worlds[t][k], r->way->codec, r->nranks / r->nworlds, wide[t].count);
      r->worlds[t][k].seed = 0;
      r->worlds[t][k].tensor = (uint32_t)t;
      r->worlds[t][k].first_rank = k;
    }
}

static inline void worlds_free(struct reference *r)
{
  for (int t = 0; t < TENSORS; t++)
    for (int k = 0; k < r->nworlds && has_codec(r->way, t); k++) codec_world_destroy(&r->worlds[t][k]);
}

/* Planes of codecs keep their part of results. */
static inline void reference_scale(struct reference *r, float before, float after)
{
  double factor = (double)before / (double)after;
  for (int t = 0; t < TENSORS; t++)
    for (int k = 0; has_codec(r->way, t) && k < r->nranks * TT_CODEC_PLANES; k++) {
      int ranks = r->nranks / r->nworlds, each = ranks * TT_CODEC_PLANES;
      float *plane = r->worlds[t][k / each].planes[k % each];
      for (size_t e = 0; plane && e < wide[t].count; e++) plane[e] = (float)((double)plane[e] * factor);
    }
}

static inline void reference_make(struct reference *r, const struct ranks *self, const struct way *way,
                                  tuttiComm_t exact)
{
  uint64_t state = 5;
  *r = (struct reference){.way = way, .exact = exact, .rank = self->rank, .nranks = self->nranks};
  for (int t = 0; t < TENSORS; t++) {
    r->w[t] = floats(wide[t].count);
    r->v[t] = floats(wide[t].count);
    floats_draw(r->w[t], wide[t].count, &state);
  }
  worlds_make(r);
}

static inline void reference_free(struct reference *r)
{
  worlds_free(r);
  for (int t = 0; t < TENSORS; t++) {
    free(r->w[t]);
    free(r->v[t]);
  }
}

/* One step, from 1 on. spoilt: a contribution of rank 0 is infinite. */
struct step {
  uint64_t number;
  float before, after, rate;
  int spoilt;
};

/* In fp32; sums of these round in every type. */
static inline void contribution_draw(int t, int rank, const struct step *step, float *to)
{
  uint64_t state = ((uint64_t)t * 64 + (uint64_t)rank) * 4096 + step->number;
  floats_draw(to, wide[t].count, &state);
  for (size_t e = 0; e < wide[t].count; e += 3) to[e] *= 0x1.8p-9f;
  if (step->spoilt && rank == 0 && wide[t].count > 7) to[7] = INFINITY;
}

static inline void convert(int type, const float *from, size_t count, void *to)
{
  for (size_t e = 0; e < count; e++) {
    uint32_t bits = tt_float_from_fp32(type, from[e]);
    if (type == tuttiFloat32) memcpy((char *)to + 4 * e, &from[e], 4);
    else memcpy((char *)to + 2 * e, &bits, 2);
  }
}

static inline void widen(int type, const void *from, size_t count, float *to)
{
  for (size_t e = 0; e < count; e++) {
    uint16_t bits;
    if (type == tuttiFloat32) memcpy(&to[e], (const char *)from + 4 * e, 4);
    else memcpy(&bits, (const char *)from + 2 * e, 2);
    if (type != tuttiFloat32) to[e] = tt_float_to_fp32(type, bits);
  }
}

static inline int type_of(const struct way *way, int t)
{
  return (int)way->tensors[t].type;
}

/* The gradient by an all-reduce, which is what the contract compares with. */
static inline int all_reduced(const struct ranks *self, const struct reference *r, const struct step *step, int t,
                              float *g)
{
  tuttiReduceOptions_t options = TUTTI_REDUCE_OPTIONS_INITIALIZER;
  int type = type_of(r->way, t);
  char *data = calloc(wide[t].count + 1, 4);
  contribution_draw(t, r->rank, step, g);
  convert(type, g, wide[t].count, data);
  options.wire_type = r->way->wire;
  options.scale_before = step->before;
  RANKS_CHECK(tuttiAllReduceWith(data, data, wide[t].count, (tuttiDataType_t)type, r->way->avg ? tuttiAvg : tuttiSum,
                                 &options, r->exact, NULL) == tuttiSuccess);
  widen(type, data, wide[t].count, g);
  for (size_t e = 0; e < wide[t].count; e++) g[e] *= step->after;
  free(data);
  return 0;
}

/* The gradient by the plain codec: the contributions that owners decode, in the order of ranks. */
static inline void decoded(struct reference *r, const struct step *step, int t, float *g)
{
  float **values = calloc((size_t)r->nranks, sizeof *values), **sent = calloc((size_t)r->nranks, sizeof *sent);
  float *unused = floats(wide[t].count);
  for (int rank = 0; rank < r->nranks; rank++) {
    values[rank] = floats(wide[t].count);
    sent[rank] = floats(wide[t].count);
    contribution_draw(t, rank, step, values[rank]);
    for (size_t e = 0; e < wide[t].count; e++) values[rank][e] *= step->before;
  }
  for (int k = 0; k < r->nworlds; k++) {
    r->worlds[t][k].step = (uint32_t)r->steps + 1;
    codec_world_reduce(&r->worlds[t][k], (const float *const *)values + k, unused, sent + k);
  }
  float factor = (float)((double)step->after / (r->way->avg ? r->nranks : 1));
  for (size_t e = 0; e < wide[t].count; e++) {
    g[e] = 0;
    for (int rank = 0; rank < r->nranks; rank++) g[e] += sent[rank][e];
    g[e] *= factor;
  }
  for (int rank = 0; rank < r->nranks; rank++) {
    free(values[rank]);
    free(sent[rank]);
  }
  free(values);
  free(sent);
  free(unused);
}

/* The sum of squares as the header has it: each owner adds up its elements, and ranks are added in their order. */
static inline double squares(const struct reference *r, int t, const float *values)
{
  static const struct tt_codec none;
  double sum = 0;
  uint64_t turns = 0, unit = 1;
  for (int k = 0; k <= t; k++) {
    struct tt_codec codec = has_codec(r->way, k) ? r->worlds[k][0].codec : none;
    if (k < t && !wide[k].count) continue;
    unit = tt_coded_unit(&codec, wide[k].count, r->nranks);
    if (k < t) turns += (wide[k].count + unit - 1) / unit;
  }
  for (int rank = 0; rank < r->nranks; rank++) {
    double lanes[16] = {0}, own = 0;
    for (uint64_t e = 0; e < wide[t].count; e++)
      if ((e / unit + turns) % (uint64_t)r->nranks == (uint64_t)rank)
        lanes[e % 16] += (double)values[e] * (double)values[e];
    for (int l = 0; l < 16; l++) own += lanes[l];
    sum += own;
  }
  return sum;
}

#define DECAY 0.0009765625f
#define MOMENTUM 0.875f
#define ETA 0.125f

static inline float lambda_of(const struct reference *r, int t, const float *g)
{
  double gn = sqrt(squares(r, t, g)), wn = sqrt(squares(r, t, r->w[t]));
  return gn != 0 && wn != 0 ? (float)((double)ETA * wn / (gn + (double)DECAY * wn)) : 1;
}

/* The equations of the header, and the function below. */
static inline void update(const struct reference *r, const struct step *step, int t, const float *g)
{
  const char *rule = r->way->update;
  int is_lars = strncmp(rule, "lars", 4) == 0, is_function = strncmp(rule, "function", 8) == 0;
  int decays = strstr(rule, "0.0009765625") && !exempt[t];
  float lambda = is_lars && !exempt[t] ? lambda_of(r, t, g) : 1;
  for (size_t e = 0; e < wide[t].count; e++) {
    float *w = &r->w[t][e], *v = &r->v[t][e], u = g[e];
    if (decays) u = u + DECAY * *w;
    if (is_lars && !exempt[t]) u = lambda * u;
    if (is_function) u = *v = *v + u * u;
    else if (strncmp(rule, "sgd", 3) != 0) u = *v = MOMENTUM * *v + u;
    *w = *w - step->rate * u;
  }
}

/* w -= rate * v, where v adds up squares; the third plane counts steps. */
static inline tuttiResult_t function(void *context, const tuttiFusionShard_t *shard)
{
  const char *rule = context;
  if (strcmp(rule, "function:3") != 0 || shard->size != sizeof *shard || shard->staleness) return tuttiInternalError;
  for (size_t i = 0; i < shard->count; i++) {
    float *w = shard->planes[0], *v = shard->planes[1], *steps = shard->planes[2];
    v[i] = v[i] + shard->gradient[i] * shard->gradient[i];
    w[i] = w[i] - shard->rate * v[i];
    if (++steps[i] != (float)shard->step) return tuttiInternalError;
  }
  return tuttiSuccess;
}

/* ---- the fusion ---- */

static inline tuttiResult_t fusion_make(tuttiFusion_t *fusion, tuttiComm_t comm, const struct way *way)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.codec = way->codec;
  config.codec_least = LEAST;
  if (strcmp(way->policy, "servers") == 0) tuttiCommCount(comm, &config.quorum);
  else config.policy = way->policy;
  config.buffer_bytes = way->buffer;
  config.op = way->avg ? tuttiAvg : tuttiSum;
  config.wire_type = way->wire;
  config.overflow = way->overflow;
  config.update = way->update;
  config.weights_type = way->weights;
  config.rate = 0.25f;
  config.exempt = exempt;
  if (strncmp(way->update, "function", 8) == 0) config.function = function;
  config.context = (void *)(uintptr_t)way->update;
  return tuttiFusionCreate(fusion, comm, way->tensors, TENSORS, &config);
}

static inline int weights_give(const struct ranks *self, tuttiFusion_t fusion, const struct reference *r)
{
  for (int t = 0; t < TENSORS; t++)
    RANKS_CHECK(tuttiFusionState(fusion, t, 0, r->w[t], wide[t].count, 1) == tuttiSuccess);
  return 0;
}

/* The tensor's weights in recvbuff are the reference's, in the type in which they travel. */
static inline int weights_check(const struct ranks *self, const struct gradients *g, const struct reference *r, int t)
{
  int type = type_of(r->way, t), bytes = (int)tt_type_size(type);
  size_t count = wide[t].count;
  char *want = calloc(count + 1, 4);
  float *rounded = floats(count);
  memcpy(rounded, r->w[t], count * sizeof *rounded);
  if (type == tuttiFloat32 && r->way->weights != tuttiFloat32) {
    convert(r->way->weights, r->w[t], count, want);
    widen(r->way->weights, want, count, rounded);
  }
  convert(type, rounded, count, want);
  int is_same = memcmp(g->out + g->at[t], want, count * (size_t)bytes) == 0;
  if (!is_same)
    fprintf(stderr, "update %s, policy %s, codec %s, tensor %d of %s, step %llu\n", r->way->update, r->way->policy,
            r->way->codec, t, tt_type_name(type), (unsigned long long)r->steps);
  RANKS_CHECK(is_same);
  free(rounded);
  free(want);
  return 0;
}

static inline int step_push(const struct ranks *self, tuttiFusion_t fusion, const struct gradients *g,
                     const struct reference *r, const struct step *step)
{
  uint64_t state = step->number * 64 + (uint64_t)self->rank;
  int order[TENSORS];
  for (int t = 0; t < TENSORS; t++) {
    float *values = floats(wide[t].count);
    contribution_draw(t, self->rank, step, values);
    convert(type_of(r->way, t), values, wide[t].count, g->in + g->at[t]);
    free(values);
  }
  shuffled(order, TENSORS, &state);
  for (int k = 0; k < TENSORS; k++) RANKS_CHECK(gradient_push(fusion, g, order[k], NULL) == tuttiSuccess);
  return 0;
}

static inline int step_run(const struct ranks *self, tuttiFusion_t fusion, struct reference *r, const struct step *step)
{
  struct gradients g;
  int overflow = 0;
  RANKS_CHECK(gradients_make(&g, r->way->tensors, TENSORS, step->number % 2 ? 64 : 0, step->number % 3 == 0));
  RANKS_CHECK(step_push(self, fusion, &g, r, step) == 0);
  for (int t = 0; t < TENSORS && step->number % 2; t++) RANKS_CHECK(tuttiFusionWait(fusion, t) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionWaitAll(fusion) == tuttiSuccess);
  if (r->way->overflow) RANKS_CHECK(tuttiFusionOverflow(fusion, &overflow) == tuttiSuccess);
  RANKS_CHECK(overflow == step->spoilt);
  for (int t = 0; t < TENSORS; t++) {
    float *gradient = floats(wide[t].count);
    if (step->spoilt) RANKS_CHECK(strcmp(r->way->codec, "none") == 0);
    else if (has_codec(r->way, t)) decoded(r, step, t, gradient);
    else RANKS_CHECK(all_reduced(self, r, step, t, gradient) == 0);
    if (!step->spoilt) update(r, step, t, gradient);
    free(gradient);
  }
  r->steps++;
  for (int t = 0; t < TENSORS; t++) RANKS_CHECK(weights_check(self, &g, r, t) == 0);
  RANKS_CHECK(gaps_check(self, &g) == 0);
  gradients_free(&g);
  return 0;
}

static inline int comms_make(const struct ranks *self, tuttiComm_t *comm, tuttiComm_t *exact)
{
  tuttiConfig_t config = TUTTI_CONFIG_INITIALIZER;
  config.deterministic = 1;
  RANKS_CHECK(tuttiCommInitRank(comm, self->nranks, self->id, self->rank) == tuttiSuccess);
  RANKS_CHECK(tuttiCommSplit(*comm, 0, self->rank, exact, &config) == tuttiSuccess);
  return 0;
}

static inline int comms_destroy(const struct ranks *self, tuttiComm_t comm, tuttiComm_t exact)
{
  RANKS_CHECK(tuttiCommDestroy(exact) == tuttiSuccess);
  RANKS_CHECK(tuttiCommDestroy(comm) == tuttiSuccess);
  return 0;
}

#endif
