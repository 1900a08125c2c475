/* SPDX-License-Identifier: BSD-3-Clause */
/* The context of a pointer, and the objects made once per context: streams, pieces of work, kernels. */
#include <stdio.h>

#include "cuda/gpu_private.h"
#include "cuda/image_private.h"

/* ---- pointers ---- */

struct facts {
  void *context; /* NULL: the memory belongs to no context (pools, mappings) */
  unsigned memory_type, is_managed;
  uint64_t device_pointer; /* 0: the GPU cannot reach it */
  int ordinal;
};

static int is_gpu_memory(const struct facts *facts)
{
  return facts->memory_type == CU_MEMORY_DEVICE || facts->is_managed;
}

/* Asks the driver about a pointer; the facts are all zero if it does not know the pointer or nobody has started it. */
static int look(const struct cuda_driver *driver, const void *pointer, struct facts *facts)
{
  int attributes[] = {CU_POINTER_CONTEXT, CU_POINTER_MEMORY_TYPE, CU_POINTER_IS_MANAGED, CU_POINTER_DEVICE_POINTER,
                      CU_POINTER_DEVICE_ORDINAL};
  void *values[] = {&facts->context, &facts->memory_type, &facts->is_managed, &facts->device_pointer, &facts->ordinal};
  *facts = (struct facts){.ordinal = -1};
  int code = driver->pointer_attributes(sizeof attributes / sizeof *attributes, attributes, values, (uintptr_t)pointer);
  if (code == CU_SUCCESS) return code;
  *facts = (struct facts){.ordinal = -1};
  int is_unknown = code == CU_INVALID_VALUE || code == CU_NOT_INITIALIZED || code == CU_DEINITIALIZED ||
                   code == CU_NO_DEVICE || code == CU_INVALID_CONTEXT;
  return is_unknown ? CU_SUCCESS : code;
}

static void lookup_failed(struct cuda *cuda, const char *call, int code)
{
  atomic_store_explicit(&cuda->lookup_error, code, memory_order_relaxed);
  atomic_store_explicit(&cuda->lookup_call, call, memory_order_release);
}

void *tt_cuda_primary(struct cuda *cuda, int ordinal)
{
  if (ordinal < 0 || ordinal >= CUDA_GPUS) return NULL;
  void *context = atomic_load_explicit(&cuda->primary[ordinal], memory_order_acquire);
  if (context) return context;
  pthread_mutex_lock(&tt_process.cuda_mutex);
  context = atomic_load(&cuda->primary[ordinal]);
  int code = context ? CU_SUCCESS : cuda->driver.primary_retain(&context, ordinal);
  if (code == CU_SUCCESS) atomic_store_explicit(&cuda->primary[ordinal], context, memory_order_release);
  else lookup_failed(cuda, "cuDevicePrimaryCtxRetain", code);
  pthread_mutex_unlock(&tt_process.cuda_mutex);
  return context;
}

static struct cuda_gpu *gpu_of_context(struct cuda *cuda, void *context)
{
  for (int g = 0; g < CUDA_GPUS; g++) {
    struct cuda_gpu *gpu = &cuda->gpus[g];
    void *seen = atomic_load_explicit(&gpu->context, memory_order_acquire);
    if (!seen && atomic_compare_exchange_strong(&gpu->context, &seen, context)) return gpu;
    if (seen == context) return gpu;
  }
  return &cuda->gpus[CUDA_GPUS];
}

static struct cuda_gpu *gpu_of(struct cuda *cuda, const struct facts *facts)
{
  void *context = facts->context ? facts->context : tt_cuda_primary(cuda, facts->ordinal);
  return context ? gpu_of_context(cuda, context) : &cuda->gpus[CUDA_GPUS];
}

/* If the driver fails to tell the owner of a pointer, the pointer must not be taken for the host's: that would end in a
 * crash instead of an error. */
