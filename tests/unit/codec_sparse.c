/* SPDX-License-Identifier: BSD-3-Clause */
/* Sparse codecs send exactly the elements that their equations say: against a sort, by hand, and against momentum.
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
#include "codecs.h"

#define MOST 1000

/* One rank that encodes. */
struct one {
  struct codec_world world;
  uint64_t count;
  float values[MOST], before[MOST], sent[MOST]; /* before: plane 0 + values */
  int overflows;
};

static void one_open(struct one *one, const char *text, uint64_t count)
{
  memset(one, 0, sizeof *one);
  one->count = count;
  codec_world_create(&one->world, text, 1, count);
}

static void one_close(struct one *one)
{
  codec_world_destroy(&one->world);
}

static void one_step(struct one *one)
{
  float *result = floats(one->count);
  const float *values = one->values;
  float *sent = one->sent;
  for (uint64_t i = 0; i < one->count; i++) one->before[i] = one->world.planes[0][i] + one->values[i];
  codec_world_reduce(&one->world, &values, result, &sent);
  one->overflows = one->world.overflows;
  free(result);
}

/* Few different magnitudes, so that many are equal. */
static void ties_draw(float *to, uint64_t count, uint64_t *state)
{
  for (uint64_t i = 0; i < count; i++) to[i] = (float)((int)below(state, 15) - 7) * 0.25f;
}

/* Values of all magnitudes; every 64th, of which a sample is made, is tiny (is_less) or the only one that is large. */
static void misleading_draw(float *to, uint64_t count, uint64_t *state, int is_less)
{
  for (uint64_t i = 0; i < count; i++) {
    int is_large = (i % 64 == 0) != is_less;
    to[i] = ldexpf((float)((int)below(state, 2001) - 1000), is_large ? (int)below(state, 40) : -40);
  }
}

/* 1 if element i is among the `wanted` greatest of a side (0: both), of equal ones the first: counted, not sorted. */
static int is_top(const float *values, uint64_t count, int side, uint64_t wanted, uint64_t i)
{
  uint64_t greater = 0;
  for (uint64_t k = 0; k < count; k++) {
    if (side && (float)side * values[k] <= 0) continue;
    greater += fabsf(values[k]) > fabsf(values[i]) || (fabsf(values[k]) == fabsf(values[i]) && k < i);
  }
  return (!side || (float)side * values[i] > 0) && greater < wanted;
}

/* misleads: -1, or is_less of misleading_draw. */
static void draw(float *to, uint64_t count, uint64_t *state, int misleads)
{
  if (misleads < 0) ties_draw(to, count, state);
  else misleading_draw(to, count, state, misleads);
}

static void drop_judge_of(const char *text, uint64_t count, uint64_t wanted, int misleads)
{
  struct one one;
  uint64_t state = count;
  one_open(&one, text, count);
  assert_int_equal(tt_codec_capacity(&one.world.codec, count, 0), wanted);
  for (int step = 0; step < 3; step++) {
    draw(one.values, count, &state, misleads);
    one_step(&one);
    for (uint64_t i = 0; i < count; i++) {
      int is_sent = is_top(one.before, count, 0, wanted, i);
      assert_true(one.sent[i] == (is_sent ? one.before[i] : 0));
      assert_true(one.world.planes[0][i] == (is_sent ? 0 : one.before[i]));
    }
  }
  one_close(&one);
}

static void drop_judge(const char *text, uint64_t count, uint64_t wanted)
{
  drop_judge_of(text, count, wanted, -1);
}

static void drop_sends_exactly_the_greatest(void **state)
{
  (void)state;
  drop_judge("drop:0.99", 1, 1);
  drop_judge("drop:0.99", 99, 1);
  drop_judge("drop:0.99", 100, 1);
  drop_judge("drop:0.99", 101, 2);
  drop_judge("drop:0.99", 1000, 10);
  drop_judge("drop:0.9", 333, 34);
  drop_judge("drop:0.93", 100, 7);
  drop_judge("drop:0.5", 64, 32);
  drop_judge("drop:0", 50, 50);
  for (int is_less = 0; is_less < 2; is_less++) drop_judge_of("drop:0.99", 1000, 10, is_less);
  drop_judge_of("drop:0.969", 1000, 31, 0); /* more than those that the sample saw */
}

