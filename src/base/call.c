/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/call.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tutti.h"

static const struct {
  const char *name;
  size_t size;
} types[tuttiNumTypes] = {
    [tuttiInt8] = {"int8", 1},         [tuttiUint8] = {"uint8", 1},
    [tuttiInt32] = {"int32", 4},       [tuttiUint32] = {"uint32", 4},
    [tuttiInt64] = {"int64", 8},       [tuttiUint64] = {"uint64", 8},
    [tuttiFloat16] = {"half", 2},      [tuttiFloat32] = {"float", 4},
    [tuttiFloat64] = {"double", 8},    [tuttiBfloat16] = {"bfloat16", 2},
    [tuttiFloat8e4m3] = {"f8e4m3", 1}, [tuttiFloat8e5m2] = {"f8e5m2", 1},
    [tuttiInt16] = {"int16", 2},       [tuttiUint16] = {"uint16", 2},
    [tuttiBool] = {"bool", 1},         [tuttiComplexFloat32] = {"complex64", 8},
    [tuttiComplexFloat64] = {"complex128", 16},
};

static const char *const redop_names[TT_REDOPS] = {"sum", "prod", "max", "min", "avg", "and", "or", "xor", "mulsum"};

const char *tt_type_name(int type)
{
  return type >= 0 && type < tuttiNumTypes ? types[type].name : "?";
}

const char *tt_redop_name(int redop)
{
  return redop >= 0 && redop < TT_REDOPS ? redop_names[redop] : "?";
}

size_t tt_type_size(int type)
{
  return type >= 0 && type < tuttiNumTypes ? types[type].size : 0;
}

int tt_type_is_float(int type)
{
  type = tt_type_part(type);
  return type >= tuttiFloat16 && type <= tuttiFloat8e5m2;
}

int tt_type_part(int type)
{
  if (type == tuttiComplexFloat32) return tuttiFloat32;
  return type == tuttiComplexFloat64 ? tuttiFloat64 : type;
}

const char *tt_redop_lacks(int redop, int type)
{
  int is_sum = redop == tuttiSum || redop == tuttiAvg || redop == TT_PREMUL_SUM;
  int is_bitwise = redop == tuttiBitAnd || redop == tuttiBitOr || redop == tuttiBitXor;
  if (is_bitwise && tt_type_is_float(type)) return "only integers and bool are combined bit by bit";
  if (type == tuttiBool && is_sum && redop != tuttiSum)
    return "bool has no average and no factor: use sum or max for or, prod or min for and";
  if (tt_type_part(type) != type && !is_sum) return "complex numbers have sum and avg alone";
  return NULL;
}

static const struct {
  const char *name;
  enum tt_codec_detail detail;
} codecs[] = {
#define TT_CODEC(row, name, detail) {name, TT_DETAIL_##detail},
#include "base/codecs.def"
#undef TT_CODEC
};

#define CODECS (int)(sizeof codecs / sizeof codecs[0])

enum tt_codec_detail tt_detail_kind(int codec)
{
  return codec >= 0 && codec < CODECS ? codecs[codec].detail : TT_DETAIL_NONE;
}

static uint64_t mix(uint64_t hash, uint64_t value)
{
  hash = (hash ^ value) * 0x9e3779b97f4a7c15u;
  return hash ^ (hash >> 29);
}

uint64_t tt_call_word(const struct tt_call *call)
{
  uint64_t kind = (uint64_t)call->collective | (uint64_t)call->type << 8 |
                  (uint64_t)call->redop << 16 | (uint64_t)call->algo << 24 |
                  (uint64_t)(uint32_t)call->root << 32;
  uint64_t hash = mix(mix(1 + call->form, kind), call->count);
  return call->op << 32 | ((uint32_t)(hash >> 32) & ~(uint32_t)TT_WORD_OVERFLOW) | 1u;
}

uint64_t tt_call_form(int type, int wire, float after, int reports)
{
  uint64_t form = reports ? TT_FORM_REPORT : 0;
  uint32_t bits;
  memcpy(&bits, &after, sizeof bits);
  if (after != 1) form |= (uint64_t)bits << TT_FORM_AFTER_SHIFT;
  if (type == tuttiFloat32 && wire != tuttiFloat32) form |= (uint64_t)(1 + wire) << TT_FORM_WIRE_SHIFT;
  return form;
}

