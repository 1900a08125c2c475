/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions, with the types of its binary interface: handles are pointers, CUdeviceptr is uint64_t,
 * CUdevice and enumerations are int. Its own header need not be there. */
#ifndef DOUBLE_DRIVER_H
#define DOUBLE_DRIVER_H

#include <stddef.h>
#include <stdint.h>

struct memop { /* of cuStreamBatchMemOp */
  int operation;
  uint64_t address, value;
  unsigned flags;
  uint64_t alias, pad;
};

struct node;
struct graph;
struct exec;
struct object; /* a user object */

struct batch_params {
  void *context;
  unsigned count;
  const struct memop *list;
  unsigned flags;
};

struct copy_2d {
  size_t src_x, src_y;
  int src_type;
  const void *src_host;
  uint64_t src_device;
  void *src_array;
  size_t src_pitch;
  size_t dst_x, dst_y;
  int dst_type;
  void *dst_host;
  uint64_t dst_device;
  void *dst_array;
  size_t dst_pitch;
  size_t width, height;
};

/* entry.c */
int cuInit(unsigned flags);

/* context.c */
int cuDriverGetVersion(int *version);
int cuDeviceGetCount(int *count);
int cuDeviceGet(int *device, int ordinal);
int cuDeviceGetName(char *name, int len, int device);
int cuDeviceGetUuid_v2(unsigned char *uuid, int device);
int cuDeviceGetUuid(unsigned char *uuid, int device);
int cuDeviceGetPCIBusId(char *id, int len, int device);
int cuDeviceTotalMem_v2(size_t *bytes, int device);
int cuDeviceCanAccessPeer(int *can, int device, int peer);
int cuDeviceGetAttribute(int *value, int attribute, int device);
int cuGetErrorName(int error, const char **text);
int cuGetErrorString(int error, const char **text);
int cuDevicePrimaryCtxRetain(void **context, int device);
int cuDevicePrimaryCtxRelease_v2(int device);
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active);
int cuCtxCreate_v2(void **context, unsigned flags, int device);
int cuCtxDestroy_v2(void *context);
int cuCtxPushCurrent_v2(void *context);
int cuCtxPopCurrent_v2(void **context);
int cuCtxSetCurrent(void *context);
int cuCtxGetCurrent(void **context);
int cuCtxGetDevice(int *device);
int cuCtxSynchronize(void);
int cuCtxEnablePeerAccess(void *peer, unsigned flags);
int cuCtxGetStreamPriorityRange(int *least, int *greatest);

/* allocate.c */
int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t pointer);
int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer);
int cuMemGetAddressRange_v2(uint64_t *base, size_t *len, uint64_t pointer);
int cuMemGetInfo_v2(size_t *left, size_t *total);
int cuMemAlloc_v2(uint64_t *pointer, size_t len);
int cuMemAllocManaged(uint64_t *pointer, size_t len, unsigned flags);
int cuMemAllocAsync(uint64_t *pointer, size_t len, void *stream);
int cuMemFree_v2(uint64_t pointer);
int cuMemFreeAsync(uint64_t pointer, void *stream);
int cuMemHostAlloc(void **pointer, size_t len, unsigned flags);
int cuMemFreeHost(void *pointer);
int cuMemHostRegister_v2(void *pointer, size_t len, unsigned flags);
int cuMemHostUnregister(void *pointer);
int cuMemHostGetDevicePointer_v2(uint64_t *device, void *pointer, unsigned flags);
int cuMemGetHandleForAddressRange(void *handle, uint64_t pointer, size_t len, int type, unsigned long long flags);

