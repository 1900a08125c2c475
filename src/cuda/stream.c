/* SPDX-License-Identifier: BSD-3-Clause */
/* Slots: made with a communicator, used by its calls, retired at its end. */
#include "cuda/stream.h"

#include <sched.h>
#include <stddef.h>
#include <string.h>

#include "cuda/cuda_private.h"
#include "memory/memory.h"

#define WORD_BYTES 64   /* a word has a line of its own */
#define HEAD_BYTES 4096 /* words and scalar, before the slots */
#define PROBE_AT 2048   /* words of the probe, which a GPU may still write to when the slots are in use */
#define TURN_DONE 1u /* enum tt_turn of exec.h, and TT_TURN_TAKEN */
#define TURN_NEXT 2u
#define TURN_TAKEN ((uint32_t)1 << 31)
#define RELEASED ((uint32_t)1 << 30) /* numbers that may still be given out when all waits are released */
#define LONGEST_PITCH ((size_t)1 << 30)
/* A driver sends fewer bytes to a GPU through the engine of its kernels, which processes get in turns of some 100 us;
 * in rows it does not (docs/results/2026-11-28-h200.md). */
#define FLAT_BYTES ((size_t)2048)

struct held {
  struct tt_slots slots; /* first member: a pointer to it is a pointer to the struct */
  struct held *next;     /* in the list of those that are retired */
  struct cuda *cuda;
  void *context;
  void *memory;
  void *event;           /* recorded behind the last operation */
  void *joint;           /* for the streams of a group */
  void *inner;           /* recorded in a graph behind the last operation there */
  uint64_t graph;        /* the id of that capture; 0: there was none */
  struct cuda_trap trap;
  int is_open;           /* 1: an operation was begun and is not marked: the event does not tell when it ends */
  int is_parked;         /* 1: the GPU may use it at any time, so it is never used again */
  size_t len;
  int is_pinned;
};

static struct held *held_of(const struct tt_slots *slots)
{
  return (struct held *)(uintptr_t)slots;
}

static tuttiResult_t failed(const struct held *held, const char *call, int code)
{
  return tt_cuda_fail(&held->cuda->driver, call, held->slots.ordinal, code);
}

/* ---- made and retired ---- */

/* Its context is current. */
static void held_free(struct held *held)
{
  const struct cuda_driver *driver = &held->cuda->driver;
  tt_cuda_trap_unload(held->cuda, &held->trap);
  if (held->event) driver->event_destroy(held->event);
  if (held->joint) driver->event_destroy(held->joint);
  if (held->inner) driver->event_destroy(held->inner);
  if (held->slots.stream) driver->stream_destroy(held->slots.stream);
  if (held->is_pinned) driver->pinned_leave(held->memory);
  if (held->memory) tt_heap_free(held->memory);
  tt_free(held);
}

/* The context is current. */
static tuttiResult_t held_fill(struct held *held, int is_own)
{
  const struct cuda_driver *driver = &held->cuda->driver;
  int code = driver->context_device(&held->slots.ordinal);
  if (code != CU_SUCCESS) return failed(held, "cuCtxGetDevice", code);
  tuttiResult_t result = tt_heap_alloc(&held->memory, held->len);
  if (result != tuttiSuccess) return result;
  code = driver->pinned_enter(held->memory, held->len, CU_HOST_PORTABLE_AND_MAPPED);
  if (code != CU_SUCCESS) return failed(held, "cuMemHostRegister", code);
  held->is_pinned = 1;
  code = driver->event_create(&held->event, CU_EVENT_DISABLE_TIMING_FLAG);
  if (code == CU_SUCCESS) code = driver->event_create(&held->joint, CU_EVENT_DISABLE_TIMING_FLAG);
  if (code == CU_SUCCESS) code = driver->event_create(&held->inner, CU_EVENT_DISABLE_TIMING_FLAG);
  if (code != CU_SUCCESS) return failed(held, "cuEventCreate", code);
  if (is_own) code = driver->stream_create(&held->slots.stream, CU_STREAM_NON_BLOCKING_FLAG);
  if (code != CU_SUCCESS) return failed(held, "cuStreamCreate", code);
  const struct cuda_probe probe = {held->cuda, (void *)((char *)held->memory + PROBE_AT), held->event};
  held->is_open = !tt_cuda_words_probe(&probe);
  return tuttiSuccess;
}

