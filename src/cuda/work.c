/* SPDX-License-Identifier: BSD-3-Clause */
/* Pieces of work: taken from slabs, cut so that they fit into their stage, started and polled. */
#include <string.h>

#include "cuda/gpu_private.h"

/* ---- slabs ---- */

/* Frees the objects that the driver made for a slab. */
static void slab_clear(struct cuda_gpu *gpu, struct cuda_work *slab, int32_t *flags)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  for (int i = 0; slab && i < CUDA_SLAB; i++) {
    if (slab[i].event) driver->event_destroy(slab[i].event);
    if (slab[i].stage) driver->pinned_free(slab[i].stage);
  }
  if (flags) driver->pinned_free(flags);
}

/* Flags of different pieces of work lie in different cache lines. */
#define FLAG_STRIDE (64 / sizeof(int32_t))

static tuttiResult_t slab_make(struct cuda_gpu *gpu, struct cuda_work **slab, int32_t **flags)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  *slab = tt_alloc(CUDA_SLAB, sizeof **slab);
  if (!*slab) return tt_fail(tuttiSystemError, "out of memory for work on GPU %d", gpu->ordinal);
  int code = driver->pinned_alloc((void **)flags, CUDA_SLAB * 64, CU_HOST_PORTABLE_AND_MAPPED);
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuMemHostAlloc", gpu->ordinal, code);
  for (int i = 0; i < CUDA_SLAB; i++) {
    struct cuda_work *work = &(*slab)[i];
    code = driver->event_create(&work->event, CU_EVENT_DISABLE_TIMING_FLAG);
    if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuEventCreate", gpu->ordinal, code);
    work->index = (uint32_t)(gpu->nslabs * CUDA_SLAB + i);
    work->flag = *flags + (size_t)i * FLAG_STRIDE;
    work->next_free = i + 1 < CUDA_SLAB ? work + 1 : NULL;
  }
  return tuttiSuccess;
}

tuttiResult_t tt_cuda_slab_add(struct cuda_gpu *gpu)
{
  struct cuda_work *slab = NULL;
  int32_t *flags = NULL;
  if (gpu->nslabs == CUDA_SLABS)
    return tt_fail(tuttiInternalError, "%d pieces of work are under way on GPU %d: more cannot be",
                   CUDA_SLABS * CUDA_SLAB, gpu->ordinal);
  tuttiResult_t result = slab_make(gpu, &slab, &flags);
  if (result != tuttiSuccess) {
    slab_clear(gpu, slab, flags);
    tt_free(slab);
    return result;
  }
  gpu->flags[gpu->nslabs] = flags;
  atomic_store_explicit(&gpu->slabs[gpu->nslabs++], slab, memory_order_release);
  gpu->free = slab;
  return tuttiSuccess;
}

void tt_cuda_slabs_close(struct cuda_gpu *gpu, int is_current)
{
  for (int s = 0; s < gpu->nslabs; s++) {
    struct cuda_work *slab = atomic_load(&gpu->slabs[s]);
    if (is_current) slab_clear(gpu, slab, gpu->flags[s]);
    tt_free(slab);
    atomic_store(&gpu->slabs[s], NULL);
  }
  gpu->nslabs = 0;
  gpu->free = NULL;
}

/* ---- taking and giving ---- */

void tt_cuda_work_give(struct cuda_gpu *gpu, struct cuda_work *work)
{
  work->generation++;
  pthread_mutex_lock(&gpu->mutex);
  work->next_free = gpu->free;
  gpu->free = work;
  pthread_mutex_unlock(&gpu->mutex);
}

tuttiResult_t tt_cuda_work_take(struct cuda_gpu *gpu, int stages, struct cuda_work **out)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  pthread_mutex_lock(&gpu->mutex);
  tuttiResult_t result = gpu->free ? tuttiSuccess : tt_cuda_slab_add(gpu);
  struct cuda_work *work = gpu->free;
  if (result == tuttiSuccess) {
    gpu->free = work->next_free;
    work->stream = gpu->streams[gpu->turn++ % CUDA_STREAMS];
  }
  pthread_mutex_unlock(&gpu->mutex);
  if (result != tuttiSuccess) return result;
  work->generation++;
  if (stages && !work->stage) {
    int code = driver->pinned_alloc((void **)&work->stage, CUDA_STAGE_BYTES, CU_HOST_PORTABLE_AND_MAPPED);
    if (code != CU_SUCCESS) {
      work->stage = NULL;
      tt_cuda_work_give(gpu, work);
      return tt_cuda_fail(driver, "cuMemHostAlloc", gpu->ordinal, code);
    }
  }
  *out = work;
  return tuttiSuccess;
}

