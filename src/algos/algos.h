/* SPDX-License-Identifier: BSD-3-Clause */
/* The algorithms: one file each, one row each in table.c. Pure generators. */
#ifndef TT_ALGOS_H
#define TT_ALGOS_H

#include "sched/sched.h"

struct tt_algo {
  const char *name;   /* for --algo and TUTTI_ALGO */
  int collective;     /* enum tt_collective */
  /* Appends the steps of shape->rank to the empty schedule. */
  void (*generate)(struct tt_schedule *schedule, const struct tt_shape *shape);
  /* What the file's head claims for shape->rank; a test checks it exactly. */
  void (*claim)(const struct tt_shape *shape, struct tt_cost *cost);
  /* The number of blocks it is made for, for this many ranks. */
  int32_t (*blocks)(const struct tt_shape *shape);
  /* NULL if legal, else why not. NULL function: always legal. */
  const char *(*illegal)(const struct tt_shape *shape);
};

extern const struct tt_algo tt_algos[];
extern const int tt_algo_count;

/* The row of that name and collective, or NULL. */
const struct tt_algo *tt_algo_find(int collective, const char *name);

#endif
