/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels for what every x86-64 has. */
#if defined(__x86_64__)
#include <emmintrin.h>

#define TT_VECTOR 16
#include "reduce/lanes.inc"
#include "reduce/x86.inc"
#include "reduce/own.inc"
#include "reduce/vector.inc"

static int usable(void)
{
  return 1;
}

const struct tt_reduce_table tt_reduce_sse2 = {
    .name = "sse2", .usable = usable, .kernels = TT_ALL_ROWS, .finite = TT_FINITE};
#endif
