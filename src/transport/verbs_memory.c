/* SPDX-License-Identifier: BSD-3-Clause */
/* The regions that are registered with a device, as verbs_memory_private.h specifies. */
#include "transport/verbs_memory_private.h"

#include <errno.h>
#include <string.h>

#include "transport/verbs_private.h"

#define ROOM 64 /* regions at first; doubled when they are full */

struct region {
  _Atomic uintptr_t start; /* 0: the entry is free */
  size_t len;
  struct ibv_mr *mr; /* NULL: the memory could not be registered */
  int error;         /* the errno of that */
  int is_users;
};

struct verbs_memory {
  struct tt_heap_watcher watcher;
  struct verbs_device *device;
  struct tt_heap *heap;
  pthread_mutex_t mutex; /* for all changes. Taken after the heap's lock, if both are */
  struct region *regions;
  size_t room, count; /* those from `count` on were never used */
  size_t last;        /* found last, so the likeliest to be found next */
  int is_halted, is_logged;
};

/* ---- changes; under memory->mutex ---- */

static void drop(struct verbs_memory *memory, struct region *region)
{
  atomic_store_explicit(&region->start, 0, memory_order_relaxed);
  if (region->mr) memory->device->api.dereg_mr(region->mr);
  region->mr = NULL;
}

/* A place for a region; NULL: no memory. Only the owner calls it, the one thread that looks while the regions move. */
static struct region *place(struct verbs_memory *memory)
{
  for (size_t i = 0; i < memory->count; i++)
    if (!memory->regions[i].start) return &memory->regions[i];
  if (memory->count == memory->room) {
    size_t room = memory->room ? 2 * memory->room : ROOM;
    struct region *grown = tt_alloc(room, sizeof *grown);
    if (!grown) return NULL;
    if (memory->room) memcpy((void *)grown, memory->regions, memory->room * sizeof *grown);
    tt_free(memory->regions);
    memory->regions = grown;
    memory->room = room;
  }
  return &memory->regions[memory->count++];
}

/* If mr is NULL, errno says why. */
static struct region *add(struct verbs_memory *memory, const void *start, size_t len, struct ibv_mr *mr)
{
  int error = errno;
  struct region *region = place(memory);
  if (!region) return NULL;
  region->len = len;
  region->mr = mr;
  region->error = mr ? 0 : error;
  region->is_users = 0;
  atomic_store_explicit(&region->start, (uintptr_t)start, memory_order_relaxed);
  return region;
}

