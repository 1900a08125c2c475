/* SPDX-License-Identifier: BSD-3-Clause */
/* What NVIDIA's nccl.h takes from CUDA's header of this name, for machines without CUDA. */
#ifndef TEST_CUDA_RUNTIME_H
#define TEST_CUDA_RUNTIME_H

#include <stddef.h>

#define CUDART_VERSION 0

typedef struct CUstream_st *cudaStream_t;

#endif
