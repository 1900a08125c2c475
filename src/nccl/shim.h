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

typedef int tt_pointer_attribute_fn(void *value, int attribute, uint64_t pointer);
typedef int tt_stream_synchronize_fn(cudaStream_t stream);

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

  /* 1: this process has loaded the CUDA driver, and the two functions below are set. */
  _Atomic int cuda;
  _Atomic(tt_pointer_attribute_fn *) pointer_attribute;
  _Atomic(tt_stream_synchronize_fn *) stream_synchronize;
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

/* Looks whether the process has loaded the CUDA driver. Every creation of a communicator calls it, because no buffer of
 * a device is older than the driver. */
void tt_nccl_cuda_look(void);

/* Waits for the work of the stream and refuses device memory. Only if the driver is loaded. */
ncclResult_t tt_nccl_cuda_check(const void *sendbuff, const void *recvbuff, cudaStream_t stream);

/* The same, but nothing if the driver is not loaded. A buffer may be NULL. */
static inline ncclResult_t tt_nccl_buffers(const void *sendbuff, const void *recvbuff, cudaStream_t stream)
{
  if (!atomic_load_explicit(&tt_nccl_process.cuda, memory_order_acquire)) return tuttiSuccess;
  return tt_nccl_cuda_check(sendbuff, recvbuff, stream);
}

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
