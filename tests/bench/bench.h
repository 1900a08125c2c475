/* SPDX-License-Identifier: BSD-3-Clause */
/* Shared by the programs that measure: time, sorted times, and an end where a call fails. */
#ifndef BENCH_H
#define BENCH_H

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "tutti.h"

static inline void must(tuttiResult_t result)
{
  if (result == tuttiSuccess) return;
  fprintf(stderr, "%s: %s\n", program_invocation_short_name, tuttiGetLastError(NULL));
  exit(1);
}

static inline double now_us(void)
{
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e6 + (double)now.tv_nsec / 1e3;
}

static inline int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static inline void sort(double *numbers, int n)
{
  qsort(numbers, (size_t)n, sizeof *numbers, by_value);
}

#endif
