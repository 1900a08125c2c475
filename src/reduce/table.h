/* SPDX-License-Identifier: BSD-3-Clause */
/* The tables of kernels, one an instruction set. Private to reduce. */
#ifndef TT_REDUCE_TABLE_H
#define TT_REDUCE_TABLE_H

#include "reduce/reduce.h"

struct tt_reduce_table {
  const char *name;    /* of the instruction set */
  int (*usable)(void); /* true if this CPU has it; the same answer each time; a few ns */
  tt_reduce_fn kernels[TT_REDOPS][tuttiNumTypes]; /* NULL: this table has none */
};

/* What the compiler makes of C for the base architecture; has every kernel. */
extern const struct tt_reduce_table tt_reduce_generic;

#endif
