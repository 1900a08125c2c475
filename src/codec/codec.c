/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of codecs, their texts, and the calls of codec.h. */
#include "codec/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/scan.h"
#include "codec/private.h"
#include "reduce/fpenv.h"

static const struct tt_codec_row *const rows[] = {
#define TT_CODEC(row, ...) &tt_codec_##row,
#include "base/codecs.def"
#undef TT_CODEC
    NULL};

const struct tt_codec_row *tt_codec_row(int number)
{
  return rows[number];
}

const char *tt_codec_name(const struct tt_codec_row *row)
{
  return row->name;
}

/* ---- texts ---- */

int tt_codec_is_none(const char *text)
{
  return !text || strcmp(text, "none") == 0;
}

static tuttiResult_t unknown(const char *text)
{
  char names[256] = "";
  for (int i = 0; rows[i]; i++)
    snprintf(names + strlen(names), sizeof names - strlen(names), "%s%s", i ? ", " : "", rows[i]->example);
  return tt_fail(tuttiInvalidArgument, "there is no codec \"%.40s\": give one such as %s, or none", text, names);
}

static tuttiResult_t refuse(const struct tt_codec_row *row, const struct tt_codec_parameter *wanted, const char *got)
{
  return tt_fail(tuttiInvalidArgument, "codec %s: %s is \"%.40s\": give a %snumber from %.9g to %.9g, as in %s",
                 row->name, wanted->name, got, wanted->is_whole ? "whole " : "", wanted->low, wanted->high,
                 row->example);
}

/* Reads parameter i of the row from *at, which is behind the name or the parameter before. */
static tuttiResult_t parameter_read(struct tt_codec *made, int i, const char **at)
{
  const struct tt_codec_parameter *wanted = &made->row->parameters[i];
  double *number = &made->number[i];
  if (!**at && wanted->fallback >= wanted->low) {
    *number = wanted->fallback;
    return tuttiSuccess;
  }
  const char *begin = **at ? ++*at : *at;
  if (!tt_number_read(begin, at, number) || !(*number >= wanted->low && *number <= wanted->high) ||
      (wanted->is_whole && *number != floor(*number)))
    return refuse(made->row, wanted, begin);
  return tuttiSuccess;
}

tuttiResult_t tt_codec_parse(struct tt_codec *codec, const char *text)
{
  size_t len = strcspn(text, ":");
  int i = 0;
  while (rows[i] && (strlen(rows[i]->name) != len || strncmp(rows[i]->name, text, len) != 0)) i++;
  if (!rows[i]) return unknown(text);
  struct tt_codec made = {.row = rows[i]};
  const char *at = text + len;
  for (int p = 0; p < TT_CODEC_PARAMETERS && made.row->parameters[p].name; p++) {
    tuttiResult_t result = parameter_read(&made, p, &at);
    if (result != tuttiSuccess) return result;
  }
  if (*at)
    return tt_fail(tuttiInvalidArgument, "codec %s: \"%.40s\" is too much: give %s", made.row->name, at,
                   made.row->example);
  *codec = made;
  return tuttiSuccess;
}

/* The shortest text of a number that is read as the same one; returns its length. */
static int number_write(char *text, size_t room, double number)
{
  int len = 0;
  for (int digits = 6; digits <= 17; digits++) {
    len = snprintf(text, room, "%.*g", digits, number);
    if (strtod(text, NULL) == number) break;
  }
  return len;
}

const char *tt_codec_text(const struct tt_codec *codec, char text[TT_CODEC_TEXT_BYTES])
{
  struct tt_plain plain;
  int has_points = tt_plain_begin(&plain);
  size_t len = (size_t)snprintf(text, TT_CODEC_TEXT_BYTES, "%s", codec->row->name);
  for (int p = 0; p < TT_CODEC_PARAMETERS && codec->row->parameters[p].name; p++) {
    text[len++] = p ? ',' : ':';
    len += (size_t)number_write(text + len, TT_CODEC_TEXT_BYTES - len, codec->number[p]);
  }
  if (has_points) tt_plain_end(&plain);
  return text;
}

int tt_codec_number(const struct tt_codec *codec)
{
  int number = 0;
  while (rows[number] != codec->row) number++;
  return number;
}

uint32_t tt_codec_detail(const struct tt_codec *codec)
{
  const double *number = codec->number;
  uint32_t hash = 2166136261u;
  switch (tt_detail_kind(tt_codec_number(codec))) {
  case TT_DETAIL_NONE: return 0;
  case TT_DETAIL_ONE: return (uint32_t)number[0];
  case TT_DETAIL_TWO: return (uint32_t)number[0] << TT_DETAIL_TWO_SHIFT | (uint32_t)number[1];
  case TT_DETAIL_REAL: return bits_of((float)number[0]);
  case TT_DETAIL_HASH: break;
  }
  for (int p = 0; p < TT_CODEC_PARAMETERS; p++) hash = (hash ^ bits_of((float)number[p])) * 16777619u;
  return hash;
}

/* ---- calls ---- */

