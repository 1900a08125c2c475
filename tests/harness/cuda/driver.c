/* SPDX-License-Identifier: BSD-3-Clause */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "kernels.h"
#include "queue.h"
#include "state.h"

/* Its names are the driver's, whose header need not be there. */
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define ARENA ((size_t)1 << 30) /* address space of all GPUs; pages come when they are written */
#define PAGE 4096u
#define GPUS 2
#define JUNK 0xdb

enum { SUCCESS, INVALID_VALUE, OUT_OF_MEMORY, INVALID_HANDLE = 400, NOT_FOUND = 500, NOT_READY = 600 };

struct fake_state fake_state = {.mutex = PTHREAD_MUTEX_INITIALIZER, .random = 1};

static _Thread_local int context_stack[16], context_depth;

static uint64_t draw(uint64_t below)
{
  fake_state.random = fake_state.random * 6364136223846793005u + 1442695040888963407u;
  return (fake_state.random >> 33) % below;
}

static int breach(const char *what)
{
  fake_state.counts.breaches++;
  fprintf(stderr, "fake CUDA: %s\n", what);
  return INVALID_VALUE;
}

/* Begins every function that can fail: takes the mutex; 1 if this call is the one that does. */
static int enter(const char *name, int *code)
{
  pthread_mutex_lock(&fake_state.mutex);
  fake_state.counts.calls++;
  *code = SUCCESS;
  if (!fake_state.fail_at || --fake_state.fail_at) return 0;
  fake_state.failed = name;
  *code = fake_state.fail_code;
  return 1;
}

static int leave(int code)
{
  pthread_mutex_unlock(&fake_state.mutex);
  return code;
}

static void perform(const struct work *work)
{
  fake_state.counts.pending--;
  const char *fault = work_do(work);
  if (fault) breach(fault);
}

/* ---- memory ---- */

static void arena_map(void)
{
  if (fake_state.shown) return;
  int fd = memfd_create("fake_cuda", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)ARENA) != 0) abort();
  fake_state.shown = mmap(NULL, ARENA, PROT_NONE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  fake_state.hidden = mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, fd, 0);
  close(fd);
  if (fake_state.shown == MAP_FAILED || fake_state.hidden == MAP_FAILED) abort();
}

struct region *fake_region_of(const void *pointer)
{
  for (int r = 0; r < REGIONS; r++) {
    struct region *region = &fake_state.regions[r];
    if (region->room && (const char *)pointer >= region->at && (const char *)pointer < region->at + region->room)
      return region;
  }
  return NULL;
}

/* Where the CPU of this double reaches what a GPU is to read or write; NULL if it may not. */
void *fake_reach(const void *pointer, size_t len)
{
  const struct region *region = fake_region_of(pointer);
  if (!region || (const char *)pointer + len > region->at + region->len) return NULL;
  if (region->kind == FAKE_PINNED) return (void *)(uintptr_t)pointer;
  return fake_state.hidden + ((const char *)pointer - fake_state.shown);
}

/* The first free place of the arena; NULL if there is none. */
static char *place_find(size_t room)
{
  size_t at = 0;
  for (int r = 0; r < REGIONS; r++) {
    const struct region *region = &fake_state.regions[r];
    size_t begin = (size_t)(region->at - fake_state.shown);
    if (!region->room || region->kind == FAKE_PINNED || begin >= at + room || begin + region->room <= at) continue;
    at = begin + region->room;
    r = -1;
  }
  return at + room <= ARENA ? fake_state.shown + at : NULL;
}

void *fake_memory_make(int context, enum fake_memory kind, size_t len)
{
  int r = 0;
  arena_map();
  while (r < REGIONS && fake_state.regions[r].room) r++;
  if (r == REGIONS) return NULL;
  size_t room = (len + PAGE) / PAGE * PAGE;
  char *at = kind == FAKE_PINNED ? aligned_alloc(PAGE, room) : place_find(room);
  if (!at) return NULL;
  fake_state.regions[r] = (struct region){at, len, room, kind, context};
  memset(fake_reach(at, len), JUNK, len);
  *(kind == FAKE_PINNED ? &fake_state.counts.pinned : &fake_state.counts.memory) += 1;
  return at;
}

/* After a failure nobody may be left to wait for the work: the driver then does it first, as the real one. */
static void end_of_used(void)
{
  struct work work;
  int unused;
  if (!fake_state.failed) breach("free of memory that work under way uses");
  while (queue_take(0, &work, &unused)) perform(&work);
}

