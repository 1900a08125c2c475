/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

struct tt_process tt_process = {
    .mutex = PTHREAD_MUTEX_INITIALIZER, .cuda_mutex = PTHREAD_MUTEX_INITIALIZER,
    .heap_mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void mark_child(void)
{
  atomic_store(&tt_process.forked, 1);
}

static void install(void)
{
  pthread_atfork(0, 0, mark_child);
  if (syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0)
    atomic_store(&tt_process.membarrier, 1);
  atomic_store_explicit(&tt_process.installed, 1, memory_order_release);
}

void tt_process_install(void)
{
  pthread_once(&tt_process.once, install);
}

void tt_heavy_fence(void)
{
  if (atomic_load(&tt_process.membarrier)) syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0);
}
