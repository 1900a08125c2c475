/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of device.h for the memory of one CUDA context, and joining and leaving the process's use of CUDA. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "cuda/cuda.h"
#include "cuda/gpu_private.h"
#include "cuda/image_private.h"

static struct cuda_gpu *gpu_of(const struct tt_device *device)
{
  return (struct cuda_gpu *)(uintptr_t)device;
}

static int owns(const struct tt_device *device, const void *pointer)
{
  struct cuda_gpu *gpu = gpu_of(device);
  return tt_cuda_member(&gpu->cuda->device, pointer) == device;
}

static void *memory_alloc(const struct tt_device *device, size_t len)
{
  struct cuda_gpu *gpu = gpu_of(device);
  uint64_t pointer = 0;
  if (tt_cuda_enter(gpu) != tuttiSuccess) return NULL;
  int code = gpu->cuda->driver.memory_alloc(&pointer, len ? len : 1);
  if (code != CU_SUCCESS) tt_cuda_fail(&gpu->cuda->driver, "cuMemAlloc", gpu->ordinal, code);
  tt_cuda_leave_context(gpu);
  return code == CU_SUCCESS ? (void *)(uintptr_t)pointer : NULL;
}

static void memory_free(const struct tt_device *device, void *pointer)
{
  struct cuda_gpu *gpu = gpu_of(device);
  if (!pointer || tt_cuda_enter(gpu) != tuttiSuccess) return;
  int code = gpu->cuda->driver.memory_free((uintptr_t)pointer);
  if (code != CU_SUCCESS) tt_cuda_fail(&gpu->cuda->driver, "cuMemFree", gpu->ordinal, code);
  tt_cuda_leave_context(gpu);
}

/* The driver exposes only whole pages of this host. */
static tuttiResult_t expose(const struct tt_device *device, void *pointer, size_t len, int *fd, uint64_t *offset)
{
  struct cuda_gpu *gpu = gpu_of(device);
  const struct cuda_driver *driver = &gpu->cuda->driver;
  uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), at = (uintptr_t)pointer, start = at / page * page;
  if (!driver->memory_handle)
    return tt_fail(tuttiSystemError, "memory of GPU %d cannot be shown to other devices: the driver is older than CUDA "
                   "11.7", gpu->ordinal);
  tuttiResult_t result = tt_cuda_enter(gpu);
  if (result != tuttiSuccess) return result;
  int code = driver->memory_handle(fd, start, (at + len - start + page - 1) / page * page, CU_DMA_BUF, 0);
  if (code != CU_SUCCESS)
    result = tt_cuda_fail(driver, "cuMemGetHandleForAddressRange", gpu->ordinal, code);
  tt_cuda_leave_context(gpu);
  *offset = at - start;
  return result;
}

/* Starts a piece of work that is filled in; on failure nothing is under way. */
static tuttiResult_t work_start(struct cuda_gpu *gpu, struct cuda_work *work, tt_ticket *ticket)
{
  tuttiResult_t result = tt_cuda_cut_start(gpu, work);
  if (result == tuttiSuccess) *ticket = tt_cuda_work_ticket(work);
  else tt_cuda_work_give(gpu, work);
  return result;
}

/* ---- copy ---- */

static tuttiResult_t copy_inside(struct cuda_gpu *gpu, void *dst, const void *src, size_t len, tt_ticket *ticket)
{
  struct cuda_operand to, from;
  struct cuda_work *work;
  enum cuda_where to_where, from_where; /* memory of another GPU is as good: the driver reaches it */
  tuttiResult_t result = tt_cuda_operand(gpu, dst, &to, &to_where);
  if (result == tuttiSuccess) result = tt_cuda_operand(gpu, src, &from, &from_where);
  if (result != tuttiSuccess) return result;
  if (to_where == CUDA_ON_HOST && from_where == CUDA_ON_HOST)
    return tt_host_device.copy(&tt_host_device, dst, src, len, ticket);
  to.size = from.size = 1;
  result = tt_cuda_work_take(gpu, to.is_staged || from.is_staged, &work);
  if (result != tuttiSuccess) return result;
  work->is_copy = 1;
  work->count = len;
  work->done = 0;
  work->dst = to;
  work->nsrc = 1;
  work->sources = work->few;
  work->few[0] = from;
  return work_start(gpu, work, ticket);
}

