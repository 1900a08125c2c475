/* SPDX-License-Identifier: BSD-3-Clause */
#include "variation.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define JITTER_MOST 1000 /* percent */
#define FACTOR_MOST 1000

/* ---- draws ---- */

/* A hash of one number more. */
static uint64_t mix(uint64_t hash, uint64_t number)
{
  uint64_t z = hash + (number + 1) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

/* Above 0, at most 1. */
static double uniform(uint64_t hash)
{
  return (double)((hash >> 11) + 1) * 0x1p-53;
}

/* Draws with mean 0 and variance 1 (Box and Muller 1958). */
static double normal(uint64_t hash)
{
  return sqrt(-2 * log(uniform(mix(hash, 0)))) * cos(2 * 3.14159265358979323846 * uniform(mix(hash, 1)));
}

double variation_factor(const struct variation *v, uint64_t step, int rank, int layer, enum way way)
{
  double factor = 1;
  uint64_t hash = mix(v->seed, step);
  if (v->jitter > 0) {
    double variance = log1p(v->jitter * v->jitter);
    uint64_t its = mix(mix(mix(hash, (uint64_t)rank), (uint64_t)layer), (uint64_t)way);
    factor = exp(sqrt(variance) * normal(its) - variance / 2);
  }
  if (v->slow_factor > 0 && rank == v->slow_rank) factor *= v->slow_factor;
  if (v->nlengths) factor *= v->lengths[mix(hash, UINT64_MAX) % (uint64_t)v->nlengths];
  return factor;
}

/* ---- what is told ---- */

static int complain(const char *what, const char *text, const char *wanted)
{
  fprintf(stderr, "%s is \"%.60s\": give %s\n", what, text, wanted);
  return 0;
}

static int is_factor(double factor)
{
  return factor > 0 && factor <= FACTOR_MOST;
}

int variation_take(struct variation *v, int option, const char *text)
{
  char rest;
  double percent;
  unsigned long long seed;
  switch (option) {
  case 'j':
    if (sscanf(text, "%lf%c", &percent, &rest) != 1 || !(percent >= 0 && percent <= JITTER_MOST))
      return complain("--jitter", text, "percent, from 0 to 1000");
    v->jitter = percent / 100;
    return 1;
  case 's':
    if (sscanf(text, "%d:%lf%c", &v->slow_rank, &v->slow_factor, &rest) != 2 || v->slow_rank < 0 ||
        !is_factor(v->slow_factor))
      return complain("--slow", text, "a rank and its factor, above 0 and up to 1000, as in 0:2");
    return 1;
  case 'l': return variation_lengths_read(v, text);
  case 'd':
    if (sscanf(text, "%llu%c", &seed, &rest) != 1) return complain("--seed", text, "a whole number");
    v->seed = seed;
    return 1;
  default: return -1;
  }
}

static int lengths_parse(struct variation *v, FILE *file, const char *path)
{
  char line[256];
  int batch;
  double factor;
  if (!fgets(line, sizeof line, file)) return complain("--lengths", path, "a file that begins with names of columns");
  for (; fgets(line, sizeof line, file); v->lengths[v->nlengths++] = factor)
    if (v->nlengths == LENGTHS_MAX || sscanf(line, "%d,%*d,%lf", &batch, &factor) != 2 || batch != v->nlengths + 1 ||
        !is_factor(factor)) {
      fprintf(stderr, "%s, line %d: wanted batch (1, 2, ... 65536), tokens and factor (above 0, at most 1000)\n", path,
              v->nlengths + 2);
      return 0;
    }
  return v->nlengths ? 1 : complain("--lengths", path, "a file with a batch");
}

int variation_lengths_read(struct variation *v, const char *path)
{
  FILE *file = fopen(path, "re");
  if (!file) {
    fprintf(stderr, "%s: %s\n", path, strerror(errno));
    return 0;
  }
  variation_free(v);
  v->lengths = calloc(LENGTHS_MAX, sizeof *v->lengths);
  int is_fine = v->lengths && lengths_parse(v, file, path);
  fclose(file);
  return is_fine;
}

void variation_free(struct variation *v)
{
  free(v->lengths);
  v->lengths = NULL;
  v->nlengths = 0;
}
