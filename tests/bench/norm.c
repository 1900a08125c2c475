/* SPDX-License-Identifier: BSD-3-Clause */
/* How fast norms are read, beside a copy and a sum of two buffers: GiB a second of one core, for a tensor that is in
 * the cache and one that is not. The three take turns; medians.
 *
 *   bench_norm [ROUNDS] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "reduce/norm.h"
#include "reduce_reference.h"

enum { NORM, COPY, SUM, WAYS };

static volatile double sink;

static void once(int way, int type, char *buffers[2], size_t len)
{
  struct tt_norm norm = {{0}};
  const void *sources[2] = {buffers[0], buffers[1]};
  size_t count = len / tt_type_size(type);
  switch (way) {
  case NORM:
    tt_norm_add(&norm, type, buffers[0], 0, count);
    sink = tt_norm_get(&norm);
    break;
  case COPY: memcpy(buffers[1], buffers[0], len); break;
  default: tt_reduce_kernel(tuttiSum, type)(buffers[1], sources, 2, count, NULL); break;
  }
}

/* Numbers between -2 and 2, or integers, the same in each block. */
static void fill(int type, char *buffers[2], size_t len)
{
  const size_t block = 65536, size = tt_type_size(type);
  uint64_t seed = 6711;
  for (int b = 0; b < 2; b++) {
    for (size_t at = 0; at < block; at += size) reference_tame(type, buffers[b] + at, &seed);
    for (size_t at = block; at < len; at += block) memcpy(buffers[b] + at, buffers[b], block);
  }
}

static int by_size(const void *a, const void *b)
{
  double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static void size_measure(int type, char *buffers[2], size_t len, int rounds, double *samples)
{
  const size_t times = ((size_t)64 << 20) / len;
  printf("%-9s %6zu KiB", tt_type_name(type), len >> 10);
  for (int round = 0; round < rounds; round++)
    for (int way = 0; way < WAYS; way++) {
      uint64_t began_ns = tt_now_ns();
      for (size_t k = 0; k < times; k++) once(way, type, buffers, len);
      samples[way * rounds + round] = (double)(len * times) / (double)(tt_now_ns() - began_ns) * 1e9 / 0x1p30;
    }
  for (int way = 0; way < WAYS; way++) {
    qsort(samples + way * rounds, (size_t)rounds, sizeof *samples, by_size);
    printf("  %7.2f", samples[way * rounds + rounds / 2]);
  }
  printf("\n");
}

int main(int argc, char **argv)
{
  static const int types[] = {tuttiFloat32, tuttiFloat64, tuttiFloat16, tuttiBfloat16, tuttiFloat8e4m3, tuttiInt32};
  int rounds = argc > 1 ? atoi(argv[1]) : 9;
  size_t len = (size_t)64 << 20;
  char *buffers[2] = {calloc(1, len), calloc(1, len)};
  double *samples = rounds > 0 ? calloc((size_t)rounds * WAYS, sizeof *samples) : NULL;
  if (!buffers[0] || !buffers[1] || !samples) return 1;
  for (const struct tt_reduce_table *const *table = tt_reduce_tables; *table; table++) {
    if (!(*table)->usable() || tt_reduce_choose((*table)->name) != tuttiSuccess) continue;
    printf("%s\n%-20s  %7s  %7s  %7s\n", (*table)->name, "type", "norm", "copy", "sum");
    for (size_t t = 0; t < sizeof types / sizeof types[0]; t++) {
      fill(types[t], buffers, len);
      size_measure(types[t], buffers, (size_t)64 << 10, rounds, samples);
      size_measure(types[t], buffers, len, rounds, samples);
    }
  }
  free(samples);
  free(buffers[0]);
  free(buffers[1]);
  return 0;
}
