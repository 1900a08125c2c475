/* SPDX-License-Identifier: BSD-3-Clause */
/* Events: the completion of single operations on a host stream.
 *
 * A stream tells when all of its operations are done, and its first error. An event tells the same of the operations
 * up to one point of the stream, and the result of the last one. A program can ask, wait with a time limit, or watch a
 * descriptor in its event loop, while later operations go on.
 *
 *     tuttiEvent_t event;
 *     tuttiEventCreate(&event);
 *     tuttiAllReduce(x, x, n, tuttiFloat, tuttiSum, comm, stream);
 *     tuttiEventRecord(event, stream);
 *     tuttiAllReduce(y, y, n, tuttiFloat, tuttiSum, comm, stream);
 *     if (tuttiEventSynchronize(event, 100) == tuttiSuccess) ... use x, while y is on its way ...
 *     tuttiEventDestroy(event);
 *
 * An event ends once all operations have ended that were queued on the stream before the record. Its result is that of
 * the newest of them, or the first error of the newest group; an earlier operation that failed does not count. If
 * nothing was ever queued, it is tuttiSuccess; so it is for an event that was never recorded.
 *
 * No event waits for ever. An operation that is queued ends, by an error where a rank died, was late beyond timeout_ms,
 * or where the communicator was revoked or aborted; tuttiCommDestroy and tuttiStreamDestroy complete what is queued
 * first. An event that has ended may outlive the stream and the communicators.
 *
 * Threads. Any thread may use an event, also another than that of the communicator. Queries, waits and
 * tuttiEventDescriptor of one event may be called by several threads at the same time; while tuttiEventRecord or
 * tuttiEventDestroy is called, no other call on it may be under way. */
#ifndef TUTTI_EVENT_H
#define TUTTI_EVENT_H

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiEvent *tuttiEvent_t;

/* Makes an event. Its handle is written to *event. It can be recorded again and again, on any streams.
 *
 * Errors: tuttiInvalidArgument: event is NULL. tuttiSystemError: out of memory. */
TUTTI_API tuttiResult_t tuttiEventCreate(tuttiEvent_t *event);

/* Records an event. From now on it stands for the operations that the stream has now, as long as it is not recorded
 * again; what it stood for before is forgotten, whether that has ended or not. Nothing is queued, and the call never
 * waits.
 *
 * Errors: tuttiInvalidArgument: event or stream NULL. tuttiInvalidUsage: this thread has a group open, whose calls are
 * not on the stream yet. The event is as it was then. */
TUTTI_API tuttiResult_t tuttiEventRecord(tuttiEvent_t event, tuttiStream_t stream);

/* Asks for the result of an event, or waits for it. Both functions return the result once the event has ended, every
 * time, and tuttiGetLastError(NULL) has its sentence; then the buffers of the operations may be touched. Before that
 * tuttiEventQuery returns tuttiInProgress, and never waits; tuttiEventSynchronize waits, and returns tuttiInProgress if
 * timeout_ms milliseconds have passed. With timeout_ms < 0 it waits until the event ends.
 *
 * Errors: tuttiInvalidArgument: event is NULL. The result. */
TUTTI_API tuttiResult_t tuttiEventQuery(tuttiEvent_t event);
TUTTI_API tuttiResult_t tuttiEventSynchronize(tuttiEvent_t event, int timeout_ms);

/* Gives a descriptor for an event loop. Written to *fd, it can be read (POLLIN of poll, EPOLLIN, add_reader of Python's
 * asyncio) exactly while the event has ended; a tuttiEventRecord makes it wait again. Ask tuttiEventQuery for the
 * result then, before buffers are touched. The descriptor is made by the first call, so that only those who ask pay for
 * it: then the end of an operation takes one more system call. Each call gives the same number. It belongs to the
 * event, which closes it in tuttiEventDestroy; the program watches it only, and neither reads nor writes it.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. tuttiSystemError: no descriptor (ulimit -n). */
TUTTI_API tuttiResult_t tuttiEventDescriptor(tuttiEvent_t event, int *fd);

/* Frees an event. The operations go on, and the call does not wait for them. NULL is allowed. Take the descriptor out
 * of the event loop first: its number may be used again for something else.
 *
 * Errors: tuttiInvalidArgument: event is none. */
TUTTI_API tuttiResult_t tuttiEventDestroy(tuttiEvent_t event);

#ifdef __cplusplus
}
#endif
#endif
