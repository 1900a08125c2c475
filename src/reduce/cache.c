/* SPDX-License-Identifier: BSD-3-Clause */
/* The size of the last cache: data that a call touches beyond it stay in no cache. */
#include "reduce/table_private.h"

#define CACHE_LEN_UNKNOWN ((size_t)32 << 20) /* bytes */

#if defined(__x86_64__)
#include <cpuid.h>

/* The largest data cache in a processor's list of caches: AMD and Intel have the list at different leaves, in the same
 * form. The C library's own figure adds up all parts of a cache that is divided among cores. */
static size_t largest(unsigned leaf)
{
  size_t most = 0;
  for (unsigned i = 0; i < 16; i++) {
    unsigned a, b, c, d;
    if (!__get_cpuid_count(leaf, i, &a, &b, &c, &d) || !(a & 0x1f)) break;
    size_t ways = (b >> 22) + 1, parts = (b >> 12 & 0x3ff) + 1, line = (b & 0xfff) + 1, sets = (size_t)c + 1;
    size_t len = ways * parts * line * sets;
    if ((a & 0x1f) != 2 && len > most) most = len; /* 2: an instruction cache */
  }
  return most;
}

static size_t read_len(void)
{
  size_t len = largest(4);
  return len ? len : largest(0x8000001d);
}
#else
static size_t read_len(void)
{
  return 0;
}
#endif

/* The processor is asked once, because virtual machines are slow to answer. */
size_t tt_reduce_cache_len(void)
{
  size_t len = atomic_load_explicit(&tt_process.cache_len, memory_order_relaxed);
  if (len) return len;
  len = read_len();
  if (!len) len = CACHE_LEN_UNKNOWN;
  atomic_store_explicit(&tt_process.cache_len, len, memory_order_relaxed);
  return len;
}
