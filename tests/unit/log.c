/* SPDX-License-Identifier: BSD-3-Clause */
/* The log goes to the program's function; types and operations have sizes and names; a setting that was probably meant
 * is named. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/base.h"
#include "tutti_tools.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

struct lines {
  int n;
  char text[8][640];
};

static void keep(void *context, const char *level, const char *sentence)
{
  struct lines *lines = context;
  if (lines->n < 8) snprintf(lines->text[lines->n++], sizeof lines->text[0], "%s|%s", level, sentence);
}

static void lines_go_to_the_function_with_their_level(void **state)
{
  (void)state;
  struct lines lines = {0}, none = {0};
  assert_int_equal(tuttiSetLog(keep, &none), tuttiSuccess);
  assert_int_equal(tuttiSetLog(keep, &lines), tuttiSuccess);
  assert_int_equal(tuttiTypeSize(tuttiNumTypes, &(size_t){0}), tuttiInvalidArgument);
  tt_log(TT_LOG_INFO, "%d ranks", 3);
  tt_log(TT_LOG_TRACE, "is not wanted");
  tt_log(TT_LOG_ASKED, "EXPLAIN all_reduce of 8 B");
  assert_int_equal(lines.n, 3);
  assert_string_equal(lines.text[0], "WARN|type is 17: it must be from 0 to 16");
  assert_string_equal(lines.text[1], "INFO|3 ranks");
  assert_string_equal(lines.text[2], "EXPLAIN|all_reduce of 8 B");
  assert_int_equal(tuttiSetLog(NULL, NULL), tuttiSuccess);
  tt_log(TT_LOG_WARN, "goes to the log file");
  assert_int_equal(lines.n, 3);
  assert_int_equal(none.n, 0);
}

static void types_and_operations_have_sizes_and_names(void **state)
{
  (void)state;
  size_t size = 0, all = 0;
  for (int type = 0; type < tuttiNumTypes; type++) {
    assert_int_equal(tuttiTypeSize((tuttiDataType_t)type, &size), tuttiSuccess);
    assert_string_not_equal(tuttiTypeName((tuttiDataType_t)type), "?");
    all += size;
  }
  assert_int_equal(all, 5 * 1 + 4 * 2 + 3 * 4 + 3 * 8 + 8 + 16);
  assert_int_equal(tuttiTypeSize(tuttiFloat16, &size), tuttiSuccess);
  assert_int_equal(size, 2);
  assert_string_equal(tuttiTypeName(tuttiFloat16), "half");
  assert_string_equal(tuttiTypeName(tuttiNumTypes), "?");
  assert_string_equal(tuttiRedOpName(tuttiBitXor), "xor");
  assert_string_equal(tuttiRedOpName((tuttiRedOp_t)(tuttiNumOps + 5)), "mulsum");
  assert_string_equal(tuttiRedOpName((tuttiRedOp_t)-1), "?");
  assert_int_equal(tuttiTypeSize(tuttiFloat, NULL), tuttiInvalidArgument);
}

static void a_setting_that_was_probably_meant_is_named(void **state)
{
  (void)state;
  static const struct {
    const char *name, *said;
  } trials[] = {
      {"TUTTI_TIMEOUT", "WARN|TUTTI_TIMEOUT is not a setting of this version: did you mean TUTTI_TIMEOUT_MS? `tutti "
                        "info` lists them"},
      {"TUTTI_TRANSPORT", "WARN|TUTTI_TRANSPORT is not a setting of this version: did you mean TUTTI_TRANSPORTS? "
                          "`tutti info` lists them"},
      {"TUTTI_SOCKET_IFNMAE", "WARN|TUTTI_SOCKET_IFNMAE is not a setting of this version: did you mean "
                              "TUTTI_SOCKET_IFNAME? `tutti info` lists them"},
      {"TUTTI_WEATHER", "WARN|TUTTI_WEATHER is not a setting of this version: `tutti info` lists them"},
      {"NCCL_ALGO", "INFO|NCCL_ALGO is set, and variables of NCCL have no effect here: docs/settings.md has those of "
                    "Tutti"},
      {"NCCL_SOCKET_IFNAME", "WARN|NCCL_SOCKET_IFNAME is set and has no effect here: set TUTTI_SOCKET_IFNAME"},
  };
  for (size_t t = 0; t < sizeof trials / sizeof trials[0]; t++) {
    struct lines lines = {0};
    struct tt_settings settings;
    assert_int_equal(tuttiSetLog(keep, &lines), tuttiSuccess);
    setenv(trials[t].name, "x", 1);
    atomic_store(&tt_process.unknown_warned, 0);
    assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
    unsetenv(trials[t].name);
    assert_int_equal(lines.n, 1);
    assert_string_equal(lines.text[0], trials[t].said);
  }
  assert_int_equal(tuttiSetLog(NULL, NULL), tuttiSuccess);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "INFO", 1);
  setenv("TUTTI_DEBUG_FILE", "/dev/null", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(lines_go_to_the_function_with_their_level),
      cmocka_unit_test(types_and_operations_have_sizes_and_names),
      cmocka_unit_test(a_setting_that_was_probably_meant_is_named),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
