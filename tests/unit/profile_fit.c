/* SPDX-License-Identifier: BSD-3-Clause */
/* Lines through points that are known to lie on lines: with noise, outliers, and too few of them.
 * Labels: serial, planner. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "measure/fit_private.h"
#include "profiles/profiles.h"

#define MOST 400

struct data {
  int32_t n, nlinks;
  struct tt_profile_point points[MOST];
  struct tt_profile_link links[TT_CURVE_PARTS];
};

struct truth {
  uint64_t up_to;
  double alpha_us, beta_us_per_mib;
};

static const struct truth one[] = {{UINT64_MAX, 0.4, 90}};
static const struct truth two[] = {{8 << 10, 0.3, 80}, {UINT64_MAX, 2, 100}};
static const struct truth three[] = {{4 << 10, 0.25, 60}, {512 << 10, 1.5, 40}, {UINT64_MAX, 12, 90}};
static const struct truth four[] = {{1 << 10, 0.2, 100}, {32 << 10, 0.6, 50}, {1 << 20, 4, 70}, {UINT64_MAX, 30, 120}};
static const struct truth flatter[] = {{1 << 20, 0.4, 100}, {UINT64_MAX, 50.4, 50}}; /* without a step */
static const struct truth steeper[] = {{1 << 20, 0.4, 50}, {UINT64_MAX, 0.4 - 50, 100}}; /* alpha would be negative */

static uint64_t seed;

/* From -1 to 1. */
static double chance(void)
{
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (double)(int64_t)seed / 0x1p63;
}

static double truth_us(const struct truth *truth, uint64_t bytes)
{
  while (bytes > truth->up_to) truth++;
  return truth->alpha_us + (double)bytes / 1048576 * truth->beta_us_per_mib;
}

static void point_add(struct data *d, uint64_t bytes, double us)
{
  d->points[d->n++] = (struct tt_profile_point){.flow = {TT_LINK_NUMA, "shm", 2, 1, ""}, .bytes = bytes, .us = us,
                                                .low_us = us, .high_us = us};
}

/* Sizes from 8 bytes to 64 MiB by half octaves; times within `noise` of the truth. */
static void points_make(struct data *d, const struct truth *truth, double noise)
{
  memset(d, 0, sizeof *d);
  seed = 12345;
  for (uint64_t bytes = 8; bytes <= 64 << 20; bytes += (bytes & (bytes - 1)) ? bytes / 3 : bytes / 2)
    point_add(d, bytes, truth_us(truth, bytes) * (1 + noise * chance()));
}

static void fit(struct data *d)
{
  d->nlinks = -1;
  tt_fit(d->links, &d->nlinks, d->points, d->n);
}

static double line_us(const struct tt_profile_link *link, uint64_t bytes)
{
  return link->alpha_us + (double)bytes / 1048576 * link->beta_us_per_mib;
}

/* The error that is printed is exceeded by at most a tenth of the points, and by a tenth if it is lowered. */
static void error_check(const struct data *d, const struct tt_profile_link *link)
{
  int above = 0, reached = 0, n = 0;
  for (int32_t i = 0; i < d->n; i++) {
    const struct tt_profile_point *p = &d->points[i];
    if (p->bytes > link->to || (p->bytes <= link->from && link->from)) continue;
    double error = 100 * fabs(line_us(link, p->bytes) / p->us - 1);
    n++;
    above += error > link->error_percent + 1e-9;
    reached += error >= link->error_percent - 0.010001;
  }
  assert_int_equal(link->points, n);
  assert_true(10 * above <= n);
  assert_true(link->error_percent == 0 || reached > 0);
  assert_true(10 * reached >= n || link->error_percent == 0);
}

