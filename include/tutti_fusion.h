/* SPDX-License-Identifier: BSD-3-Clause */
/* Tutti's tensor fusion: gradients go in as they are made and come out combined.
 *
 * The backward pass makes many small gradients. Sent one by one, they spend most of their time on the start-up cost of
 * messages; sent all at once at the end, none of that time is hidden behind computation. A fusion is told of all
 * tensors once, measures when each of them is ready and how long messages take, and plans from that which tensors go
 * together, in what pieces and in what order, so that an iteration is as short as possible; it plans again when times
 * have changed. A thread of its own copies and sends.
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
 * A program that waits for one tensor after the other instead, each where the next forward pass needs its weights
 * (tuttiFusionWait), lets the messages of later layers hide behind the forward pass of earlier ones:
 *
 *       for (i = 0; i < n; i++) {
 *         tuttiFusionWait(fusion, i);
 *         ... update weights i, forward of layer i ...
 *       }
 *
 * A step. In each step every tensor is pushed once and then waited for, on all ranks, in any order, which may differ
 * between ranks and steps. A tensor may be pushed for the next step as soon as it has been waited for and all tensors
 * of the step before have been pushed. Messages are sent in the order of the plan. If a tensor is late on a rank, or a
 * more urgent one is ready, the ranks agree at run time on another order, in which the messages that are ready on all
 * ranks go first. So a late tensor holds up only the tensors that are sent together with it, whatever the orders of the
 * pushes. No wait lasts for ever: a rank that is dead, silent or late ends it as with any collective. A tensor without
 * a gradient is pushed as zeros. A program that adds up gradients of several backward passes pushes in the last one
 * only.
 *
 * Results are, without a codec, those of tuttiAllReduceWith for each tensor alone, and with or without one the same
 * bits on all ranks. The rounding of a sum of floats may depend on which tensors are sent together, as it may on the
 * size of any message; with `deterministic` of the communicator it does not.
 *
 * Codecs. With a codec the tensors of tuttiFloat32 that have at least codec_least elements travel in fewer bits. Each
 * rank encodes its contribution (times `before`) once, and what it leaves out is kept, in fp32, for the next step: a
 * tensor has *planes* of such state, which begin as zeros. Codecs are those of tuttiAllReduceWith, and
 *
 *   "1bit[:ROW]"                    a bit for an element, and two means for each row (`rows`, else ROW, 128): Seide et
 *                                   al., Interspeech 2014. Planes: the error of the contribution, and of the sum at its
 *                                   owner (the rank that adds an element's contributions)
 *   "threshold:TAU"                 elements beyond TAU are sent as +-TAU: Strom, Interspeech 2015. One plane: the rest
 *   "drop:LEFTOUT"                  all but the share LEFTOUT of smallest magnitude ("drop:0.99" sends 1 %): Aji and
 *                                   Heafield, EMNLP 2017. One plane
 *   "dryden:SENT"                   the share SENT of each sign, as its mean: Dryden et al., MLHPC 2016. One plane
 *   "adacomp[:BIN]"                 those that are large within their BIN (500): Chen et al., AAAI 2018. One plane
 *   "dgc:LEFTOUT[,MOMENTUM[,CLIP]]" as drop, with momentum (0.9) inside and local clipping: Lin et al., ICLR 2018. Two
 *                                   planes: the rest, and the velocity. The optimizer has no momentum of its own then
 *
 * The bits of results depend on the tensors, steps and ranks alone: not on the plan, its slices, the transport, or the
 * place of a rank; random numbers follow from tensor, step, rank and element. A plane takes twice the memory of its
 * tensor (a step writes the other copy), but one of sums or weights only for what the rank owns. A codec that keeps a
 * rest needs a smaller rate, or momentum inside the codec: momentum outside of it adds the rest up again and again.
 * Planes are scaled when `after` is changed (tuttiFusionScale), so that a loss scale may change in mid-training. With
 * config.overflow a step that overflowed leaves all planes as they were before it: the program skips its update, and
 * nothing is lost.
 *
 * Updates. With config.update results are not sums but weights: each element of a tensor has an *owner*, a rank that
 * holds its master weight in fp32, adds the contributions of all ranks, updates the weight by the sum (the gradient)
 * and gives it to all ranks, which find it in recvbuff. So a rank keeps masters, and the state of the optimizer, of one
 * element in as many as there are ranks, and computes the update of these alone: a synchronous parameter server whose
 * servers are the ranks. Weights travel in fp32 or, at half the bytes of that half of the way, in 16 bits
 * (weights_type); the masters stay fp32. The tensors are of tuttiFloat32, or, for programs whose gradients and weights
 * are 16 bits wide, tuttiFloat16 or tuttiBfloat16, whose weights then travel in that type.
 *
 *     config.update = "momentum:0.9";
 *     config.rate = 0.1f;
 *     tuttiFusionCreate(&fusion, comm, tensors, n, &config);
 *     for (i = 0; i < n; i++) tuttiFusionState(fusion, i, 0, weights[i], count[i], 1);  // once, alike on all ranks
 *     for (each step) {
 *       ... push gradient[i], with recvbuff weights[i] ...
 *       tuttiFusionWaitAll(fusion);     // weights[i] are those of the next step
 *     }
 *
 * Weights come as soon as all ranks have pushed their gradients: let recvbuff be other memory than the weights that the
 * backward pass still reads.
 *
 * g is the gradient: the sum or average over all ranks of `before` times the contributions, times `after`. It has the
 * bits that an all-reduce of a communicator with `deterministic` has (with the fusion's wire_type; then multiplied by
 * `after` in fp32), whether or not this one has it; with a codec those of the sum that its owner encodes. w is the
 * master weight, u and v are made for each element in fp32, and each operation is rounded to nearest:
 *
 *   "sgd[:DECAY]"                          u = g + DECAY w;  w = w - rate u
 *   "momentum[:MOMENTUM[,DECAY]]"          u = g + DECAY w;  v = MOMENTUM v + u;  w = w - rate v. MOMENTUM: 0.9
 *   "lars[:MOMENTUM[,DECAY[,ETA]]]"        u = lambda (g + DECAY w), then as momentum: You, Gitman and Ginsburg, 2017
 *   "function[:PLANES]"                    config.function, with PLANES planes for an element, 1 to 3
 *   "easgd[:ALPHA]", "gossip"              each rank updates weights of its own: see "Exchanges" below
 *
 * DECAY is 0 by default; then u = g. lambda = ETA |w| / (|g| + DECAY |w|), by L2 norms of the whole tensor, and 1 where
 * one of the norms is 0; ETA is 0.001 by default. Owners have parts of a tensor, so they exchange their sums of squares
 * (in fp64, added in the order of ranks) in a short message; lambda is computed in fp64 and rounded to fp32. With
 * "lars" a tensor is sent whole, whatever the policy: its norms are known when all of its gradient is. Tensors that
 * config.exempt names (biases, and weights of normalisation) have neither DECAY nor lambda. The velocity v holds no
 * rate, so a change of the rate (tuttiFusionRate) counts from the next step on without a correction.
 *
 * Planes of state are 0, the weights, and then v, or what the function keeps, which begin as zeros; planes of a codec
 * have the numbers after them. Weights are given by tuttiFusionState before the first push, on all ranks alike; it also
 * reads them for a checkpoint. If a rank dies, so do the masters that it owned, which nothing can bring back: go on
 * from the weights in recvbuff (with weights_type tuttiFloat32 these are the masters' bits) or from a checkpoint. After
 * an error in mid-step recvbuff may have weights of that step in some tensors, other ones on other ranks: a program
 * that must go on keeps a copy of the step before.
 *
 * With config.overflow a step in which an element of a gradient or a weight became infinite or NaN leaves all planes as
 * they were, and recvbuff gets the weights of the step before once more. So a tensor's wait ends with the step, and all
 * tensors must be pushed before the first wait. Norms are those of the weights that were written. Codecs of
 * contributions may be those whose codes go to owners: fp16, bf16, int8, 1bit (without its plane of sums), qsgd and
 * terngrad. The others, which are sparse, give every rank the whole sum, and weights that owners gave would travel
 * whole: leave out the update, and update the same weights on each rank; or have servers, see below.
 *
 * Servers. With config.quorum or config.staleness, beside config.update, a contribution counts when it comes: each
 * owner is the *server* of its elements. Contributions go to it as messages when they are pushed, that of the first
 * tensor first where several wait; it decides which of them make an update, and sends the weights back. So no rank
 * waits for a slow one. With n ranks:
 *
 *   quorum k, staleness 0  An update is of one step, and takes the contributions of the k ranks (or more) that all
 *                          servers have completely first. They are decided once for a step, for all tensors alike;
 *                          later ones count in no step (backup workers: Chen et al., 2016). k = n: all count, and
 *                          weights have the bits of a fusion without servers, but with "terngrad"
 *   quorum k, staleness s  An update is of the next k contributions to an element, whoever sent them (k = 1:
 *                          asynchronous SGD; else n-softsync: Zhang et al., IJCAI 2016). One that was computed from
 *                          weights which have had more than s updates since then does not count. With k > 1 a rank
 *                          is answered at once, before the update that has its contribution if others are missing;
 *                          up to k - 1 contributions to an element are left over at the end, and count nowhere
 *   quorum 0, staleness s  Each contribution is an update, and none is dropped. A wait lasts until this rank is at
 *                          most s steps ahead of the slowest (stale synchronous parallel: Ho et al., NIPS 2013)
 *
 * tuttiAvg divides by the number of contributions in the update. Rules divide the rate by 1 + staleness; a function is
 * told the staleness and does that itself, or does not. With staleness 0 the contributions that count in an update have
 * the same rate and `after`, else the fusion ends with tuttiInvalidUsage; those of others are not compared. With a
 * staleness each contribution is multiplied by `before` times `after` (rounded to fp32) of its own rank, so ranks may
 * have different loss scales, and an update has the rate of the contribution that came last.
 *
 * Each rank takes its own steps. A wait ends when the servers have answered: with the weights after the update of this
 * step, or with the newest where it did not count. With quorum k < n a rank that is late gets the newest weights that
 * it has completely, all tensors of one update, and goes on from there: it has skipped steps. So `updates` of
 * tuttiFusionGetInfo says where it is; loops end by that, not by a count of their own. All tensors must be pushed
 * before the first wait then, and waits end together. With `staleness` tensors, and the parts of one that have
 * different owners, may be of different updates. tuttiFusionDestroy waits until all ranks have called it, because each
 * serves the others until then; a rank in it contributes no more, and where too few are left the others' waits end with
 * tuttiRemoteError. A rank that calls it before it has given its weights, while others contribute to them, ends the
 * fusion.
 *
 * Contributions travel to servers in wire_type or by any codec, and weights come back in weights_type, as without
 * servers. A sparse codec gives a whole tensor to one owner. The server adds what it decodes of each contribution, in
 * the order of ranks, with a staleness in that in which they came. With "terngrad" each rank has a scale of its own. A
 * codec keeps what it leaves out by the steps of its own rank: a contribution that does not count leaves planes as they
 * were before it, with a staleness those of the elements of which it did not. So what was kept before is in the next
 * contribution once more, and a gradient that came too late in none.
 *
 * Deaths. With quorum k < n and staleness 0 a fusion survives the death of up to n - k ranks (one that was stopped for
 * longer than TUTTI_FROZEN_MS, or could not be reached, counts as dead), and says so in the log. All waits, that of the
 * step under way included, end as ever, with weights of the same contributors in all elements on all ranks: a
 * contribution of a dead rank is in a step for all elements or for none. Another rank serves its elements from then on,
 * from the newest weights that any rank has completely; an update that no rank has completely is made once more, of the
 * contributions of live ranks, so a function may be called twice with the same `step`. The planes behind the weights
 * (the velocity, or those of a function) begin as zeros for these elements, and with 16 bits of weights_type their
 * masters as they travelled; tuttiFusionState gives all of them to the rank that serves them. Elements move only when
 * the rank that serves them dies. One death more ends the fusion on all ranks with tuttiRemoteError, which names all
 * dead ranks; ranks that are in tuttiFusionDestroy and dead ones together may be n - k. If k is not more than n / 2,
 * ranks may have run so far ahead of the others that their last updates die with them: that is such an error, too. The
 * communicator from which the fusion was made fails at the first death, and its collectives with it, as ever: end it
 * with tuttiCommAbort when the fusion is destroyed. With k = n and staleness 0 all ranks get an error if a rank dies.
 *
 * With a staleness, "easgd" and "gossip" the fusion survives the death of all ranks but one, likewise. With a staleness
 * the next live rank, in a circle, serves the elements of a dead one, from the newest weights that one of the live
 * ranks was given. So what a rank was given is never taken back, and its contributions count once, those that were
 * under way included; with k > 1 up to k - 1 contributions to an element that were answered, but were not yet an
 * update, are lost with each server. The codec of a live rank keeps the same as if nobody had died: a contribution that
 * was under way is encoded to the same bits once more. Contributions of a dead rank may count in some elements and not
 * in others, and what no live rank was given of an element is lost, as is what its codec has kept. A rank that waits
 * for the dead server waits until the new one has heard of all live ranks. Planes behind the weights begin as zeros.
 * With "easgd" the center begins there once more, as the weights of the rank that exchanged them last; with "gossip"
 * the weights of a dead rank are gone, nobody else serves them, and an exchange with it that was not answered changes
 * neither side (`dropped`). In both the sum of all weights changes then. For the first of these each rank keeps one
 * copy of all weights.
 *
 * The death of a rank in tuttiFusionCreate may end the creation of a fusion that survives deaths: then all live ranks
 * get tuttiRemoteError there, else all get tuttiSuccess. Once it has returned tuttiSuccess on one rank it does so on
 * all that live, whoever dies then.
 *
 * No wait lasts for ever here, either. The fusion ends with an error on all ranks if the weights of a step have not
 * come within timeout_ms of the communicator after its last push (waited for or not), or if a rank in
 * tuttiFusionDestroy has had no sign of others for so long: each step that a rank pushes is one, and so is each message
 * that moves. The sentence names the ranks that are late, as far as the rank that found it knows them; after
 * TUTTI_LATE_WARN_MS a warning does. A rank that lacks a push itself is told so by its wait, as ever, and can go on.
 *
 * Exchanges. With the updates "easgd" and "gossip" each rank trains weights of its own, by any optimizer, and pushes
 * these weights x instead of gradients, in every step or in every TAU-th one. A server has other weights y, and
 * answers at once with a difference, which y gains and x loses; the wait ends with that:
 *
 *     d = ALPHA (x - y);  y = y + d;  recvbuff: x - d
 *
 *   "easgd[:ALPHA]"  asynchronous elastic averaging (Zhang, Choromanska and LeCun, NIPS 2015): y is the center, one for
 *                    all ranks, of which each element has an owner. ALPHA is 0.9 divided by the number of ranks, unless
 *                    it is given. The center is plane 0, of which each rank has what it owns
 *   "gossip"         asynchronous averages of pairs (AD-PSGD: Lian et al., ICML 2018): y are the weights of a
 *                    neighbour, and ALPHA is 1/2, so both have the average then. The neighbour is the rank 1, 2, 4, ...
 *                    places behind this one, in turn, or the next that lives and has not called tuttiFusionDestroy.
 *                    Plane 0 is y, which the next wait of its own rank gives; plane 1 is the part of it that this
 *                    rank's program has not seen yet, the sum of all d. Both planes are whole on each rank. With
 *                    `staleness` s at most s exchanges change y between two pushes of its own rank; others are refused,
 *                    and change neither side
 *
 * A wait takes one answer, whatever the program of the other rank does: nobody waits for a slow rank, or in a circle.
 * The sum of all weights (with easgd those of the center, too) stays, but for rounding, because one side gains what the
 * other one loses. A program may train on while an exchange is under way: it pushes a copy of its weights, and adds
 * recvbuff minus sendbuff to them after the wait. Before the first push all ranks give weights (plane 0), with gossip
 * each its own. op, rate and exempt are not used; config.quorum, with easgd config.staleness, and factors other than 1
 * (tuttiFusionScale) are refused. `updates` of tuttiFusionGetInfo is the number of exchanges of the center, with gossip
 * that of this rank's steps; `dropped` counts steps of which an exchange was refused; `stalest` and `staleness` tell of
 * the exchanges between two of a rank's at the same center, or, with gossip, between two pushes of the server's rank.
 * The rest is as with servers.
 *
 * There is no plan: config.policy and buffer_bytes are not used, and tuttiFusionPrint and tuttiFusionCodec are refused
 * (tuttiInvalidUsage). "lars", overflow and norms are refused at creation (tuttiInvalidArgument), and for exchanges
 * codecs and all types but tuttiFloat32. Contributions are copied, and wait in the memory of their server; with
 * quorum k < n each rank keeps two copies of all weights beside that, and one of the planes that it owns. Nothing piles
 * up behind a slow link: at most the contributions of one step of a rank are on their way to a server, and at most the
 * weights of one version from there to a rank. So what a rank's messages that are not sent yet take is at most twice
 * the bytes of all tensors, however many steps the others make meanwhile (queued_most of tuttiFusionGetInfo); a death
 * adds at most the weights that the rank serves, once for each other rank. With quorum k < n a rank that is behind gets
 * the newest version when it has got the one before; a step of its own that is over before its contributions could be
 * sent is not sent.
 * Planes are changed in place: after an error an update may have changed some elements and not others.
 *
 * Memory. Buffers are host memory or memory of NVIDIA GPUs, if comm belongs to a CUDA context (tuttiStreamFromCuda). A
 * push of a tensor of a GPU returns once that is copied to host memory, as much as all tensors have, which is kept for
 * the next steps; the wait that finds the sum there copies it back. So only waits end a step: tuttiFusionDestroy does
 * not. For these copies a fusion holds 4 MiB of pinned memory (two of TUTTI_CUDA_SLOT_BYTES), whether tensors are on a
 * GPU or not, since a push pins nothing. Streams are those of tuttiStreamCreate, for host memory; those of
 * tuttiStreamFromCuda are refused: kernels that write to a sendbuff must have ended (cudaStreamSynchronize) before its
 * push, and kernels that read or overwrite the buffers are begun after the wait.
 *
 * Threads. tuttiFusionPush, tuttiFusionQuery and tuttiFusionWait may be called by any threads at the same time, and
 * tuttiFusionAbort at any time; the other functions by one thread at a time, while no thread pushes or waits.
 *
 * Errors. A wrong argument is refused and changes nothing. When a message fails (a rank died, ...) every call returns
 * that error from then on: destroy the fusion or, if ranks are lost, shrink the communicator and move it there. As in
 * tutti.h, outputs are written on success only, and tuttiGetLastError has the sentence. */
