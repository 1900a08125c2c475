/* SPDX-License-Identifier: BSD-3-Clause */
/* The tcp transport over real sockets, both ends in this thread.
 * Labels: serial. */
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <cmocka.h>

#include "tcp_pair.h"
#include "transport/tcp_link_private.h"

static struct tt_call a_call = {1, 256, TT_ALL_REDUCE, tuttiInt32, tuttiSum, 0, -1, 0};

static void pair_start(struct tcp_pair *pair, const char *where)
{
  assert_int_equal(tcp_pair_prepare(pair, where), 0);
  assert_int_equal(tcp_pair_start(pair), 0);
}

static uint8_t value_at(int from, size_t i)
{
  return (uint8_t)(i * 3 + (i >> 9) * 5 + (i >> 18) * 11 + (size_t)from * 77);
}

/* Each end sends as long as the kernel takes anything before it looks at what came. */
static void both_send_and_receive(struct tt_link *links[2], size_t len)
{
  uint8_t *out[2], *in[2];
  size_t sent[2] = {0, 0}, got[2] = {0, 0};
  struct tt_head head = {tt_call_word(&a_call), len, &a_call, 0};
  for (int i = 0; i < 2; i++) {
    out[i] = malloc(len);
    in[i] = calloc(1, len);
    for (size_t k = 0; k < len; k++) out[i][k] = value_at(i, k);
    links[i]->ops->send_begin(links[i], &head);
    links[i]->ops->recv_begin(links[i], &head);
  }
  while (got[0] < len || got[1] < len) {
    for (int i = 0; i < 2; i++) {
      ssize_t n = 1;
      while (n > 0 && sent[i] < len) {
        n = links[i]->ops->send(links[i], out[i] + sent[i], len - sent[i]);
        assert_true(n >= 0);
        sent[i] += (size_t)n;
      }
      n = got[i] < len ? links[i]->ops->recv(links[i], in[i] + got[i], len - got[i]) : 0;
      assert_true(n >= 0);
      got[i] += (size_t)n;
    }
  }
  for (int i = 0; i < 2; i++) {
    assert_int_equal(sent[i], len);
    assert_memory_equal(in[i], out[1 - i], len);
  }
  for (int i = 0; i < 2; i++) {
    free(out[i]);
    free(in[i]);
  }
}

static void carries(const char *where)
{
  struct tcp_pair pair;
  struct tt_link *links[2];
  pair_start(&pair, where);
  for (int lane = 0; lane < TCP_PAIR_LANES; lane++) {
    assert_int_equal(tcp_pair_open(&pair, lane, links), 0);
    for (int i = 0; i < 2; i++) {
      assert_int_equal(links[i]->peer, 1 - i);
      assert_int_equal(links[i]->lane, lane);
      assert_ptr_equal(links[i]->transport, pair.end[i].transport);
    }
    both_send_and_receive(links, 8);
    both_send_and_receive(links, 100000);
  }
  assert_int_equal(tt_transport_tcp.descriptors(pair.end[0].transport), TCP_PAIR_LANES);
  tcp_pair_destroy(&pair);
}

static void links_carry_over_ipv4(void **state)
{
  (void)state;
  carries("127.0.0.1:0");
}

static void both_may_send_many_megabytes_at_once(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  pair_start(&pair, "127.0.0.1:0");
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  both_send_and_receive(links, (size_t)24 << 20);
  tcp_pair_destroy(&pair);
}

/* It had the other end's bytes in its socket, and much to send. */
static void an_end_that_did_not_read_loses_nothing_that_it_sent(void **state)
{
  (void)state;
  static uint8_t data[1 << 20];
  struct tcp_pair pair;
  struct tt_link *links[2];
  struct tt_head head = {tt_call_word(&a_call), (uint64_t)1 << 30, &a_call, 0};
  size_t sent = 0, got = 0;
  ssize_t n;
  pair_start(&pair, "127.0.0.1:0");
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  for (int i = 0; i < 2; i++) links[i]->ops->send_begin(links[i], &head);
  assert_true(links[1]->ops->send(links[1], data, sizeof data) > 0);
  for (int k = 0; k < 50; k++, usleep(2000))
    while ((n = links[0]->ops->send(links[0], data, sizeof data)) > 0) sent += (size_t)n;
  pair.end[0].transport->ops->destroy(pair.end[0].transport);
  pair.end[0].transport = NULL;
  links[1]->ops->recv_begin(links[1], &head);
  while ((n = links[1]->ops->recv(links[1], data, sizeof data)) >= 0) got += (size_t)n;
  assert_int_equal(n, TT_LINK_BROKEN);
  assert_int_equal(got, sent);
  tcp_pair_destroy(&pair);
}

