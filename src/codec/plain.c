/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels in plain C: the reference table, against which the others are tested. */
#include "codec/kernels_private.h"

static void sides(struct tt_sides *sides, const float *error, const float *values, size_t n)
{
  float negative[LANES] = {0}, positive[LANES] = {0};
  uint32_t peak = 0, nnegative = 0;
  for (size_t i = 0; i < n; i++) {
    float value = error[i] + values[i];
    int is_negative = value < 0;
    *(is_negative ? &negative[i % LANES] : &positive[i % LANES]) += value;
    nnegative += (uint32_t)is_negative;
    if (magnitude_of(value) > peak) peak = magnitude_of(value);
  }
  *sides = (struct tt_sides){lanes_sum(negative), lanes_sum(positive), nnegative, peak};
}

static void signs_put(uint8_t *to, float *error, const float *values, size_t n, const float means[2])
{
  for (size_t i = 0; i < n; i += LANES, to += 2) {
    uint16_t word = 0;
    for (size_t l = i; l < n && l < i + LANES; l++) {
      float value = error[l] + values[l];
      int is_negative = value < 0;
      word |= (uint16_t)(is_negative << (l - i));
      error[l] = value - means[is_negative];
    }
    memcpy(to, &word, sizeof word);
  }
}

static void signs_add(float *sum, const uint8_t *from, size_t n, const float means[2])
{
  for (size_t i = 0; i < n; i += LANES, from += 2) {
    uint16_t word;
    memcpy(&word, from, sizeof word);
    for (size_t l = i; l < n && l < i + LANES; l++) sum[l] += means[word >> (l - i) & 1];
  }
}

static uint32_t peak(const float *values, size_t n)
{
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++)
    if (magnitude_of(values[i]) > most) most = magnitude_of(values[i]);
  return most;
}

static uint32_t sums_peak(const float *error, const float *values, size_t n)
{
  uint32_t most = 0;
  for (size_t i = 0; i < n; i++) {
    uint32_t magnitude = magnitude_of(error[i] + values[i]);
    if (magnitude > most) most = magnitude;
  }
  return most;
}

static void sums_look(struct tt_outlook *outlook, const float *error, const float *values, size_t n)
{
  *outlook = (struct tt_outlook){0, 0, 0};
  for (size_t i = 0; i < n; i++) {
    float value = error[i] + values[i];
    outlook->npositive += value > 0;
    outlook->nnegative += value < 0;
    if (magnitude_of(value) > outlook->peak) outlook->peak = magnitude_of(value);
  }
}

static void above_put(uint8_t *to, const float *values, size_t n, uint32_t bound)
{
  for (size_t i = 0; i < n; i += LANES, to += 2) {
    uint16_t word = 0;
    for (size_t l = i; l < n && l < i + LANES; l++)
      word |= (uint16_t)((uint32_t)(magnitude_of(values[l]) >= bound) << (l - i));
    memcpy(to, &word, sizeof word);
  }
}

/* The level of a value; chance: from [0, 1). */
static uint32_t level_of(const struct tt_levels *levels, float value, float chance)
{
  float magnitude = float_of(magnitude_of(value));
  float steps = (magnitude < levels->limit ? magnitude : levels->limit) * levels->inverse;
  int32_t whole = (int32_t)steps;
  whole += chance < steps - (float)whole;
  return (uint32_t)(whole < levels->most ? whole : levels->most);
}

/* The random words of LANES * STREAM_ROWS elements of a stream. */
static void words_draw(uint32_t word[STREAM_ROWS][LANES], const struct tt_levels *levels, uint32_t element)
{
  const struct tt_codec_random *random = &levels->random;
  for (uint32_t lane = 0; lane < LANES; lane++) {
    uint32_t drawn[4] = {element / STREAM_ROWS + lane, random->counter[0], random->counter[1], random->counter[2]};
    philox(drawn, random->key[0], random->key[1]);
    for (int row = 0; row < STREAM_ROWS; row++) word[row][lane] = drawn[row];
  }
}

static void levels_put(uint8_t *to, const float *values, size_t n, const struct tt_levels *levels)
{
  uint32_t random[STREAM_ROWS][LANES];
  for (size_t i = 0; i < n; i += LANES, to += 2 * levels->bits) {
    uint16_t words[16] = {0};
    size_t row = i / LANES % STREAM_ROWS;
    if (levels->is_random && row == 0) words_draw(random, levels, levels->start + (uint32_t)i);
    for (size_t l = i; l < n && l < i + LANES; l++) {
      float chance = levels->is_random ? (float)(random[row][l - i] >> 8) * 0x1p-24f : 0.5f;
      uint32_t level = level_of(levels, values[l], chance);
      if (level) level |= (uint32_t)(values[l] < 0) << (levels->bits - 1);
      for (int b = 0; b < levels->bits; b++) words[b] |= (uint16_t)((level >> b & 1) << (l - i));
    }
    memcpy(to, words, 2 * (size_t)levels->bits);
  }
}

static int levels_add(float *sum, const uint8_t *from, size_t n, const struct tt_levels *levels, float unit)
{
  const uint32_t sign = 1u << (levels->bits - 1);
  int is_good = 1;
  for (size_t i = 0; i < n; i += LANES, from += 2 * levels->bits) {
    uint16_t words[16];
    memcpy(words, from, 2 * (size_t)levels->bits);
    for (size_t l = i; l < n && l < i + LANES; l++) {
      uint32_t level = 0;
      for (int b = 0; b < levels->bits; b++) level |= (uint32_t)(words[b] >> (l - i) & 1) << b;
      int32_t whole = (int32_t)(level & ~sign);
      if (whole > levels->most || level == sign) is_good = 0;
      sum[l] += (float)(level & sign ? -whole : whole) * unit;
    }
  }
  return is_good;
}

/* Adding a number whose last place is 1 rounds to a whole number, to nearest even. */
static int8_t byte_of(float steps)
{
  const float middle = 0x1.8p23f;
  float whole = steps + middle;
  whole -= middle;
  return (int8_t)(whole > 127 ? 127 : whole < -127 ? -127 : whole);
}

static void bytes_put(uint8_t *to, const float *values, size_t n, float inverse)
{
  for (size_t i = 0; i < n; i++) to[i] = (uint8_t)byte_of(values[i] * inverse);
}

static int bytes_add(float *sum, const uint8_t *from, size_t n, float unit)
{
  int is_good = 1;
  for (size_t i = 0; i < n; i++) {
    int8_t whole = (int8_t)from[i];
    if (whole == -128) is_good = 0;
    sum[i] += (float)whole * unit;
  }
  return is_good;
}

const struct tt_codec_kernels tt_codec_plain = TT_CODEC_KERNELS("plain");
