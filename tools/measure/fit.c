/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines through measured times.
 *
 * Within a part: Theil and Sen's slope, the median of the slopes of all pairs of points; then the median of what is
 * left, weighted by 1 / time, so that equal relative errors count alike.
 *
 * Break points: of all ways to cut the points into K parts, so that times do not fall, the one of least sum of
 * 2 bad(|ln(line / time)| / s): twice the negative logarithm of a double exponential density with a flatter tail. s is
 * the noise: the median distance of points from the line through their two neighbours, so neither steps nor outliers
 * raise it. K is that of least sum + 4 K ln n (BIC: a part is two numbers and a place, which counts twice because it
 * is the best of about n). A part has so many points that one of them that is far off does not bend it. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "measure/fit_private.h"

#define POINTS 48      /* more are thinned out before they are fitted: the work grows with their fourth power */
#define SEGMENTS (POINTS * (POINTS + 1) / 2)
#define PAIRS (POINTS * (POINTS - 1) / 2)
#define PART_POINTS 4  /* fewest of a part */
#define FAR 4.0        /* here the tail begins */
#define NOISE_MIN 0.005 /* finer structure is not looked for */
#define SHORTEST_US 1e-6
#define DIGITS 5       /* that are kept of a result, for people to read */
#define MIB 1048576.0

struct line {
  double alpha, beta; /* us, us per byte */
};

struct weighted {
  double value, weight;
};

struct fit {
  int32_t n;
  double bytes[POINTS], us[POINTS], noise;
  struct weighted list[PAIRS];
  struct line line[SEGMENTS]; /* of points i .. j at segment_at(i, j) */
  double cost[SEGMENTS];
  double total[TT_CURVE_PARTS][SEGMENTS];  /* least cost of k + 1 parts of which the last is this one */
  int8_t before[TT_CURVE_PARTS][SEGMENTS]; /* where the part before that begins */
};

static int32_t segment_at(int32_t i, int32_t j)
{
  return j * (j + 1) / 2 + i;
}

static double line_us(const struct line *line, double bytes)
{
  return line->alpha + line->beta * bytes;
}

/* ---- one part ---- */

static int weighted_compare(const void *left, const void *right)
{
  const struct weighted *a = left, *b = right;
  return (a->value > b->value) - (a->value < b->value);
}

/* 0 if there is nothing. */
static double median_of(struct weighted *list, int32_t n)
{
  double sum = 0, below = 0;
  int32_t k = 0;
  for (int32_t i = 0; i < n; i++) sum += list[i].weight;
  qsort(list, (size_t)n, sizeof *list, weighted_compare);
  for (; k + 1 < n && below + list[k].weight < sum / 2; k++) below += list[k].weight;
  return n ? list[k].value : 0;
}

static double slope_of(struct fit *fit, int32_t first, int32_t last)
{
  int32_t n = 0;
  for (int32_t j = first + 1; j <= last; j++)
    for (int32_t i = first; i < j; i++) {
      double distance = fit->bytes[j] - fit->bytes[i];
      if (distance > 0) fit->list[n++] = (struct weighted){(fit->us[j] - fit->us[i]) / distance, 1};
    }
  return median_of(fit->list, n);
}

/* The best alpha for this slope. */
static double intercept_of(struct fit *fit, int32_t first, int32_t last, double slope)
{
  int32_t n = 0;
  for (int32_t i = first; i <= last; i++)
    fit->list[n++] = (struct weighted){fit->us[i] - slope * fit->bytes[i], 1 / fit->us[i]};
  return median_of(fit->list, n);
}

/* The best slope through 0. */
static double ratio_of(struct fit *fit, int32_t first, int32_t last)
{
  int32_t n = 0;
  for (int32_t i = first; i <= last; i++)
    if (fit->bytes[i] > 0)
      fit->list[n++] = (struct weighted){fit->us[i] / fit->bytes[i], fit->bytes[i] / fit->us[i]};
  return median_of(fit->list, n);
}

static double rounded(double value)
{
  if (!(value > 0)) return 0;
  double scale = pow(10, DIGITS - 1 - floor(log10(value)));
  return round(value * scale) / scale;
}

static struct line line_fit(struct fit *fit, int32_t first, int32_t last)
{
  struct line line = {0, slope_of(fit, first, last)};
  if (line.beta < 0) line.beta = 0;
  line.alpha = intercept_of(fit, first, last, line.beta);
  if (line.alpha < 0) line = (struct line){0, ratio_of(fit, first, last)};
  return (struct line){rounded(line.alpha), rounded(line.beta * MIB) / MIB};
}

/* ---- break points ---- */

static double badness(double distance)
{
  return distance < FAR ? distance : FAR * (1 + log(distance / FAR));
}

static double cost_of(const struct fit *fit, const struct line *line, int32_t first, int32_t last)
{
  double cost = 0;
  for (int32_t i = first; i <= last; i++)
    cost += 2 * badness(fabs(log(fmax(line_us(line, fit->bytes[i]), SHORTEST_US) / fit->us[i])) / fit->noise);
  return cost;
}

static double noise_find(struct fit *fit)
{
  int32_t n = 0;
  for (int32_t i = 1; i + 1 < fit->n; i++) {
    double width = fit->bytes[i + 1] - fit->bytes[i - 1];
    double part = width > 0 ? (fit->bytes[i] - fit->bytes[i - 1]) / width : 0.5;
    double between = fit->us[i - 1] + part * (fit->us[i + 1] - fit->us[i - 1]);
    fit->list[n++] = (struct weighted){fabs(log(between / fit->us[i])), 1};
  }
  return fmax(median_of(fit->list, n), NOISE_MIN);
}

