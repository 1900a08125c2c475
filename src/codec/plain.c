/* SPDX-License-Identifier: BSD-3-Clause */
/* Kernels in plain C: the reference table, against which the others are tested. */
#include "codec/kernels_private.h"

static float lanes_sum(float lane[LANES])
{
  for (int half = LANES / 2; half; half /= 2)
    for (int l = 0; l < half; l++) lane[l] += lane[l + half];
  return lane[0];
}

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

const struct tt_codec_kernels tt_codec_plain = {
    .name = "plain", .sides = sides, .signs_put = signs_put, .signs_add = signs_add};
