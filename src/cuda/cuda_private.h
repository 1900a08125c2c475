/* SPDX-License-Identifier: BSD-3-Clause */
/* The process's use of CUDA. Private to cuda. */
#ifndef TT_CUDA_PRIVATE_H
#define TT_CUDA_PRIVATE_H

#include "cuda/driver_private.h"

#define CUDA_GPUS 32 /* that a process can use */

/* Whether memory operations of streams and the host see each other's words (probe.c). */
enum cuda_words { CUDA_WORDS_NOT_TRIED, CUDA_WORDS_MEET, CUDA_WORDS_FAIL };

/* The process's one object while communicators use CUDA; tt_process.cuda. */
struct cuda {
  struct cuda_driver driver;
  void *_Atomic primary[CUDA_GPUS]; /* contexts that were retained, by ordinal */
  struct held *retired;             /* stream.c; guarded by tt_process.cuda_mutex */
  pthread_mutex_t making;           /* held while slots are made, for which the driver may wait for parked streams;
                                       taken before cuda_mutex, and by nobody who may have to release streams */
  _Atomic int words;                /* enum cuda_words; changed under `making`, as the next one */
  char words_why[128];              /* why they fail */
};

/* ---- pointer.c ---- */

/* The primary context of a GPU, retained once; NULL: the driver refuses. */
void *tt_cuda_primary(struct cuda *cuda, int ordinal);

/* ---- stream.c ---- */

/* At the end: frees the slots with which all GPUs have finished. Returns 0 if others are left, which are kept with the
 * driver until the process ends. */
int tt_cuda_retired_free(struct cuda *cuda);

/* ---- probe.c ---- */

struct cuda_probe {
  struct cuda *cuda;
  _Atomic uint32_t *words; /* two, pinned, that nothing else ever uses */
  void *event;             /* likewise */
};

/* Sets cuda->words, unless it is set or cannot be told. 0: they fail, and a stream may wait for ever. The context is
 * current, and `making` is held. */
int tt_cuda_words_probe(const struct cuda_probe *probe);

/* ---- trap.c; the context is current ---- */

struct cuda_trap {
  void *module, *kernel; /* module NULL: not loaded */
};

tuttiResult_t tt_cuda_trap_load(const struct cuda *cuda, int ordinal, struct cuda_trap *trap);
void tt_cuda_trap_unload(const struct cuda *cuda, struct cuda_trap *trap);
/* Enqueues it; *word: not 0: it traps. Returns the driver's code. */
int tt_cuda_trap_launch(const struct cuda *cuda, const struct cuda_trap *trap, void *stream, _Atomic uint32_t *word);

#endif
