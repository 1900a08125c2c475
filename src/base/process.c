/* SPDX-License-Identifier: BSD-3-Clause */
#include "base/process.h"

struct tt_process tt_process = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

static void mark_child(void)
{
  atomic_store(&tt_process.forked, 1);
}

static void install(void)
{
  pthread_atfork(0, 0, mark_child);
}

void tt_process_enter(void)
{
  pthread_once(&tt_process.once, install);
}
