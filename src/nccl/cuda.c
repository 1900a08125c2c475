/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory is recognised, not served: a program that has some gets an error instead of a crash.
 *
 * The driver is asked, if the process has loaded it; nothing here loads it. Its functions and numbers are those of the
 * documented driver interface. */
#include <dlfcn.h>
#include <stdint.h>

#include "nccl/shim.h"

#define ATTRIBUTE_MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_OF_DEVICE 2      /* CU_MEMORYTYPE_DEVICE */

/* CUDA_ERROR_NOT_INITIALIZED, _DEINITIALIZED, _INVALID_CONTEXT: then no stream holds anything. */
#define NO_CONTEXT(code) ((code) == 3 || (code) == 4 || (code) == 201)

typedef int pointer_attribute_fn(void *value, int attribute, uint64_t pointer);
typedef int stream_synchronize_fn(cudaStream_t stream);

_Atomic int tt_nccl_cuda;

/* Written before tt_nccl_cuda becomes 1, by threads that write the same; read after. */
static _Atomic(pointer_attribute_fn *) pointer_attribute;
static _Atomic(stream_synchronize_fn *) stream_synchronize;

void tt_nccl_cuda_look(void)
{
  if (atomic_load(&tt_nccl_cuda)) return;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  pointer_attribute_fn *attribute = (pointer_attribute_fn *)dlsym(driver, "cuPointerGetAttribute");
  stream_synchronize_fn *synchronize = (stream_synchronize_fn *)dlsym(driver, "cuStreamSynchronize");
  if (!attribute || !synchronize) {
    dlclose(driver);
    return;
  }
  atomic_store(&pointer_attribute, attribute);
  atomic_store(&stream_synchronize, synchronize);
  atomic_store(&tt_nccl_cuda, 1); /* the handle stays open, and with it the driver */
}

static ncclResult_t buffer_check(const char *name, const void *buffer)
{
  unsigned kind = 0;
  if (!buffer || atomic_load(&pointer_attribute)(&kind, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)buffer) != 0 ||
      kind != MEMORY_OF_DEVICE)
    return tuttiSuccess;
  return tt_nccl_refuse(tuttiInvalidUsage,
                        "%s %p is memory of a CUDA device: this library carries host memory only so far; copy it to "
                        "the host, or run the program without this library",
                        name, buffer);
}

ncclResult_t tt_nccl_cuda_check(const void *sendbuff, const void *recvbuff, cudaStream_t stream)
{
  ncclResult_t result = buffer_check("sendbuff", sendbuff);
  if (result == tuttiSuccess) result = buffer_check("recvbuff", recvbuff);
  if (result != tuttiSuccess) return result;
  int code = atomic_load(&stream_synchronize)(stream);
  if (code == 0 || NO_CONTEXT(code)) return tuttiSuccess;
  return tt_nccl_refuse(tuttiUnhandledCudaError,
                        "stream %p cannot be waited for (CUDA error %d): operations on host memory cannot be part of "
                        "a CUDA graph, and earlier work of the stream must have succeeded",
                        (void *)stream, code);
}
