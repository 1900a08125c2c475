/* SPDX-License-Identifier: BSD-3-Clause */
/* Tutti: collective communication with the NCCL programming model on any machine.
 *
 * Conventions that hold for every function of this header:
 *
 * - It returns tuttiSuccess or one code of tuttiResult_t, and writes its outputs only on success. The sentence that
 *   belongs to the code is logged once, by the rank that finds the cause (TUTTI_DEBUG=INFO: by all), so a program need
 *   only print where it was and tuttiGetErrorString(). tuttiGetLastError() has the sentence on every rank.
 * - A communicator is used by one thread at a time. tuttiCommAbort, tuttiCommRevoke, tuttiCommGetAsyncError and
 *   tuttiCommGetFailed may be called from any thread at any time.
 * - A wrong argument is refused before anything is queued; nothing is lost and the communicator stays usable. After
 *   tuttiRemoteError, tuttiSystemError, tuttiInternalError or a mismatch between ranks (tuttiInvalidUsage) the
 *   communicator moves no more data: every further call returns the first error, and only tuttiCommAbort,
 *   tuttiCommDestroy, tuttiCommRevoke, tuttiCommShrink and the getters still work.
 * - A failure does not surface at the same operation on all ranks, unless fault_level says so: some survivors may get
 *   tuttiSuccess and a correct result from the very collective that fails on others, and even from later ones. A
 *   program that goes on after tuttiCommShrink must not take "it succeeded here" for "everywhere": the survivors agree
 *   on where to continue, e.g. by an all-reduce (tuttiMin) of the last step each has finished, and redo later ones
 *   from data they kept.
 * - No call waits for ever: a dead rank of comm ends it within a second, a silent host within TUTTI_UNREACHABLE_MS, a
 *   late rank after `timeout_ms` unless that is 0. */
#ifndef TUTTI_H
#define TUTTI_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TUTTI_MAJOR 0
#define TUTTI_MINOR 1
#define TUTTI_PATCH 0
#define TUTTI_VERSION(x, y, z) ((x) * 10000 + (y) * 100 + (z))
#define TUTTI_VERSION_CODE TUTTI_VERSION(TUTTI_MAJOR, TUTTI_MINOR, TUTTI_PATCH)

#if defined(__GNUC__)
#define TUTTI_API __attribute__((visibility("default")))
#else
#define TUTTI_API
#endif

/* The values are NCCL's. */
typedef enum {
  tuttiSuccess = 0,
  tuttiUnhandledCudaError = 1, /* a CUDA call failed */
  tuttiSystemError = 2,        /* a system call failed; the sentence has errno and the remedy */
  tuttiInternalError = 3,      /* a fault of this library: please report the sentence */
  tuttiInvalidArgument = 4,    /* one argument is wrong; the sentence names it */
  tuttiInvalidUsage = 5,       /* the call is wrong here, or differs between ranks */
  tuttiRemoteError = 6,        /* a rank died, left, is unreachable or too late */
  tuttiInProgress = 7,         /* not finished yet; not an error */
  tuttiNumResults = 8
} tuttiResult_t;

/* The values below 12 are NCCL's, which has no others. Floats of 16 and 8 bits are added in fp32 and rounded once
 * (nearest even) at every reduce step. A tuttiBool is a byte, true if not 0; results are 0 or 1; sum and max are `or`,
 * prod and min are `and`. A complex number is a pair of floats, the real part first, which are added one by one. */
typedef enum {
  tuttiInt8 = 0, tuttiChar = 0, tuttiUint8 = 1,
  tuttiInt32 = 2, tuttiInt = 2, tuttiUint32 = 3,
  tuttiInt64 = 4, tuttiUint64 = 5,
  tuttiFloat16 = 6, tuttiHalf = 6,
  tuttiFloat32 = 7, tuttiFloat = 7,
  tuttiFloat64 = 8, tuttiDouble = 8,
  tuttiBfloat16 = 9,
  tuttiFloat8e4m3 = 10, /* OCP E4M3: no infinity, overflow saturates to +-448 */
  tuttiFloat8e5m2 = 11, /* OCP E5M2: with infinity */
  tuttiInt16 = 12, tuttiUint16 = 13,
  tuttiBool = 14,
  tuttiComplexFloat32 = 15, tuttiComplexFloat64 = 16, /* of 8 and 16 bytes */
  tuttiNumTypes = 17
} tuttiDataType_t;

/* The values below 5 are NCCL's, which has no others. Integers wrap. NaN passes through sum, prod and avg; max and min
 * prefer the number (as fmax, fmin), and max(-0, +0) is +0, min(-0, +0) is -0. Avg multiplies each contribution by
 * 1/nranks in fp32 (fp64 for fp64), rounds it to the type and adds them; it divides the sum of integers by nranks,
 * truncating toward zero. The bitwise operations are for integers and tuttiBool; tuttiBool has no average and no
 * pre-multiplied sum, complex numbers have sum and avg alone. Others are refused. */
typedef enum {
  tuttiSum = 0,
  tuttiProd = 1,
  tuttiMax = 2,
  tuttiMin = 3,
  tuttiAvg = 4,
  tuttiBitAnd = 5,
  tuttiBitOr = 6,
  tuttiBitXor = 7,
  tuttiNumOps = 8, /* from here on: made by tuttiRedOpCreatePreMulSum */
  tuttiMaxRedOp = 0x7fffffff
} tuttiRedOp_t;

