/* SPDX-License-Identifier: BSD-3-Clause */
/* Functions for launchers, bindings and layers above this library. */
#ifndef TUTTI_TOOLS_H
#define TUTTI_TOOLS_H

#include <stdio.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Prints what library and machine have. The output, to `out`, is the version, build options, every setting with value,
 * source and range, the hardware, the chosen interface, the reduce kernels, and each transport with the reason if it is
 * unusable. With json 1 it is one JSON object with an object for each section; its values are strings, those of
 * "settings" objects of "value", "source", "meaning", "range" and "on all ranks".
 *
 * Errors: tuttiInvalidArgument: out is NULL, or a setting is out of range. */
TUTTI_API tuttiResult_t tuttiInfo(FILE *out, int json);

/* The facts of a communicator. Set size to sizeof(tuttiCommInfo_t) first; fields that the library is too old to know
 * become 0. Hosts are numbered 0, 1, ... in the order of their lowest ranks. */
typedef struct {
  size_t size;
  int nranks, rank;
  int nhosts, host;             /* the hosts of comm, and that of this rank; those of TUTTI_TOPOLOGY if it is set */
  int local_nranks, local_rank; /* the ranks of comm on this host, and the place of this rank among them */
  char name[64];                /* of the communicator, as in tuttiConfig_t; "": it has none */
  char address[48];             /* of this rank, for other hosts: of the interface that TUTTI_SOCKET_IFNAME and
                                   TUTTI_SOCKET_FAMILY choose, "192.0.2.1" or "2001:db8::1"; "": there is none */
} tuttiCommInfo_t;

/* Tells the facts of a communicator: ranks, hosts, and the address of this rank.
 *
 * Errors: tuttiInvalidArgument: comm NULL or still being made, info NULL, size too small. */
TUTTI_API tuttiResult_t tuttiCommGetInfo(tuttiComm_t comm, tuttiCommInfo_t *info);

/* Tells the transport to another rank. *name gets a constant text: a name as in TUTTI_TRANSPORTS, or "self" for this
 * rank. It is the one chosen when comm was made; where two ranks get no RDMA queue pair later, they use the next one.
 *
 * Errors: tuttiInvalidArgument: comm NULL or still being made, peer outside 0 .. n-1, name NULL. */
TUTTI_API tuttiResult_t tuttiCommGetTransport(tuttiComm_t comm, int peer, const char **name);

#define TUTTI_ALGORITHM_BYTES 64 /* room for its text */

/* Learning, which TUTTI_LEARN=0 or learn of tuttiConfig_t excludes. A shape is all calls of all-reduce, reduce-scatter,
 * all-gather or all-to-all on a communicator whose elements have the same width and whose bytes lie between the same
 * half powers of two. The first 1,000 calls of a shape go by predicted times, the first 100 from 128 KiB on. Then some
 * calls in many try one of the few algorithms that are predicted to take at most twice as long, for at most about 1 %
 * of the time, until it is settled which one is the quickest by the times of all ranks. TCP connections that these
 * need are made meanwhile, one after the other: trials wait for them, calls do not. Then all calls of the shape are
 * made by the quickest one, until their times change lastingly. TUTTI_DEBUG=INFO tells when a shape has settled and
 * when times have changed.
 *
 * All ranks change at the same call. Between two calls, 60 or more apart, they exchange their times in an
 * operation of its own, which has a number like all others and is called "Learning" in errors. Algorithms add in unlike
 * orders, so the bits of sums of floats may differ from call to call until a shape has settled, and after a change.
 * deterministic, TUTTI_TABLE and, for its collectives, TUTTI_ALGO exclude learning. Communicators of a fusion go by
 * what earlier jobs have learnt, and try nothing. Calls with counts for each rank and with codecs go by predictions. A
 * communicator learns up to 32 shapes: those that are the first to have had so many calls.
 *
 * On one host predictions depend on the kind of memory: other ranks read that of tuttiMemAlloc where it lies. Before
 * the first call of a shape of more than 12 KiB ranks agree on the kind in one more such operation, also with
 * TUTTI_LEARN=0: it is that of tuttiMemAlloc if that call's data are in it on all ranks. All calls of the shape are
 * then made alike, in whatever memory they are.
 *
 * When tuttiCommDestroy succeeds, rank 0 keeps in its host's cache (TUTTI_CACHE) which algorithms have settled. A
 * communicator of as many ranks in such places, with these transports and settings, then begins with them. */