#ifndef TUTTI_FUSION_H
#define TUTTI_FUSION_H

#include <stdio.h>

#include "tutti.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tuttiFusion *tuttiFusion_t;

#define TUTTI_FUSION_TENSORS 16384 /* the most that a fusion may have */

/* A tensor, the same on all ranks. Its place in the array is its place in the order of the forward pass: the tensor
 * that forward needs first has index 0. */
typedef struct {
  const char *name;     /* for errors and plans; copied; at most 127 bytes; may repeat (errors have the index, too);
                           NULL: "tensor INDEX" */
  size_t count;         /* elements; may be 0 */
  tuttiDataType_t type;
} tuttiFusionTensor_t;

/* Elements of a tensor that this rank owns, for an update function. */
typedef struct {
  size_t size;           /* of this struct in the library, whose newer versions may have more fields at its end */
  int tensor;
  int staleness;         /* updates that are in the weights but were not when the gradient was computed; of several
                            contributions the mean, rounded up: divide the rate by 1 + staleness. 0 unless
                            config.staleness is set */
  uint64_t step;         /* of the fusion, from 1 on; with servers the number of this update of the elements */
  size_t first, count;   /* elements first to first + count - 1 of the tensor */
  float rate;            /* of this step (config.rate, tuttiFusionRate) */
  const float *gradient; /* g of these elements */
  float *planes[3];      /* of these elements: [0] the weights, which the function updates, and what it keeps beside
                            them; NULL from PLANES on */
} tuttiFusionShard_t;

