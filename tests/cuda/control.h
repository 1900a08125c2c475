/* SPDX-License-Identifier: BSD-3-Clause */
/* Wishes of tests, beside the settings: what entry.c and report.c have for control.c. */
#ifndef DOUBLE_CONTROL_H
#define DOUBLE_CONTROL_H

#include "double.h"

extern int is_sealed; /* everything that creates or ends something fails */

/* The n-th call from now on returns `code`; 0: none. */
void driver_start(void); /* as cuInit */
void hold(int is_wanted); /* channels begin no work */
void fail_at(long n, int code);
const char *failed(void); /* the function that did so; NULL: none yet */

void count_breach(void);
long count_breaches(void);
long count_alive(const char *kind);
/* Calls of threads whose name begins with `prefix`; function NULL: of all functions. */
long count_of(const char *prefix, const char *function);
void counts_forget(void);
long work_pending(void);   /* pieces of work not done yet */
long work_overtaken(void); /* done before older work of another channel */

#endif
