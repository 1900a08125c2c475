/* SPDX-License-Identifier: BSD-3-Clause */
/* The error of one coded sum: no element of it is farther from the exact sum than the bound that the page on codecs
 * gives, and the page has the errors measured here. With --table it prints the rows of the page.
 * Labels: serial, plain. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "codecs.h"

#define RANKS 8
#define COUNT 65536
#define FP32_SLACK 1e-6 /* of the sum of magnitudes: what adding in fp32 may add */

/* The meaning of a bound is in the page. */
enum bound { OF_MAGNITUDES, OF_BLOCKS, OF_TENSORS, OF_LEFT_OUT, OF_TAU };

static const struct row {
  const char *codec, *name, *bound; /* name: in the page */
  enum bound kind;
  double factor;
  uint32_t block; /* elements; OF_BLOCKS */
} rows[] = {
    {"fp16", "`fp16`", "S / 1000", OF_MAGNITUDES, 1.0 / 1000, 0},
    {"bf16", "`bf16`", "S / 127", OF_MAGNITUDES, 1.0 / 127, 0},
    {"int8", "`int8`", "P / 127", OF_BLOCKS, 1.0 / 127, 256},
    {"qsgd:8", "`qsgd:8`", "2 P / 127", OF_BLOCKS, 2.0 / 127, 512},
    {"qsgd:4", "`qsgd:4`", "2 P / 7", OF_BLOCKS, 2.0 / 7, 512},
    {"qsgd:2", "`qsgd:2`", "2 P", OF_BLOCKS, 2, 512},
    {"terngrad", "`terngrad`", "n M", OF_TENSORS, 1 + 0x1p-11, 0},
    {"1bit", "`1bit`", "2 P", OF_BLOCKS, 2, 128},
    {"threshold:1", "`threshold:1`", "n times the larger of TAU and M - TAU", OF_TAU, 1, 0},
    {"drop:0.99", "`drop:0.99`", "n L", OF_LEFT_OUT, 0.99, 0},
    {"dryden:0.01", "`dryden:0.01`", "n M", OF_TENSORS, 1, 0},
    {"adacomp", "`adacomp`", "n M", OF_TENSORS, 1, 0},
    {"dgc:0.99", "`dgc:0.99`, first step", "n L", OF_LEFT_OUT, 0.99, 0},
};
enum { ROWS = sizeof rows / sizeof *rows };

static float *values[RANKS];

/* About normal, with a deviation of 1. */
static void values_draw(void)
{
  uint64_t state = 88172645463325252u;
  for (int rank = 0; rank < RANKS; rank++) {
    values[rank] = floats(COUNT);
    for (size_t i = 0; i < COUNT; i++) {
      float sum = 0;
      for (int k = 0; k < 12; k++) {
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        sum += (float)(state >> 40) * 0x1p-24f;
      }
      values[rank][i] = sum - 6;
    }
  }
}

/* The greatest magnitude of a contribution from element `first` on. */
static double peak(int rank, size_t first, size_t n)
{
  double most = 0;
  for (size_t i = first; i < first + n && i < COUNT; i++) most = fmax(most, fabs((double)values[rank][i]));
  return most;
}

static int descending(const void *a, const void *b)
{
  float x = *(const float *)a, y = *(const float *)b;
  return (x < y) - (x > y);
}

/* The greatest magnitude that a rank leaves out. */
static double left_out(int rank, double share)
{
  float *sorted = floats(COUNT);
  for (size_t i = 0; i < COUNT; i++) sorted[i] = fabsf(values[rank][i]);
  qsort(sorted, COUNT, sizeof *sorted, descending);
  double most = (double)sorted[(size_t)((1 - share) * COUNT)];
  free(sorted);
  return most;
}