static void dryden_judge_of(double share, const char *text, uint64_t count, int misleads)
{
  struct one one;
  uint64_t state = count, nsent[2] = {0, 0}, nside[2] = {0, 0};
  double sum[2] = {0, 0};
  one_open(&one, text, count);
  draw(one.values, count, &state, misleads);
  one_step(&one);
  for (uint64_t i = 0; i < count; i++)
    if (one.before[i] != 0) nside[one.before[i] < 0]++;
  for (uint64_t i = 0; i < count; i++)
    for (int side = 0; side < 2; side++) {
      uint64_t wanted = (uint64_t)ceil(share * (double)nside[side] - 1e-6);
      if (!is_top(one.before, count, side ? -1 : 1, wanted, i)) continue;
      nsent[side]++;
      sum[side] += (double)one.before[i];
    }
  for (uint64_t i = 0; i < count; i++) {
    int side = one.before[i] < 0;
    uint64_t wanted = (uint64_t)ceil(share * (double)nside[side] - 1e-6);
    float mean = nsent[side] ? (float)(sum[side] / (double)nsent[side]) : 0;
    int is_sent = is_top(one.before, count, side ? -1 : 1, wanted, i);
    assert_true(one.sent[i] == (is_sent ? mean : 0));
    assert_true(one.world.planes[0][i] == one.before[i] - one.sent[i]);
  }
  one_close(&one);
}

static void dryden_judge(double share, const char *text, uint64_t count)
{
  dryden_judge_of(share, text, count, -1);
}

/* A side without elements sends nothing. */
static void dryden_judge_one_side(void)
{
  struct one one;
  one_open(&one, "dryden:0.5", 5);
  const float values[5] = {-1, 0, -3, -0.0f, -2};
  memcpy(one.values, values, sizeof values);
  one_step(&one);
  for (int i = 0; i < 5; i++) assert_true(one.sent[i] == (i == 2 || i == 4 ? -2.5f : 0));
  one_close(&one);
}

static void dryden_sends_a_share_of_each_side_as_its_mean(void **state)
{
  (void)state;
  dryden_judge(0.01, "dryden:0.01", 1000);
  dryden_judge(0.1, "dryden:0.1", 57);
  dryden_judge(0.5, "dryden:0.5", 200);
  dryden_judge(1, "dryden:1", 100);
  dryden_judge(0.01, "dryden:0.01", 1);
  dryden_judge_one_side();
  for (int is_less = 0; is_less < 2; is_less++) dryden_judge_of(0.01, "dryden:0.01", 1000, is_less);
}

/* What is 5 times TAU takes five steps; what is TAU is not sent. */
static void threshold_sends_tau_step_by_step(void **state)
{
  struct one one;
  (void)state;
  one_open(&one, "threshold:0.5", 4);
  const float first[4] = {2.75f, -0.5f, 0.5f, -1.25f};
  memcpy(one.values, first, sizeof first);
  for (int step = 0; step < 7; step++) {
    one_step(&one);
    assert_true(one.sent[0] == (step < 5 ? 0.5f : 0));
    assert_true(one.sent[1] == 0 && one.sent[2] == 0);
    assert_true(one.sent[3] == (step < 2 ? -0.5f : 0));
    memset(one.values, 0, sizeof one.values);
  }
  assert_true(one.world.planes[0][0] == 0.25f && one.world.planes[0][3] == -0.25f);
  one_close(&one);
}

/* 100 want to be sent; the first step has room for 64 of 1,000 elements, the next one for all that was wanted. */
static void what_has_no_room_is_sent_later(void **state)
{
  static const char *const texts[] = {"threshold:0.5", "adacomp:10"};
  (void)state;
  for (int t = 0; t < 2; t++) {
    struct one one;
    int nsent[2] = {0, 0};
    one_open(&one, texts[t], MOST);
    for (int i = 0; i < MOST; i++) one.values[i] = i % 10 ? 0 : 1;
    for (int step = 0; step < 2; step++) {
      one_step(&one);
      if (!step) assert_int_equal(one.world.wanted, 100);
      for (int i = 0; i < MOST; i++) nsent[step] += one.sent[i] != 0;
      for (int i = 0; i < MOST; i++) assert_true(one.world.planes[0][i] == one.before[i] - one.sent[i]);
      memset(one.values, 0, sizeof one.values);
    }
    assert_int_equal(nsent[0], 64);
    assert_int_equal(nsent[1], 36);
    one_close(&one);
  }
}

