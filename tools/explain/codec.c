/* SPDX-License-Identifier: BSD-3-Clause */
/* An all-reduce by a codec, or one whose owners update weights, beside one of floats as they are: bytes, and times by
 * prices. */
#include <string.h>

#include "base/text.h"
#include "codec/codec.h"
#include "explain/codec_private.h"
#include "tuner/explain.h"

#define RANKS_TO 64 /* up to so many are looked at for the number from which floats as they are take less time */

/* Microseconds for a MiB of floats, on one core: measured by codec_perf (AVX2, a virtual machine of an AMD EPYC). */
static const struct {
  const char *name;
  double encode_us, decode_us;
} kernels[] = {
    {"fp16", 134, 167},  {"bf16", 149, 183},    {"int8", 62, 170},      {"1bit", 146, 55},
    {"qsgd", 400, 115},  {"terngrad", 345, 88}, {"threshold", 375, 21}, {"drop", 384, 44},
    {"dryden", 433, 33}, {"adacomp", 391, 62},  {"dgc", 386, 7},
};

/* An all-reduce of `count` floats; bytes of a share in each act, times in us. */
struct coded {
  const struct tt_codec *codec; /* row NULL: none */
  const char *update;           /* type in which weights travel as results; NULL: sums do */
  size_t weights;               /* bytes of such an element */
  uint64_t count, contribution, result, share[2];
  double exchange_us, gather_us, kernels_us, all_us, dense_us;
  struct tt_choice exchange, gather, dense;
};

static int is_gathered(const struct coded *coded)
{
  return coded->codec->row && tt_codec_route(coded->codec) == TT_CODEC_GATHER;
}

/* The code of the first `count` elements, in a stage. */
static uint64_t code_bytes(const struct coded *coded, int nranks, uint64_t count, enum tt_codec_stage stage)
{
  struct tt_codec_piece piece = {.stage = stage,
                                 .nranks = nranks,
                                 .count = count < coded->count ? count : coded->count};
  if (stage == TT_CODEC_RESULT && coded->update) return piece.count * coded->weights;
  if (!coded->codec->row) return piece.count * sizeof(float);
  piece.capacity = tt_codec_capacity(coded->codec, coded->count, 0);
  return tt_codec_bytes(coded->codec, &piece);
}

static void bytes_find(struct coded *coded, int nranks)
{
  uint64_t unit = coded->codec->row ? tt_codec_unit(coded->codec, coded->count) : 1;
  uint64_t units = (coded->count + unit - 1) / unit;
  uint64_t owned = (units + (uint64_t)nranks - 1) / (uint64_t)nranks * unit;
  coded->contribution = code_bytes(coded, nranks, coded->count, TT_CODEC_CONTRIBUTION);
  coded->share[0] = coded->share[1] = coded->contribution;
  coded->result = 0;
  if (is_gathered(coded)) return;
  coded->result = code_bytes(coded, nranks, coded->count, TT_CODEC_RESULT);
  coded->share[0] = code_bytes(coded, nranks, owned, TT_CODEC_CONTRIBUTION);
  coded->share[1] = code_bytes(coded, nranks, owned, TT_CODEC_RESULT);
}

/* By the owner's route each rank encodes all and a shard, and decodes as much as all twice; by the other it decodes the
 * codes of all ranks. Owners that update weights do so in place of encoding and decoding sums: that is not counted. */
static double kernels_find(const struct coded *coded, int nranks)
{
  double mib = (double)coded->count * 4 / (1 << 20), shard = is_gathered(coded) ? 0 : 1.0 / nranks;
  double decodes = is_gathered(coded) ? nranks : 2;
  int k = 0;
  if (!coded->codec->row) return 0;
  if (coded->update) shard = 0, decodes = 1;
  while (strcmp(kernels[k].name, tt_codec_name(coded->codec->row)) != 0) k++;
  return mib * ((1 + shard) * kernels[k].encode_us + decodes * kernels[k].decode_us);
}

static tuttiResult_t one_predict(const struct tt_table *table, const struct tt_hypothetical *place, int collective,
                                 uint64_t bytes, struct tt_choice *choice, double *us)
{
  struct tt_costs *costs = NULL;
  *choice = *tt_table_choice(table, collective, bytes);
  tuttiResult_t result = tt_costs_make(&costs, collective, &place->settings, &place->tuning, choice, 1);
  if (result == tuttiSuccess) result = tt_costs_us(costs, tt_costs_find(costs, choice), bytes, us);
  tt_costs_destroy(costs);
  return result;
}

static tuttiResult_t times_find(struct coded *coded, const struct tt_hypothetical *place)
{
  const struct tt_tuning *tuning = &place->tuning;
  struct tt_table *table = tt_alloc(1, sizeof *table);
  if (!table) return tt_fail(tuttiSystemError, "no memory for the prices of a codec: give the process more");
  bytes_find(coded, tuning->nranks);
  tuttiResult_t result = tt_table_make(table, &place->settings, tuning);
  if (result == tuttiSuccess && !is_gathered(coded))
    result = one_predict(table, place, TT_ALL_TO_ALL, coded->share[0], &coded->exchange, &coded->exchange_us);
  if (result == tuttiSuccess)
    result = one_predict(table, place, TT_ALL_GATHER, coded->share[1], &coded->gather, &coded->gather_us);
  if (result == tuttiSuccess)
    result = one_predict(table, place, TT_ALL_REDUCE, coded->count * 4, &coded->dense, &coded->dense_us);
  coded->kernels_us = kernels_find(coded, tuning->nranks);
  coded->all_us = coded->exchange_us + coded->gather_us + coded->kernels_us;
  tt_free(table);
  return result;
}

