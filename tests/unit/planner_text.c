/* SPDX-License-Identifier: BSD-3-Clause */
/* Policies, layer tables and plans as text, and what is told where they are wrong.
 * Labels: serial. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plan/layers_private.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define HEAD "layer_index,name,params,fwd_flops,bwd_time_us,fwd_time_us\n"

static tuttiResult_t parse(struct tt_layers *layers, const char *text)
{
  FILE *in = fmemopen((void *)(uintptr_t)text, strlen(text), "r");
  assert_non_null(in);
  tuttiResult_t result = tt_layers_parse(layers, in, "table");
  fclose(in);
  return result;
}

static void policies_are_what_their_names_say(void **state)
{
  static const struct {
    const char *text;
    struct tt_policy policy;
  } names[] = {
      {"wfbp", {.kind = TT_POLICY_WFBP}},
      {"single", {.kind = TT_POLICY_SINGLE}},
      {"threshold:0", {.kind = TT_POLICY_THRESHOLD}},
      {"threshold:25M,1M", {.kind = TT_POLICY_THRESHOLD, .bytes = 25 << 20, .first_bytes = 1 << 20}},
      {"threshold:100,7k", {.kind = TT_POLICY_THRESHOLD, .bytes = 100, .first_bytes = 7168}},
      {"horovod:128M", {.kind = TT_POLICY_HOROVOD, .bytes = 128 << 20}},
      {"horovod:3G", {.kind = TT_POLICY_HOROVOD, .bytes = (uint64_t)3 << 30}},
      {"mgwfbp", {.kind = TT_POLICY_MGWFBP}},
      {"optimal", {.kind = TT_POLICY_OPTIMAL}},
      {"p3", {.kind = TT_POLICY_P3, .slice = 50000}},
      {"p3:1", {.kind = TT_POLICY_P3, .slice = 1}},
      {"p3:5e4", {.kind = TT_POLICY_P3, .slice = 50000}},
      {"p3:4K", {.kind = TT_POLICY_P3, .slice = 4096}},
      {"p3:4K,1M", {.kind = TT_POLICY_P3, .slice = 4096, .has_credit = 1, .credit = 1 << 20}},
      {"p3:1,0", {.kind = TT_POLICY_P3, .slice = 1, .has_credit = 1}},
      {"fifo", {.kind = TT_POLICY_FIFO, .slice = 50000}},
      {"fifo:7,9", {.kind = TT_POLICY_FIFO, .slice = 7, .has_credit = 1, .credit = 9}},
      {"auto", {.kind = TT_POLICY_AUTO}},
  };
  (void)state;
  for (size_t n = 0; n < sizeof names / sizeof names[0]; n++) {
    struct tt_policy got;
    assert_int_equal(tt_policy_parse(&got, names[n].text), tuttiSuccess);
    assert_int_equal(got.kind, names[n].policy.kind);
    assert_int_equal(got.bytes, names[n].policy.bytes);
    assert_int_equal(got.first_bytes, names[n].policy.first_bytes);
    assert_int_equal(got.slice, names[n].policy.slice);
    assert_int_equal(got.has_credit, names[n].policy.has_credit);
    assert_int_equal(got.credit, names[n].policy.credit);
  }
}

static void what_is_no_policy_is_told_with_the_part_that_is_wrong(void **state)
{
  static const struct {
    const char *text, *wanted;
  } trials[] = {
      {"", "there is no policy \"\" (TUTTI_FUSION_POLICY, config.policy, or an option of the program): take wfbp, "},
      {"wfb", "there is no policy \"wfb\" ("},
      {"wfbpp", "there is no policy \"wfbpp\" ("},
      {"optimal ", "there is no policy \"optimal \" ("},
      {"wfbp:5", "policy \"wfbp:5\": \":5\" is too much: give wfbp"},
      {"single:", "policy \"single:\": \":\" is too much: give single"},
      {"auto,1", "there is no policy \"auto,1\" ("},
      {"threshold", "policy \"threshold\": BYTES is \"\": give a whole number from 0 to 9223372036854775806, "},
      {"threshold:", "BYTES is \"\": give a whole number from 0 to "},
      {"threshold:x", "BYTES is \"x\": give"},
      {"threshold:-1", "BYTES is \"-1\": give"},
      {"threshold:1.5", "BYTES is \"1.5\": give a whole number"},
      {"threshold:nan", "BYTES is \"nan\": give"},
      {"threshold:1MB", "BYTES is \"1MB\": give"},
      {"threshold:99999999999999999999", "BYTES is \"99999999999999999999\": give"},
      {"threshold:1M,", "FIRST is \"\": give a whole number from 0 to "},
      {"threshold:1M,x", "policy \"threshold:1M,x\": FIRST is \"x\": give"},
      {"threshold:1M,2M,3M", "\",3M\" is too much: give threshold:25M or threshold:25M,1M"},
      {"horovod", "BYTES is \"\": give"},
      {"horovod:1,2", "policy \"horovod:1,2\": \",2\" is too much: give horovod:128M"},
      {"p3:", "PARAMETERS is \"\": give a whole number from 1 to 9223372036854775806, such as 50000, 64K, 1.5M or "
              "2GiB, as in p3, p3:50000 or p3:50000,1M"},
      {"p3:0", "PARAMETERS is \"0\": give a whole number from 1 to"},
      {"p3:x", "policy \"p3:x\": PARAMETERS is \"x\": give"},
      {"p3:1,", "policy \"p3:1,\": CREDIT is \"\": give a whole number from 0 to"},
      {"p3:1,x", "CREDIT is \"x\": give"},
      {"p3:1,2,3", "\",3\" is too much: give p3, p3:50000 or p3:50000,1M"},
      {"fifo:0", "PARAMETERS is \"0\": give a whole number from 1 to"},
  };
  struct tt_policy policy = {.kind = TT_POLICIES};
  (void)state;
  for (size_t t = 0; t < sizeof trials / sizeof trials[0]; t++) {
    assert_int_equal(tt_policy_parse(&policy, trials[t].text), tuttiInvalidArgument);
    if (!strstr(tuttiGetLastError(NULL), trials[t].wanted))
      fail_msg("of \"%s\" it says: %s", trials[t].text, tuttiGetLastError(NULL));
    assert_int_equal(policy.kind, TT_POLICIES);
  }
}

static void a_table_says_what_it_says_in_any_order_of_columns(void **state)
{
  struct tt_layers layers;
  (void)state;
  assert_int_equal(parse(&layers, HEAD "1,conv1,10,5,2.5,1\r\n\n2,fc,20,5,1.25,0.5\n3,last,0,5,1,2"), tuttiSuccess);
  assert_int_equal(layers.net.n, 3);
  assert_true(layers.net.tensors[0].count == 10 && layers.net.tensors[0].bytes == 40);
  assert_true(layers.net.tensors[2].bytes == 0 && layers.net.tensors[1].forward_us == 0.5);
  assert_true(layers.net.tensors[2].ready_us == 1 && layers.net.tensors[1].ready_us == 2.25);
  assert_true(layers.net.tensors[0].ready_us == 4.75 && layers.net.backward_us == 4.75 && layers.forward_us == 3.5);
  assert_int_equal(tt_model_check(&layers.net), tuttiSuccess);
  tt_layers_destroy(&layers);
  assert_int_equal(parse(&layers, "fwd_time_us,params,bwd_time_us,layer_index\n1,2,3,1\n"), tuttiSuccess);
  assert_true(layers.net.tensors[0].forward_us == 1 && layers.net.tensors[0].count == 2 && layers.net.backward_us == 3);
  tt_layers_destroy(&layers);
}

/* As spreadsheets and other programs write them. */
static void fields_may_have_quotes_and_blanks(void **state)
{
  struct tt_layers layers;
  (void)state;
  assert_int_equal(parse(&layers, "\xef\xbb\xbf\"layer_index\" , \"name\",\"params\",bwd_time_us,fwd_time_us \r\n"
                                  "1, \"conv, 3 \"\"x\"\" 3\" ,\"10\", 2.5 ,1\t\n2,\"\",20\t,\"1.25\",0.5\n"),
                   tuttiSuccess);
  assert_true(layers.net.n == 2 && layers.net.tensors[0].count == 10 && layers.net.tensors[1].count == 20);
  assert_true(layers.net.tensors[1].ready_us == 1.25 && layers.net.backward_us == 3.75 && layers.forward_us == 1.5);
  tt_layers_destroy(&layers);
}

