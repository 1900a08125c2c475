/* SPDX-License-Identifier: BSD-3-Clause */
/* Codes, byte by byte, as written by hand: the format is a promise between ranks.
 * Labels: serial. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "codecs.h"

/* Bytes as hexadecimal digits with blanks between; "" is nothing. */
static size_t bytes_of(uint8_t *to, const char *text)
{
  size_t n = 0;
  for (const char *at = text; *at;) {
    if (*at == ' ') {
      at++;
      continue;
    }
    unsigned byte;
    assert_int_equal(sscanf(at, "%2x", &byte), 1);
    to[n++] = (uint8_t)byte;
    at += 2;
  }
  return n;
}

struct golden {
  const char *codec;
  enum tt_codec_stage stage;
  int nranks;
  uint32_t count;
  float values[80];
  const char *code;
  float sum[80];
  float plane[80]; /* the first one, which began with zeros */
  float shared;    /* facts */
};

static void judge(const struct golden *golden)
{
  struct tt_codec codec = codec_of(golden->codec);
  uint8_t wanted[512], code[512];
  size_t bytes = bytes_of(wanted, golden->code);
  struct tt_codec_piece piece = {.stage = golden->stage, .nranks = golden->nranks, .count = golden->count};
  piece.capacity = tt_codec_capacity(&codec, golden->count, 0);
  if (tt_codec_prepares(&codec)) tt_codec_prepare(&codec, golden->values, golden->count, &piece.facts);
  if (golden->shared > 0) piece.facts.shared = golden->shared;
  float *plane = floats(golden->count), *second = floats(golden->count), *sum = floats(golden->count);
  assert_int_equal(tt_codec_bytes(&codec, &piece), bytes);
  tt_codec_encode(&codec, &piece, golden->values, (float *[]){plane, second}, code);
  for (size_t i = 0; i < bytes; i++)
    if (code[i] != wanted[i])
      fail_msg("%s: byte %zu is %02x, not %02x", golden->codec, i, code[i], wanted[i]);
  assert_int_equal(tt_codec_decode_add(&codec, &piece, wanted, bytes, sum), tuttiSuccess);
  assert_memory_equal(sum, golden->sum, golden->count * sizeof *sum);
  if (tt_codec_planes(&codec, golden->stage)) assert_memory_equal(plane, golden->plane, golden->count * sizeof *plane);
  free(plane);
  free(second);
  free(sum);
}

