/* SPDX-License-Identifier: BSD-3-Clause */
/* The objects of the fusion ask for memory, threads, operations and channels under these names (tests/CMakeLists.txt):
 * one of these, which a test chooses, is refused. */
#ifndef REFUSED_H
#define REFUSED_H

#include <errno.h>

#include "comm/private.h"

static _Atomic long countdown; /* what is asked for while it goes from 1 to 0 is refused; below: nothing is */

static int is_refused(void)
{
  return atomic_load(&countdown) > 0 && atomic_fetch_sub(&countdown, 1) == 1;
}

void *own_alloc(size_t count, size_t size);
void *own_alloc(size_t count, size_t size)
{
  return is_refused() ? NULL : tt_alloc(count, size);
}

tuttiResult_t own_user_alloc(void **pointer, size_t size);
tuttiResult_t own_user_alloc(void **pointer, size_t size)
{
  return is_refused() ? tt_fail(tuttiSystemError, "no memory of %zu bytes", size) : tt_user_alloc(pointer, size);
}

/* Ops that are used again are there already. */
struct tt_op *own_op_begin(struct tuttiComm *comm, const struct tt_binding *binding);
struct tt_op *own_op_begin(struct tuttiComm *comm, const struct tt_binding *binding)
{
  return !comm->queue.spare && is_refused() ? NULL : tt_op_begin(comm, binding);
}

int own_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *context);
int own_thread_start(pthread_t *thread, const char *name, void *(*body)(void *), void *context)
{
  return is_refused() ? EAGAIN : tt_thread_start(thread, name, body, context);
}

tuttiResult_t own_comm_create(struct tuttiComm **comm, const struct tt_comm_spec *spec);
tuttiResult_t own_comm_create(struct tuttiComm **comm, const struct tt_comm_spec *spec)
{
  return is_refused() ? tt_fail(tuttiSystemError, "out of memory for a channel") : tt_comm_create(comm, spec);
}

tuttiResult_t own_pricing_create(struct tt_pricing **pricing, const struct tuttiComm *comm);
tuttiResult_t own_pricing_create(struct tt_pricing **pricing, const struct tuttiComm *comm)
{
  return is_refused() ? tt_fail(tuttiSystemError, "out of memory for prices") : tt_pricing_create(pricing, comm);
}

#endif