static void a_kernel_that_takes_little_at_a_time_loses_nothing(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  uint32_t events;
  int tiny = 4096;
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  for (int i = 0; i < 2; i++) pair.end[i].settings.tcp_crc = 1;
  assert_int_equal(tcp_pair_start(&pair), 0);
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  for (int i = 0; i < 2; i++) {
    int fd = links[i]->ops->descriptor(links[i], &events);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &tiny, sizeof tiny), 0);
    assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &tiny, sizeof tiny), 0);
  }
  both_send_and_receive(links, 600000);
  for (size_t len = 1; len < 3000; len += 501) both_send_and_receive(links, len);
  tcp_pair_destroy(&pair);
}

static void crc_can_be_forced_on_loopback(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  char text[256];
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  for (int i = 0; i < 2; i++) pair.end[i].settings.tcp_crc = 1;
  assert_int_equal(tcp_pair_start(&pair), 0);
  assert_non_null(strstr(tt_transport_tcp.path(pair.end[0].transport, 1, text, sizeof text), "CRC32C"));
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  both_send_and_receive(links, 3000000);
  tcp_pair_destroy(&pair);
}

/* Two addresses that are not both loopback: checked, by both ends alike. */
static void crc_is_on_between_different_addresses(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  char text[256], name[16];
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  assert_int_equal(tt_interface_choose(&pair.end[0].settings, &pair.end[1].where, name), tuttiSuccess);
  if (tt_address_is_loopback(&pair.end[1].where)) {
    print_message("only loopback interfaces here\n");
    skip();
  }
  assert_int_equal(tcp_pair_start(&pair), 0);
  for (int i = 0; i < 2; i++)
    assert_non_null(strstr(tt_transport_tcp.path(pair.end[i].transport, 1 - i, text, sizeof text), "CRC32C"));
  if (pair.end[1].where.any.sa_family == AF_INET) {
    assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
    both_send_and_receive(links, 100000);
  }
  tcp_pair_destroy(&pair);
}

static void path_names_interface_and_addresses(void **state)
{
  (void)state;
  struct tcp_pair pair;
  char text[256], *colon;
  pair_start(&pair, "127.0.0.1:0");
  tt_transport_tcp.path(pair.end[1].transport, 0, text, sizeof text);
  assert_memory_equal(text, "tcp lo 127.0.0.1:", 17);
  assert_non_null(strstr(text, " -> 127.0.0.1:"));
  assert_null(strstr(text, "CRC32C"));
  assert_non_null(colon = strrchr(text, ':'));
  assert_true(atoi(colon + 1) > 0);
  tcp_pair_destroy(&pair);
}

static void a_client_may_come_before_it_is_expected(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2], *again;
  pair_start(&pair, "127.0.0.1:0");
  while (tt_transport_tcp.open(pair.end[0].transport, 1, 1, &links[0]) == tuttiInProgress) sched_yield();
  /* The welcome leaves before the client is handed over. */
  tuttiResult_t result;
  do result = tt_transport_tcp.open(pair.end[1].transport, 0, 1, &links[1]);
  while (result == tuttiInProgress);
  assert_int_equal(result, tuttiSuccess);
  assert_int_equal(tt_transport_tcp.open(pair.end[1].transport, 0, 1, &again), tuttiSuccess);
  assert_ptr_equal(again, links[1]);
  both_send_and_receive(links, 5000);
  tcp_pair_destroy(&pair);
}

static void an_unknown_congestion_control_is_named(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  for (int i = 0; i < 2; i++) strcpy(pair.end[i].settings.tcp_congestion, "no-such-one");
  assert_int_equal(tcp_pair_start(&pair), 0);
  assert_int_equal(tcp_pair_open(&pair, 0, links), -1);
  assert_non_null(strstr(tt_last_sentence(), "no-such-one"));
  tcp_pair_destroy(&pair);
}

/* Name of the congestion control of both ends of a link, with WANTED as TUTTI_TCP_CONGESTION (NULL: its default). */
static void congestion_of_a_link(const char *wanted, char name[32])
{
  struct tcp_pair pair;
  struct tt_link *links[2];
  uint32_t events;
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  for (int i = 0; wanted && i < 2; i++) strcpy(pair.end[i].settings.tcp_congestion, wanted);
  assert_int_equal(tcp_pair_start(&pair), 0);
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  for (int i = 0; i < 2; i++) {
    char other[32] = "";
    socklen_t len = sizeof other - 1;
    assert_int_equal(getsockopt(links[i]->ops->descriptor(links[i], &events), IPPROTO_TCP, TCP_CONGESTION, other, &len),
                     0);
    if (i == 1) assert_string_equal(other, name);
    strcpy(name, other);
  }
  tcp_pair_destroy(&pair);
}