int fake_memory_end(void *pointer, int pinned)
{
  struct region *region = fake_region_of(pointer);
  if (!region || region->at != pointer || (region->kind == FAKE_PINNED) != pinned)
    return breach("free of what is not allocated");
  if (queue_uses(region->at, region->len)) end_of_used();
  memset(fake_reach(pointer, region->len), JUNK, region->len);
  if (pinned) free(region->at);
  region->room = 0;
  *(pinned ? &fake_state.counts.pinned : &fake_state.counts.memory) -= 1;
  return SUCCESS;
}

/* ---- contexts ---- */

int fake_context_depth(void)
{
  return context_depth;
}

static int context_number(const void *handle)
{
  const char *at = handle;
  return at >= fake_state.contexts && at < fake_state.contexts + FAKE_CONTEXTS ? (int)(at - fake_state.contexts) : -1;
}

static int gpu_of_context(int context)
{
  return context == 1;
}

/* The calling thread's context; -1 if it has none. */
static int current(void)
{
  if (!context_depth) breach("a call without a context");
  return context_depth ? context_stack[context_depth - 1] : -1;
}

EXPORT int cuCtxPushCurrent_v2(void *context)
{
  int code;
  if (enter("cuCtxPushCurrent", &code)) return leave(code);
  if (context_number(context) < 0 || context_depth == 16) return leave(breach("push of no context"));
  context_stack[context_depth++] = context_number(context);
  return leave(SUCCESS);
}

EXPORT int cuCtxPopCurrent_v2(void **context)
{
  int code;
  int fails = enter("cuCtxPopCurrent", &code);
  if (!context_depth) return leave(breach("pop of no context"));
  *context = &fake_state.contexts[context_stack[--context_depth]];
  return leave(fails ? code : SUCCESS);
}

EXPORT int cuCtxGetDevice(int *device)
{
  int code;
  if (enter("cuCtxGetDevice", &code)) return leave(code);
  *device = gpu_of_context(current());
  return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRetain(void **context, int device)
{
  int code;
  if (enter("cuDevicePrimaryCtxRetain", &code)) return leave(code);
  if (device < 0 || device >= GPUS) return leave(breach("retain of no GPU"));
  fake_state.counts.retained++;
  *context = &fake_state.contexts[device];
  return leave(SUCCESS);
}

EXPORT int cuDevicePrimaryCtxRelease_v2(int device)
{
  int code, fails = enter("cuDevicePrimaryCtxRelease", &code);
  (void)device;
  fake_state.counts.retained--;
  return leave(fails ? code : SUCCESS);
}

/* ---- what it says of itself ---- */

EXPORT int cuInit(unsigned flags)
{
  int code, fails = enter("cuInit", &code);
  return leave(fails ? code : flags ? INVALID_VALUE : SUCCESS);
}

EXPORT int cuDriverGetVersion(int *version)
{
  *version = 13000;
  return SUCCESS;
}

EXPORT int cuDeviceGetCount(int *count)
{
  int code;
  if (enter("cuDeviceGetCount", &code)) return leave(code);
  *count = GPUS;
  return leave(SUCCESS);
}

EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device)
{
  int code;
  if (enter("cuDeviceGetAttribute", &code)) return leave(code);
  if (attribute != 16 || device < 0 || device >= GPUS) return leave(breach("an attribute that nobody needs"));
  *value = 1 + device;
  return leave(SUCCESS);
}

EXPORT int cuGetErrorName(int error, const char **text)
{
  *text = error == OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_OF_THE_DOUBLE";
  return SUCCESS;
}

EXPORT int cuGetErrorString(int error, const char **text)
{
  *text = error == OUT_OF_MEMORY ? "out of memory" : "trouble made for a test";
  return SUCCESS;
}

/* All values are 0 of pointers it does not know. */
EXPORT int cuPointerGetAttributes(unsigned count, int *attributes, void **values, uint64_t pointer)
{
  int code;
  if (enter("cuPointerGetAttributes", &code)) return leave(code);
  const struct region *region = fake_region_of((const void *)(uintptr_t)pointer);
  for (unsigned k = 0; k < count; k++) switch (attributes[k]) {
    case 1:
      *(void **)values[k] = region && region->kind != FAKE_POOLED ? &fake_state.contexts[region->context] : NULL;
      break;
    case 2: *(unsigned *)values[k] = !region ? 0 : region->kind == FAKE_PINNED ? 1 : 2; break;
    case 3: *(uint64_t *)values[k] = region ? pointer : 0; break;
    case 8: *(unsigned *)values[k] = region && region->kind == FAKE_MANAGED; break;
    case 9: *(int *)values[k] = region ? gpu_of_context(region->context) : -2; break;
    default: return leave(breach("an attribute of a pointer that nobody needs"));
    }
  return leave(SUCCESS);
}

