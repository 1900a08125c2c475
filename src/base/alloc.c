/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/alloc.h"

#include <stdlib.h>

#include "base/process.h"

int tt_alloc_fails(void)
{
  return atomic_load_explicit(&tt_process.alloc_countdown, memory_order_relaxed) > 0 &&
         atomic_fetch_sub(&tt_process.alloc_countdown, 1) == 1;
}

void *tt_alloc(size_t count, size_t size)
{
  size_t len;
  if (tt_alloc_fails()) return NULL;
  if (__builtin_mul_overflow(count, size, &len)) return NULL;
  return calloc(1, len ? len : 1);
}

void tt_free(void *pointer)
{
  free(pointer);
}

void tt_alloc_fail_at(long n)
{
  atomic_store(&tt_process.alloc_countdown, n);
}
