/* SPDX-License-Identifier: BSD-3-Clause */
/* Runs tests of the reduce kernels on each table, and says what right is for the table in use. */
#ifndef REDUCE_TABLES_H
#define REDUCE_TABLES_H

#include "reduce_reference.h"

/* Runs run(name) with each table in use that this CPU can use, and prints which these were. Returns the sum of what
 * run returned. */
int tables_each(int (*run)(const char *table));

/* What the kernel of the table in use must give, in every bit: of the plain table what the reference says, of the
 * others what the plain one gives. */
void tables_judge(const struct reference *call, void *dst, size_t count);
int tables_judge_finite(int type, const void *data, size_t count);

#endif
