/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the files of memory only. */
#ifndef TT_MEMORY_PRIVATE_H
#define TT_MEMORY_PRIVATE_H

#include "memory/memory.h"

#define TT_MEMORY_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

/* An empty, close-on-exec memfd that can be sealed; -1 with errno. */
int tt_memory_descriptor(const char *name);

/* 0 if len bytes are more than the machine, or the container, has available: *available. Asked before an allocation,
 * because the kernel kills a process rather than refuse to allocate. Reading the kernel's files takes as long as making
 * many pages, so they are read for the first allocation of a process and again after each MiB, whoever asks; else the
 * answer is 1. */
int tt_memory_fits(size_t len, uint64_t *available);

/* Allocates the pages of [at, at + len) of fd. Returns 0, or the errno. */
int tt_memory_allocate(int fd, size_t at, size_t len);

#endif