static struct ibv_mr *reg(const struct verbs_memory *memory, void *start, size_t len)
{
  return memory->device->api.reg_mr(memory->device->pd, start, len, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

/* ---- blocks of the heap ---- */

/* Under the heap's lock. */
static void block_freed(struct tt_heap_watcher *watcher, void *block, size_t len)
{
  struct verbs_memory *memory = (struct verbs_memory *)watcher;
  pthread_mutex_lock(&memory->mutex);
  for (size_t i = 0; i < memory->count; i++) {
    struct region *region = &memory->regions[i];
    if (region->start == (uintptr_t)block && region->len == len && !region->is_users) drop(memory, region);
  }
  pthread_mutex_unlock(&memory->mutex);
}

/* Under the heap's lock. A block that cannot be registered gets an entry, too, so that it is not tried again. */
static void block_add(void *owner, void *block, size_t len)
{
  struct verbs_memory *memory = owner;
  pthread_mutex_lock(&memory->mutex);
  struct ibv_mr *mr = reg(memory, block, len);
  int error = errno;
  if (!add(memory, block, len, mr) && mr) memory->device->api.dereg_mr(mr);
  pthread_mutex_unlock(&memory->mutex);
  if (mr || memory->is_logged) return;
  memory->is_logged = 1;
  tt_log(TT_LOG_INFO, "%zu bytes of tuttiMemAlloc cannot be registered with %s (%s) and are copied: if that is the "
         "limit of locked memory, raise it (ulimit -l unlimited)", len, memory->device->name, strerror(error));
}

int tt_verbs_memory_spare(struct verbs_memory *memory)
{
  int spared = 0;
  if (!memory) return 0;
  pthread_mutex_lock(&memory->mutex);
  for (size_t i = 0; i < memory->count; i++) {
    struct region *region = &memory->regions[i];
    if (!region->start || !region->mr || region->is_users) continue;
    drop(memory, region);
    spared++;
  }
  pthread_mutex_unlock(&memory->mutex);
  return spared;
}

/* ---- lookup ---- */

/* Without a lock: other threads only take away regions that are not looked for. */
static struct region *look(struct verbs_memory *memory, const void *data, size_t len)
{
  uintptr_t at = (uintptr_t)data;
  for (size_t k = 0; k < memory->count; k++) {
    size_t i = memory->last + k < memory->count ? memory->last + k : memory->last + k - memory->count;
    struct region *region = &memory->regions[i];
    uintptr_t start = atomic_load_explicit(&region->start, memory_order_relaxed);
    if (!start || at < start || at - start > region->len || len > region->len - (at - start)) continue;
    memory->last = i;
    return region;
  }
  return NULL;
}

struct ibv_mr *tt_verbs_memory_find(struct verbs_memory *memory, const void *data, size_t len)
{
  uint64_t offset;
  if (!memory || memory->is_halted) return NULL;
  struct region *region = look(memory, data, len);
  if (!region && tt_heap_has(memory->heap, data, len, &offset)) {
    tt_heap_find(memory->heap, data, len, block_add, memory);
    region = look(memory, data, len);
  }
  return region ? region->mr : NULL;
}

/* ---- memory that users register ---- */

static struct ibv_mr *reg_users(const struct verbs_memory *memory, const struct tt_registered *what)
{
  const struct verbs_api *api = &memory->device->api;
  if (what->fd < 0) return reg(memory, what->data, what->len);
  if (!api->reg_dmabuf_mr) {
    errno = EOPNOTSUPP;
    return NULL;
  }
  return api->reg_dmabuf_mr(memory->device->pd, what->offset, what->len, (uintptr_t)what->data, what->fd,
                            IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}

static tuttiResult_t register_failed(const struct verbs_memory *memory, const struct tt_registered *what, int error)
{
  char locked[256];
  const char *remedy = "";
  if (error == ENOMEM) remedy = tt_verbs_locked_text(locked, sizeof locked);
  if (what->fd >= 0 && (error == EOPNOTSUPP || error == EPROTONOSUPPORT))
    remedy = ": the memory of a GPU is reached with rdma-core 34, Linux 5.12, and drivers of both devices that know "
             "dma-buf (NVIDIA's open kernel modules)";
  return tt_fail(tuttiSystemError, "%zu bytes at %p cannot be registered with %s: %s: %s%s. They need not be: what is "
                 "not registered is copied", what->len, what->data, memory->device->name,
                 what->fd < 0 ? "ibv_reg_mr" : "ibv_reg_dmabuf_mr", strerror(error), remedy);
}

/* One block has all of the memory, or it is not the user's. */
static tuttiResult_t register_of_heap(struct verbs_memory *memory, const struct tt_registered *what)
{
  if (tt_verbs_memory_find(memory, what->data, what->len)) return tuttiSuccess;
  const struct region *region = look(memory, what->data, what->len);
  return register_failed(memory, what, region ? region->error : EFAULT);
}

tuttiResult_t tt_verbs_memory_register(struct verbs_memory *memory, const struct tt_registered *what, void **handle)
{
  uint64_t offset;
  *handle = NULL;
  if (memory->is_halted) return tuttiSuccess;
  if (tt_heap_has(memory->heap, what->data, what->len, &offset)) return register_of_heap(memory, what);
  struct ibv_mr *mr = reg_users(memory, what);
  if (!mr) return register_failed(memory, what, errno);
  pthread_mutex_lock(&memory->mutex);
  struct region *region = add(memory, what->data, what->len, mr);
  if (region) region->is_users = 1;
  pthread_mutex_unlock(&memory->mutex);
  if (region) {
    *handle = mr;
    return tuttiSuccess;
  }
  memory->device->api.dereg_mr(mr);
  return tt_fail(tuttiSystemError, "out of memory for a registration");
}

void tt_verbs_memory_deregister(struct verbs_memory *memory, void *handle)
{
  pthread_mutex_lock(&memory->mutex);
  for (size_t i = 0; i < memory->count; i++)
    if (handle && memory->regions[i].start && memory->regions[i].mr == handle) drop(memory, &memory->regions[i]);
  pthread_mutex_unlock(&memory->mutex);
}

/* ---- life ---- */

tuttiResult_t tt_verbs_memory_create(struct verbs_memory **out, struct verbs_device *device)
{
  struct verbs_memory *memory = tt_alloc(1, sizeof *memory);
  if (!memory) return tt_fail(tuttiSystemError, "no memory for registrations");
  tuttiResult_t result = tt_heap_hold(&memory->heap);
  if (result != tuttiSuccess) {
    tt_free(memory);
    return result;
  }
  memory->watcher.freed = block_freed;
  memory->device = device;
  pthread_mutex_init(&memory->mutex, NULL);
  tt_heap_watch(memory->heap, &memory->watcher);
  *out = memory;
  return tuttiSuccess;
}

void tt_verbs_memory_halt(struct verbs_memory *memory)
{
  memory->is_halted = 1;
  pthread_mutex_lock(&memory->mutex);
  for (size_t i = 0; i < memory->count; i++)
    if (memory->regions[i].start) drop(memory, &memory->regions[i]);
  pthread_mutex_unlock(&memory->mutex);
}

void tt_verbs_memory_destroy(struct verbs_memory *memory)
{
  if (!memory) return;
  tt_heap_unwatch(memory->heap, &memory->watcher);
  tt_verbs_memory_halt(memory);
  tt_heap_release(memory->heap);
  pthread_mutex_destroy(&memory->mutex);
  tt_free(memory->regions);
  tt_free(memory);
}
