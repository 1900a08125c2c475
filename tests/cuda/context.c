/* SPDX-License-Identifier: BSD-3-Clause */
/* Devices and contexts. */
#include <stdio.h>
#include <string.h>

#include "control.h"

#define DEPTH 16

struct context contexts[CONTEXTS] = {{.gpu = 0, .is_alive = 1}, {.gpu = 1, .is_alive = 1}, {.gpu = 0, .is_alive = 1}};

static _Thread_local struct context *stack[DEPTH];
static _Thread_local int depth;

struct context *current(void)
{
  return depth ? stack[depth - 1] : NULL;
}

int context_error(const struct context *context)
{
  return __atomic_load_n(&context->error, __ATOMIC_RELAXED);
}

int context_depth(void)
{
  return depth;
}

struct context *context_of(const void *handle)
{
  for (int c = 0; c < CONTEXTS; c++)
    if (handle == &contexts[c]) return contexts[c].is_alive ? &contexts[c] : NULL;
  return NULL;
}

/* ---- devices ---- */

EXPORT int cuDriverGetVersion(int *version)
{
  *version = 13000;
  return SUCCESS;
}

static int gpu_check(const char *name, int device)
{
  return device < 0 || device >= GPUS ? breach(INVALID_DEVICE, "%s of GPU %d", name, device) : SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
  int code = enter("cuDeviceGetCount", 0);
  if (code != SUCCESS) return code;
  *count = GPUS;
  return leave(SUCCESS);
}

EXPORT int cuDeviceGet(int *device, int ordinal)
{
  int code = enter("cuDeviceGet", 0);
  if (code != SUCCESS) return code;
  if (ordinal < 0 || ordinal >= GPUS) return leave(INVALID_DEVICE);
  *device = ordinal;
  return leave(SUCCESS);
}

EXPORT int cuDeviceGetName(char *name, int len, int device)
{
  int code = enter("cuDeviceGetName", 0);
  if (code != SUCCESS) return code;
  snprintf(name, (size_t)len, "GPU of the driver double");
  return leave(gpu_check("cuDeviceGetName", device));
}

EXPORT int cuDeviceGetUuid_v2(unsigned char *uuid, int device)
{
  int code = enter("cuDeviceGetUuid", 0);
  if (code != SUCCESS) return code;
  memset(uuid, 0xd0 + device, 16);
  return leave(gpu_check("cuDeviceGetUuid", device));
}

EXPORT int cuDeviceGetUuid(unsigned char *uuid, int device)
{
  return cuDeviceGetUuid_v2(uuid, device);
}

EXPORT int cuDeviceGetPCIBusId(char *id, int len, int device)
{
  int code = enter("cuDeviceGetPCIBusId", 0);
  if (code != SUCCESS) return code;
  snprintf(id, (size_t)len, "0000:%02x:00.0", 0xd0 + device);
  return leave(gpu_check("cuDeviceGetPCIBusId", device));
}

EXPORT int cuDeviceTotalMem_v2(size_t *bytes, int device)
{
  int code = enter("cuDeviceTotalMem", 0);
  if (code != SUCCESS) return code;
  *bytes = (size_t)8 << 30;
  return leave(gpu_check("cuDeviceTotalMem", device));
}

EXPORT int cuDeviceCanAccessPeer(int *can, int device, int peer)
{
  int code = enter("cuDeviceCanAccessPeer", 0);
  if (code != SUCCESS) return code;
  *can = device != peer;
  return leave(gpu_check("cuDeviceCanAccessPeer", device));
}

/* By number: what programs ask. All others are 0. */
static int attribute_value(int attribute, int device)
{
  switch (attribute) {
  case 1: return 1024;                            /* threads of a block */
  case 16: return 1 + device;                     /* multiprocessors */
  case 34: return 0xd0 + device;                  /* PCI device */
  case 19: case 41: case 91: return 1;            /* host memory is mapped, has one address, registered or not */
  case 75: return 9;                              /* compute capability */
  case 92: case 93: case 122: return settings()->has_memops != 0; /* of streams: memops of 64 bits, with NOR */
  case 102: case 103: return 0;                   /* memory of the double is not mapped by handles */
  case 124: return 1;                             /* dma-buf */
  default: return 0;
  }
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
  int code = enter("cuDeviceGetAttribute", 0);
  if (code != SUCCESS) return code;
  *value = attribute_value(attribute, device);
  return leave(gpu_check("cuDeviceGetAttribute", device));
}

/* ---- errors ---- */

