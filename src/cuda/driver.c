/* SPDX-License-Identifier: BSD-3-Clause */
#include "cuda/driver_private.h"

#include <dlfcn.h>
#include <link.h>
#include <stdio.h>
#include <string.h>

#define LIBRARY "libcuda.so.1"

struct function {
  const char *name;
  size_t offset;
};

/* Each name carries the version whose parameters driver_private.h has. */
static const struct function functions[] = {
    {"cuInit", offsetof(struct cuda_driver, init)},
    {"cuGetErrorName", offsetof(struct cuda_driver, error_name)},
    {"cuGetErrorString", offsetof(struct cuda_driver, error_string)},
    {"cuDriverGetVersion", offsetof(struct cuda_driver, version)},
    {"cuDeviceGetCount", offsetof(struct cuda_driver, device_count)},
    {"cuPointerGetAttributes", offsetof(struct cuda_driver, pointer_attributes)},
    {"cuDevicePrimaryCtxRetain", offsetof(struct cuda_driver, primary_retain)},
    {"cuDevicePrimaryCtxRelease_v2", offsetof(struct cuda_driver, primary_release)},
    {"cuCtxPushCurrent_v2", offsetof(struct cuda_driver, context_push)},
    {"cuCtxPopCurrent_v2", offsetof(struct cuda_driver, context_pop)},
    {"cuCtxGetDevice", offsetof(struct cuda_driver, context_device)},
    {"cuMemcpyAsync", offsetof(struct cuda_driver, copy)},
    {"cuStreamCreate", offsetof(struct cuda_driver, stream_create)},
    {"cuStreamDestroy_v2", offsetof(struct cuda_driver, stream_destroy)},
    {"cuEventCreate", offsetof(struct cuda_driver, event_create)},
    {"cuEventDestroy_v2", offsetof(struct cuda_driver, event_destroy)},
    {"cuEventRecord", offsetof(struct cuda_driver, event_record)},
    {"cuEventQuery", offsetof(struct cuda_driver, event_query)},
    {"cuModuleLoadData", offsetof(struct cuda_driver, module_load)},
    {"cuModuleUnload", offsetof(struct cuda_driver, module_unload)},
    {"cuModuleGetFunction", offsetof(struct cuda_driver, module_function)},
    {"cuLaunchKernel", offsetof(struct cuda_driver, launch)},
};

/* Without these there are no operations on streams. By the plain names of memory operations a driver gives those of an
 * older interface, which is switched off. */
static const struct function of_streams[] = {
    {"cuCtxGetCurrent", offsetof(struct cuda_driver, context_current)},
    {"cuMemHostRegister_v2", offsetof(struct cuda_driver, pinned_enter)},
    {"cuMemHostUnregister", offsetof(struct cuda_driver, pinned_leave)},
    {"cuMemcpy2DAsync_v2", offsetof(struct cuda_driver, copy_2d)},
    {"cuStreamWaitEvent", offsetof(struct cuda_driver, stream_wait_event)},
    {"cuStreamGetCaptureInfo_v2", offsetof(struct cuda_driver, stream_capture)},
    {"cuThreadExchangeStreamCaptureMode", offsetof(struct cuda_driver, thread_capture_mode)},
    {"cuEventRecordWithFlags", offsetof(struct cuda_driver, event_record_with)},
    {"cuStreamBatchMemOp_v2", offsetof(struct cuda_driver, memops)},
};

/* Returns the name of a function that is not there; NULL: all are. */
static const char *functions_find(struct cuda_driver *driver, const struct function *list, size_t n)
{
  for (size_t i = 0; i < n; i++) {
    void *function = dlsym(driver->library, list[i].name);
    if (!function) return list[i].name;
    memcpy((char *)driver + list[i].offset, &function, sizeof function);
  }
  return NULL;
}

void tt_cuda_driver_close(struct cuda_driver *driver)
{
  if (driver->library) dlclose(driver->library);
  driver->library = NULL;
}

/* Whether this is the driver, or a version of it by its full name. */
static int is_driver(struct dl_phdr_info *info, size_t size, void *context)
{
  const char *slash = strrchr(info->dlpi_name, '/');
  (void)size;
  (void)context;
  return strncmp(slash ? slash + 1 : info->dlpi_name, LIBRARY, strlen("libcuda.so")) == 0;
}

int tt_cuda_driver_open(struct cuda_driver *driver, int load, char *text, size_t size)
{
  *driver = (struct cuda_driver){.library = NULL};
  /* dlopen alone would look for the file in every folder before it finds that nothing has loaded it: 1 ms of the start
   * of a process that was forked. */
  if (load || dl_iterate_phdr(is_driver, NULL))
    driver->library = dlopen(LIBRARY, RTLD_LAZY | RTLD_LOCAL | (load ? 0 : RTLD_NOLOAD));
  if (!driver->library) {
    const char *why = load ? dlerror() : NULL;
    snprintf(text, size, "%s", why ? why : LIBRARY " is not loaded in this process");
    return 0;
  }
  const char *lacks = functions_find(driver, functions, sizeof functions / sizeof *functions);
  if (lacks) {
    snprintf(text, size, LIBRARY " has no %s: it is older than CUDA 11", lacks);
    tt_cuda_driver_close(driver);
    return 0;
  }
  driver->has_streams = !functions_find(driver, of_streams, sizeof of_streams / sizeof *of_streams);
  void *optional = dlsym(driver->library, "cuMemGetHandleForAddressRange");
  memcpy(&driver->memory_handle, &optional, sizeof optional);
  return 1;
}

const char *tt_cuda_text(const struct cuda_driver *driver, int code)
{
  const char *text = NULL;
  return driver->error_string(code, &text) == CU_SUCCESS && text ? text : "";
}

static const char *remedy(int code)
{
  switch (code) {
  case CU_OUT_OF_MEMORY: return ": free some memory of the GPU";
  case CU_UNSUPPORTED_PTX_VERSION:
  case CU_NO_BINARY_FOR_GPU:
    return ": the kernel of TUTTI_CUDA_ON_ERROR=trap wants a newer driver or another GPU";
  case CU_NOT_READY:
  case CU_INVALID_VALUE: return "";
  default: return ": if earlier work on this GPU failed, all that follows fails too";
  }
}

tuttiResult_t tt_cuda_fail(const struct cuda_driver *driver, const char *call, int ordinal, int code)
{
  const char *name = NULL;
  char gpu[32] = "";
  if (driver->error_name(code, &name) != CU_SUCCESS || !name) name = "unknown";
  if (ordinal >= 0) snprintf(gpu, sizeof gpu, " on GPU %d", ordinal);
  return tt_fail(tuttiUnhandledCudaError, "%s failed%s: %s (%s, CUDA error %d)%s", call, gpu,
                 tt_cuda_text(driver, code), name, code, remedy(code));
}
