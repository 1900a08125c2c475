/* SPDX-License-Identifier: BSD-3-Clause */
/* Random rounding: numbers as published, no bias, and no more variance than the papers say.
 * Labels: serial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "chance.h"
#include "codec/random_private.h"
#include "codecs.h"
#include "slow.h"

#define COUNT 100
#define DRAWS (IS_SLOW ? 4000 : 40000)

/* The known answers of the authors' Random123. */
static void philox_is_the_published_one(void **state)
{
  static const uint32_t known[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u},
      {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu},
      {0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u, 0xa4093822u, 0x299f31d0u, 0xd16cfe09u, 0x94fdccebu,
       0x5001e420u, 0x24126ea1u}};
  (void)state;
  for (int i = 0; i < 3; i++) {
    uint32_t word[4];
    memcpy(word, known[i], sizeof word);
    philox(word, known[i][4], known[i][5]);
    assert_memory_equal(word, known[i] + 6, sizeof word);
  }
}

struct moments {
  double mean[COUNT], square[COUNT]; /* of the error */
};

/* Errors of DRAWS steps of one rank's code. */
static void moments_take(struct moments *moments, const char *text, const float *values)
{
  struct codec_world world;
  codec_world_create(&world, text, 2, COUNT);
  memset(moments, 0, sizeof *moments);
  for (int draw = 0; draw < DRAWS; draw++) {
    float sum[COUNT] = {0}, *planes[TT_CODEC_PLANES] = {NULL};
    world.step = (uint32_t)draw;
    struct tt_codec_piece piece = codec_piece(&world, 1, 0, COUNT);
    if (tt_codec_prepares(&world.codec)) tt_codec_prepare(&world.codec, values, COUNT, &piece.facts);
    codec_round(&world.codec, &piece, values, planes, sum);
    for (int i = 0; i < COUNT; i++) {
      double error = (double)sum[i] - (double)values[i];
      moments->mean[i] += error / DRAWS;
      moments->square[i] += error * error / DRAWS;
    }
  }
  codec_world_destroy(&world);
}

static double norm_of(const float *values)
{
  double sum = 0;
  for (int i = 0; i < COUNT; i++) sum += (double)values[i] * (double)values[i];
  return sqrt(sum);
}

/* A mean is at most 5 standard errors off, and 3 events of 1 level, at each element; the variance of a bucket of COUNT
 * is within both bounds of QSGD. */
static void unbiased_judge(const char *text, double nlevels)
{
  float values[COUNT];
  struct moments moments;
  uint64_t state = 5;
  floats_draw(values, COUNT, &state);
  moments_take(&moments, text, values);
  double total = 0, peak = 0, norm = norm_of(values), bound = fmin(COUNT / (nlevels * nlevels), sqrt(COUNT) / nlevels);
  for (int i = 0; i < COUNT; i++) peak = fmax(peak, fabs((double)values[i]));
  for (int i = 0; i < COUNT; i++) {
    double steps = fabs((double)values[i]) * nlevels / peak, chance = steps - floor(steps);
    double limit = peak / nlevels * (5 * sqrt(chance * (1 - chance) / DRAWS) + 3.0 / DRAWS);
    total += moments.square[i];
    if (fabs(moments.mean[i]) > limit)
      fail_msg("%s: element %d is %g off, allowed are %g", text, i, moments.mean[i], limit);
  }
  if (total > bound * norm * norm) fail_msg("%s: variance %g, bound %g", text, total, bound * norm * norm);
}

static void qsgd_has_no_bias_and_a_bounded_variance(void **state)
{
  (void)state;
  unbiased_judge("qsgd:2,100", 1);
  unbiased_judge("qsgd:3,100", 3);
  unbiased_judge("qsgd:4,100", 7);
  unbiased_judge("qsgd:8,100", 127);
}

static void terngrad_has_no_bias_without_clipping(void **state)
{
  (void)state;
  unbiased_judge("terngrad:0", 1);
}

