/* SPDX-License-Identifier: BSD-3-Clause */
/* Outboxes: their layout, making one, mapping a peer's. */
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "transport/shm_private.h"

#define HEADER_BYTES 128

static size_t acks(const struct tt_shm_shape *shape)
{
  return (size_t)shape->nlocal * shape->lanes;
}

size_t tt_shm_ack_at(const struct tt_shm_shape *shape, int source, int lane)
{
  return HEADER_BYTES + ((size_t)source * shape->lanes + (size_t)lane) * sizeof(struct tt_shm_ack);
}

size_t tt_shm_ring_at(const struct tt_shm_shape *shape, int destination, int lane)
{
  /* The adjacent-line prefetcher works on pairs of lines, so a ring begins on a pair. */
  size_t rings = (HEADER_BYTES + acks(shape) * sizeof(struct tt_shm_ack) + 127) & ~(size_t)127;
  size_t ring = (size_t)destination * shape->lanes + (size_t)lane;
  return rings + ring * TT_SHM_DEPTH * sizeof(struct tt_shm_line);
}

size_t tt_shm_said_at(const struct tt_shm_shape *shape, int destination, int lane)
{
  size_t before = (size_t)destination * shape->lanes + (size_t)lane;
  return tt_shm_ring_at(shape, (int)shape->nlocal, 0) + before * sizeof(struct tt_shm_said);
}

size_t tt_shm_pool_at(const struct tt_shm_shape *shape)
{
  return (tt_shm_said_at(shape, (int)shape->nlocal, 0) + TT_SHM_PAGE - 1) & ~(size_t)(TT_SHM_PAGE - 1);
}

size_t tt_shm_outbox_bytes(const struct tt_shm_shape *shape)
{
  return tt_shm_pool_at(shape) + (size_t)shape->slots * shape->slot_bytes;
}

tuttiResult_t tt_shm_box_create(struct tt_shm_box **out, uint64_t nonce)
{
  struct tt_shm_box *box = tt_alloc(1, sizeof *box);
  if (!box) return tt_fail(tuttiSystemError, "out of memory for the record of a shared outbox");
  box->nonce = nonce;
  box->fd = -1;
  box->references = 1;
  pthread_mutex_lock(&tt_process.mutex);
  box->next = tt_process.outboxes;
  tt_process.outboxes = box;
  pthread_mutex_unlock(&tt_process.mutex);
  *out = box;
  return tuttiSuccess;
}

tuttiResult_t tt_shm_box_fill(struct tt_shm_box *box, size_t len)
{
  int fd;
  void *map;
  tuttiResult_t result = tt_memory_create("tutti-outbox", len, &fd, &map);
  if (result != tuttiSuccess) return result;
  struct tt_shm_header *header = map;
  header->magic = TT_SHM_MAGIC;
  header->nonce = box->nonce;
  _Static_assert(sizeof *header <= HEADER_BYTES, "header too large");
  pthread_mutex_lock(&tt_process.mutex);
  box->fd = fd;
  box->len = len;
  box->map = map;
  pthread_mutex_unlock(&tt_process.mutex);
  return tuttiSuccess;
}

tuttiResult_t tt_shm_box_map(struct tt_shm_box **out, uint64_t nonce, size_t len, int fd)
{
  const void *map = NULL; /* read-only: a stray store there must hit us and not the peer */
  const struct tt_shm_header *header;
  struct tt_shm_box *box = tt_alloc(1, sizeof *box);
  tuttiResult_t result = box ? tt_memory_view(fd, len, &map)
                             : tt_fail(tuttiSystemError, "out of memory for the record of a shared outbox");
  close(fd);
  if (result != tuttiSuccess) goto fail;
  header = map;
  if (header->magic != TT_SHM_MAGIC || header->nonce != nonce) {
    result = tt_fail(tuttiRemoteError, "the shared memory received is not the outbox its owner's peer info "
                     "announced: do all ranks run the same version?");
    goto fail;
  }
  box->nonce = nonce;
  box->len = len;
  box->map = (uint8_t *)(uintptr_t)map;
  box->references = 1;
  box->fd = -1;
  *out = box;
  return tuttiSuccess;

fail:
  if (map) munmap((void *)(uintptr_t)map, len);
  tt_free(box);
  return result;
}

tuttiResult_t tt_shm_box_find(struct tt_shm_box **out, uint64_t nonce)
{
  pthread_mutex_lock(&tt_process.mutex);
  struct tt_shm_box *box = tt_process.outboxes;
  while (box && box->nonce != nonce) box = box->next;
  int is_early = box && !box->map;
  if (box && !is_early) box->references++;
  pthread_mutex_unlock(&tt_process.mutex);
  if (is_early) return tuttiInProgress;
  *out = box;
  return tuttiSuccess;
}

static void unlist(struct tt_shm_box *box)
{
  struct tt_shm_box *before = tt_process.outboxes;
  if (before == box) tt_process.outboxes = box->next;
  while (before && before->next != box) before = before->next;
  if (before) before->next = box->next;
}

void tt_shm_box_release(struct tt_shm_box *box, int is_owner)
{
  if (!box) return;
  pthread_mutex_lock(&tt_process.mutex);
  if (is_owner && box->fd >= 0) close(box->fd);
  if (is_owner) box->fd = -1;
  int is_last = --box->references == 0;
  if (is_last) unlist(box);
  pthread_mutex_unlock(&tt_process.mutex);
  if (!is_last) return;
  if (box->map) munmap(box->map, box->len);
  tt_free(box);
}
