/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "sched/sched.h"
#include "schedule/text_private.h"

static tuttiResult_t parse(struct tt_schedule *s, const char *text)
{
  FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  assert_non_null(in);
  tuttiResult_t code = tt_schedule_parse(s, in);
  fclose(in);
  return code;
}

static void prints_as(const struct tt_schedule *s, const char *wanted)
{
  char *text = NULL;
  size_t size = 0;
  FILE *out = open_memstream(&text, &size);
  assert_non_null(out);
  assert_int_equal(tt_schedule_print(s, out), tuttiSuccess);
  fclose(out);
  assert_string_equal(text, wanted);
  free(text);
}

/* Every kind of step, source and target once. */
static const char everything[] =
  "schedule reduce ranks 40 rank 3 blocks 8 root 3 radix 4 scratch 13 steps 10\n"
  "  0  send    [1,2)  in:1 -> rank 2\n"
  "  1  send    [0,8)  scratch:4 -> rank 2, rank 0, rank 39\n"
  "  2  send    [0,1)  out:0 -> scratch:1, rank 1\n"
  "  3  recv    [3,4)  msg:0 -> out:3\n"
  "  4  recv    [3,4)  msg:0 -> scratch:12  channel 255\n"
  "  5  copy    [0,8)  in:0 -> out:0\n"
  "  6  pass    [2,4)  msg:5 -> out:2, rank 6, rank 7  channel 1\n"
  "  7  reduce  [0,1)  msg:0 + in:0 -> out:0\n"
  "  8  reduce  [0,1)  msg:0 + in:0 + msg:39 + scratch:0 -> out:0, rank 5  channel 2\n"
  "  9  copy    [6,11)  in:6 -> out:6\n";

static void what_was_parsed_prints_the_same(void **state)
{
  (void)state;
  struct tt_schedule s = {.error = tuttiSuccess};
  assert_int_equal(parse(&s, everything), tuttiSuccess);
  prints_as(&s, everything);
  assert_int_equal(s.shape.root, 3);
  assert_int_equal(s.shape.radix, 4);
  assert_int_equal(s.nslots, 13);
  assert_int_equal(s.steps[8].channel, 2);
  assert_int_equal(s.shape.collective, TT_REDUCE);
  tt_schedule_destroy(&s);
}

static void blanks_and_empty_lines_are_free(void **state)
{
  (void)state;
  struct tt_schedule s = {.error = tuttiSuccess};
  static const char loose[] = "schedule all_reduce ranks 2 rank 0 blocks 1\tscratch 0 steps 2\r\n\n"
                              " 0 send [0,1) in:0 -> rank 1\n\n  1 recv [0,1) msg:1 ->   out:0";
  assert_int_equal(parse(&s, loose), tuttiSuccess);
  prints_as(&s, "schedule all_reduce ranks 2 rank 0 blocks 1 scratch 0 steps 2\n"
                "  0  send    [0,1)  in:0 -> rank 1\n"
                "  1  recv    [0,1)  msg:1 -> out:0\n");
  tt_schedule_destroy(&s);
}

#define HEAD "schedule all_reduce ranks 4 rank 1 blocks 4 scratch 0 steps 1\n"

