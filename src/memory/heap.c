/* SPDX-License-Identifier: BSD-3-Clause */
/* The heap: memory of tuttiMemAlloc, in one sparse memfd that the ranks of the host map too.
 *
 * A range of addresses as long as the machine's memory is mapped once. It does not move while the heap is held, so that
 * a peer's one mapping of the same memfd shows later allocations too. Pages exist only under blocks. The gaps between
 * blocks cannot be accessed in this process, and every block is followed by a gap of at least one page. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "memory/private.h"

#define LONGEST ((size_t)256 << 30) /* a process with the heaps of 256 peers has half of its addresses left */

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23
#endif

struct tt_heap_block {
  struct tt_heap_block *next; /* heap blocks are sorted by address */
  uint8_t *at;
  size_t len;                 /* whole pages */
};

/* ---- this process's heap ---- */

static size_t page_bytes(void)
{
  return (size_t)sysconf(_SC_PAGESIZE);
}

/* As much as the machine has, at most LONGEST. 0 if a limit forbids so long a file, or if addresses are limited: the
 * program may need them. */
static size_t longest(void)
{
  struct rlimit file = {0, 0}, addresses = {0, 0};
  long pages = sysconf(_SC_PHYS_PAGES);
  size_t len = pages > 0 ? (size_t)pages * page_bytes() : 0, step = (size_t)1 << 30;
  len = ((len > LONGEST ? LONGEST : len) + step - 1) & ~(step - 1);
  getrlimit(RLIMIT_FSIZE, &file);
  getrlimit(RLIMIT_AS, &addresses);
  return file.rlim_cur < len || addresses.rlim_cur != RLIM_INFINITY ? 0 : len;
}

/* Reserves the addresses. A failure is no error: the heap then has no memory that peers can read. */
static void reserve(struct tt_heap *heap)
{
  size_t len = longest();
  void *map = MAP_FAILED;
  if (!len) return; /* ulimit -f, ulimit -v */
  heap->fd = tt_memory_descriptor("tutti-heap");
  if (heap->fd >= 0 && ftruncate(heap->fd, (off_t)len) == 0 && fcntl(heap->fd, F_ADD_SEALS, TT_MEMORY_SEALS) == 0 &&
      getrandom(&heap->nonce, sizeof heap->nonce, 0) == sizeof heap->nonce)
    map = mmap(NULL, len, PROT_NONE, MAP_SHARED | MAP_NORESERVE, heap->fd, 0);
  if (map == MAP_FAILED) {
    tt_log(TT_LOG_INFO, "no memory that peers can read: %s; what they get of tuttiMemAlloc's is copied",
           strerror(errno));
    if (heap->fd >= 0) close(heap->fd);
    heap->fd = -1;
    return;
  }
  madvise(map, len, MADV_DONTDUMP);
  heap->base = map;
  heap->len = len;
}

/* Returns the heap with one more reference, or NULL without memory. Under tt_process.heap_mutex. */
static struct tt_heap *get(void)
{
  struct tt_heap *heap = tt_process.heap;
  if (!heap) {
    heap = tt_alloc(1, sizeof *heap);
    if (!heap) return NULL;
    heap->fd = -1;
    reserve(heap);
    tt_process.heap = heap;
  }
  heap->references++;
  return heap;
}

/* Under tt_process.heap_mutex. */
static void put(struct tt_heap *heap)
{
  if (--heap->references) return;
  tt_process.heap = NULL;
  if (heap->fd >= 0) {
    munmap(heap->base, heap->len);
    close(heap->fd);
  }
  tt_free(heap);
}

tuttiResult_t tt_heap_hold(struct tt_heap **heap)
{
  pthread_mutex_lock(&tt_process.heap_mutex);
  *heap = get();
  pthread_mutex_unlock(&tt_process.heap_mutex);
  return *heap ? tuttiSuccess : tt_fail(tuttiSystemError, "out of memory for the record of the heap");
}

void tt_heap_release(struct tt_heap *heap)
{
  if (!heap) return;
  pthread_mutex_lock(&tt_process.heap_mutex);
  put(heap);
  pthread_mutex_unlock(&tt_process.heap_mutex);
}

/* ---- blocks; under tt_process.heap_mutex ---- */

/* Finds a gap for a block of len bytes and the page after it, at *at. Returns the list's link that will point to the
 * block, NULL if there is no gap. */