/* copies.c */
int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t len, void *stream);
int cuMemcpyPeerAsync(uint64_t dst, void *dst_context, uint64_t src, void *src_context, size_t len, void *stream);
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t len, void *stream);
int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t len, void *stream);
int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t len, void *stream);
int cuMemcpy2DAsync_v2(const struct copy_2d *copy, void *stream);
int cuMemcpy(uint64_t dst, uint64_t src, size_t len);
int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t len);
int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t len);
int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t len);
int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t count, void *stream);
int cuMemsetD32Async(uint64_t dst, unsigned value, size_t count, void *stream);
int cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t count);
int cuMemsetD32_v2(uint64_t dst, unsigned value, size_t count);
int cuStreamWriteValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags);
int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags);
int cuStreamWriteValue64_v2(void *stream, uint64_t address, uint64_t value, unsigned flags);
int cuStreamWaitValue64_v2(void *stream, uint64_t address, uint64_t value, unsigned flags);
int cuStreamBatchMemOp_v2(void *stream, unsigned count, const struct memop *list, unsigned flags);
int cuLaunchHostFunc(void *stream, void (*function)(void *argument), void *argument);

/* stream.c */
int cuStreamCreate(void **stream, unsigned flags);
int cuStreamCreateWithPriority(void **stream, unsigned flags, int priority);
int cuStreamDestroy_v2(void *stream);
int cuStreamQuery(void *stream);
int cuStreamSynchronize(void *stream);
int cuStreamWaitEvent(void *stream, void *event, unsigned flags);
int cuStreamGetCtx(void *stream, void **context);
int cuStreamGetFlags(void *stream, unsigned *flags);
int cuStreamGetPriority(void *stream, int *priority);
int cuStreamGetId(void *stream, unsigned long long *id);
int cuEventCreate(void **event, unsigned flags);
int cuEventDestroy_v2(void *event);
int cuEventRecord(void *event, void *stream);
int cuEventRecordWithFlags(void *event, void *stream, unsigned flags);
int cuEventQuery(void *event);
int cuEventSynchronize(void *event);
int cuEventElapsedTime(float *ms, void *start, void *end);

/* capture.c, graph.c */
int cuStreamBeginCapture_v2(void *stream, int mode);
int cuStreamEndCapture(void *stream, struct graph **graph);
int cuStreamIsCapturing(void *stream, int *status);
int cuStreamGetCaptureInfo_v2(void *stream, int *status, unsigned long long *id, struct graph **graph,
                              struct node ***deps, size_t *ndeps);
int cuStreamGetCaptureInfo_v3(void *stream, int *status, unsigned long long *id, struct graph **graph,
                              struct node ***deps, const void **edges, size_t *ndeps);
int cuStreamUpdateCaptureDependencies(void *stream, struct node **deps, size_t ndeps, unsigned flags);
int cuStreamUpdateCaptureDependencies_v2(void *stream, struct node **deps, const void *edges, size_t ndeps,
                                         unsigned flags);
int cuThreadExchangeStreamCaptureMode(int *mode);
int cuUserObjectCreate(struct object **object, void *pointer, void (*function)(void *argument), unsigned count,
                       unsigned flags);
int cuUserObjectRetain(struct object *object, unsigned count);
int cuUserObjectRelease(struct object *object, unsigned count);
int cuGraphRetainUserObject(struct graph *graph, struct object *object, unsigned count, unsigned flags);
int cuGraphInstantiateWithFlags(struct exec **exec, struct graph *graph, unsigned long long flags);
int cuGraphLaunch(struct exec *exec, void *stream);
int cuGraphExecDestroy(struct exec *exec);
int cuGraphDestroy(struct graph *graph);
int cuGraphGetNodes(struct graph *graph, struct node **nodes, size_t *count);
int cuGraphAddBatchMemOpNode(struct node **node, struct graph *graph, struct node *const *deps, size_t ndeps,
                             const struct batch_params *params);

/* module.c */
int cuModuleLoadData(void **module, const void *image);
int cuModuleUnload(void *module);
int cuModuleGetFunction(void **function, void *module, const char *name);
int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                   unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                   void **extra);
int cuGetProcAddress_v2(const char *name, void **function, int version, uint64_t flags, int *status);

#endif
