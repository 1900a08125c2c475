/* SPDX-License-Identifier: BSD-3-Clause */
/* Communicators that grow. New processes, or restarted ones, join ranks that are at work.
 *
 *     tuttiUniqueId id;                                          // on the ranks of comm:
 *     if (rank == 0) tuttiCommGetUniqueId(comm, &id);            // and hands it to the new process by any means
 *     tuttiCommGrow(comm, n + 1, rank == 0 ? &id : NULL, -1, &grown, NULL);
 *
 *     tuttiCommGrow(NULL, n + 1, &id, n, &grown, NULL);          // in the new process
 *
 * tutti.h includes this header. */
#ifndef TUTTI_GROW_H
#define TUTTI_GROW_H

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Makes the id at which new ranks meet those of comm. It is as one of tuttiGetUniqueId, which serves as well, by the
 * settings of comm: one rank calls it, and its process must live until all have joined. One id serves one grow. Copy
 * the 128 bytes to the new processes by any means; they carry the key: anyone who can read them can join.
 *
 * Errors: tuttiInvalidArgument: comm NULL or not ready, id NULL. tuttiInvalidUsage: comm was revoked, finalized or
 * suspended, or has a fault_level above 0. tuttiSystemError: no usable interface, no port, no thread. comm's first
 * error. */
TUTTI_API tuttiResult_t tuttiCommGetUniqueId(tuttiComm_t comm, tuttiUniqueId *id);

/* Makes a communicator of the ranks of comm and new ones. It has nranks ranks: all n ranks of comm, with their numbers
 * 0 .. n-1, and nranks - n new ones, n .. nranks-1.
 *
 * Ranks of comm: all of them call it, in the order of their collectives on comm, with the same nranks above n, and rank
 * -1. At least one gives the id; the others give NULL or the same. comm stays as it is: it may be used as soon as the
 * call has returned, also if that failed, and destroyed independently. config as in tuttiCommSplit: NULL takes comm's
 * options; config->blocking = 0 returns tuttiInProgress, and then comm must not be used until *newcomm is ready.
 *
 * New ranks: comm is NULL, and the call is tuttiCommInitRankConfig(newcomm, nranks, *id, rank, config). Options that
 * comm was given by its config must be in theirs, too.
 *
 * The call returns when all nranks ranks have joined. A rank of comm that dies, leaves comm or gives up ends it on all
 * others within about a second, as does a new rank that had come; ranks that never come end it after
 * TUTTI_INIT_TIMEOUT_MS. The sentence names them. Then another try needs another id. Inside a group *newcomm is written
 * by the outermost tuttiGroupEnd.
 *
 * Errors: tuttiInvalidArgument: newcomm NULL, config wrong, comm not ready, nranks not above the ranks of comm or above
 * 65536, rank not -1; without comm as tuttiCommInitRank. Nothing is queued then. tuttiInvalidUsage, on all ranks: no
 * rank of comm gave an id, or two gave different ones or different nranks; two processes claim one number; versions or
 * settings differ. The call is refused with tuttiInvalidUsage if comm was revoked, finalized or suspended, has a
 * fault_level above 0, or the id was used before.
 * tuttiRemoteError: a rank died, or did not come in time. comm's first error. */
TUTTI_API tuttiResult_t tuttiCommGrow(tuttiComm_t comm, int nranks, const tuttiUniqueId *id, int rank,
                                      tuttiComm_t *newcomm, tuttiConfig_t *config);

/* Takes in a process that was started again. The launcher, `tutti run --restart N`, has done that in place of one that
 * died. The call is tuttiCommGrow by one rank, and the launcher hands the id over: no rank of comm gives one. Ranks of
 * comm call it all, in the order of their collectives; several lost ranks are made up for one after the other. In the
 * process that was started again, which has TUTTI_LAUNCH_RESTART in its environment, comm is NULL: it waits until the
 * others have come, and becomes the last rank. If it dies before, the call fails on all, and takes in the next one when
 * called again.
 *
 *     while (n < job.nprocs && tuttiLaunchGrow(comm, &grown, NULL) == tuttiSuccess) { ... comm = grown; n++; }
 *
 * Errors: as tuttiCommGrow. tuttiInvalidUsage: the job was not started by `tutti run --restart`; on all ranks: all N
 * restarts are used up. tuttiRemoteError: no process came, or the others did not, within TUTTI_INIT_TIMEOUT_MS; or all
 * others have ended. */
TUTTI_API tuttiResult_t tuttiLaunchGrow(tuttiComm_t comm, tuttiComm_t *newcomm, tuttiConfig_t *config);

#ifdef __cplusplus
}
#endif
#endif
