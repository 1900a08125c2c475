/* SPDX-License-Identifier: BSD-3-Clause */
/* The declarations that the files of libnccl.so.2 share: the last error, the check for CUDA, the config. */
#ifndef TT_NCCL_SHIM_H
#define TT_NCCL_SHIM_H

#include <pthread.h>
#include <stdatomic.h>

#include "nccl/abi.h"
#include "tutti_tools.h"

#define TT_NCCL_SENTENCE_BYTES 512
#define TT_NCCL_PENDING_MAX 64 /* more at once are not covered: then programs must ask the child */
#define TT_NCCL_WINDOWS_MAX 1024

#define TT_NCCL_STREAMS_MAX 4096

/* Functions of the CUDA driver. */
struct tt_nccl_cuda {
  int is_found; /* the process has loaded it, and the others are set */
  int (*context_current)(void **context);
  int (*memory_alloc)(uint64_t *pointer, size_t len);
  int (*memory_free)(uint64_t pointer);
  int (*pointer_attribute)(void *value, int attribute, uint64_t pointer);
};

/* One stands for each CUDA stream. A handle that CUDA gives to another stream later stands for that one. */
struct tt_nccl_stream {
  cudaStream_t cuda;
  _Atomic(tuttiStream_t) stream; /* NULL: the entry is free; set last, with release */
};

/* The library's only writable global. */
struct tt_nccl_process {
  /* NCCL's last error belongs to the process: a watchdog thread asks for the error that another thread met. */
  pthread_mutex_t error_mutex;
  char sentence[TT_NCCL_SENTENCE_BYTES];

  /* Communicators that are being made from others. The mutex is held while a child is asked, so that it is not freed
   * meanwhile. */
  pthread_mutex_t pending_mutex;
  struct tt_nccl_pair {
    ncclComm_t parent, child;
  } pairs[TT_NCCL_PENDING_MAX];
  _Atomic int npairs;

  /* Windows of all communicators. Programs hold a pointer to one and never look inside. */
  pthread_mutex_t window_mutex;
  struct ncclWindow_vidmem {
    ncclComm_t comm; /* NULL: free */
    void *buff, *handle; /* handle: of the registration */
  } windows[TT_NCCL_WINDOWS_MAX];

  pthread_mutex_t cuda_mutex;
  struct tt_nccl_cuda cuda;
  _Atomic int has_streams; /* 1: there is a GPU, so calls go to their streams */
  struct tt_nccl_stream streams[TT_NCCL_STREAMS_MAX]; /* by handle; none is ever taken out */
};

extern struct tt_nccl_process tt_nccl_process;

/* ---- error.c ---- */

/* Keeps the calling thread's last sentence for ncclGetLastError of every thread; returns code. */
ncclResult_t tt_nccl_remember(ncclResult_t code);

/* Refuses a call with a sentence of its own; inside a group none of the group's calls starts. Returns code. */
ncclResult_t tt_nccl_refuse(ncclResult_t code, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The result of a forwarding function; an error is remembered. */
static inline ncclResult_t tt_nccl_result(tuttiResult_t result)
{
  return result == tuttiSuccess || result == tuttiInProgress ? result : tt_nccl_remember(result);
}

/* ---- cuda.c ---- */

/* Looks whether the machine has a GPU, and starts its driver then; called before each creation of a communicator.
 * Without a current context that belongs to GPU 0, as with NCCL: config->device becomes that. */
ncclResult_t tt_nccl_cuda_look(tuttiConfig_t *config);

/* Finds what stands for the CUDA stream, or makes it. */
ncclResult_t tt_nccl_stream_of(cudaStream_t cuda, tuttiStream_t *stream);

/* The stream of a call. Without a GPU a CUDA stream cannot hold work: the call is carried out before it returns. */
static inline ncclResult_t tt_nccl_stream(cudaStream_t cuda, tuttiStream_t *stream)
{
  *stream = NULL;
  if (!atomic_load_explicit(&tt_nccl_process.has_streams, memory_order_acquire)) return tuttiSuccess;
  return tt_nccl_stream_of(cuda, stream);
}

/* Memory of the GPU whose context is current. *is_made, *is_freed: 0: there is none, or the memory is not of a GPU. */
ncclResult_t tt_nccl_cuda_alloc(void **pointer, size_t size, int *is_made);
ncclResult_t tt_nccl_cuda_free(void *pointer, int *is_freed);

/* ---- memory.c ---- */

/* Forgets the windows of comm, which is about to be freed together with their registrations. */
void tt_nccl_windows_free(ncclComm_t comm);

/* ---- config.c ---- */

struct tt_nccl_config {
  tuttiConfig_t config;
  char name[64];
};

/* Checks the program's config and makes Tutti's from it: *out points into *storage, or is NULL if config is. */
ncclResult_t tt_nccl_config(struct tt_nccl_config *storage, tuttiConfig_t **out, const ncclConfig_t *config);

/* ---- pending.c ---- */

/* child is being made from parent: parent is in progress until child is ready. */
void tt_nccl_pending_add(ncclComm_t parent, ncclComm_t child);

/* comm is about to be freed. */
void tt_nccl_pending_remove(ncclComm_t comm);

/* The state of a communicator that is itself ready: tuttiInProgress while a child of it is being made. Any thread. */
ncclResult_t tt_nccl_pending_state(ncclComm_t comm);

#endif