/* Updates weights. The fusion's thread calls it, for a few thousand elements at a time, each element once a step on its
 * owner, in any order. Its results may depend on nothing but its arguments and the context, and it calls no function of
 * Tutti. The arrays do not overlap, and are its own until it returns. If it does not return tuttiSuccess the fusion
 * ends with that error on all ranks, or with tuttiInvalidUsage if that is no error. After a failed or an overflowed
 * step its work is forgotten. */
typedef tuttiResult_t (*tuttiFusionUpdate_t)(void *context, const tuttiFusionShard_t *shard);

/* Options. Always start from TUTTI_FUSION_CONFIG_INITIALIZER; a field left as the initializer sets it takes its
 * default. The options are the same on all ranks. Where an environment variable is named, it overrides the program; it
 * is read when comm is made. */
typedef struct {
  size_t size;
  uint32_t magic;
  uint32_t version;
  const char *policy;  /* how tensors are grouped and ordered: "auto" (the default), or one of `tutti plan --help`:
                          "wfbp", "single", "threshold:BYTES[,FIRST]", "horovod:BYTES", "mgwfbp", "optimal",
                          "p3[:PARAMETERS[,CREDIT]]", "fifo[:PARAMETERS[,CREDIT]]" (TUTTI_FUSION_POLICY). PARAMETERS:
                          elements of a slice, by default 50000. CREDIT, in bytes: while less than that is in flight the
                          next slice may begin, if a channel is free (TUTTI_FUSION_CHANNELS, by default 2); 0: one slice
                          at a time; by default found from how long messages take alone and side by side, which is
                          measured at creation */
  size_t buffer_bytes; /* size of the fusion buffer; default 64 MiB (TUTTI_FUSION_BYTES). It is rounded up to 4 KiB, and
                          has at most about twice the size of all tensors. Messages longer than half of it are planned
                          and sent in slices, also those that are sent without a copy: so is the one of "single" (by
                          default from 32 MiB on); coded ones are not: they take no room in it, but each channel keeps
                          memory for twice the codes of its longest message (of a sparse codec: for the codes of all
                          ranks), with update for its share in fp32, and where a sparse codec meets a `before` that is
                          not 1 (tuttiFusionScale) for its longest tensor. So choose a policy that slices where tensors
                          are huge; those of sparse codecs are never cut. While the buffer is full of messages that
                          wait for a late rank, each channel may take as much memory again as its longest message */
  int op;              /* tuttiSum or tuttiAvg; default tuttiSum */
  int wire_type;       /* of tuttiFloat32 tensors, as in tuttiReduceOptions_t; undefined: the communicator's */
  int overflow;        /* 1: tuttiFusionOverflow will be called; default 0 */
  int norms;           /* 1: tuttiFusionNorm will be called; default 0 */
  const char *codec;   /* how tensors of tuttiFloat32 travel, see "Codecs" above; NULL or "none": as they are
                          (TUTTI_FUSION_CODEC) */
  size_t codec_least;  /* tensors with fewer elements travel as they are; default 1024 */
  const uint32_t *rows; /* NULL, or of each tensor the elements of a row of its matrix, 0: not told; copied. With "1bit"
                           the elements of a row have their two means in common */
  const char *update;     /* how owners update weights, see "Updates" above; NULL or "none": results are sums */
  tuttiFusionUpdate_t function; /* of "function"; else NULL. The same on all ranks, which are not compared */
  void *context;          /* its first argument */
  float rate;             /* of the first step, see tuttiFusionRate; default 0 */
  int weights_type;       /* in which weights of tuttiFloat32 tensors travel: tuttiFloat32 (also if undefined),
                             tuttiFloat16 or tuttiBfloat16; recvbuff gets fp32 with such values */
  const uint8_t *exempt;  /* NULL, or of each tensor 1: its update has neither DECAY nor lambda, else 0; copied */
  int quorum, staleness;  /* which contributions count, and when, see "Servers" above; default 0, 0: all, together */
} tuttiFusionConfig_t;

