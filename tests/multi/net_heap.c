/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of tuttiMemAlloc: whose it is, what peers see of it, and that it is given back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "census.h"
#include "memory/memory.h"
#include "net/net.h"

#define PAGE 4096
#define BLOCKS 40

static uint64_t random_below(uint64_t *state, uint64_t below)
{
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (*state >> 33) % below;
}

/* Blocks come and go in a drawn order; each keeps its bytes, and begins as zeros. */
static void blocks_keep_their_bytes(void **state)
{
  (void)state;
  uint8_t *blocks[BLOCKS] = {NULL};
  size_t lens[BLOCKS];
  uint64_t random = 1;
  for (int round = 0; round < 2000; round++) {
    int k = (int)random_below(&random, BLOCKS);
    if (!blocks[k]) {
      lens[k] = 1 + random_below(&random, 5 * PAGE);
      assert_int_equal(tt_heap_alloc((void **)&blocks[k], lens[k]), tuttiSuccess);
      assert_int_equal((uintptr_t)blocks[k] % PAGE, 0);
      for (size_t i = 0; i < lens[k]; i++) assert_int_equal(blocks[k][i], 0);
      memset(blocks[k], k + 1, lens[k]);
      continue;
    }
    for (size_t i = 0; i < lens[k]; i++) assert_int_equal(blocks[k][i], k + 1);
    assert_int_equal(tt_heap_free(blocks[k]), tuttiSuccess);
    blocks[k] = NULL;
  }
  for (int k = 0; k < BLOCKS; k++) assert_int_equal(tt_heap_free(blocks[k]), tuttiSuccess);
}

static void with_the_last_block_all_of_it_goes(void **state)
{
  (void)state;
  void *one, *other;
  struct tt_heap *heap;
  int before = census_descriptors();
  assert_int_equal(tt_heap_alloc(&one, 1), tuttiSuccess);
  assert_int_equal(tt_heap_alloc(&other, 100000), tuttiSuccess);
  assert_int_equal(tt_heap_hold(&heap), tuttiSuccess);
  assert_int_equal(census_descriptors(), before + 1);
  assert_int_equal(tt_heap_free(one), tuttiSuccess);
  assert_int_equal(tt_heap_free(one), tuttiInvalidArgument);
  assert_int_equal(tt_heap_free(&heap), tuttiInvalidArgument);
  tt_heap_release(heap);
  assert_int_equal(census_descriptors(), before + 1);
  assert_int_equal(tt_heap_free(other), tuttiSuccess);
  assert_int_equal(census_descriptors(), before);
  assert_int_equal(tt_heap_free(other), tuttiInvalidArgument);
}

static void a_block_has_a_place(void **state)
{
  (void)state;
  uint8_t *block, *mine = malloc(PAGE);
  struct tt_heap *heap;
  uint64_t offset;
  assert_int_equal(tt_heap_hold(&heap), tuttiSuccess);
  assert_int_equal(tt_heap_alloc((void **)&block, 3 * PAGE), tuttiSuccess);
  assert_true(tt_heap_has(heap, block + 5, 3 * PAGE - 5, &offset));
  assert_ptr_equal(heap->base + offset, block + 5);
  assert_false(tt_heap_has(heap, mine, 1, &offset));
  assert_false(tt_heap_has(heap, block, heap->len, &offset) && block > heap->base);
  assert_false(tt_heap_has(heap, heap->base - 1, 2, &offset));
  assert_false(tt_heap_has(heap, heap->base + heap->len - 1, 2, &offset));
  assert_false(tt_heap_has(heap, block, SIZE_MAX, &offset));
  free(mine);
  assert_int_equal(tt_heap_free(block), tuttiSuccess);
  tt_heap_release(heap);
}

