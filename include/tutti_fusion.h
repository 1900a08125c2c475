/* SPDX-License-Identifier: BSD-3-Clause */
/* Tutti's tensor fusion: gradients go in as they are made and come out combined.
 *
 * Backward makes many small gradients. Sent one by one they drown in what it takes to start a message; sent all at once
 * they hide behind nothing. A *fusion* is told of all tensors once, measures when each of them is ready and what
 * messages take, and plans from that which go together, in what pieces and in what order, so that an iteration is
 * as short as it can be; it plans again when times have changed. A thread of its own copies and sends.
 *
 *     tuttiFusionTensor_t tensors[] = {{"conv1.weight", 9408, tuttiFloat32}, ...};  // in forward order
 *     tuttiFusion_t fusion;
 *     tuttiFusionCreate(&fusion, comm, tensors, n, NULL);
 *     for (each step) {
 *       for (i = n - 1; i >= 0; i--) {
 *         ... backward of layer i writes gradient[i] ...
 *         tuttiFusionPush(fusion, i, gradient[i], gradient[i], count[i], type[i], NULL);
 *       }
 *       tuttiFusionWaitAll(fusion);
 *       ... update all weights ...
 *     }
 *     tuttiFusionDestroy(fusion);
 *
 * Who waits for one tensor after the other instead, each where the next forward needs its weights (tuttiFusionWait),
 * lets the messages of later layers hide behind the forward of earlier ones:
 *
 *       for (i = 0; i < n; i++) {
 *         tuttiFusionWait(fusion, i);
 *         ... update weights i, forward of layer i ...
 *       }
 *
 * A step. In each step every tensor is pushed once and then waited for, on all ranks, in any order, which may differ
 * between ranks and steps. A tensor may be pushed for the next step as soon as it has been waited for, and all tensors
 * of the step before have been pushed. The order in which messages are sent is agreed, so ranks that push in different
 * orders wait for each other, but never for ever: a rank that is dead, silent or late ends the wait as with any
 * collective. A tensor without a gradient is pushed as zeros. Who adds up gradients of several backward passes pushes
 * in the last one only.
 *
 * Results are those of tuttiAllReduceWith of each tensor alone, and the same bits on all ranks. What a sum of floats
 * rounds may depend on what is sent together, as it may on the size of any message; with `deterministic` of the
 * communicator it does not.
 *
 * Memory. Buffers are host memory or memory of NVIDIA GPUs, as in all collectives. A tensor of a GPU that is sent alone
 * is combined there; several that are sent together are copied through the fusion buffer, which is host memory, and
 * combined by the CPU (the policy "wfbp" sends each alone). Streams are those of tuttiStreamCreate; streams of CUDA
 * are not looked at: what kernels write to a sendbuff must have ended (cudaStreamSynchronize) before its push, and
 * what reads or overwrites the buffers is begun after the wait.
 *
 * Threads. tuttiFusionPush, tuttiFusionQuery and tuttiFusionWait may be called by any threads at the same time, and
 * tuttiFusionAbort at any time; the others by one thread at a time, while none pushes or waits.
 *
 * Errors. A wrong argument is refused and changes nothing. When a message fails (a rank died, ...) every call returns
 * that error from then on: destroy the fusion and, if ranks are lost, shrink the communicator and create another. As in
 * tutti.h, outputs are written on success only, and tuttiGetLastError has the sentence. */
#ifndef TUTTI_FUSION_H
#define TUTTI_FUSION_H

#include <stdio.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiFusion *tuttiFusion_t;

#define TUTTI_FUSION_TENSORS 16384 /* of a fusion, at most */

/* A tensor, as it is on all ranks. Its place in the array is its place in the order of forward: what forward needs
 * first has index 0. */
typedef struct {
  const char *name;     /* for errors and plans; copied; at most 127 bytes; may repeat (errors have the index, too);
                           NULL: "tensor INDEX" */
  size_t count;         /* elements; may be 0 */
  tuttiDataType_t type;
} tuttiFusionTensor_t;

/* Options. Always start from TUTTI_FUSION_CONFIG_INITIALIZER; a field left as that sets it takes its default. The same
 * on all ranks. Where an environment variable is named, it overrides the program; it is read when comm is made. */