#define TUTTI_FUSION_CONFIG_MAGIC 0x74756675u
#define TUTTI_FUSION_CONFIG_INITIALIZER \
  { sizeof(tuttiFusionConfig_t), TUTTI_FUSION_CONFIG_MAGIC, TUTTI_VERSION_CODE, NULL, 0, tuttiSum, \
    TUTTI_CONFIG_UNDEF_INT, 0, 0, NULL, 0, NULL, NULL, NULL, NULL, 0, TUTTI_CONFIG_UNDEF_INT, NULL, 0, 0 }

/* Makes a fusion of `ntensors` tensors over the ranks of comm. The call is collective: all ranks call it with the same
 * tensors and options. The fusion has communicators of its own, so comm may be used for other things at any time, by
 * other threads, too, and must live until the fusion is destroyed. The call sends some messages to measure them, for at
 * most about half a second on slow links. config NULL: defaults.
 *
 * Errors: tuttiInvalidArgument: an argument, a tensor (named) or an option is wrong, on this rank; nothing was sent.
 * All other errors are returned on all ranks alike. tuttiInvalidUsage: two ranks have different tensors or options (the
 * sentence has the tensor or option, both values and the ranks). tuttiSystemError: a rank has no memory, thread or
 * descriptor (the sentence names the resource and the rank). Then comm can be used as before, unless the rank lacks it
 * for the first connection of the fusion's first communicator, or earlier: such a failure can be told to the others on
 * comm alone, and comm has failed then. */