static void a_line_that_is_wrong_is_told_with_its_number(void **state)
{
  static const struct {
    const char *text, *wanted;
  } wrong[] = {
      {"", "table, line 1: wanted names of columns, among them layer_index, not 'the end of the text'"},
      {"layer_index,name,bwd_time_us,fwd_time_us\n", "table, line 1: wanted names of columns, among them params, not "
                                                     "'layer_index,name,bwd_time_us,fwd_time_us'"},
      {HEAD, "table, line 2: wanted a layer, not 'the end of the text'"},
      {HEAD "1,a,1,1,1\n", "table, line 2: wanted 6 fields, as in the first line, not '5'"},
      {HEAD "1,a,1,1,1,1\n2,a,b,1,1,1,1\n", "table, line 3: wanted 6 fields, as in the first line, not '7'"},
      {HEAD "1,a,1,1,1,1\n\n3,a,1,1,1,1\n", "line 4: wanted layer_index 2, as layers are in forward order, not '3'"},
      {HEAD "0,a,1,1,1,1\n", "table, line 2: wanted layer_index 1"},
      {HEAD "1,a,1.5,1,1,1\n", "line 2: wanted a whole number from 0 to 2^44 for params, not '1.5'"},
      {HEAD "1,a,-1,1,1,1\n", "line 2: wanted a whole number from 0 to 2^44 for params, not '-1'"},
      {HEAD "1,a,,1,1,1\n", "line 2: wanted a whole number from 0 to 2^44 for params, not ''"},
      {HEAD "1,a,99999999999999999999,1,1,1\n", "line 2: wanted a whole number"},
      {HEAD "1,a,1,1,-2,1\n", "line 2: wanted microseconds from 0 to 1e12 for bwd_time_us, not '-2'"},
      {HEAD "1,a,1,1,nan,1\n", "line 2: wanted microseconds from 0 to 1e12 for bwd_time_us, not 'nan'"},
      {HEAD "1,a,1,1,1,inf\n", "line 2: wanted microseconds from 0 to 1e12 for fwd_time_us, not 'inf'"},
      {HEAD "1,\"a,1,1,1,1\n", "table, line 2: wanted 6 fields, as in the first line, not '2'"},
      {HEAD "1,a,1,1,1,1us\n", "line 2: wanted microseconds from 0 to 1e12 for fwd_time_us, not '1us'"},
  };
  struct tt_layers layers = {.forward_us = 77};
  (void)state;
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    assert_int_equal(parse(&layers, wrong[w].text), tuttiInvalidArgument);
    const char *got = tuttiGetLastError(NULL);
    if (!strstr(got, wrong[w].wanted)) assert_string_equal(got, wrong[w].wanted);
    assert_true(layers.forward_us == 77);
  }
  assert_int_equal(tt_layers_load(&layers, "/nowhere/table.csv"), tuttiInvalidArgument);
  assert_non_null(strstr(tuttiGetLastError(NULL), "/nowhere/table.csv cannot be read"));
  assert_int_equal(tt_layers_load(&layers, "/"), tuttiInvalidArgument);
  assert_string_equal(tuttiGetLastError(NULL), "/ cannot be read: Is a directory");
}

