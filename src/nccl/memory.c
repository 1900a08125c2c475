/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and its registration. A registration is a hint: if it is of no use here, or the device cannot take it, it has
 * no effect, and its handle is NULL, which NCCL's programs know as "not needed". A window is a registration
 * that can tell its address. */
#include "nccl/shim.h"

ncclResult_t pncclMemAlloc(void **ptr, size_t size)
{
  int is_made;
  ncclResult_t result = tt_nccl_cuda_alloc(ptr, size, &is_made);
  return is_made ? result : tt_nccl_result(tuttiMemAlloc(ptr, size));
}
NCCL_WEAK_NAME(ncclMemAlloc);

ncclResult_t pncclMemFree(void *ptr)
{
  int is_freed;
  ncclResult_t result = tt_nccl_cuda_free(ptr, &is_freed);
  return is_freed ? result : tt_nccl_result(tuttiMemFree(ptr));
}
NCCL_WEAK_NAME(ncclMemFree);

static ncclResult_t registration_check(ncclComm_t comm, const void *buff, size_t size, const void *slot)
{
  int rank;
  tuttiResult_t result = tuttiCommUserRank(comm, &rank);
  if (result != tuttiSuccess) return tt_nccl_remember(result);
  if (!slot) return tt_nccl_refuse(tuttiInvalidArgument, "handle is NULL: pass a place for it");
  if (!buff || !size)
    return tt_nccl_refuse(tuttiInvalidArgument, "buff is %p and size %zu: there is nothing to register", buff, size);
  return tuttiSuccess;
}

/* Registers the buffer; the arguments are already checked. On CUDA streams data travel from slots, and no buffer is
 * looked at, since programs register all that they have. */
static ncclResult_t register_buffer(ncclComm_t comm, void *buff, size_t size, void **handle)
{
  *handle = NULL;
  if (atomic_load(&tt_nccl_process.has_streams)) return tuttiSuccess;
  tuttiResult_t state, result = tuttiCommGetAsyncError(comm, &state);
  if (result == tuttiSuccess && state == tuttiSuccess) result = tuttiCommRegister(comm, buff, size, handle);
  if (result == tuttiSystemError || result == tuttiUnhandledCudaError) result = tuttiSuccess;
  return tt_nccl_result(result);
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
  ncclResult_t result = registration_check(comm, buff, size, handle);
  return result == tuttiSuccess ? register_buffer(comm, buff, size, handle) : result;
}
NCCL_WEAK_NAME(ncclCommRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
  return tt_nccl_result(tuttiCommDeregister(comm, handle));
}
NCCL_WEAK_NAME(ncclCommDeregister);

/* ---- windows ---- */

static ncclWindow_t window_take(ncclComm_t comm, void *buff, void *handle)
{
  ncclWindow_t taken = NULL;
  pthread_mutex_lock(&tt_nccl_process.window_mutex);
  for (int w = 0; w < TT_NCCL_WINDOWS_MAX && !taken; w++)
    if (!tt_nccl_process.windows[w].comm) taken = &tt_nccl_process.windows[w];
  if (taken) *taken = (struct ncclWindow_vidmem){comm, buff, handle};
  pthread_mutex_unlock(&tt_nccl_process.window_mutex);
  return taken;
}

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *window, int flags)
{
  void *handle = NULL;
  ncclResult_t result = registration_check(comm, buff, size, window);
  if (result == tuttiSuccess && (flags & ~(NCCL_WIN_COLL_SYMMETRIC | NCCL_WIN_STRICT_ORDERING)))
    result = tt_nccl_refuse(tuttiInvalidArgument, "winFlags is %#x: NCCL_WIN_COLL_SYMMETRIC (1) and "
                            "NCCL_WIN_STRICT_ORDERING (2) are all there are", (unsigned)flags);
  if (result == tuttiSuccess) result = register_buffer(comm, buff, size, &handle);
  if (result != tuttiSuccess) return result;
  ncclWindow_t made = window_take(comm, buff, handle);
  if (made) {
    *window = made;
    return tuttiSuccess;
  }
  tuttiCommDeregister(comm, handle);
  return tt_nccl_refuse(tuttiSystemError, "this process has %d windows already: deregister some first",
                        TT_NCCL_WINDOWS_MAX);
}
NCCL_WEAK_NAME(ncclCommWindowRegister);

/* A copy of the window if it is one of comm's, else all NULL; with `gives_back` the window is free from then on. */
static struct ncclWindow_vidmem window_find(ncclComm_t comm, ncclWindow_t window, int gives_back)
{
  struct ncclWindow_vidmem found = {NULL, NULL, NULL};
  pthread_mutex_lock(&tt_nccl_process.window_mutex);
  for (int w = 0; comm && w < TT_NCCL_WINDOWS_MAX; w++) {
    if (&tt_nccl_process.windows[w] != window || window->comm != comm) continue;
    found = *window;
    if (gives_back) window->comm = NULL;
  }
  pthread_mutex_unlock(&tt_nccl_process.window_mutex);
  return found;
}

static ncclResult_t no_window(ncclWindow_t window)
{
  return tt_nccl_refuse(tuttiInvalidArgument, "win %p was not made by ncclCommWindowRegister on this communicator, or "
                        "was given back already", (void *)window);
}

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  if (!window) return tuttiSuccess; /* NCCL gives NULL where it supports no windows */
  struct ncclWindow_vidmem found = window_find(comm, window, 1);
  return found.comm ? tt_nccl_result(tuttiCommDeregister(comm, found.handle)) : no_window(window);
}
NCCL_WEAK_NAME(ncclCommWindowDeregister);

ncclResult_t pncclWinGetUserPtr(ncclComm_t comm, ncclWindow_t window, void **ptr)
{
  if (!ptr) return tt_nccl_refuse(tuttiInvalidArgument, "outUserPtr is NULL: pass a valid pointer");
  struct ncclWindow_vidmem found = window_find(comm, window, 0);
  if (!found.comm) return no_window(window);
  *ptr = found.buff;
  return tuttiSuccess;
}
NCCL_WEAK_NAME(ncclWinGetUserPtr);

void tt_nccl_windows_free(ncclComm_t comm)
{
  pthread_mutex_lock(&tt_nccl_process.window_mutex);
  for (int w = 0; w < TT_NCCL_WINDOWS_MAX; w++)
    if (tt_nccl_process.windows[w].comm == comm) tt_nccl_process.windows[w].comm = NULL;
  pthread_mutex_unlock(&tt_nccl_process.window_mutex);
}