static const uint8_t update_types[4] = {tuttiFloat32, tuttiFloat16, tuttiBfloat16, tuttiFloat32};

uint64_t tt_update_form(int codec, uint32_t detail, int is_last, int type)
{
  uint64_t number = 0;
  while (number < 3 && update_types[number] != type) number++;
  return tt_coded_form(codec, detail, is_last) | TT_FORM_UPDATE | number << TT_FORM_FLOATS_SHIFT;
}

uint64_t tt_call_form_counts(const size_t *counts, int nranks)
{
  uint64_t hash = 1;
  for (int rank = 0; rank < nranks; rank++) hash = mix(hash, counts[rank]);
  return TT_FORM_COUNTS | hash >> 32 << TT_FORM_AFTER_SHIFT;
}

float tt_call_after(const struct tt_call *call)
{
  int has_factor = !(call->form & (TT_FORM_COUNTS | TT_FORM_LEARN));
  uint32_t bits = has_factor ? (uint32_t)(call->form >> TT_FORM_AFTER_SHIFT) : 0;
  float after;
  memcpy(&after, &bits, sizeof after);
  return bits ? after : 1;
}

void tt_call_before(struct tt_call *exchange, const struct tt_call *behind)
{
  uint64_t what = (uint64_t)behind->collective | (uint64_t)behind->type << 8 | (uint64_t)behind->redop << 16 |
                  (behind->form & (TT_FORM_SPLIT | TT_FORM_BARRIER)) << 24;
  exchange->form = TT_FORM_LEARN | what << TT_FORM_AFTER_SHIFT;
  exchange->root = behind->count < INT32_MAX ? (int32_t)behind->count : INT32_MAX;
}

/* The call behind an exchange, as far as it was noted. */
static struct tt_call call_behind(const struct tt_call *exchange)
{
  uint32_t what = (uint32_t)(exchange->form >> TT_FORM_AFTER_SHIFT);
  return (struct tt_call){.op = exchange->op + 1,
                          .count = (uint64_t)exchange->root,
                          .collective = (uint8_t)what,
                          .type = (uint8_t)(what >> 8),
                          .redop = (uint8_t)(what >> 16),
                          .form = what >> 24,
                          .root = -1};
}

/* A text that grows until it is full. */
struct line {
  char *text;
  size_t size, used;
};

static __attribute__((format(printf, 2, 3))) void add(struct line *line, const char *format, ...)
{
  va_list args;
  if (line->used >= line->size) return;
  va_start(args, format);
  int n = vsnprintf(line->text + line->used, line->size - line->used, format, args);
  va_end(args);
  line->used += n > 0 ? (size_t)n : 0;
}

static void add_reduction(struct line *line, const struct tt_call *call)
{
  int wire = tt_call_wire_type(call);
  if (wire != call->type) add(line, " as %s", tt_type_name(wire));
  add(line, ", %s", tt_redop_name(call->redop));
  if (call->form & TT_FORM_REPORT) add(line, ", overflow report");
  if (tt_call_after(call) != 1) add(line, ", scale_after %.9g", (double)tt_call_after(call));
}

static const char *name_of_counts(int collective)
{
  if (collective == TT_ALL_GATHER) return "AllGatherV";
  return collective == TT_REDUCE_SCATTER ? "ReduceScatterV" : "AlltoAllV";
}

/* Adds the parameters of an update, as far as the act has them. */
static void add_update(struct line *line, const struct tt_call *call)
{
  int codec = (int)(call->form >> TT_FORM_CODEC_SHIFT & 0xff), is_last = (call->form & TT_FORM_LAST) != 0;
  const char *wire = tt_type_name(update_types[call->form >> TT_FORM_FLOATS_SHIFT & 3]);
  uint32_t detail = (uint32_t)(call->form >> TT_FORM_DETAIL_SHIFT);
  float real;
  memcpy(&real, &detail, sizeof real);
  add(line, ", update");
  if (codec < CODECS) add(line, ", codec %s", codecs[codec].name);
  if (is_last) add(line, ", weights as %s, rate %.9g", wire, (double)real);
  else add(line, " as %s", wire);
  if (!is_last && detail) add(line, ", scale_after %.9g", (double)real);
}