typedef struct {
  size_t size;
  uint32_t magic;
  uint32_t version;
  const char *policy;  /* how tensors are put together: "auto" (the default), or as for `tutti plan`: "wfbp", "single",
                          "threshold:BYTES[,FIRST]", "horovod:BYTES", "mgwfbp", "optimal", "p3[:PARAMETERS]"
                          (TUTTI_FUSION_POLICY) */
  size_t buffer_bytes; /* of the fusion buffer; default 64 MiB (TUTTI_FUSION_BYTES), less where twice all tensors are
                          less. Messages are cut that are longer than half of it */
  int op;              /* tuttiSum or tuttiAvg; default tuttiSum */
  int wire_type;       /* of tuttiFloat32 tensors, as in tuttiReduceOptions_t; undefined: the communicator's */
  int overflow;        /* 1: tuttiFusionOverflow is asked; default 0 */
  int norms;           /* 1: tuttiFusionNorm is asked; default 0 */
} tuttiFusionConfig_t;

#define TUTTI_FUSION_CONFIG_MAGIC 0x74756675u
#define TUTTI_FUSION_CONFIG_INITIALIZER \
  { sizeof(tuttiFusionConfig_t), TUTTI_FUSION_CONFIG_MAGIC, TUTTI_VERSION_CODE, NULL, 0, tuttiSum, \
    TUTTI_CONFIG_UNDEF_INT, 0, 0 }

/* Makes a fusion of `ntensors` tensors over the ranks of comm. Collective: all ranks call it with the same tensors and
 * options. It has communicators of its own, so comm may be used for other things at any time, by other threads, too,
 * and must live until the fusion is destroyed. It sends some messages to see what they take, for at most about half a
 * second on slow links. config NULL: defaults.
 *
 * Errors: tuttiInvalidArgument: an argument, a tensor (named) or an option is wrong, on this rank; nothing was sent.
 * All others are those of all ranks, at once. tuttiInvalidUsage: two ranks have other tensors or options (the sentence
 * has tensor or option, both values and the ranks). tuttiSystemError: a rank has no memory, thread or descriptor (the
 * sentence has what, and the rank). Then comm can be used as before, unless that rank lacks it for the first connection
 * of the first of the fusion's own communicators, or before: that it can tell the others on comm alone, which has
 * failed then. */
TUTTI_API tuttiResult_t tuttiFusionCreate(tuttiFusion_t *fusion, tuttiComm_t comm, const tuttiFusionTensor_t *tensors,
                                          int ntensors, const tuttiFusionConfig_t *config);

/* Says that a tensor of this step is ready to be combined. It is so in sendbuff, or will be when all that is queued on
 * the stream has ended (the stream must live until the tensor was waited for); the sum is to be written to recvbuff,
 * which is sendbuff or does not overlap it, nor buffers of other tensors of the step (two may have one sendbuff that no
 * sum is written to, as one of zeros). Both belong to the fusion until the tensor has been waited for; they may be
 * other ones in each step. Never waits: it takes less than a microsecond, or a few where the fusion's thread has to be
 * woken, or where a thousand tensors or more lie elsewhere than in the step before. Tensors that are sent
 * together and lie one behind the other in forward order, in both buffers, are not copied.
 *
 * count and type are those of the tensor: they are given again to find out programs that mix up their tensors.
 *
 * Errors: tuttiInvalidArgument: fusion, tensor, a buffer (NULL with count > 0, overlap), count or type is wrong.
 * Overlaps are those of recvbuff with the same tensor's sendbuff, and of a recvbuff with any buffer of another tensor
 * that was pushed and not waited for (both are named).
 * tuttiInvalidUsage: the tensor was pushed already and not waited for since, or another one was not pushed yet in the
 * step before (named). The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionPush(tuttiFusion_t fusion, int tensor, const void *sendbuff, void *recvbuff,
                                        size_t count, tuttiDataType_t type, tuttiStream_t stream);

/* Waits until the sum of a tensor that was pushed is there. A second wait in the same step returns at once. It waits,
 * too, for other threads to push what is sent before; if that takes longer than the communicator's timeout_ms it is an
 * error that names what is missing. tuttiFusionQuery returns tuttiInProgress instead of waiting; once it has returned
 * tuttiSuccess the tensor has been waited for.
 *
 * Errors: tuttiInvalidArgument: fusion or tensor is wrong. tuttiInvalidUsage: the tensor was not pushed yet, or
 * too late, see above. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionWait(tuttiFusion_t fusion, int tensor);
TUTTI_API tuttiResult_t tuttiFusionQuery(tuttiFusion_t fusion, int tensor);

/* Ends the step: waits for all tensors. With no step begun it returns at once.
 *
 * Errors: tuttiInvalidUsage: some tensors of the step were not pushed (the sentence names the first, and says how
 * many): push them, zeros if they have no gradient, and call it again. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionWaitAll(tuttiFusion_t fusion);

/* Sets the factors of contributions and results. From the next step on contributions are multiplied by `before` and
 * results by `after`, as scale_before and scale_after of tuttiReduceOptions_t; 1 and 1 in the beginning. All ranks
 * give the same `after` for the same step.
 *
 * Errors: tuttiInvalidArgument: not finite, 0, or not 1 though a tensor's type is an integer. tuttiInvalidUsage: a
 * step has begun and not all of its tensors were pushed. */