static struct tt_heap_block **gap_find(struct tt_heap *heap, size_t len, uint8_t **at)
{
  struct tt_heap_block **link = &heap->blocks;
  size_t page = page_bytes();
  uint8_t *from = heap->base, *end = heap->base + heap->len;
  for (;; link = &(*link)->next) {
    uint8_t *to = *link ? (*link)->at : end;
    if ((size_t)(to - from) > len) {
      *at = from;
      return link;
    }
    if (!*link) return NULL;
    from = (*link)->at + (*link)->len + page;
    if (from > end) return NULL;
  }
}

static int pages_make(const struct tt_heap *heap, uint8_t *at, size_t len)
{
  uint64_t available;
  int error = tt_memory_fits(len, &available) ? tt_memory_allocate(heap->fd, (size_t)(at - heap->base), len) : ENOMEM;
  if (error) return error;
  if (mprotect(at, len, PROT_READ | PROT_WRITE) != 0) return errno;
  madvise(at, len, MADV_DODUMP);
  /* The pages exist already: this only fills the page table. */
  if (madvise(at, len, MADV_POPULATE_WRITE) != 0)
    for (size_t i = 0; i < len; i += page_bytes()) at[i] = 0;
  return 0;
}

static void pages_drop(const struct tt_heap *heap, uint8_t *at, size_t len)
{
  madvise(at, len, MADV_DONTDUMP);
  mprotect(at, len, PROT_NONE);
  fallocate(heap->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, at - heap->base, (off_t)len);
}

