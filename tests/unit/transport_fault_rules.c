/* SPDX-License-Identifier: BSD-3-Clause */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "transport/fault_private.h"

static void rules_are_read_field_by_field(void **state)
{
  (void)state;
  struct tt_fault_rules rules;
  assert_int_equal(tt_fault_rules_parse(&rules, "rank=1,peer=0,lane=2,side=recv,nth=3,action=delay:5ms;action=drop"),
                   tuttiSuccess);
  assert_int_equal(rules.n, 2);
  const struct tt_fault_rule *first = &rules.rule[0], *second = &rules.rule[1];
  assert_int_equal(first->rank, 1);
  assert_int_equal(first->peer, 0);
  assert_int_equal(first->lane, 2);
  assert_int_equal(first->side, TT_FAULT_RECV);
  assert_int_equal(first->nth, 3);
  assert_int_equal(first->action, TT_FAULT_DELAY);
  assert_int_equal(first->value, 5000000);
  assert_int_equal(second->rank, -1);
  assert_int_equal(second->peer, -1);
  assert_int_equal(second->lane, -1);
  assert_int_equal(second->side, TT_FAULT_SEND);
  assert_int_equal(second->nth, 0);
  assert_int_equal(second->action, TT_FAULT_DROP);
}

static void every_action_has_a_name(void **state)
{
  (void)state;
  static const struct {
    const char *text;
    enum tt_fault_action action;
    uint64_t value;
  } all[] = {{"action=delay:7ns", TT_FAULT_DELAY, 7},
             {"action=delay:7us", TT_FAULT_DELAY, 7000},
             {"action=delay:2s", TT_FAULT_DELAY, 2000000000},
             {"action=short", TT_FAULT_SHORT, 16},
             {"action=short:4096", TT_FAULT_SHORT, 4096},
             {"action=drop", TT_FAULT_DROP, 0},
             {"action=corrupt", TT_FAULT_CORRUPT, 0},
             {"action=kill", TT_FAULT_KILL, 0},
             {"action=stop", TT_FAULT_STOP, 0}};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    struct tt_fault_rules rules;
    assert_int_equal(tt_fault_rules_parse(&rules, all[i].text), tuttiSuccess);
    assert_int_equal(rules.rule[0].action, all[i].action);
    assert_int_equal(rules.rule[0].value, all[i].value);
  }
}

static void a_rule_that_cannot_be_read_is_named(void **state)
{
  (void)state;
  static const char *const all[] = {"rank=1",
                                    "rank=x,action=drop",
                                    "rank=-1,action=drop",
                                    "action",
                                    "action=explode",
                                    "action=delay",
                                    "action=delay:5",
                                    "action=delay:ms",
                                    "action=delay:2h",
                                    "action=delay:99999999999999999999s",
                                    "action=short:8",
                                    "action=short:0",
                                    "action=short:x",
                                    "nth=0,action=drop",
                                    "side=up,action=drop",
                                    "colour=3,action=drop",
                                    "action=drop,",
                                    ",action=drop",
                                    "rank=99999999999,action=drop",
                                    "rank=000000000000000000000000000000000000000000000000000000000001,action=drop"};
  for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
    struct tt_fault_rules rules = {.n = -7};
    char text[300] = "action=corrupt;";
    strcat(text, all[i]);
    assert_int_equal(tt_fault_rules_parse(&rules, text), tuttiInvalidArgument);
    assert_non_null(strstr(tt_last_sentence(), all[i]));
    assert_int_equal(rules.n, -7);
  }
}

static void more_rules_than_fit_are_refused(void **state)
{
  (void)state;
  struct tt_fault_rules rules;
  char text[TT_FAULT_RULES * 16 + 32] = "action=drop";
  for (int i = 1; i < TT_FAULT_RULES; i++) strcat(text, ";action=drop");
  assert_int_equal(tt_fault_rules_parse(&rules, text), tuttiSuccess);
  assert_int_equal(rules.n, TT_FAULT_RULES);
  strcat(text, ";action=drop");
  assert_int_equal(tt_fault_rules_parse(&rules, text), tuttiInvalidArgument);
}

int main(void)
{
  alarm(20);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(rules_are_read_field_by_field),
      cmocka_unit_test(every_action_has_a_name),
      cmocka_unit_test(a_rule_that_cannot_be_read_is_named),
      cmocka_unit_test(more_rules_than_fit_are_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
