/* SPDX-License-Identifier: BSD-3-Clause */
#include "codecs.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "chance.h"

const char *const codecs[] = {"fp16", "bf16", "1bit", "1bit:1", "1bit:50",      "int8",     "int8:7", "qsgd:4",
                              "qsgd:2,100", "qsgd:8,16", "qsgd:5,9", "terngrad", "terngrad:0",
                              "threshold:0.5", "drop:0.9", "drop:0", "dryden:0.1", "adacomp", "adacomp:50", "dgc:0.9",
                              "dgc:0.99,0.5,1", "dgc:0,0.9,2", NULL};

static void check(int is_right, const char *what)
{
  if (is_right) return;
  fprintf(stderr, "codecs.c: %s\n", what);
  abort();
}

struct tt_codec codec_of(const char *text)
{
  struct tt_codec codec;
  check(tt_codec_parse(&codec, text) == tuttiSuccess, text);
  return codec;
}

float *floats(uint64_t count)
{
  float *made = calloc(count ? count : 1, sizeof *made);
  check(made != NULL, "no memory");
  return made;
}

void floats_draw(float *to, uint64_t count, uint64_t *state)
{
  for (uint64_t i = 0; i < count; i++) to[i] = (float)((int32_t)below(state, 131071) - 65535) * 0x1p-16f;
}

void floats_draw_hard(float *to, uint64_t count, uint64_t *state)
{
  static const uint32_t special[] = {0, 0x80000000u, 1, 0x80000001u, 0x7fffffu, 0x800000u, 0x3f800000u, 0xbf800000u};
  for (uint64_t i = 0; i < count; i++) {
    uint32_t bits = (uint32_t)next(state);
    if (bits % 4 == 0) bits = special[bits / 4 % 8];
    else bits = (bits & 0x807fffffu) | (100 + bits / 64 % 40) << 23;
    memcpy(&to[i], &bits, sizeof bits);
  }
}

void codec_world_create(struct codec_world *world, const char *text, int nranks, uint64_t count)
{
  *world = (struct codec_world){.codec = codec_of(text), .nranks = nranks, .count = count, .seed = 7, .tensor = 3};
  check(tt_codec_check(&world->codec, count, nranks) == tuttiSuccess, "not checked");
  world->planes = calloc((size_t)nranks * TT_CODEC_PLANES, sizeof *world->planes);
  world->hashes = calloc((size_t)nranks + 1, sizeof *world->hashes);
  check(world->planes && world->hashes, "no memory");
  for (int rank = 0; rank < nranks; rank++)
    for (int p = 0; p < tt_codec_planes(&world->codec, TT_CODEC_CONTRIBUTION); p++)
      world->planes[rank * TT_CODEC_PLANES + p] = floats(count);
  for (int p = 0; p < tt_codec_planes(&world->codec, TT_CODEC_RESULT); p++) world->owner[p] = floats(count);
}

void codec_world_destroy(struct codec_world *world)
{
  for (int i = 0; i < world->nranks * TT_CODEC_PLANES; i++) free(world->planes[i]);
  for (int p = 0; p < TT_CODEC_PLANES; p++) free(world->owner[p]);
  free(world->planes);
  free(world->hashes);
}

struct tt_codec_piece codec_piece(const struct codec_world *world, int rank, uint64_t first, uint64_t count)
{
  return (struct tt_codec_piece){.stage = TT_CODEC_CONTRIBUTION,
                                 .nranks = world->nranks,
                                 .rank = (uint32_t)(world->first_rank + rank),
                                 .tensor = world->tensor,
                                 .step = world->step,
                                 .seed = world->seed,
                                 .first = first,
                                 .count = count,
                                 .capacity = tt_codec_capacity(&world->codec, world->count, world->wanted)};
}

/* Encodes to bytes that are freed by the caller. They were garbage before, never the same. */
static uint8_t *encoded(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                        float *const *planes, int *overflows)
{
  static int garbage;
  uint64_t bytes = tt_codec_bytes(codec, piece);
  uint8_t *code = malloc(bytes ? bytes : 1);
  check(code != NULL, "no memory");
  memset(code, garbage++ % 256, bytes);
  *overflows |= tt_codec_encode(codec, piece, values, planes, code);
  return code;
}

