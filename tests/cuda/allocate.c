/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions for memory. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "double.h"

static const void *pointer_of(uint64_t address)
{
  return (const void *)(uintptr_t)address;
}

/* ---- pointers ---- */

enum { OF_CONTEXT = 1, OF_TYPE, OF_DEVICE_POINTER, OF_HOST_POINTER, OF_SYNC_MEMOPS = 6, OF_ID, OF_MANAGED, OF_ORDINAL,
       OF_RANGE_START = 11, OF_RANGE_SIZE, OF_MAPPED };

static void put(void *value, uint64_t number, size_t size)
{
  memcpy(value, &number, size);
}

/* 0 of pointers that the driver does not know, as documented for cuPointerGetAttributes. */
static int attribute_tell(void *value, int attribute, uint64_t pointer, const struct region *region)
{
  int is_host = region && (region->kind == IS_PINNED || region->kind == IS_REGISTERED);
  switch (attribute) {
  case OF_CONTEXT: put(value, region && region->kind != IS_POOLED ? (uintptr_t)region->context : 0, 8); break;
  case OF_TYPE: put(value, !region ? 0 : is_host ? 1 : 2, 4); break;
  case OF_DEVICE_POINTER: put(value, region ? pointer : 0, 8); break;
  case OF_HOST_POINTER: put(value, is_host ? pointer : 0, 8); break;
  case OF_ID: put(value, region ? region->id : 0, 8); break;
  case OF_MANAGED: put(value, region && region->kind == IS_MANAGED, 4); break;
  case OF_ORDINAL: put(value, region ? (uint64_t)region->context->gpu : (uint64_t)-2, 4); break;
  case OF_RANGE_START: put(value, region ? (uintptr_t)region->at : 0, 8); break;
  case OF_RANGE_SIZE: put(value, region ? region->len : 0, 8); break;
  case OF_MAPPED: put(value, region != NULL, 1); break;
  default: return breach(INVALID_VALUE, "attribute %d of a pointer is not known here", attribute);
  }
  return SUCCESS;
}

EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t pointer)
{
  struct region region;
  int code = enter("cuPointerGetAttributes", 0);
  if (code != SUCCESS) return code;
  int is_known = memory_find(pointer_of(pointer), &region);
  for (unsigned k = 0; k < count && code == SUCCESS; k++)
    code = attribute_tell(values[k], attributes[k], pointer, is_known ? &region : NULL);
  return leave(code);
}

EXPORT int cuPointerGetAttribute(void *value, int attribute, uint64_t pointer)
{
  struct region region;
  int code = enter("cuPointerGetAttribute", 0);
  if (code != SUCCESS) return code;
  if (!memory_find(pointer_of(pointer), &region)) return leave(INVALID_VALUE);
  return leave(attribute_tell(value, attribute, pointer, &region));
}

EXPORT int cuMemGetAddressRange_v2(uint64_t *base, size_t *len, uint64_t pointer)
{
  struct region region;
  int code = enter("cuMemGetAddressRange", 0);
  if (code != SUCCESS) return code;
  if (!memory_find(pointer_of(pointer), &region)) return leave(NOT_FOUND);
  if (base) *base = (uintptr_t)region.at;
  if (len) *len = region.len;
  return leave(SUCCESS);
}

EXPORT int cuMemGetInfo_v2(size_t *left, size_t *total)
{
  int code = enter("cuMemGetInfo", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  *left = (size_t)4 << 30;
  *total = (size_t)8 << 30;
  return leave(SUCCESS);
}

/* ---- memory of GPUs ---- */

static int make(const char *name, enum memory_kind kind, uint64_t *pointer, size_t len)
{
  int code = enter(name, NEEDS_CONTEXT | CREATES | IS_UNSAFE);
  if (code != SUCCESS) return code;
  if (!len) return leave(INVALID_VALUE);
  void *memory = memory_make(current(), kind, len, NULL);
  if (memory) *pointer = (uintptr_t)memory;
  return leave(memory ? SUCCESS : OUT_OF_MEMORY);
}

EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t len)
{
  return make("cuMemAlloc", IS_DEVICE, pointer, len);
}

