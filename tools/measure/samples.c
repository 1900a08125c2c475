/* SPDX-License-Identifier: BSD-3-Clause */
/* Statistics of several samples. Pure. */
#include <math.h>
#include <stdlib.h>

#include "measure/private.h"

static int by_value(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

/* A quantile of sorted samples, interpolated between its two neighbours. */
static double quantile(const double *sorted, int n, double part)
{
  double at = part * (n - 1);
  int below = (int)at;
  if (below >= n - 1) return sorted[n - 1];
  return sorted[below] + (at - below) * (sorted[below + 1] - sorted[below]);
}

struct summary samples_summarise(double *samples, int n)
{
  qsort(samples, (size_t)n, sizeof *samples, by_value);
  return (struct summary){quantile(samples, n, 0.5), quantile(samples, n, 0.25), quantile(samples, n, 0.75)};
}

double samples_error_percent(const double *sorted, int n, double value)
{
  int last = n - 1, first = 0, leave = n / 10;
  if (value <= 0) return 0;
  while (leave--) /* what is farthest off does not count */
    if (value - sorted[first] > sorted[last] - value) first++;
    else last--;
  return 100 * fmax(fabs(sorted[first] - value), fabs(sorted[last] - value)) / value;
}

void order_mix(int32_t *order, int n, uint32_t seed)
{
  uint32_t state = seed * 2654435769u + 12345u;
  for (int i = 0; i < n; i++) order[i] = i;
  for (int i = n - 1; i > 0; i--) {
    state = state * 1664525u + 1013904223u;
    int k = (int)((state >> 8) % (uint32_t)(i + 1));
    int32_t kept = order[i];
    order[i] = order[k];
    order[k] = kept;
  }
}