TUTTI_API tuttiResult_t tuttiFusionCreate(tuttiFusion_t *fusion, tuttiComm_t comm, const tuttiFusionTensor_t *tensors,
                                          int ntensors, const tuttiFusionConfig_t *config);

/* Says that a tensor of this step is ready to be combined. It is ready in sendbuff, or will be when everything queued
 * on the stream has ended (the stream must live until the tensor has been waited for). The sum is written to recvbuff,
 * which is sendbuff or does not overlap it, and overlaps no buffer of another tensor of the step (two tensors may share
 * a sendbuff that no sum is written to, such as one of zeros). Both buffers belong to the fusion until the tensor has
 * been waited for; they may be different ones in each step. The call never waits: it takes less than a microsecond, or
 * a few where the fusion's thread has to be woken, or where a thousand tensors or more have moved in memory since the
 * step before. Tensors that are sent together and lie one behind the other in forward order, in both buffers, are not
 * copied.
 *
 * count and type are those of the tensor: they are given again to catch programs that mix up their tensors.
 *
 * Errors: tuttiInvalidArgument: fusion, tensor, a buffer (NULL with count > 0, overlap), count or type is wrong.
 * Overlaps are those of recvbuff with the same tensor's sendbuff, and those of a recvbuff with any buffer of another
 * tensor that was pushed and not waited for (both are named). tuttiInvalidUsage: the tensor was pushed already and not
 * waited for since, another one was not pushed yet in the step before (named), or owners update weights (config.update)
 * and those of the tensor were not given yet. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionPush(tuttiFusion_t fusion, int tensor, const void *sendbuff, void *recvbuff,
                                        size_t count, tuttiDataType_t type, tuttiStream_t stream);

/* Waits until the sum of a tensor that was pushed is there. A second wait in the same step returns at once. The sum is
 * there some time after all ranks have pushed the tensor and those that are sent together with it: push a tensor that
 * other ranks wait for before a wait that depends on them. A wait that takes longer than the communicator's timeout_ms
 * is an error that names the missing tensors of this rank, or the late rank. tuttiFusionQuery returns tuttiInProgress
 * instead of waiting; once it has returned tuttiSuccess the tensor has been waited for.
 *
 * Errors: tuttiInvalidArgument: fusion or tensor is wrong. tuttiInvalidUsage: the tensor was not pushed in this step,
 * or tensors were not pushed in time (named). The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionWait(tuttiFusion_t fusion, int tensor);
TUTTI_API tuttiResult_t tuttiFusionQuery(tuttiFusion_t fusion, int tensor);

/* Ends the step: waits for all tensors. With no step begun it returns at once.
 *
 * Errors: tuttiInvalidUsage: some tensors of the step were not pushed (the sentence names the first, and says how
 * many): push them, zeros if they have no gradient, and call it again. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionWaitAll(tuttiFusion_t fusion);

/* Sets the factors of contributions and results. From the next step on contributions are multiplied by `before` and
 * results by `after`, like scale_before and scale_after of tuttiReduceOptions_t; both are 1 at first. All ranks give
 * the same `after` for the same step.
 *
 * Errors: tuttiInvalidArgument: not finite, 0, or not 1 though a tensor's type is an integer. tuttiInvalidUsage: a
 * step has begun and not all of its tensors were pushed. */