TUTTI_API tuttiResult_t tuttiFusionScale(tuttiFusion_t fusion, float before, float after);

/* Tells whether a step overflowed. Of the step that ended last (all its tensors were waited for): *overflow becomes 1
 * if any element was or became infinite or NaN on any rank, see tuttiReduceOptions_t, else 0: the same on all ranks.
 *
 * Errors: tuttiInvalidArgument: NULL. tuttiInvalidUsage: config.overflow was not set, no step has ended yet, or one is
 * under way. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionOverflow(tuttiFusion_t fusion, int *overflow);

/* Tells the L2 norm of a tensor's sum. *norm becomes that of the last one (after scale_after), summed up in double
 * while it was written: the same bits on all ranks, and for the same elements whatever the plan was. Elements of
 * tuttiFloat64 beyond about 1e154 make it infinite, and those below 1e-162 count as 0. Between tuttiFusionWait of it
 * and its next push.
 *
 * Errors: tuttiInvalidArgument: fusion, tensor or norm is wrong. tuttiInvalidUsage: config.norms was not set, or the
 * tensor is not there. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionNorm(tuttiFusion_t fusion, int tensor, double *norm);

/* What a fusion has done and expects. Set size to sizeof(tuttiFusionInfo_t) first; fields that the library is too old
 * to know become 0. Times are in microseconds, of this rank; 0 where nothing was measured yet. */
typedef struct {
  size_t size;
  uint64_t steps;          /* that have ended */
  uint64_t plans;          /* used so far; the first is made before any step was measured */
  uint64_t planned_step;   /* from this step on (0: the first) the present plan is used */
  int groups, messages;    /* of the present plan */
  int is_by_priority;      /* 1: it sends what forward needs first */
  size_t buffer_bytes;     /* of the fusion buffer */
  uint64_t copied_bytes;   /* into the buffer in the last step; the rest was sent from where it lies */
  double iteration_us;     /* measured: of the last step that another one has followed, from first push to first push */
  double predicted_us;     /* the same, predicted by the present plan */
  double exposed_us;       /* measured: what waits took in that step */
  double predicted_exposed_us;
} tuttiFusionInfo_t;

/* Tells what a fusion has done and expects.
 *
 * Errors: tuttiInvalidArgument: fusion or info is NULL, size too small. */
TUTTI_API tuttiResult_t tuttiFusionGetInfo(tuttiFusion_t fusion, tuttiFusionInfo_t *info);

/* Prints the present plan. It has messages in the order sent, what tensors are in them, when they are expected to
 * begin and end beside when they did in the last step; and what no plan could beat, by the times measured. Between
 * steps. json: as `tutti plan --json` prints it; there the first tensor is 1. Until something is measured iteration_us
 * is 0, and there is no bound_us.
 *
 * Errors: tuttiInvalidArgument: fusion or out is NULL. tuttiInvalidUsage: a step is under way. tuttiSystemError: out
 * cannot be written, or no memory. */
TUTTI_API tuttiResult_t tuttiFusionPrint(tuttiFusion_t fusion, FILE *out, int json);

/* Ends the fusion. After complete steps it is collective and returns at once; a step that is under way is
 * abandoned, as by tuttiFusionAbort. Buffers are the caller's again. NULL is allowed. Errors: as tuttiCommDestroy. */
TUTTI_API tuttiResult_t tuttiFusionDestroy(tuttiFusion_t fusion);

/* Ends what is under way, on all ranks. It ends with tuttiRemoteError; calls that wait return. The fusion is still to
 * be destroyed. */
TUTTI_API tuttiResult_t tuttiFusionAbort(tuttiFusion_t fusion);

#ifdef __cplusplus
}
#endif
#endif
