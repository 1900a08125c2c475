/* SPDX-License-Identifier: BSD-3-Clause */
/* The table of transports: each row says its facts, and a list of names gives those named.
 * Labels: serial. */
#include <stdio.h>
#include <string.h>

#include "transport/transport.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <cmocka.h>

#define MOST 32

static void each_row_says_its_facts(void **state)
{
  (void)state;
  for (int t = 0; tt_transports[t]; t++) {
    const struct tt_transport_ops *ops = tt_transports[t];
    assert_true(ops->name && ops->name[0] && !strpbrk(ops->name, ", \t\n\""));
    assert_in_range(ops->block_bytes, 1 << 10, 1 << 30);
    assert_int_equal(ops->block_bytes % (1 << 10), 0);
    assert_false(ops->is_same_host && (ops->uses_interface || ops->is_idle_on_one_host));
    for (int s = 0; s < t; s++) assert_string_not_equal(tt_transports[s]->name, ops->name);
  }
  assert_true(tt_transports[0] && tt_transports[0]->is_same_host);
}

static void decorated_it_has_the_facts_of_its_row(void **state)
{
  (void)state;
  static const struct tt_transport_spec spec = {.nranks = 1, .lanes = 1};
  char peer_info[TT_TRANSPORT_PEER_INFO_BYTES];
  const struct tt_transport_ops *row = tt_transports[0];
  struct tt_transport *transport;
  assert_int_equal(row->create(&transport, &spec, peer_info), tuttiSuccess);
  int descriptors = row->descriptors(transport) + 1; /* the file of the trace */
  for (int d = 0; d < 2; d++) {
    assert_int_equal(d ? tt_fault_wrap(&transport, transport, &spec, "action=delay:1ms")
                       : tt_trace_wrap(&transport, transport, &spec, "/dev/null"), tuttiSuccess);
    const struct tt_transport_ops *ops = transport->ops;
    assert_true(ops != row && ops->name == row->name && ops->block_bytes == row->block_bytes);
    assert_true(ops->is_same_host && !ops->is_idle_on_one_host && !ops->uses_interface);
    assert_int_equal(ops->descriptors(transport), descriptors);
  }
  transport->ops->destroy(transport);
}

static void a_list_gives_those_it_names_in_its_order(void **state)
{
  (void)state;
  const struct tt_transport_ops *chosen[MOST];
  char list[1024] = "";
  int n = 0, all = 0;
  while (tt_transports[all]) all++;
  assert_int_equal(tt_transports_choose(chosen, &n, MOST, list), tuttiSuccess);
  assert_true(n == 1 && chosen[0] == tt_transports[0]);
  for (int t = all - 1; t > 0; t--)
    snprintf(list + strlen(list), sizeof list - strlen(list), "%s%s", list[0] ? "," : "", tt_transports[t]->name);
  assert_int_equal(tt_transports_choose(chosen, &n, MOST, list), tuttiSuccess);
  assert_int_equal(n, all);
  for (int t = 1; t < n; t++) assert_ptr_equal(chosen[t], tt_transports[all - t]);
  assert_int_equal(tt_transports_choose(chosen, &n, all, list), tuttiSuccess);
  assert_int_equal(tt_transports_choose(chosen, &n, all - 1, list), tuttiInvalidArgument);
}

static void refuses(const char *list)
{
  const struct tt_transport_ops *chosen[MOST];
  char quoted[1024];
  int n;
  snprintf(quoted, sizeof quoted, "the transports are \"%s\" ", list);
  assert_int_equal(tt_transports_choose(chosen, &n, MOST, list), tuttiInvalidArgument);
  assert_non_null(strstr(tt_last_sentence(), quoted));
  for (int t = 1; tt_transports[t]; t++) assert_non_null(strstr(tt_last_sentence(), tt_transports[t]->name));
}

static void what_is_no_list_is_refused(void **state)
{
  (void)state;
  char list[256];
  const char *name = tt_transports[1]->name;
  static const char *const before[] = {"", ",", " ", "no_such,"}, *const behind[] = {"", ",,", " ", "x", ",no_such"};
  refuses(tt_transports[0]->name);
  for (int w = 1; w < 4 * 5; w++) {
    snprintf(list, sizeof list, "%s%s%s", before[w % 4], name, behind[w / 4]);
    refuses(list);
  }
  snprintf(list, sizeof list, "%s,%s", name, name);
  refuses(list);
}

int main(void)
{
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_row_says_its_facts),
      cmocka_unit_test(decorated_it_has_the_facts_of_its_row),
      cmocka_unit_test(a_list_gives_those_it_names_in_its_order),
      cmocka_unit_test(what_is_no_list_is_refused),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
