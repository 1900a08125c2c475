/* SPDX-License-Identifier: BSD-3-Clause */
/* For tests of fusions with servers: values tagged with rank and step, so that a weight tells which contributions are
 * in it, also one of 16 bits. */
#ifndef TAGGED_RANKS_H
#define TAGGED_RANKS_H

#include "fusion_ranks.h"

/* The first and the last tensor have elements of all ranks, and a period of TAGS elements. */
#define TAGS 24
static const tuttiFusionTensor_t tagged[] = {
    {"first", 5000, tuttiFloat32}, {"few", 3, tuttiBfloat16}, {"none", 0, tuttiFloat32}, {"last", 4097, tuttiFloat16}};
enum { TAGGED = sizeof tagged / sizeof *tagged };

/* The state of a rank of this process. */
struct job {
  int quorum, staleness, steps;
  int planes;     /* 2: the second one counts the updates of an element; 0: as 1 */
  _Atomic uint64_t wrong; /* pieces of updates that were not as they have to be */
  struct gradients g;
  tuttiFusion_t fusion;
  tuttiFusionInfo_t info;
};

static inline int bits_of(float value)
{
  return __builtin_popcount((unsigned)value);
}

static inline tuttiResult_t add(void *context, const tuttiFusionShard_t *shard)
{
  struct job *job = context;
  for (size_t i = 0; i < shard->count; i++) {
    float g = shard->gradient[i];
    if (!job->staleness) { /* of one step alone, and of so many ranks */
      int is_its = (shard->first + i) % TAGS + 1 == shard->step;
      job->wrong += is_its ? bits_of(g) != job->quorum : g != 0;
    }
    shard->planes[0][i] += g;
    if (shard->planes[1]) shard->planes[1][i]++;
  }
  job->wrong += job->quorum && shard->staleness > job->staleness;
  return tuttiSuccess;
}

static const float zeros[5000];

static inline tuttiResult_t job_create(struct job *job, tuttiComm_t comm)
{
  tuttiFusionConfig_t config = TUTTI_FUSION_CONFIG_INITIALIZER;
  config.update = job->planes == 2 ? "function:2" : "function";
  config.function = add;
  config.context = job;
  config.quorum = job->quorum;
  config.staleness = job->staleness;
  job->info.size = sizeof job->info;
  return tuttiFusionCreate(&job->fusion, comm, tagged, TAGGED, &config);
}

static inline int job_begin(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  RANKS_CHECK(job_create(job, comm) == tuttiSuccess);
  RANKS_CHECK(gradients_make(&job->g, tagged, TAGGED, 64, 0));
  return 0;
}

static inline int job_give(const struct ranks *self, const struct job *job)
{
  for (int t = 0; t < TAGGED; t++)
    RANKS_CHECK(tuttiFusionState(job->fusion, t, 0, (float *)(uintptr_t)zeros, tagged[t].count, 1) == tuttiSuccess);
  return 0;
}

static inline int job_make(const struct ranks *self, struct job *job, tuttiComm_t comm)
{
  RANKS_CHECK(job_begin(self, job, comm) == 0);
  return job_give(self, job);
}

static inline void tag_put(const struct job *job, int t, int tag, float value)
{
  char *to = job->g.in + job->g.at[t];
  int type = (int)tagged[t].type;
  for (size_t e = 0; e < tagged[t].count; e++)
    element_put(to + e * tt_type_size(type), type, (int)(e % TAGS) == tag ? (double)value : 0);
}

/* A step that contributes `value` to every element with this tag. */
static inline int job_step(const struct ranks *self, struct job *job, int tag, float value)
{
  for (int t = TAGGED - 1; t >= 0; t--) {
    tag_put(job, t, tag, value);
    RANKS_CHECK(gradient_push(job->fusion, &job->g, t, NULL) == tuttiSuccess);
  }
  RANKS_CHECK(tuttiFusionWaitAll(job->fusion) == tuttiSuccess);
  RANKS_CHECK(tuttiFusionGetInfo(job->fusion, &job->info) == tuttiSuccess);
  RANKS_CHECK(gaps_check(self, &job->g) == 0);
  return 0;
}