static void held_reset(struct held *held, size_t bytes)
{
  char *memory = held->memory;
  memset(memory, 0, HEAD_BYTES);
  held->slots.ready = (_Atomic uint32_t *)(void *)memory;
  held->slots.done = (_Atomic uint32_t *)(void *)(memory + WORD_BYTES);
  held->slots.scalar = memory + (size_t)2 * WORD_BYTES;
  held->slots.failed = NULL;
  held->slots.turn_ready = (_Atomic uint32_t *)(void *)(memory + (size_t)3 * WORD_BYTES);
  held->slots.turn_done = (_Atomic uint32_t *)(void *)(memory + (size_t)4 * WORD_BYTES);
  atomic_store(held->slots.turn_done, TURN_NEXT);
  held->graph = 0;
  held->slots.over = (_Atomic uint32_t *)(void *)(memory + (size_t)6 * WORD_BYTES);
  held->slots.first = memory + HEAD_BYTES;
  held->slots.bytes = bytes;
  held->slots.n = held->slots.stream ? TT_OWN_SLOTS : TT_SLOTS;
  atomic_store(&held->slots.newest, 0);
  atomic_store(&held->slots.newest_turn, 0);
  held->next = NULL;
}

/* A stream may still wait in the context, so that whatever is freed there would wait for it. The context is current. A
 * call without a stream that has failed left copies on its own stream, unmarked. */
static int is_waited_for(struct held *held)
{
  if (held->is_open && held->slots.stream) tt_slots_mark(&held->slots, held->slots.stream, 0);
  return held->is_open || held->cuda->driver.event_query(held->event) != CU_SUCCESS;
}

static void retired_add(struct cuda *cuda, struct held *first)
{
  pthread_mutex_lock(&tt_process.cuda_mutex);
  while (first) {
    struct held *next = first->next;
    first->next = cuda->retired;
    cuda->retired = first;
    first = next;
  }
  pthread_mutex_unlock(&tt_process.cuda_mutex);
}

/* Takes retired slots of the context, which is current, if its GPU has finished with them. `making` is held. */
static struct held *retired_take(struct cuda *cuda, const void *context, size_t len, int is_own)
{
  pthread_mutex_lock(&tt_process.cuda_mutex);
  struct held *all = cuda->retired, *taken = NULL;
  cuda->retired = NULL;
  pthread_mutex_unlock(&tt_process.cuda_mutex);
  for (struct held **at = &all; *at; at = &(*at)->next) {
    struct held *held = *at;
    int is_like = held->context == context && held->len == len && !held->slots.stream == !is_own;
    if (!is_like || held->is_parked || is_waited_for(held)) continue;
    taken = held;
    *at = held->next;
    break;
  }
  retired_add(cuda, all);
  return taken;
}

static tuttiResult_t made_inside(struct held **out, struct cuda *cuda, void *context, size_t bytes, int is_own)
{
  size_t len = HEAD_BYTES + (is_own ? TT_OWN_SLOTS : TT_SLOTS) * bytes;
  struct held *held = retired_take(cuda, context, len, is_own);
  tuttiResult_t result = tuttiSuccess;
  if (!held) {
    held = tt_alloc(1, sizeof *held);
    if (!held) return tt_fail(tuttiSystemError, "out of memory for the slots of a CUDA context");
    held->cuda = cuda;
    held->context = context;
    held->len = len;
    held->slots.ordinal = -1;
    result = held_fill(held, is_own);
  }
  if (result == tuttiSuccess) {
    held_reset(held, bytes);
    *out = held;
  } else held_free(held);
  return result;
}

/* NULL: there is none. */
static void *context_find(struct cuda *cuda, int device, const struct tt_slots *beside)
{
  const struct cuda_driver *driver = &cuda->driver;
  void *context = NULL;
  int count = 0;
  if (beside) return held_of(beside)->context;
  if (device < 0) return driver->context_current(&context) == CU_SUCCESS ? context : NULL;
  if (driver->device_count(&count) != CU_SUCCESS || device >= count || device >= CUDA_GPUS) return NULL;
  return tt_cuda_primary(cuda, device);
}

static tuttiResult_t made(struct tt_slots **slots, void *context, size_t bytes, int is_own)
{
  struct cuda *cuda = tt_process.cuda;
  struct held *held = NULL;
  void *popped;
  int code = cuda->driver.context_push(context);
  if (code != CU_SUCCESS) return tt_cuda_fail(&cuda->driver, "cuCtxPushCurrent", -1, code);
  pthread_mutex_lock(&cuda->making);
  tuttiResult_t result = made_inside(&held, cuda, context, bytes, is_own);
  pthread_mutex_unlock(&cuda->making);
  cuda->driver.context_pop(&popped);
  if (held) *slots = &held->slots;
  return result;
}

