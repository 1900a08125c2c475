/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions that are used here, found by name at run time. Names and numbers are those of the documented
 * driver interface; if its header is there, tests/unit/cuda_driver.c compares them. Private to cuda.
 *
 * Handles are pointers, CUdeviceptr is uint64_t, CUdevice and the enums are int. */
#ifndef TT_CUDA_DRIVER_H
#define TT_CUDA_DRIVER_H

#include "base/base.h"

enum {
  CU_SUCCESS = 0,
  CU_INVALID_VALUE = 1,
  CU_OUT_OF_MEMORY = 2,
  CU_NOT_INITIALIZED = 3,
  CU_DEINITIALIZED = 4,
  CU_NO_DEVICE = 100,
  CU_INVALID_CONTEXT = 201,
  CU_NO_BINARY_FOR_GPU = 209,
  CU_UNSUPPORTED_PTX_VERSION = 222,
  CU_NOT_FOUND = 500,
  CU_NOT_READY = 600,

  CU_POINTER_CONTEXT = 1, /* attributes of a pointer */
  CU_POINTER_MEMORY_TYPE = 2,
  CU_POINTER_IS_MANAGED = 8,
  CU_POINTER_DEVICE_ORDINAL = 9,
  CU_MEMORY_DEVICE = 2, /* type of memory */

  CU_STREAM_NON_BLOCKING_FLAG = 1,
  CU_EVENT_DISABLE_TIMING_FLAG = 2,
  CU_HOST_PORTABLE_AND_MAPPED = 3,
  CU_DMA_BUF = 1, /* type of a handle for a range of addresses */
  CU_MEMORY_UNIFIED = 4, /* of a copy of rows: the driver finds out */
  CU_MEMOP_WAIT_32 = 1,  /* until (int32_t)(*address - value) >= 0 */
  CU_MEMOP_WRITE_32 = 2,
  CU_CAPTURE_NONE = 0,
  CU_CAPTURE_ACTIVE = 1,
  CU_CAPTURE_MODE_RELAXED = 2,
  CU_MEMOP_AND = 2, /* a flag of a wait: until *address & value is not 0 */
  CU_EVENT_EXTERNAL = 1 /* of a capture: the event is recorded and waited for when the graph runs */
};

/* CUstreamBatchMemOpParams of a 32-bit word. */
struct cuda_memop {
  int operation;
  uint64_t address, value; /* value: the low half */
  unsigned flags;
  uint64_t rest[2];
};

/* CUDA_MEMCPY2D. */
struct cuda_copy_2d {
  size_t src_x, src_y;
  int src_kind;
  const void *src_host;
  uint64_t src_device;
  void *src_array;
  size_t src_pitch, dst_x, dst_y;
  int dst_kind;
  void *dst_host;
  uint64_t dst_device;
  void *dst_array;
  size_t dst_pitch, width, height;
};

/* More than 25 fields: each is a function of the driver. */
struct cuda_driver {
  void *library;
  int (*init)(unsigned flags);
  int (*error_name)(int code, const char **text);
  int (*error_string)(int code, const char **text);
  int (*version)(int *version);
  int (*device_count)(int *count);
  int (*pointer_attributes)(unsigned count, int *attributes, void **values, uint64_t pointer);
  int (*primary_retain)(void **context, int device);
  int (*primary_release)(int device);
  int (*context_push)(void *context);
  int (*context_pop)(void **context);
  int (*context_device)(int *device);
  int (*memory_handle)(void *handle, uint64_t pointer, size_t len, int type, unsigned long long flags); /* NULL: the
                                                                                     driver is older than CUDA 11.7 */
  int (*copy)(uint64_t dst, uint64_t src, size_t len, void *stream);
  int (*stream_create)(void **stream, unsigned flags);
  int (*stream_destroy)(void *stream);
  int (*event_create)(void **event, unsigned flags);
  int (*event_destroy)(void *event);
  int (*event_record)(void *event, void *stream);
  int (*event_query)(void *event);
  int (*module_load)(void **module, const void *image);
  int (*module_unload)(void *module);
  int (*module_function)(void **function, void *module, const char *name);
  int has_streams; /* 1: those until the next empty line are there: the driver is that of CUDA 11.7 or newer */
  int (*context_current)(void **context);
  int (*pinned_enter)(void *pointer, size_t len, unsigned flags);
  int (*pinned_leave)(void *pointer);
  int (*copy_2d)(const struct cuda_copy_2d *copy, void *stream);
  int (*stream_wait_event)(void *stream, void *event, unsigned flags);
  int (*stream_capture)(void *stream, int *status, unsigned long long *id, void **graph, const void ***nodes,
                        size_t *nnodes);
  int (*thread_capture_mode)(int *mode); /* of the calling thread; exchanged */
  int (*event_record_with)(void *event, void *stream, unsigned flags);
  int (*memops)(void *stream, unsigned count, struct cuda_memop *memops, unsigned flags);

  int (*launch)(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x, unsigned block_y,
                unsigned block_z, unsigned shared_bytes, void *stream, void **params, void **extra);
};

/* Finds the driver that the process has loaded; with `load`, loads it. 1 if it has all functions; else text says why
 * not. */
int tt_cuda_driver_open(struct cuda_driver *driver, int load, char *text, size_t size);
void tt_cuda_driver_close(struct cuda_driver *driver);

/* tt_fail with "<call> failed on GPU <ordinal>: <the driver's text>"; ordinal -1: no particular GPU. */
tuttiResult_t tt_cuda_fail(const struct cuda_driver *driver, const char *call, int ordinal, int code);

/* The driver's text for a code, "" if it has none. */
const char *tt_cuda_text(const struct cuda_driver *driver, int code);

#endif