/* ---- memory of the caller ---- */

EXPORT int cuMemAlloc_v2(uint64_t *pointer, size_t len)
{
  int code;
  if (enter("cuMemAlloc", &code)) return leave(code);
  if (current() < 0 || !len) return leave(INVALID_VALUE);
  void *memory = fake_memory_make(current(), FAKE_DEVICE, len);
  if (memory) *pointer = (uintptr_t)memory;
  return leave(memory ? SUCCESS : OUT_OF_MEMORY);
}

EXPORT int cuMemFree_v2(uint64_t pointer)
{
  int code, fails = enter("cuMemFree", &code), done = fake_memory_end((void *)(uintptr_t)pointer, 0);
  return leave(fails ? code : done);
}

/* A file of that length stands for the dma-buf; its bytes are others. */
EXPORT int cuMemGetHandleForAddressRange(void *handle, uint64_t pointer, size_t len, int type, unsigned long long flags)
{
  int code, fd;
  if (enter("cuMemGetHandleForAddressRange", &code)) return leave(code);
  if (current() < 0 || type != 1 || flags || pointer % PAGE || len % PAGE || !len ||
      !fake_region_of((void *)(uintptr_t)pointer))
    return leave(INVALID_VALUE);
  fd = memfd_create("fake_dma_buf", MFD_CLOEXEC);
  if (fd < 0 || ftruncate(fd, (off_t)len) != 0) return leave(OUT_OF_MEMORY);
  memcpy(handle, &fd, sizeof fd);
  return leave(SUCCESS);
}

EXPORT int cuMemHostAlloc(void **pointer, size_t len, unsigned flags)
{
  int code;
  if (enter("cuMemHostAlloc", &code)) return leave(code);
  if (current() < 0 || flags != 3) return leave(breach("pinned memory that not every GPU reaches"));
  void *memory = fake_memory_make(current(), FAKE_PINNED, len);
  if (memory) *pointer = memory;
  return leave(memory ? SUCCESS : OUT_OF_MEMORY);
}

EXPORT int cuMemFreeHost(void *pointer)
{
  int code, fails = enter("cuMemFreeHost", &code), done = fake_memory_end(pointer, 1);
  return leave(fails ? code : done);
}

/* ---- streams and events ---- */

static struct stream *stream_of(void *handle)
{
  struct stream *stream = handle;
  if (stream >= fake_state.streams && stream < fake_state.streams + STREAMS && stream->alive) return stream;
  breach("no such stream");
  return NULL;
}

/* Does up to `most` pieces of work, of streams by chance. */
static void progress(uint64_t most)
{
  struct work work;
  int overtakes;
  for (uint64_t i = draw(most + 1); i > 0; i--) {
    if (!queue_take((unsigned)draw(1u << 20), &work, &overtakes)) return;
    fake_state.counts.overtaken += overtakes;
    perform(&work);
  }
}

/* Puts work at the end of a stream of the current context. */
static int submit(void *handle, struct work *work)
{
  struct stream *stream = stream_of(handle);
  if (!stream) return INVALID_HANDLE;
  if (stream->context != current()) return breach("a stream of another context");
  work->stream = (int)(stream - fake_state.streams);
  if (!queue_put(work)) return OUT_OF_MEMORY;
  fake_state.counts.pending++;
  return SUCCESS;
}

EXPORT int cuStreamCreate(void **stream, unsigned flags)
{
  int code, s = 0;
  if (enter("cuStreamCreate", &code)) return leave(code);
  while (s < STREAMS && fake_state.streams[s].alive) s++;
  if (s == STREAMS || current() < 0 || flags != 1) return leave(breach("a stream that waits for others"));
  fake_state.streams[s] = (struct stream){1, current()};
  fake_state.counts.streams++;
  *stream = &fake_state.streams[s];
  return leave(SUCCESS);
}

EXPORT int cuStreamSynchronize(void *handle)
{
  int code, fails = enter("cuStreamSynchronize", &code);
  struct stream *stream = stream_of(handle);
  struct work work;
  while (stream && queue_take_of((int)(stream - fake_state.streams), &work)) perform(&work);
  return leave(fails ? code : stream ? SUCCESS : INVALID_HANDLE);
}

EXPORT int cuStreamDestroy_v2(void *handle)
{
  int code, fails = enter("cuStreamDestroy", &code);
  struct stream *stream = stream_of(handle);
  if (!stream) return leave(INVALID_HANDLE);
  stream->alive = 0;
  fake_state.counts.streams--;
  return leave(fails ? code : SUCCESS);
}

