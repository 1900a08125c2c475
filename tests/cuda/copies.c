/* SPDX-License-Identifier: BSD-3-Clause */
/* The driver's functions for copies, memory that is set, words of streams, host functions. */
#include <stdlib.h>
#include <string.h>

#include "double.h"

#define MOST_MEMOPS 255

/* Puts work on a stream; with `waits`, until it is done. Ends the function. */
static int put(void *handle, const struct work *work, int waits)
{
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  if (stream->context != current() && (!handle || (uintptr_t)handle == 1)) return leave(INVALID_CONTEXT);
  int code = submit(stream, work_copy(work));
  if (code != SUCCESS || !waits) return leave(code);
  pthread_mutex_lock(&hardware);
  uint64_t number = stream->submitted;
  int is_captured = capture_is_active(stream);
  pthread_mutex_unlock(&hardware);
  unlock_driver();
  if (!is_captured) wait_done(stream, number);
  posted_land();
  return leave(context_error(stream->context));
}

static const void *pointer_of(uint64_t address)
{
  return (const void *)(uintptr_t)address;
}

/* ---- copies ---- */

/* Memory that is not pinned goes through a stage of the driver: the call returns when the copy is done, however long
 * the stream takes to come to it. For that time it is as if it were registered. */
struct pageable {
  void *dst, *src; /* NULL: known to the driver */
};

static void *lend(struct context *context, uint64_t address, size_t len)
{
  struct region region;
  if (!len || memory_find(pointer_of(address), &region)) return NULL;
  return memory_make(context, IS_REGISTERED, len, (void *)(uintptr_t)address);
}

static int copy_put(const char *name, void *stream, const struct work *work, int waits)
{
  int code = enter(name, NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  size_t rows = work->copy.height ? work->copy.height - 1 : 0;
  struct pageable pageable = {
      lend(current(), work->copy.dst, rows * work->copy.dst_pitch + work->copy.width),
      lend(current(), work->copy.src, rows * work->copy.src_pitch + work->copy.width),
  };
  code = put(stream, work, waits || pageable.dst || pageable.src);
  if (pageable.dst) memory_end(pageable.dst, 1);
  if (pageable.src) memory_end(pageable.src, 1);
  return code;
}

static int copy(const char *name, uint64_t dst, uint64_t src, size_t len, void *stream)
{
  struct work work = {.kind = WORK_COPY, .copy = {dst, src, len, 1, len, len}};
  return copy_put(name, stream, &work, 0);
}

EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t len, void *stream)
{
  return copy("cuMemcpyAsync", dst, src, len, stream);
}

EXPORT int cuMemcpyPeerAsync(uint64_t dst, void *dst_context, uint64_t src, void *src_context, size_t len, void *stream)
{
  if (!context_of(dst_context) || !context_of(src_context)) return INVALID_CONTEXT;
  return copy("cuMemcpyPeerAsync", dst, src, len, stream);
}

EXPORT int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, size_t len, void *stream)
{
  return copy("cuMemcpyHtoDAsync", dst, (uintptr_t)src, len, stream);
}

EXPORT int cuMemcpyDtoHAsync_v2(void *dst, uint64_t src, size_t len, void *stream)
{
  return copy("cuMemcpyDtoHAsync", (uintptr_t)dst, src, len, stream);
}

EXPORT int cuMemcpyDtoDAsync_v2(uint64_t dst, uint64_t src, size_t len, void *stream)
{
  return copy("cuMemcpyDtoDAsync", dst, src, len, stream);
}

enum { TYPE_HOST = 1, TYPE_DEVICE, TYPE_UNIFIED = 4 };

static uint64_t side(int type, const void *host, uint64_t device)
{
  return type == TYPE_HOST ? (uintptr_t)host : device;
}

EXPORT int cuMemcpy2DAsync_v2(const struct copy_2d *c, void *stream)
{
  struct work work = {.kind = WORK_COPY, .copy = {0, 0, c->width, c->height, c->dst_pitch, c->src_pitch}};
  if (!c->dst_pitch) work.copy.dst_pitch = c->width;
  if (!c->src_pitch) work.copy.src_pitch = c->width;
  if (work.copy.dst_pitch < c->width || work.copy.src_pitch < c->width) return INVALID_VALUE;
  work.copy.dst = side(c->dst_type, c->dst_host, c->dst_device) + c->dst_y * work.copy.dst_pitch + c->dst_x;
  work.copy.src = side(c->src_type, c->src_host, c->src_device) + c->src_y * work.copy.src_pitch + c->src_x;
  return copy_put("cuMemcpy2DAsync", stream, &work, 0);
}

/* The synchronous ones are work of the legacy stream. */
static int copy_now(const char *name, uint64_t dst, uint64_t src, size_t len)
{
  struct work work = {.kind = WORK_COPY, .copy = {dst, src, len, 1, len, len}};
  return capture_is_unsafe() ? CAPTURE_IMPLICIT : copy_put(name, NULL, &work, 1);
}