/* 1 if the access kills. */
static int kills(volatile uint8_t *at)
{
  int status;
  pid_t child = fork();
  if (child == 0) {
    signal(SIGSEGV, SIG_DFL);
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
    (void)*at;
    _exit(0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  return !WIFEXITED(status) || WEXITSTATUS(status) != 0;
}

static void what_is_behind_and_what_was_freed_cannot_be_touched(void **state)
{
  (void)state;
  uint8_t *one, *two;
  assert_int_equal(tt_heap_alloc((void **)&one, 2 * PAGE), tuttiSuccess);
  assert_int_equal(tt_heap_alloc((void **)&two, PAGE), tuttiSuccess);
  assert_false(kills(one) || kills(one + 2 * PAGE - 1));
  assert_true(kills(one + 2 * PAGE));
  assert_int_equal(tt_heap_free(one), tuttiSuccess);
  assert_true(kills(one));
  assert_false(kills(two));
  assert_int_equal(tt_heap_free(two), tuttiSuccess);
}

static uint64_t blocks_of(int fd)
{
  struct stat status;
  assert_int_equal(fstat(fd, &status), 0);
  return (uint64_t)status.st_blocks;
}

/* One mapping shows what is allocated later, and memory goes back to the system when it is freed. */
static void a_view_shows_what_comes_later(void **state)
{
  (void)state;
  struct tt_heap *heap;
  uint8_t *block;
  const uint8_t *base = NULL, *again = NULL;
  uint64_t offset;
  assert_int_equal(tt_heap_hold(&heap), tuttiSuccess);
  uint64_t empty = blocks_of(heap->fd);
  struct tt_heap_view *view = tt_heap_view_open(heap->nonce, heap->fd, heap->len, &base);
  assert_non_null(view);
  assert_ptr_equal(tt_heap_view_open(heap->nonce, heap->fd, heap->len, &again), view);
  assert_ptr_equal(again, base);
  tt_heap_view_close(view);
  assert_int_equal(tt_heap_alloc((void **)&block, 1 << 20), tuttiSuccess);
  assert_true(blocks_of(heap->fd) >= empty + (1 << 20) / 512);
  assert_true(tt_heap_has(heap, block, 1 << 20, &offset));
  for (int i = 0; i < 1 << 20; i++) block[i] = (uint8_t)(i * 7);
  assert_memory_equal(base + offset, block, 1 << 20);
  assert_int_equal(tt_heap_free(block), tuttiSuccess);
  assert_int_equal(blocks_of(heap->fd), empty);
  assert_true(mprotect((void *)(uintptr_t)base, PAGE, PROT_READ) == 0);
  tt_heap_view_close(view);
  tt_heap_release(heap);
}

static void what_is_no_heap_is_not_mapped(void **state)
{
  (void)state;
  const uint8_t *base = NULL;
  int fd = memfd_create("short", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  assert_true(fd >= 0 && ftruncate(fd, PAGE) == 0);
  assert_null(tt_heap_view_open(1, fd, PAGE, &base)); /* may shrink */
  assert_null(tt_heap_view_open(2, fd, 2 * PAGE, &base));
  assert_null(tt_heap_view_open(3, -1, PAGE, &base));
  close(fd);
}

/* Without room for its addresses, memory is private; in a child, whose limit ends with it. */
static void where_addresses_are_few_it_is_private(void **state)
{
  (void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  skip(); /* their shadows are longer than any limit */
#endif
  int status;
  pid_t child = fork();
  if (child == 0) {
    struct tt_heap *heap;
    uint8_t *block;
    uint64_t offset;
    atomic_store(&tt_process.forked, 0);
    setrlimit(RLIMIT_AS, &(struct rlimit){(rlim_t)512 << 20, (rlim_t)512 << 20});
    if (tt_heap_hold(&heap) != tuttiSuccess || heap->len) _exit(1);
    if (tt_heap_alloc((void **)&block, 100000) != tuttiSuccess) _exit(2);
    memset(block, 1, 100000);
    if (tt_heap_has(heap, block, 1, &offset)) _exit(3);
    if (tt_heap_alloc((void **)&block, (size_t)1 << 30) != tuttiSystemError) _exit(4);
    _exit(tt_heap_free(block) == tuttiSuccess ? 0 : 5);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  assert_int_equal(WEXITSTATUS(status), 0);
}

static void too_much_is_an_error(void **state)
{
  (void)state;
  void *block = NULL;
  assert_int_equal(tt_heap_alloc(&block, (size_t)1 << 50), tuttiSystemError);
  assert_int_equal(tt_heap_alloc(&block, SIZE_MAX), tuttiSystemError);
  assert_null(block);
}

int main(void)
{
  alarm(120);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(blocks_keep_their_bytes),
      cmocka_unit_test(with_the_last_block_all_of_it_goes),
      cmocka_unit_test(a_block_has_a_place),
      cmocka_unit_test(what_is_behind_and_what_was_freed_cannot_be_touched),
      cmocka_unit_test(a_view_shows_what_comes_later),
      cmocka_unit_test(what_is_no_heap_is_not_mapped),
      cmocka_unit_test(where_addresses_are_few_it_is_private),
      cmocka_unit_test(too_much_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