/* The location of the scalar of tuttiRedOpCreatePreMulSum, and when it is read. The values are NCCL's. */
typedef enum {
  tuttiScalarDevice = 0,       /* in memory (host or device) that stays valid; read by each operation when it starts */
  tuttiScalarHostImmediate = 1 /* in host memory; read before the call returns */
} tuttiScalarResidence_t;

typedef struct tuttiComm *tuttiComm_t;     /* one rank's membership in a group of ranks */
typedef struct tuttiStream *tuttiStream_t; /* an ordered queue of operations; NULL: see below */

#define TUTTI_UNIQUE_ID_BYTES 128

/* The unique id of one communicator: made by one process, copied unchanged to all others through any channel. It
 * carries the key to the communicator: anyone who can read it can join. */
typedef struct {
  char internal[TUTTI_UNIQUE_ID_BYTES];
} tuttiUniqueId;

#define TUTTI_CONFIG_UNDEF_INT INT32_MIN

/* Options of a communicator. Always start from TUTTI_CONFIG_INITIALIZER: `size` tells the library which fields the
 * program knows, so it may be older or newer than the library. A field left undefined (TUTTI_CONFIG_UNDEF_INT, NULL)
 * takes its default. The environment overrides the program. Strings are copied. */
typedef struct {
  size_t size;
  uint32_t magic;
  uint32_t version;
  int blocking;           /* 1: init returns when done (default); 0: it returns tuttiInProgress */
  int timeout_ms;         /* a rank this late is an error; 0: never; default 1,800,000 (TUTTI_TIMEOUT_MS) */
  const char *name;       /* of the communicator, in logs and errors; at most 63 bytes. ".NAME": of a layer above */
  const char *transports; /* allowed ones in order of preference, "shm,verbs,tcp" (TUTTI_TRANSPORTS) */
  int deterministic;      /* 1: the bits of a reduction depend on nothing but the ranks' values and their number:
                             not on size, place in the buffer, or machine (TUTTI_DETERMINISTIC); default 0 */
  int unused;             /* ignored: this was padding in programs that are older than the next field */
  int wire_type;          /* tuttiFloat16 or tuttiBfloat16: reductions of tuttiFloat32 are combined and travel in that
                             type, see tuttiAllReduceWith; tuttiFloat32: as they are, the default (TUTTI_WIRE_TYPE).
                             It applies to all-reduce, reduce and reduce-scatter. The same on all ranks */
  int unused2;            /* ignored, likewise */
  int learn;              /* algorithms: 0: by predictions; 1: for repeated calls also by their times (default); 2: as
                             earlier jobs have learnt (TUTTI_LEARN). The same on all ranks. See tutti_tools.h */
  int unused3;            /* ignored, likewise */
  int init_timeout_ms;    /* start-up waits this long, for the name of rank 0's host and all ranks; so does the process
                             that made the id if rank 0 is there; at least 1; default 300,000 (TUTTI_INIT_TIMEOUT_MS) */
  int unused4;            /* ignored, likewise */
  int device;             /* the GPU, from 0, to whose primary context comm belongs (tuttiStreamFromCuda); by default
                             the CUDA context that is current when the communicator is made, if one is */
  int unused5;            /* ignored, likewise */
  int fault_level;        /* 0: a failure ends comm (default); 1: it goes on; 3: a rank is several processes; see below;
                             2: not there yet (TUTTI_FAULT_LEVEL). The same on all ranks */
} tuttiConfig_t;

/* With fault_level 1 a collective ends alike on all ranks that survive it: tuttiSuccess and the whole result on all, or
 * tuttiRemoteError on all. A loss makes one collective fail: the sentence names a lost rank, results are undefined (in
 * place also the contribution), and comm has the other ranks then (tuttiCommCount, tuttiCommUserRank). A rank is lost
 * if it died, left, was cut off, stopped for TUTTI_FROZEN_MS or later than TUTTI_TIMEOUT_MS; tuttiCommGetFailed has its
 * first number. A lost rank that lives gets tuttiRemoteError. Other errors end comm, at the same call on all
 * (tuttiCommGetAsyncError). Level 3: process p of nranks is a replica of rank p / 3 (TUTTI_REPLICAS), all replicas of a
 * rank make the same calls, and no death changes a result while most live. Both levels take 256 processes at most, and
 * refuse (tuttiInvalidUsage) all but collectives without stream and group: docs/failures.md. */
#define TUTTI_SPLIT_NOCOLOR (-1)

/* Flags of tuttiCommShrink; the values are NCCL's. */
#define TUTTI_SHRINK_DEFAULT 0 /* the parent is healthy and has nothing under way */
#define TUTTI_SHRINK_ABORT 1   /* the parent's operations are ended first, on all ranks, with tuttiRemoteError */

#define TUTTI_SUSPEND_MEM 1 /* flags of tuttiCommSuspend; the value is NCCL's */

/* The figures of tuttiCommMemStats; the values are NCCL's. */
typedef enum {
  tuttiStatMemSuspend = 0,   /* bytes that tuttiCommSuspend gives back */
  tuttiStatMemSuspended = 1, /* 1: comm is suspended, 0: it is not */
  tuttiStatMemPersist = 2,   /* bytes that stay until comm is destroyed */
  tuttiStatMemTotal = 3      /* both */
} tuttiCommMemStat_t;

