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

/* One per process. It exists while it is held or has a block; its addresses do not change in that time. All fields but
 * the last four are fixed. Any thread may call these functions, but on the data path only tt_heap_has. */
struct tt_heap {
  int fd;         /* a sealed memfd; -1: there is none here, and blocks are private memory */
  uint8_t *base;
  size_t len;     /* bytes of addresses; 0 without fd */
  uint64_t nonce; /* the heap's name on this host */
  int references;                       /* these four are under tt_process.heap_mutex */
  struct tt_heap_block *blocks, *others;
  struct tt_heap_watcher *watchers;
};

/* Gets the heap, and makes it if there is none. Every hold needs one release. Errors: tuttiSystemError. */
tuttiResult_t tt_heap_hold(struct tt_heap **heap);
void tt_heap_release(struct tt_heap *heap); /* NULL is allowed */

/* As tuttiMemAlloc and tuttiMemFree: whole pages, zeroed, really allocated. */
tuttiResult_t tt_heap_alloc(void **pointer, size_t size);
tuttiResult_t tt_heap_free(void *pointer);

/* 1 if all of [pointer, pointer + len) lies in the heap's addresses, *offset bytes from its base. */
static inline int tt_heap_has(const struct tt_heap *heap, const void *pointer, size_t len, uint64_t *offset)
{
  *offset = (uint64_t)((uintptr_t)pointer - (uintptr_t)heap->base);
  return *offset < heap->len && len <= heap->len - *offset;
}

/* A watcher keeps something for blocks, e.g. the registration of their pages with a device. `freed` is called under the
 * heap's lock by the thread that frees a block, while the block's pages still exist; it must not call the heap. A
 * watcher holds the heap. After unwatch returns, `freed` is not called any more. Unwatch of an unknown watcher does
 * nothing. */
struct tt_heap_watcher {
  void (*freed)(struct tt_heap_watcher *watcher, void *block, size_t len);
  struct tt_heap_watcher *next; /* used by the heap */
};
void tt_heap_watch(struct tt_heap *heap, struct tt_heap_watcher *watcher);
void tt_heap_unwatch(struct tt_heap *heap, struct tt_heap_watcher *watcher);

/* Calls found(owner, block, its length) with the block that contains all of [pointer, pointer + len). The call is made
 * under the heap's lock, so the block is not freed meanwhile. Without such a block nothing is called. */
void tt_heap_find(struct tt_heap *heap, const void *pointer, size_t len,
                  void (*found)(void *owner, void *block, size_t block_len), void *owner);

/* Maps a peer's heap for reading. All ranks of this process that open the same nonce share one mapping, at *base. NULL
 * if the heap cannot be mapped or is not what it should be: the peer must then send copies. fd stays the caller's.
 *
 * A process with the descriptor can write, too, so only ranks of the same user that hold the job's key are given it. */
struct tt_heap_view *tt_heap_view_open(uint64_t nonce, int fd, size_t len, const uint8_t **base);
void tt_heap_view_close(struct tt_heap_view *view); /* NULL is allowed */

#endif
