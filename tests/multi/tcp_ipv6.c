/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp transport over IPv6, both ends in this thread.
 * Labels: serial. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcp_pair.h"

static void links_carry_over_ipv6(void **state)
{
  (void)state;
  static struct tt_call call = {1, 25, TT_ALL_REDUCE, tuttiInt32, tuttiSum, 0, -1, 0};
  struct tt_head head = {tt_call_word(&call), 100, &call, 0};
  struct tcp_pair pair;
  struct tt_link *links[2];
  char text[256];
  uint8_t out[100], in[100];
  assert_int_equal(tcp_pair_prepare(&pair, "[::1]:0"), 0);
  assert_int_equal(tcp_pair_start(&pair), 0);
  tt_transport_tcp.path(pair.end[0].transport, 1, text, sizeof text);
  assert_memory_equal(text, "tcp lo [::1]:", 13);
  assert_null(strstr(text, "CRC32C"));
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  for (int from = 0; from < 2; from++) {
    size_t got = 0;
    for (size_t i = 0; i < sizeof out; i++) out[i] = (uint8_t)(i + 50 * (size_t)from);
    links[from]->ops->send_begin(links[from], &head);
    links[1 - from]->ops->recv_begin(links[1 - from], &head);
    assert_int_equal(links[from]->ops->send(links[from], out, sizeof out), sizeof out);
    while (got < sizeof in) {
      ssize_t n = links[1 - from]->ops->recv(links[1 - from], in + got, sizeof in - got);
      assert_true(n >= 0);
      got += (size_t)n;
    }
    assert_memory_equal(in, out, sizeof in);
  }
  tcp_pair_destroy(&pair);
}

int main(void)
{
  struct tcp_pair pair;
  alarm(60);
  if (tcp_pair_prepare(&pair, "[::1]:0") != 0) {
    fprintf(stderr, "skipped: this machine has no IPv6 loopback address\n");
    return 77;
  }
  const struct CMUnitTest tests[] = {cmocka_unit_test(links_carry_over_ipv6)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