#define TUTTI_REVOKE_DEFAULT 0 /* flags of tuttiCommRevoke; the value is NCCL's */

#define TUTTI_CONFIG_MAGIC 0x7477696eu
#define TUTTI_CONFIG_INITIALIZER \
  { sizeof(tuttiConfig_t), TUTTI_CONFIG_MAGIC, TUTTI_VERSION_CODE, \
    TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, NULL, NULL, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, \
    TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, \
    TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, TUTTI_CONFIG_UNDEF_INT, \
    TUTTI_CONFIG_UNDEF_INT }

/* The job as the launcher describes it to this process. See tuttiGetLaunch. */
typedef struct {
  char launcher[16]; /* "tutti", "pmix", "pmi", "torchrun", "comm_id"; "none" where no launcher was found */
  int nprocs;        /* processes of the job; 1 without a launcher */
  int proc;          /* this process, 0 .. nprocs - 1 */
  int local_nprocs;  /* processes on this host; 1 if the launcher does not tell */
  int local_proc;    /* this process on this host */
  tuttiUniqueId id;  /* for one communicator over all processes, once in the life of the job */
} tuttiLaunch_t;

/* ---- starting a job, making communicators ---- */

/* Tells the version of the library. To *version it writes MAJOR * 10000 + MINOR * 100 + PATCH.
 *
 * Errors: tuttiInvalidArgument: version is NULL. */
TUTTI_API tuttiResult_t tuttiGetVersion(int *version);

/* Makes the unique id of a new communicator. Its rendezvous starts in this process: a service thread on the interface
 * chosen by TUTTI_SOCKET_IFNAME waits for the ranks, so the process must live until all have joined. Copy the 128 bytes
 * to all ranks by any means. One id serves one communicator.
 *
 * With TUTTI_COMM_ID=host:port every process may call it: all the ids lead to the same address, which rank 0 opens in
 * tuttiCommInitRank. Communicators are made there one after the other, with an id each.
 *
 * Errors: tuttiInvalidArgument: id is NULL, a setting is out of range, or the host's name is not known within
 * TUTTI_INIT_TIMEOUT_MS. tuttiSystemError: no usable interface, no port, no thread. */
TUTTI_API tuttiResult_t tuttiGetUniqueId(tuttiUniqueId *id);

/* Finds out which launcher started this process. It asks the environment (`tutti run`;
 * Open MPI's or any other PMIx launcher, srun --mpi=pmix; MPICH's, Intel MPI's or any other that speaks PMI-1, srun
 * --mpi=pmi2; torchrun or anything that sets MASTER_ADDR, RANK and WORLD_SIZE; TUTTI_COMM_ID with RANK and WORLD_SIZE)
 * and fills *launch. Without a launcher it succeeds with launcher "none", nprocs 1 and a fresh id. If several processes
 * were started but have no way to meet, it fails: RANK=0 and WORLD_SIZE=1 say that each is a job of one on purpose. The
 * call is collective over the job's processes; later calls in the same process return the same answer. A process may
 * bring several ranks under the same id. A program that also uses MPI calls MPI_Init first.
 *
 * Errors: tuttiInvalidArgument: launch is NULL, the environment contradicts itself (the sentence names the variable),
 * or the name of rank 0's host is not known within TUTTI_INIT_TIMEOUT_MS. tuttiSystemError: no answer of the launcher.
 * tuttiInvalidUsage: the launcher carries no secret, the address is not loopback (where all ranks must be of one user),
 * and neither TUTTI_KEY_FILE nor TUTTI_AUTH=none is set; or the processes of this launcher cannot meet. */
TUTTI_API tuttiResult_t tuttiGetLaunch(tuttiLaunch_t *launch);

/* Joins a communicator of nranks ranks as `rank`. Its handle is written to *comm. The call is collective: it returns
 * when all ranks have joined. Several ranks may live in one process, each in its own thread or all inside one group.
 * Inside a group *comm is written by the outermost tuttiGroupEnd.
 *
 * An id makes one communicator: a rank that comes with it again is refused at once, also with the id of tuttiGetLaunch.
 * A second communicator of the same ranks is made by tuttiCommSplit(comm, 0, rank, &second, NULL), or from another
 * tuttiGetUniqueId. After an error another try needs another id, but at a fixed address (TUTTI_COMM_ID, torchrun).
 *
 * Must match across ranks: id, nranks, library version, and the settings that decide what goes on the wire.
 *
 * Errors: tuttiInvalidArgument: comm NULL, nranks < 1, rank outside 0 .. nranks-1, id not made by this library.
 * tuttiInvalidUsage: two processes claim one rank, the id was used before, nranks, version or settings differ (the
 * sentence names the ranks). tuttiRemoteError: a rank died, or did not come within TUTTI_INIT_TIMEOUT_MS.
 * tuttiSystemError: a resource is missing. */
TUTTI_API tuttiResult_t tuttiCommInitRank(tuttiComm_t *comm, int nranks, tuttiUniqueId id, int rank);

/* tuttiCommInitRank with options; config may be NULL. With blocking = 0 it returns tuttiInProgress with a valid *comm;
 * poll tuttiCommGetAsyncError until that is tuttiSuccess, and call nothing else but tuttiCommAbort until then. Inside a
 * group it succeeds, and the outermost tuttiGroupEnd writes *comm and returns tuttiInProgress.
 *
 * Errors: as tuttiCommInitRank, and tuttiInvalidArgument for a config that was not initialised or has a wrong field. */
