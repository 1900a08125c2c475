/* SPDX-License-Identifier: BSD-3-Clause */
#include "nccl/shim.h"

struct tt_nccl_process tt_nccl_process = {
    .error_mutex = PTHREAD_MUTEX_INITIALIZER,
    .pending_mutex = PTHREAD_MUTEX_INITIALIZER,
    .window_mutex = PTHREAD_MUTEX_INITIALIZER,
    .cuda_mutex = PTHREAD_MUTEX_INITIALIZER,
};