const struct tt_device *tt_cuda_member(const struct tt_device *device, const void *pointer)
{
  struct cuda *cuda = (struct cuda *)(uintptr_t)device;
  struct facts facts;
  int code = look(&cuda->driver, pointer, &facts);
  if (code != CU_SUCCESS) {
    lookup_failed(cuda, "cuPointerGetAttributes", code);
    return &cuda->gpus[CUDA_GPUS].device;
  }
  return is_gpu_memory(&facts) ? &gpu_of(cuda, &facts)->device : NULL;
}

tuttiResult_t tt_cuda_operand(const struct cuda_gpu *gpu, const void *pointer, struct cuda_operand *operand,
                              enum cuda_where *where)
{
  struct facts facts;
  int code = look(&gpu->cuda->driver, pointer, &facts);
  if (code != CU_SUCCESS) return tt_cuda_fail(&gpu->cuda->driver, "cuPointerGetAttributes", gpu->ordinal, code);
  if (!is_gpu_memory(&facts)) *where = CUDA_ON_HOST;
  else *where = facts.is_managed || gpu_of(gpu->cuda, &facts) == gpu ? CUDA_ON_GPU : CUDA_ELSEWHERE;
  operand->is_staged = *where == CUDA_ON_HOST && !facts.device_pointer;
  operand->at = *where == CUDA_ON_HOST && !operand->is_staged ? (const char *)(uintptr_t)facts.device_pointer : pointer;
  return tuttiSuccess;
}

/* ---- contexts ---- */

/* Frees the objects made in a context, which is current. */
static void gpu_clear(struct cuda_gpu *gpu)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  for (int s = 0; s < CUDA_STREAMS; s++)
    if (gpu->streams[s]) driver->stream_wait(gpu->streams[s]);
  tt_cuda_slabs_close(gpu, 1);
  for (int s = 0; s < CUDA_STREAMS; s++) {
    if (gpu->streams[s]) driver->stream_destroy(gpu->streams[s]);
    gpu->streams[s] = NULL;
  }
  if (gpu->module) driver->module_unload(gpu->module);
  gpu->module = NULL;
}

/* Makes the streams and the first slab. The context is current, and the mutex is held. */
static tuttiResult_t gpu_make(struct cuda_gpu *gpu)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  int processors = 0;
  int code = driver->context_device(&gpu->ordinal);
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuCtxGetDevice", -1, code);
  code = driver->device_attribute(&processors, CU_MULTIPROCESSORS, gpu->ordinal);
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuDeviceGetAttribute", gpu->ordinal, code);
  gpu->most_blocks = (unsigned)processors * 32;
  for (int s = 0; s < CUDA_STREAMS; s++) {
    code = driver->stream_create(&gpu->streams[s], CU_STREAM_NON_BLOCKING_FLAG);
    if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuStreamCreate", gpu->ordinal, code);
  }
  return tt_cuda_slab_add(gpu);
}

static tuttiResult_t gpu_ready(struct cuda_gpu *gpu)
{
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&gpu->mutex);
  if (!atomic_load(&gpu->is_ready)) {
    result = gpu_make(gpu);
    if (result == tuttiSuccess) atomic_store_explicit(&gpu->is_ready, 1, memory_order_release);
    else gpu_clear(gpu);
  }
  pthread_mutex_unlock(&gpu->mutex);
  return result;
}

/* The error of the entry that stands for pointers that cannot be used. */
static tuttiResult_t refuse(const struct cuda *cuda)
{
  const char *call = atomic_load_explicit(&cuda->lookup_call, memory_order_acquire);
  int code = atomic_load_explicit(&cuda->lookup_error, memory_order_relaxed);
  if (call) return tt_cuda_fail(&cuda->driver, call, -1, code);
  return tt_fail(tuttiUnhandledCudaError,
                 "this memory is of one CUDA context more than the %d that can be used in one process", CUDA_GPUS);
}

