/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory that ranks of one host share: sealed mappings, and the heap of tuttiMemAlloc. */
#ifndef TT_MEMORY_H
#define TT_MEMORY_H

#include <stddef.h>
#include <stdint.h>

#include "base/base.h"

/* ---- sealed mappings (memory.c) -------------------------------------------------------------- */

/* A sealed, close-on-exec memfd (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) of `len` bytes, really
 * allocated (so that no touch can fail), mapped read-write at *map with MADV_DONTFORK and
 * MADV_DONTDUMP. Errors: tuttiSystemError with size and errno. */
tuttiResult_t tt_memory_create(const char *name, size_t len, int *fd, void **map);
/* Maps a received descriptor after checking that it is a memfd of exactly len bytes with those
 * seals (tuttiRemoteError if not). Undo either with munmap(map, len). The fd may be closed then. */
tuttiResult_t tt_memory_map(int fd, size_t len, void **map);
/* The same for reading alone. */
tuttiResult_t tt_memory_view(int fd, size_t len, const void **view);

/* ---- the heap (heap.c): memory of tuttiMemAlloc, which the ranks of the host can read -------- */

/* One a process, there while somebody holds it or a block of it exists; its addresses do not change then. All but
 * the blocks is fixed. Any thread; not on the data path, but tt_heap_has. */
struct tt_heap {
  int fd;         /* a sealed memfd; -1: none can be had here, blocks are private memory */
  uint8_t *base;
  size_t len;     /* of addresses; 0 without fd */
  uint64_t nonce; /* its name on this host */
  int references;                       /* these four under tt_process.heap_mutex */
  struct tt_heap_block *blocks, *others;
  struct tt_heap_watcher *watchers;
};

/* Makes it if there is none. Every hold needs one release. Errors: tuttiSystemError. */
tuttiResult_t tt_heap_hold(struct tt_heap **heap);
void tt_heap_release(struct tt_heap *heap); /* NULL is allowed */

/* As tuttiMemAlloc and tuttiMemFree: whole pages, zeroed, really allocated. */
tuttiResult_t tt_heap_alloc(void **pointer, size_t size);
tuttiResult_t tt_heap_free(void *pointer);

/* 1 if all of [pointer, pointer + len) has a place in the heap: *offset from its base. */
static inline int tt_heap_has(const struct tt_heap *heap, const void *pointer, size_t len, uint64_t *offset)
{
  *offset = (uint64_t)((uintptr_t)pointer - (uintptr_t)heap->base);
  return *offset < heap->len && len <= heap->len - *offset;
}

/* Somebody who keeps something for blocks, e.g. what a device knows of their pages. `freed` is called under the heap's
 * lock, by the thread that frees a block, while its pages are still there; it must not call the heap. Whoever watches
 * holds the heap. After unwatch returns it is not called any more; unwatching what does not watch does nothing. */
struct tt_heap_watcher {
  void (*freed)(struct tt_heap_watcher *watcher, void *block, size_t len);
  struct tt_heap_watcher *next; /* the heap's */
};
void tt_heap_watch(struct tt_heap *heap, struct tt_heap_watcher *watcher);
void tt_heap_unwatch(struct tt_heap *heap, struct tt_heap_watcher *watcher);

/* Calls found(owner, block, its length) with the block that has all of [pointer, pointer + len), under the heap's lock:
 * so it is not freed meanwhile. No block of the heap has: nothing happens. */
void tt_heap_find(struct tt_heap *heap, const void *pointer, size_t len,
                  void (*found)(void *owner, void *block, size_t block_len), void *owner);

/* Whoever is given the descriptor can write, too: only ranks of the same user that hold the job's key are.
 *
 * A peer's heap, for reading: all ranks of this process that open the same nonce share one mapping, at *base. NULL if
 * it cannot be mapped or is not what it should be: the peer must then send copies. fd is still the caller's. */
struct tt_heap_view *tt_heap_view_open(uint64_t nonce, int fd, size_t len, const uint8_t **base);
void tt_heap_view_close(struct tt_heap_view *view); /* NULL is allowed */

#endif