/* 0 or the errno. */
static int block_place(struct tt_heap *heap, struct tt_heap_block *block)
{
  struct tt_heap_block **link = heap->fd >= 0 ? gap_find(heap, block->len, &block->at) : NULL;
  if (link) {
    int error = pages_make(heap, block->at, block->len);
    if (error) {
      pages_drop(heap, block->at, block->len);
      return error;
    }
  } else {
    void *map =
        mmap(NULL, block->len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (map == MAP_FAILED) return errno;
    block->at = map;
    link = &heap->others;
  }
  block->next = *link;
  *link = block;
  heap->references++;
  return 0;
}

tuttiResult_t tt_heap_alloc(void **pointer, size_t size)
{
  struct tt_heap *heap;
  size_t len = size ? size : 1, page = page_bytes();
  if (len > SIZE_MAX - page) return tt_fail(tuttiSystemError, "size is %zu bytes: more than there is memory", size);
  tuttiResult_t result = tt_heap_hold(&heap);
  if (result != tuttiSuccess) return result;
  struct tt_heap_block *block = tt_alloc(1, sizeof *block);
  int error = ENOMEM;
  if (block) {
    block->len = (len + page - 1) / page * page;
    pthread_mutex_lock(&tt_process.heap_mutex);
    error = block_place(heap, block);
    pthread_mutex_unlock(&tt_process.heap_mutex);
  }
  tt_heap_release(heap);
  if (!error) {
    *pointer = block->at;
    return tuttiSuccess;
  }
  tt_free(block);
  return tt_fail(tuttiSystemError, "no memory of %zu bytes: %s; free some, or raise the limit (ulimit -v)", size,
                 strerror(error));
}

/* Takes the block at `pointer` out of the list; NULL if it is not there. */
static struct tt_heap_block *unlink_block(struct tt_heap_block **link, const void *pointer)
{
  while (*link && (*link)->at != pointer) link = &(*link)->next;
  struct tt_heap_block *block = *link;
  if (block) *link = block->next;
  return block;
}

tuttiResult_t tt_heap_free(void *pointer)
{
  if (!pointer) return tuttiSuccess;
  pthread_mutex_lock(&tt_process.heap_mutex);
  struct tt_heap *heap = tt_process.heap;
  struct tt_heap_block *block = heap ? unlink_block(&heap->blocks, pointer) : NULL;
  int is_in_heap = block != NULL;
  if (heap && !block) block = unlink_block(&heap->others, pointer);
  for (struct tt_heap_watcher *watcher = block ? heap->watchers : NULL; watcher; watcher = watcher->next)
    watcher->freed(watcher, block->at, block->len);
  if (is_in_heap) pages_drop(heap, block->at, block->len);
  else if (block) munmap(block->at, block->len);
  if (block) put(heap);
  pthread_mutex_unlock(&tt_process.heap_mutex);
  if (!block)
    return tt_fail(tuttiInvalidArgument, "ptr %p was not returned by tuttiMemAlloc, or was freed already", pointer);
  tt_free(block);
  return tuttiSuccess;
}

void tt_heap_find(struct tt_heap *heap, const void *pointer, size_t len,
                  void (*found)(void *owner, void *block, size_t block_len), void *owner)
{
  const uint8_t *at = pointer;
  pthread_mutex_lock(&tt_process.heap_mutex);
  const struct tt_heap_block *block = heap->blocks;
  while (block && block->at + block->len <= at) block = block->next;
  if (block && block->at <= at && len <= (size_t)(block->at + block->len - at)) found(owner, block->at, block->len);
  pthread_mutex_unlock(&tt_process.heap_mutex);
}

void tt_heap_watch(struct tt_heap *heap, struct tt_heap_watcher *watcher)
{
  pthread_mutex_lock(&tt_process.heap_mutex);
  watcher->next = heap->watchers;
  heap->watchers = watcher;
  pthread_mutex_unlock(&tt_process.heap_mutex);
}

void tt_heap_unwatch(struct tt_heap *heap, struct tt_heap_watcher *watcher)
{
  pthread_mutex_lock(&tt_process.heap_mutex);
  struct tt_heap_watcher **at = &heap->watchers;
  while (*at && *at != watcher) at = &(*at)->next;
  if (*at) *at = watcher->next;
  pthread_mutex_unlock(&tt_process.heap_mutex);
}

/* ---- a peer's heap ---- */

struct tt_heap_view {
  struct tt_heap_view *next;
  uint64_t nonce;
  dev_t device; /* with `file`: identifies the memfd, because the nonce from a peer info proves nothing */
  ino_t file;
  const uint8_t *map;
  size_t len;
  int references;
};

/* Under tt_process.heap_mutex. */
static struct tt_heap_view *view_find(uint64_t nonce, const struct stat *status)
{
  struct tt_heap_view *view = tt_process.heap_views;
  while (view && (view->nonce != nonce || view->device != status->st_dev || view->file != status->st_ino))
    view = view->next;
  return view;
}

static const uint8_t *map_read_only(int fd, size_t len, const struct stat *status)
{
  int seals = fcntl(fd, F_GET_SEALS);
  if (!S_ISREG(status->st_mode) || (uint64_t)status->st_size != len || len == 0 || len > LONGEST) return NULL;
  if (seals < 0 || (seals & TT_MEMORY_SEALS) != TT_MEMORY_SEALS) return NULL;
  void *map = mmap(NULL, len, PROT_READ, MAP_SHARED | MAP_NORESERVE, fd, 0);
  if (map == MAP_FAILED) return NULL;
  madvise(map, len, MADV_DONTFORK);
  madvise(map, len, MADV_DONTDUMP);
  return map;
}

struct tt_heap_view *tt_heap_view_open(uint64_t nonce, int fd, size_t len, const uint8_t **base)
{
  struct stat status;
  if (fstat(fd, &status) != 0) return NULL;
  pthread_mutex_lock(&tt_process.heap_mutex);
  struct tt_heap_view *view = view_find(nonce, &status);
  if (!view && (view = tt_alloc(1, sizeof *view))) {
    *view = (struct tt_heap_view){
        .next = tt_process.heap_views, .nonce = nonce, .device = status.st_dev, .file = status.st_ino, .len = len};
    view->map = map_read_only(fd, len, &status);
    if (view->map) {
      tt_process.heap_views = view;
    } else {
      tt_free(view);
      view = NULL;
    }
  }
  if (view && view->len != len) view = NULL;
  if (view) {
    view->references++;
    *base = view->map;
  }
  pthread_mutex_unlock(&tt_process.heap_mutex);
  return view;
}

void tt_heap_view_close(struct tt_heap_view *view)
{
  if (!view) return;
  pthread_mutex_lock(&tt_process.heap_mutex);
  int is_last = --view->references == 0;
  struct tt_heap_view *before = tt_process.heap_views;
  if (is_last && before == view) tt_process.heap_views = view->next;
  while (is_last && before && before->next != view) before = before->next;
  if (is_last && before) before->next = view->next;
  pthread_mutex_unlock(&tt_process.heap_mutex);
  if (!is_last) return;
  munmap((void *)(uintptr_t)view->map, view->len);
  tt_free(view);
}