/* The bound of each element. */
static void bounds_find(const struct row *row, double *bounds)
{
  const char *parameter = strchr(row->codec, ':');
  double tensors = 0, largest = 0, most_left = 0, tau = parameter ? atof(parameter + 1) : 0;
  for (int rank = 0; rank < RANKS; rank++) {
    largest = fmax(largest, peak(rank, 0, COUNT));
    if (row->kind == OF_LEFT_OUT) most_left = fmax(most_left, left_out(rank, row->factor));
  }
  tensors = RANKS * largest;
  for (size_t i = 0; i < COUNT; i++) {
    double magnitudes = 0, blocks = 0;
    for (int rank = 0; rank < RANKS; rank++) {
      magnitudes += fabs((double)values[rank][i]);
      if (row->kind == OF_BLOCKS && i % row->block == 0) blocks += peak(rank, i, row->block);
    }
    if (row->kind == OF_BLOCKS) bounds[i] = i % row->block ? bounds[i - 1] : row->factor * blocks;
    else if (row->kind == OF_MAGNITUDES) bounds[i] = row->factor * magnitudes;
    else if (row->kind == OF_TENSORS) bounds[i] = row->factor * tensors;
    else if (row->kind == OF_LEFT_OUT) bounds[i] = RANKS * most_left;
    else bounds[i] = RANKS * fmax(tau, largest - tau);
  }
}

/* Writes the row of the page; checks the bound of each element. */
static void row_write(const struct row *row, char *text, size_t size)
{
  struct codec_world world;
  float *result = floats(COUNT);
  double *bounds = calloc(COUNT, sizeof *bounds), errors = 0, sums = 0, worst = 0;
  assert_non_null(bounds);
  bounds_find(row, bounds);
  codec_world_create(&world, row->codec, RANKS, COUNT);
  world.wanted = COUNT; /* there is room for all entries, as there is from the second step on */
  codec_world_reduce(&world, (const float *const *)values, result, NULL);
  for (size_t i = 0; i < COUNT; i++) {
    double exact = 0, magnitudes = 0;
    for (int rank = 0; rank < RANKS; rank++) {
      exact += (double)values[rank][i];
      magnitudes += fabs((double)values[rank][i]);
    }
    double error = fabs((double)result[i] - exact);
    if (error > bounds[i] + FP32_SLACK * magnitudes)
      fail_msg("%s: element %zu is off by %g, beyond the bound, %g", row->codec, i, error, bounds[i]);
    worst = fmax(worst, bounds[i] > 0 ? error / bounds[i] : 0);
    errors += error * error;
    sums += exact * exact;
  }
  snprintf(text, size, "| %s | %s | %.2f | %.2g |\n", row->name, row->bound, worst, sqrt(errors / sums));
  codec_world_destroy(&world);
  free(result);
  free(bounds);
}

static void the_page_has_the_errors_and_no_sum_is_beyond_its_bound(void **state)
{
  (void)state;
  static char page[1 << 17];
  char text[256];
  FILE *file = fopen(TT_CODECS_PAGE, "r");
  assert_non_null(file);
  page[fread(page, 1, sizeof page - 1, file)] = 0;
  fclose(file);
  for (int r = 0; r < ROWS; r++) {
    row_write(&rows[r], text, sizeof text);
    if (!strstr(page, text)) fail_msg("the page has no line %s(the whole table: test_unit_codec_errors --table)", text);
  }
}

/* Every codec of the table has a row. */
static void each_codec_has_a_row(void **state)
{
  (void)state;
  for (int c = 0; codecs[c]; c++) {
    size_t len = strcspn(codecs[c], ":");
    int r = 0;
    while (r < ROWS && (strcspn(rows[r].codec, ":") != len || strncmp(rows[r].codec, codecs[c], len) != 0)) r++;
    if (r == ROWS) fail_msg("%s has no row", codecs[c]);
  }
}

int main(int argc, char **argv)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_page_has_the_errors_and_no_sum_is_beyond_its_bound),
      cmocka_unit_test(each_codec_has_a_row),
  };
  values_draw();
  for (int r = 0; r < ROWS && argc == 2 && strcmp(argv[1], "--table") == 0; r++) {
    char text[256];
    row_write(&rows[r], text, sizeof text);
    fputs(text, stdout);
  }
  int failed = argc == 1 ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
  for (int rank = 0; rank < RANKS; rank++) free(values[rank]);
  return failed;
}