TUTTI_API tuttiResult_t tuttiCommInitRankConfig(tuttiComm_t *comm, int nranks, tuttiUniqueId id,
                                                int rank, tuttiConfig_t *config);

/* Makes ndev ranks in this process. They are one communicator of ndev ranks, in comms[0 .. ndev-1]. devlist holds ndev
 * device numbers, which have the meaning of config.device where there are such GPUs, and are else only remembered
 * (tuttiCommDevice); or is NULL. The ranks may be driven by one thread (inside groups) or by one thread each.
 *
 * Errors: as tuttiCommInitRank; tuttiInvalidArgument: comms NULL, ndev < 1. */
TUTTI_API tuttiResult_t tuttiCommInitAll(tuttiComm_t *comms, int ndev, const int *devlist);

/* Makes new communicators from the ranks of comm. There is one for each color >= 0, of the ranks that gave it, in the
 * order of their keys (equal keys: of their ranks in comm). *newcomm is the one this rank is in, NULL with
 * TUTTI_SPLIT_NOCOLOR. The call is collective over comm; comm stays as it is and may be used and destroyed
 * independently. While *newcomm is being made, comm watches over its ranks: if one dies, leaves comm or gives up, the
 * call ends on all of them within about a second, with a sentence that names that rank. If it gave up, comm stays as it
 * is. config: NULL takes comm's options; config->blocking = 0 returns tuttiInProgress as tuttiCommInitRankConfig does,
 * and then comm must not be used until *newcomm is ready. (With TUTTI_SPLIT_NOCOLOR there is nothing to poll: the call
 * waits for the other ranks' colors.) Inside a group *newcomm is written by the outermost tuttiGroupEnd.
 *
 * Errors: tuttiInvalidArgument: comm NULL or not ready, newcomm NULL, color < 0 and not TUTTI_SPLIT_NOCOLOR, config
 * wrong. tuttiInvalidUsage: the ranks' calls differ. Else as tuttiCommInitRank. */
TUTTI_API tuttiResult_t tuttiCommSplit(tuttiComm_t comm, int color, int key, tuttiComm_t *newcomm,
                                       tuttiConfig_t *config);

/* Makes a communicator of the ranks of comm that are left. These are the ranks that are not in exclude[0 ..
 * nexclude-1]; they keep their order. Only they call it, all with the same ranks in the list (in any order); the
 * excluded ones may be dead, and tuttiCommGetFailed tells which are. The new communicator shares nothing with the old
 * one: a rank that wakes up late reaches nobody. comm may fall into several parts, each of which excludes the others.
 *
 * With TUTTI_SHRINK_ABORT comm may have failed already: its operations are ended, on all ranks, with tuttiRemoteError,
 * and afterwards it can only be shrunk or destroyed. Without it comm must be healthy or revoked (tuttiCommRevoke), and
 * stays as it is. config as in tuttiCommSplit.
 *
 * If a rank that is to be in the new communicator dies, leaves comm or gives up, the call ends on all of them within
 * about a second. Ranks that wait for each other with unlike lists are told so after about 5 s, as are all others that
 * wait with one of these lists; a rank that the others exclude is not told. tuttiGetLastError(NULL) has the reason;
 * with comm it returns comm's first error. Then ask tuttiCommGetFailed and call again: the calls for one set of ranks
 * meet in their order on each rank, and those that ended because lists were unlike do not count.
 *
 * Errors: tuttiInvalidArgument: comm NULL or not ready, newcomm NULL, exclude NULL with nexclude > 0,
 * nexclude outside 0 .. nranks-1, an excluded rank outside 0 .. nranks-1, twice or this rank itself, flags
 * unknown, config wrong. tuttiInvalidUsage: the lists are unlike; the sentence names two ranks and the first one that
 * only one of them excludes. tuttiRemoteError: a survivor died or left, or did not come within TUTTI_INIT_TIMEOUT_MS
 * (or, where comm has more than 4096 ranks, came with another list), or comm has failed and flags is
 * TUTTI_SHRINK_DEFAULT. The code of a survivor that gives up. */
TUTTI_API tuttiResult_t tuttiCommShrink(tuttiComm_t comm, int *exclude, int nexclude, tuttiComm_t *newcomm,
                                        tuttiConfig_t *config, int flags);

/* Ends all operations on comm, on all ranks, but not comm itself. Operations under way and queued end with
 * tuttiInvalidUsage on every rank, and later ones are refused with the same code; the sentence names the rank that
 * revoked. The call returns when no operation of this rank is left that could touch memory of the program, and does not
 * wait for other ranks. It may be called from any thread, by several ranks at once, again, and when comm has failed
 * already; then the first error stays. Once a rank itself has revoked comm, it can shrink it like a healthy one,
 * without TUTTI_SHRINK_ABORT (with nexclude 0 all ranks get a communicator that works, and that can be split), and
 * destroy it. tuttiCommGetAsyncError tells tuttiSuccess there, as comm was ended by the program's own will, and
 * tuttiInvalidUsage on ranks that have not revoked it. Communicators and fusions that were made from comm continue.
 * With fault_level 1 it is only of this rank, and comm is to be destroyed here. flags: TUTTI_REVOKE_DEFAULT.
 *
 * Errors: tuttiInvalidArgument: comm NULL or not ready, flags unknown. tuttiInvalidUsage: comm was finalized, or is
 * suspended. tuttiRemoteError: another thread aborts comm. */
