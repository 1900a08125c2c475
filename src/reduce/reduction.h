/* SPDX-License-Identifier: BSD-3-Clause */
/* A reduction by the kernel of its operation and type, with a look at its results if that is wanted. */
#ifndef TT_REDUCTION_H
#define TT_REDUCTION_H

#include "reduce/reduce.h"

/* The fields are the arguments of a kernel of reduce.h; redop < TT_REDOPS. */
struct tt_reduction {
  int redop, type;
  void *dst;
  const void *const *sources;
  int nsrc;
  size_t count;
  const struct tt_reduce_arg *arg;
  int *overflow; /* NULL; else it becomes 1 if an infinite or NaN element is written, and is left alone otherwise */
};

/* Errors: tuttiInternalError: there is no such kernel. */
tuttiResult_t tt_reduce_run(const struct tt_reduction *what);

#endif