/* What holds of any fit, also when it is written and read. */
static void links_check(const struct data *d)
{
  struct tt_profile p = {0}, q;
  char *text = NULL;
  size_t size;
  FILE *file = open_memstream(&text, &size);
  assert_true(d->nlinks >= 1 && d->nlinks <= TT_CURVE_PARTS);
  for (int32_t k = 0; k < d->nlinks; k++) {
    const struct tt_profile_link *link = &d->links[k];
    assert_true(tt_flow_same(&link->flow, &d->points[0].flow));
    assert_int_equal(link->from, k ? link[-1].to : 0);
    assert_true(link->alpha_us >= 0 && link->beta_us_per_mib >= 0);
    assert_true(link->overhead_us == 0 && link->line == 0);
    if (k) assert_true(line_us(link, link->from) >= line_us(link - 1, link->from) * (1 - 1e-9));
    error_check(d, link);
    assert_int_equal(tt_profile_add_link(&p, link), tuttiSuccess);
  }
  assert_int_equal(tt_profile_print(&p, file), tuttiSuccess);
  fclose(file);
  file = fmemopen(text, size, "r");
  if (tt_profile_parse(&q, file, "fitted") != tuttiSuccess) fail_msg("%s\n%s", tt_last_sentence(), text);
  for (int32_t k = 0; k < d->nlinks; k++) {
    assert_true(q.links[k].alpha_us == d->links[k].alpha_us);
    assert_true(q.links[k].beta_us_per_mib == d->links[k].beta_us_per_mib);
  }
  fclose(file);
  free(text);
  tt_profile_destroy(&p);
  tt_profile_destroy(&q);
}

/* As many lines, within `within` of the truth at every size of which the point is not off itself. */
static void finds(const struct data *d, const struct truth *truth, double within)
{
  int32_t n = 1;
  while (truth[n - 1].up_to != UINT64_MAX) n++;
  links_check(d);
  if (d->nlinks != n) fail_msg("%d lines for %d", (int)d->nlinks, (int)n);
  for (int32_t i = 0; i < d->n; i++) {
    const struct tt_profile_point *p = &d->points[i];
    int32_t k = 0;
    while (p->bytes > d->links[k].to) k++;
    double us = truth_us(truth, p->bytes), ratio = line_us(&d->links[k], p->bytes) / us;
    if (fabs(ratio - 1) > within && fabs(p->us / us - 1) <= within)
      fail_msg("%llu bytes: %g of the truth", (unsigned long long)p->bytes, ratio);
  }
}

static void lines_without_noise_are_found(void **state)
{
  (void)state;
  const struct truth *const all[] = {one, two, three, four, flatter};
  struct data d;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++) {
    points_make(&d, all[t], 0);
    fit(&d);
    finds(&d, all[t], 1e-4);
  }
  points_make(&d, three, 0);
  fit(&d);
  assert_int_equal(d.links[0].to, 4 << 10);
  assert_int_equal(d.links[1].to, 512 << 10);
  assert_true(fabs(d.links[1].alpha_us - 1.5) < 1e-3 && fabs(d.links[1].beta_us_per_mib - 40) < 1e-2);
  assert_true(d.links[0].error_percent <= 0.01);
}

static void a_curve_that_no_lines_make_is_followed(void **state)
{
  (void)state;
  struct data d;
  points_make(&d, steeper, 0.01);
  fit(&d);
  links_check(&d);
  for (int32_t i = 0, k = 0; i < d.n; i++) {
    while (d.points[i].bytes > d.links[k].to) k++;
    double ratio = line_us(&d.links[k], d.points[i].bytes) / d.points[i].us;
    if (fabs(ratio - 1) > 0.25) fail_msg("%llu bytes: %g", (unsigned long long)d.points[i].bytes, ratio);
  }
}

static void noise_makes_no_more_lines_and_no_fewer(void **state)
{
  (void)state;
  const struct truth *const all[] = {one, two, three};
  struct data d;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
    for (double noise = 0.01; noise < 0.06; noise += 0.02) {
      points_make(&d, all[t], noise);
      fit(&d);
      finds(&d, all[t], 2 * noise);
    }
}

static void outliers_do_not_matter(void **state)
{
  (void)state;
  const struct truth *const all[] = {one, two, three};
  static const double factors[] = {3, 30, 0.5, 1000};
  struct data d;
  for (size_t t = 0; t < sizeof all / sizeof all[0]; t++)
    for (int32_t shift = 0; shift < 5; shift++) {
      points_make(&d, all[t], 0.02);
      for (int32_t i = shift, k = 0; i < d.n; i += 11, k++) {
        double factor = factors[(k + shift) % 4];
        d.points[i].us *= factor;
        d.points[i].low_us = d.points[i].high_us = d.points[i].us;
      }
      fit(&d);
      finds(&d, all[t], 0.05);
    }
}