static void a_network_that_is_wrong_is_told_by_its_tensor(void **state)
{
  const struct tt_tensor right = {.count = 2, .bytes = 8, .ready_us = 3, .forward_us = 1};
  struct tt_tensor tensors[2] = {right, right};
  struct tt_model net = {2, tensors, 3};
  (void)state;
  assert_int_equal(tt_model_check(&net), tuttiSuccess);
  const struct tt_tensor wrong[] = {{.count = 3, .bytes = 8}, {.count = 0, .bytes = 8}, {.count = 8, .bytes = 0},
                                    {.ready_us = 4}, {.ready_us = -1}, {.ready_us = NAN}, {.forward_us = -1},
                                    {.forward_us = INFINITY}, {.spread_us = -1}, {.spread_us = NAN}};
  for (size_t w = 0; w < sizeof wrong / sizeof wrong[0]; w++) {
    tensors[1] = wrong[w];
    assert_int_equal(tt_model_check(&net), tuttiInvalidArgument);
    assert_non_null(strstr(tuttiGetLastError(NULL), "tensor 2"));
  }
  tensors[1] = right;
  net.n = 0;
  assert_int_equal(tt_model_check(&net), tuttiInvalidArgument);
  net.n = TT_PLAN_TENSORS + 1;
  assert_int_equal(tt_model_check(&net), tuttiInvalidArgument);
}