static void coded_print(const struct coded *coded, int nranks, FILE *out)
{
  char text[TT_CODEC_TEXT_BYTES], name[TT_CHOICE_TEXT_BYTES], size[2][TT_BYTES_TEXT_BYTES], us[2][TT_US_BYTES];
  uint64_t others = (uint64_t)nranks - 1;
  fputc('\n', out);
  if (coded->codec->row) fprintf(out, "codec %s%s", tt_codec_text(coded->codec, text), coded->update ? ", " : "");
  fprintf(out, "%s: a contribution has %s", coded->update ? "update by owners" : "",
          tt_bytes_text(coded->contribution, size[0]));
  if (coded->update) fprintf(out, ", weights as %s %s", coded->update, tt_bytes_text(coded->result, size[0]));
  else if (!is_gathered(coded)) fprintf(out, ", a result %s", tt_bytes_text(coded->result, size[0]));
  uint64_t sent = others * (is_gathered(coded) ? coded->share[0] : coded->share[0] + coded->share[1]);
  fprintf(out, "; a rank sends %s instead of %s\n", tt_bytes_text(sent, size[0]),
          tt_bytes_text(coded->count * 4 / (uint64_t)nranks * 2 * others, size[1]));
  if (!is_gathered(coded))
    fprintf(out, "  all-to-all of %s for each rank (%s): %s us\n", tt_bytes_text(coded->share[0], size[0]),
            tt_choice_text(&coded->exchange, name), tt_us_text(coded->exchange_us, us[0]));
  fprintf(out, "  all-gather of %s from each rank (%s): %s us\n", tt_bytes_text(coded->share[1], size[0]),
          tt_choice_text(&coded->gather, name), tt_us_text(coded->gather_us, us[0]));
  if (coded->codec->row) fprintf(out, "  kernels on one core, by what was measured on an AMD EPYC: %s us\n",
          tt_us_text(coded->kernels_us, us[0]));
  fprintf(out, "  %s us together; floats as they are (%s) take %s us, %.3g times that\n",
          tt_us_text(coded->all_us, us[0]), tt_choice_text(&coded->dense, name), tt_us_text(coded->dense_us, us[1]),
          coded->all_us > 0 ? coded->dense_us / coded->all_us : 0);
}

/* The least power of two of ranks, spread likewise over nodes, from which on floats as they are take less time. */
static tuttiResult_t crossing_print(struct coded *coded, const struct tt_explain_request *request, FILE *out)
{
  int from = 0;
  for (int nranks = 2; nranks <= RANKS_TO; nranks *= 2) {
    struct tt_explain_request wanted = *request;
    struct tt_hypothetical *place;
    int64_t nodes = request->nnodes ? (int64_t)nranks * request->nnodes / request->nranks : 0;
    wanted.nranks = nranks;
    wanted.nnodes = request->nnodes && nodes < 1 ? 1 : (int)nodes;
    tuttiResult_t result = tt_hypothetical_make(&place, &wanted);
    if (result != tuttiSuccess) return result;
    result = times_find(coded, place);
    tt_hypothetical_destroy(place);
    if (result != tuttiSuccess) return result;
    if (coded->all_us < coded->dense_us) from = 0;
    else if (!from) from = nranks;
  }
  if (from) fprintf(out, "  from %d ranks on floats as they are take less time", from);
  else fprintf(out, "  it takes less time than floats as they are with %d ranks, too", RANKS_TO);
  fprintf(out, " (2 to %d were looked at)\n", RANKS_TO);
  return tuttiSuccess;
}

tuttiResult_t tt_explain_update(const char *update, const struct tt_codec *codec, size_t *weights)
{
  *weights = 0;
  if (!update) return tuttiSuccess;
  *weights = strcmp(update, "float") == 0 ? 4 : 2;
  if (*weights == 2 && strcmp(update, "half") != 0 && strcmp(update, "bfloat16") != 0)
    return tt_fail(tuttiInvalidArgument, "weights travel as %.40s: give float, half or bfloat16", update);
  if (!codec->row || tt_codec_route(codec) == TT_CODEC_OWNER) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "codec %s sends gradients to all ranks, not to owners that update weights: "
                 "leave one out", tt_codec_name(codec->row));
}

tuttiResult_t tt_explain_codec(FILE *out, const struct tt_explain_request *request, uint64_t count,
                               const struct tt_hypothetical *place)
{
  struct tt_codec codec = {.row = NULL};
  struct coded coded = {.codec = &codec, .count = count, .update = request->update};
  tuttiResult_t result = request->codec ? tt_codec_parse(&codec, request->codec) : tuttiSuccess;
  if (result == tuttiSuccess) result = tt_explain_update(request->update, &codec, &coded.weights);
  if (result == tuttiSuccess && codec.row) result = tt_codec_check(&codec, count, place->tuning.nranks);
  if (result == tuttiSuccess) result = times_find(&coded, place);
  if (result != tuttiSuccess) return result;
  coded_print(&coded, place->tuning.nranks, out);
  return request->topology ? tuttiSuccess : crossing_print(&coded, request, out);
}
