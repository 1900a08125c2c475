/* SPDX-License-Identifier: BSD-3-Clause */
/* Device memory is recognised but not served: a program that passes it gets an error instead of a crash.
 *
 * The driver is asked if the process has loaded it; nothing here loads it. Its functions and numbers are those of the
 * documented driver interface. */
#include <dlfcn.h>
#include <stdint.h>
#include <string.h>

#include "nccl/shim.h"

#define ATTRIBUTE_MEMORY_TYPE 2 /* CU_POINTER_ATTRIBUTE_MEMORY_TYPE */
#define MEMORY_OF_DEVICE 2      /* CU_MEMORYTYPE_DEVICE */

/* CUDA_ERROR_NOT_INITIALIZED, _DEINITIALIZED, _INVALID_CONTEXT: no stream can hold work then. */
#define NO_CONTEXT(code) ((code) == 3 || (code) == 4 || (code) == 201)

void tt_nccl_cuda_look(void)
{
  if (atomic_load(&tt_nccl_process.cuda)) return;
  void *driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  if (!driver) return;
  void *symbols[] = {dlsym(driver, "cuPointerGetAttribute"), dlsym(driver, "cuStreamSynchronize")};
  tt_pointer_attribute_fn *attribute;
  tt_stream_synchronize_fn *synchronize;
  if (!symbols[0] || !symbols[1]) {
    dlclose(driver);
    return;
  }
  memcpy(&attribute, &symbols[0], sizeof attribute);
  memcpy(&synchronize, &symbols[1], sizeof synchronize);
  atomic_store(&tt_nccl_process.pointer_attribute, attribute);
  atomic_store(&tt_nccl_process.stream_synchronize, synchronize);
  atomic_store(&tt_nccl_process.cuda, 1); /* the handle stays open, so the driver stays loaded */
}

static ncclResult_t buffer_check(const char *name, const void *buffer)
{
  unsigned kind = 0;
  tt_pointer_attribute_fn *attribute = atomic_load(&tt_nccl_process.pointer_attribute);
  if (!buffer || attribute(&kind, ATTRIBUTE_MEMORY_TYPE, (uintptr_t)buffer) != 0 || kind != MEMORY_OF_DEVICE)
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
  int code = atomic_load(&tt_nccl_process.stream_synchronize)(stream);
  if (code == 0 || NO_CONTEXT(code)) return tuttiSuccess;
  return tt_nccl_refuse(tuttiUnhandledCudaError,
                        "stream %p cannot be waited for (CUDA error %d): operations on host memory cannot be part of "
                        "a CUDA graph, and earlier work of the stream must have succeeded",
                        (void *)stream, code);
}
