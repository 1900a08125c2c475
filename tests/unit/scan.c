/* SPDX-License-Identifier: BSD-3-Clause */
/* The scanner of texts: words, quotes, marks, comments, lines and values, and one form of error.
 * Labels: serial. */
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "base/scan.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

static FILE *in;

static void begin(struct tt_scan *scan, const char *text, const char *marks)
{
  in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  tt_scan_begin(scan, in, "here.txt", marks);
}

static tuttiResult_t end(struct tt_scan *scan)
{
  tuttiResult_t result = tt_scan_end(scan);
  fclose(in);
  return result;
}

static void is_next(struct tt_scan *scan, enum tt_token what, const char *token, int line)
{
  assert_true(scan->what == what && scan->line == line);
  assert_string_equal(scan->token, token);
  tt_scan_next(scan);
}

static void words_lines_quotes_and_comments_are_told_apart(void **state)
{
  struct tt_scan scan;
  (void)state;
  begin(&scan, "\ta#b c\r\n\"b # c\"#d\n\n# e\nf,g , h", ",");
  is_next(&scan, TT_WORD, "a", 1);
  is_next(&scan, TT_END_OF_LINE, "", 1);
  is_next(&scan, TT_QUOTED, "b # c", 2);
  is_next(&scan, TT_END_OF_LINE, "", 2);
  assert_int_equal(tt_scan_line(&scan), 1);
  is_next(&scan, TT_WORD, "f", 5);
  is_next(&scan, TT_WORD, ",", 5);
  is_next(&scan, TT_WORD, "g", 5);
  is_next(&scan, TT_WORD, ",", 5);
  is_next(&scan, TT_WORD, "h", 5);
  is_next(&scan, TT_END_OF_TEXT, "", 5);
  assert_false(tt_scan_line(&scan) || tt_scan_has_word(&scan));
  assert_int_equal(end(&scan), tuttiSuccess);
}

static void only_the_word_itself_is_taken(void **state)
{
  struct tt_scan scan;
  (void)state;
  begin(&scan, "one \"two\" f,g", "");
  assert_false(tt_scan_took(&scan, "on") || tt_scan_took(&scan, "one "));
  assert_true(tt_scan_took(&scan, "one"));
  assert_false(tt_scan_took(&scan, "two") || tt_scan_is(&scan, "two")); /* a text in quotes is no key */
  tt_scan_next(&scan);
  tt_scan_expect(&scan, "f,g", "f,g");
  tt_scan_line_end(&scan);
  assert_int_equal(end(&scan), tuttiSuccess);
}

static void values_are_read_in_any_locale(void **state)
{
  struct tt_scan scan;
  (void)state;
  setlocale(LC_ALL, "de_DE.UTF-8"); /* where there is one */
  begin(&scan, "0 18 1.5e-3 1.5M 7", "");
  assert_int_equal(tt_scan_whole(&scan, "a number", 0, 17), 0);
  assert_int_equal(tt_scan_whole(&scan, "a number", 0, 18), 18);
  assert_true(tt_scan_number(&scan, "a number", 0, 1) == 1.5e-3);
  assert_int_equal(tt_scan_bytes(&scan, "bytes", 0, 1 << 30), 3 << 19);
  assert_int_equal(tt_scan_whole(&scan, "a number", 7, 7), 7);
  assert_int_equal(end(&scan), tuttiSuccess);
  setlocale(LC_ALL, "C");
}

static void digits_are_counted_up_to_a_limit(void **state)
{
  static const struct {
    const char *text;
    uint64_t most, value;
    size_t len;
  } cases[] = {{"12a", 99, 12, 2},       {"", 9, 0, 0}, {"-1", 9, 0, 0}, {" 1", 9, 0, 0}, {"007", 9, 7, 3},
               {"100", 99, 100, 3}};
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    const char *text = cases[c].text;
    assert_int_equal(tt_digits(&text, cases[c].most), cases[c].value);
    assert_int_equal(text - cases[c].text, cases[c].len);
  }
  const char *text = "99999999999999999999999999999999";
  assert_true(tt_digits(&text, (uint64_t)1 << 60) > (uint64_t)1 << 60);
  assert_int_equal(*text, 0);
}

enum reads { WORD_A, LINE_END, WHOLE, NUMBER, BYTES };

