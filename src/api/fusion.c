/* SPDX-License-Identifier: BSD-3-Clause */
/* The functions of tutti_fusion.h: check arguments, then one call into the fusion. */
#include <string.h>

#include "api/form_private.h"
#include "cuda/cuda.h"
#include "fusion/fusion.h"

static tuttiResult_t fusion_check(const struct tuttiFusion *fusion)
{
  tuttiResult_t result = tt_process_check();
  if (result != tuttiSuccess) return result;
  if (!fusion) return tt_null("fusion");
  if (!tt_fusion_is(fusion))
    return tt_fail(tuttiInvalidArgument, "fusion %p is none: pass what tuttiFusionCreate made and was not destroyed",
                   (const void *)fusion);
  return tuttiSuccess;
}

static tuttiResult_t tensor_check(const struct tuttiFusion *fusion, int tensor)
{
  tuttiResult_t result = fusion_check(fusion);
  int n = result == tuttiSuccess ? tt_fusion_tensors(fusion) : 0;
  if (result == tuttiSuccess && (tensor < 0 || tensor >= n))
    return tt_fail(tuttiInvalidArgument, "tensor is %d: it must be from 0 to ntensors - 1 = %d", tensor, n - 1);
  return result;
}

static tuttiResult_t config_take(tuttiFusionConfig_t *copy, const tuttiFusionConfig_t *config)
{
  *copy = (tuttiFusionConfig_t)TUTTI_FUSION_CONFIG_INITIALIZER;
  if (!config) return tuttiSuccess;
  size_t size = config->size < sizeof *copy ? config->size : sizeof *copy;
  if (config->magic != TUTTI_FUSION_CONFIG_MAGIC || size < offsetof(tuttiFusionConfig_t, policy))
    return tt_fail(tuttiInvalidArgument, "config was not initialised: begin with tuttiFusionConfig_t config = "
                   "TUTTI_FUSION_CONFIG_INITIALIZER");
  memcpy(copy, config, size);
  if (copy->op != tuttiSum && copy->op != tuttiAvg)
    return tt_fail(tuttiInvalidArgument, "config.op is %d: set it to tuttiSum (0) or tuttiAvg (4)", copy->op);
  if (!tt_is_wire_type(copy->wire_type))
    return tt_fail(tuttiInvalidArgument, "config.wire_type is %d: set it to " TT_WIRE_TYPES_TEXT, copy->wire_type);
  if (copy->overflow != 0 && copy->overflow != 1)
    return tt_fail(tuttiInvalidArgument, "config.overflow is %d: set it to 0 or 1", copy->overflow);
  if (copy->norms != 0 && copy->norms != 1)
    return tt_fail(tuttiInvalidArgument, "config.norms is %d: set it to 0 or 1", copy->norms);
  if (copy->buffer_bytes > (size_t)1 << 40)
    return tt_fail(tuttiInvalidArgument, "config.buffer_bytes is %zu: at most %zu bytes are of use", copy->buffer_bytes,
                   (size_t)1 << 40);
  return tuttiSuccess;
}

static tuttiResult_t tensors_check(const tuttiFusionTensor_t *tensors, int ntensors)
{
  if (ntensors < 1 || ntensors > TUTTI_FUSION_TENSORS)
    return tt_fail(tuttiInvalidArgument, "ntensors is %d: it must be from 1 to %d", ntensors, TUTTI_FUSION_TENSORS);
  if (!tensors) return tt_null("tensors");
  for (int i = 0; i < ntensors; i++) {
    size_t bytes;
    if ((int)tensors[i].type < 0 || tensors[i].type >= tuttiNumTypes)
      return tt_fail(tuttiInvalidArgument, "tensors[%d].type is %d: it must be a tuttiDataType_t from 0 to %d", i,
                     (int)tensors[i].type, tuttiNumTypes - 1);
    if (tensors[i].type == tuttiBool)
      return tt_fail(tuttiInvalidArgument, "tensors[%d].type is bool: a fusion adds numbers, push uint8 instead", i);
    if (__builtin_mul_overflow(tensors[i].count, tt_type_size((int)tensors[i].type), &bytes) || bytes > SIZE_MAX / 2)
      return tt_fail(tuttiInvalidArgument, "tensors[%d].count is %zu: more elements than memory can hold", i,
                     tensors[i].count);
    if (tensors[i].name && strlen(tensors[i].name) > 127)
      return tt_fail(tuttiInvalidArgument, "tensors[%d].name has %zu bytes: at most 127 are allowed", i,
                     strlen(tensors[i].name));
  }
  return tuttiSuccess;
}

tuttiResult_t tuttiFusionCreate(tuttiFusion_t *fusion, tuttiComm_t comm, const tuttiFusionTensor_t *tensors,
                                int ntensors, const tuttiFusionConfig_t *config)
{
  tuttiFusionConfig_t copy;
  if (!fusion) return tt_null("fusion");
  tuttiResult_t result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "fusions");
  if (result == tuttiSuccess) result = tensors_check(tensors, ntensors);
  if (result == tuttiSuccess) result = config_take(&copy, config);
  if (result == tuttiSuccess && tt_group_active())
    result = tt_fail(tuttiInvalidUsage, "tuttiFusionCreate inside a group: call it after tuttiGroupEnd");
  if (result != tuttiSuccess) return result;
  return tt_fusion_create(fusion, &(struct tt_fusion_spec){comm, tensors, ntensors, &copy, NULL});
}

