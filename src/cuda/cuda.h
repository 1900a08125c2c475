/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of CUDA devices. Nothing of CUDA is linked; the driver, libcuda.so.1, is used if the process has loaded it. */
#ifndef TT_CUDA_H
#define TT_CUDA_H

#include "base/base.h"

/* Every communicator joins when it begins; if *joined is 1, it leaves when it ends, after its last use of a GPU. The
 * first one that finds the driver makes CUDA memory known to tt_cuda_has. When the last of all has left, CUDA memory is
 * forgotten again, and everything made in the GPUs' contexts is freed. TUTTI_CUDA: 0: CUDA memory never becomes known;
 * auto: it does if the process has loaded the driver; 1: the driver is loaded. Any thread, but not in a forked child.
 *
 * Errors with TUTTI_CUDA=1 only: tuttiInvalidUsage: there is no driver, or it is too old; tuttiUnhandledCudaError: it
 * does not start (no GPU). Errors in any case: tuttiSystemError: out of memory. */
tuttiResult_t tt_cuda_join(const struct tt_settings *settings, int *joined);
void tt_cuda_leave(void);

/* 1: memory that only a GPU reaches, or that moves between it and the host, or about which the driver fails to tell.
 * NULL is allowed. One load while no communicator of the process has met CUDA. Any thread; calls the driver then. */
int tt_cuda_knows(const void *memory);
static inline int tt_cuda_has(const void *memory)
{
  return __builtin_expect(atomic_load_explicit(&tt_process.cuda, memory_order_relaxed) != NULL, 0) &&
         tt_cuda_knows(memory);
}

/* Makes a descriptor (a dma-buf), owned by the caller, by which other devices reach [memory, memory + len) of a GPU,
 * and *offset, at which that begins in it. Errors: tuttiSystemError, tuttiUnhandledCudaError. */
tuttiResult_t tt_cuda_expose(const void *memory, size_t len, int *fd, uint64_t *offset);

/* NULL if CUDA memory can be used here; then text describes GPUs and driver. Else the reason, in text or a constant.
 * Loads the driver to find out, unless TUTTI_CUDA is 0. For `tutti info`. */
const char *tt_cuda_unusable(const struct tt_settings *settings, char *text, size_t size);

/* The number of GPUs here. The driver is loaded if the machine has a GPU, started, and stays loaded. 0: there is none,
 * the driver does not start, or TUTTI_CUDA is 0. Any thread. */
int tt_cuda_start(const struct tt_settings *settings);

#endif