static void cubic_is_taken_where_the_system_has_bbr_and_its_own_on_request(void **state)
{
  (void)state;
  assert_string_equal(tt_tcp_congestion("auto", "bbr"), "cubic");
  assert_string_equal(tt_tcp_congestion("auto", "reno"), "");
  assert_string_equal(tt_tcp_congestion("auto", ""), "");
  assert_string_equal(tt_tcp_congestion("system", "bbr"), "");
  assert_string_equal(tt_tcp_congestion("bbr", "cubic"), "bbr");
  char system[32] = "", name[32];
  FILE *file = fopen("/proc/sys/net/ipv4/tcp_congestion_control", "r");
  assert_non_null(file);
  assert_int_equal(fscanf(file, "%31s", system), 1);
  fclose(file);
  congestion_of_a_link("system", name);
  assert_string_equal(name, system);
  congestion_of_a_link(system, name);
  assert_string_equal(name, system);
  congestion_of_a_link(NULL, name);
  assert_string_equal(name, strcmp(system, "bbr") == 0 ? "cubic" : system);
}

/* Dials rank 1 by hand until the handshake is over; *fd is ours. */
static void dial_by_hand(struct tcp_pair *pair, uint32_t src, uint16_t lane, int *fd)
{
  struct tt_hello hello = {.kind = TT_HELLO_LINK, .lane = lane, .src = src, .dst = 1};
  struct tt_dialer *dialer;
  tuttiResult_t result;
  const struct tt_address *to = tt_listener_address(pair->end[1].spec.ip_listener);
  assert_int_equal(tt_dialer_start(&dialer, to, &pair->end[0].credentials, &hello, tt_now_ns() + 10000000000u),
                   tuttiSuccess);
  while ((result = tt_dialer_poll(dialer, fd)) == tuttiInProgress) sched_yield();
  assert_int_equal(result, tuttiSuccess);
  tt_dialer_destroy(dialer);
}

/* 1 if the other side has closed; waits for that at most 5 s. */
static int is_closed(int fd)
{
  char byte;
  struct timeval limit = {5, 0};
  assert_int_equal(setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit), 0);
  assert_int_equal(fcntl(fd, F_SETFL, 0), 0);
  return recv(fd, &byte, 1, 0) == 0;
}

static void only_the_last_client_that_makes_sense_is_kept(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *link;
  int odd[4], first, second, third;
  pair_start(&pair, "127.0.0.1:0");
  dial_by_hand(&pair, 1, 0, &odd[0]); /* itself */
  dial_by_hand(&pair, 5, 0, &odd[1]); /* no such rank */
  dial_by_hand(&pair, 0, TCP_PAIR_LANES, &odd[2]);
  dial_by_hand(&pair, UINT32_MAX, UINT16_MAX, &odd[3]);
  for (int i = 0; i < 4; i++) assert_true(is_closed(odd[i]));
  dial_by_hand(&pair, 0, 0, &first);
  dial_by_hand(&pair, 0, 0, &second);
  assert_true(is_closed(first));
  assert_int_equal(tt_transport_tcp.open(pair.end[1].transport, 0, 0, &link), tuttiSuccess);
  dial_by_hand(&pair, 0, 0, &third);
  assert_true(is_closed(third));
  assert_int_equal(tt_transport_tcp.descriptors(pair.end[1].transport), 1);
  tcp_pair_destroy(&pair);
  assert_true(is_closed(second));
  for (int i = 0; i < 4; i++) close(odd[i]);
  close(first);
  close(second);
  close(third);
}