tuttiResult_t tuttiFusionMove(tuttiFusion_t *fusion, tuttiComm_t comm)
{
  if (!fusion) return tt_null("fusion");
  tuttiResult_t result = fusion_check(*fusion);
  if (result == tuttiSuccess) result = tt_comm_ready_check(comm);
  if (result == tuttiSuccess) result = tt_views_refuse(comm, "fusions");
  if (result == tuttiSuccess && tt_group_active())
    result = tt_fail(tuttiInvalidUsage, "tuttiFusionMove inside a group: call it after tuttiGroupEnd");
  return result == tuttiSuccess ? tt_fusion_move(fusion, comm) : result;
}

tuttiResult_t tuttiFusionPush(tuttiFusion_t fusion, int tensor, const void *sendbuff, void *recvbuff, size_t count,
                              tuttiDataType_t type, tuttiStream_t stream)
{
  tuttiResult_t result = tensor_check(fusion, tensor);
  if (result == tuttiSuccess && stream) result = tt_host_stream_check(stream);
  if (result != tuttiSuccess) return result;
  const struct tt_pushed pushed = {.send = sendbuff, .recv = recvbuff, .count = count, .type = (int)type,
                                   .stream = stream};
  return tt_fusion_push(fusion, tensor, &pushed);
}

tuttiResult_t tuttiFusionWait(tuttiFusion_t fusion, int tensor)
{
  tuttiResult_t result = tensor_check(fusion, tensor);
  return result == tuttiSuccess ? tt_fusion_wait(fusion, tensor, 1) : result;
}

tuttiResult_t tuttiFusionQuery(tuttiFusion_t fusion, int tensor)
{
  tuttiResult_t result = tensor_check(fusion, tensor);
  return result == tuttiSuccess ? tt_fusion_wait(fusion, tensor, 0) : result;
}

tuttiResult_t tuttiFusionWaitAll(tuttiFusion_t fusion)
{
  tuttiResult_t result = fusion_check(fusion);
  return result == tuttiSuccess ? tt_fusion_wait_all(fusion) : result;
}

tuttiResult_t tuttiFusionScale(tuttiFusion_t fusion, float before, float after)
{
  tuttiResult_t result = fusion_check(fusion);
  return result == tuttiSuccess ? tt_fusion_scale(fusion, before, after) : result;
}

tuttiResult_t tuttiFusionRate(tuttiFusion_t fusion, float rate)
{
  tuttiResult_t result = fusion_check(fusion);
  return result == tuttiSuccess ? tt_fusion_rate(fusion, rate) : result;
}

tuttiResult_t tuttiFusionOverflow(tuttiFusion_t fusion, int *overflow)
{
  tuttiResult_t result = fusion_check(fusion);
  if (result == tuttiSuccess && !overflow) result = tt_null("overflow");
  return result == tuttiSuccess ? tt_fusion_overflow(fusion, overflow) : result;
}

tuttiResult_t tuttiFusionNorm(tuttiFusion_t fusion, int tensor, double *norm)
{
  tuttiResult_t result = tensor_check(fusion, tensor);
  if (result == tuttiSuccess && !norm) result = tt_null("norm");
  return result == tuttiSuccess ? tt_fusion_norm(fusion, tensor, norm) : result;
}

tuttiResult_t tuttiFusionCodec(tuttiFusion_t fusion, const char *codec)
{
  tuttiResult_t result = fusion_check(fusion);
  return result == tuttiSuccess ? tt_fusion_codec(fusion, codec) : result;
}

tuttiResult_t tuttiFusionState(tuttiFusion_t fusion, int tensor, int plane, float *data, size_t count, int set)
{
  tuttiResult_t result = tensor_check(fusion, tensor);
  if (result == tuttiSuccess && !data) result = tt_null("data");
  if (result == tuttiSuccess && tt_cuda_has(data))
    result = tt_fail(tuttiInvalidArgument, "data %p is CUDA memory: give host memory", (void *)data);
  if (result == tuttiSuccess && set != 0 && set != 1)
    result = tt_fail(tuttiInvalidArgument, "set is %d: give 0 to read or 1 to write", set);
  if (result != tuttiSuccess) return result;
  return tt_fusion_state(fusion, &(struct tt_fusion_state){tensor, plane, data, count, set});
}

tuttiResult_t tuttiFusionGetInfo(tuttiFusion_t fusion, tuttiFusionInfo_t *info)
{
  tuttiResult_t result = fusion_check(fusion);
  if (result == tuttiSuccess && !info) result = tt_null("info");
  if (result == tuttiSuccess && info->size < sizeof info->size + sizeof info->steps)
    result = tt_fail(tuttiInvalidArgument, "info->size is %zu: set it to sizeof(tuttiFusionInfo_t) first", info->size);
  if (result != tuttiSuccess) return result;
  size_t size = info->size;
  tuttiFusionInfo_t whole = {.size = size};
  tt_fusion_info(fusion, &whole);
  memset(info, 0, size);
  memcpy(info, &whole, size < sizeof whole ? size : sizeof whole);
  return tuttiSuccess;
}

tuttiResult_t tuttiFusionPrint(tuttiFusion_t fusion, FILE *out, int json)
{
  tuttiResult_t result = fusion_check(fusion);
  if (result == tuttiSuccess && !out) result = tt_null("out");
  return result == tuttiSuccess ? tt_fusion_print(fusion, out, json) : result;
}

tuttiResult_t tuttiFusionDestroy(tuttiFusion_t fusion)
{
  if (!fusion) return tuttiSuccess;
  tuttiResult_t result = fusion_check(fusion);
  return result == tuttiSuccess ? tt_fusion_destroy(fusion) : result;
}

tuttiResult_t tuttiFusionAbort(tuttiFusion_t fusion)
{
  tuttiResult_t result = fusion_check(fusion);
  return result == tuttiSuccess ? tt_fusion_abort(fusion) : result;
}
