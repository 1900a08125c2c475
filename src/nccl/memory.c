/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory and its registration. A registration is a hint: here any memory is as good, so it is taken and comes to
 * nothing; its handle is NULL, which NCCL's programs know as "not needed". */
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

ncclResult_t pncclCommRegister(const ncclComm_t comm, void *buff, size_t size, void **handle)
{
  ncclResult_t result = registration_check(comm, buff, size, handle);
  if (result == tuttiSuccess) *handle = NULL;
  return result;
}
NCCL_WEAK_NAME(ncclCommRegister);

ncclResult_t pncclCommWindowRegister(ncclComm_t comm, void *buff, size_t size, ncclWindow_t *window, int flags)
{
  ncclResult_t result = registration_check(comm, buff, size, window);
  if (result == tuttiSuccess && (flags & ~NCCL_WIN_COLL_SYMMETRIC))
    result = tt_nccl_refuse(tuttiInvalidArgument, "winFlags is %#x: NCCL_WIN_COLL_SYMMETRIC (1) is all there is",
                            (unsigned)flags);
  if (result == tuttiSuccess) *window = NULL;
  return result;
}
NCCL_WEAK_NAME(ncclCommWindowRegister);

/* No call made a handle that is not NULL. */
static ncclResult_t deregister(ncclComm_t comm, const void *handle)
{
  int rank;
  tuttiResult_t result = tuttiCommUserRank(comm, &rank);
  if (result != tuttiSuccess) return tt_nccl_remember(result);
  if (!handle) return tuttiSuccess;
  return tt_nccl_refuse(tuttiInvalidArgument, "handle %p was not made by a registration", handle);
}

ncclResult_t pncclCommDeregister(const ncclComm_t comm, void *handle)
{
  return deregister(comm, handle);
}
NCCL_WEAK_NAME(ncclCommDeregister);

ncclResult_t pncclCommWindowDeregister(ncclComm_t comm, ncclWindow_t window)
{
  return deregister(comm, window);
}
NCCL_WEAK_NAME(ncclCommWindowDeregister);