tuttiResult_t tt_codec_check(const struct tt_codec *codec, uint64_t count, int nranks)
{
  if (count > TT_CODEC_MOST_ELEMENTS)
    return tt_fail(tuttiInvalidArgument, "codec %s: a tensor has %llu elements: a codec takes at most %u; cut it into "
                   "several tensors", codec->row->name, (unsigned long long)count, TT_CODEC_MOST_ELEMENTS);
  if (nranks < 1 || nranks > TT_CODEC_MOST_RANKS)
    return tt_fail(tuttiInvalidArgument, "codec %s: there are %d ranks: a codec takes from 1 to %d; choose none",
                   codec->row->name, nranks, TT_CODEC_MOST_RANKS);
  return tuttiSuccess;
}

enum tt_codec_route tt_codec_route(const struct tt_codec *codec)
{
  return codec->row->route;
}

int tt_codec_planes(const struct tt_codec *codec, enum tt_codec_stage stage)
{
  return codec->row->planes[stage];
}

int tt_codec_prepares(const struct tt_codec *codec)
{
  return codec->row->prepare != NULL;
}

uint32_t tt_codec_grain(const struct tt_codec *codec)
{
  return codec->row->grain ? codec->row->grain(codec) : 0;
}

uint32_t tt_codec_capacity(const struct tt_codec *codec, uint64_t count, uint32_t wanted)
{
  if (!codec->row->capacity || !count) return 0;
  fpenv env = fpenv_enter();
  uint32_t capacity = codec->row->capacity(codec, count, wanted);
  fpenv_leave(env);
  return capacity;
}

uint32_t tt_codec_wanted(const void *code)
{
  uint32_t wanted;
  memcpy(&wanted, code, sizeof wanted);
  return wanted;
}

uint64_t tt_codec_bytes(const struct tt_codec *codec, const struct tt_codec_piece *piece)
{
  fpenv env = fpenv_enter();
  uint64_t bytes = codec->row->bytes(codec, piece);
  fpenv_leave(env);
  return bytes;
}

void tt_codec_prepare(const struct tt_codec *codec, const float *values, uint64_t count, struct tt_codec_facts *facts)
{
  fpenv env = fpenv_enter();
  codec->row->prepare(codec, values, count, facts);
  fpenv_leave(env);
}

int tt_codec_encode(const struct tt_codec *codec, const struct tt_codec_piece *piece, const float *values,
                    float *const planes[TT_CODEC_PLANES], void *code)
{
  fpenv env = fpenv_enter();
  int overflows = codec->row->encode(codec, piece, values, planes, code);
  fpenv_leave(env);
  return overflows;
}

tuttiResult_t tt_codec_decode_add(const struct tt_codec *codec, const struct tt_codec_piece *piece, const void *code,
                                  uint64_t bytes, float *sum)
{
  uint64_t wanted = tt_codec_bytes(codec, piece);
  if (bytes != wanted)
    return tt_fail(tuttiInvalidArgument, "codec %s: the code of %llu elements has %llu bytes, not %llu",
                   codec->row->name, (unsigned long long)piece->count, (unsigned long long)bytes,
                   (unsigned long long)wanted);
  fpenv env = fpenv_enter();
  int is_good = codec->row->decode_add(codec, piece, code, sum);
  fpenv_leave(env);
  if (is_good) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "codec %s: the code of rank %u for elements %llu to %llu of tensor %u is "
                 "damaged: its bytes changed on the way", codec->row->name, piece->rank,
                 (unsigned long long)piece->first, (unsigned long long)(piece->first + piece->count), piece->tensor);
}

/* ---- lengths ---- */

uint64_t tt_codec_unit(const struct tt_codec *codec, uint64_t count)
{
  uint32_t grain = tt_codec_grain(codec);
  return grain ? grain : count ? count : 1;
}

/* An all-reduce of n bytes has a rank send 2 n (P - 1) / P of them. By the owner's route a
 * rank sends n (P - 1) / P of the codes of each stage, by the other n (P - 1), if those have n bytes. */
uint64_t tt_codec_wire(const struct tt_codec *codec, uint64_t count, int nranks)
{
  uint64_t unit = tt_codec_unit(codec, count), bytes;
  struct tt_codec_piece piece = {.nranks = nranks, .count = count < unit ? count : unit};
  if (tt_codec_route(codec) == TT_CODEC_GATHER) {
    piece.capacity = tt_codec_capacity(codec, count, 0);
    bytes = (tt_codec_bytes(codec, &piece) * (uint64_t)nranks + 1) / 2;
  } else {
    bytes = tt_codec_bytes(codec, &piece);
    piece.stage = TT_CODEC_RESULT;
    bytes = (bytes + tt_codec_bytes(codec, &piece) + 1) / 2;
  }
  return bytes ? bytes : 1;
}

uint64_t tt_codec_wire_update(const struct tt_codec *codec, uint64_t count, int nranks, size_t element, size_t weights)
{
  const struct tt_codec_piece piece = {.nranks = nranks, .count = count};
  uint64_t bytes = codec->row ? tt_codec_bytes(codec, &piece) : count * element;
  return (bytes + count * weights + 1) / 2;
}
