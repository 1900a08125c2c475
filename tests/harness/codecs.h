/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs in tests: texts of every row, tensors, and coded reductions of ranks that are simulated, in plain loops. */
#ifndef CODECS_H
#define CODECS_H

#include "codec/codec.h"

/* Every row of the table, some with several parameters; ended by NULL. */
extern const char *const codecs[];

struct tt_codec codec_of(const char *text);

/* Ranks whose contributions are reduced, step by step. */
struct codec_world {
  struct tt_codec codec;
  int nranks, first_rank; /* first_rank: the number of the first of them, on which random numbers depend; 0 at first */
  uint64_t count, seed;
  uint32_t tensor, step;
  float **planes; /* nranks x TT_CODEC_PLANES */
  float *owner[TT_CODEC_PLANES];
  uint64_t piece; /* shards have so many elements, rounded up to the grain; 0: the whole tensor is one */
  uint32_t wanted; /* entries, most of the step before */
  int overflows; /* of the last step: 1 if an encoder said so */
  uint64_t *hashes; /* of all bytes of codes so far: those of each rank, and of results */
};

/* All planes are zeros. */
void codec_world_create(struct codec_world *world, const char *text, int nranks, uint64_t count);
void codec_world_destroy(struct codec_world *world);

/* The piece that rank `rank` encodes, without facts. */
struct tt_codec_piece codec_piece(const struct codec_world *world, int rank, uint64_t first, uint64_t count);

/* One step: result = the coded sum of values[rank]. sent: what each rank's code says, NULL or nranks tensors. */
void codec_world_reduce(struct codec_world *world, const float *const *values, float *result, float *const *sent);

/* Encodes and decodes in memory of exactly the right length. Returns what the encoder returned. */
int codec_round(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                float *const *planes, float *sum);

float *floats(uint64_t count); /* zeroed; to be freed */

/* Values that a sum takes without rounding, of both signs: multiples of 2^-16 below 1. */
void floats_draw(float *to, uint64_t count, uint64_t *state);

/* Values of many magnitudes, with zeros of both signs and subnormals. */
void floats_draw_hard(float *to, uint64_t count, uint64_t *state);

#endif