static void errors_have_one_form_and_the_first_is_kept(void **state)
{
  static const struct {
    enum reads reads;
    const char *text, *said;
  } cases[] = {
      {WORD_A, "b", "here.txt, line 1: wanted an a, not 'b'"},
      {WORD_A, "\n\n\"a\"", "here.txt, line 3: wanted an a, not 'a'"},
      {WORD_A, "\n", "here.txt, line 2: wanted an a, not 'the end of the text'"},
      {LINE_END, " b", "here.txt, line 1: wanted the end of the line, not 'b'"},
      {WHOLE, "3x", "here.txt, line 1: wanted a count from 1 to 9, not '3x'"},
      {WHOLE, "0", "not '0'"}, {WHOLE, "10", "not '10'"}, {WHOLE, "+1", "not '+1'"},
      {WHOLE, "18446744073709551617", "not '18446744073709551617'"},
      {NUMBER, "-0", "here.txt, line 1: wanted a price from 0 to 1e+12, not '-0'"},
      {NUMBER, "nan", "not 'nan'"}, {NUMBER, "0x1", "not '0x1'"}, {NUMBER, "1e13", "not '1e13'"},
      {NUMBER, "1,5", "not '1,5'"}, {NUMBER, "\n", "not 'the end of the line'"},
      {BYTES, "1KB", "here.txt, line 1: wanted a size, not '1KB'"}, {BYTES, "2G", "not '2G'"},
      {WORD_A, "\"a", "wanted a double quote at the end of a text, not 'a'"},
      {WORD_A, "\"a\"b", "wanted a blank behind the quote that ends a text, not 'a'"},
      {WORD_A, "a\"b", "wanted a word without quotes, or a text that is all within them, not 'a'"},
      {WORD_A, "a\x01" "b\x7f", "wanted text without control characters, not 'a?b?'"},
  };
  (void)state;
  for (size_t c = 0; c < sizeof cases / sizeof cases[0]; c++) {
    struct tt_scan scan;
    begin(&scan, cases[c].text, "");
    if (cases[c].reads == WORD_A) tt_scan_line(&scan);
    if (cases[c].reads == WORD_A) tt_scan_expect(&scan, "a", "an a");
    if (cases[c].reads == LINE_END) tt_scan_line_end(&scan);
    if (cases[c].reads == WHOLE) assert_int_equal(tt_scan_whole(&scan, "a count", 1, 9), 1);
    if (cases[c].reads == NUMBER) assert_true(tt_scan_number(&scan, "a price", 0, 1e12) == 0);
    if (cases[c].reads == BYTES) assert_int_equal(tt_scan_bytes(&scan, "a size", 2, 1 << 30), 2);
    tt_scan_fail(&scan, 9, "what comes later");
    assert_false(tt_scan_took(&scan, scan.token) || tt_scan_has_word(&scan) || tt_scan_line(&scan));
    assert_int_equal(end(&scan), tuttiInvalidArgument);
    if (!strstr(tt_last_sentence(), cases[c].said)) fail_msg("%s: %s", cases[c].text, tt_last_sentence());
  }
}

static void a_word_has_126_characters_at_most(void **state)
{
  char text[300];
  struct tt_scan scan;
  (void)state;
  for (int is_quoted = 0; is_quoted < 2; is_quoted++)
    for (int len = 126; len < 200; len += len < 128 ? 1 : 60) {
      snprintf(text, sizeof text, "%s%0*d%s x", is_quoted ? "\"" : "", len, 0, is_quoted ? "\"" : "");
      begin(&scan, text, "");
      assert_int_equal(scan.failed != tuttiSuccess, len > 126);
      if (len > 126) assert_non_null(strstr(tt_last_sentence(), "wanted a word of at most 126 characters, not '000"));
      end(&scan);
    }
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1); /* most errors here are wanted */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(words_lines_quotes_and_comments_are_told_apart),
      cmocka_unit_test(only_the_word_itself_is_taken),
      cmocka_unit_test(values_are_read_in_any_locale),
      cmocka_unit_test(digits_are_counted_up_to_a_limit),
      cmocka_unit_test(errors_have_one_form_and_the_first_is_kept),
      cmocka_unit_test(a_word_has_126_characters_at_most),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