/* Where a line ends and the one above it, which begins with point i, goes on: at the point below, or, if the time
 * would fall there, where the lines meet. 0: they do not meet between these points. */
static uint64_t border_of(const struct fit *fit, const struct line *below, const struct line *above, int32_t i)
{
  double low = fit->bytes[i - 1], high = fit->bytes[i], at = low;
  if (line_us(above, low) < line_us(below, low) && above->beta > below->beta)
    at = ceil((below->alpha - above->alpha) / (above->beta - below->beta));
  if (!(at >= low && at < high) || line_us(above, at) < line_us(below, at)) return 0;
  return (uint64_t)at;
}

/* The best k + 1 parts of which the last has points i .. j. */
static void part_append(struct fit *fit, int k, int32_t i, int32_t j)
{
  int32_t last = segment_at(i, j);
  fit->total[k][last] = INFINITY;
  for (int32_t h = 0; h + PART_POINTS <= i; h++) {
    int32_t before = segment_at(h, i - 1);
    double total = fit->total[k - 1][before] + fit->cost[last];
    if (total >= fit->total[k][last] || !border_of(fit, &fit->line[before], &fit->line[last], i)) continue;
    fit->total[k][last] = total;
    fit->before[k][last] = (int8_t)h;
  }
}

static void parts_try(struct fit *fit)
{
  for (int32_t j = 0; j < fit->n; j++)
    for (int32_t i = 0; i <= j; i++) {
      int32_t s = segment_at(i, j);
      fit->total[0][s] = INFINITY;
      for (int k = 1; k < TT_CURVE_PARTS; k++) fit->total[k][s] = INFINITY;
      if (j - i + 1 < PART_POINTS && (i > 0 || j + 1 < fit->n)) continue;
      fit->line[s] = line_fit(fit, i, j);
      fit->cost[s] = cost_of(fit, &fit->line[s], i, j);
      if (i == 0) fit->total[0][s] = fit->cost[s];
      for (int k = 1; k < TT_CURVE_PARTS; k++) part_append(fit, k, i, j);
    }
}

/* First points of the parts of the best cut; returns how many parts. */
static int parts_choose(const struct fit *fit, int32_t *first)
{
  double least = INFINITY;
  int parts = 1;
  int32_t begin = 0, end = fit->n - 1;
  for (int k = 0; k < TT_CURVE_PARTS; k++)
    for (int32_t i = 0; i <= end; i++) {
      double value = fit->total[k][segment_at(i, end)] + 4 * k * log(fit->n);
      if (value >= least) continue;
      least = value;
      parts = k + 1;
      begin = i;
    }
  for (int k = parts - 1; k >= 0; k--) {
    int32_t before = k ? fit->before[k][segment_at(begin, end)] : 0;
    first[k] = begin;
    end = begin - 1;
    begin = before;
  }
  return parts;
}

/* ---- results ---- */

static int doubles_compare(const void *left, const void *right)
{
  const double *a = left, *b = right;
  return (*a > *b) - (*a < *b);
}

/* The distance that nine in ten of the points do not exceed, those spread evenly if there are many. */
static double error_of(const struct tt_profile_link *link, const struct tt_profile_point *points, int32_t n)
{
  double errors[1024];
  int32_t stride = n / 1024 + 1, kept = 0;
  for (int32_t i = 0; i < n; i += stride) {
    double us = link->alpha_us + (double)points[i].bytes / MIB * link->beta_us_per_mib;
    errors[kept++] = 100 * fabs(us / fmax(points[i].us, SHORTEST_US) - 1);
  }
  qsort(errors, (size_t)kept, sizeof errors[0], doubles_compare);
  return kept ? ceil(100 * errors[(9 * kept + 9) / 10 - 1]) / 100 : 0;
}

static void points_take(struct fit *fit, const struct tt_profile_point *points, int32_t n)
{
  fit->n = n < POINTS ? n : POINTS;
  for (int32_t i = 0; i < fit->n; i++) {
    int64_t at = fit->n > 1 ? (int64_t)i * (n - 1) / (fit->n - 1) : 0;
    fit->bytes[i] = (double)points[at].bytes;
    fit->us[i] = fmax(points[at].us, SHORTEST_US);
  }
  fit->noise = noise_find(fit);
}

void tt_fit(struct tt_profile_link *links, int32_t *nlinks, const struct tt_profile_point *points, int32_t n)
{
  struct fit fit;
  int32_t first[TT_CURVE_PARTS], used = 0;
  points_take(&fit, points, n);
  parts_try(&fit);
  int parts = parts_choose(&fit, first);
  for (int k = 0; k < parts; k++) {
    int is_last = k == parts - 1;
    const struct line *line = &fit.line[segment_at(first[k], is_last ? fit.n - 1 : first[k + 1] - 1)];
    struct tt_profile_link *link = &links[k];
    *link = (struct tt_profile_link){.flow = points[0].flow, .from = k ? links[k - 1].to : 0, .to = UINT64_MAX,
                                     .alpha_us = line->alpha, .beta_us_per_mib = rounded(line->beta * MIB)};
    if (!is_last) {
      int32_t end = k + 2 < parts ? first[k + 2] - 1 : fit.n - 1;
      link->to = border_of(&fit, line, &fit.line[segment_at(first[k + 1], end)], first[k + 1]);
    }
    int32_t begin = used;
    while (used < n && points[used].bytes <= link->to) used++;
    link->points = used - begin;
    link->error_percent = error_of(link, points + begin, link->points);
  }
  *nlinks = parts;
}
