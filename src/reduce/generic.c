/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels in plain C for whatever the compiler targets: the table that always works. */
#include "reduce/types.inc"

static int always(void)
{
  return 1;
}

const struct tt_reduce_table tt_reduce_generic = {
    .name = "generic", .usable = always, .kernels = TT_ALL_ROWS};