TUTTI_API tuttiResult_t tuttiFusionScale(tuttiFusion_t fusion, float before, float after);

/* Sets the rate by which weights are updated, from the next step on. All ranks give the same for the same step; two
 * different ones are a mismatch of their calls (tuttiInvalidUsage), which names both.
 *
 * Errors: tuttiInvalidArgument: not finite, or below 0. tuttiInvalidUsage: config.update was not set, or a step has
 * begun and not all of its tensors were pushed. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionRate(tuttiFusion_t fusion, float rate);

/* Tells whether a step overflowed. It is about the step that ended last (all its tensors were waited for): *overflow
 * becomes 1 if any element was or became infinite or NaN on any rank, see tuttiReduceOptions_t, else 0. It is the same
 * on all ranks.
 *
 * Errors: tuttiInvalidArgument: NULL. tuttiInvalidUsage: config.overflow was not set, no step has ended yet, or one is
 * under way. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionOverflow(tuttiFusion_t fusion, int *overflow);

/* Tells the L2 norm of a tensor's sum. *norm becomes that of the last sum (after scale_after), added up in double: the
 * same bits on all ranks, and for the same elements whatever the plan was. Most of a sum comes from other ranks and not
 * from this rank's kernels, so it is read once more when its message has come, piece by piece while other messages
 * move. Elements of tuttiFloat64 beyond about 1e154 make it infinite, and those below 1e-162 count as 0. It may be
 * called between tuttiFusionWait of the tensor and its next push.
 *
 * Errors: tuttiInvalidArgument: fusion, tensor or norm is wrong. tuttiInvalidUsage: config.norms was not set, or the
 * tensor is not there. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionNorm(tuttiFusion_t fusion, int tensor, double *norm);

/* Sets another codec, from the next step on. It is for warm-ups, or dense first steps, and collective: all ranks give
 * the same codec between the same two steps, and the call returns when all have. NULL or "none": no codec. Planes stay
 * if only parameters change ("dgc:0.75" to "dgc:0.999"), except planes of sums where another ROW gives elements to
 * other owners; else they begin as zeros again, and what they held is lost. Weights and the state of an update are
 * moved to their new owners, and lose nothing.
 *
 * Errors: tuttiInvalidArgument: fusion, or the codec, is wrong on this rank: then it waits for no other.
 * tuttiInvalidUsage: two ranks gave different codecs (both are named; nothing has changed, on any rank), or a step is
 * under way. The fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionCodec(tuttiFusion_t fusion, const char *codec);

/* Reads or writes a plane of what a codec or an update keeps. A tensor's plane is read to data, or, with set 1, written
 * from there: for checkpoints, and for the first weights of an update. Planes are numbered from 0 on in the order
 * above, those of an update first, have as many elements as the tensor (count), and are those that the last complete
 * step left, each rank its own, in the units of results: a loss scale is not in them. A plane of an update, and one of
 * sums ("1bit": 1), is read as zero except the elements that this rank owns: to go on with other ranks, or as a
 * checkpoint, add up those of all ranks, and give each rank the sum, of which it keeps what it owns. After an error
 * they may still be read, before the fusion is destroyed, so the ranks that are left after a shrink take theirs to the
 * next fusion; state_step of tuttiFusionGetInfo is the step that left them. Random numbers, and the lengths of
 * "threshold" and "adacomp", begin anew in another fusion, after tuttiFusionMove these lengths alone. With servers
 * planes change with every contribution, so all ranks end a step and meet in a tuttiBarrier before the first of them
 * calls this, and in another one before the next push: else parts are of different updates.
 *
 * Errors: tuttiInvalidArgument: fusion, tensor, plane, data or count is wrong. tuttiInvalidUsage: a step is under way.
 * With set: the fusion's first error. */
