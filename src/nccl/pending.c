/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that are being made from others without blocking.
 *
 * NCCL's programs wait for the parent, whose state covers the child; Tutti's wait for the child. So the parent's state
 * is in progress here until the child is ready. */
#include <pthread.h>

#include "nccl/shim.h"

#define PENDING_MAX 64 /* more at once, in one process, are not covered: their programs must ask the child */

static struct {
  pthread_mutex_t mutex; /* held while a child is asked, so that it is not freed meanwhile */
  struct {
    ncclComm_t parent, child;
  } pairs[PENDING_MAX];
  _Atomic int count;
} pending = {.mutex = PTHREAD_MUTEX_INITIALIZER};

static void drop_locked(int p)
{
  int final = atomic_load(&pending.count) - 1;
  pending.pairs[p] = pending.pairs[final];
  atomic_store(&pending.count, final);
}

void tt_nccl_pending_add(ncclComm_t parent, ncclComm_t child)
{
  pthread_mutex_lock(&pending.mutex);
  int count = atomic_load(&pending.count);
  if (count < PENDING_MAX) {
    pending.pairs[count].parent = parent;
    pending.pairs[count].child = child;
    atomic_store(&pending.count, count + 1);
  }
  pthread_mutex_unlock(&pending.mutex);
}

void tt_nccl_pending_remove(ncclComm_t comm)
{
  if (!atomic_load(&pending.count)) return;
  pthread_mutex_lock(&pending.mutex);
  for (int p = atomic_load(&pending.count) - 1; p >= 0; p--)
    if (pending.pairs[p].parent == comm || pending.pairs[p].child == comm) drop_locked(p);
  pthread_mutex_unlock(&pending.mutex);
}

ncclResult_t tt_nccl_pending_state(ncclComm_t comm)
{
  if (!atomic_load(&pending.count)) return tuttiSuccess;
  ncclResult_t state = tuttiSuccess;
  pthread_mutex_lock(&pending.mutex);
  for (int p = atomic_load(&pending.count) - 1; p >= 0; p--) {
    if (pending.pairs[p].parent != comm) continue;
    ncclResult_t child = tuttiSuccess;
    tuttiCommGetAsyncError(pending.pairs[p].child, &child);
    if (child == tuttiInProgress) state = tuttiInProgress;
    else drop_locked(p);
  }
  pthread_mutex_unlock(&pending.mutex);
  return state;
}
