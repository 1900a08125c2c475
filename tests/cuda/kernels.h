/* SPDX-License-Identifier: BSD-3-Clause */
/* src/cuda/kernels.cu on the CPU, for tests: the same source, one thread after the other. */
#ifndef CPU_KERNELS_H
#define CPU_KERNELS_H

#include "cuda/params_private.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The number of a kernel by its name, as tt_sum_float; -1 if there is none. */
int cpu_kernel_find(const char *name);

/* Its tuttiDataType_t. */
int cpu_kernel_type(int kernel);

/* Carries out the whole grid. Pointers are the CPU's. */
void cpu_kernel_run(int kernel, unsigned blocks, const struct tt_cuda_params *params);

#ifdef __cplusplus
}
#endif
#endif
