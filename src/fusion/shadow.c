/* SPDX-License-Identifier: BSD-3-Clause */
/* Tensors in memory of GPUs. The caller who pushes one has it copied to its place in host memory, its shadow, and who
 * waits for it has the sum copied back; everything in between finds a tensor in host memory. So the engine calls no
 * driver. The shadows of all tensors lie one after the other, as those of a message mostly do in memory. */
#include "cuda/cuda.h"
#include "fusion/private.h"

void tt_fusion_shadows_place(struct tuttiFusion *fusion)
{
  size_t *at = &fusion->shadows.bytes;
  for (int i = 0; i < fusion->config.n; i++) {
    struct tensor *tensor = &fusion->config.tensors[i];
    size_t element = (size_t)tensor->element;
    tensor->shadow = (*at + element - 1) / element * element;
    *at = tensor->shadow + tensor->bytes;
  }
}

/* Under the mutex of the shadows. NULL: no memory. */
static char *shadow_of(struct tuttiFusion *fusion, int index)
{
  struct shadows *shadows = &fusion->shadows;
  void *made = NULL;
  if (!shadows->memory && tt_user_alloc(&made, shadows->bytes) == tuttiSuccess) shadows->memory = made;
  return shadows->memory ? shadows->memory + fusion->config.tensors[index].shadow : NULL;
}

tuttiResult_t tt_fusion_shadow_in(struct tuttiFusion *fusion, int index, struct tt_pushed *pushed)
{
  const struct tensor *tensor = &fusion->config.tensors[index];
  struct shadows *shadows = &fusion->shadows;
  int sends = tensor->count && tt_cuda_has(pushed->send), receives = tensor->count && tt_cuda_has(pushed->recv);
  if (!sends && !receives) return tuttiSuccess;
  if (pushed->stream)
    return tt_fail(tuttiInvalidUsage, "tensor %d (%s) is in memory of a GPU, and is pushed with a stream: push it when "
                   "it is there, without a stream", index, tensor->name);
  pthread_mutex_lock(&shadows->mutex);
  char *shadow = shadow_of(fusion, index);
  tuttiResult_t result = tuttiSuccess;
  if (!shadow) result = tt_fail(tuttiSystemError, "out of host memory for the tensors of a GPU");
  else if (sends) result = tt_comm_copy(fusion->config.channel[0], shadow, pushed->send, tensor->bytes);
  pthread_mutex_unlock(&shadows->mutex);
  if (result == tuttiInvalidUsage) return result;
  if (result != tuttiSuccess) return tt_fusion_told(&fusion->config, result);
  pushed->gpu = receives ? pushed->recv : NULL;
  if (sends) pushed->send = shadow;
  if (receives) pushed->recv = shadow;
  return result;
}

tuttiResult_t tt_fusion_shadow_out(struct tuttiFusion *fusion, int index, uint64_t step)
{
  struct shared *shared = &fusion->shared;
  struct gradient *gradient = &shared->gradients[index];
  struct shadows *shadows = &fusion->shadows;
  if (!gradient->gpu) return tuttiSuccess;
  pthread_mutex_unlock(&shared->mutex);
  pthread_mutex_lock(&shadows->mutex);
  pthread_mutex_lock(&shared->mutex);
  void *gpu = gradient->pushed == step ? gradient->gpu : NULL; /* else another thread has waited for it, too */
  const void *sum = gradient->recv;
  pthread_mutex_unlock(&shared->mutex);
  tuttiResult_t result = tuttiSuccess;
  if (gpu) result = tt_comm_copy(fusion->config.channel[0], gpu, sum, fusion->config.tensors[index].bytes);
  if (result != tuttiSuccess) result = tt_fusion_told(&fusion->config, result);
  pthread_mutex_lock(&shared->mutex);
  if (gpu && result == tuttiSuccess) gradient->gpu = NULL;
  pthread_mutex_unlock(&shadows->mutex);
  return result;
}