static void fp16_and_bf16_are_the_bits_of_small_floats(void **state)
{
  static const struct golden golden[] = {
      {"fp16", 0, 2, 4, {1, -2, 65504, 0x1p-24f}, "003c 00c0 ff7b 0100", {1, -2, 65504, 0x1p-24f}, {0}, 0},
      {"bf16", 1, 2, 3, {1, -3, 0x1.01p0f}, "803f 40c0 803f", {1, -3, 1}, {0}, 0},
      {"fp16", 0, 1, 0, {0}, "", {0}, {0}, 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) judge(&golden[i]);
}

/* Two rows: of 18 elements, of which three are negative with the mean -2 and 15 have the mean 1, and of two. */
static void onebit_is_two_means_and_a_bit_for_each_element(void **state)
{
  static const struct golden golden = {
      .codec = "1bit:18",
      .stage = TT_CODEC_RESULT,
      .nranks = 2,
      .count = 20,
      .values = {-1, 3, -0.0f, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -2, 12, -3, 4, 8},
      .code = "000000c0 0000803f 0180 0200"
              "00000000 0000c040 0000",
      .sum = {-2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, -2, 1, -2, 6, 6},
      .plane = {1, 2, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 11, -1, -2, 2}};
  (void)state;
  judge(&golden);
}

/* Units 2 and, of a block below 2^-100, 0. */
static void int8_is_a_unit_and_a_byte_for_each_element(void **state)
{
  static const struct golden golden = {.codec = "int8:4",
                                       .nranks = 2,
                                       .count = 6,
                                       .values = {254, -7, 1, -254, 0x1p-101f, -0x1p-149f},
                                       .code = "00000040 7ffc0081"
                                               "00000000 0000",
                                       .sum = {254, -8, 0, -254, 0, 0}};
  (void)state;
  judge(&golden);
}

/* Unit 1: whole numbers are levels, which no random number changes. 2 rows of 4 words, the last one of 1 element. */
static void qsgd_is_a_unit_and_words_of_bits_of_levels(void **state)
{
  static const struct golden golden = {.codec = "qsgd:4",
                                       .nranks = 2,
                                       .count = 17,
                                       .values = {7, -1, 0, -0.0f, 2, -2, 4, -4, 0, 0, 0, 0, 0, 0, 0, -7, -6},
                                       .code = "0000803f 0380 3180 c180 a280"
                                               "0000 0100 0100 0100",
                                       .sum = {7, -1, 0, 0, 2, -2, 4, -4, 0, 0, 0, 0, 0, 0, 0, -7, -6}};
  (void)state;
  judge(&golden);
}

/* Probabilities of 0 and 1. A result of 3 ranks has 3 bits, and is the sum itself. */
static void terngrad_is_words_of_bits_of_levels(void **state)
{
  static const struct golden contribution = {.codec = "terngrad:0",
                                             .nranks = 3,
                                             .count = 18,
                                             .values = {2, -2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -2, 0, -2},
                                             .code = "0b80 0280 0200 0200",
                                             .sum = {2, -2, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -2, 0, -2}};
  static const struct golden result = {.codec = "terngrad",
                                       .stage = TT_CODEC_RESULT,
                                       .nranks = 3,
                                       .count = 5,
                                       .values = {1.5f, -0.5f, -1, 0, 1},
                                       .code = "0300 1500 0600",
                                       .sum = {1.5f, -0.5f, -1, 0, 1},
                                       .shared = 0.5f};
  (void)state;
  judge(&contribution);
  judge(&result);
}

/* What is beyond 1/2, as a number and a sign. Room for 4. */
static void threshold_is_marks_of_tau(void **state)
{
  static const struct golden golden = {.codec = "threshold:0.5",
                                       .nranks = 2,
                                       .count = 4,
                                       .values = {1, -0.5f, 0.25f, -2},
                                       .code = "02000000 02000000 0000003f 000000bf"
                                               "00000000 03000080 00000000 00000000",
                                       .sum = {0.5f, 0, 0, -0.5f},
                                       .plane = {0.5f, -0.5f, 0.25f, -1.5f}};
  (void)state;
  judge(&golden);
}

/* The two greatest: one place behind the beginning, one behind the place after that. */
static void drop_and_dgc_are_gaps_and_values(void **state)
{
  static const struct golden drop = {.codec = "drop:0.5",
                                     .nranks = 2,
                                     .count = 4,
                                     .values = {1, -3, 0.5f, 2},
                                     .code = "02000000 02000000 00000000 00000000"
                                             "0100 000040c0 0100 00000040",
                                     .sum = {0, -3, 0, 2},
                                     .plane = {1, 0, 0.5f, 0}};
  static const struct golden dgc = {.codec = "dgc:0.5,0.5",
                                    .nranks = 2,
                                    .count = 2,
                                    .values = {1, -4},
                                    .code = "01000000 01000000 00000000 00000000 0100 000080c0",
                                    .sum = {0, -4},
                                    .plane = {1, 0}};
  (void)state;
  judge(&drop);
  judge(&dgc);
}

/* The mean of 3 and 4, and -6. Room for 5. */
static void dryden_is_marks_of_two_means(void **state)
{
  static const struct golden golden = {.codec = "dryden:0.5",
                                       .nranks = 2,
                                       .count = 5,
                                       .values = {1, 3, 2, 4, -6},
                                       .code = "03000000 03000000 00006040 0000c0c0"
                                               "01000000 03000000 04000080 00000000 00000000",
                                       .sum = {0, 3.5f, 0, 3.5f, -6},
                                       .plane = {1, -0.5f, 2, 0.5f, 0}};
  (void)state;
  judge(&golden);
}

/* Two bins with greatest magnitudes of 2 and 0, so the scale is 1; of the first bin two elements are sent. */
static void adacomp_is_numbers_of_bins_and_places_with_signs(void **state)
{
  static const struct golden bytes = {.codec = "adacomp:4",
                                      .nranks = 2,
                                      .count = 6,
                                      .values = {1, -2, 0.5f, 0.25f, 0, 0},
                                      .code = "02000000 02000000 0000803f 00000000 02 00 40 c1 00 00 00 00",
                                      .sum = {1, -1, 0, 0, 0, 0},
                                      .plane = {0, -1, 0.5f, 0.25f, 0, 0}};
  static const struct golden words = {.codec = "adacomp:100",
                                      .nranks = 2,
                                      .count = 3,
                                      .values = {0, 0, -4},
                                      .code = "01000000 01000000 00008040 00000000 0100 02c0 0000 0000",
                                      .sum = {0, 0, -4},
                                      .plane = {0, 0, 0}};
  (void)state;
  judge(&bytes);
  judge(&words);
}

/* A block, or a sparse code, with infinities or NaN is decoded as NaN, and what it says beside that has one form. */
static void what_is_not_finite_has_one_form(void **state)
{
  static const struct golden golden[] = {
      {"int8:2", 0, 2, 3, {1, INFINITY, 127}, "0000c07f 0000 0000803f 7f", {NAN, NAN, 127}, {0}, 0},
      {"1bit:2", 0, 2, 3, {1, -NAN, 4}, "0000c07f 0000c07f 0000 00000000 00008040 0000", {NAN, NAN, 4}, {0}, 0},
      {"qsgd:2,2", 0, 2, 3, {0x1p127f, NAN, 4}, "0000c07f 0000 0000 00008040 0100 0000", {NAN, NAN, 4}, {0}, 0},
      {"terngrad:0", 0, 2, 3, {1, 2, -INFINITY}, "0000 0000", {NAN, NAN, NAN}, {0}, 0},
      {"threshold:1", 0, 2, 2, {5, NAN}, "01000000 01000000 0000c07f 0000c07f 01000000 00000000", {0, NAN}, {5, 0}, 0},
      {"drop:0.5", 0, 2, 2, {5, NAN}, "01000000 01000000 00000000 00000000 0100 0000c07f", {0, NAN}, {5, 0}, 0},
      {"dryden:1", 0, 2, 2, {5, NAN}, "01000000 01000000 0000c07f 0000c07f 01000000 00000000", {0, NAN}, {5, 0}, 0},
      {"adacomp:2", 0, 2, 2, {5, NAN}, "01000000 01000000 0000c07f 00000000 01 41 00", {0, NAN}, {5, 0}, 0},
      {"dgc:0.5,0", 0, 2, 2, {5, NAN}, "01000000 01000000 00000000 00000000 0100 0000c07f", {0, NAN}, {5, 0}, 0},
  };
  (void)state;
  for (size_t i = 0; i < sizeof golden / sizeof golden[0]; i++) judge(&golden[i]);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(fp16_and_bf16_are_the_bits_of_small_floats),
      cmocka_unit_test(onebit_is_two_means_and_a_bit_for_each_element),
      cmocka_unit_test(int8_is_a_unit_and_a_byte_for_each_element),
      cmocka_unit_test(qsgd_is_a_unit_and_words_of_bits_of_levels),
      cmocka_unit_test(terngrad_is_words_of_bits_of_levels),
      cmocka_unit_test(threshold_is_marks_of_tau),
      cmocka_unit_test(drop_and_dgc_are_gaps_and_values),
      cmocka_unit_test(dryden_is_marks_of_two_means),
      cmocka_unit_test(adacomp_is_numbers_of_bins_and_places_with_signs),
      cmocka_unit_test(what_is_not_finite_has_one_form),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
