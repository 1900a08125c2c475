/* SPDX-License-Identifier: BSD-3-Clause */
#include "explain/explain.h"

#include <string.h>

#include "codec/codec.h"
#include "explain/codec_private.h"
#include "explain/hypothetical.h"
#include "explain/text_private.h"

/* tuttiNumTypes: none is called that. */
static int type_find(const char *name)
{
  int type = 0;
  while (type < tuttiNumTypes && strcmp(name, tt_type_name(type)) != 0) type++;
  return type;
}

/* The type in which a reduction travels, as asked for or else as the setting says. */
static tuttiResult_t wire_make(struct tt_call *call, const struct tt_settings *settings, const char *asked)
{
  static const char *const choices[] = {"float", "float", "half", "bfloat16"}; /* of TUTTI_WIRE_TYPE */
  int reduces = tt_kinds[call->collective].reduces;
  int wire = type_find(asked ? asked : choices[settings->wire_type]);
  if (wire != tuttiFloat32 && wire != tuttiFloat16 && wire != tuttiBfloat16)
    return tt_fail(tuttiInvalidArgument, "the wire type is \"%.40s\": give float, half or bfloat16", asked);
  if (asked && wire != tuttiFloat32 && (!reduces || call->type != tuttiFloat32))
    return tt_fail(tuttiInvalidArgument, "the wire type is %s: only floats that are reduced travel so, %s", asked,
                   reduces ? "leave it out or ask for float" : "leave it out");
  if (reduces && call->type == tuttiFloat32 && wire != tuttiFloat32)
    call->form = (uint64_t)(1 + wire) << TT_FORM_WIRE_SHIFT;
  return tuttiSuccess;
}

static tuttiResult_t call_make(struct tt_call *call, const struct tt_explain_request *request)
{
  char names[TT_KIND_NAMES_BYTES];
  int collective = tt_kind_find(request->collective), type = type_find(request->type ? request->type : "float");
  if (collective == TT_NO_COLLECTIVE)
    return tt_fail(tuttiInvalidArgument, "there is no collective \"%.40s\": take one of %s", request->collective,
                   tt_kind_names(names, sizeof names));
  if (type == tuttiNumTypes)
    return tt_fail(tuttiInvalidArgument, "there is no type \"%.40s\": take one of int8, uint8, int32, uint32, int64, "
                   "uint64, half, float, double, bfloat16, f8e4m3, f8e5m2, int16, uint16, bool, complex64, complex128",
                   request->type);
  if (request->codec && (collective != TT_ALL_REDUCE || type != tuttiFloat32))
    return tt_fail(tuttiInvalidArgument, "the codec is %.40s: codecs are for all-reduces of float, leave it out",
                   request->codec);
  if (request->update && (collective != TT_ALL_REDUCE || type != tuttiFloat32))
    return tt_fail(tuttiInvalidArgument, "weights travel as %.40s: updates are for all-reduces of float, leave it out",
                   request->update);
  struct tt_codec codec = {.row = NULL};
  size_t weights;
  tuttiResult_t result = request->codec ? tt_codec_parse(&codec, request->codec) : tuttiSuccess;
  if (result == tuttiSuccess) result = tt_explain_update(request->update, &codec, &weights);
  if (result != tuttiSuccess) return result;
  size_t size = tt_type_size(type);
  *call = (struct tt_call){.collective = (uint8_t)collective,
                           .type = (uint8_t)type,
                           .redop = tuttiSum,
                           .count = request->bytes / size + (request->bytes % size > 0)};
  return tuttiSuccess;
}

tuttiResult_t tt_explain_check(const struct tt_explain_request *request)
{
  struct tt_profile profile = {.nlinks = 0};
  struct tt_topology topology = {.nranks = 0};
  struct tt_call call;
  tuttiResult_t result = request->profile ? tt_profile_load(&profile, request->profile) : tuttiSuccess;
  if (result == tuttiSuccess && request->topology)
    result = tt_topology_load(&topology, request->topology, request->nranks);
  if (result == tuttiSuccess && request->collective) result = call_make(&call, request);
  tt_profile_destroy(&profile);
  tt_topology_destroy(&topology);
  return result;
}

tuttiResult_t tt_explain(const struct tt_explain_request *request, FILE *out)
{
  struct tt_hypothetical *place;
  struct tt_call call;
  tuttiResult_t result = call_make(&call, request);
  if (result == tuttiSuccess) result = tt_hypothetical_make(&place, request);
  if (result != tuttiSuccess) return result;
  result = wire_make(&call, &place->settings, request->wire_type);
  if (result == tuttiSuccess) result = tt_explain_print(out, &call, &place->settings, &place->tuning);
  if (result == tuttiSuccess && (request->codec || request->update))
    result = tt_explain_codec(out, request, call.count, place);
  tt_hypothetical_destroy(place);
  return result;
}