EXPORT int cuMemAllocManaged(uint64_t *pointer, size_t len, unsigned flags)
{
  return flags != 1 && flags != 2 ? INVALID_VALUE : make("cuMemAllocManaged", IS_MANAGED, pointer, len);
}

/* The memory of a pool is there at once, and belongs to no context. */
EXPORT int cuMemAllocAsync(uint64_t *pointer, size_t len, void *stream)
{
  return stream_of(stream) ? make("cuMemAllocAsync", IS_POOLED, pointer, len) : INVALID_HANDLE;
}

static int end(const char *name, const void *pointer, int is_host)
{
  int code = enter(name, NEEDS_CONTEXT | ENDS | WAITS_IDLE | IS_UNSAFE);
  if (code != SUCCESS) return code;
  if (!pointer) return leave(SUCCESS);
  return leave(memory_end(pointer, is_host) ? SUCCESS : breach(INVALID_VALUE, "%s of what is not allocated", name));
}

EXPORT int cuMemFree_v2(uint64_t pointer)
{
  return end("cuMemFree", pointer_of(pointer), 0);
}

EXPORT int cuMemFreeAsync(uint64_t pointer, void *handle)
{
  int code = enter("cuMemFreeAsync", NEEDS_CONTEXT | ENDS);
  if (code != SUCCESS) return code;
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  struct work work = {.kind = WORK_FREE, .free = pointer};
  return leave(submit(stream, work_copy(&work)));
}

/* ---- memory of the host ---- */

EXPORT int cuMemHostAlloc(void **pointer, size_t len, unsigned flags)
{
  int code = enter("cuMemHostAlloc", NEEDS_CONTEXT | CREATES | IS_UNSAFE);
  if (code != SUCCESS) return code;
  if (flags > 7) return leave(INVALID_VALUE);
  void *memory = memory_make(current(), IS_PINNED, len, NULL);
  if (memory) *pointer = memory;
  return leave(memory ? SUCCESS : OUT_OF_MEMORY);
}

EXPORT int cuMemFreeHost(void *pointer)
{
  return end("cuMemFreeHost", pointer, 1);
}

EXPORT int cuMemHostRegister_v2(void *pointer, size_t len, unsigned flags)
{
  struct region region;
  int code = enter("cuMemHostRegister", NEEDS_CONTEXT | CREATES | IS_UNSAFE);
  if (code != SUCCESS) return code;
  if (!pointer || !len || flags > 15) return leave(INVALID_VALUE);
  if (memory_find(pointer, &region) || memory_find((char *)pointer + len - 1, &region))
    return leave(ALREADY_REGISTERED);
  return leave(memory_make(current(), IS_REGISTERED, len, pointer) ? SUCCESS : OUT_OF_MEMORY);
}

EXPORT int cuMemHostUnregister(void *pointer)
{
  int code = enter("cuMemHostUnregister", NEEDS_CONTEXT | ENDS | WAITS_IDLE | IS_UNSAFE);
  if (code != SUCCESS) return code;
  return leave(memory_end(pointer, 1) ? SUCCESS : breach(NOT_REGISTERED, "cuMemHostUnregister of what is not"));
}

EXPORT int cuMemHostGetDevicePointer_v2(uint64_t *device, void *pointer, unsigned flags)
{
  struct region region;
  int code = enter("cuMemHostGetDevicePointer", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  if (flags || !memory_find(pointer, &region) || region.at != region.inner) return leave(INVALID_VALUE);
  *device = (uintptr_t)pointer;
  return leave(SUCCESS);
}

/* A file of that length stands for the dma-buf; its bytes are others. */
EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t pointer, size_t len, int type, unsigned long long flags)
{
  struct region region;
  int code = enter("cuMemGetHandleForAddressRange", NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  if (type != 1 || flags || pointer % PAGE || len % PAGE || !len || !memory_find(pointer_of(pointer), &region))
    return leave(INVALID_VALUE);
  int fd = memfd_create("cuda_double_dma_buf", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)len) != 0) return leave(OUT_OF_MEMORY);
  memcpy(handle, &fd, sizeof fd);
  return leave(SUCCESS);
}
