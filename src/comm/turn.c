/* SPDX-License-Identifier: BSD-3-Clause */
/* The owner's turn in a coded reduction: contributions are added, and the sum is encoded, or updates weights. */
#include <stdio.h>
#include <string.h>

#include "comm/coded_private.h"
#include "reduce/fpenv.h"
#include "reduce/reduce.h"

void tt_coded_multiply(float *to, const float *from, uint64_t count, float factor)
{
  fpenv env = fpenv_enter();
  for (uint64_t i = 0; i < count; i++) to[i] = from[i] * factor;
  fpenv_leave(env);
}

/* ---- codes ---- */

/* In the units of this step. A value that these cannot hold becomes the largest that codecs take as finite, because a
 * plane that is infinite stays so. */
static void plane_read(float *to, const float *from, uint64_t count, double factor)
{
  const float most = 0x1.fffffep126f;
  if (factor == 0 || factor == 1) {
    memcpy(to, from, count * sizeof *to);
    return;
  }
  fpenv env = fpenv_enter();
  for (uint64_t i = 0; i < count; i++) {
    double value = (double)from[i] * factor;
    to[i] = value > (double)most ? most : value < -(double)most ? -most : (float)value;
  }
  fpenv_leave(env);
}

void tt_coded_encode(const struct tt_coded_part *part, const struct tt_codec_piece *piece, const float *values,
                     void *code)
{
  float *planes[TT_CODEC_PLANES] = {NULL, NULL};
  uint64_t skip = piece->first - part->first;
  for (int p = 0; p < tt_codec_planes(&part->codec, piece->stage); p++) {
    planes[p] = part->changed[piece->stage][p] + skip;
    plane_read(planes[p], part->planes[piece->stage][p] + skip, piece->count, part->planes_factor);
  }
  tt_codec_encode(&part->codec, piece, values, planes, code);
}

tuttiResult_t tt_coded_decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const void *code,
                                  uint64_t bytes, float *sum)
{
  tuttiResult_t result = tt_codec_decode_add(codec, piece, code, bytes, sum);
  if (result == tuttiSuccess) return result;
  char sentence[TT_SENTENCE_BYTES];
  snprintf(sentence, sizeof sentence, "%s", tt_last_sentence());
  return tt_fail_quiet(tuttiRemoteError, sentence);
}

tuttiResult_t tt_coded_place_add(const struct tt_coded_place *place, enum tt_codec_stage stage, int rank,
                                 const uint8_t *code, float *sum)
{
  struct tt_codec_piece piece = place->piece;
  piece.stage = stage;
  piece.rank = (uint32_t)rank;
  return tt_coded_decode_add(&place->laid->part.codec, &piece, code, place->bytes[stage], sum);
}

/* In the order of ranks. */
static tuttiResult_t codes_add(const struct tt_coded *coded, const struct tt_coded_place *place,
                               const struct tt_codes *codes, float *sum)
{
  tuttiResult_t result = tuttiSuccess;
  memset(sum, 0, place->piece.count * sizeof *sum);
  for (int rank = 0; rank < coded->nranks && result == tuttiSuccess; rank++)
    result = tt_coded_place_add(place, TT_CODEC_CONTRIBUTION, rank, tt_coded_received(coded, place, codes, rank), sum);
  return result;
}

/* ---- without a codec: the values in a type of floats ---- */

void tt_coded_convert(int to_type, void *to, int from_type, const void *from, uint64_t count)
{
  struct tt_reduce_arg arg = tt_reduce_plainly;
  int narrow = to_type == tuttiFloat32 ? from_type : to_type;
  if (to_type != from_type && narrow == to_type) arg.wide = 0;
  if (to_type != from_type && narrow == from_type) arg.dst_wide = 1;
  tt_reduce_kernel(tuttiSum, narrow)(to, &from, 1, count, &arg);
}

/* As a contribution to an all-reduce is scaled and rounded (exec/numbers.c). */
void tt_coded_plain_write(const struct tt_coded_plain *plain, const void *from, uint64_t count, void *to)
{
  int type = plain->type, redop = plain->redop == tuttiAvg ? tuttiAvg : TT_PREMUL_SUM;
  struct tt_reduce_arg arg;
  if (plain->before == 1 && redop != tuttiAvg) {
    tt_coded_convert(type, to, plain->memory, from, count);
    return;
  }
  float one = 1;
  uint64_t scalar = tt_float_from_fp32(type, one);
  if (type == tuttiFloat32) memcpy(&scalar, &one, sizeof one);
  tt_reduce_arg_before(&arg, redop, type, plain->nranks, scalar, plain->before);
  arg.scaled = 0;
  if (type != plain->memory) arg.wide = 0;
  tt_reduce_kernel(redop, type)(to, &from, 1, count, &arg);
}

static void tree_pair(const struct tt_coded_tree *tree, int to, int from)
{
  void *sum = tree->at(tree, to);
  const void *both[2] = {sum, tree->at(tree, from)};
  tt_reduce_kernel(tuttiSum, tree->type)(sum, both, 2, tree->count, NULL);
}

static void butterfly_add(const struct tt_coded_tree *tree, int first, int size)
{
  for (int apart = 1; apart < size; apart *= 2)
    for (int k = first; k < first + size; k += 2 * apart) tree_pair(tree, k, k + apart);
}

/* Blocks of powers of two, each by a butterfly, then the smallest to the one before it, and so on. */
void tt_coded_tree_add(const struct tt_coded_tree *tree)
{
  int n = tree->n, first = 0;
  for (int size = 1 << 30; size; size /= 2) {
    if (!(n & size)) continue;
    butterfly_add(tree, first, size);
    first += size;
  }
  while (first) {
    int smaller = first;
    first &= first - 1;
    if (smaller < n) tree_pair(tree, first, smaller);
  }
}