/* Tells the algorithm that a call of a size takes, with elements of 4 bytes. It is written to text as `tutti explain`
 * prints it, such as "recursive_doubling". collective is a name such as "all_reduce" or "reduce_scatter"; bytes are
 * those of a vector, or of one rank's share where each rank has one, in the type that travels. The call is local, and
 * the choice may change with later operations.
 *
 * Errors: tuttiInvalidArgument: comm NULL or still being made, collective or text NULL, no such collective (the
 * sentence has all names), size below TUTTI_ALGORITHM_BYTES. */
TUTTI_API tuttiResult_t tuttiCommGetAlgorithm(tuttiComm_t comm, const char *collective, uint64_t bytes, char *text,
                                              size_t size);

/* ---- for bindings: types and operations, lines of the log ---- */

/* Tells the size of an element of a type. It is written to *size, in bytes.
 *
 * Errors: tuttiInvalidArgument: size is NULL, type unknown. */
TUTTI_API tuttiResult_t tuttiTypeSize(tuttiDataType_t type, size_t *size);

/* Give the name of a type or an operation, as messages and options have it. Examples are "float", "half", "int32",
 * "sum" and "max"; operations of tuttiRedOpCreatePreMulSum are "mulsum". The text is constant, and "?" for a value that
 * is no type or operation. */
TUTTI_API const char *tuttiTypeName(tuttiDataType_t type);
TUTTI_API const char *tuttiRedOpName(tuttiRedOp_t op);

/* Receives a line of the log. level is "VERSION", "WARN", "INFO" or "TRACE", or "EXPLAIN" for lines that TUTTI_EXPLAIN
 * asks for; sentence has no newline. Both texts end with the call. context is that of tuttiSetLog. */
typedef void (*tuttiLogFunction_t)(void *context, const char *level, const char *sentence);

/* Hands the lines of the log to a function of the program. TUTTI_DEBUG decides which lines there are, as before, and
 * they are no longer written to stderr or TUTTI_DEBUG_FILE. With function NULL they are written there again. The
 * function is the process's. Any thread may call it, several at the same time, also threads of the library, which wait
 * for it: so it must be short, and call no function of this library. When tuttiSetLog returns, no call of the function
 * that was set before is under way. The few lines about a log file that cannot be opened, and errors that are met
 * before a function is set, go to stderr.
 *
 * Errors: tuttiInvalidUsage: in a forked child, which keeps the function of its parent. */
TUTTI_API tuttiResult_t tuttiSetLog(tuttiLogFunction_t function, void *context);

/* ---- for launchers ---- */

/* Hands an id on to child processes. It is put into a descriptor that they inherit (sealed, not close-on-exec),
 * which is written to *fd. A child finds the job through tuttiGetLaunch if its environment has
 * TUTTI_LAUNCH_FD (that number), TUTTI_LAUNCH_NPROCS, TUTTI_LAUNCH_PROC,
 * TUTTI_LAUNCH_LOCAL_NPROCS and TUTTI_LAUNCH_LOCAL_PROC.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. tuttiSystemError: no descriptor. */
TUTTI_API tuttiResult_t tuttiLaunchDescriptor(const tuttiUniqueId *id, int *fd);

#define TUTTI_RESTARTS 1000 /* the most of one job */