static void a_peer_that_never_comes_is_an_error_after_the_timeout(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *link = NULL;
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  for (int i = 0; i < 2; i++) pair.end[i].settings.init_timeout_ms = 200;
  assert_int_equal(tcp_pair_start(&pair), 0);
  /* The higher rank waits for a dial, the lower one dials somebody who has gone. */
  tuttiResult_t result;
  while ((result = tt_transport_tcp.open(pair.end[1].transport, 0, 0, &link)) == tuttiInProgress) usleep(1000);
  assert_int_equal(result, tuttiRemoteError);
  assert_non_null(strstr(tt_last_sentence(), "rank 0"));
  assert_int_equal(tt_transport_tcp.open(pair.end[1].transport, 0, 0, &link), tuttiRemoteError);
  tt_transport_tcp.destroy(pair.end[1].transport);
  pair.end[1].transport = NULL;
  while ((result = tt_transport_tcp.open(pair.end[0].transport, 1, 0, &link)) == tuttiInProgress) usleep(1000);
  assert_int_equal(result, tuttiRemoteError);
  assert_null(link);
  tcp_pair_destroy(&pair);
}

static void without_a_listener_nobody_is_reached(void **state)
{
  (void)state;
  struct tcp_pair pair;
  pair_start(&pair, "127.0.0.1:0");
  assert_true(tt_transport_tcp.reaches(pair.end[0].transport, 1));
  assert_true(tt_transport_tcp.reaches(pair.end[1].transport, 0));
  assert_false(tt_transport_tcp.reaches(pair.end[0].transport, 0));
  struct tcp_end closed = pair.end[0];
  uint8_t peer_infos[2][TT_TRANSPORT_PEER_INFO_BYTES];
  memcpy(peer_infos, pair.peer_infos, sizeof peer_infos);
  closed.spec.ip_listener = NULL;
  closed.spec.settings = &closed.settings;
  assert_int_equal(tt_transport_tcp.create(&closed.transport, &closed.spec, peer_infos[0]), tuttiSuccess);
  assert_int_equal(tt_transport_tcp.connect(closed.transport, peer_infos, sizeof peer_infos[0]), tuttiSuccess);
  assert_false(tt_transport_tcp.reaches(closed.transport, 1));
  assert_int_equal(tt_transport_tcp.connect(pair.end[1].transport, peer_infos, sizeof peer_infos[0]), tuttiSuccess);
  assert_false(tt_transport_tcp.reaches(pair.end[1].transport, 0));
  tt_transport_tcp.destroy(closed.transport);
  tcp_pair_destroy(&pair);
}

/* A rank may be busy elsewhere for much longer than a host may be silent. */
static void a_late_reader_loses_nothing(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  size_t len = (size_t)64 << 20, sent = 0, got = 0;
  assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
  for (int i = 0; i < 2; i++) pair.end[i].settings.unreachable_ms = 200;
  assert_int_equal(tcp_pair_start(&pair), 0);
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  uint8_t *bytes = calloc(1, len), *sink = malloc(len);
  struct tt_head head = {tt_call_word(&a_call), len, &a_call, 0};
  links[0]->ops->send_begin(links[0], &head);
  links[1]->ops->recv_begin(links[1], &head);
  for (int i = 0; i < 20; i++) {
    ssize_t n;
    while ((n = links[0]->ops->send(links[0], bytes + sent, len - sent)) > 0) sent += (size_t)n;
    if (n < 0) fail_msg("after %d ms: %s", i * 100, links[0]->why);
    usleep(100000);
  }
  assert_true(sent < len);
  while (got < len) {
    ssize_t n = sent < len ? links[0]->ops->send(links[0], bytes + sent, len - sent) : 0;
    assert_true(n >= 0);
    sent += (size_t)n;
    n = links[1]->ops->recv(links[1], sink + got, len - got);
    assert_true(n >= 0);
    got += (size_t)n;
  }
  assert_memory_equal(bytes, sink, len);
  free(bytes);
  free(sink);
  tcp_pair_destroy(&pair);
}

static int wait_ms(struct tt_link *link, int ms, uint32_t *events)
{
  struct epoll_event event = {0};
  int fd = link->ops->descriptor(link, events);
  event.events = *events;
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  assert_int_equal(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event), 0);
  int n = epoll_wait(epoll, &event, 1, ms);
  close(epoll);
  return n;
}

static void the_descriptor_wakes_a_reader_and_a_full_sender(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  uint32_t events;
  size_t len = (size_t)64 << 20, sent = 0, got = 0;
  pair_start(&pair, "127.0.0.1:0");
  assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
  uint8_t *bytes = calloc(1, len);
  struct tt_head head = {tt_call_word(&a_call), len, &a_call, 0};
  assert_int_equal(wait_ms(links[1], 10, &events), 0);
  assert_int_equal(events, EPOLLIN);
  links[0]->ops->send_begin(links[0], &head);
  links[1]->ops->recv_begin(links[1], &head);
  ssize_t n;
  do /* what is on its way to the other end's buffer makes room here a little later */
    while ((n = links[0]->ops->send(links[0], bytes + sent, len - sent)) > 0) sent += (size_t)n;
  while (wait_ms(links[0], 10, &events) == 1 && sent < len);
  assert_true(n == 0 && sent < len);
  assert_int_equal(events, EPOLLIN | EPOLLOUT);
  assert_int_equal(wait_ms(links[1], 5000, &events), 1);
  while (got < sent && (n = links[1]->ops->recv(links[1], bytes + got, sent - got)) >= 0) got += (size_t)n;
  assert_int_equal(wait_ms(links[0], 5000, &events), 1);
  free(bytes);
  tcp_pair_destroy(&pair);
}