tuttiResult_t tt_slots_make(struct tt_slots **slots, size_t bytes, int device, const struct tt_slots *beside)
{
  struct cuda *cuda = tt_process.cuda;
  *slots = NULL;
  if (!cuda || !cuda->driver.has_streams) return tuttiSuccess;
  void *context = context_find(cuda, device, beside);
  return context ? made(slots, context, bytes, 0) : tuttiSuccess;
}

tuttiResult_t tt_slots_make_own(struct tt_slots **own, const struct tt_slots *beside)
{
  *own = NULL;
  return made(own, held_of(beside)->context, beside->bytes, 1);
}

void tt_slots_retire(struct tt_slots *slots)
{
  if (!slots) return;
  struct held *held = held_of(slots);
  held->is_parked = !slots->stream && (held->is_open || atomic_load(&slots->newest_turn) != 0);
  held->next = NULL;
  retired_add(held->cuda, held);
}

#define QUIET_NS 100000000u /* what a call without a stream has left after a failure of the driver is over by then */

static int any_is_waited_for(struct cuda *cuda)
{
  uint64_t until_ns = tt_now_ns() + QUIET_NS;
  int any = 0;
  for (struct held *held = cuda->retired; held && !any; held = held->next) {
    void *popped;
    if (cuda->driver.context_push(held->context) != CU_SUCCESS) continue; /* it is gone, or has failed for good */
    while ((any = is_waited_for(held)) && held->slots.stream && tt_now_ns() < until_ns) sched_yield();
    cuda->driver.context_pop(&popped);
  }
  return any;
}

int tt_cuda_retired_free(struct cuda *cuda)
{
  const struct cuda_driver *driver = &cuda->driver;
  struct held *kept = NULL;
  if (any_is_waited_for(cuda)) return 0;
  for (struct held *held = cuda->retired, *next; held; held = next) {
    void *popped;
    next = held->next;
    int is_entered = driver->context_push(held->context) == CU_SUCCESS;
    if (is_entered && !held->is_parked) held_free(held);
    else if (is_entered) {
      held->next = kept;
      kept = held;
    } else { /* the context is gone, and with it whatever could use the memory */
      tt_heap_free(held->memory);
      tt_free(held);
    }
    if (is_entered) driver->context_pop(&popped);
  }
  cuda->retired = kept;
  return kept == NULL;
}

tuttiResult_t tt_slots_set_trap(struct tt_slots *slots)
{
  struct held *held = held_of(slots);
  tuttiResult_t result = tt_slots_enter(slots);
  if (result != tuttiSuccess) return result;
  result = tt_cuda_trap_load(held->cuda, slots->ordinal, &held->trap);
  if (result == tuttiSuccess)
    slots->failed = (_Atomic uint32_t *)(void *)((char *)held->memory + (size_t)5 * WORD_BYTES);
  tt_slots_leave(slots);
  return result;
}

void tt_slots_trap(struct tt_slots *slots)
{
  if (!slots->failed) return;
  atomic_store(slots->failed, 1);
  tt_slots_release(slots);
}

void tt_slots_release(struct tt_slots *slots)
{
  atomic_store(slots->done, atomic_load(&slots->newest) + RELEASED);
  atomic_store(slots->turn_done, TURN_DONE | TURN_NEXT);
}

/* ---- used ---- */

tuttiResult_t tt_slots_usable(const struct tt_slots *slots)
{
  const struct cuda *cuda = held_of(slots)->cuda;
  if (cuda->words != CUDA_WORDS_FAIL) return tuttiSuccess;
  return tt_fail(tuttiUnhandledCudaError, "memory operations of streams do not work with GPU %d: %s; pass memory of "
                                          "the host", slots->ordinal, cuda->words_why);
}

tuttiResult_t tt_slots_enter(const struct tt_slots *slots)
{
  const struct held *held = held_of(slots);
  int code = held->cuda->driver.context_push(held->context);
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuCtxPushCurrent", code);
}

void tt_slots_leave(const struct tt_slots *slots)
{
  void *popped;
  held_of(slots)->cuda->driver.context_pop(&popped);
}