/* One element is far out: it is clipped to 2.5 deviations, the others have no bias. */
static void terngrad_has_no_bias_for_the_clipped_gradient(void **state)
{
  float values[COUNT];
  struct moments moments;
  uint64_t seed = 6;
  (void)state;
  floats_draw(values, COUNT, &seed);
  values[17] = 100;
  double clip = 2.5 * norm_of(values) / sqrt(COUNT);
  moments_take(&moments, "terngrad", values);
  for (int i = 0; i < COUNT; i++) {
    double wanted = i == 17 ? clip - 100 : 0;
    assert_true(fabs(moments.mean[i] - wanted) <= 5 * clip / sqrt(DRAWS) + 1e-6);
  }
}

/* The result is the sum of what the ranks have sent, which are whole multiples of one number, in every bit. */
static void terngrad_adds_exactly(void **state)
{
  static const int nranks[] = {1, 2, 3, 4, 7, 8, 31, 64, 100, 130};
  (void)state;
  for (size_t n = 0; n < sizeof nranks / sizeof nranks[0]; n++) {
    struct codec_world world;
    float *values[130], *sent[130], *result = floats(COUNT);
    uint64_t seed = n;
    codec_world_create(&world, "terngrad:0", nranks[n], COUNT);
    for (int rank = 0; rank < nranks[n]; rank++) {
      values[rank] = floats(COUNT);
      sent[rank] = floats(COUNT);
      floats_draw_hard(values[rank], COUNT, &seed);
      values[rank][3] = 1e9f; /* of all ranks, so that the sum is as large as it can be */
    }
    codec_world_reduce(&world, (const float *const *)values, result, sent);
    for (int i = 0; i < COUNT; i++) {
      double sum = 0;
      for (int rank = 0; rank < nranks[n]; rank++) sum += (double)sent[rank][i];
      assert_true((double)result[i] == sum);
    }
    for (int rank = 0; rank < nranks[n]; rank++) {
      free(values[rank]);
      free(sent[rank]);
    }
    free(result);
    codec_world_destroy(&world);
  }
}

/* The same values at other ranks, steps, tensors, places, stages and seeds are rounded differently. */
static void all_that_tells_elements_apart_changes_the_numbers(void **state)
{
  struct tt_codec codec = codec_of("qsgd:4,64");
  const struct tt_codec_piece base = {.nranks = 4, .rank = 1, .tensor = 1, .step = 1, .seed = 1, .count = 64};
  struct tt_codec_piece pieces[9] = {base, base, base, base, base, base, base, base, base};
  float values[64], sums[9][64] = {{0}}, *planes[TT_CODEC_PLANES] = {NULL};
  uint64_t seed = 1;
  (void)state;
  floats_draw(values, 64, &seed);
  pieces[1].rank = 2;
  pieces[2].tensor = 2;
  pieces[3].step = 2;
  pieces[4].seed = 2;
  pieces[5].seed = (uint64_t)1 << 40 | 1;
  pieces[6].first = 64;
  pieces[7].stage = TT_CODEC_RESULT;
  pieces[8] = pieces[7];
  pieces[8].rank = 3;
  for (int i = 0; i < 9; i++) codec_round(&codec, &pieces[i], values, planes, sums[i]);
  for (int i = 0; i < 8; i++)
    for (int k = 0; k < i; k++) assert_true(memcmp(sums[i], sums[k], sizeof sums[i]));
  assert_memory_equal(sums[7], sums[8], sizeof sums[8]); /* whoever the owner is */
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(philox_is_the_published_one),
      cmocka_unit_test(qsgd_has_no_bias_and_a_bounded_variance),
      cmocka_unit_test(terngrad_has_no_bias_without_clipping),
      cmocka_unit_test(terngrad_has_no_bias_for_the_clipped_gradient),
      cmocka_unit_test(terngrad_adds_exactly),
      cmocka_unit_test(all_that_tells_elements_apart_changes_the_numbers),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
