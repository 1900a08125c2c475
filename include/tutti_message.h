/* SPDX-License-Identifier: BSD-3-Clause */
/* Messages with tags: MPI's send and receive between the ranks of a communicator.
 *
 * tuttiSend and tuttiRecv (tutti.h) are NCCL's: operations of the communicator like its collectives, matched by their
 * order alone. The messages here are matched by sender and tag, in any order, and go beside the operations of the
 * communicator. A receive may want any sender and any tag:
 *
 *     int rank;
 *     tuttiMessageInfo_t info = {.size = sizeof info};
 *     tuttiSendTag(x, n, tuttiFloat, 0, 7, comm);                                         on ranks 1, 2, ...
 *     tuttiRecvTag(y, n, tuttiFloat, TUTTI_ANY_SOURCE, TUTTI_ANY_TAG, comm, &info);       on rank 0
 *     rank = info.source;
 *
 * The names are NCCL's with Tag behind them, as both kinds of messages do not match each other: tuttiRecv never gets
 * what tuttiSendTag sent. The forms with I are MPI's, too: they return at once, with a message to be waited for.
 *
 * Matching. A message is received by the first receive, in the order of their calls on that rank, that wants its sender
 * and its tag, and for which no earlier message was there. Messages from one rank to another are looked at in the order
 * in which they were sent. A message that no receive wants yet waits in memory of the receiver, which is as large as
 * the message; there is no limit to that but memory.
 *
 * Length. A receive gives the room; the message may be shorter, and info tells its length. A longer one is lost, and
 * the receive ends with tuttiInvalidArgument; everything else goes on. Types are not compared: bytes travel.
 *
 * When a send is over its buffer may be changed; the message may be on its way still, and nothing says that it was
 * received. No send counts on a buffer of the receiver: it may have to wait until the other rank calls a function of
 * this header, as MPI_Ssend does. Where ranks all send first and then receive, the first messages between two ranks may
 * wait for 0.1 s, and messages of any length go on; tuttiIsendTag or tuttiIrecvTag for one of both does not wait. A
 * rank that sends, and then enters an operation in which the receiver waits before it has received, is late there.
 * Messages to the own rank are allowed, and never wait.
 *
 * Operations. Messages and operations do not wait for each other, except that messages move in the calls of both: while
 * a rank waits in a collective, or the progress thread is there for a message that was begun, they go on. They are not
 * part of groups and streams.
 *
 * Threads. Any threads may call these functions at the same time, for one communicator, too, and while another thread
 * is in an operation of it. One message is waited for by one thread.
 *
 * Ends. If a rank dies, or a connection to it is lost, the communicator fails, and all messages end with its error. A
 * rank that leaves ends with tuttiRemoteError, at the latest about half a second after its last bytes have come, those
 * messages that only it could send or receive, and no others; what it has sent before is received. tuttiCommDestroy and
 * tuttiCommFinalize complete sends and end receives for which nothing has come, with tuttiInvalidUsage; tuttiCommAbort
 * ends all. tuttiSendTag and tuttiRecvTag whose message is not over after timeout_ms of the communicator's config end
 * the communicator, as a late rank in a collective does, and a warning comes before (TUTTI_LATE_WARN_MS).
 * tuttiCommDestroy and tuttiCommFinalize end it likewise, and return that error, if for so long none of the messages
 * ends that are left. A message that was begun has no other limit but that of tuttiMessageWait.
 *
 * Memory of devices is neither sent nor received yet: copy it to host memory first. */
#ifndef TUTTI_MESSAGE_H
#define TUTTI_MESSAGE_H

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_ANY_SOURCE (-1)
#define TUTTI_ANY_TAG (-1)

/* A message that was begun and not waited for. */
typedef struct tuttiMessage *tuttiMessage_t;

/* Facts of a message that is over. Set size to sizeof(tuttiMessageInfo_t) first. */
typedef struct {
  size_t size;
  size_t bytes; /* its length; of a receive that ended with tuttiInvalidArgument that of the lost message */
  int source;   /* the rank that sent it */
  int tag;
} tuttiMessageInfo_t;

/* Sends count elements to rank peer with a tag, which is 0 or more. Returns when sendbuff may be changed.
 *
 * Errors: tuttiInvalidArgument: an argument is out of range. tuttiRemoteError: the peer has left, or has not taken it
 * within timeout_ms. tuttiSystemError: out of memory. The error of the communicator. */
TUTTI_API tuttiResult_t tuttiSendTag(const void *sendbuff, size_t count, tuttiDataType_t datatype, int peer, int tag,
                                     tuttiComm_t comm);

/* Receives a message from rank peer, or any rank, with this tag, or any tag. TUTTI_ANY_SOURCE and TUTTI_ANY_TAG say
 * any; it has at most count elements. Writes the facts of the message to *info, unless that is NULL.
 *
 * Errors: as tuttiSendTag. tuttiInvalidArgument, too: the message is longer. tuttiRemoteError: the peer has left, or
 * all other ranks have, or no such message has come within timeout_ms. */
TUTTI_API tuttiResult_t tuttiRecvTag(void *recvbuff, size_t count, tuttiDataType_t datatype, int peer, int tag,
                                     tuttiComm_t comm, tuttiMessageInfo_t *info);

/* Begin the same, and return at once. Each message must be ended by tuttiMessageWait or tuttiMessageFree. The buffer is
 * left alone until the message is over.
 *
 * Errors: as above, except that those of the message itself are told by tuttiMessageWait. tuttiInvalidArgument, too:
 * message is NULL. tuttiSystemError: no thread: the first message begun on a communicator holds the progress thread. */
TUTTI_API tuttiResult_t tuttiIsendTag(const void *sendbuff, size_t count, tuttiDataType_t datatype, int peer, int tag,
                                      tuttiComm_t comm, tuttiMessage_t *message);
TUTTI_API tuttiResult_t tuttiIrecvTag(void *recvbuff, size_t count, tuttiDataType_t datatype, int peer, int tag,
                                      tuttiComm_t comm, tuttiMessage_t *message);

/* Waits until a message is over. It waits for at most timeout_ms milliseconds, or as long as it takes if that is < 0; 0
 * asks only. Returns its result, and frees it: *message is NULL then. tuttiInProgress: it is not over, and goes on.
 * Facts are written to *info, unless that is NULL. It may be called after the communicator was destroyed.
 *
 * Errors: tuttiInvalidArgument: message is NULL, or no message. The result. */
TUTTI_API tuttiResult_t tuttiMessageWait(tuttiMessage_t *message, int timeout_ms, tuttiMessageInfo_t *info);

/* Gives up the handle of a message, which goes on. Its buffer is left alone until it is over, which nothing tells any
 * more. *message is NULL then. NULL is allowed.
 *
 * Errors: tuttiInvalidArgument: message is no message. */
TUTTI_API tuttiResult_t tuttiMessageFree(tuttiMessage_t *message);

#ifdef __cplusplus
}
#endif
#endif