TUTTI_API tuttiResult_t tuttiFusionState(tuttiFusion_t fusion, int tensor, int plane, float *data, size_t count,
                                         int set);

/* Goes on over another communicator: that of a shrink, or of a grow. The call is collective over comm: ranks that have
 * the fusion call it, at least one does, and new ranks call tuttiFusionCreate with the same tensors and options (and
 * with the codec that the fusion has now). *fusion becomes a fusion over comm with the options, scales and the rate of
 * the old one, which is destroyed; plans are made anew. The old one may have failed: then the step under way is
 * forgotten. Else all tensors must have been waited for. The communicator of before is not needed any more; comm must
 * live until the fusion is destroyed or moved again.
 *
 * Steps. When a fusion fails ranks may have ended one step more than others. All go on from the state of the lowest
 * step that one of them has ended: a rank that is ahead takes its last step back, as far as planes are concerned, and
 * `steps` and `state_step` of tuttiFusionGetInfo are that step on all ranks, new ones as well. The program pushes the
 * gradients of the step after it next. So what was pushed counts once: in the sums and weights of steps up to that one,
 * or in what a codec has kept. Sums that the program of a rank that was ahead has used already are its own to undo. The
 * other way round, a step may have ended on all ranks although a wait for it failed: `steps` is then one more than the
 * program has counted, and recvbuff (in memory of the host) has its sums.
 *
 * State. A codec's planes of contributions stay with their rank, and begin as zeros on new ones. Planes that owners
 * have go to their new owners, bit by bit. With a rank that is gone all is lost that it kept: the rest of its
 * contributions, and all that it owned. This begins as zeros, and lost masters are not given: a warning tells how many,
 * and a push is refused (tuttiInvalidUsage) until tuttiFusionState has given the weights of that tensor (plane 0), on
 * all ranks alike, new ones as well: those that recvbuff had after step `steps`.
 *
 * Servers. Ranks of the old fusion that do not move call tuttiFusionDestroy; until all that live have come to one of
 * these calls, they serve each other. Waits end as long as other ranks contribute, so with a quorum ranks move at the
 * same `updates`. A quorum of all ranks stays one of all; another one stays as it is, or is all ranks, where these are
 * fewer. New ranks give tuttiFusionCreate a quorum of the new set.
 *   quorum k < n  All go on from the newest weights that a rank of the new set has completely, also of elements whose
 *                 server is gone. A rank that is behind them, as a new one is after the first update, contributes
 *                 nothing in its first step (`dropped`), and gets them by its wait. A step that was under way when the
 *                 old fusion failed counts in all elements or in none, and what its rank's codec keeps is accordingly
 *   quorum n      As without servers: `updates` is the lowest, and what a rank that is gone has served is given again
 *   others        Elements go on from their server's weights, or else from the newest that a rank of the new set was
 *                 given. All ranks keep their steps, and by how many updates they are behind; a new one begins with the
 *                 steps of the slowest, as far behind as one that was given nothing since the first update. If the old
 *                 fusion has failed, a step that was under way may count in some elements; that is logged, and so are
 *                 contributions that waited for a quorum, which count nowhere. Codecs keep what they kept before that
 *                 step, in all elements: where it has counted, what earlier steps left out counts once more in a later
 *                 one, and what it left out itself is lost. With "easgd" the center moves likewise, and an ALPHA that
 *                 was not given follows from the number of ranks. With "gossip" each rank keeps its weights, and a new
 *                 one gives its own
 * Planes behind the weights move with them from servers, and begin as zeros where a copy of the weights goes on.
 *
 * Errors: as tuttiFusionCreate; then *fusion is as before. If it has servers, and the options of the ranks were the
 * same, it may have ended: each call returns the error, but it can be moved once more. tuttiInvalidUsage: a step is
 * under way here. On all ranks: a rank that is ahead has begun to encode contributions of the next step, so what its
 * codec keeps cannot be taken back (the sentence names it); TUTTI_FUSION_CODEC is another codec than the fusion's;
 * or ranks bring fusions that different calls have made, as a rank may die when a move has ended on some of the
 * others: then what these own does not fit together. */
