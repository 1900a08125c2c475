/* SPDX-License-Identifier: BSD-3-Clause */
/* What channels do: copies, words, kernels, waits. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "double.h"

enum { WAIT_32 = 1, WRITE_32, FLUSH, WAIT_64, WRITE_64, BARRIER };
enum { GEQ, EQ, AND, NOR, COMPARISON = 7 };

static void *copy_of(const void *from, size_t len)
{
  void *to = malloc(len);
  if (!to) abort();
  return memcpy(to, from, len);
}

struct work *work_copy(const struct work *work)
{
  struct work *copy = copy_of(work, sizeof *work);
  if (work->kind == WORK_MEMOPS)
    copy->memops.list = copy_of(work->memops.list, work->memops.count * sizeof *work->memops.list);
  if (work->kind == WORK_KERNEL) copy->launch.args = copy_of(work->launch.args, work->launch.kernel->args_len);
  return copy;
}

void work_free(struct work *work)
{
  if (work->kind == WORK_MEMOPS) free(work->memops.list);
  if (work->kind == WORK_KERNEL) free(work->launch.args);
  free(work);
}

/* From now on every call in the context fails. */
static void spoil(const struct work *work, int code, const char *what)
{
  int none = SUCCESS;
  breach(0, "%s", what);
  __atomic_compare_exchange_n(&work->stream->context->error, &none, code, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED);
}

static int is_of_host(const void *pointer)
{
  struct region region;
  return memory_find(pointer, &region) && region.at == region.inner;
}

static void copy_do(const struct work *work)
{
  posted_land();
  for (size_t row = 0; row < work->copy.height && work->copy.width; row++) {
    const void *to = (const void *)(uintptr_t)(work->copy.dst + row * work->copy.dst_pitch);
    const void *from = (const void *)(uintptr_t)(work->copy.src + row * work->copy.src_pitch);
    void *dst = reach(to, work->copy.width);
    const void *src = reach(from, work->copy.width);
    if (!dst || !src) {
      spoil(work, ILLEGAL_ADDRESS, "a copy of memory that no GPU reaches");
      return;
    }
    if (is_of_host(to) && !is_of_host(from)) posted_copy(work->stream, dst, src, work->copy.width);
    else memmove(dst, src, work->copy.width);
  }
}

static void set_do(const struct work *work)
{
  char *dst = reach((const void *)(uintptr_t)work->set.dst, work->set.count * work->set.size);
  posted_land();
  if (!dst) spoil(work, ILLEGAL_ADDRESS, "memory is set that no GPU reaches");
  for (size_t i = 0; dst && i < work->set.count; i++)
    memcpy(dst + i * work->set.size, &work->set.value, work->set.size);
}

static void kernel_do(const struct work *work)
{
  posted_land();
  const struct kernel *kernel = work->launch.kernel;
  const char *fault = kernel->run(kernel, work->launch.blocks, work->launch.args);
  int none = SUCCESS;
  if (fault == kernel_trapped)
    __atomic_compare_exchange_n(&work->stream->context->error, &none, LAUNCH_FAILED, 0, __ATOMIC_RELAXED,
                                __ATOMIC_RELAXED);
  else if (fault) spoil(work, ILLEGAL_ADDRESS, fault);
}

static int word_is_there(const struct memop *op, const void *word)
{
  uint64_t now = op->operation == WAIT_64 ? __atomic_load_n((const uint64_t *)word, __ATOMIC_ACQUIRE)
                                          : __atomic_load_n((const uint32_t *)word, __ATOMIC_ACQUIRE);
  switch (op->flags & COMPARISON) {
  case GEQ:
    return op->operation == WAIT_64 ? (int64_t)(now - op->value) >= 0
                                    : (int32_t)((uint32_t)now - (uint32_t)op->value) >= 0;
  case EQ: return now == (op->operation == WAIT_64 ? op->value : (uint32_t)op->value);
  case AND: return (now & op->value) != 0;
  default: return (uint32_t)~(now | op->value) != 0;
  }
}

/* Parks the channel. */
static void word_wait(const struct memop *op, const void *word)
{
  for (int tries = 0; !word_is_there(op, word); tries++) {
    if (tries > 20) usleep(tries < 200 ? 20 : 200);
  }
}

static void memops_do(const struct work *work)
{
  for (unsigned k = 0; k < work->memops.count; k++) {
    const struct memop *op = &work->memops.list[k];
    if (op->operation == FLUSH || op->operation == BARRIER) continue;
    unsigned size = op->operation == WAIT_64 || op->operation == WRITE_64 ? 8 : 4;
    void *word = reach((const void *)(uintptr_t)op->address, size);
    if (!word) {
      spoil(work, ILLEGAL_ADDRESS, "a word of a stream operation that no GPU reaches");
      return;
    }
    if (op->operation == WAIT_32 || op->operation == WAIT_64) {
      word_wait(op, word);
    } else if (settings()->has_memops == 1) {
      posted_store(word, op->value, size);
      posted_flag_is_out(work->stream);
    }
  }
}

static void record_do(const struct work *work)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  pthread_mutex_lock(&hardware);
  if (work->event->stream == work->stream && work->event->number == work->number)
    work->event->done_ns = (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
  pthread_mutex_unlock(&hardware);
}

static void after_do(const struct work *work)
{
  if (work->after.stream) wait_done(work->after.stream, work->after.number);
}

/* Host functions are called one at a time, and may not call the driver. */
static void call_do(const struct work *work)
{
  static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER;
  posted_land();
  pthread_mutex_lock(&one);
  is_callback = 1;
  work->call.function(work->call.argument);
  is_callback = 0;
  pthread_mutex_unlock(&one);
}

void work_do(struct work *work)
{
  if (context_error(work->stream->context) && work->kind != WORK_AFTER && work->kind != WORK_RECORD) return;
  switch (work->kind) {
  case WORK_NOTHING: break;
  case WORK_RECORD: record_do(work); break;
  case WORK_AFTER: after_do(work); break;
  case WORK_COPY: copy_do(work); break;
  case WORK_SET: set_do(work); break;
  case WORK_MEMOPS: memops_do(work); break;
  case WORK_KERNEL: kernel_do(work); break;
  case WORK_CALL: call_do(work); break;
  case WORK_FREE:
    if (!memory_end((const void *)(uintptr_t)work->free, 0)) spoil(work, INVALID_VALUE, "cuMemFreeAsync of no memory");
    break;
  }
}