/* Destroyed at every stage: new, with a dial half way, with a client nobody wanted, open, with data under way. */
static void nothing_is_left_after_200_rounds(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  int before = 0;
  for (int round = 0; round < 201; round++) {
    pair_start(&pair, "127.0.0.1:0");
    if (round % 5 >= 1) (void)tt_transport_tcp.open(pair.end[0].transport, 1, 0, &links[0]);
    if (round % 5 == 2)
      while (tt_transport_tcp.open(pair.end[0].transport, 1, 1, &links[0]) == tuttiInProgress) sched_yield();
    if (round % 5 >= 3) assert_int_equal(tcp_pair_open(&pair, 0, links), 0);
    if (round % 5 == 4) {
      struct tt_head head = {tt_call_word(&a_call), 1000, &a_call, 0};
      uint8_t bytes[1000] = {0};
      links[0]->ops->send_begin(links[0], &head);
      assert_int_equal(links[0]->ops->send(links[0], bytes, 1000), 1000);
    }
    tcp_pair_destroy(&pair);
    if (round == 0) before = descriptors_open();
  }
  assert_int_equal(descriptors_open(), before);
}

static void every_failed_allocation_is_an_error_and_no_leak(void **state)
{
  (void)state;
  struct tcp_pair pair;
  struct tt_link *links[2];
  int n = 1, failed = 1;
  for (; failed && n < 100; n++) {
    assert_int_equal(tcp_pair_prepare(&pair, "127.0.0.1:0"), 0);
    tt_alloc_fail_at(n);
    failed = tcp_pair_start(&pair) != 0 || tcp_pair_open(&pair, 0, links) != 0;
    tt_alloc_fail_at(0);
    tcp_pair_destroy(&pair);
  }
  assert_in_range(n, 8, 99);
}

static void every_interface_of_this_host_makes_it_usable(void **state)
{
  (void)state;
  struct tt_settings settings;
  char why[256] = "";
  assert_int_equal(tt_settings_load(&settings), tuttiSuccess);
  strcpy(settings.socket_ifname, "=lo");
  assert_null(tt_transport_tcp.unusable(&settings, why, sizeof why));
  strcpy(settings.socket_ifname, "=no-such-one");
  assert_ptr_equal(tt_transport_tcp.unusable(&settings, why, sizeof why), why);
  assert_non_null(strstr(why, "TUTTI_SOCKET_IFNAME"));
}

int main(void)
{
  alarm(120);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(links_carry_over_ipv4),
      cmocka_unit_test(both_may_send_many_megabytes_at_once),
      cmocka_unit_test(an_end_that_did_not_read_loses_nothing_that_it_sent),
      cmocka_unit_test(a_kernel_that_takes_little_at_a_time_loses_nothing),
      cmocka_unit_test(crc_can_be_forced_on_loopback),
      cmocka_unit_test(crc_is_on_between_different_addresses),
      cmocka_unit_test(path_names_interface_and_addresses),
      cmocka_unit_test(a_client_may_come_before_it_is_expected),
      cmocka_unit_test(an_unknown_congestion_control_is_named),
      cmocka_unit_test(cubic_is_taken_where_the_system_has_bbr_and_its_own_on_request),
      cmocka_unit_test(only_the_last_client_that_makes_sense_is_kept),
      cmocka_unit_test(a_peer_that_never_comes_is_an_error_after_the_timeout),
      cmocka_unit_test(without_a_listener_nobody_is_reached),
      cmocka_unit_test(a_late_reader_loses_nothing),
      cmocka_unit_test(the_descriptor_wakes_a_reader_and_a_full_sender),
      cmocka_unit_test(nothing_is_left_after_200_rounds),
      cmocka_unit_test(every_failed_allocation_is_an_error_and_no_leak),
      cmocka_unit_test(every_interface_of_this_host_makes_it_usable),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
