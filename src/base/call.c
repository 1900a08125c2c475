/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/call.h"

#include <stdio.h>

#include "tutti.h"

static const char *const collective_names[TT_COLLECTIVES] = {
    [TT_NO_COLLECTIVE] = "nothing",
    [TT_ALL_REDUCE] = "AllReduce",
    [TT_REDUCE] = "Reduce",
    [TT_BROADCAST] = "Broadcast",
    [TT_REDUCE_SCATTER] = "ReduceScatter",
    [TT_ALL_GATHER] = "AllGather",
    [TT_ALL_TO_ALL] = "AlltoAll",
    [TT_GATHER] = "Gather",
    [TT_SCATTER] = "Scatter",
    [TT_PAIRS] = "Send/Recv",
};

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
};

static const char *const redop_names[TT_REDOPS] = {"sum", "prod", "max", "min", "avg", "mulsum"};

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

const char *tt_call_text(const struct tt_call *call, char *text, size_t size)
{
  if (call->collective == TT_PAIRS) {
    int n = snprintf(text, size, "Send/Recv #%llu (%llu bytes", (unsigned long long)call->op,
                     (unsigned long long)call->count);
    if (n > 0 && (size_t)n < size && call->root >= 0)
      n += snprintf(text + n, size - (size_t)n, ", with rank %d", (int)call->root);
    if (n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, ")");
    return text;
  }
  if (call->form == TT_FORM_SPLIT) {
    snprintf(text, size, "CommSplit #%llu", (unsigned long long)call->op);
    return text;
  }
  const char *name =
      call->collective < TT_COLLECTIVES ? collective_names[call->collective] : "unknown call";
  int reduces = call->collective == TT_ALL_REDUCE || call->collective == TT_REDUCE ||
                call->collective == TT_REDUCE_SCATTER;
  int n = snprintf(text, size, "%s #%llu (count %llu, %s%s%s", name, (unsigned long long)call->op,
                   (unsigned long long)call->count, tt_type_name(call->type), reduces ? ", " : "",
                   reduces ? tt_redop_name(call->redop) : "");
  if (n > 0 && (size_t)n < size && call->root >= 0)
    n += snprintf(text + n, size - (size_t)n, ", root %d", (int)call->root);
  if (n > 0 && (size_t)n < size) snprintf(text + n, size - (size_t)n, ")");
  return text;
}
