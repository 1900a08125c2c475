/* SPDX-License-Identifier: BSD-3-Clause */
/* tuttiMemAlloc: page-aligned memory, touched once so that no operation pays for it. */
#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#include "comm/comm.h"

struct block {
  struct block *next;
  void *pointer;
  size_t len;
};

tuttiResult_t tt_memory_alloc(void **pointer, size_t size)
{
  size_t page = 4096, len = size ? size : 1;
  if (len > SIZE_MAX - page) return tt_fail(tuttiSystemError, "size is %zu bytes: more than there is memory", size);
  len = (len + page - 1) / page * page;
  struct block *block = tt_alloc(1, sizeof *block);
  void *map =
      block ? mmap(NULL, len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0) : MAP_FAILED;
  if (map == MAP_FAILED) {
    tt_free(block);
    return tt_fail(tuttiSystemError, "no memory of %zu bytes: %s; free some, or raise the limit (ulimit -v)", size,
                   strerror(errno));
  }
  block->pointer = map;
  block->len = len;
  pthread_mutex_lock(&tt_process.mutex);
  block->next = tt_process.memory;
  tt_process.memory = block;
  pthread_mutex_unlock(&tt_process.mutex);
  *pointer = map;
  return tuttiSuccess;
}

tuttiResult_t tt_memory_free(void *pointer)
{
  if (!pointer) return tuttiSuccess;
  pthread_mutex_lock(&tt_process.mutex);
  struct block *block = tt_process.memory, *before = NULL;
  while (block && block->pointer != pointer) {
    before = block;
    block = block->next;
  }
  if (block && before) before->next = block->next;
  else if (block) tt_process.memory = block->next;
  pthread_mutex_unlock(&tt_process.mutex);
  if (!block)
    return tt_fail(tuttiInvalidArgument, "ptr %p was not returned by tuttiMemAlloc, or was freed already", pointer);
  munmap(block->pointer, block->len);
  tt_free(block);
  return tuttiSuccess;
}