static void add_codec(struct line *line, const struct tt_call *call)
{
  int codec = (int)(call->form >> TT_FORM_CODEC_SHIFT & 0xff), is_last = (call->form & TT_FORM_LAST) != 0;
  uint32_t detail = (uint32_t)(call->form >> TT_FORM_DETAIL_SHIFT);
  float real;
  memcpy(&real, &detail, sizeof real);
  add(line, ", codec %s", codec < CODECS ? codecs[codec].name : "?");
  if (is_last && detail) add(line, ", scale_after %.9g", (double)real);
  if (is_last) return;
  switch (tt_detail_kind(codec)) {
  case TT_DETAIL_ONE: add(line, ":%u", detail); break;
  case TT_DETAIL_TWO:
    add(line, ":%u,%u", detail >> TT_DETAIL_TWO_SHIFT, detail & (((uint32_t)1 << TT_DETAIL_TWO_SHIFT) - 1));
    break;
  case TT_DETAIL_REAL: add(line, ":%.7g", (double)real); break;
  case TT_DETAIL_HASH: add(line, ":... (%08x)", detail); break;
  case TT_DETAIL_NONE: break;
  }
}

const char *tt_call_name(const struct tt_call *call)
{
  if (call->form & TT_FORM_CODED) return "AllReduce";
  if (call->form == TT_FORM_SPLIT) return "CommSplit";
  if (call->form == TT_FORM_GROW) return "CommGrow";
  if (call->form == TT_FORM_BARRIER) return "Barrier";
  if (call->form & TT_FORM_COUNTS) return name_of_counts(call->collective);
  if (call->form & TT_FORM_LEARN) return "Learning";
  return call->collective < TT_COLLECTIVES ? tt_kinds[call->collective].called : "unknown call";
}

const char *tt_call_text(const struct tt_call *call, char *text, size_t size)
{
  struct line line = {text, size, 0};
  unsigned long long op = call->op, count = call->count;
  if (call->collective == TT_PAIRS) {
    int sends = (call->form & TT_FORM_SENDS) != 0, known = sends || (call->form & TT_FORM_RECVS);
    int is_named = known && !(call->form & TT_FORM_COUNTS);
    add(&line, "%s #%llu (%llu bytes", !is_named ? tt_call_name(call) : sends ? "Send" : "Recv", op, count);
    if (call->root >= 0) add(&line, ", %s rank %d", !known ? "with" : sends ? "to" : "from", (int)call->root);
    if (call->form & TT_FORM_UPDATE) add_update(&line, call);
    else if (call->form & TT_FORM_CODED) add_codec(&line, call);
    add(&line, ")");
    return text;
  }
  if (call->form & TT_FORM_LEARN) {
    const struct tt_call behind = call_behind(call);
    char name[TT_CALL_TEXT_BYTES];
    add(&line, "Learning #%llu before %s", op, tt_call_text(&behind, name, sizeof name));
    return text;
  }
  if (call->form == TT_FORM_SPLIT || call->form == TT_FORM_GROW || call->form == TT_FORM_BARRIER) {
    add(&line, "%s #%llu", tt_call_name(call), op);
    return text;
  }
  if (call->form & TT_FORM_CODED) {
    add(&line, "AllReduce #%llu (count %u, float, %s", op, (unsigned)call->root, tt_redop_name(call->redop));
    if (call->form & TT_FORM_UPDATE) add_update(&line, call);
    else add_codec(&line, call);
    add(&line, ")");
    return text;
  }
  int reduces = call->collective < TT_COLLECTIVES && tt_kinds[call->collective].reduces;
  add(&line, "%s #%llu (", tt_call_name(call), op);
  if (call->form & TT_FORM_COUNTS)
    add(&line, "counts of %llu on average with hash %08llx", count,
        (unsigned long long)(call->form >> TT_FORM_AFTER_SHIFT));
  else add(&line, "count %llu", count);
  add(&line, ", %s", tt_type_name(call->type));
  if (reduces) add_reduction(&line, call);
  if (call->root >= 0) add(&line, ", root %d", (int)call->root);
  add(&line, ")");
  return text;
}