static tuttiResult_t copy(const struct tt_device *device, void *dst, const void *src, size_t len, tt_ticket *ticket)
{
  struct cuda_gpu *gpu = gpu_of(device);
  if (!len || dst == src) {
    *ticket = 0;
    return tuttiSuccess;
  }
  tuttiResult_t result = tt_cuda_enter(gpu);
  if (result != tuttiSuccess) return result;
  result = copy_inside(gpu, dst, src, len, ticket);
  tt_cuda_leave_context(gpu);
  return result;
}

/* ---- reduce ---- */

/* Operands of a reduction, looked at before a piece of work is taken. */
struct operands {
  struct cuda_operand dst, also, few[TT_CUDA_INLINE];
  int stages, any_gpu;
};

static tuttiResult_t look(const struct cuda_gpu *gpu, const void *pointer, int size, struct cuda_operand *operand,
                          struct operands *all)
{
  enum cuda_where where;
  tuttiResult_t result = tt_cuda_operand(gpu, pointer, operand, &where);
  if (result != tuttiSuccess) return result;
  if (where == CUDA_ELSEWHERE)
    return tt_fail(tuttiInvalidUsage,
                   "%p is memory of another GPU or CUDA context than the rest of this reduction, on GPU %d: give the "
                   "buffers of one call on one GPU", pointer, gpu->ordinal);
  operand->size = size;
  all->stages |= operand->is_staged;
  all->any_gpu |= where == CUDA_ON_GPU;
  return tuttiSuccess;
}

/* Writes the sources' operands to `list`; if it is NULL, there is no room for them yet, and they are only checked. */
static tuttiResult_t look_at_sources(const struct cuda_gpu *gpu, const struct tt_reduction *what,
                                     const struct tt_reduce_arg *arg, struct cuda_operand *list, struct operands *all)
{
  const int size = (int)tt_type_size(what->type);
  tuttiResult_t result = tuttiSuccess;
  for (int k = 0; k < what->nsrc && result == tuttiSuccess; k++) {
    struct cuda_operand unused;
    int wide = k == arg->wide ? (int)sizeof(float) : size;
    result = look(gpu, what->sources[k], wide, list ? &list[k] : &unused, all);
  }
  return result;
}

static tuttiResult_t look_at_all(const struct cuda_gpu *gpu, const struct tt_reduction *what,
                                 const struct tt_reduce_arg *arg, struct operands *all)
{
  const int size = (int)tt_type_size(what->type), is_many = what->nsrc > TT_CUDA_INLINE;
  *all = (struct operands){.stages = is_many};
  tuttiResult_t result = look(gpu, what->dst, arg->dst_wide ? (int)sizeof(float) : size, &all->dst, all);
  if (result == tuttiSuccess && arg->also) result = look(gpu, arg->also, size, &all->also, all);
  if (result != tuttiSuccess) return result;
  return look_at_sources(gpu, what, arg, is_many ? NULL : all->few, all);
}

static tuttiResult_t reduce_work(struct cuda_gpu *gpu, const struct tt_reduction *what, const struct tt_reduce_arg *arg,
                                 struct operands *all, tt_ticket *ticket)
{
  struct cuda_work *work;
  tuttiResult_t result = tt_cuda_work_take(gpu, all->stages, &work);
  if (result != tuttiSuccess) return result;
  work->is_copy = 0;
  work->operation = what->redop < CUDA_OPERATIONS ? what->redop : tuttiSum;
  work->type = what->type;
  work->count = what->count;
  work->done = 0;
  work->arg = *arg;
  work->overflow = what->overflow;
  work->nsrc = what->nsrc;
  work->dst = all->dst;
  work->also = all->also;
  work->sources = work->few;
  if (what->nsrc > TT_CUDA_INLINE) {
    work->sources = (struct cuda_operand *)(void *)work->stage;
    result = look_at_sources(gpu, what, arg, work->sources, all);
    if (result != tuttiSuccess) {
      tt_cuda_work_give(gpu, work);
      return result;
    }
  } else memcpy(work->few, all->few, (size_t)what->nsrc * sizeof *work->few);
  return work_start(gpu, work, ticket);
}

