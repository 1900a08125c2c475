/* SPDX-License-Identifier: BSD-3-Clause */
/* Memory of CUDA devices, as devices of device.h: one per CUDA context whose memory is met. Nothing of CUDA is linked;
 * the driver, libcuda.so.1, is used where the process has loaded it. The kernels lie in this library. */
#ifndef TT_CUDA_H
#define TT_CUDA_H

#include "base/base.h"

/* Every communicator joins when it begins, and leaves when it ends, after its last use of a device, if *joined is 1.
 * The first one for which the driver is there makes CUDA memory known to tt_device_of; when the last of all has left,
 * it is forgotten again, and all that was made in the GPUs' contexts is freed. TUTTI_CUDA: 0 makes nothing known; auto
 * does where the process has loaded the driver; 1 loads it. Any thread, but not in a forked child.
 *
 * Errors, of TUTTI_CUDA=1 only: tuttiInvalidUsage: there is no driver, or it is too old; tuttiUnhandledCudaError: it
 * does not start (no GPU). Of all: tuttiSystemError: out of memory. */
tuttiResult_t tt_cuda_join(const struct tt_settings *settings, int *joined);
void tt_cuda_leave(void);

/* NULL if CUDA memory can be used here, and text says what there is; else why not, in text or constant. Loads the
 * driver to find out, unless TUTTI_CUDA is 0. For `tutti info`. */
const char *tt_cuda_unusable(const struct tt_settings *settings, char *text, size_t size);

#endif
