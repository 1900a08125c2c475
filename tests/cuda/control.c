/* SPDX-License-Identifier: BSD-3-Clause */
/* The double's side for tests of the library's own code: fake_cuda.h. Clients know of two plain functions:
 * fake_cuda_seal and fake_cuda_report. */
#include "control.h"

#include <string.h>

#include "fake_cuda.h"

EXPORT fake_cuda_fn fake_cuda;
EXPORT void fake_cuda_seal(int is_wanted);
EXPORT void fake_cuda_report(void);

/* From now on everything that creates, allocates, pins, loads or frees fails, until it is called with 0. */
EXPORT void fake_cuda_seal(int is_wanted)
{
  __atomic_store_n(&is_sealed, is_wanted, __ATOMIC_RELEASE);
}

/* Appends the counts to the file that FAKE_REPORT names. */
EXPORT void fake_cuda_report(void)
{
  report_write();
}

static struct fake_cuda_counts count(void)
{
  return (struct fake_cuda_counts){
      .calls = count_of("", NULL),
      .launches = count_of("", "cuLaunchKernel"),
      .copies = count_of("", "cuMemcpyAsync"),
      .queries = count_of("", "cuEventQuery"),
      .overtaken = work_overtaken(),
      .breaches = count_breaches(),
      .memory = count_alive("memory"),
      .pinned = count_alive("pinned"),
      .registered = (long)memory_registered(),
      .streams = count_alive("streams"),
      .events = count_alive("events"),
      .modules = count_alive("modules"),
      .retained = count_alive("retained"),
      .pending = work_pending(),
      .contexts = context_depth(),
  };
}

static void forget(void)
{
  wait_idle();
  memory_forget();
  counts_forget();
}

static void *user_alloc(int context, enum fake_memory kind, size_t len)
{
  static const enum memory_kind kinds[] = {IS_DEVICE, IS_MANAGED, IS_POOLED, IS_PINNED};
  return memory_make(&contexts[context], kinds[kind], len, NULL);
}

static void user_free(void *pointer)
{
  struct region region;
  if (!pointer || !memory_find(pointer, &region)) return;
  wait_idle();
  memory_end(pointer, region.kind == IS_PINNED);
}

static void user_write(void *dst, const void *host, size_t len)
{
  memcpy(reach(dst, len), host, len);
}

static void user_read(void *host, const void *src, size_t len)
{
  memcpy(host, reach(src, len), len);
}

const struct fake_cuda *fake_cuda(void)
{
  static const struct fake_cuda functions = {count, fail_at,    failed,     hold,
                                             forget, user_alloc, user_free, user_write, user_read};
  driver_start();
  return &functions;
}