static void room_grows_with_what_was_wanted(void **state)
{
  struct tt_codec codec = codec_of("threshold:1");
  (void)state;
  assert_int_equal(tt_codec_capacity(&codec, 0, 0), 0);
  assert_int_equal(tt_codec_capacity(&codec, 10, 0), 10);
  assert_int_equal(tt_codec_capacity(&codec, 6400, 0), 128);
  assert_int_equal(tt_codec_capacity(&codec, 100000, 1000), 1280);
  assert_int_equal(tt_codec_capacity(&codec, 100000, ~0u), 100000);
  assert_int_equal(tt_codec_capacity(&codec, TT_CODEC_MOST_ELEMENTS, ~0u), TT_CODEC_MOST_ELEMENTS);
}

static void adacomp_sends_what_its_equations_say(void **state)
{
  static const char *const texts[] = {"adacomp:50", "adacomp:64", "adacomp:65", "adacomp:300"};
  static const uint64_t bins[] = {50, 64, 65, 300};
  (void)state;
  for (int t = 0; t < 4; t++) {
    struct one one;
    uint64_t chance = 1;
    one_open(&one, texts[t], 700);
    for (int step = 0; step < 3; step++) {
      one.world.wanted = 700; /* there is room for all */
      ties_draw(one.values, 700, &chance);
      one_step(&one);
      double scale = 0;
      float peak[14] = {0};
      for (uint64_t i = 0; i < 700; i++) peak[i / bins[t]] = fmaxf(peak[i / bins[t]], fabsf(one.before[i]));
      for (uint64_t b = 0; b * bins[t] < 700; b++) scale += (double)peak[b] / (double)((699 + bins[t]) / bins[t]);
      for (uint64_t i = 0; i < 700; i++) {
        int is_sent = one.before[i] != 0 && fabsf(one.before[i] + one.values[i]) >= peak[i / bins[t]];
        double wanted = is_sent ? copysign(scale, (double)one.before[i]) : 0;
        assert_true(fabs((double)one.sent[i] - wanted) < 1e-6);
        assert_true(one.world.planes[0][i] == one.before[i] - one.sent[i]);
      }
    }
    one_close(&one);
  }
}

/* The second value takes back what was left of the first one: G is 0 where the newest value is the greatest. */
static void adacomp_sends_no_zeros(void **state)
{
  struct one one;
  (void)state;
  one_open(&one, "adacomp:3", 3);
  memcpy(one.values, (const float[3]){4, 1, 0.25f}, 12);
  one_step(&one);
  assert_true(one.sent[0] == 4 && one.sent[1] == 0 && one.sent[2] == 0);
  memcpy(one.values, (const float[3]){0, -1, 0}, 12);
  one_step(&one);
  assert_true(one.sent[0] == 0 && one.sent[1] == 0 && one.sent[2] == 0.25f);
  assert_int_equal(one.world.wanted, 1);
  one_close(&one);
}

/* ---- dgc ---- */

static void dgc_that_leaves_nothing_out_is_momentum(void **state)
{
  struct one one;
  float velocity[MOST] = {0};
  uint64_t chance = 3;
  (void)state;
  one_open(&one, "dgc:0,0.9", MOST);
  for (int step = 0; step < 10; step++) {
    floats_draw(one.values, MOST, &chance);
    one_step(&one);
    for (int i = 0; i < MOST; i++) {
      velocity[i] = 0.9f * velocity[i] + one.values[i];
      assert_true(one.sent[i] == velocity[i]);
    }
  }
  one_close(&one);
}