/* Contributions by their ranks. */
struct line {
  struct tt_coded_tree tree;
  const struct tt_coded *coded;
  const struct tt_coded_place *place;
  const struct tt_codes *codes;
};

static void *line_at(const struct tt_coded_tree *tree, int rank)
{
  const struct line *line = (const struct line *)(const void *)tree;
  return tt_coded_received(line->coded, line->place, line->codes, rank);
}

static void plain_add(const struct tt_coded *coded, const struct tt_coded_place *place, const struct tt_codes *codes,
                      float *sum)
{
  int type = coded->update.wires[TT_CODEC_CONTRIBUTION];
  const struct line line = {{line_at, coded->nranks, type, place->piece.count}, coded, place, codes};
  tt_coded_tree_add(&line.tree);
  tt_coded_convert(tuttiFloat32, sum, type, tt_coded_received(coded, place, codes, 0), place->piece.count);
}

/* ---- sums, norms, weights ---- */

tuttiResult_t tt_coded_place_sum(struct tt_coded *coded, const struct tt_coded_place *place,
                                 const struct tt_codes *codes)
{
  const struct tt_coded_part *part = &place->laid->part;
  float *sum = (float *)codes->sums.memory + place->own;
  uint64_t count = place->piece.count, first = place->piece.first;
  int is_coded = part->codec.row != NULL, ranks = is_coded && coded->spec.redop == tuttiAvg ? coded->nranks : 1;
  float factor = (float)((double)coded->spec.after / ranks);
  if (place->owner != coded->rank) return tuttiSuccess;
  tuttiResult_t result = is_coded ? codes_add(coded, place, codes, sum) : tuttiSuccess;
  if (!is_coded) plain_add(coded, place, codes, sum);
  if (factor != 1) tt_coded_multiply(sum, sum, count, factor);
  if (!coded->update.has_norms) return result;
  tt_norm_add(&place->laid->norms[0], tuttiFloat32, sum, first, count);
  tt_norm_add(&place->laid->norms[1], tuttiFloat32, part->weights + place->skip, first, count);
  return result;
}

static double square_of(const struct tt_norm *norm)
{
  double square = 0;
  for (int lane = 0; lane < TT_NORM_LANES; lane++) square += norm->lane[lane];
  return square;
}

void tt_coded_norms_tell(const struct tt_coded *coded, double *told)
{
  fpenv env = fpenv_enter();
  for (int i = 0; i < coded->spec.nparts; i++)
    for (int k = 0; k < 2; k++) told[2 * i + k] = square_of(&coded->laid[i].norms[k]);
  fpenv_leave(env);
}

void tt_coded_norms_take(struct tt_coded *coded, const double *told)
{
  size_t n = 2 * (size_t)coded->spec.nparts;
  fpenv env = fpenv_enter();
  for (size_t k = 0; k < (size_t)coded->nranks * n; k++) coded->laid[k % n / 2].squares[k % 2] += told[k];
  fpenv_leave(env);
}

/* An update is skipped where its gradient is not finite, if that is reported: then NaN tells all ranks. */
static tuttiResult_t weights_turn(struct tt_coded *coded, const struct tt_coded_place *place,
                                  const struct tt_codes *codes, uint8_t *to)
{
  const struct tt_coded_part *part = &place->laid->part;
  const struct tt_coded_update *update = &coded->update;
  const struct tt_reduce_table *table = tt_reduce_table();
  uint64_t count = place->piece.count;
  int wire = update->wires[TT_CODEC_RESULT];
  const float *sum = (const float *)codes->sums.memory + place->own, *weights = part->weights + place->skip;
  tuttiResult_t result = tuttiSuccess;
  if (!update->restores && coded->spec.overflow && !table->finite[tuttiFloat32](sum, count)) {
    memset(to, 0xff, count * tt_type_size(wire));
    return result;
  }
  if (!update->restores) {
    struct tt_coded_shard shard = {.part = part,
                                   .first = place->piece.first,
                                   .count = count,
                                   .gradient = sum,
                                   .weights = part->updated + place->skip,
                                   .squares = place->laid->squares};
    memcpy(shard.weights, weights, count * sizeof *weights);
    result = update->turn(update->context, &shard);
    weights = shard.weights;
  }
  if (result == tuttiSuccess) tt_coded_convert(wire, to, tuttiFloat32, weights, count);
  return result;
}

void tt_coded_weights_read(struct tt_coded *coded, const struct tt_coded_place *place, const uint8_t *from)
{
  int type = coded->update.type;
  char *out = (char *)place->laid->part.out + place->skip * tt_type_size(type);
  tt_coded_convert(type, out, coded->update.wires[TT_CODEC_RESULT], from, place->piece.count);
  if (coded->spec.overflow && !tt_reduce_table()->finite[type](out, place->piece.count)) coded->overflow = 1;
}

tuttiResult_t tt_coded_place_turn(struct tt_coded *coded, const struct tt_coded_place *place,
                                  const struct tt_codes *codes)
{
  float *sum = codes->values.memory;
  uint8_t *to = (uint8_t *)codes->sent.memory + coded->starts[1][coded->rank] + place->at[1];
  if (place->owner != coded->rank) return tuttiSuccess;
  if (coded->spec.update) return weights_turn(coded, place, codes, to);
  tuttiResult_t result = codes_add(coded, place, codes, sum);
  struct tt_codec_piece piece = place->piece;
  piece.stage = TT_CODEC_RESULT;
  if (result == tuttiSuccess) tt_coded_encode(&place->laid->part, &piece, sum, to);
  return result;
}
