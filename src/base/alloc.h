/* SPDX-License-Identifier: BSD-3-Clause */
/* All allocations are made here, so that a test can fail the n-th one. */
#ifndef TT_BASE_ALLOC_H
#define TT_BASE_ALLOC_H

#include <stddef.h>

/* count * size zeroed bytes, or NULL (also on overflow). count 0 gives a valid pointer. */
void *tt_alloc(size_t count, size_t size);

/* Frees memory of tt_alloc; NULL is allowed. */
void tt_free(void *pointer);

/* The n-th tt_alloc from now returns NULL, once; 0: none. For tests. */
void tt_alloc_fail_at(long n);

/* Counts as one allocation; 1: it must fail. For resources that are not made by tt_alloc. */
int tt_alloc_fails(void);

#endif
