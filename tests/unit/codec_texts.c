/* SPDX-License-Identifier: BSD-3-Clause */
/* Codecs as texts, and what is told where they are wrong.
 * Labels: serial. */
#include <stdlib.h>
#include <string.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#include "codecs.h"

static void every_row_is_tested(void **state)
{
  (void)state;
  for (int i = 0; tt_codec_row(i); i++) {
    const char *name = tt_codec_name(tt_codec_row(i));
    int is_there = 0;
    for (int c = 0; codecs[c]; c++) is_there |= codec_of(codecs[c]).row == tt_codec_row(i);
    if (!is_there) fail_msg("codecs[] of codecs.c has no %s", name);
  }
}

static void a_text_is_read_as_what_was_written(void **state)
{
  (void)state;
  for (int c = 0; codecs[c]; c++) {
    struct tt_codec codec = codec_of(codecs[c]);
    char text[TT_CODEC_TEXT_BYTES];
    struct tt_codec again = codec_of(tt_codec_text(&codec, text));
    assert_ptr_equal(again.row, codec.row);
    assert_memory_equal(again.number, codec.number, sizeof again.number);
    assert_true(strlen(text) < TT_CODEC_TEXT_BYTES - 1);
  }
}

static void a_wrong_text_is_refused_by_a_sentence(void **state)
{
  static const struct {
    const char *text, *said;
  } wrong[] = {
      {"", "there is no codec \"\": give one such as fp16"},
      {"zip:3", "there is no codec \"zip:3\""},
      {"fp1", "there is no codec"},
      {"fp16:2", "codec fp16: \":2\" is too much: give fp16"},
      {"1bit:", "codec 1bit: ROW is \"\": give a whole number from 1 to 16777216, as in 1bit:128"},
      {"1bit:0", "codec 1bit: ROW is \"0\""},
      {"1bit:1.5", "codec 1bit: ROW is \"1.5\""},
      {"1bit:-3", "codec 1bit: ROW is \"-3\""},
      {"1bit:nan", "codec 1bit: ROW is \"nan\""},
      {"1bit:0x10", "codec 1bit: ROW is \"0x10\""},
      {"1bit: 7", "codec 1bit: ROW is \" 7\""},
      {"1bit:7,", "codec 1bit: \",\" is too much"},
      {"1bit:7,8", "codec 1bit: \",8\" is too much"},
      {"threshold", "codec threshold: TAU is \"\": give a number from 1e-30 to 1e+30, as in threshold:0.5"},
      {"drop:1", "codec drop: LEFTOUT is \"1\""},
      {"drop", "codec drop: LEFTOUT is \"\""},
      {"dryden:0", "codec dryden: SENT is \"0\""},
      {"qsgd", "codec qsgd: BITS is \"\": give a whole number from 2 to 8, as in qsgd:4,512"},
      {"qsgd:9", "codec qsgd: BITS is \"9\""},
      {"qsgd:4,0", "codec qsgd: BUCKET is \"0\""},
      {"dgc:0.9,1", "codec dgc: MOMENTUM is \"1\""},
      {"dgc:0.9,0.5,inf", "codec dgc: CLIP is \"inf\""},
      {"adacomp:16385", "codec adacomp: BIN is \"16385\""},
      {"int8:0", "codec int8: BLOCK is \"0\""},
      {"terngrad:-1", "codec terngrad: CLIP is \"-1\""},
      {"1bit:1e300", "codec 1bit: ROW is \"1e300\""},
  };
  (void)state;
  for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
    struct tt_codec codec = codec_of("bf16"), before = codec;
    assert_int_equal(tt_codec_parse(&codec, wrong[i].text), tuttiInvalidArgument);
    if (!strstr(tt_last_sentence(), wrong[i].said)) fail_msg("%s: %s", wrong[i].text, tt_last_sentence());
    assert_memory_equal(&codec, &before, sizeof codec);
  }
}

static void what_a_codec_cannot_code_is_refused(void **state)
{
  struct tt_codec codec = codec_of("1bit");
  (void)state;
  assert_int_equal(tt_codec_check(&codec, TT_CODEC_MOST_ELEMENTS, TT_CODEC_MOST_RANKS), tuttiSuccess);
  assert_int_equal(tt_codec_check(&codec, (uint64_t)TT_CODEC_MOST_ELEMENTS + 1, 2), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), "codec 1bit: a tensor has 2147483648 elements"));
  assert_int_equal(tt_codec_check(&codec, 1, TT_CODEC_MOST_RANKS + 1), tuttiInvalidArgument);
  assert_int_equal(tt_codec_check(&codec, 1, 0), tuttiInvalidArgument);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_is_tested),
      cmocka_unit_test(a_text_is_read_as_what_was_written),
      cmocka_unit_test(a_wrong_text_is_refused_by_a_sentence),
      cmocka_unit_test(what_a_codec_cannot_code_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