static void hash_add(uint64_t *hash, const uint8_t *code, uint64_t bytes)
{
  for (uint64_t i = 0; i < bytes; i++) *hash = (*hash ^ code[i]) * 1099511628211u;
}

static void decoded(const struct tt_codec *codec, const struct tt_codec_piece *piece, uint8_t *code, float *sum)
{
  check(tt_codec_decode_add(codec, piece, code, tt_codec_bytes(codec, piece), sum) == tuttiSuccess, tt_last_sentence());
}

int codec_round(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                float *const *planes, float *sum)
{
  int overflows = 0;
  uint8_t *code = encoded(codec, piece, values, planes, &overflows);
  decoded(codec, piece, code, sum);
  free(code);
  return overflows;
}

/* The facts of each rank, with what they share. */
static struct tt_codec_facts *facts_of(const struct codec_world *world, const float *const *values)
{
  struct tt_codec_facts *facts = calloc((size_t)world->nranks, sizeof *facts);
  float shared = 0;
  check(facts != NULL, "no memory");
  if (!tt_codec_prepares(&world->codec)) return facts;
  for (int rank = 0; rank < world->nranks; rank++) {
    tt_codec_prepare(&world->codec, values[rank], world->count, &facts[rank]);
    if (facts[rank].shared > shared) shared = facts[rank].shared;
  }
  for (int rank = 0; rank < world->nranks; rank++) facts[rank].shared = shared;
  return facts;
}

/* Elements first .. first + count - 1 by either route. */
static void shard_reduce(struct codec_world *world, const float *const *values, const struct tt_codec_facts *facts,
                         struct tt_codec_piece piece, float *result, float *const *sent)
{
  const struct tt_codec *codec = &world->codec;
  int is_owner = tt_codec_route(codec) == TT_CODEC_OWNER;
  uint64_t first = piece.first;
  float *sum = is_owner ? floats(piece.count) : result;
  uint32_t wanted = 0;
  for (int rank = 0; rank < world->nranks; rank++) {
    float *planes[TT_CODEC_PLANES];
    for (int p = 0; p < TT_CODEC_PLANES; p++) {
      float *plane = world->planes[rank * TT_CODEC_PLANES + p];
      planes[p] = plane ? plane + first : NULL;
    }
    piece.rank = (uint32_t)(world->first_rank + rank);
    piece.facts = facts[rank];
    uint8_t *code = encoded(codec, &piece, values[rank] + first, planes, &world->overflows);
    hash_add(&world->hashes[rank], code, tt_codec_bytes(codec, &piece));
    decoded(codec, &piece, code, sum);
    if (sent) decoded(codec, &piece, code, sent[rank] + first);
    if (!is_owner && tt_codec_wanted(code) > wanted) wanted = tt_codec_wanted(code);
    free(code);
  }
  world->wanted = wanted;
  if (!is_owner) return;
  piece.stage = TT_CODEC_RESULT;
  piece.rank = (uint32_t)(first % 3); /* any: nothing may depend on the owner */
  float *owner[TT_CODEC_PLANES];
  for (int p = 0; p < TT_CODEC_PLANES; p++) owner[p] = world->owner[p] ? world->owner[p] + first : NULL;
  uint8_t *code = encoded(codec, &piece, sum, owner, &world->overflows);
  hash_add(&world->hashes[world->nranks], code, tt_codec_bytes(codec, &piece));
  decoded(codec, &piece, code, result + first);
  free(code);
  free(sum);
}

void codec_world_reduce(struct codec_world *world, const float *const *values, float *result, float *const *sent)
{
  uint64_t grain = tt_codec_grain(&world->codec), length = world->count;
  struct tt_codec_facts *facts = facts_of(world, values);
  if (grain && world->piece) length = (world->piece + grain - 1) / grain * grain;
  memset(result, 0, world->count * sizeof *result);
  for (int rank = 0; sent && rank < world->nranks; rank++) memset(sent[rank], 0, world->count * sizeof **sent);
  world->overflows = 0;
  for (uint64_t first = 0; first < world->count || !first; first += length ? length : 1) {
    uint64_t left = world->count - first;
    shard_reduce(world, values, facts, codec_piece(world, 0, first, left < length ? left : length), result, sent);
  }
  free(facts);
  world->step++;
}
