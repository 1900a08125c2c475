/* SPDX-License-Identifier: BSD-3-Clause */
/* Counts: collectives in which the share of each rank has a length of its own.
 *
 *     size_t counts[3] = {5, 0, 1000};
 *     tuttiAllGatherV(mine, counts[rank], all, counts, NULL, tuttiFloat, comm, NULL);
 *
 * The rules of tuttiAllReduce for alignment, order, streams, groups and errors hold for each of them. Below, n is the
 * number of ranks and `own` this rank. Counts and displacements are in elements, and their arrays have n entries, which
 * are read before the call returns, also with a stream. A count may be 0, on some ranks or on all.
 *
 * Displacements tell where each share begins in the buffer that has all of them. Shares may lie in any order and with
 * any gaps, which are neither read nor written. NULL: one share behind the other in the order of the ranks. Each rank
 * has displacements of its own.
 *
 * A buffer of which this rank uses no element may be NULL. Memory that is written may not overlap anything else,
 * except in place as stated. */
#ifndef TUTTI_COUNTS_H
#define TUTTI_COUNTS_H

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Gives each rank the vectors of all ranks, which have any lengths.
 *
 * recvbuff[displs[r] + i] = sendbuff_r[i], for all ranks r and i in 0 .. recvcounts[r]-1. sendcount is recvcounts[own].
 * In place: sendbuff == recvbuff + displs[own].
 *
 * Must match across ranks: all entries of recvcounts, beside what must match in tuttiAllGather. The sentence of a
 * mismatch shows the average of the counts and a hash of them.
 *
 * Errors: as tuttiAllGather; tuttiInvalidArgument: recvcounts is NULL, sendcount is another, a count and displacement
 * are more than memory can hold, parts of recvbuff overlap. */
TUTTI_API tuttiResult_t tuttiAllGatherV(const void *sendbuff, size_t sendcount, void *recvbuff,
                                        const size_t *recvcounts, const size_t *displs, tuttiDataType_t type,
                                        tuttiComm_t comm, tuttiStream_t stream);

/* Combines the vectors of all ranks; each rank gets its share of the result.
 *
 * recvbuff[i] = op over all ranks r of sendbuff_r[displs_r[own] + i], for i in 0 .. recvcounts[own]-1. Shares in
 * sendbuff may overlap each other. In place: recvbuff == sendbuff + displs[own]; then the other elements of sendbuff
 * are undefined afterwards. The communicator's wire type applies.
 *
 * Must match across ranks: all entries of recvcounts, beside what must match in tuttiReduceScatter. The sentence of a
 * mismatch shows the average of the counts and a hash of them.
 *
 * Errors: as tuttiReduceScatter; tuttiInvalidArgument: recvcounts is NULL, a count and displacement are more than
 * memory can hold, recvbuff overlaps sendbuff. */
TUTTI_API tuttiResult_t tuttiReduceScatterV(const void *sendbuff, void *recvbuff, const size_t *recvcounts,
                                            const size_t *displs, tuttiDataType_t type, tuttiRedOp_t op,
                                            tuttiComm_t comm, tuttiStream_t stream);

/* Gives each rank its share of each rank's vector.
 *
 * recvbuff[rdispls[r] + i] = sendbuff_r[sdispls_r[own] + i], for all ranks r and i in 0 .. recvcounts[r]-1. The r-th
 * entries of sendcounts and sdispls describe the share for rank r, those of recvcounts and rdispls the share from rank
 * r. Shares that are sent may overlap each other. There is no in place. Memory of a GPU needs a CUDA stream.
 *
 * Must match across ranks: the bytes of each share at its two ends, sendcounts[r] here and recvcounts[own] on rank r. A
 * difference is tuttiInvalidUsage on all ranks, and the sentence names both lengths. Each pair of ranks exchanges a
 * message even where both counts are 0, so a rank returns when all ranks have called it, or are about to. They are
 * messages like those of tuttiSend: the calls of one group run after the group's collectives, and between each two
 * ranks in the order of the calls.
 *
 * Errors: as tuttiSend; tuttiInvalidArgument: an array of counts is NULL, sendcounts[own] is not recvcounts[own], a
 * count and displacement are more than memory can hold, parts of recvbuff overlap each other or sendbuff.
 * tuttiInvalidUsage: memory of a device without a CUDA stream. */
TUTTI_API tuttiResult_t tuttiAlltoAllV(const void *sendbuff, const size_t *sendcounts, const size_t *sdispls,
                                       void *recvbuff, const size_t *recvcounts, const size_t *rdispls,
                                       tuttiDataType_t type, tuttiComm_t comm, tuttiStream_t stream);

#ifdef __cplusplus
}
#endif
#endif
