/* SPDX-License-Identifier: BSD-3-Clause */
#include "api/form_private.h"

#include <stdint.h>
#include <string.h>

#include "cuda/cuda.h"

tuttiResult_t tt_options_take(tuttiReduceOptions_t *copy, const tuttiReduceOptions_t *options)
{
  *copy = (tuttiReduceOptions_t)TUTTI_REDUCE_OPTIONS_INITIALIZER;
  size_t size = options->size < sizeof *copy ? options->size : sizeof *copy;
  if (options->magic != TUTTI_REDUCE_OPTIONS_MAGIC || size < offsetof(tuttiReduceOptions_t, wire_type))
    return tt_fail(tuttiInvalidArgument, "options were not initialised: begin with tuttiReduceOptions_t options = "
                   "TUTTI_REDUCE_OPTIONS_INITIALIZER");
  memcpy(copy, options, size);
  return tuttiSuccess;
}

static int is_sum(int redop)
{
  return redop == tuttiSum || redop == tuttiAvg || redop == TT_PREMUL_SUM;
}

/* By its bits: the caller's floating-point environment may take subnormals for 0. */
static int is_factor(float scale)
{
  uint32_t bits;
  memcpy(&bits, &scale, sizeof bits);
  bits &= 0x7fffffff;
  return bits && bits < 0x7f800000;
}

static tuttiResult_t scale_check(const struct tt_call *call, const char *name, float scale)
{
  if (!is_factor(scale))
    return tt_fail(tuttiInvalidArgument, "options.%s is %g: set it to a finite number other than 0", name,
                   (double)scale);
  if (scale != 1 && !tt_type_is_float(call->type))
    return tt_fail(tuttiInvalidArgument, "options.%s is %.9g, but type is %s: only floats are scaled, leave it 1", name,
                   (double)scale, tt_type_name(call->type));
  return tuttiSuccess;
}

/* Whether the int at `overflow` and the buffer have a byte in common. */
static int touches(const int *overflow, const void *buffer, size_t len)
{
  uintptr_t at = (uintptr_t)overflow, begin = (uintptr_t)buffer;
  return buffer && len && at < begin + len && begin < at + sizeof *overflow;
}

static tuttiResult_t overflow_check(const int *overflow, const struct tt_binding *binding)
{
  const struct tt_call *call = &binding->call;
  size_t len = call->count * tt_type_size(call->type);
  if (!overflow) return tuttiSuccess;
  if (!is_sum(call->redop))
    return tt_fail(tuttiInvalidArgument, "options.overflow is set, but op is %s: only sums and averages report, leave "
                   "it NULL", tt_redop_name(call->redop));
  if (tt_cuda_has(overflow))
    return tt_fail(tuttiInvalidArgument, "options.overflow %p is CUDA memory: point it to host memory",
                   (const void *)overflow);
  if (touches(overflow, binding->in, len) || touches(overflow, binding->out, len))
    return tt_fail(tuttiInvalidArgument, "options.overflow %p lies inside sendbuff or recvbuff: point it elsewhere",
                   (const void *)overflow);
  return tuttiSuccess;
}

static tuttiResult_t options_check(const tuttiReduceOptions_t *options, const struct tt_binding *binding)
{
  const struct tt_call *call = &binding->call;
  if (!tt_is_wire_type(options->wire_type))
    return tt_fail(tuttiInvalidArgument, "options.wire_type is %d: set it to " TT_WIRE_TYPES_TEXT, options->wire_type);
  tuttiResult_t result = scale_check(call, "scale_before", options->scale_before);
  if (result == tuttiSuccess) result = scale_check(call, "scale_after", options->scale_after);
  if (result == tuttiSuccess && options->scale_before != 1 && !is_sum(call->redop))
    result = tt_fail(tuttiInvalidArgument, "options.scale_before is %.9g, but op is %s: only sums and averages scale "
                     "contributions, leave it 1", (double)options->scale_before, tt_redop_name(call->redop));
  return result == tuttiSuccess ? overflow_check(options->overflow, binding) : result;
}

tuttiResult_t tt_form_bind_more(const struct tuttiComm *comm, const tuttiReduceOptions_t *options,
                                struct tt_binding *binding)
{
  struct tt_call *call = &binding->call;
  int wire = tt_comm_facts(comm)->wire_type;
  float after = 1;
  if (options) {
    tuttiResult_t result = options_check(options, binding);
    if (result != tuttiSuccess) return result;
    if (options->wire_type != TUTTI_CONFIG_UNDEF_INT) wire = options->wire_type;
    after = options->scale_after;
    binding->before = options->scale_before;
    binding->overflow = options->overflow; /* of integers, too: ranks that differ are to be told */
  }
  call->form |= tt_call_form(call->type, wire, after, binding->overflow != NULL);
  return tuttiSuccess;
}