static void small_steps_are_not_looked_for(void **state)
{
  (void)state;
  struct data d;
  points_make(&d, one, 0);
  for (int32_t i = 20; i < d.n; i++) d.points[i].us *= 1.004;
  fit(&d);
  finds(&d, one, 0.005);
}

static void a_point_is_a_constant(void **state)
{
  (void)state;
  struct data d = {0};
  point_add(&d, 4096, 3);
  fit(&d);
  links_check(&d);
  assert_int_equal(d.nlinks, 1);
  assert_true(d.links[0].alpha_us == 3 && d.links[0].beta_us_per_mib == 0 && d.links[0].error_percent == 0);
  assert_int_equal(d.links[0].points, 1);
  assert_true(d.links[0].to == UINT64_MAX);
}

static void two_points_are_a_line(void **state)
{
  (void)state;
  struct data d = {0};
  point_add(&d, 0, 1);
  point_add(&d, 1 << 20, 101);
  fit(&d);
  links_check(&d);
  assert_int_equal(d.nlinks, 1);
  assert_true(d.links[0].alpha_us == 1 && d.links[0].beta_us_per_mib == 100);
}

static void a_line_below_zero_starts_at_zero(void **state)
{
  (void)state;
  struct data d = {0};
  point_add(&d, 1 << 20, 10);
  point_add(&d, 2 << 20, 100);
  point_add(&d, 4 << 20, 280);
  fit(&d);
  links_check(&d);
  assert_true(d.links[0].alpha_us == 0 && d.links[0].beta_us_per_mib == 10);
}

static void times_that_fall_are_one_constant(void **state)
{
  (void)state;
  struct data d = {0};
  for (int i = 0; i < 20; i++) point_add(&d, (uint64_t)8 << i, 40 - i);
  fit(&d);
  links_check(&d);
  assert_int_equal(d.nlinks, 1);
  assert_true(d.links[0].beta_us_per_mib == 0);
  assert_true(d.links[0].alpha_us >= 28 && d.links[0].alpha_us <= 33);
}

static void equal_times_are_one_constant(void **state)
{
  (void)state;
  struct data d = {0};
  for (int i = 0; i < 20; i++) point_add(&d, (uint64_t)8 << i, 7.25);
  fit(&d);
  links_check(&d);
  assert_int_equal(d.nlinks, 1);
  assert_true(d.links[0].alpha_us == 7.25 && d.links[0].beta_us_per_mib == 0 && d.links[0].error_percent == 0);
}

static void anything_makes_a_legal_curve(void **state)
{
  (void)state;
  struct data d;
  seed = 7;
  for (int round = 0; round < 200; round++) {
    memset(&d, 0, sizeof d);
    uint64_t bytes = 0;
    int n = 1 + round % 60;
    for (int i = 0; i < n; i++) {
      point_add(&d, bytes, pow(10, 3 * chance()) + (round % 3 ? 1e-3 * (double)bytes : 0));
      bytes += chance() > 0.8 ? 0 : 1 + bytes / 2;
    }
    fit(&d);
    links_check(&d);
  }
}

static void many_points_are_thinned_out(void **state)
{
  (void)state;
  struct data d = {0};
  seed = 3;
  for (int i = 0; i < MOST; i++) {
    uint64_t bytes = (uint64_t)(8 * pow(1.04, i));
    point_add(&d, bytes, truth_us(two, bytes) * (1 + 0.02 * chance()));
  }
  fit(&d);
  links_check(&d);
  assert_int_equal(d.nlinks, 2);
  assert_true(d.links[0].to > 5 << 10 && d.links[0].to < 12 << 10);
  assert_int_equal(d.links[0].points + d.links[1].points, MOST);
}

int main(void)
{
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_without_noise_are_found),
      cmocka_unit_test(a_curve_that_no_lines_make_is_followed),
      cmocka_unit_test(noise_makes_no_more_lines_and_no_fewer),
      cmocka_unit_test(outliers_do_not_matter),
      cmocka_unit_test(small_steps_are_not_looked_for),
      cmocka_unit_test(a_point_is_a_constant),
      cmocka_unit_test(two_points_are_a_line),
      cmocka_unit_test(a_line_below_zero_starts_at_zero),
      cmocka_unit_test(times_that_fall_are_one_constant),
      cmocka_unit_test(equal_times_are_one_constant),
      cmocka_unit_test(anything_makes_a_legal_curve),
      cmocka_unit_test(many_points_are_thinned_out),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