static const char *const wrong[][2] = {
  {"", "line 1: wanted 'schedule', not 'the end of the text'"},
  {"plan", "line 1: wanted 'schedule', not 'plan'"},
  {"schedule ranks", "line 1: wanted a collective"},
  {"schedule pairs ranks 2", "line 1: wanted a collective"},
  {"schedule all_reduce ranks x", "line 1: wanted a number from 0 to 2147483647, not 'x'"},
  {"schedule all_reduce ranks 4 rank 4 blocks 1 scratch 0 steps 0\n", "line 1: wanted ranks > rank"},
  {"schedule all_reduce ranks 4 rank 1 blocks 99999999999 scratch 0 steps 0\n", "to 2147483647, not '99999999999'"},
  {"schedule all_reduce ranks 4 rank 1 blocks 4 scratch 0 steps 1 more\n", "wanted the end of the line, not 'more'"},
  {HEAD, "wanted as many steps as the header says"},
  {HEAD "1 copy [0,4) in:0 -> out:0\n", "line 2: wanted the steps numbered"},
  {HEAD "0 copy [0,4 in:0 -> out:0\n", "line 2: wanted blocks as [FIRST,END), not '4'"},
  {HEAD "0 copy [4,4) in:0 -> out:0\n", "line 2: wanted blocks as [FIRST,END), not '[4,4)'"},
  {HEAD "0 copy 0,4 in:0 -> out:0\n", "line 2: wanted blocks as"},
  {HEAD "0 copy [0,5) in:0 -> out:0\n", "line 2: blocks [0,5) are not among the 4"},
  {HEAD "0 copy [2,7) in:2 -> out:2\n", "line 2: blocks [2,7) are not among the 4"},
  {HEAD "0 copy [1,2) in:2 -> out:1\n", "line 2: a source is block 2, where the step is about block 1"},
  {"schedule broadcast ranks 2 rank 0 blocks 1 scratch 0 steps 0\n", "root"},
  {HEAD "0 copy [0,4) ink:0 -> out:0\n", "line 2: wanted in:N, out:N, scratch:N or msg:N, not 'ink:0'"},
  {HEAD "0 copy [0,4) in: -> out:0\n", "line 2: wanted a number behind the place, not 'in:'"},
  {HEAD "0 copy [0,4) in:0 out:0\n", "line 2: wanted '->', not 'out:0'"},
  {HEAD "0 copy [0,4) in:0 -> \n", "line 2: wanted out:N, scratch:N or 'rank N', not 'the end of the line'"},
  {HEAD "0 copy [0,4) in:0 -> in:0\n", "line 2: the destination is neither OUT nor SCRATCH"},
  {HEAD "0 copy [0,4) in:0 -> out:0, out:0\n", "line 2: wanted one place at most"},
  {HEAD "0 send [0,4) in:0 -> out:0\n", "line 2: the step's first word is 'send', which does not fit the rest"},
  {HEAD "0 send [0,4) in:0 -> rank 1\n", "line 2: a message to or from itself"},
  {HEAD "0 send [0,4) in:0 -> rank 9\n", "line 2: rank 9 is none of the 4 ranks"},
  {HEAD "0 send [0,4) in:0 -> rank 2  channel 256\n", "line 2: wanted a channel from 1 to 255"},
  {HEAD "0 copy [0,4) raw in:0 -> out:0\n", "line 2: wanted in:N, out:N, scratch:N or msg:N, not 'raw'"},
  {HEAD "0 reduce [0,4) in:0 + msg:0 -> out:0  final\n", "line 2: wanted the end of the line, not 'final'"},
  {HEAD "\n0 copy [0,4) in:0 -> out:0 really\n", "line 3: wanted the end of the line, not 'really'"},
  {HEAD "0 copy [0,4) in:0 -> scratch:0\n", "wanted as much scratch as the header says"},
  {HEAD "0 0123456789012345678901234567890123456789012345678901234567890123456789 [0,4) in:0 -> out:0\n",
   "line 2: the step's first word is '0123456789012345678901234567890123456789012345678901234567890123456789'"},
};

static void a_wrong_line_is_named_and_the_schedule_stays_as_it_was(void **state)
{
  (void)state;
  struct tt_schedule s = {.error = tuttiSuccess};
  assert_int_equal(parse(&s, everything), tuttiSuccess);
  for (size_t k = 0; k < sizeof wrong / sizeof wrong[0]; k++) {
    assert_int_equal(parse(&s, wrong[k][0]), tuttiInvalidArgument);
    if (!strstr(tt_last_sentence(), wrong[k][1]))
      fail_msg("wanted \"%s\" in \"%s\"", wrong[k][1], tt_last_sentence());
  }
  prints_as(&s, everything);
  tt_schedule_destroy(&s);
}

/* Cuts and changes of a right text never crash, and what is accepted prints back. */
static void damaged_text_is_refused_or_read(void **state)
{
  (void)state;
  static const char letters[] = "0189,:[)->+ \nrimos-x";
  char text[sizeof everything];
  uint64_t seed = 7;
  for (int k = 0; k < 5000; k++) {
    struct tt_schedule s = {.error = tuttiSuccess};
    memcpy(text, everything, sizeof text);
    for (int changes = 0; changes < 2; changes++) {
      seed = seed * 6364136223846793005u + 1442695040888963407u;
      text[(seed >> 33) % (sizeof text - 1)] = letters[(seed >> 20) % (sizeof letters - 1)];
    }
    if (k % 3 == 0) text[1 + (seed >> 40) % (sizeof text - 2)] = 0;
    tuttiResult_t code = parse(&s, text);
    assert_true(code == tuttiSuccess || code == tuttiInvalidArgument);
    tt_schedule_destroy(&s);
  }
}

static void a_failed_write_is_an_error(void **state)
{
  (void)state;
  struct tt_schedule s = {.error = tuttiSuccess};
  char small[16];
  assert_int_equal(parse(&s, everything), tuttiSuccess);
  FILE *out = fmemopen(small, sizeof small, "w");
  assert_non_null(out);
  setvbuf(out, NULL, _IONBF, 0);
  assert_int_equal(tt_schedule_print(&s, out), tuttiSystemError);
  fclose(out);
  tt_schedule_destroy(&s);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
    cmocka_unit_test(what_was_parsed_prints_the_same),
    cmocka_unit_test(blanks_and_empty_lines_are_free),
    cmocka_unit_test(a_wrong_line_is_named_and_the_schedule_stays_as_it_was),
    cmocka_unit_test(damaged_text_is_refused_or_read),
    cmocka_unit_test(a_failed_write_is_an_error),
  };
  alarm(60);
  setenv("TUTTI_DEBUG", "NONE", 1); /* most errors here are wanted */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