tuttiResult_t tt_cuda_enter(struct cuda_gpu *gpu)
{
  void *context = atomic_load_explicit(&gpu->context, memory_order_relaxed);
  if (!context) return refuse(gpu->cuda);
  int code = gpu->cuda->driver.context_push(context);
  if (code != CU_SUCCESS) return tt_cuda_fail(&gpu->cuda->driver, "cuCtxPushCurrent", -1, code);
  if (atomic_load_explicit(&gpu->is_ready, memory_order_acquire)) return tuttiSuccess;
  tuttiResult_t result = gpu_ready(gpu);
  if (result != tuttiSuccess) tt_cuda_leave_context(gpu);
  return result;
}

void tt_cuda_leave_context(struct cuda_gpu *gpu)
{
  void *context;
  gpu->cuda->driver.context_pop(&context);
}

/* ---- kernels ---- */

/* The mutex is held. */
static tuttiResult_t kernels_find(struct cuda_gpu *gpu)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  char name[32];
  for (int op = 0; op < CUDA_OPERATIONS; op++)
    for (int type = 0; type < CUDA_TYPES; type++) {
      snprintf(name, sizeof name, "tt_%s_%s", tt_redop_name(op), tt_type_name(type));
      int code = driver->module_function(&gpu->kernels[op][type], gpu->module, name);
      if (code == CU_NOT_FOUND && !tt_cuda_image_text)
        return tt_fail(tuttiInvalidUsage, "this library was built without CUDA kernels: GPU memory can be copied, not "
                                          "reduced; build it where nvcc is found (TUTTI_CUDA=ON)");
      if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuModuleGetFunction", gpu->ordinal, code);
    }
  return tuttiSuccess;
}

static tuttiResult_t kernels_load(struct cuda_gpu *gpu)
{
  const struct cuda_driver *driver = &gpu->cuda->driver;
  int code = driver->module_load(&gpu->module, tt_cuda_image);
  if (code != CU_SUCCESS) return tt_cuda_fail(driver, "cuModuleLoadData", gpu->ordinal, code);
  tuttiResult_t result = kernels_find(gpu);
  if (result == tuttiSuccess) return result;
  driver->module_unload(gpu->module);
  gpu->module = NULL;
  return result;
}

tuttiResult_t tt_cuda_kernels(struct cuda_gpu *gpu)
{
  tuttiResult_t result = tuttiSuccess;
  if (atomic_load_explicit(&gpu->has_kernels, memory_order_acquire)) return result;
  pthread_mutex_lock(&gpu->mutex);
  if (!atomic_load(&gpu->has_kernels)) {
    result = kernels_load(gpu);
    if (result == tuttiSuccess) atomic_store_explicit(&gpu->has_kernels, 1, memory_order_release);
  }
  pthread_mutex_unlock(&gpu->mutex);
  return result;
}

/* ---- all of them ---- */

void tt_cuda_gpus_init(struct cuda *cuda)
{
  for (int g = 0; g <= CUDA_GPUS; g++) {
    cuda->gpus[g].device = cuda->device;
    cuda->gpus[g].device.member = NULL;
    cuda->gpus[g].cuda = cuda;
    cuda->gpus[g].ordinal = -1;
    pthread_mutex_init(&cuda->gpus[g].mutex, NULL);
  }
}

/* A context that its owner has destroyed cannot be entered any more; the objects made in it went with it. */
void tt_cuda_gpus_close(struct cuda *cuda)
{
  for (int g = 0; g <= CUDA_GPUS; g++) {
    struct cuda_gpu *gpu = &cuda->gpus[g];
    void *context = atomic_load(&gpu->context);
    if (atomic_load(&gpu->is_ready) && cuda->driver.context_push(context) == CU_SUCCESS) {
      gpu_clear(gpu);
      tt_cuda_leave_context(gpu);
    }
    tt_cuda_slabs_close(gpu, 0);
    pthread_mutex_destroy(&gpu->mutex);
  }
  for (int ordinal = 0; ordinal < CUDA_GPUS; ordinal++)
    if (atomic_load(&cuda->primary[ordinal])) cuda->driver.primary_release(ordinal);
}