static inline float weight_of(const struct job *job, int t, size_t e)
{
  int type = (int)tagged[t].type;
  uint32_t bits = 0;
  float value;
  memcpy(&bits, job->g.out + job->g.at[t] + e * tt_type_size(type), tt_type_size(type));
  if (type != tuttiFloat32) return tt_float_to_fp32(type, bits);
  memcpy(&value, &bits, sizeof value);
  return value;
}

/* A rank's steps in several communicators. */
struct life {
  struct job job;
  uint64_t steps;      /* that have ended */
  float *kept[TAGGED]; /* weights of the last of them */
};

/* 0: no memory. */
static inline int life_make(struct life *life)
{
  int has_all = 1;
  for (int t = 0; t < TAGGED; t++) {
    life->kept[t] = calloc(tagged[t].count + 1, sizeof(float));
    has_all &= life->kept[t] != NULL;
  }
  return has_all;
}

static inline void life_free(struct life *life)
{
  gradients_free(&life->job.g);
  for (int t = 0; t < TAGGED; t++) free(life->kept[t]);
}

/* A step in which the rank contributes its bit: two ranks or more are in each step that is over, the same ones in all
 * elements. */
static inline int life_step(const struct ranks *self, struct life *life)
{
  struct job *job = &life->job;
  RANKS_CHECK(job_step(self, job, (int)job->info.updates, (float)(1 << self->rank)) == 0);
  life->steps++;
  RANKS_CHECK(job->wrong == 0);
  for (int t = 0; t < TAGGED; t++)
    for (size_t e = 0; e < tagged[t].count; e++) {
      float value = life->kept[t][e] = weight_of(job, t, e);
      RANKS_CHECK(value == weight_of(job, 0, e % TAGS));
      RANKS_CHECK(e % TAGS < job->info.updates ? bits_of(value) >= 2 : value == 0);
    }
  return 0;
}

/* The fusion ends in a step, as a rank has died. */
static inline int life_fails(const struct ranks *self, struct life *life)
{
  struct job *job = &life->job;
  tuttiResult_t result = tuttiSuccess;
  for (int t = TAGGED - 1; t >= 0 && result == tuttiSuccess; t--) {
    tag_put(job, t, (int)job->info.updates, (float)(1 << self->rank));
    result = gradient_push(job->fusion, &job->g, t, NULL);
  }
  if (result == tuttiSuccess) result = tuttiFusionWaitAll(job->fusion);
  RANKS_CHECK(result == tuttiRemoteError);
  return 0;
}

/* Gives the weights of the last step that has ended. */
static inline int life_give(const struct ranks *self, const struct life *life)
{
  for (int t = 0; t < TAGGED; t++)
    RANKS_CHECK(tuttiFusionState(life->job.fusion, t, 0, life->kept[t], tagged[t].count, 1) == tuttiSuccess);
  return 0;
}

/* Tells the weights that all ranks have at the end; `dropped` are the steps that are not in them. */
static inline int life_tell(const struct ranks *self, const struct life *life, float values[TAGS])
{
  uint64_t ncounted = 0;
  for (int tag = 0; tag < TAGS; tag++) {
    values[tag] = weight_of(&life->job, 0, (size_t)tag);
    ncounted += (unsigned)values[tag] >> self->rank & 1;
  }
  RANKS_CHECK(life->job.info.dropped == life->steps - ncounted);
  return 0;
}

/* All elements with a tag have the same contributors: of a step that is over the quorum, else nobody. */
static inline int sets_check(const struct ranks *self, const struct job *job)
{
  for (int t = 0; t < TAGGED; t++)
    for (size_t e = 0; e < tagged[t].count; e++) {
      float value = weight_of(job, t, e);
      RANKS_CHECK(value == weight_of(job, 0, e % TAGS));
      RANKS_CHECK(bits_of(value) == (e % TAGS < job->info.updates ? job->quorum : 0));
    }
  return 0;
}

#endif