TUTTI_API tuttiResult_t tuttiCommRevoke(tuttiComm_t comm, int flags);

/* Pauses comm: it takes no operations until tuttiCommResume. The call waits for operations that this rank called
 * before. flags: 0, or TUTTI_SUSPEND_MEM: memory that operations keep for the next ones (tuttiStatMemSuspend) is freed.
 * Each rank calls it for itself; operations of other ranks wait for this one, as for any late rank, and a death is
 * noticed as always. A suspended comm can be finalized, destroyed and aborted.
 *
 * Errors of both: tuttiInvalidArgument: comm NULL or not ready, flags unknown. tuttiInvalidUsage: comm is suspended
 * already, or (tuttiCommResume) is not suspended; this thread has calls on comm in an open group; comm was finalized.
 * tuttiCommSuspend also returns comm's first error. */
TUTTI_API tuttiResult_t tuttiCommSuspend(tuttiComm_t comm, int flags);
TUTTI_API tuttiResult_t tuttiCommResume(tuttiComm_t comm);

/* Tells how much memory comm holds on this rank. *value gets one number of tuttiCommMemStat_t, in bytes: buffers of
 * operations (unused between two operations), and of links, which grow as links are opened. Memory that the program
 * allocated or registered, and records of a few KiB, do not count. It must not be called during operations of comm.
 *
 * Errors: tuttiInvalidArgument: value or comm NULL, comm not ready, stat unknown. tuttiInvalidUsage: finalized. */
TUTTI_API tuttiResult_t tuttiCommMemStats(tuttiComm_t comm, tuttiCommMemStat_t stat, uint64_t *value);

/* ---- operations of reductions ---- */

/* Makes an operation of reductions: a sum with a scalar. Each rank's elements are multiplied by its own *scalar (one
 * element of `type`; integers wrap; floats are rounded to the type) and summed. The call is local: it does not
 * communicate. *op may be used with this comm and type only. The ranks may give different scalars.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL, type or residence unknown, comm not ready. tuttiSystemError. */
TUTTI_API tuttiResult_t tuttiRedOpCreatePreMulSum(tuttiRedOp_t *op, void *scalar, tuttiDataType_t type,
                                                  tuttiScalarResidence_t residence, tuttiComm_t comm);

/* Ends the life of an operation of reductions. Calls already made with it, also in an open group, are not affected.
 *
 * Errors: tuttiInvalidArgument: op was not made on comm, or ended already. */
TUTTI_API tuttiResult_t tuttiRedOpDestroy(tuttiRedOp_t op, tuttiComm_t comm);

/* ---- ending communicators, asking them ---- */

/* Completes all operations queued on comm. No further operation is accepted afterwards. It waits for other ranks only
 * as far as the operations need.
 *
 * Errors: tuttiInvalidArgument: comm NULL or finalized already; tuttiInvalidUsage: this thread has calls on comm in
 * an open group; the communicator's first error. */
TUTTI_API tuttiResult_t tuttiCommFinalize(tuttiComm_t comm);

/* Finalizes comm if needed and frees it. It never waits for other ranks to destroy theirs. NULL is allowed.
 *
 * Errors: the communicator's first error, unless this rank has revoked it. It is freed all the same. */
TUTTI_API tuttiResult_t tuttiCommDestroy(tuttiComm_t comm);

/* Stops everything in progress on comm and frees it. It may be called from any
 * thread. Calls blocked inside return tuttiRemoteError first; other ranks see this rank leave. It never waits for other
 * ranks. NULL is allowed. The handle is invalid afterwards for all threads. If comm is still being made by
 * tuttiCommSplit, and some ranks have not come to the split yet, the communicator that is split fails, too. */
TUTTI_API tuttiResult_t tuttiCommAbort(tuttiComm_t comm);

/* Tells the number of ranks, this rank, or this rank's device. Each is written to *count,
 * *rank, *device (-1: host memory).
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. */
TUTTI_API tuttiResult_t tuttiCommCount(const tuttiComm_t comm, int *count);
TUTTI_API tuttiResult_t tuttiCommUserRank(const tuttiComm_t comm, int *rank);
TUTTI_API tuttiResult_t tuttiCommDevice(const tuttiComm_t comm, int *device);

/* Tells the state of comm. To *result it writes tuttiSuccess, tuttiInProgress (init not finished) or comm's first
 * error; tuttiSuccess again after tuttiCommRevoke. Any thread may call it, and it never blocks.
 *
 * Errors: tuttiInvalidArgument: an argument is NULL. */
TUTTI_API tuttiResult_t tuttiCommGetAsyncError(tuttiComm_t comm, tuttiResult_t *result);

