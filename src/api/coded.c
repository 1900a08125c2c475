/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/coded_private.h"

#include "codec/codec.h"
#include "comm/coded.h"
#include "cuda/cuda.h"

static tuttiResult_t memory_check(const char *name, const void *buffer)
{
  if ((uintptr_t)buffer % sizeof(float))
    return tt_fail(tuttiInvalidArgument, "options.codec is set, but %s %p is no multiple of %zu: codecs take aligned "
                   "floats", name, buffer, sizeof(float));
  if (!tt_cuda_has(buffer)) return tuttiSuccess;
  return tt_fail(tuttiInvalidArgument, "options.codec is set, but %s %p is CUDA memory: the CPU encodes, pass host "
                 "memory", name, buffer);
}

/* Checks that codecs are for such an all-reduce. */
static tuttiResult_t call_check(const struct tt_binding *binding, const tuttiReduceOptions_t *options)
{
  const struct tt_call *call = &binding->call;
  if (call->type != tuttiFloat32)
    return tt_fail(tuttiInvalidArgument, "options.codec is \"%.40s\", but type is %s: codecs are for float, leave it "
                   "NULL", options->codec, tt_type_name(call->type));
  if (call->redop != tuttiSum && call->redop != tuttiAvg)
    return tt_fail(tuttiInvalidArgument, "options.codec is \"%.40s\", but op is %s: codecs are for sum and avg%s",
                   options->codec, tt_redop_name(call->redop),
                   call->redop == TT_PREMUL_SUM ? ", give the factor as scale_before" : ", leave it NULL");
  if (options->wire_type != TUTTI_CONFIG_UNDEF_INT && options->wire_type != tuttiFloat32)
    return tt_fail(tuttiInvalidArgument, "options.codec is \"%.40s\" and wire_type is %s: set one of the two",
                   options->codec, tt_type_name(options->wire_type));
  if (!call->count) return tuttiSuccess;
  tuttiResult_t result = memory_check("sendbuff", binding->in);
  return result == tuttiSuccess ? memory_check("recvbuff", binding->out) : result;
}

static tuttiResult_t codec_check(const struct tuttiComm *comm, const struct tt_codec *codec, uint64_t count)
{
  char text[TT_CODEC_TEXT_BYTES];
  if (!tt_codec_planes(codec, TT_CODEC_CONTRIBUTION) && !tt_codec_planes(codec, TT_CODEC_RESULT))
    return tt_codec_check(codec, count, tt_comm_facts(comm)->nranks);
  return tt_fail(tuttiInvalidArgument, "options.codec is \"%s\", which keeps what it leaves out for the next step: a "
                 "single call has no next step, use a fusion (tuttiFusionConfig_t.codec)", tt_codec_text(codec, text));
}

tuttiResult_t tt_coded_begin(struct tuttiComm *comm, struct tuttiStream *stream, const struct tt_binding *binding,
                             const tuttiReduceOptions_t *options)
{
  const struct tt_call *call = &binding->call;
  struct tt_coded_part part = {.in = binding->in, .out = binding->out, .count = call->count, .whole = call->count};
  struct tt_coded_spec spec = {.parts = &part,
                               .nparts = 1,
                               .redop = call->redop,
                               .before = options->scale_before,
                               .after = options->scale_after,
                               .overflow = options->overflow};
  tuttiResult_t result = tt_views_refuse(comm, "codecs");
  if (result == tuttiSuccess) result = call_check(binding, options);
  if (result == tuttiSuccess && stream) result = tt_host_stream_check(stream);
  if (result == tuttiSuccess) result = tt_codec_parse(&spec.codec, options->codec);
  if (result == tuttiSuccess) result = codec_check(comm, &spec.codec, call->count);
  if (result != tuttiSuccess) return result;
  part.codec = spec.codec;
  if (!stream && !tt_group_active()) return tt_comm_run_coded(comm, &spec);
  return tt_comm_queue_coded(comm, stream, &spec);
}