static struct event *event_of(void *handle)
{
  struct event *event = handle;
  if (event >= fake_state.events && event < fake_state.events + EVENTS && event->alive) return event;
  breach("no such event");
  return NULL;
}

EXPORT int cuEventCreate(void **event, unsigned flags)
{
  int code, e = 0;
  if (enter("cuEventCreate", &code)) return leave(code);
  while (e < EVENTS && fake_state.events[e].alive) e++;
  if (e == EVENTS || current() < 0 || flags != 2) return leave(breach("an event that takes the time"));
  fake_state.events[e] = (struct event){1, current(), 0};
  fake_state.counts.events++;
  *event = &fake_state.events[e];
  return leave(SUCCESS);
}

EXPORT int cuEventDestroy_v2(void *handle)
{
  int code, fails = enter("cuEventDestroy", &code);
  struct event *event = event_of(handle);
  if (!event) return leave(INVALID_HANDLE);
  if (event->pending) breach("end of an event that is waited for");
  event->alive = 0;
  fake_state.counts.events--;
  return leave(fails ? code : SUCCESS);
}

EXPORT int cuEventRecord(void *handle, void *stream)
{
  int code;
  if (enter("cuEventRecord", &code)) return leave(code);
  struct event *event = event_of(handle);
  if (!event) return leave(INVALID_HANDLE);
  if (event->context != current()) return leave(breach("an event of another context"));
  if (event->pending) breach("an event is recorded while it is waited for");
  struct work work = {.kind = WORK_EVENT, .pending = &event->pending};
  code = submit(stream, &work);
  event->pending += code == SUCCESS;
  return leave(code);
}

EXPORT int cuEventQuery(void *handle)
{
  int code;
  if (enter("cuEventQuery", &code)) return leave(code);
  struct event *event = event_of(handle);
  if (!event) return leave(INVALID_HANDLE);
  current();
  progress(4);
  fake_state.counts.queries++;
  return leave(event->pending ? NOT_READY : SUCCESS);
}

/* ---- work ---- */

EXPORT int cuMemcpyAsync(uint64_t dst, uint64_t src, size_t len, void *stream)
{
  int code;
  if (enter("cuMemcpyAsync", &code)) return leave(code);
  struct work work = {.kind = WORK_COPY, .dst = (void *)(uintptr_t)dst, .len = len};
  work.src = (const void *)(uintptr_t)src;
  if (!fake_reach(work.dst, len) || !fake_reach(work.src, len)) breach("a copy of pageable memory, or of none");
  fake_state.counts.copies++;
  return leave(submit(stream, &work));
}

EXPORT int cuModuleLoadData(void **module, const void *image)
{
  int code;
  if (enter("cuModuleLoadData", &code)) return leave(code);
  if (current() < 0 || !image) return leave(INVALID_VALUE);
  fake_state.counts.modules++;
  *module = fake_state.contexts;
  return leave(SUCCESS);
}

EXPORT int cuModuleUnload(void *module)
{
  int code, fails = enter("cuModuleUnload", &code);
  if (module != fake_state.contexts) breach("no such module");
  fake_state.counts.modules--;
  return leave(fails ? code : SUCCESS);
}

EXPORT int cuModuleGetFunction(void **function, void *module, const char *name)
{
  int code, kernel = cpu_kernel_find(name);
  (void)module;
  if (enter("cuModuleGetFunction", &code)) return leave(code);
  if (kernel < 0 || fake_state.has_no_kernels) return leave(NOT_FOUND);
  *function = (void *)(intptr_t)(kernel + 1);
  return leave(SUCCESS);
}

EXPORT int cuLaunchKernel(void *function, unsigned grid_x, unsigned grid_y, unsigned grid_z, unsigned block_x,
                          unsigned block_y, unsigned block_z, unsigned shared_bytes, void *stream, void **params,
                          void **extra)
{
  int code;
  if (enter("cuLaunchKernel", &code)) return leave(code);
  if (!grid_x || grid_y != 1 || grid_z != 1 || block_x != TT_CUDA_THREADS || block_y != 1 || block_z != 1 ||
      shared_bytes || extra)
    return leave(breach("a grid that no kernel is made for"));
  struct work work = {.kind = WORK_KERNEL, .blocks = grid_x, .params = *(const struct tt_cuda_params *)params[0]};
  work.kernel = (int)(intptr_t)function - 1;
  fake_state.counts.launches++;
  return leave(submit(stream, &work));
}