/* Tells which ranks of comm have failed, as far as this rank knows. They have died, were stopped or could not be
 * reached for too long, were late beyond TUTTI_TIMEOUT_MS, or left (destroyed or aborted comm, or ended). On entry
 * *count says how many numbers ranks[] has room for, on return how many ranks have failed; their numbers in comm,
 * ascending, are written to ranks, at most as many as there is room for. With *count = 0 ranks may be NULL. Ranks that
 * reported an error but are alive are not among them, nor is this rank.
 *
 * The search for failures continues after comm's first error, and after a failed tuttiCommSplit, tuttiCommShrink or
 * tuttiFusionCreate, until comm is destroyed: the set grows, and never shrinks. It is this rank's knowledge: news takes
 * up to a second to reach all ranks, so ranks that ask at the same time may be told different sets. The list can be
 * given to tuttiCommShrink as it is; if that fails because ranks gave different lists or because another rank has died,
 * ask and shrink again: once no more ranks die, all survivors are told the same set.
 *
 * Any thread may call it, and it never blocks. Errors: tuttiInvalidArgument: comm or count is NULL, *count < 0, or
 * ranks is NULL with *count > 0. */
TUTTI_API tuttiResult_t tuttiCommGetFailed(tuttiComm_t comm, int *ranks, int *count);

/* Returns a short constant text for a result code, never NULL. */
TUTTI_API const char *tuttiGetErrorString(tuttiResult_t result);

/* Returns the sentence that belongs to an error. It is that of comm's first error if comm is not NULL and has one, else
 * of the last error seen by the calling thread. It is never NULL, but "" if there is none, and is valid until the next
 * call of this function in the same thread. With TUTTI_DEBUG=WARN, the default, the rank that found the cause has
 * logged it as well: a program that prints it there shows it twice, unless TUTTI_DEBUG is NONE. */
TUTTI_API const char *tuttiGetLastError(tuttiComm_t comm);

/* ---- memory ---- */

/* Allocates size bytes, zeroed, aligned to 4096 and prefaulted. Ranks on the same
 * host read such memory where it lies, without a copy (TUTTI_SHM_DIRECT_BYTES): all-reduces of some MiB take half to
 * two thirds of the time that they take in other memory. RDMA devices send it from where it lies and write into it
 * (TUTTI_IB_DIRECT_BYTES); it stays registered with them until it is freed. Plain memory works everywhere too. After
 * fork parent and child see the same bytes, as with MAP_SHARED. Ranks of a job can see all such memory of a process on
 * their host. The memory is private where ulimit -v or -f is set, and a process that locks all of its memory (mlockall)
 * should set one of them: otherwise it locks its peers' memory as well.
 *
 * Errors: tuttiInvalidArgument: ptr NULL. tuttiSystemError: out of memory. */
TUTTI_API tuttiResult_t tuttiMemAlloc(void **ptr, size_t size);

/* Frees what tuttiMemAlloc returned; NULL is allowed. No operation may use it.
 *
 * Errors: tuttiInvalidArgument: ptr is not such a pointer. */
TUTTI_API tuttiResult_t tuttiMemFree(void *ptr);

/* Says that calls on comm will use a buffer again and again. A device that moves bytes by itself (RDMA verbs) then has
 * the size bytes at buff registered once, sends them from there and writes long messages (TUTTI_IB_DIRECT_BYTES)
 * straight into them; memory of tuttiMemAlloc needs no registration. The call is a hint: results are the same without
 * it. Each rank calls it for itself. buff may be memory of a CUDA GPU, which the device is then given as a dma-buf. The
 * same memory may be registered several times; it must be neither freed nor unmapped before tuttiCommDeregister, which
 * no operation that uses it may overlap. *handle is the argument of that call, and may be NULL: there was nothing to
 * do. Memory that is still registered when comm is destroyed or aborted is deregistered then.
 *
 * Errors: tuttiInvalidArgument: comm, buff or handle NULL, size 0, comm not
 * ready, a handle that is none of comm's. tuttiSystemError: the device cannot register it (ulimit -l).
 * tuttiUnhandledCudaError: the memory of the GPU cannot be exported as a dma-buf. After these two comm is as good as
 * before, and the bytes are copied. Else comm's first error. */
TUTTI_API tuttiResult_t tuttiCommRegister(const tuttiComm_t comm, void *buff, size_t size, void **handle);
TUTTI_API tuttiResult_t tuttiCommDeregister(const tuttiComm_t comm, void *handle);

/* ---- streams and groups ---- */

/* Host streams. An operation queued on a stream starts after those queued on it before and is carried out by the
 * process's progress thread; the call returns at once. Buffers must live, and must not be touched, until the stream has
 * been synchronized or queried as done. A stream may serve several communicators. Memory of GPUs is refused.
 *
 * tuttiStreamQuery returns tuttiSuccess when all is done, tuttiInProgress if not; tuttiStreamSynchronize waits. Both
 * return the first error of an operation of the stream. tuttiStreamDestroy waits first; NULL is allowed.
 *
 * Errors: tuttiInvalidArgument: stream NULL (create, query, synchronize). tuttiInvalidUsage: the stream was made by
 * tuttiStreamFromCuda (query, synchronize). */
