/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that are being made from others without blocking.
 *
 * NCCL's programs wait for the parent, whose state covers the child; Tutti's programs wait for the child. So here the
 * parent's state is in progress until the child is ready. */
#include "nccl/shim.h"

static void drop_locked(int p)
{
  int final = atomic_load(&tt_nccl_process.npairs) - 1;
  tt_nccl_process.pairs[p] = tt_nccl_process.pairs[final];
  atomic_store(&tt_nccl_process.npairs, final);
}

void tt_nccl_pending_add(ncclComm_t parent, ncclComm_t child)
{
  pthread_mutex_lock(&tt_nccl_process.pending_mutex);
  int count = atomic_load(&tt_nccl_process.npairs);
  if (count < TT_NCCL_PENDING_MAX) {
    tt_nccl_process.pairs[count].parent = parent;
    tt_nccl_process.pairs[count].child = child;
    atomic_store(&tt_nccl_process.npairs, count + 1);
  }
  pthread_mutex_unlock(&tt_nccl_process.pending_mutex);
}

void tt_nccl_pending_remove(ncclComm_t comm)
{
  if (!atomic_load(&tt_nccl_process.npairs)) return;
  pthread_mutex_lock(&tt_nccl_process.pending_mutex);
  for (int p = atomic_load(&tt_nccl_process.npairs) - 1; p >= 0; p--)
    if (tt_nccl_process.pairs[p].parent == comm || tt_nccl_process.pairs[p].child == comm) drop_locked(p);
  pthread_mutex_unlock(&tt_nccl_process.pending_mutex);
}

ncclResult_t tt_nccl_pending_state(ncclComm_t comm)
{
  if (!atomic_load(&tt_nccl_process.npairs)) return tuttiSuccess;
  ncclResult_t state = tuttiSuccess;
  pthread_mutex_lock(&tt_nccl_process.pending_mutex);
  for (int p = atomic_load(&tt_nccl_process.npairs) - 1; p >= 0; p--) {
    struct tt_nccl_pair *pair = &tt_nccl_process.pairs[p];
    ncclResult_t child = tuttiSuccess; /* right also if comm is the child, whose state the caller has checked */
    if (pair->parent == comm) tuttiCommGetAsyncError(pair->child, &child);
    else if (pair->child != comm) continue;
    if (child == tuttiInProgress) state = tuttiInProgress;
    else drop_locked(p);
  }
  pthread_mutex_unlock(&tt_nccl_process.pending_mutex);
  return state;
}