static void dgc_without_momentum_is_drop(void **state)
{
  struct one dgc, drop;
  uint64_t chance = 3;
  (void)state;
  one_open(&dgc, "dgc:0.9,0", MOST);
  one_open(&drop, "drop:0.9", MOST);
  for (int step = 0; step < 10; step++) {
    floats_draw(dgc.values, MOST, &chance);
    memcpy(drop.values, dgc.values, sizeof drop.values);
    one_step(&dgc);
    one_step(&drop);
    assert_memory_equal(dgc.sent, drop.sent, sizeof drop.sent);
  }
  one_close(&dgc);
  one_close(&drop);
}

static void dgc_masks_both_planes_exactly_where_it_sends(void **state)
{
  struct one one;
  float v[MOST] = {0}, u[MOST] = {0};
  uint64_t chance = 3;
  (void)state;
  one_open(&one, "dgc:0.9,0.5", MOST);
  for (int step = 0; step < 5; step++) {
    floats_draw(one.values, MOST, &chance);
    one_step(&one);
    for (int i = 0; i < MOST; i++) v[i] += u[i] = 0.5f * u[i] + one.values[i];
    float all[MOST];
    memcpy(all, v, sizeof all);
    for (uint64_t i = 0; i < MOST; i++) {
      if (is_top(all, MOST, 0, 100, i)) v[i] = u[i] = 0;
      assert_true(one.sent[i] == all[i] - v[i]);
      assert_true(one.world.planes[0][i] == v[i] && one.world.planes[1][i] == u[i]);
    }
  }
  one_close(&one);
}

/* 4 ranks, CLIP 2: each clips to a norm of 1. (3, 4) has 5, (0.3, 0.4) has less. */
static void dgc_clips_by_the_ranks_share_of_the_norm(void **state)
{
  struct tt_codec codec = codec_of("dgc:0,0,2");
  float v[2] = {0}, u[2] = {0}, sum[2] = {0}, *planes[] = {v, u};
  struct tt_codec_piece piece = {.nranks = 4, .count = 2, .capacity = 2};
  (void)state;
  codec_round(&codec, &piece, (const float[2]){3, 4}, planes, sum);
  assert_true(fabsf(sum[0] - 0.6f) < 1e-6f && fabsf(sum[1] - 0.8f) < 1e-6f);
  memset(sum, 0, sizeof sum);
  codec_round(&codec, &piece, (const float[2]){0.3f, 0.4f}, planes, sum);
  assert_true(sum[0] == 0.3f && sum[1] == 0.4f);
}

/* Elements on both sides of the longest gap that one entry can say. */
static void long_gaps_are_skipped(void **state)
{
  static const uint64_t places[][4] = {{0, 65534, 65535, 65536}, {65534, 65535, 131070, 131071},
                                       {65535, 131071, 196607, 300000}, {300000, 300001, 300002, 300003}};
  const uint64_t count = 300004;
  struct tt_codec codec = codec_of("drop:0.99999");
  struct tt_codec_piece piece = {.nranks = 1, .count = count, .capacity = 4};
  (void)state;
  for (int p = 0; p < 4; p++) {
    float *values = floats(count), *error = floats(count), *sum = floats(count);
    for (int i = 0; i < 4; i++) values[places[p][i]] = (float)i + 1;
    codec_round(&codec, &piece, values, (float *[]){error, NULL}, sum);
    assert_memory_equal(sum, values, count * sizeof *sum);
    free(values);
    free(error);
    free(sum);
  }
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(drop_sends_exactly_the_greatest),
      cmocka_unit_test(dryden_sends_a_share_of_each_side_as_its_mean),
      cmocka_unit_test(threshold_sends_tau_step_by_step),
      cmocka_unit_test(what_has_no_room_is_sent_later),
      cmocka_unit_test(room_grows_with_what_was_wanted),
      cmocka_unit_test(adacomp_sends_what_its_equations_say),
      cmocka_unit_test(adacomp_sends_no_zeros),
      cmocka_unit_test(dgc_that_leaves_nothing_out_is_momentum),
      cmocka_unit_test(dgc_without_momentum_is_drop),
      cmocka_unit_test(dgc_masks_both_planes_exactly_where_it_sends),
      cmocka_unit_test(dgc_clips_by_the_ranks_share_of_the_norm),
      cmocka_unit_test(long_gaps_are_skipped),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
