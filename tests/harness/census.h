/* SPDX-License-Identifier: BSD-3-Clause */
/* What a process holds: for tests that nothing leaks. */
#ifndef CENSUS_H
#define CENSUS_H

#include <stddef.h>

struct census {
  int descriptors, threads;
  int memfds;      /* mappings of memfds */
  size_t heap;     /* bytes allocated and not freed, exactly; 0 under a sanitizer, which has a heap of its own */
  size_t resident; /* bytes */
};

void census_take(struct census *census);

/* 1 if this process holds no more descriptors, threads and mappings than `before`, and at most `heap` bytes more of
 * the heap. What ends by itself gets 5 s for it. 0 with a list of what is held on stderr. *after gets the last
 * count. */
int census_same(const struct census *before, struct census *after, size_t heap);

/* Descriptors that this process has open. */
int census_descriptors(void);

/* Its threads. */
int census_threads(void);

/* Entries of /dev/shm whose name has "tutti" in it. */
int census_dev_shm(void);

#endif
