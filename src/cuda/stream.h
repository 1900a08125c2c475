/* SPDX-License-Identifier: BSD-3-Clause */
/* CUDA streams: functions that enqueue, and the words in which GPU and host meet. README.md has the rules. All
 * functions but tt_slots_retire, tt_slots_release and tt_slots_trap call the driver: they are for the caller of a
 * public function, never for a thread of Tutti. */
#ifndef TT_CUDA_STREAM_H
#define TT_CUDA_STREAM_H

#include "base/base.h"

#define TT_SLOTS 4     /* of a communicator, for CUDA streams */
#define TT_OWN_SLOTS 2 /* and for calls without a stream */

/* Where a communicator and its GPU meet: pinned memory in the heap, which the other ranks of the host can read, in the
 * CUDA context to which the communicator belongs. Everything here is made with the communicator. */
struct tt_slots {
  _Atomic uint32_t *ready, *done; /* of exec.h's triggers; the GPU writes ready and waits for done */
  _Atomic uint32_t *turn_ready, *turn_done; /* the same of operations in graphs */
  _Atomic uint32_t *failed;       /* not 0: what waits for done ends with an error of CUDA; NULL: it stays parked */
  void *scalar;                   /* 16 bytes, for the scalar of the operation under way */
  char *first;                    /* n slots */
  size_t bytes;                   /* of each */
  uint32_t n;
  _Atomic uint32_t newest;        /* the largest number of a piece that was given out */
  _Atomic uint32_t newest_turn;   /* of pieces of operations in graphs; 0: there are none */
  int ordinal;                    /* of the GPU */
  void *stream;                   /* for calls without a stream, whose slots these are; NULL: calls bring theirs */
  _Atomic uint32_t *over;         /* then: comes to the newest number once the GPU has finished with that call */
};

/* Makes the slots for the current context; device >= 0: for the primary context of that GPU; beside != NULL: for the
 * context of these. *slots is NULL without an error if CUDA is not used here: no driver, or one older than CUDA 11.7;
 * no context; no such GPU. It may wait for streams that earlier communicators left parked. After tt_cuda_join.
 * Errors: tuttiSystemError, tuttiUnhandledCudaError. */
tuttiResult_t tt_slots_make(struct tt_slots **slots, size_t bytes, int device, const struct tt_slots *beside);

/* Likewise slots for calls without a stream, for the context of others. Errors: as above. */
tuttiResult_t tt_slots_make_own(struct tt_slots **own, const struct tt_slots *beside);

/* From now on tt_slots_trap lets streams end with an error of CUDA, instead of leaving them parked. Errors:
 * tuttiUnhandledCudaError. */
tuttiResult_t tt_slots_set_trap(struct tt_slots *slots);

/* The communicator has ended. The GPU may still use the slots, so they are kept for a later communicator; what no GPU
 * uses any more is freed with the last communicator of the process. It calls no driver, which another thread may keep
 * until a further communicator is aborted. Before tt_cuda_leave. NULL is allowed. */
void tt_slots_retire(struct tt_slots *slots);

/* Releases all that waits for `done`, now and in future: a store, no more. Any thread. */
void tt_slots_release(struct tt_slots *slots);

/* An operation has failed: the same, but whatever is released fails, if that was wished. Any thread. */
void tt_slots_trap(struct tt_slots *slots);

/* Errors: tuttiUnhandledCudaError: the GPU's memory operations do not work. */
tuttiResult_t tt_slots_usable(const struct tt_slots *slots);

/* Errors: tuttiUnhandledCudaError: earlier work has failed, so that the GPU does nothing more in this context. */
tuttiResult_t tt_slots_standing(const struct tt_slots *slots);

/* *capture: the number of the capture by which what the stream is given becomes part of a graph; 0: there is none.
 * Errors: tuttiInvalidUsage: it has failed already; tuttiUnhandledCudaError: it is no stream of this context. */
tuttiResult_t tt_slots_check(struct tt_slots *slots, void *stream, uint64_t *capture);

/* Rows of bytes; pitches are the distances from one to the next. */
struct tt_rows {
  void *dst;
  const void *src;
  size_t width, n, dst_pitch, src_pitch;
};

/* Makes the context current; leave makes the one current again that was so before. Every other function below is called
 * between the two. Errors of all: tuttiUnhandledCudaError. */
tuttiResult_t tt_slots_enter(const struct tt_slots *slots);
void tt_slots_leave(const struct tt_slots *slots);

/* Enqueues an operation: follow: it comes after what was marked last, on any stream; mark: it ends here. capture: as
 * part of a graph, where all the same is so whenever that runs. Slots that end between the two are not used again, as
 * nothing tells when the GPU has finished with them. */
tuttiResult_t tt_slots_follow(struct tt_slots *slots, void *stream, uint64_t capture);
tuttiResult_t tt_slots_copy(struct tt_slots *slots, void *stream, const struct tt_rows *rows);
/* Writes `ready`. */
tuttiResult_t tt_slots_tell(struct tt_slots *slots, void *stream, uint32_t number);
/* Waits until `done` has come to the number. */
tuttiResult_t tt_slots_await(struct tt_slots *slots, void *stream, uint32_t number);
/* Both at once: one call of the driver. */
tuttiResult_t tt_slots_meet(struct tt_slots *slots, void *stream, uint32_t number);
tuttiResult_t tt_slots_mark(struct tt_slots *slots, void *stream, uint64_t capture);
/* For slots of calls without a stream: the call has enqueued all; when the GPU has done it, `over` comes to the number.
 * It is marked as well. */
tuttiResult_t tt_slots_end(struct tt_slots *slots, uint32_t number);
/* In a graph: writes turn_ready and waits for that piece; says that it is taken and waits until that is known. */
tuttiResult_t tt_slots_turn(struct tt_slots *slots, void *stream, uint32_t number);
tuttiResult_t tt_slots_taken(struct tt_slots *slots, void *stream);

/* For streams of one group: `stream` waits for what `other` holds now. */
tuttiResult_t tt_slots_join(struct tt_slots *slots, void *stream, void *other);

#endif