static void a_cost_goes_through_its_points(void **state)
{
  const uint64_t bytes[] = {8, 16, 32, 64};
  const double us[] = {4, 12, 10, 26}, falling[] = {4, 12, 10, 8};
  struct tt_message_cost cost = tt_message_cost_points(bytes, us, 4);
  (void)state;
  for (int k = 0; k < 4; k++) assert_true(tt_message_us(&cost, bytes[k]) == us[k]);
  assert_true(tt_message_us(&cost, 0) == 4 && tt_message_us(&cost, 7) == 4 && tt_message_us(&cost, 12) == 8);
  assert_true(tt_message_us(&cost, 24) == 11 && tt_message_us(&cost, 48) == 18 && tt_message_us(&cost, 128) == 58);
  cost = tt_message_cost_points(bytes, falling, 4);
  assert_true(tt_message_us(&cost, 48) == 9 && tt_message_us(&cost, 64) == 8 && tt_message_us(&cost, 1 << 20) == 8);
  cost = tt_message_cost_points(bytes, us, 1);
  assert_true(tt_message_us(&cost, 0) == 4 && tt_message_us(&cost, 1 << 20) == 4);
  cost = tt_message_cost_line(3, 0.5);
  assert_true(tt_message_us(&cost, 0) == 3 && tt_message_us(&cost, 10) == 8);
}

static void slices_without_number_are_refused(void **state)
{
  const struct tt_tensor tensor = {.count = 1u << 30, .bytes = (uint64_t)1 << 32};
  const struct tt_model net = {1, &tensor, 0};
  const struct tt_message_cost cost = tt_message_cost_line(1, 1);
  const struct tt_policy policy = {.kind = TT_POLICY_P3, .slice = 1};
  struct tt_fusion_plan plan;
  struct tt_played played = {.nmessages = 77};
  (void)state;
  assert_int_equal(tt_fusion_plan_make(&plan, &policy, &net, &cost), tuttiSuccess);
  assert_int_equal(tt_fusion_plan_play(&played, &plan, &net, &cost), tuttiInvalidUsage);
  assert_int_equal(played.nmessages, 77);
  tt_fusion_plan_destroy(&plan);
}

static void json_has_groups_in_the_order_sent(void **state)
{
  struct tt_layers layers;
  struct tt_planned planned = {.name = "mgwfbp", .bound_us = 8.5};
  const struct tt_message_cost cost = tt_message_cost_line(2, 0.25);
  char *text;
  size_t size;
  (void)state;
  assert_int_equal(parse(&layers, HEAD "1,a,1,0,2,0\n2,b,1,0,1,0\n3,c,1,0,1,0\n"), tuttiSuccess);
  assert_int_equal(tt_policy_parse(&planned.policy, planned.name), tuttiSuccess);
  assert_int_equal(tt_fusion_plan_make(&planned.plan, &planned.policy, &layers.net, &cost), tuttiSuccess);
  assert_int_equal(tt_fusion_plan_play(&planned.played, &planned.plan, &layers.net, &cost), tuttiSuccess);
  FILE *out = open_memstream(&text, &size);
  tt_planned_json(out, &planned);
  fclose(out);
  assert_string_equal(text, "{\"policy\": \"mgwfbp\", \"groups\": [[3, 2], [1]], \"iteration_us\": 9, "
                            "\"bound_us\": 8.5}");
  free(text);
  tt_played_destroy(&planned.played);
  tt_fusion_plan_destroy(&planned.plan);
  tt_layers_destroy(&layers);
}

static void a_failed_allocation_is_an_error(void **state)
{
  struct tt_layers layers;
  long n = 1;
  (void)state;
  for (tuttiResult_t result = tuttiSystemError; result != tuttiSuccess; n++) {
    tt_alloc_fail_at(n);
    result = parse(&layers, HEAD "1,a,1,0,2,0\n");
    assert_true(result == tuttiSuccess || result == tuttiSystemError);
  }
  assert_true(n > 3);
  tt_alloc_fail_at(0);
  tt_layers_destroy(&layers);
}

int main(void)
{
  setenv("TUTTI_DEBUG", "NONE", 1);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(policies_are_what_their_names_say),
      cmocka_unit_test(what_is_no_policy_is_told_with_the_part_that_is_wrong),
      cmocka_unit_test(a_table_says_what_it_says_in_any_order_of_columns),
      cmocka_unit_test(fields_may_have_quotes_and_blanks),
      cmocka_unit_test(a_line_that_is_wrong_is_told_with_its_number),
      cmocka_unit_test(a_network_that_is_wrong_is_told_by_its_tensor),
      cmocka_unit_test(a_cost_goes_through_its_points),
      cmocka_unit_test(slices_without_number_are_refused),
      cmocka_unit_test(json_has_groups_in_the_order_sent),
      cmocka_unit_test(a_failed_allocation_is_an_error),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