static const struct {
  int code;
  const char *name, *text;
} errors[] = {
    {SUCCESS, "CUDA_SUCCESS", "no error"},
    {INVALID_VALUE, "CUDA_ERROR_INVALID_VALUE", "invalid argument"},
    {OUT_OF_MEMORY, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"},
    {NOT_INITIALIZED, "CUDA_ERROR_NOT_INITIALIZED", "initialization error"},
    {INVALID_CONTEXT, "CUDA_ERROR_INVALID_CONTEXT", "invalid device context"},
    {NOT_FOUND, "CUDA_ERROR_NOT_FOUND", "named symbol not found"},
    {NOT_READY, "CUDA_ERROR_NOT_READY", "device not ready"},
    {ILLEGAL_ADDRESS, "CUDA_ERROR_ILLEGAL_ADDRESS", "an illegal memory access was encountered"},
    {LAUNCH_FAILED, "CUDA_ERROR_LAUNCH_FAILED", "unspecified launch failure"},
    {NOT_PERMITTED, "CUDA_ERROR_NOT_PERMITTED", "operation not permitted"},
    {NOT_SUPPORTED, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported"},
    {CAPTURE_UNSUPPORTED, "CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED", "operation not permitted when stream is capturing"},
    {CAPTURE_IMPLICIT, "CUDA_ERROR_STREAM_CAPTURE_IMPLICIT", "the legacy stream would depend on a capture"},
};

static int error_find(int code)
{
  for (int e = 0; e < (int)(sizeof errors / sizeof errors[0]); e++)
    if (errors[e].code == code) return e;
  return -1;
}

EXPORT int cuGetErrorName(int error, const char **text)
{
  int e = error_find(error);
  *text = e < 0 ? "CUDA_ERROR_OF_THE_DOUBLE" : errors[e].name;
  return SUCCESS;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
  int e = error_find(error);
  *text = e < 0 ? "trouble made for a test" : errors[e].text;
  return SUCCESS;
}

/* ---- contexts ---- */

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
  int code = enter("cuDevicePrimaryCtxRetain", 0);
  if (code == SUCCESS && gpu_check("cuDevicePrimaryCtxRetain", device) != SUCCESS) return leave(INVALID_DEVICE);
  if (code != SUCCESS) return code;
  count_thing("retained", 1, 0);
  __atomic_add_fetch(&contexts[device].retained, 1, __ATOMIC_RELAXED);
  *context = &contexts[device];
  return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
  int code = enter("cuDevicePrimaryCtxRelease", ENDS);
  if (code != SUCCESS) return code;
  if (gpu_check("cuDevicePrimaryCtxRelease", device) != SUCCESS) return leave(INVALID_DEVICE);
  if (__atomic_sub_fetch(&contexts[device].retained, 1, __ATOMIC_RELAXED) < 0)
    breach(0, "the primary context of GPU %d is released more often than retained", device);
  count_thing("retained", 0, 1);
  return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active)
{
  int code = enter("cuDevicePrimaryCtxGetState", 0);
  if (code != SUCCESS) return code;
  if (gpu_check("cuDevicePrimaryCtxGetState", device) != SUCCESS) return leave(INVALID_DEVICE);
  *flags = 0;
  *active = __atomic_load_n(&contexts[device].retained, __ATOMIC_RELAXED) > 0;
  return leave(SUCCESS);
}

static int push(struct context *context)
{
  if (!context) return breach(INVALID_CONTEXT, "a context is made current that does not exist");
  if (depth == DEPTH) return breach(INVALID_CONTEXT, "contexts are pushed and not popped");
  stack[depth++] = context;
  return SUCCESS;
}

EXPORT int cuCtxCreate_v2(void **context, unsigned flags, int device)
{
  (void)flags;
  int code = enter("cuCtxCreate", CREATES);
  if (code != SUCCESS) return code;
  if (gpu_check("cuCtxCreate", device) != SUCCESS) return leave(INVALID_DEVICE);
  pthread_mutex_lock(&hardware);
  int c = MADE_CONTEXTS;
  while (c < CONTEXTS && contexts[c].is_alive) c++;
  if (c < CONTEXTS) contexts[c] = (struct context){.gpu = device, .is_alive = 1};
  pthread_mutex_unlock(&hardware);
  if (c == CONTEXTS) return leave(OUT_OF_MEMORY);
  *context = &contexts[c];
  return leave(push(&contexts[c]));
}

EXPORT int cuCtxDestroy_v2(void *context)
{
  int code = enter("cuCtxDestroy", ENDS | WAITS_IDLE);
  if (code != SUCCESS) return code;
  struct context *gone = context_of(context);
  if (!gone || gone < contexts + MADE_CONTEXTS) return leave(breach(INVALID_CONTEXT, "cuCtxDestroy of no context"));
  gone->is_alive = 0;
  if (current() == gone) depth--;
  return leave(SUCCESS);
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
  int code = enter("cuCtxPushCurrent", 0);
  return code != SUCCESS ? code : leave(push(context_of(context)));
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
  int code = enter("cuCtxPopCurrent", IS_EARLY | IS_DONE_ANYWAY);
  if (code != SUCCESS) return code;
  if (!depth) return leave(breach(INVALID_CONTEXT, "pop of no context"));
  struct context *popped = stack[--depth];
  if (context) *context = popped;
  return leave(SUCCESS);
}

EXPORT int cuCtxSetCurrent(void *context)
{
  int code = enter("cuCtxSetCurrent", IS_EARLY);
  if (code != SUCCESS) return code;
  if (depth) depth--;
  return leave(context ? push(context_of(context)) : SUCCESS);
}

EXPORT int cuCtxGetCurrent(void **context)
{
  int code = enter("cuCtxGetCurrent", 0);
  if (code != SUCCESS) return code;
  *context = current();
  return leave(SUCCESS);
}

EXPORT int cuCtxGetDevice(int *device)
{
  int code = enter("cuCtxGetDevice", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  *device = current()->gpu;
  return leave(SUCCESS);
}

EXPORT int cuCtxSynchronize(void)
{
  int code = enter("cuCtxSynchronize", NEEDS_CONTEXT | IS_UNSAFE);
  if (code != SUCCESS) return code;
  unlock_driver();
  wait_idle();
  posted_land();
  return leave(context_error(current()));
}

EXPORT int cuCtxEnablePeerAccess(void *peer, unsigned flags)
{
  int code = enter("cuCtxEnablePeerAccess", NEEDS_CONTEXT);
  return code != SUCCESS ? code : leave(context_of(peer) && !flags ? SUCCESS : INVALID_VALUE);
}

EXPORT int cuCtxGetStreamPriorityRange(int *least, int *greatest)
{
  int code = enter("cuCtxGetStreamPriorityRange", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return leave(SUCCESS);
}