tt_ticket tt_cuda_work_ticket(const struct cuda_work *work)
{
  return (uint64_t)work->generation << 32 | work->index;
}

struct cuda_work *tt_cuda_work_find(struct cuda_gpu *gpu, tt_ticket ticket)
{
  uint32_t index = (uint32_t)ticket, generation = (uint32_t)(ticket >> 32);
  if (index >= CUDA_SLABS * CUDA_SLAB) return NULL;
  struct cuda_work *slab = atomic_load_explicit(&gpu->slabs[index / CUDA_SLAB], memory_order_acquire);
  struct cuda_work *work = slab ? &slab[index % CUDA_SLAB] : NULL;
  return work && work->generation == generation && generation % 2 ? work : NULL;
}

/* ---- cuts ---- */

/* A copy with a pageable side goes through the stage. */
static tuttiResult_t copy_start(struct cuda_gpu *gpu, struct cuda_work *work)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  const char *from = work->sources[0].at + work->done;
  char *to = (char *)(uintptr_t)work->dst.at + work->done;
  work->cut = work->count - work->done;
  work->staged_dst = NULL;
  if ((work->sources[0].is_staged || work->dst.is_staged) && work->cut > CUDA_STAGE_BYTES) work->cut = CUDA_STAGE_BYTES;
  if (work->sources[0].is_staged) from = memcpy(work->stage, from, work->cut);
  if (work->dst.is_staged) to = work->staged_dst = work->stage;
  int code = driver->copy((uintptr_t)to, (uintptr_t)from, work->cut, work->stream);
  return code == CU_SUCCESS ? tuttiSuccess : tt_cuda_fail(driver, "cuMemcpyAsync", gpu->ordinal, code);
}

tuttiResult_t tt_cuda_cut_start(struct cuda_gpu *gpu, struct cuda_work *work)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  tuttiResult_t result = work->is_copy ? copy_start(gpu, work) : tt_cuda_reduce_start(gpu, work);
  if (result != tuttiSuccess) return result;
  int code = driver->event_record(work->event, work->stream);
  if (code == CU_SUCCESS) return tuttiSuccess;
  driver->stream_wait(work->stream);
  return tt_cuda_fail(driver, "cuEventRecord", gpu->ordinal, code);
}

/* Copies the results of a cut from the stage and the flag to where they belong. */
static void cut_finish(struct cuda_work *work)
{
  if (work->staged_dst) {
    char *dst = (char *)(uintptr_t)work->dst.at;
    memcpy(dst + work->done * (size_t)work->dst.size, work->staged_dst, work->cut * (size_t)work->dst.size);
  }
  if (!work->is_copy && work->staged_also) {
    char *also = (char *)(uintptr_t)work->also.at;
    memcpy(also + work->done * (size_t)work->also.size, work->staged_also, work->cut * (size_t)work->also.size);
  }
  if (!work->is_copy && work->overflow && *work->flag) *work->overflow = 1;
  work->done += work->cut;
}

tuttiResult_t tt_cuda_work_poll(struct cuda_gpu *gpu, struct cuda_work *work)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  int code = driver->event_query(work->event);
  if (code == CU_NOT_READY) return tuttiInProgress;
  if (code != CU_SUCCESS) {
    driver->stream_wait(work->stream); /* nothing may write into the stage any more */
    return tt_cuda_fail(driver, "cuEventQuery", gpu->ordinal, code);
  }
  cut_finish(work);
  if (work->done == work->count) return tuttiSuccess;
  tuttiResult_t result = tt_cuda_cut_start(gpu, work);
  return result == tuttiSuccess ? tuttiInProgress : result;
}
