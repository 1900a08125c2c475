/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and its registration. A registration is a hint: one that is of no use here, or that the device cannot take,
 * comes to nothing, and its handle is NULL, which NCCL's programs know as "not needed". A window is a registration. */
#include "nccl/shim.h"

ncclResult_t pncclMemAlloc(void **ptr, size_t size)
{
  return tt_nccl_result(tuttiMemAlloc(ptr, size));
}
NCCL_WEAK_NAME(ncclMemAlloc);

ncclResult_t pncclMemFree(void *ptr)
{
  return tt_nccl_result(tuttiMemFree(ptr));
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

/* Arguments are checked. */
static ncclResult_t enroll(ncclComm_t comm, void *buff, size_t size, void **handle)
{
  tuttiResult_t state, result = tuttiCommGetAsyncError(comm, &state);
  *handle = NULL;
  if (result == tuttiSuccess && state == tuttiSuccess) result = tuttiCommRegister(comm, buff, size, handle);
  if (result == tuttiSystemError || result == tuttiUnhandledCudaError) result = tuttiSuccess;
  return tt_nccl_result(result);
}

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
  ncclResult_t result = registration_check(comm, buff, size, handle);
  return result == tuttiSuccess ? enroll(comm, buff, size, handle) : result;
}
NCCL_WEAK_NAME(ncclCommRegister);

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *window, int flags)
{
  void *handle = NULL;
  ncclResult_t result = registration_check(comm, buff, size, window);
  if (result == tuttiSuccess && (flags & ~NCCL_WIN_COLL_SYMMETRIC))
    result = tt_nccl_refuse(tuttiInvalidArgument, "winFlags is %#x: NCCL_WIN_COLL_SYMMETRIC (1) is all there is",
                            (unsigned)flags);
  if (result == tuttiSuccess) result = enroll(comm, buff, size, &handle);
  if (result == tuttiSuccess) *window = handle;
  return result;
}
NCCL_WEAK_NAME(ncclCommWindowRegister);

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
  return tt_nccl_result(tuttiCommDeregister(comm, handle));
}
NCCL_WEAK_NAME(ncclCommDeregister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  return tt_nccl_result(tuttiCommDeregister(comm, window));
}
NCCL_WEAK_NAME(ncclCommWindowDeregister);
