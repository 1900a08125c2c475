/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs a kernel on buffers at chosen places and looks at every byte around them. */
#ifndef REDUCE_PLACED_H
#define REDUCE_PLACED_H

#include "reduce/reduce.h"

#define PLACED_COUNT 257 /* most elements */
#define PLACED_SOURCES 4

/* Where a kernel's buffers lie: dst at `align` bytes behind a multiple of 64, source k at
 * align * (2 k + 3) + k behind one. scaled: the source that is scaled, or -1.
 * in_place: the source that is dst, or -1. */
struct placement {
  int redop, type, nsrc, scaled, in_place;
  size_t align, count;
};

/* NULL if dst has the right elements and no other byte changed; else what went wrong. */
const char *placed_fault(const struct placement *place);

#endif
