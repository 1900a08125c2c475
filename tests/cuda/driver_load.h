/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions by name, of a real driver or of the double, for programs that are linked with neither. */
#ifndef TEST_DRIVER_LOAD_H
#define TEST_DRIVER_LOAD_H

#include "driver.h"

#define DRIVER_FUNCTIONS(F)                                                                                    \
  F(cuInit) F(cuDriverGetVersion) F(cuDeviceGetCount) F(cuDeviceGetName) F(cuDeviceGetAttribute)               \
  F(cuGetErrorName) F(cuGetErrorString) F(cuDevicePrimaryCtxRetain) F(cuDevicePrimaryCtxRelease_v2)            \
  F(cuCtxSetCurrent) F(cuCtxGetCurrent) F(cuCtxGetDevice) F(cuCtxSynchronize) F(cuCtxPushCurrent_v2)           \
  F(cuCtxPopCurrent_v2) F(cuPointerGetAttributes) F(cuPointerGetAttribute) F(cuMemAlloc_v2) F(cuMemFree_v2)    \
  F(cuMemHostAlloc) F(cuMemFreeHost) F(cuMemHostRegister_v2) F(cuMemHostUnregister) F(cuMemcpyAsync)           \
  F(cuMemcpy2DAsync_v2) F(cuMemcpyHtoD_v2) F(cuMemcpyDtoH_v2) F(cuMemsetD8Async) F(cuMemsetD32Async)           \
  F(cuStreamCreate) F(cuStreamDestroy_v2) F(cuStreamQuery) F(cuStreamSynchronize) F(cuStreamWaitEvent)         \
  F(cuEventCreate) F(cuEventDestroy_v2) F(cuEventRecord) F(cuEventRecordWithFlags) F(cuEventQuery)             \
  F(cuEventSynchronize) F(cuStreamWriteValue32_v2) F(cuStreamWaitValue32_v2) F(cuStreamBatchMemOp_v2)          \
  F(cuLaunchHostFunc) F(cuModuleLoadData) F(cuModuleUnload) F(cuModuleGetFunction) F(cuLaunchKernel)           \
  F(cuStreamBeginCapture_v2) F(cuStreamEndCapture) F(cuStreamIsCapturing) F(cuStreamGetCaptureInfo_v2)         \
  F(cuThreadExchangeStreamCaptureMode) F(cuUserObjectCreate) F(cuGraphRetainUserObject)                        \
  F(cuGraphInstantiateWithFlags) F(cuGraphLaunch) F(cuGraphExecDestroy) F(cuGraphDestroy) F(cuGraphGetNodes)   \
  F(cuGetProcAddress_v2)

/* More than 25 fields: each is a function of the driver. */
struct driver {
#define DRIVER_FIELD(name) __typeof__(&name) name;
  DRIVER_FUNCTIONS(DRIVER_FIELD)
#undef DRIVER_FIELD
  /* Of the double alone; NULL with a real driver. */
  void (*seal)(int is_wanted);
  void (*report)(void);
};

/* Loads the library; NULL, or what is wrong. */
const char *driver_load(struct driver *driver, const char *library);

#endif