/* Hands ids on for children that are started again. The n ids of tuttiGetUniqueId are for the first, second, ... child
 * that this process starts in place of one that has died. They are put into memory whose descriptor (not
 * close-on-exec) is written to *fd: all children inherit it, with its number in TUTTI_LAUNCH_JOINS, and the k-th child
 * that is started again has k in TUTTI_LAUNCH_RESTART. Then tuttiLaunchGrow takes them in. tuttiLaunchEnded for the
 * k-th id, with proc 0 of 1, tells the ranks that wait for such a child that it has ended.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL, n outside 1 .. TUTTI_RESTARTS. tuttiSystemError: no descriptor. */
TUTTI_API tuttiResult_t tuttiLaunchJoins(const tuttiUniqueId *ids, int n, int *fd);

/* Tells children that were started again which others run. Called after each end of one, it lets none wait for ranks
 * that have ended. fd is that of tuttiLaunchJoins; restarts has for each of the n children that run the k with which it
 * was started again, 0 for one that was not. *can_join becomes 1 if one of them is in a communicator, or was not
 * started again. Else it becomes 0: tuttiLaunchGrow returns tuttiRemoteError in those that wait, and it is no use to
 * start a child again.
 *
 * Errors: tuttiInvalidArgument: restarts or can_join is NULL, n is negative. tuttiInvalidUsage: fd is another one. */
TUTTI_API tuttiResult_t tuttiLaunchRunning(int fd, const int *restarts, int n, int *can_join);

/* Tells a start-up that a child of this process has ended. The start-up is that of id, whose rendezvous is in this
 * process; the child was process proc of nprocs, and status is that of waitpid. Ranks that wait for a process that can
 * no longer come hear it at once: if the process has not joined, and the communicator has at least nprocs ranks, the
 * start-up fails on all of them with tuttiRemoteError, and the sentence names the process and its status. A
 * communicator with fewer ranks may be made without the process: then it is named only if ranks wait in vain. Call it
 * when the child's own children, which may be ranks, are gone as well (its output is at its end).
 *
 * Errors: tuttiInvalidArgument: id NULL or not made by this library, proc outside 0 .. nprocs-1. */
TUTTI_API tuttiResult_t tuttiLaunchEnded(const tuttiUniqueId *id, int proc, int nprocs, int pid, int status);

/* ---- for layers above this library ---- */

/* Reads a size as Tutti's settings, files and tools do. The text is a decimal number, with a fraction and an exponent
 * if need be, alone or with B, K, M or G behind it, or KiB, MiB, GiB: powers of 1,024. The size must be a whole number
 * of bytes: 4096, 64K, 1.5M and 1e6 are sizes; 1.5, 0.1K and 1e-3 are not.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL; the text is anything else (a sign, hexadecimal digits, inf or nan,
 * other letters or blanks), is not whole, is more than SIZE_MAX / 4, or has more than 19 digits between its first and
 * last that are not 0. *size is left as it is. The error is neither logged nor kept for tuttiGetLastError: the caller
 * knows what the number was for, and should say which values it may have. */
TUTTI_API tuttiResult_t tuttiReadSize(const char *text, size_t *size);

/* Loads and starts the CUDA driver, and tells the number of GPUs.
 *
 * Programs of NCCL expect this of the creation of a communicator; without it a communicator uses a driver which the
 * process has loaded and started by itself. *gpus is 0 if the machine has none, its driver does not start, or
 * TUTTI_CUDA is 0. The driver stays loaded. Any thread; not in a child of a process that has started it.
 *
 * Errors: tuttiInvalidArgument: gpus is NULL, or a setting has no such value. */
TUTTI_API tuttiResult_t tuttiCudaStart(int *gpus);

/* Refuses a call on behalf of a layer above this library. Such a layer checks arguments of its own; its call is refused
 * as this library refuses one: the sentence is logged, kept for tuttiGetLastError (cut at 511 bytes), and, if the
 * calling thread has a group open, none of the group's calls starts and tuttiGroupEnd returns the first refusal.
 * Returns code.
 *
 * Errors: code; tuttiInvalidArgument: sentence is NULL, or code is no error. */
TUTTI_API tuttiResult_t tuttiRefuse(tuttiResult_t code, const char *sentence);

#ifdef __cplusplus
}
#endif
#endif