EXPORT int cuMemcpy(uint64_t dst, uint64_t src, size_t len)
{
  return copy_now("cuMemcpy", dst, src, len);
}

EXPORT int cuMemcpyHtoD_v2(uint64_t dst, const void *src, size_t len)
{
  return copy_now("cuMemcpyHtoD", dst, (uintptr_t)src, len);
}

EXPORT int cuMemcpyDtoH_v2(void *dst, uint64_t src, size_t len)
{
  return copy_now("cuMemcpyDtoH", (uintptr_t)dst, src, len);
}

EXPORT int cuMemcpyDtoD_v2(uint64_t dst, uint64_t src, size_t len)
{
  return copy_now("cuMemcpyDtoD", dst, src, len);
}

static int set(const char *name, uint64_t dst, unsigned value, unsigned size, size_t count, void *stream)
{
  struct work work = {.kind = WORK_SET, .set = {dst, value, size, count}};
  int code = enter(name, NEEDS_CONTEXT);
  return code != SUCCESS ? code : put(stream, &work, 0);
}

EXPORT int cuMemsetD8Async(uint64_t dst, unsigned char value, size_t count, void *stream)
{
  return set("cuMemsetD8Async", dst, value, 1, count, stream);
}

EXPORT int cuMemsetD32Async(uint64_t dst, unsigned value, size_t count, void *stream)
{
  return set("cuMemsetD32Async", dst, value, 4, count, stream);
}

EXPORT int cuMemsetD8_v2(uint64_t dst, unsigned char value, size_t count)
{
  return set("cuMemsetD8", dst, value, 1, count, NULL);
}

EXPORT int cuMemsetD32_v2(uint64_t dst, unsigned value, size_t count)
{
  return set("cuMemsetD32", dst, value, 4, count, NULL);
}

/* ---- words ---- */

/* Words are in memory of the device, or of the host and pinned: managed memory is not allowed. */
static int memop_check(const struct memop *op)
{
  struct region region;
  if (op->operation == 3 || op->operation == 6) return SUCCESS;
  unsigned size = op->operation == 4 || op->operation == 5 ? 8 : 4;
  if (op->operation < 1 || op->operation > 5) return breach(INVALID_VALUE, "no stream operation %d", op->operation);
  if (op->address % size || !reach(pointer_of(op->address), size) ||
      !memory_find(pointer_of(op->address), &region) || region.kind == IS_MANAGED)
    return breach(INVALID_VALUE, "a stream operation on a word that is not pinned or not aligned");
  return SUCCESS;
}

static int memops(const char *name, void *stream, unsigned count, const struct memop *list, unsigned flags)
{
  struct work work = {.kind = WORK_MEMOPS};
  int code = enter(name, NEEDS_CONTEXT);
  if (code != SUCCESS) return code;
  if (!settings()->has_memops) return leave(NOT_SUPPORTED);
  if (!count || count > MOST_MEMOPS || flags) return leave(INVALID_VALUE);
  for (unsigned k = 0; k < count; k++)
    if (memop_check(&list[k]) != SUCCESS) return leave(INVALID_VALUE);
  work.memops.count = count;
  work.memops.list = (struct memop *)(uintptr_t)list; /* work_copy copies it */
  return put(stream, &work, 0);
}

EXPORT int cuStreamBatchMemOp_v2(void *stream, unsigned count, const struct memop *list, unsigned flags)
{
  return memops("cuStreamBatchMemOp", stream, count, list, flags);
}

static int memop(const char *name, void *stream, int operation, uint64_t address, uint64_t value, unsigned flags)
{
  struct memop op = {.operation = operation, .address = address, .value = value, .flags = flags};
  return memops(name, stream, 1, &op, 0);
}

EXPORT int cuStreamWaitValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
  return memop("cuStreamWaitValue32", stream, 1, address, value, flags);
}

EXPORT int cuStreamWriteValue32_v2(void *stream, uint64_t address, uint32_t value, unsigned flags)
{
  return memop("cuStreamWriteValue32", stream, 2, address, value, flags);
}

EXPORT int cuStreamWaitValue64_v2(void *stream, uint64_t address, uint64_t value, unsigned flags)
{
  return memop("cuStreamWaitValue64", stream, 4, address, value, flags);
}

EXPORT int cuStreamWriteValue64_v2(void *stream, uint64_t address, uint64_t value, unsigned flags)
{
  return memop("cuStreamWriteValue64", stream, 5, address, value, flags);
}

EXPORT int cuLaunchHostFunc(void *stream, void (*function)(void *argument), void *argument)
{
  struct work work = {.kind = WORK_CALL, .call = {function, argument}};
  int code = enter("cuLaunchHostFunc", NEEDS_CONTEXT);
  return code != SUCCESS ? code : put(stream, &work, 0);
}