/* To ask spoils the capture of another thread, unless this one says that it does not care. */
tuttiResult_t tt_slots_standing(const struct tt_slots *slots)
{
  const struct held *held = held_of(slots);
  const struct cuda_driver *driver = &held->cuda->driver;
  int mode = CU_CAPTURE_MODE_RELAXED;
  tuttiResult_t result = tt_slots_enter(slots);
  if (result != tuttiSuccess) return result;
  driver->thread_capture_mode(&mode);
  int code = driver->event_query(held->event);
  driver->thread_capture_mode(&mode);
  tt_slots_leave(slots);
  return code == CU_SUCCESS || code == CU_NOT_READY ? tuttiSuccess : failed(held, "cuEventQuery", code);
}

tuttiResult_t tt_slots_check(struct tt_slots *slots, void *stream, uint64_t *capture)
{
  const struct held *held = held_of(slots);
  unsigned long long id = 0;
  int status = CU_CAPTURE_NONE;
  tuttiResult_t result = tt_slots_usable(slots);
  if (result == tuttiSuccess) result = tt_slots_enter(slots);
  if (result != tuttiSuccess) return result;
  int code = held->cuda->driver.stream_capture(stream, &status, &id, NULL, NULL, NULL);
  tt_slots_leave(slots);
  if (code != CU_SUCCESS) return failed(held, "cuStreamGetCaptureInfo", code);
  *capture = status == CU_CAPTURE_ACTIVE ? id : 0;
  if (status == CU_CAPTURE_ACTIVE || status == CU_CAPTURE_NONE) return tuttiSuccess;
  return tt_fail(tuttiInvalidUsage, "the capture of stream %p into a CUDA graph has failed already: end it, and look "
                                    "at the first error", stream);
}

/* Operations of one graph come one after the other, whatever their streams. */
tuttiResult_t tt_slots_follow(struct tt_slots *slots, void *stream, uint64_t capture)
{
  struct held *held = held_of(slots);
  const struct cuda_driver *driver = &held->cuda->driver;
  int is_next = capture && held->graph == capture, is_first = capture && !is_next;
  if (is_first) held->graph = capture;
  held->is_open = 1;
  int code = driver->stream_wait_event(stream, is_next ? held->inner : held->event, is_first ? CU_EVENT_EXTERNAL : 0);
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuStreamWaitEvent", code);
}

static int copy_flat(const struct cuda_driver *driver, void *stream, const struct tt_rows *rows)
{
  int code = CU_SUCCESS;
  for (size_t row = 0; row < rows->n && code == CU_SUCCESS; row++)
    code = driver->copy((uintptr_t)rows->dst + row * rows->dst_pitch, (uintptr_t)rows->src + row * rows->src_pitch,
                        rows->width, stream);
  return code;
}

/* The same bytes in one row, or in a few on their way to a GPU where that is quicker. */
static struct tt_rows rows_arrange(const struct held *held, const struct tt_rows *rows)
{
  int is_one = rows->n == 1 || (rows->dst_pitch == rows->width && rows->src_pitch == rows->width);
  if (!is_one) return *rows;
  size_t len = rows->width * rows->n, n = 1;
  int leaves_gpu = (uintptr_t)rows->dst - (uintptr_t)held->memory < held->len;
  if (len > 1 && len < FLAT_BYTES && !leaves_gpu)
    for (n = 2; len % n; n++) continue;
  return (struct tt_rows){rows->dst, rows->src, len / n, n, len / n, len / n};
}

tuttiResult_t tt_slots_copy(struct tt_slots *slots, void *stream, const struct tt_rows *asked)
{
  struct held *held = held_of(slots);
  const struct cuda_driver *driver = &held->cuda->driver;
  if (!asked->n || !asked->width) return tuttiSuccess;
  const struct tt_rows rows = rows_arrange(held, asked);
  if (rows.n == 1 || rows.dst_pitch > LONGEST_PITCH || rows.src_pitch > LONGEST_PITCH) {
    int code = copy_flat(driver, stream, &rows);
    return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuMemcpyAsync", code);
  }
  const struct cuda_copy_2d copy = {.src_kind = CU_MEMORY_UNIFIED,
                                    .src_device = (uintptr_t)rows.src,
                                    .src_pitch = rows.src_pitch,
                                    .dst_kind = CU_MEMORY_UNIFIED,
                                    .dst_device = (uintptr_t)rows.dst,
                                    .dst_pitch = rows.dst_pitch,
                                    .width = rows.width,
                                    .height = rows.n};
  int code = driver->copy_2d(&copy, stream);
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuMemcpy2DAsync", code);
}