TUTTI_API tuttiResult_t tuttiStreamCreate(tuttiStream_t *stream);
TUTTI_API tuttiResult_t tuttiStreamQuery(tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiStreamSynchronize(tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiStreamDestroy(tuttiStream_t stream);

/* Makes *stream stand for a CUDA stream. It is given by its handle (a cudaStream_t or CUstream; also NULL and the
 * handles 1 and 2, which are CUDA's default streams). Collectives on it come after the work that the CUDA stream holds
 * at the time of the call, and before all that it is given later, as a kernel would; the call returns while the stream
 * still works. Buffers are memory of a GPU, which the call neither reads nor writes itself, or host memory. Other
 * ranks may give other kinds of memory, streams of tuttiStreamCreate, or none. The program waits by means of CUDA;
 * tuttiStreamDestroy ends *stream, does not wait, and leaves the CUDA stream alone.
 *
 * comm must have been made while a CUDA context was current, or with config.device: it belongs to that context, of
 * which the stream must be one, and leaves the thread's current one as it was. It then holds 12 MiB of pinned memory,
 * more with more than 65536 ranks (TUTTI_CUDA_SLOT_BYTES). Calls of collectives without a stream take memory of GPUs in
 * such a communicator, too: once the kernels that write to it have ended; results are there when they return. Making
 * and ending communicators may wait for the work of all streams, as CUDA's calls that allocate do.
 *
 * In a group, all operations of one communicator come after what all their streams hold, and all these streams wait for
 * all of them. Ranks of one communicator in one thread must be called in one group; those that a process has on one GPU
 * in several threads wait in their calls until all of them have been called, and all of them must give CUDA streams.
 *
 * An operation that fails never lets its stream go on, since what follows would use data that are not there.
 * tuttiCommGetAsyncError tells, and tuttiCommAbort, tuttiCommRevoke and tuttiCommDestroy release the stream at once,
 * with undefined contents of its buffers. A program that waits by cudaStreamSynchronize alone would wait for ever:
 * another thread has to look, as that of PyTorch does.
 *
 * CUDA streams take all collectives, sends and receives, and refuse what they do not take yet by name: codecs, events,
 * fusions. A group has streams of one communicator that are all live, or all captured into one graph, and no call
 * without a stream on memory of a GPU. Both ends of a message of more than 4 MiB must have it in matching groups, or
 * both ranks end with an error (docs/cuda.md). A call on a stream under capture becomes part of the graph and runs at
 * each replay, on all ranks alike; the graph must not run any more once comm is destroyed.
 *
 * Errors: tuttiInvalidArgument: stream NULL. tuttiSystemError: no memory. Operations on it: tuttiInvalidUsage: comm
 * belongs to no CUDA context, or what is refused. tuttiUnhandledCudaError: the driver refuses, or memory operations of
 * streams have no effect with it; if it refuses when a part is enqueued already, comm has failed on all ranks. */
TUTTI_API tuttiResult_t tuttiStreamFromCuda(tuttiStream_t *stream, void *cuda_stream);

/* Collects calls and starts them together. Between tuttiGroupStart and the outermost tuttiGroupEnd nothing runs: calls
 * are only checked and collected, per thread. The outermost tuttiGroupEnd starts all of them together, on all their
 * communicators, and returns when those on a NULL stream and all inits are done. If a call inside is refused, it says
 * so at once, none of the group's calls starts, and tuttiGroupEnd returns the first refusal. If one init fails, none of
 * the group's communicators is made. If a communicator is destroyed or aborted with calls in an open group, none of
 * that group's calls starts (the destroy says so: tuttiInvalidUsage; a finalize is refused). Groups nest. Inits and
 * collectives must not be mixed in one group.
 *
 * Errors of tuttiGroupEnd: tuttiInvalidUsage: without tuttiGroupStart, or inits
 * mixed with collectives; else the first error of a call of the group. */
TUTTI_API tuttiResult_t tuttiGroupStart(void);
TUTTI_API tuttiResult_t tuttiGroupEnd(void);

/* ---- collectives, and messages between two ranks ---- */

/* Combines the vectors of all ranks; each rank gets the result.
 *
 * recvbuff[i] = op over all ranks r of sendbuff_r[i], for i in 0 .. count-1.
 *
 * Buffers: count elements of `type` each, any alignment, any size including more than 2^31 elements. In place if
 * sendbuff == recvbuff; any other overlap is an error. Out of place, sendbuff is not written. With count 0 nothing is
 * read, written or waited for, but the call counts in the order of calls.
 *
 * Must match across ranks: the order of calls on comm, count, type and op (for tuttiRedOpCreatePreMulSum: that it is
 * one). A difference is tuttiInvalidUsage on all ranks that took part, naming two ranks and both calls. All ranks get
 * the same bits; in floats they may differ from call to call while algorithms are learnt (tuttiConfig_t.learn).
 *
 * With stream NULL the call returns when recvbuff holds the result; the caller's thread does the work. Else it is
 * queued on the stream, see tuttiStreamCreate.
 *
 * Errors: tuttiInvalidArgument: comm NULL or not ready, a buffer NULL with count > 0, overlap, type or op unknown,
 * count * size overflows. tuttiInvalidUsage: mismatch; comm finalized; used in a forked child. tuttiRemoteError: a rank
 * died, left, is unreachable, or is later than the timeout. */
TUTTI_API tuttiResult_t tuttiAllReduce(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                       tuttiRedOp_t op, tuttiComm_t comm, tuttiStream_t stream);

/* ---- the other collectives ----
 * The rules of tuttiAllReduce for alignment, count 0, order, matching, streams, groups and errors hold for each of
 * them. Below, n is the number of ranks and `own` this rank; counts are in elements. All may be in place as stated; any
 * other overlap of the buffers is tuttiInvalidArgument. Out of place, sendbuff is not written. root must match across
 * ranks; a root outside 0 .. n-1 is tuttiInvalidArgument. Without an op, elements are copied bit by bit.
 * tutti_counts.h has three of them with counts for each rank. */

/* Combines the vectors of all ranks; the root gets the result.
 *
 * On root: recvbuff[i] = op over all ranks r of sendbuff_r[i], for i in 0 .. count-1. Other ranks'
 * recvbuff is never written and may be NULL. In place on root: sendbuff == recvbuff. */
TUTTI_API tuttiResult_t tuttiReduce(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                    tuttiRedOp_t op, int root, tuttiComm_t comm, tuttiStream_t stream);

/* Copies the root's vector to all ranks.
 *
 * recvbuff[i] = root's sendbuff[i], for i in 0 .. count-1. Other ranks' sendbuff is not read and may be
 * NULL. In place on root: sendbuff == recvbuff. */
TUTTI_API tuttiResult_t tuttiBroadcast(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                       int root, tuttiComm_t comm, tuttiStream_t stream);

/* tuttiBroadcast in place on every rank. */
TUTTI_API tuttiResult_t tuttiBcast(void *buff, size_t count, tuttiDataType_t type, int root, tuttiComm_t comm,
                                   tuttiStream_t stream);

/* Combines the vectors of all ranks; each rank gets its share of the result.
 *
 * recvbuff[i] = op over all ranks r of sendbuff_r[own * recvcount + i], for i in 0 .. recvcount-1.
 * sendbuff has n * recvcount elements. In place: recvbuff == sendbuff + own * recvcount; then the other elements of
 * sendbuff are undefined afterwards. */
TUTTI_API tuttiResult_t tuttiReduceScatter(const void *sendbuff, void *recvbuff, size_t recvcount,
                                           tuttiDataType_t type, tuttiRedOp_t op, tuttiComm_t comm,
                                           tuttiStream_t stream);

/* Gives each rank the vectors of all ranks.
 *
 * recvbuff[r * sendcount + i] = sendbuff_r[i], for all ranks r and i in 0 .. sendcount-1. recvbuff has
 * n * sendcount elements. In place: sendbuff == recvbuff + own * sendcount. */
TUTTI_API tuttiResult_t tuttiAllGather(const void *sendbuff, void *recvbuff, size_t sendcount, tuttiDataType_t type,
                                       tuttiComm_t comm, tuttiStream_t stream);

/* Gives each rank its share of each rank's vector.
 *
 * recvbuff[r * count + i] = sendbuff_r[own * count + i], for all ranks r and i in 0 .. count-1. Both buffers
 * have n * count elements. In place: sendbuff == recvbuff (a copy of the buffer is kept meanwhile). */
TUTTI_API tuttiResult_t tuttiAlltoAll(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                      tuttiComm_t comm, tuttiStream_t stream);

/* Gives the root the vectors of all ranks.
 *
 * On root: recvbuff[r * count + i] = sendbuff_r[i], for all ranks r and i in 0 .. count-1; recvbuff has
 * n * count elements. Other ranks' recvbuff is never written and may be NULL. In place on root: sendbuff ==
 * recvbuff + root * count. */
TUTTI_API tuttiResult_t tuttiGather(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                    int root, tuttiComm_t comm, tuttiStream_t stream);

/* Gives each rank its share of the root's vector.
 *
 * recvbuff[i] = root's sendbuff[own * count + i], for i in 0 .. count-1; root's sendbuff has n * count elements. Other
 * ranks' sendbuff is not read and may be NULL. In place on root: recvbuff == sendbuff + root * count. */
TUTTI_API tuttiResult_t tuttiScatter(const void *sendbuff, void *recvbuff, size_t count, tuttiDataType_t type,
                                     int root, tuttiComm_t comm, tuttiStream_t stream);

/* Waits for all ranks. It is complete on a rank once all ranks have called it (with a stream: have come to it). */
TUTTI_API tuttiResult_t tuttiBarrier(tuttiComm_t comm, tuttiStream_t stream);

/* Sends elements to a rank, or receives them from one. Count elements are sent to rank `peer`, which must call
 * tuttiRecv for this rank with as many bytes. Sends from one rank to another are received in the order of the calls;
 * different pairs and directions do not wait for each other inside one group. peer may be this rank itself if both
 * calls are in one group. A message of 0 elements is a message too: each end waits for the other. The calls of one
 * group on one communicator run after the group's collectives on it. Ranks that exchange messages both ways must do so
 * inside groups.
 *
 * Errors: as tuttiAllReduce; tuttiInvalidArgument: peer outside 0 .. n-1, memory of a GPU without a
 * CUDA stream; tuttiInvalidUsage: the bytes differ between the two ends, the other end is in a collective, or this rank
 * sends to itself and never receives. */
TUTTI_API tuttiResult_t tuttiSend(const void *sendbuff, size_t count, tuttiDataType_t type, int peer,
                                  tuttiComm_t comm, tuttiStream_t stream);
TUTTI_API tuttiResult_t tuttiRecv(void *recvbuff, size_t count, tuttiDataType_t type, int peer, tuttiComm_t comm,
                                  tuttiStream_t stream);

#ifdef __cplusplus
}
#endif

#include "tutti_grow.h"   /* tuttiCommGrow */
#include "tutti_reduce.h" /* tuttiAllReduceWith */
#endif