TUTTI_API tuttiResult_t tuttiFusionMove(tuttiFusion_t *fusion, tuttiComm_t comm);

/* The state of a fusion: its measurements and predictions. Set size to sizeof(tuttiFusionInfo_t) first; fields that the
 * library is too old to know become 0. Times are in microseconds, of this rank; 0 where nothing was measured yet. */
typedef struct {
  size_t size;
  uint64_t steps;          /* that have ended so far, also before a tuttiFusionMove */
  uint64_t plans;          /* that were used so far; the first is made before any step is measured */
  uint64_t planned_step;   /* the present plan is used from this step on (0: the first) */
  int groups, messages;    /* of the present plan */
  int is_by_priority;      /* 1: it sends what forward needs first */
  size_t buffer_bytes;     /* of the fusion buffer */
  uint64_t copied_bytes;   /* into the buffer, in the last step; the rest was sent from where it lies */
  double iteration_us;     /* measured: the last step that another one has followed, from first push to first push */
  double predicted_us;     /* the same, predicted by the present plan */
  double exposed_us;       /* measured: the time spent in waits in that step */
  double predicted_exposed_us;
  uint64_t state_step;     /* the step that left the planes of tuttiFusionState as they are; 0: none has ended. After an
                              error ranks may be one step apart: those that put state together compare theirs */
  uint64_t updates;        /* without servers as `steps`; with them those of the weights that the last step gave: steps
                              with `quorum` alone, contributions with a `staleness` and quorum 0 or 1, k of these
                              each with quorum k, of the tensor's share that has had most */
  uint64_t dropped;        /* steps of this rank that did not count: in no element with quorum k < n, in some with a
                              staleness. Steps that it has skipped, and what is left over at the end, are not in it */
  uint64_t stalest;        /* of the contributions that this rank's servers have counted: the largest staleness, */
  double staleness;        /* and the mean */
  uint64_t queued_bytes;   /* with servers: of this rank's messages that are not sent yet, */
  uint64_t queued_most;    /* and the most so far: at most those of all tensors twice, and some short messages */
} tuttiFusionInfo_t;

/* Tells the state of a fusion.
 *
 * Errors: tuttiInvalidArgument: fusion or info is NULL, size too small. */
TUTTI_API tuttiResult_t tuttiFusionGetInfo(tuttiFusion_t fusion, tuttiFusionInfo_t *info);

/* Prints the present plan. It lists the messages in the plan's order, the tensors in each, the times at which they are
 * expected to begin and end beside those of the last step (in which the ranks may have agreed on another order), and an
 * iteration time that no plan can beat if all takes as long as expected: a step may, if messages or computation are
 * faster than that. It may be called between steps. With json it prints the plan as `tutti plan --json` does; there the
 * first tensor is 1. Until something is measured iteration_us is 0, and there is no bound_us.
 *
 * Errors: tuttiInvalidArgument: fusion or out is NULL. tuttiInvalidUsage: a step is under way. tuttiSystemError: out
 * cannot be written, or no memory. */
TUTTI_API tuttiResult_t tuttiFusionPrint(tuttiFusion_t fusion, FILE *out, int json);

/* Ends the fusion. After complete steps it is collective and returns at once; a step of which tensors were not pushed
 * is abandoned, as by tuttiFusionAbort, and one that was pushed, but not waited for, ends first. With servers it serves
 * the other ranks until all have called it, which are in any of their steps then (see "Servers" above). Buffers belong
 * to the caller again. NULL is allowed. Errors: as tuttiCommDestroy. */
TUTTI_API tuttiResult_t tuttiFusionDestroy(tuttiFusion_t fusion);

/* Ends the step under way, on all ranks. It ends with tuttiRemoteError; calls that wait return. The fusion still has to
 * be destroyed. */
TUTTI_API tuttiResult_t tuttiFusionAbort(tuttiFusion_t fusion);

#ifdef __cplusplus
}
#endif
#endif
