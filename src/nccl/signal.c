/* SPDX-License-Identifier: BSD-3-Clause */
/* One-sided operations on windows: there are none yet, and each function says what to use instead. */
#include "nccl/shim.h"

#pragma GCC diagnostic ignored "-Wunused-parameter" /* of functions that only refuse */

static ncclResult_t refuse(const char *function)
{
  return tt_nccl_refuse(tuttiInvalidUsage, "%s: there are no one-sided operations yet; use ncclSend and ncclRecv",
                        function);
}

ncclResult_t pncclPutSignal(const void *localbuff, size_t count, ncclDataType_t type, int peer, ncclWindow_t window,
                            size_t offset, int signal, int context, unsigned int flags, ncclComm_t comm,
                            cudaStream_t stream)
{
  return refuse("ncclPutSignal");
}
NCCL_WEAK_NAME(ncclPutSignal);

ncclResult_t pncclSignal(int peer, int signal, int context, unsigned int flags, ncclComm_t comm, cudaStream_t stream)
{
  return refuse("ncclSignal");
}
NCCL_WEAK_NAME(ncclSignal);

ncclResult_t pncclWaitSignal(int count, ncclWaitSignalDesc_t *signals, ncclComm_t comm, cudaStream_t stream)
{
  return refuse("ncclWaitSignal");
}
NCCL_WEAK_NAME(ncclWaitSignal);