static tuttiResult_t reduce_inside(struct cuda_gpu *gpu, const struct tt_reduction *what, tt_ticket *ticket)
{
  const struct tt_reduce_arg *arg = what->arg ? what->arg : &tt_reduce_plainly;
  struct operands all;
  if (tt_cuda_keeps_bits(arg, what->nsrc) && what->type != tuttiBool && !arg->also && !what->overflow)
    return copy_inside(gpu, what->dst, what->sources[0], what->count * tt_type_size(what->type), ticket);
  tuttiResult_t result = look_at_all(gpu, what, arg, &all);
  if (result != tuttiSuccess) return result;
  if (!all.any_gpu) return tt_host_device.reduce(&tt_host_device, what, ticket);
  if (what->type >= CUDA_TYPES || (what->redop > tuttiAvg && what->redop != TT_PREMUL_SUM))
    return tt_fail(tuttiInvalidUsage, "GPU memory is not reduced with %s of %s: reduce it in host memory",
                   tt_redop_name(what->redop), tt_type_name(what->type));
  result = tt_cuda_kernels(gpu);
  return result == tuttiSuccess ? reduce_work(gpu, what, arg, &all, ticket) : result;
}

static tuttiResult_t reduce(const struct tt_device *device, const struct tt_reduction *what, tt_ticket *ticket)
{
  struct cuda_gpu *gpu = gpu_of(device);
  if (!tt_reduce_kernel(what->redop, what->type) || what->nsrc < 1 || what->nsrc > CUDA_SOURCES)
    return tt_fail(tuttiInternalError, "no CUDA kernel reduces %s (type %d) with %s (op %d) of %d sources, 1 to %d",
                   tt_type_name(what->type), what->type, tt_redop_name(what->redop), what->redop, what->nsrc,
                   CUDA_SOURCES);
  if (!what->count) {
    *ticket = 0;
    return tuttiSuccess;
  }
  tuttiResult_t result = tt_cuda_enter(gpu);
  if (result != tuttiSuccess) return result;
  result = reduce_inside(gpu, what, ticket);
  tt_cuda_leave_context(gpu);
  return result;
}

static tuttiResult_t poll(const struct tt_device *device, tt_ticket ticket)
{
  struct cuda_gpu *gpu = gpu_of(device);
  if (ticket == 0) return tuttiSuccess;
  struct cuda_work *work = tt_cuda_work_find(gpu, ticket);
  if (!work)
    return tt_fail(tuttiInternalError, "ticket %llx is not of work on GPU %d", (unsigned long long)ticket,
                   gpu->ordinal);
  tuttiResult_t result = tt_cuda_enter(gpu);
  if (result != tuttiSuccess) {
    work->generation++; /* the ticket is gone, but the stage may still be in use */
    return result;
  }
  result = tt_cuda_work_poll(gpu, work);
  tt_cuda_leave_context(gpu);
  if (result != tuttiInProgress) tt_cuda_work_give(gpu, work);
  return result;
}

/* ---- joining ---- */

static tuttiResult_t cuda_make(struct cuda **out, int asked)
{
  char why[256];
  struct cuda *cuda = tt_alloc(1, sizeof *cuda);
  if (!cuda) return tt_fail(tuttiSystemError, "out of memory for the use of CUDA");
  tuttiResult_t result = tuttiSuccess;
  if (!tt_cuda_driver_open(&cuda->driver, asked, why, sizeof why)) {
    if (asked)
      result = tt_fail(tuttiInvalidUsage, "TUTTI_CUDA is 1, but %s: install NVIDIA's driver, or leave it on auto", why);
    else tt_log(TT_LOG_INFO, "no CUDA memory: %s", why);
    tt_free(cuda);
    return result;
  }
  int code = asked ? cuda->driver.init(0) : CU_SUCCESS;
  if (code != CU_SUCCESS) {
    result = tt_cuda_fail(&cuda->driver, "cuInit", -1, code);
    tt_cuda_driver_close(&cuda->driver);
    tt_free(cuda);
    return result;
  }
  cuda->device = (struct tt_device){.name = "CUDA", .owns = owns, .alloc = memory_alloc, .free = memory_free,
                                    .copy = copy, .reduce = reduce, .poll = poll, .expose = expose,
                                    .member = tt_cuda_member};
  tt_cuda_gpus_init(cuda);
  *out = cuda;
  return tuttiSuccess;
}

