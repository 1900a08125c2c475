/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of kernels, one an instruction set. Private to reduce. */
#ifndef TT_REDUCE_TABLE_H
#define TT_REDUCE_TABLE_H

#include "reduce/reduce.h"

/* Every table has every kernel. */
extern const struct tt_reduce_table tt_reduce_plain;

#endif
