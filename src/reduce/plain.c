/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels in plain C for any target of the compiler: the reference table, against which the others are tested. */
#include "reduce/types.inc"

static int always(void)
{
  return 1;
}

const struct tt_reduce_table tt_reduce_plain = {
    .name = "plain", .usable = always, .kernels = TT_ALL_ROWS, .finite = TT_FINITE, .norm = TT_NORM};
