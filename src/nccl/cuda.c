/* SPDX-License-Identifier: BSD-3-Clause */
/* Where the process uses CUDA, calls go to their CUDA streams, and memory is a GPU's.
 *
 * The creation of a communicator loads and starts the driver, as NCCL's does: programs make a communicator before
 * anything else of CUDA. Functions and numbers are those of the documented driver interface. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "nccl/shim.h"

#define ATTRIBUTE_MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_OF_DEVICE 2      /* CU_MEMORYTYPE_DEVICE */

static int functions_find(void *driver, struct tt_nccl_cuda *cuda)
{
  const struct {
    const char *name;
    void *to;
  } functions[] = {{"cuCtxGetCurrent", &cuda->context_current},
                   {"cuMemAlloc_v2", &cuda->memory_alloc},
                   {"cuMemFree_v2", &cuda->memory_free},
                   {"cuPointerGetAttribute", &cuda->pointer_attribute}};
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    void *function = dlsym(driver, functions[i].name);
    if (!function) return 0;
    memcpy(functions[i].to, &function, sizeof function);
  }
  return 1;
}

/* Finds the driver, once there is one; it then stays loaded. */
static const struct tt_nccl_cuda *driver_find(void)
{
  struct tt_nccl_cuda *cuda = &tt_nccl_process.cuda;
  pthread_mutex_lock(&tt_nccl_process.cuda_mutex);
  if (!cuda->is_found) {
    void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
    cuda->is_found = driver && functions_find(driver, cuda);
    if (driver && !cuda->is_found) dlclose(driver);
  }
  pthread_mutex_unlock(&tt_nccl_process.cuda_mutex);
  return cuda->is_found ? cuda : NULL;
}

ncclResult_t tt_nccl_cuda_look(tuttiConfig_t *config)
{
  void *context = NULL;
  int gpus = 0;
  if (!atomic_load(&tt_nccl_process.has_streams)) {
    tuttiResult_t result = tuttiCudaStart(&gpus);
    if (result != tuttiSuccess || !gpus || !driver_find()) return result;
    atomic_store(&tt_nccl_process.has_streams, 1);
  }
  int is_current = tt_nccl_process.cuda.context_current(&context) == 0 && context;
  if (!is_current && config && config->device == TUTTI_CONFIG_UNDEF_INT) config->device = 0;
  return tuttiSuccess;
}

/* ---- streams ---- */

/* The entry of the stream, or the free one where it would be; NULL: the table is full of others. */
static struct tt_nccl_stream *stream_find(cudaStream_t cuda)
{
  size_t first = (uintptr_t)cuda >> 4;
  for (size_t i = 0; i < TT_NCCL_STREAMS_MAX; i++) {
    struct tt_nccl_stream *entry = &tt_nccl_process.streams[(first + i) % TT_NCCL_STREAMS_MAX];
    if (!atomic_load_explicit(&entry->stream, memory_order_acquire) || entry->cuda == cuda) return entry;
  }
  return NULL;
}

static ncclResult_t stream_add(cudaStream_t cuda, tuttiStream_t *stream)
{
  tuttiResult_t result = tuttiSuccess;
  pthread_mutex_lock(&tt_nccl_process.cuda_mutex);
  struct tt_nccl_stream *entry = stream_find(cuda); /* another thread may have been quicker */
  *stream = entry ? atomic_load(&entry->stream) : NULL;
  if (entry && !*stream) {
    entry->cuda = cuda;
    result = tuttiStreamFromCuda(stream, (void *)cuda);
    if (result == tuttiSuccess) atomic_store_explicit(&entry->stream, *stream, memory_order_release);
  }
  pthread_mutex_unlock(&tt_nccl_process.cuda_mutex);
  if (entry) return tt_nccl_result(result);
  return tt_nccl_refuse(tuttiSystemError, "this process has used %d CUDA streams for operations: use them again",
                        TT_NCCL_STREAMS_MAX);
}

ncclResult_t tt_nccl_stream_of(cudaStream_t cuda, tuttiStream_t *stream)
{
  struct tt_nccl_stream *entry = stream_find(cuda);
  *stream = entry ? atomic_load_explicit(&entry->stream, memory_order_acquire) : NULL;
  int is_its = *stream && entry->cuda == cuda; /* another thread may have filled the free entry meanwhile */
  return is_its ? tuttiSuccess : stream_add(cuda, stream);
}

/* ---- memory ---- */

ncclResult_t tt_nccl_cuda_alloc(void **pointer, size_t size, int *is_made)
{
  const struct tt_nccl_cuda *cuda = driver_find();
  void *context = NULL;
  uint64_t made = 0;
  *is_made = cuda && pointer && size && cuda->context_current(&context) == 0 && context;
  if (!*is_made) return tuttiSuccess;
  int code = cuda->memory_alloc(&made, size);
  if (code != 0)
    return tt_nccl_refuse(tuttiUnhandledCudaError, "cuMemAlloc of %zu bytes failed (CUDA error %d): free some memory "
                          "of the GPU", size, code);
  *pointer = (void *)(uintptr_t)made;
  return tuttiSuccess;
}

ncclResult_t tt_nccl_cuda_free(void *pointer, int *is_freed)
{
  const struct tt_nccl_cuda *cuda = driver_find();
  unsigned kind = 0;
  *is_freed = cuda && pointer && cuda->pointer_attribute(&kind, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)pointer) == 0 &&
              kind == MEMORY_OF_DEVICE;
  int code = *is_freed ? cuda->memory_free((uintptr_t)pointer) : 0;
  if (code == 0) return tuttiSuccess;
  return tt_nccl_refuse(tuttiUnhandledCudaError, "cuMemFree of %p failed (CUDA error %d): it must be the address that "
                        "ncclMemAlloc gave", pointer, code);
}
