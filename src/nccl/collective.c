/* SPDX-License-Identifier: BSD-3-Clause */
/* The operations.
 *
 * Where the process uses a GPU a call goes to its CUDA stream, whatever memory it has, and returns at once. Else a
 * stream cannot hold work, and a call is complete when it returns (in a group: when the group's end returns). */
#include "nccl/shim.h"

/* The types and operations that Tutti has beyond NCCL's do not exist here. */
static ncclResult_t known_check(ncclDataType_t type, ncclRedOp_t op)
{
  if (type > tuttiFloat8e5m2)
    return tt_nccl_refuse(tuttiInvalidArgument, "type is %d: it must be an ncclDataType_t from 0 to %d", (int)type,
                          tuttiFloat8e5m2);
  if (op > tuttiAvg && op < tuttiNumOps)
    return tt_nccl_refuse(tuttiInvalidArgument, "op is %d: it must be an ncclRedOp_t from 0 to %d, or one made by "
                          "ncclRedOpCreatePreMulSum on this communicator and not destroyed yet", (int)op, tuttiAvg);
  return tuttiSuccess;
}

ncclResult_t pncclAllReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, ncclRedOp_t op,
                            ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, op);
  if (result == tuttiSuccess) result = tuttiAllReduce(sendbuff, recvbuff, count, type, op, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclAllReduce);

ncclResult_t pncclReduce(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, ncclRedOp_t op,
                         int root, ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, op);
  if (result == tuttiSuccess) result = tuttiReduce(sendbuff, recvbuff, count, type, op, root, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclReduce);

ncclResult_t pncclBroadcast(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, int root,
                            ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiBroadcast(sendbuff, recvbuff, count, type, root, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclBroadcast);

ncclResult_t pncclBcast(void *buff, size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiBcast(buff, count, type, root, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclBcast);

ncclResult_t pncclReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount, ncclDataType_t type,
                                ncclRedOp_t op, ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, op);
  if (result == tuttiSuccess) result = tuttiReduceScatter(sendbuff, recvbuff, recvcount, type, op, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclReduceScatter);

ncclResult_t pncclAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, ncclDataType_t type,
                            ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiAllGather(sendbuff, recvbuff, sendcount, type, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclAllGather);

ncclResult_t pncclAlltoAll(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiAlltoAll(sendbuff, recvbuff, count, type, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclAlltoAll);

ncclResult_t pncclGather(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, int root,
                         ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiGather(sendbuff, recvbuff, count, type, root, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclGather);

ncclResult_t pncclScatter(const void *sendbuff, void *recvbuff, size_t count, ncclDataType_t type, int root,
                          ncclComm_t comm, cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiScatter(sendbuff, recvbuff, count, type, root, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclScatter);

ncclResult_t pncclSend(const void *sendbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiSend(sendbuff, count, type, peer, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclSend);

ncclResult_t pncclRecv(void *recvbuff, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                       cudaStream_t stream)
{
  tuttiStream_t on;
  ncclResult_t result = tt_nccl_stream(stream, &on);
  if (result == tuttiSuccess) result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiRecv(recvbuff, count, type, peer, comm, on);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclRecv);

ncclResult_t pncclRedOpCreatePreMulSum(ncclRedOp_t *op, void *scalar, ncclDataType_t type,
                                       ncclScalarResidence_t residence, ncclComm_t comm)
{
  ncclResult_t result = known_check(type, tuttiSum);
  if (result == tuttiSuccess) result = tuttiRedOpCreatePreMulSum(op, scalar, type, residence, comm);
  return tt_nccl_result(result);
}
NCCL_WEAK_NAME(ncclRedOpCreatePreMulSum);

ncclResult_t pncclRedOpDestroy(ncclRedOp_t op, ncclComm_t comm)
{
  return tt_nccl_result(tuttiRedOpDestroy(op, comm));
}
NCCL_WEAK_NAME(ncclRedOpDestroy);

ncclResult_t pncclGroupStart(void)
{
  return tt_nccl_result(tuttiGroupStart());
}
NCCL_WEAK_NAME(ncclGroupStart);

ncclResult_t pncclGroupEnd(void)
{
  return tt_nccl_result(tuttiGroupEnd());
}
NCCL_WEAK_NAME(ncclGroupEnd);

/* A caller may rely on this much: the group is over, and none of its calls starts. */
ncclResult_t pncclGroupSimulateEnd(ncclSimInfo_t *info)
{
  (void)info;
  ncclResult_t result = tt_nccl_refuse(tuttiInvalidUsage,
                                       "ncclGroupSimulateEnd: there is no estimate of times yet; the group is over "
                                       "and nothing in it starts: use ncclGroupEnd instead");
  tuttiGroupEnd();
  return result;
}
NCCL_WEAK_NAME(ncclGroupSimulateEnd);