/* Slots of streams that are still parked stay, with all that their release needs. */
/* It is kept for the next communicator while a GPU may still use memory of it. */
static void cuda_free(struct cuda *cuda)
{
  if (!tt_cuda_retired_free(cuda)) {
    tt_process.cuda_kept = cuda;
    return;
  }
  tt_cuda_gpus_close(cuda);
  tt_cuda_driver_close(&cuda->driver);
  tt_free(cuda);
}

/* Makes CUDA memory known if the driver is there. The mutex is held. */
static tuttiResult_t meet(int asked)
{
  struct cuda *cuda = tt_process.cuda_kept;
  if (tt_process.cuda) return tuttiSuccess;
  tt_process.cuda_kept = NULL;
  tuttiResult_t result = cuda ? tuttiSuccess : cuda_make(&cuda, asked);
  if (result != tuttiSuccess || !cuda) return result;
  result = tt_device_register(&cuda->device);
  if (result == tuttiSuccess) tt_process.cuda = cuda;
  else cuda_free(cuda);
  return result;
}

enum choice { CHOICE_AUTO, CHOICE_NEVER, CHOICE_ASKED }; /* of TUTTI_CUDA */

/* Communicators that find no CUDA are counted, too: later ones may find it, and then the earlier ones ask it about
 * their pointers as well. */
tuttiResult_t tt_cuda_join(const struct tt_settings *settings, int *joined)
{
  tuttiResult_t result = tuttiSuccess;
  *joined = 0;
  pthread_mutex_lock(&tt_process.cuda_mutex);
  if (settings->cuda != CHOICE_NEVER) result = meet(settings->cuda == CHOICE_ASKED);
  if (result == tuttiSuccess) {
    tt_process.cuda_users++;
    *joined = 1;
  }
  pthread_mutex_unlock(&tt_process.cuda_mutex);
  return result;
}

void tt_cuda_leave(void)
{
  pthread_mutex_lock(&tt_process.cuda_mutex);
  struct cuda *cuda = tt_process.cuda;
  if (--tt_process.cuda_users == 0 && cuda) {
    tt_process.cuda = NULL;
    tt_device_unregister(&cuda->device);
    cuda_free(cuda);
  }
  pthread_mutex_unlock(&tt_process.cuda_mutex);
}

const char *tt_cuda_unusable(const struct tt_settings *settings, char *text, size_t size)
{
  struct cuda_driver driver;
  int version = 0, count = 0;
  if (settings->cuda == CHOICE_NEVER) return "TUTTI_CUDA is 0";
  if (!tt_cuda_driver_open(&driver, 1, text, size)) return text;
  int code = driver.init(0);
  if (code == CU_SUCCESS) code = driver.version(&version);
  if (code == CU_SUCCESS) code = driver.device_count(&count);
  if (code != CU_SUCCESS)
    snprintf(text, size, "the driver does not start: %s (CUDA error %d)", tt_cuda_text(&driver, code), code);
  else if (!count) snprintf(text, size, "the driver finds no GPU");
  else if (!tt_cuda_image_text)
    snprintf(text, size, "built without CUDA kernels: memory of %d GPUs can be copied, not reduced", count);
  else
    snprintf(text, size, "%d GPUs, driver for CUDA %d.%d, kernels for %s", count, version / 1000, version % 1000 / 10,
             tt_cuda_image_text);
  tt_cuda_driver_close(&driver);
  return code == CU_SUCCESS && count && tt_cuda_image_text ? NULL : text;
}
