/* SPDX-License-Identifier: BSD-3-Clause */
/* The state kept per CUDA context, and pieces of work on it. Private to cuda. */
#ifndef TT_CUDA_GPU_H
#define TT_CUDA_GPU_H

#include "cuda/driver_private.h"
#include "cuda/params_private.h"
#include "device/device.h"

#define CUDA_GPUS 32            /* contexts whose memory can be met in one process */
#define CUDA_STREAMS 4          /* per context, so that copies run alongside kernels */
#define CUDA_SOURCES 1024       /* most sources of one reduction */
#define CUDA_STAGE_BYTES ((size_t)256 << 10) /* pinned memory of a piece of work that meets pageable memory */
#define CUDA_SLAB 64            /* pieces of work made at a time */
#define CUDA_SLABS 256
#define CUDA_OPERATIONS 4       /* of kernels.cu: sum, prod, max, min */
#define CUDA_TYPES 12           /* of kernels.cu: NCCL's */

/* A buffer of a piece of work. */
struct cuda_operand {
  const char *at; /* address for the GPU, or pageable memory, which goes through the stage */
  int is_staged;
  int size;       /* bytes of an element */
};

/* A copy or a reduction under way; it belongs to the holder of its ticket. If pageable memory takes part, the work is
 * cut so that each cut fits into the stage; the poll that finds a cut done starts the next one. */
struct cuda_work {
  uint32_t index, generation; /* these make its ticket; generation is odd while the work is in use */
  struct cuda_work *next_free;
  void *event, *stream;
  int32_t *flag; /* pinned: the kernel's overflow report */
  char *stage;   /* pinned; NULL until it is needed once, then kept */

  int is_copy, operation, type;
  size_t count, done, cut;  /* elements (bytes of a copy): all; finished; on their way */
  struct tt_reduce_arg arg; /* its `also` is not used */
  int *overflow;
  int nsrc;
  struct cuda_operand dst, also; /* also.at NULL: none */
  struct cuda_operand *sources;  /* `few`, or in the stage */
  struct cuda_operand few[TT_CUDA_INLINE];
  char *staged_dst, *staged_also; /* the cut's result before it is copied out; NULL: it is written in place */
};

struct cuda;

struct cuda_gpu {
  struct tt_device device; /* first member: a pointer to it is a pointer to the struct */
  struct cuda *cuda;
  void *_Atomic context; /* the context of this memory; NULL: the entry is free */
  pthread_mutex_t mutex; /* guards all fields below unless said otherwise */
  int ordinal;
  _Atomic int is_ready, has_kernels;
  unsigned most_blocks;
  unsigned turn;
  void *streams[CUDA_STREAMS];
  void *module;
  void *kernels[CUDA_OPERATIONS][CUDA_TYPES];
  struct cuda_work *_Atomic slabs[CUDA_SLABS]; /* read without the mutex */
  int32_t *flags[CUDA_SLABS];
  int nslabs;
  struct cuda_work *free;
};

/* Whether memory operations of streams and the host see each other's words (probe.c). */
enum cuda_words { CUDA_WORDS_NOT_TRIED, CUDA_WORDS_MEET, CUDA_WORDS_FAIL };

/* The process's one object while communicators use CUDA; tt_process.cuda. */
struct cuda {
  struct tt_device device; /* registered; stands for all contexts */
  struct cuda_driver driver;
  _Atomic int lookup_error; /* code of the driver call that failed to tell the owner of a pointer ... */
  const char *_Atomic lookup_call;     /* ... and the name of that call */
  void *_Atomic primary[CUDA_GPUS];    /* contexts that were retained, by ordinal */
  struct held *retired;                /* stream.c; guarded by tt_process.cuda_mutex, as the next two */
  _Atomic int words;                   /* enum cuda_words; read without the mutex */
  char words_why[128];                 /* why they fail */
  struct cuda_gpu gpus[CUDA_GPUS + 1]; /* the last one stands for pointers that cannot be used, and says why */
};

/* ---- gpu.c ---- */

void tt_cuda_gpus_init(struct cuda *cuda);
/* Waits for all work and frees everything. */
void tt_cuda_gpus_close(struct cuda *cuda);

/* The primary context of a GPU, retained once; NULL: the driver refuses. */
void *tt_cuda_primary(struct cuda *cuda, int ordinal);

/* The device for a pointer; NULL if it is not CUDA's. Takes no lock once the context is known. */
const struct tt_device *tt_cuda_member(const struct tt_device *device, const void *pointer);

enum cuda_where { CUDA_ON_HOST, CUDA_ON_GPU, CUDA_ELSEWHERE }; /* elsewhere: memory of another context */

/* Finds how kernels and copies of this GPU reach a pointer; fills all of *operand except its size. */
tuttiResult_t tt_cuda_operand(const struct cuda_gpu *gpu, const void *pointer, struct cuda_operand *operand,
                              enum cuda_where *where);

/* Makes the context current, and ready if it is not yet; tt_cuda_leave_context undoes the first. */
tuttiResult_t tt_cuda_enter(struct cuda_gpu *gpu);
void tt_cuda_leave_context(struct cuda_gpu *gpu);

/* Loads the kernels. The context is current. */
tuttiResult_t tt_cuda_kernels(struct cuda_gpu *gpu);

/* ---- work.c; the context is current in all of these, unless is_current is 0 ---- */

tuttiResult_t tt_cuda_slab_add(struct cuda_gpu *gpu); /* the mutex is held */
void tt_cuda_slabs_close(struct cuda_gpu *gpu, int is_current);

/* Takes a piece of work that is not in use; with `stages` it has a stage. */
tuttiResult_t tt_cuda_work_take(struct cuda_gpu *gpu, int stages, struct cuda_work **work);
void tt_cuda_work_give(struct cuda_gpu *gpu, struct cuda_work *work);
struct cuda_work *tt_cuda_work_find(struct cuda_gpu *gpu, tt_ticket ticket);
tt_ticket tt_cuda_work_ticket(const struct cuda_work *work);

/* Starts the next cut. On an error nothing runs. */
tuttiResult_t tt_cuda_cut_start(struct cuda_gpu *gpu, struct cuda_work *work);
/* tuttiSuccess once all cuts are done; tuttiInProgress; or an error, after which nothing runs any more. */
tuttiResult_t tt_cuda_work_poll(struct cuda_gpu *gpu, struct cuda_work *work);

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
 * current, and the mutex is held. */
int tt_cuda_words_probe(const struct cuda_probe *probe);

/* ---- trap.c; the context is current ---- */

struct cuda_trap {
  void *module, *kernel; /* module NULL: not loaded */
};

tuttiResult_t tt_cuda_trap_load(const struct cuda *cuda, int ordinal, struct cuda_trap *trap);
void tt_cuda_trap_unload(const struct cuda *cuda, struct cuda_trap *trap);
/* Enqueues it; *word: not 0: it traps. Returns the driver's code. */
int tt_cuda_trap_launch(const struct cuda *cuda, const struct cuda_trap *trap, void *stream, _Atomic uint32_t *word);

/* ---- launch.c ---- */

/* Cuts as much of a reduction as the stage holds, copies in what is staged, and launches its kernel. */
tuttiResult_t tt_cuda_reduce_start(struct cuda_gpu *gpu, struct cuda_work *work);

/* 1 if a reduction with this argument and so many sources only copies. */
int tt_cuda_keeps_bits(const struct tt_reduce_arg *arg, int nsrc);

#endif
