/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of memory only. */
#ifndef TT_MEMORY_PRIVATE_H
#define TT_MEMORY_PRIVATE_H

#include "memory/memory.h"

#define TT_MEMORY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* An empty, close-on-exec memfd that can be sealed; -1 with errno. */
int tt_memory_descriptor(const char *name);

/* Bytes available on the machine, or in the container if that is less. Asked before an allocation, because the kernel
 * kills a process rather than refuse to allocate. */
uint64_t tt_memory_available(void);

/* Allocates the pages of [at, at + len) of fd. Returns 0, or the errno. */
int tt_memory_allocate(int fd, size_t at, size_t len);

#endif