static tuttiResult_t word(struct tt_slots *slots, void *stream, int operation, _Atomic uint32_t *at, uint32_t value)
{
  struct held *held = held_of(slots);
  struct cuda_memop memop = {.operation = operation, .address = (uintptr_t)at, .value = value};
  int code = held->cuda->driver.memops(stream, 1, &memop, 0);
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuStreamBatchMemOp", code);
}

tuttiResult_t tt_slots_tell(struct tt_slots *slots, void *stream, uint32_t number)
{
  return word(slots, stream, CU_MEMOP_WRITE_32, slots->ready, number);
}

/* Behind a wait. */
static tuttiResult_t trap(struct tt_slots *slots, void *stream)
{
  const struct held *held = held_of(slots);
  int code = slots->failed ? tt_cuda_trap_launch(held->cuda, &held->trap, stream, slots->failed) : CU_SUCCESS;
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuLaunchKernel", code);
}

tuttiResult_t tt_slots_await(struct tt_slots *slots, void *stream, uint32_t number)
{
  tuttiResult_t result = word(slots, stream, CU_MEMOP_WAIT_32, slots->done, number);
  return result == tuttiSuccess ? trap(slots, stream) : result;
}

/* Two words at once: writes one, then waits for the other. */
static tuttiResult_t exchange(struct tt_slots *slots, void *stream, struct cuda_memop write, struct cuda_memop wait)
{
  struct cuda_memop memops[] = {write, wait};
  memops[0].operation = CU_MEMOP_WRITE_32;
  memops[1].operation = CU_MEMOP_WAIT_32;
  int code = held_of(slots)->cuda->driver.memops(stream, 2, memops, 0);
  return code == CU_SUCCESS ? tuttiSuccess : failed(held_of(slots), "cuStreamBatchMemOp", code);
}

static tuttiResult_t exchange_turn(struct tt_slots *slots, void *stream, uint32_t number, uint32_t bits)
{
  const struct cuda_memop write = {.address = (uintptr_t)slots->turn_ready, .value = number};
  const struct cuda_memop wait = {.address = (uintptr_t)slots->turn_done, .value = bits, .flags = CU_MEMOP_AND};
  return exchange(slots, stream, write, wait);
}

tuttiResult_t tt_slots_meet(struct tt_slots *slots, void *stream, uint32_t number)
{
  const struct cuda_memop write = {.address = (uintptr_t)slots->ready, .value = number};
  const struct cuda_memop wait = {.address = (uintptr_t)slots->done, .value = number};
  tuttiResult_t result = exchange(slots, stream, write, wait);
  return result == tuttiSuccess ? trap(slots, stream) : result;
}

tuttiResult_t tt_slots_turn(struct tt_slots *slots, void *stream, uint32_t number)
{
  tuttiResult_t result = exchange_turn(slots, stream, number, TURN_DONE);
  return result == tuttiSuccess ? trap(slots, stream) : result;
}

tuttiResult_t tt_slots_taken(struct tt_slots *slots, void *stream)
{
  return exchange_turn(slots, stream, TURN_TAKEN, TURN_NEXT);
}

tuttiResult_t tt_slots_mark(struct tt_slots *slots, void *stream, uint64_t capture)
{
  struct held *held = held_of(slots);
  const struct cuda_driver *driver = &held->cuda->driver;
  int code = CU_SUCCESS;
  if (capture) code = driver->event_record(held->inner, stream);
  if (code == CU_SUCCESS)
    code = capture ? driver->event_record_with(held->event, stream, CU_EVENT_EXTERNAL)
                   : driver->event_record(held->event, stream);
  held->is_open = code != CU_SUCCESS;
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuEventRecord", code);
}

tuttiResult_t tt_slots_end(struct tt_slots *slots, uint32_t number)
{
  tuttiResult_t result = tt_slots_mark(slots, slots->stream, 0); /* first: whoever sees the word finds all over */
  return result == tuttiSuccess ? word(slots, slots->stream, CU_MEMOP_WRITE_32, slots->over, number) : result;
}

tuttiResult_t tt_slots_join(struct tt_slots *slots, void *stream, void *other)
{
  const struct held *held = held_of(slots);
  const struct cuda_driver *driver = &held->cuda->driver;
  int code = driver->event_record(held->joint, other);
  if (code == CU_SUCCESS) code = driver->stream_wait_event(stream, held->joint, 0);
  return code == CU_SUCCESS ? tuttiSuccess : failed(held, "cuStreamWaitEvent", code);
}
